//! A request to a child: registered, written in the words of the child's era, then sent.
//!
//! It is registered first, because its id is its progress token and stands in its `params`.

use std::sync::Arc;
use std::time::Duration;

use switchboard_mcp::era::{self, ProtocolEra, envelope};
use switchboard_mcp::methods;
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::calls::{CallOutcome, ChildId};
use super::in_flight::{CallTiming, InFlight};
use super::outbox::OutboxError;
use super::{Child, ChildError};
use crate::caller::Caller;
use crate::observe::metrics;
use crate::observe::telemetry::trace::SpanContext;

/// Above this many calls in flight, writes are coalesced: a busy child costs far fewer syscalls, and the
/// added latency is not noticeable.
const COALESCE_ABOVE_CALLS: usize = 4;

/// Whom a request to a child is for, and what it is about.
#[derive(Debug, Clone, Copy)]
pub struct ChildRequest<'a> {
    /// `None` for a request of our own.
    pub caller: Option<&'a Arc<Caller>>,
    pub method: &'a str,
    /// Sets the tool that metrics record.
    pub tool: Option<&'a str>,
    /// The host's progress token, as the host wrote it.
    pub token: Option<&'a str>,
    /// Its parent span.
    pub span: Option<SpanContext>,
}

/// A request that is registered and not sent yet. Dropping it takes it back.
pub struct OpenedRequest<'a> {
    child: &'a Arc<Child>,
    request: ChildRequest<'a>,
    id: ChildId,
    /// `None` once it was sent.
    reply: Option<oneshot::Receiver<CallOutcome>>,
    begun: Instant,
    span: Option<(SpanContext, SpanContext)>,
    /// There are others at this moment.
    coalesce: bool,
    line: Vec<u8>,
    /// Where the line goes on behind the method, and where its `params` begin.
    method_end: usize,
    params_start: usize,
}

impl Child {
    /// Registers a request, which is sent with [`OpenedRequest::send`].
    pub fn open_request<'a>(
        self: &'a Arc<Self>,
        request: ChildRequest<'a>,
    ) -> Result<OpenedRequest<'a>, ChildError> {
        let span = self.metrics.span_below(request.span);
        let begun = Instant::now();
        let (opened, coalesce) = {
            let mut calls = self.calls();
            let opened = calls.open(request.caller.cloned(), request.token.map(Into::into), begun);
            (opened, calls.in_flight() > COALESCE_ABOVE_CALLS)
        };
        let Some((id, reply)) = opened else { return Err(ChildError::Unsent) };
        let mut line = Vec::with_capacity(256);
        // The probe's id is a string, because some servers answer a numeric id properly only
        // after their handshake.
        let id_text = if request.is_probe() { format!("\"{}\"", id.0) } else { id.0.to_string() };
        rpc::push_request_start(&id_text, request.method, &mut line);
        let method_end = line.len();
        line.extend_from_slice(br#","params":"#);
        let params_start = line.len();
        let reply = Some(reply);
        Ok(OpenedRequest {
            child: self,
            request,
            id,
            reply,
            begun,
            span,
            coalesce,
            line,
            method_end,
            params_start,
        })
    }

    /// Sends a request of our own; it has no `params` if these are empty.
    pub(super) fn request(self: &Arc<Self>, method: &str, params: &[u8]) -> Result<InFlight, ChildError> {
        let request = ChildRequest { caller: None, method, tool: None, token: None, span: None };
        let mut opened = self.open_request(request)?;
        opened.params().extend_from_slice(params);
        opened.send()
    }

    /// Waits until a request that was refused with [`ChildError::Busy`] may be made again, as long as the child reads.
    pub async fn wait_for_room(&self, silence: Duration, due: Instant) -> Result<(), ChildError> {
        self.transport.wait_for_room(silence, due).await.map_err(|_| ChildError::Busy)
    }

    /// Sends a notification, or the answer to a question. Ends a local child that leaves
    /// too many bytes unread.
    pub fn notify(&self, body: &[u8]) {
        let mut line = Vec::with_capacity(body.len() + 1);
        line.extend_from_slice(body);
        line.push(b'\n');
        if self.transport.send(None, line, false, false) == Err(OutboxError::Full) && !self.is_remote() {
            self.give_up(ChildError::Busy);
        }
    }
}

impl ChildRequest<'_> {
    fn is_probe(&self) -> bool {
        self.method == methods::DISCOVER
    }

    /// False for what must not be cancelled, or not before the handshake.
    fn is_cancellable(&self) -> bool {
        self.method != methods::INITIALIZE && !self.is_probe()
    }
}

impl OpenedRequest<'_> {
    /// The id that the child knows it by, which is also its progress token.
    pub fn id(&self) -> ChildId {
        self.id
    }

    /// Where its `params` are to be written, as JSON; it has none if nothing is.
    pub fn params(&mut self) -> &mut Vec<u8> {
        &mut self.line
    }

    /// Sends it; the answer is awaited on what this returns.
    pub fn send(mut self) -> Result<InFlight, ChildError> {
        let line = self.finished_line();
        let ChildRequest { caller, method, tool, .. } = self.request;
        let sent = self.child.transport.send(Some(self.id), line, self.coalesce, caller.is_some());
        sent.map_err(|unsent| match unsent {
            OutboxError::Full => ChildError::Busy,
            OutboxError::Closed => ChildError::Unsent,
        })?;
        let timed = CallTiming {
            started_at: self.begun,
            method: metrics::known_method(method),
            tool: tool.map(|tool| self.child.metrics.tool(tool)),
            ended: None,
            span: self.span,
        };
        let reply = self.reply.take().expect("BUG: a request is sent once");
        let (child, cancellable) = (self.child.clone(), self.request.is_cancellable());
        Ok(InFlight { child, id: self.id, reply, open: true, cancellable, timed })
    }

    /// The whole message, with `params` of the child's era and within its span.
    fn finished_line(&mut self) -> Vec<u8> {
        let (mut line, start) = (std::mem::take(&mut self.line), self.params_start);
        let (era, caller) = (self.child.era(), self.request.caller);
        if era == ProtocolEra::Modern || caller.is_some_and(|caller| caller.as_stateless().is_some()) {
            translate(era, caller.map(|caller| &**caller), &mut line, start);
        }
        if let Some((span, _)) = self.span {
            let written = line.split_off(start);
            span.push_into(Raw::parse(&written), &mut line);
        }
        if line.len() == start {
            line.truncate(self.method_end);
        }
        line.extend_from_slice(b"}\n");
        line
    }
}

impl Drop for OpenedRequest<'_> {
    fn drop(&mut self) {
        if self.reply.is_some() {
            self.child.calls().retract(self.id);
        }
    }
}

/// Rewrites the `params` at the end of `line` for the child's era.
fn translate(era: ProtocolEra, caller: Option<&Caller>, line: &mut Vec<u8>, from: usize) {
    let written = line.split_off(from);
    let params = Raw::parse(&written);
    let stateless = caller.and_then(Caller::as_stateless);
    match (era, params) {
        (ProtocolEra::Legacy, Some(params)) if stateless.is_some() => {
            envelope::without_envelope(params, line)
        }
        // A modern host has already written the envelope.
        (ProtocolEra::Modern, Some(params))
            if stateless.is_some() && params.get().contains(era::VERSION_KEY) =>
        {
            line.extend_from_slice(&written);
        }
        (ProtocolEra::Modern, params) => {
            let envelope = caller.map_or_else(envelope::Envelope::ours, Caller::envelope);
            envelope::with_envelope(params, &envelope, line);
        }
        (ProtocolEra::Legacy, _) => line.extend_from_slice(&written),
    }
}
