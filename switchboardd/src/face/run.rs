//! The running of one request of a host, whichever way it came in: counted, registered and timed, answered, and ended
//! early when its host or the daemon's end calls it off.

use switchboard_mcp::era::request_meta;
use switchboard_mcp::era::request_params::RequestParams;
use switchboard_mcp::methods;
use switchboard_wire::members::Members;
use tokio::sync::oneshot;

use super::catch::catch;
use super::context::claimed_era;
use super::{HostRequest, IncomingRequest, RequestContext, answer};
use crate::observe::metrics::{HostOperation, Operation};
use crate::session::{AbortReason, RequestGuard, SequenceTicket};
use crate::suite::failure::Failure;

/// Has the face answer while the caller, or the daemon's end, may still call it off. The next message
/// of the session may go once this one has taken its place at its child. `None` if its host cancelled it.
pub async fn run_request(
    context: RequestContext<'_>,
    incoming: IncomingRequest<'_>,
    ticket: Option<SequenceTicket>,
) -> Option<Vec<u8>> {
    let IncomingRequest { id, method, params } = incoming;
    let params = RequestParams::read(params);
    let claim = request_meta::parse(method, &params);
    let era = claimed_era(&claim);
    let (running, aborted) = RunningRequest::begin(context, incoming, &params.meta);
    let notes = &running.operation.notes;
    let request = HostRequest { id, method, params: &params, notes: Some(notes) };
    let catalog = context.session.workspace().catalog();
    let answer = SequenceTicket::hold(ticket, catch(answer(context, &catalog, request, claim)));
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

/// Answers a request that an earlier daemon has answered before, for what it changes here.
pub async fn repeat_request(context: RequestContext<'_>, incoming: IncomingRequest<'_>) {
    let IncomingRequest { id, method, params } = incoming;
    let params = RequestParams::read(params);
    let claim = request_meta::parse(method, &params);
    let catalog = context.session.workspace().catalog();
    answer(context, &catalog, HostRequest { id, method, params: &params, notes: None }, claim).await;
}

/// A request under way: its session can call it off, the daemon waits for it, and its time is taken. All of that ends
/// when this is dropped.
struct RunningRequest<'a> {
    context: RequestContext<'a>,
    /// Who listens asks again at the next daemon: shims do, and over HTTP the stream ends as the specification has it.
    /// So nobody waits for such a request.
    is_awaited: bool,
    operation: Operation,
    registered: Option<RequestGuard>,
}

impl<'a> RunningRequest<'a> {
    fn begin(
        context: RequestContext<'a>,
        request: IncomingRequest<'_>,
        meta: &Members<'_>,
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
        });
        let (registered, aborted) = session.register_request(request.id.get());
        (Self { context, is_awaited, operation, registered: Some(registered) }, aborted)
    }
}

impl Drop for RunningRequest<'_> {
    fn drop(&mut self) {
        let daemon = self.context.daemon;
        drop(self.registered.take());
        daemon.services.metrics.end(&mut self.operation);
        if self.is_awaited {
            daemon.end_request();
        }
    }
}
