//! The running of one request of a host, whichever way it came in: counted, registered and timed, answered, and ended
//! early when its host or the daemon's end calls it off.

use tokio::sync::oneshot;

use super::catch::catch;
use super::{Request, RequestContext, answer};
use crate::error::Failure;
use crate::methods;
use crate::metrics::{HostOperation, Operation};
use crate::session::{AbortReason, RequestGuard, SequenceTicket};

/// Has the face answer while the caller, or the daemon's end, may still call it off. The next message
/// of the session may go once this one has taken its place at its child. `None` if its host cancelled it.
pub async fn run_request(
    context: RequestContext<'_>,
    request: Request<'_>,
    ticket: Option<SequenceTicket>,
) -> Option<Vec<u8>> {
    let (running, aborted) = RunningRequest::begin(context, request);
    let notes = &running.operation.notes;
    let request = Request { notes: Some(notes), ..request };
    let answer = SequenceTicket::hold(ticket, catch(answer(context, request)));
    let failed = |failure: &Failure| {
        notes.failed(failure.kind(), failure);
        failure.answer(request.era(), request.method, request.id.get())
    };
    let answer = tokio::select! {
        biased;
        answer = answer => answer.unwrap_or_else(|| failed(&Failure::Panicked)),
        reason = aborted => match reason {
            Ok(AbortReason::ShuttingDown) => failed(&Failure::ShuttingDown),
            _ => return None,
        },
    };
    notes.ended();
    Some(answer)
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
    fn begin(context: RequestContext<'a>, request: Request<'_>) -> (Self, oneshot::Receiver<AbortReason>) {
        let RequestContext { daemon, session, face, via, parent, .. } = context;
        let is_awaited = request.method != methods::LISTEN;
        daemon.begin_request(is_awaited);
        let operation = daemon.services.metrics.begin(HostOperation {
            via,
            single: face.child().is_some(),
            method: request.method,
            id: request.id,
            meta: &request.params.meta,
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
