//! One message to a remote child, and what comes of it.
//!
//! A request is sent again only where the server said that it did not take it: the session was forgotten, or a
//! header did not fit. What was cut off may have run, and is told as such.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::{Response, StatusCode};
use switchboard_wire::envelope::Message;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use tokio::time::{Instant, timeout};

use super::client::{Body, body as read_body, content_type, refusal_bytes, shown};
use super::inbound::{End, Mark, read_events};
use super::{Link, RemoteError, Talk, headers, shake};
use crate::child::calls::Reply;
use crate::child::{Child, ChildError, ChildId, Limits, Manner, ToolList};
use crate::era::HEADER_MISMATCH;
use crate::methods;

/// How long a message may take that nobody waits for.
const TELL: Duration = Duration::from_secs(30);

/// How long a list may take that a call waits for.
const LIST: Duration = Duration::from_secs(60);
const LIST_LIMITS: Limits = Limits { spawn: LIST, rpc: LIST, max: LIST };

/// Before a stream that broke is asked for again, unless the server says how long.
const RESUME: Duration = Duration::from_secs(1);
/// Streams in a row that end without a word.
const MAX_SILENT: usize = 5;

/// Where the answer to a request comes from.
enum Answered {
    Here,
    /// On the stream that the server has for all of them.
    Later,
}

/// Sends a request and takes in its answer. However this ends, the call is not left waiting.
pub(super) async fn ask(child: &Arc<Child>, link: &Arc<Link>, id: ChildId, body: Bytes) {
    // Not to listen is no sign of anything.
    let stands = child.calls().is_standing(id);
    let mut owed = Owed { child, id, error: None, later: false };
    match put(child, link, id, &body).await {
        Ok(Answered::Here) => {}
        Ok(Answered::Later) => owed.later = true,
        Err(error) => {
            // The next callers shake hands anew, and find out what it speaks now.
            if is_a_reason_to_begin_anew(&error) && !stands && child.hello.get().is_some() {
                child.replace();
            }
            owed.error = Some(link.told(error));
        }
    }
}

/// Sends a message that wants no answer; one that cannot be sent is lost.
pub(super) async fn tell(child: &Arc<Child>, link: &Arc<Link>, body: Bytes) {
    let talk = link.talk();
    let Ok(message) = Message::parse(&body) else { return };
    let headers = headers::of_message(&talk, &message, None);
    let sent = timeout(TELL, link.post(&talk, headers, body.clone(), None)).await;
    let why = match sent {
        Ok(Ok(response)) if response.status().is_success() => return,
        Ok(Ok(response)) => format!("HTTP status {}", response.status().as_u16()),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "too slow".to_owned(),
    };
    tracing::debug!(target: "child", child = child.name(), why, "a message was not taken");
}

/// A call that must not be left waiting.
struct Owed<'a> {
    child: &'a Arc<Child>,
    id: ChildId,
    error: Option<ChildError>,
    later: bool,
}

impl Drop for Owed<'_> {
    fn drop(&mut self) {
        if !self.later {
            // Nobody hears it if the answer came, or if it was taken back.
            self.child.fail(self.id, self.error.take().unwrap_or(RemoteError::Unanswered.into()));
        }
    }
}

fn is_a_reason_to_begin_anew(error: &ChildError) -> bool {
    match error {
        ChildError::Remote(RemoteError::Unreachable { .. } | RemoteError::Changed { .. }) => true,
        ChildError::Remote(error) => error.is_about_manner(),
        _ => false,
    }
}

async fn put(
    child: &Arc<Child>,
    link: &Arc<Link>,
    id: ChildId,
    body: &Bytes,
) -> Result<Answered, ChildError> {
    let message = Message::parse(body).expect("BUG: we write messages");
    let Message::Request { method, .. } = &message else { panic!("BUG: requests have an id") };
    let method = method.name();
    let opens = matches!(&*method, methods::INITIALIZE | methods::DISCOVER);
    let (mut forgotten, mut mismatched) = (false, false);
    loop {
        if !opens {
            // Whoever shakes hands anew goes first.
            drop(link.turn.lock().await);
        }
        let talk = link.talk();
        let tools = tools_for(child, &talk, &method).await?;
        let headers = headers::of_message(&talk, &message, tools.as_deref());
        let caller = child.calls().caller_of(id);
        let response = link.post(&talk, headers, body.clone(), caller).await?;
        let status = response.status();
        if status.is_success() {
            if method == methods::INITIALIZE {
                let session = response.headers().get(headers::SESSION).cloned();
                link.change(|talk| talk.session = session);
            }
            return take(child, link, &talk, id, response).await;
        }
        if status == StatusCode::NOT_FOUND && talk.session.is_some() && !forgotten {
            forgotten = true;
            shake::renew(child, link, &talk).await?;
            continue;
        }
        let said = refusal_bytes(response).await;
        let Some(error) = fault(&said) else {
            return Err(RemoteError::Status { status: status.as_u16(), said: shown(&said) }.into());
        };
        if code(error) == Some(HEADER_MISMATCH) && tools.is_some() && !mismatched {
            // What its tools want in headers is other than it was.
            mismatched = true;
            child.renew_tools(LIST_LIMITS).await?;
            continue;
        }
        if !opens && is_of_the_other_era(talk.manner, code(error)) {
            child.replace();
        }
        child.take_body(Some(id), &answer(id, error));
        return Ok(Answered::Here);
    }
}

