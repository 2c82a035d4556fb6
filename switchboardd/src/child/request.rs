//! A request to a child: registered, written for the child's era, then sent.
//!
//! It is registered first, because its id is also the progress token in its `params`.

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

/// A request to a child: its caller, method and tool.
#[derive(Debug, Clone, Copy)]
pub struct ChildRequest<'a> {
    /// `None` for a request of the daemon itself.
    pub caller: Option<&'a Arc<Caller>>,
    pub method: &'a str,
    /// Sets the tool that metrics record.
    pub tool: Option<&'a str>,
    /// The host's progress token, as the host wrote it.
    pub token: Option<&'a str>,
    /// Its parent span.
    pub span: Option<SpanContext>,
}

/// A request that is registered but not sent yet. Dropping it unregisters it.
pub struct OpenedRequest<'a> {
    child: &'a Arc<Child>,
    request: ChildRequest<'a>,
    id: ChildId,
    /// `None` once the request was sent.
    reply: Option<oneshot::Receiver<CallOutcome>>,
    begun: Instant,
    span: Option<(SpanContext, SpanContext)>,
    /// More than `COALESCE_ABOVE_CALLS` calls are in flight, so writes are coalesced.
    coalesce: bool,
    line: Vec<u8>,
    /// Offsets in `line`: the end of the method, and the start of the `params`.
    method_end: usize,
    params_start: usize,
}

impl Child {
    /// Registers a request; [`OpenedRequest::send`] sends it.
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

    /// Sends a request of the daemon itself. Empty `params` are omitted.
    pub(super) fn request(self: &Arc<Self>, method: &str, params: &[u8]) -> Result<InFlight, ChildError> {
        let request = ChildRequest { caller: None, method, tool: None, token: None, span: None };
        let mut opened = self.open_request(request)?;
        opened.params().extend_from_slice(params);
        opened.send()
    }

    /// Waits until a request that was refused with [`ChildError::Busy`] may be retried. Fails at `due`, or if
    /// the child reads nothing for `silence`.
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

    /// False for the handshake requests, which must not be cancelled.
    fn is_cancellable(&self) -> bool {
        self.method != methods::INITIALIZE && !self.is_probe()
    }
}

impl OpenedRequest<'_> {
    /// The request's id at the child, which is also its progress token.
    pub fn id(&self) -> ChildId {
        self.id
    }

    /// The buffer to append the `params` to, as JSON. If nothing is appended, the request has none.
    pub fn params(&mut self) -> &mut Vec<u8> {
        &mut self.line
    }

    /// Sends the request; the returned `InFlight` awaits the answer.
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

    /// The whole message, with `params` translated to the child's era and with its trace span.
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
    // It was made of checked parts.
    let params = std::str::from_utf8(&written).ok().filter(|text| !text.is_empty()).map(Raw::unchecked);
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
