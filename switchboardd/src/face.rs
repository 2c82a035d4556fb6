//! What a route or shim shows: all children as suites (the aggregate), or one child as it is.

mod aggregate;
mod consent;
mod follow;
mod initialize;
mod links;
mod listen;
mod modern;
mod offers;
mod single;

use std::sync::Arc;

use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;

use crate::caller::Caller;
use crate::daemon_state::Daemon;
use crate::era::{ProtocolEra, request_meta};
use crate::error::Failure;
use crate::list_changes;
use crate::log_level::LogLevel;
use crate::methods;
use crate::metrics::OperationNotes;
use crate::session::Session;
use crate::suite::{Suite, SuiteReply};
use crate::telemetry::trace::Context;

pub use crate::session::Face;
pub use aggregate::instructions;

/// A request on its way in.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub id: Raw<'a>,
    pub method: &'a str,
    pub params: Option<Raw<'a>>,
    /// Where is noted what becomes of it.
    pub notes: Option<&'a OperationNotes>,
    /// The span that it came with, beside what it says itself.
    pub parent: Option<Context>,
}

impl<'a> Request<'a> {
    pub fn new(id: Raw<'a>, method: &'a str, params: Option<Raw<'a>>) -> Self {
        Self { id, method, params, notes: None, parent: None }
    }

    pub fn with_parent_span(self, parent: Option<Context>) -> Self {
        Self { parent, ..self }
    }

    fn set_suite(&self, suite: &Suite) {
        self.notes.iter().for_each(|note| note.suite(&suite.metrics));
    }

    /// Notes how it went.
    fn record_outcome(&self, said: &Result<SuiteReply, Failure>) {
        let Some(note) = self.notes else { return };
        match said {
            Ok(said) => note.answered(said.error()),
            Err(failure) => note.failed(failure.kind(), failure),
        }
    }

    /// Which era it is of, right or wrong.
    pub fn era(&self) -> ProtocolEra {
        match request_meta::parse(self.method, self.params) {
            Ok(None) => ProtocolEra::Legacy,
            Ok(Some(_)) | Err(_) => ProtocolEra::Modern,
        }
    }
}

/// Answers a request: the whole message for the host. `caller` is the session's, or that of this one call. By its
/// first `.await` that waits, a call has taken its place in its child's queue; the session's order rests on that.
pub async fn answer(
    daemon: &Arc<Daemon>,
    face: &Face,
    session: &Arc<Session>,
    caller: &Arc<Caller>,
    request: Request<'_>,
) -> Vec<u8> {
    match request_meta::parse(request.method, request.params) {
        Ok(None) => {}
        // Larger than the other way, and rarer.
        Ok(Some(meta)) => {
            session.caller.update(|host| host.is_modern = true);
            return Box::pin(modern::answer(daemon, face, session, caller, request, meta)).await;
        }
        Err(invalid) => {
            let failure = Failure::from(invalid);
            request.notes.iter().for_each(|note| note.failed(failure.kind(), &failure));
            return failure.answer(ProtocolEra::Modern, request.method, request.id.get());
        }
    }
    let catalog = session.workspace().catalog();
    let said = match face {
        Face::Aggregate => aggregate::answer(daemon, session, caller, &catalog, request).await,
        Face::Child(name) => single::answer(&catalog, name, caller, request).await,
    };
    match request.method {
        // From what it was shown on, a host hears what changes.
        methods::PROMPTS_LIST | methods::RESOURCES_LIST | methods::TEMPLATES_LIST => {
            list_changes::note_shown(session)
        }
        methods::INITIALIZE if matches!(face, Face::Child(_)) => list_changes::note_shown(session),
        methods::SET_LEVEL if said.is_ok() => daemon.apply_log_level(caller),
        _ => {}
    }
    request.record_outcome(&said);
    match said {
        Ok(SuiteReply::Child(answer)) => answer.for_host(request.id.get()),
        Ok(SuiteReply::Error(error)) => rpc::error(request.id.get(), &error),
        // Only a modern request is answered with a question.
        Ok(SuiteReply::NeedsInput(_)) => {
            Failure::Panicked.answer(ProtocolEra::Legacy, request.method, request.id.get())
        }
        Ok(SuiteReply::Own(result)) => rpc::result(request.id.get(), &result),
        Err(failure) => {
            tracing::debug!(target: "face", method = request.method, kind = failure.kind(), "{failure}");
            failure.answer(ProtocolEra::Legacy, request.method, request.id.get())
        }
    }
}

/// Notes what a host said of itself to an earlier daemon. False for what a child has to hear of.
pub fn replay_request(daemon: &Daemon, session: &Session, request: Request<'_>) -> bool {
    match request.method {
        methods::INITIALIZE => {
            initialize::negotiate(&session.caller, request.params);
            list_changes::note_shown(session);
        }
        methods::SET_LEVEL => {
            if set_level(&session.caller, request.params).is_ok() {
                daemon.apply_log_level(&session.caller);
            }
        }
        _ => return false,
    }
    true
}

/// Takes in a notification; most mean nothing to a face that keeps no state for them.
pub fn on_notification(daemon: &Daemon, session: &Session, method: &str, params: Option<Raw<'_>>) {
    if method == methods::ROOTS_CHANGED {
        daemon.roots_changed(&session.caller);
    } else if method == methods::CANCELLED
        // Callers without a session count their ids alike; closing the connection is their way.
        && session.caller.mailbox().is_some()
        && let Some(id) =
            params.and_then(switchboard_wire::members::Members::of).and_then(|params| params.get("requestId"))
    {
        session.cancel(id.get());
    }
}

/// `logging/setLevel`: what this caller hears from now on.
fn set_level(caller: &Caller, params: Option<Raw<'_>>) -> Result<SuiteReply, Failure> {
    let level = params
        .and_then(switchboard_wire::members::Members::of)
        .and_then(|params| serde_json::from_str::<LogLevel>(params.get("level")?.get()).ok())
        .ok_or_else(|| {
            Failure::InvalidParams(
                "`level` must be one of debug, info, notice, warning, error, critical, alert, emergency"
                    .to_owned(),
            )
        })?;
    caller.update(|profile| {
        profile.log_level = level;
        profile.set_level = true;
    });
    Ok(SuiteReply::Own("{}".to_owned()))
}