/// Whether a refused request says that the server is not of the era that it was.
fn is_of_the_other_era(manner: Manner, code: Option<i64>) -> bool {
    match (manner, code) {
        // What servers refuse requests with that are of no session of theirs.
        (Manner::Modern, Some(code)) => (-32019..=-32000).contains(&code),
        (Manner::Legacy | Manner::OldSse, Some(code)) => (-32022..=-32020).contains(&code),
        (_, None) => false,
    }
}

/// The tools whose headers a request has to have.
async fn tools_for(
    child: &Arc<Child>,
    talk: &Talk,
    method: &str,
) -> Result<Option<Arc<ToolList>>, ChildError> {
    if talk.manner != Manner::Modern || method != methods::TOOLS_CALL {
        return Ok(None);
    }
    child.tools(LIST_LIMITS, Instant::now()).await.map(Some)
}

/// The error of a body that is an error answer, whatever its id is.
fn fault(body: &[u8]) -> Option<Raw<'_>> {
    let members = Raw::parse(body).and_then(Members::of)?;
    members.get("jsonrpc")?;
    members.get("error").filter(|error| error.get().starts_with('{'))
}

fn code(error: Raw<'_>) -> Option<i64> {
    Members::of(error)?.get("code")?.get().parse().ok()
}

fn answer(ChildId(id): ChildId, error: Raw<'_>) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{}}}"#, error.get()).into()
}

async fn take(
    child: &Arc<Child>,
    link: &Arc<Link>,
    talk: &Talk,
    id: ChildId,
    response: Response,
) -> Result<Answered, ChildError> {
    if talk.manner == Manner::OldSse {
        return Ok(Answered::Later);
    }
    match content_type(&response).as_str() {
        "text/event-stream" => follow(child, link, talk, id, response).await,
        _ if matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT) => {
            Err(RemoteError::Unanswered.into())
        }
        "application/json" => {
            match read_body(response).await? {
                Body::Whole(body) => child.take_body(Some(id), &body),
                Body::TooLong(bytes) => drop(child.deliver(id, Reply::TooLong(bytes))),
            }
            if child.owes(id) { Err(RemoteError::Unanswered.into()) } else { Ok(Answered::Here) }
        }
        other => Err(RemoteError::Foreign { content_type: shown(other.as_bytes()) }.into()),
    }
}

/// Reads the stream that a request was answered with, and asks a legacy server for the rest of it if it breaks.
async fn follow(
    child: &Arc<Child>,
    link: &Arc<Link>,
    talk: &Talk,
    id: ChildId,
    response: Response,
) -> Result<Answered, ChildError> {
    let mut mark = Mark::default();
    let mut silent = 0;
    let mut end = read_events(child, Some(id), response, &mut mark).await;
    loop {
        let why = match end {
            End::Answered => return Ok(Answered::Here),
            End::Open(why) => why,
        };
        silent = if std::mem::take(&mut mark.heard) { 0 } else { silent + 1 };
        let lost = || ChildError::from(RemoteError::Cut { why: why.clone() });
        if mark.last_id.is_none() || talk.manner == Manner::Modern || silent > MAX_SILENT {
            return Err(lost());
        }
        tokio::time::sleep(mark.retry.unwrap_or(RESUME)).await;
        let rest = link.get(headers::of_stream(talk, mark.last_id.as_deref())).await.map_err(|_| lost())?;
        if !rest.status().is_success() || content_type(&rest) != "text/event-stream" {
            return Err(lost());
        }
        end = read_events(child, Some(id), rest, &mut mark).await;
    }
}
