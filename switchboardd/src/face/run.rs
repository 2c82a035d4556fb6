//! Runs one request of a host, from any entry point: counts, registers and times it, answers it, and ends it
//! early when its host cancels it or the daemon aborts it.

use std::pin::pin;
use std::time::Duration;

use switchboard_mcp::era::request_meta;
use switchboard_mcp::era::request_params::RequestParams;
use switchboard_mcp::methods;
use switchboard_wire::members::Members;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::catch::catch;
use super::context::claimed_era;
use super::{HostRequest, IncomingRequest, RequestContext, answer};
use crate::observe::metrics::{EndedOperation, HostOperation, Operation, ReplyKind, ToolLabel, known_method};
use crate::session::{AbortReason, RequestGuard, SequenceTicket};
use crate::suite::failure::Failure;

/// Answers a request, unless its host cancels it (`None`) or the daemon shuts down first. `ticket` is
/// released once the request is in its child's queue; then the session's next message may run.
pub async fn run_request(
    context: RequestContext<'_>,
    incoming: IncomingRequest<'_>,
    ticket: Option<SequenceTicket>,
) -> Option<Vec<u8>> {
    let IncomingRequest { id, method, params } = incoming;
    let params = RequestParams::read(params);
    let claim = request_meta::parse(method, &params);
    let era = claimed_era(&claim);
    let client = match &claim {
        Ok(Some(meta)) => meta.client.clone(),
        _ => None,
    };
    let catalog = context.catalog(client.as_deref());
    let (running, aborted) = RunningRequest::begin(context, incoming, &params.meta, client);
    let notes = &running.operation.notes;
    let request = HostRequest { id, method, params: &params, notes: Some(notes) };
    // Pinned before it is wrapped: the wrappers then hold a pointer and not the state of the whole request.
    let mut work = pin!(answer(context, &catalog, request, claim));
    let answer = SequenceTicket::hold(ticket, catch(work.as_mut()));
    let failed = |failure: &Failure| {
        notes.record_failure(failure.kind(), failure);
        failure.answer(era, method, id.get())
    };
    let answer = tokio::select! {
        biased;
        answer = answer => answer.unwrap_or_else(|| failed(&Failure::Panicked)),
        reason = aborted => match reason {
            Ok(AbortReason::ShuttingDown) => failed(&Failure::ShuttingDown),
            _ => return None,
        },
    };
    notes.record_end();
    Some(answer)
}

/// Records a call that ends before it is run. `kind` says why.
pub fn record_refusal(context: RequestContext<'_>, incoming: IncomingRequest<'_>, kind: &'static str) {
    let params = RequestParams::read(incoming.params);
    let client = match request_meta::parse(incoming.method, &params) {
        Ok(Some(meta)) => meta.client,
        _ => None,
    };
    let catalog = context.catalog(client.as_deref());
    let name = params.members.text("name");
    let arguments = params.members.get("arguments").and_then(Members::of).unwrap_or_default();
    let shown = context.session.shown_tools();
    let (suite, tool) = match context.face.child() {
        Some(child) => (catalog.child(child), name),
        None => {
            let called = name.and_then(|name| catalog.tool(&name, shown.as_deref()));
            let own =
                called.as_ref().and_then(|called| called.own.clone()).map(|own| String::from(own).into());
            (called.map(|called| called.suite), own.or_else(|| arguments.text("subtool")))
        }
    };
    let refused = EndedOperation {
        at: Instant::now(),
        took: Duration::ZERO,
        user_time: Duration::ZERO,
        via: context.via,
        method: known_method(incoming.method),
        suite: suite.map(|suite| suite.metrics.clone()),
        tool: tool.map(|tool| ToolLabel::New(tool.into())),
        introspects: arguments.text("action").as_deref() == Some("introspect"),
        error: Some(kind),
        reply: ReplyKind::Answer,
        is_retry: false,
        details: None,
    };
    context.daemon.call_recorder.record(context.session, client, refused);
}

/// Repeats a request that an earlier daemon answered, for its side effects. The answer is dropped.
pub async fn repeat_request(context: RequestContext<'_>, incoming: IncomingRequest<'_>) {
    let IncomingRequest { id, method, params } = incoming;
    let params = RequestParams::read(params);
    let claim = request_meta::parse(method, &params);
    let client = claim.as_ref().ok().and_then(|claim| claim.as_ref()?.client.as_deref());
    let catalog = context.catalog(client);
    answer(context, &catalog, HostRequest { id, method, params: &params, notes: None }, claim).await;
}

/// A request in flight: its session can cancel it, the daemon waits for it, and metrics time it. Dropping it
/// ends all three and records it.
struct RunningRequest<'a> {
    context: RequestContext<'a>,
    /// False for `subscriptions/listen`: a draining daemon does not wait for it. Shims repeat it at the next
    /// daemon; over HTTP the stream ends, as the specification says.
    is_awaited: bool,
    operation: Operation,
    /// `clientInfo` of a modern request.
    client: Option<Box<str>>,
    registered: Option<RequestGuard>,
}

impl<'a> RunningRequest<'a> {
    fn begin(
        context: RequestContext<'a>,
        request: IncomingRequest<'_>,
        meta: &Members<'_>,
        client: Option<Box<str>>,
    ) -> (Self, oneshot::Receiver<AbortReason>) {
        let RequestContext { daemon, session, face, via, parent, .. } = context;
        let is_awaited = request.method != methods::LISTEN;
        daemon.begin_request(is_awaited);
        let operation = daemon.services.metrics.begin(HostOperation {
            via,
            single: face.child().is_some(),
            method: request.method,
            id: request.id,
            meta,
            parent,
            wants_arguments: daemon.call_recorder.wants_arguments(),
        });
        let (registered, aborted) = session.register_request(request.id.get());
        (Self { context, is_awaited, operation, client, registered: Some(registered) }, aborted)
    }
}

impl Drop for RunningRequest<'_> {
    fn drop(&mut self) {
        let daemon = self.context.daemon;
        drop(self.registered.take());
        let ended = daemon.services.metrics.end(&mut self.operation);
        daemon.call_recorder.record(self.context.session, self.client.take(), ended);
        if self.is_awaited {
            daemon.end_request();
        }
    }
}
