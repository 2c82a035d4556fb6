//! What a route or shim shows: all children as suites (the aggregate), or one child unchanged.

mod aggregate;
mod catch;
mod consent;
mod context;
mod find;
mod follow;
mod forward;
pub mod host_root;
mod initialize;
mod links;
mod listen;
mod modern;
mod offers;
mod requested_item;
mod run;
mod single;

use switchboard_mcp::era::request_meta::RequestMeta;
use switchboard_mcp::era::request_params::RequestParams;
use switchboard_mcp::era::{InvalidRequest, ProtocolEra};
use switchboard_mcp::log_level::LogLevel;
use switchboard_mcp::methods;
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;

use crate::caller::Caller;
use crate::catalog::Catalog;
use crate::changes::list_changes;
use crate::session::Session;
use crate::state::Daemon;
use crate::suite::SuiteReply;
use crate::suite::failure::Failure;

pub use crate::session::Face;
use context::HostRequest;
pub use context::{IncomingRequest, RequestContext, era_of};
pub use run::{record_refusal, repeat_request, run_request};

/// Answers a request with the whole message for the host. A call joins its child's queue before the first
/// `.await` that waits; the order of a session's messages depends on that.
async fn answer(
    context: RequestContext<'_>,
    catalog: &Catalog,
    request: HostRequest<'_>,
    claim: Result<Option<RequestMeta>, InvalidRequest>,
) -> Vec<u8> {
    let RequestContext { daemon, session, face, caller, .. } = context;
    match claim {
        Ok(None) => {}
        // Boxed: this future is larger than the legacy one, and rarer.
        Ok(Some(meta)) => {
            session.caller.update(|host| host.is_modern = true);
            return Box::pin(modern::answer(context, catalog, request, meta)).await;
        }
        Err(invalid) => {
            let failure = Failure::from(invalid);
            request.notes.iter().for_each(|note| note.record_failure(failure.kind(), &failure));
            return failure.answer(ProtocolEra::Modern, request.method, request.id.get());
        }
    }
    let said = match face {
        Face::Aggregate => aggregate::answer(context, catalog, request).await,
        Face::Child(name) => single::answer(catalog, name, caller, request).await,
    };
    match request.method {
        // Once it has seen a list, a host is notified of changes.
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
        // Only modern requests are answered with a question.
        Ok(SuiteReply::NeedsInput(_) | SuiteReply::Confirmed(_)) => {
            Failure::Panicked.answer(ProtocolEra::Legacy, request.method, request.id.get())
        }
        Ok(SuiteReply::Own(result) | SuiteReply::Refused { result, .. }) => {
            rpc::result(request.id.get(), &result)
        }
        Err(failure) => {
            tracing::debug!(target: "face", method = request.method, kind = failure.kind().as_str(), "{failure}");
            failure.answer(ProtocolEra::Legacy, request.method, request.id.get())
        }
    }
}

/// Replays a request that the host made to an earlier daemon. False if a child must see the request.
pub fn replay_request(daemon: &Daemon, session: &Session, request: IncomingRequest<'_>) -> bool {
    match request.method {
        methods::INITIALIZE => {
            initialize::negotiate(&session.caller, request.params);
            list_changes::note_host(session);
            list_changes::note_shown(session);
        }
        methods::SET_LEVEL => {
            if set_level(&session.caller, &RequestParams::read(request.params)).is_ok() {
                daemon.apply_log_level(&session.caller);
            }
        }
        _ => return false,
    }
    true
}

/// Handles a notification; all but two are ignored.
pub fn on_notification(daemon: &Daemon, session: &Session, method: &str, params: Option<Raw<'_>>) {
    if method == methods::ROOTS_CHANGED {
        daemon.roots_changed(&session.caller);
    } else if method == methods::CANCELLED
        // Callers without a session may use equal ids, so they cancel by closing the connection.
        && session.caller.mailbox().is_some()
        && let Some(id) =
            params.and_then(switchboard_wire::members::Members::of).and_then(|params| params.get("requestId"))
    {
        session.cancel(id.get());
    }
}

/// `logging/setLevel`: sets the lowest level that this caller receives.
fn set_level(caller: &Caller, params: &RequestParams<'_>) -> Result<SuiteReply, Failure> {
    let level = params
        .members
        .get("level")
        .and_then(|level| serde_json::from_str::<LogLevel>(level.get()).ok())
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
