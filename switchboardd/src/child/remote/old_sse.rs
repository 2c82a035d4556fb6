//! The transport of 2024-11-05: a stream that carries everything the server sends, whose first event names
//! the URL that messages are posted to. The stream cannot be resumed: when it ends, so does the child.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Response, Url};
use switchboard_wire::framing::MAX_MESSAGE;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::address::resolve_redirect;
use super::client::{content_type, next_chunk, refusal_bytes, shown};
use super::inbound::on_event;
use super::sse::{Event, Parser};
use super::{RemoteConnection, RemoteError, headers};
use crate::child::Child;

/// How long a stream may take to name the endpoint. A server of another kind may keep one
/// open and send nothing.
const ENDPOINT: Duration = Duration::from_secs(4);

pub(super) enum OldSseStart {
    /// A task reads it until the stream or the child ends.
    Stream(AbortHandle),
    /// The server has no such stream; its error.
    None(RemoteError),
}

pub(super) async fn open(
    child: &Arc<Child>,
    connection: &Arc<RemoteConnection>,
) -> Result<OldSseStart, RemoteError> {
    let stream = connection.get(headers::of_stream(&connection.state(), None)).await;
    let stream = match stream {
        Ok(stream) => stream,
        Err(error) if error.is_about_protocol() => return Ok(OldSseStart::None(error)),
        Err(error) => return Err(error),
    };
    let status = stream.status();
    if !status.is_success() {
        let said = shown(&refusal_bytes(stream).await);
        let error = RemoteError::Status { status: status.as_u16(), said };
        return if error.is_about_protocol() { Ok(OldSseStart::None(error)) } else { Err(error) };
    }
    let kind = content_type(&stream);
    if kind != "text/event-stream" {
        return Ok(OldSseStart::None(RemoteError::WrongContentType { content_type: shown(kind.as_bytes()) }));
    }
    let mut reader =
        OldSseReader { stream, parser: Parser::new(MAX_MESSAGE), waiting: Vec::new().into_iter() };
    let endpoint = match timeout(ENDPOINT, reader.endpoint(&connection.client.url)).await {
        Ok(endpoint) => endpoint?,
        Err(_) => None,
    };
    let Some(endpoint) = endpoint else { return Ok(OldSseStart::None(RemoteError::Unanswered)) };
    connection.change(|state| state.endpoint = Some(endpoint));
    let (child, connection) = (child.clone(), connection.clone());
    let reading = tokio::spawn(async move {
        tokio::select! {
            () = child.lifecycle.stop_requested() => {}
            why = reader.read(&child) => child.give_up(connection.without_values(RemoteError::Cut { why }.into())),
        }
    });
    Ok(OldSseStart::Stream(reading.abort_handle()))
}

struct OldSseReader {
    stream: Response,
    parser: Parser,
    waiting: std::vec::IntoIter<Event>,
}

impl OldSseReader {
    /// The URL that messages are posted to; `None` if the stream ends before naming it.
    async fn endpoint(&mut self, from: &Url) -> Result<Option<Url>, RemoteError> {
        loop {
            for event in self.waiting.by_ref() {
                if let Event::Message { name, data } = event
                    && &*name == "endpoint"
                {
                    let place = String::from_utf8_lossy(&data);
                    return resolve_redirect(from, place.trim()).map(Some).map_err(|to| match to {
                        Some(to) => RemoteError::CrossOriginRedirect { to },
                        None => RemoteError::BadRedirect,
                    });
                }
            }
            match next_chunk(&mut self.stream).await? {
                Some(chunk) => self.waiting = self.parser.feed(&chunk).into_iter(),
                None => return Ok(None),
            }
        }
    }

    /// Handles the server's messages until the stream ends, and returns why it ended.
    async fn read(mut self, child: &Arc<Child>) -> String {
        loop {
            self.waiting.by_ref().for_each(|event| on_event(child, None, event));
            match next_chunk(&mut self.stream).await {
                Ok(Some(chunk)) => self.waiting = self.parser.feed(&chunk).into_iter(),
                Ok(None) => return "ended its stream".to_owned(),
                Err(RemoteError::Cut { why }) => return why,
                Err(error) => return error.to_string(),
            }
        }
    }
}
