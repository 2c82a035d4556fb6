//! Receives messages of a remote child: bodies and stream events become messages, which are then dispatched
//! like the lines of a local child.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Response;
use switchboard_wire::framing::{Frame, Framing, MAX_MESSAGE};
use switchboard_wire::single_line::push_single_line;

use super::RemoteError;
use super::client::next_chunk;
use super::sse::{Event, Parser};
use crate::child::calls::CallOutcome;
use crate::child::{Child, ChildError, ChildId};

/// How long to wait for the end of a stream after the answer: a connection that ended cleanly can be reused.
const STREAM_END_WAIT: Duration = Duration::from_millis(100);

/// Where a broken stream can be resumed.
#[derive(Debug, Default)]
pub(super) struct ResumePoint {
    pub(super) last_id: Option<Box<str>>,
    pub(super) retry: Option<Duration>,
    /// Whether the stream had any events.
    pub(super) heard: bool,
}

/// How a stream ended.
#[derive(Debug)]
pub(super) enum StreamEnd {
    /// The expected answer arrived.
    Answered,
    /// The stream ended or broke before the answer; the reason.
    Open(String),
}

impl Child {
    /// Handles a body, or an event's data: one message, or a batch. `about`: the call that it
    /// arrived in response to.
    pub(super) fn on_body(self: &Arc<Self>, about: Option<ChildId>, body: &Bytes) {
        // From here on every message is a single line.
        let body = if body.contains(&b'\n') || body.contains(&b'\r') {
            let mut line = Vec::with_capacity(body.len());
            push_single_line(body, &mut line);
            Bytes::from(line)
        } else {
            body.clone()
        };
        let body = body.slice_ref(body.trim_ascii());
        self.on_frame_for(Frame::Message { body, framing: Framing::Line }, about);
    }

    /// Fails this call: it gets no answer.
    pub(super) fn fail(&self, id: ChildId, error: ChildError) {
        self.deliver(id, CallOutcome::Failed(error));
    }

    pub(super) fn owes(&self, id: ChildId) -> bool {
        self.calls().is_unanswered(id)
    }
}

/// Reads the events of a stream; `about` is the call that it answers, if any.
pub(super) async fn read_events(
    child: &Arc<Child>,
    about: Option<ChildId>,
    mut response: Response,
    resume_point: &mut ResumePoint,
) -> StreamEnd {
    let mut parser = Parser::new(MAX_MESSAGE);
    loop {
        let chunk = match next_chunk(&mut response).await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return StreamEnd::Open("ended its stream".to_owned()),
            Err(RemoteError::Cut { why }) => return StreamEnd::Open(why),
            Err(error) => return StreamEnd::Open(error.to_string()),
        };
        for event in parser.feed(&chunk) {
            resume_point.heard = true;
            on_event(child, about, event);
        }
        resume_point.retry = parser.retry().or(resume_point.retry);
        if let Some(id) = parser.last_id().filter(|id| resume_point.last_id.as_deref() != Some(*id)) {
            resume_point.last_id = Some(id.into());
        }
        if let (Some(_), Some(bytes)) = (about, parser.too_much()) {
            // The rest of it is not needed.
            on_event(child, about, Event::TooLong { bytes });
            return StreamEnd::Answered;
        }
        if about.is_some_and(|id| !child.owes(id)) {
            let _ = tokio::time::timeout(STREAM_END_WAIT, next_chunk(&mut response)).await;
            return StreamEnd::Answered;
        }
    }
}

pub(super) fn on_event(child: &Arc<Child>, about: Option<ChildId>, event: Event) {
    match event {
        Event::Message { name, data } if name.is_empty() || &*name == "message" => {
            child.on_body(about, &data)
        }
        Event::Message { name, .. } => {
            tracing::debug!(target: "server", server = child.name(), event = &*name, "event not known");
        }
        Event::TooLong { bytes } => {
            tracing::warn!(target: "server", server = child.name(), bytes, "skipped an event over the limit");
            if let Some(id) = about {
                child.deliver(id, CallOutcome::TooLong(bytes));
            }
        }
    }
}
