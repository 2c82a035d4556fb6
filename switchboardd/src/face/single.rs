//! One child unchanged: its own names and bytes; only request ids and progress tokens are replaced.

use std::borrow::Cow;
use std::sync::Arc;

use switchboard_mcp::era::request_params::RequestParams;
use switchboard_mcp::era::{ProtocolEra, schema};
use switchboard_mcp::methods;
use switchboard_wire::envelope::string;
use switchboard_wire::members::{Members, remove_members};
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;
use tokio::time::Instant;

use super::forward::{forward, forward_call};
use super::requested_item::member;
use super::{HostRequest, follow, initialize, set_level};
use crate::caller::Caller;
use crate::catalog::Catalog;
use crate::child::ToolList;
use crate::suite::failure::Failure;
use crate::suite::login::{self, LoginOutcome};
use crate::suite::{CallContext, Suite, SuiteReply};

pub(super) async fn answer(
    catalog: &Catalog,
    name: &str,
    caller: &Arc<Caller>,
    request: HostRequest<'_>,
) -> Result<SuiteReply, Failure> {
    let suite = catalog.child(name).ok_or_else(|| Failure::NoSuchChild { child: name.to_owned() })?;
    request.set_suite(suite);
    let is_about_login = login::is_about_login(&request.params.members);
    let bare = request
        .params
        .raw
        .filter(|_| is_about_login)
        .map(|params| remove_members(params, |key| key == "inputResponses"));
    if is_about_login && let Some(again) = suite.resume_after_login(caller, &request.params.members).await? {
        return Ok(again);
    }
    let bare = bare.as_deref().and_then(|bare| Raw::parse(bare.as_bytes()));
    let bare = bare.map(|bare| RequestParams::read(Some(bare)));
    let request = HostRequest { params: bare.as_ref().unwrap_or(request.params), ..request };
    let mut said = dispatch(suite, caller, request).await;
    for _ in 0..login::MAX_LOGINS {
        let Err(failure) = &said else { break };
        said = match suite.log_in(caller, failure).await {
            Ok(LoginOutcome::LoggedIn) => dispatch(suite, caller, request).await,
            Ok(LoginOutcome::NeedsInput(asks)) => Ok(asks),
            Ok(LoginOutcome::NotPossible) => break,
            Err(failure) => Err(failure),
        };
    }
    said
}

async fn dispatch(
    suite: &Suite,
    caller: &Arc<Caller>,
    request: HostRequest<'_>,
) -> Result<SuiteReply, Failure> {
    match request.method {
        methods::INITIALIZE => initialize(suite, caller, request).await,
        methods::PING => Ok(SuiteReply::Own("{}".to_owned())),
        methods::SET_LEVEL => set_level(caller, request.params),
        methods::TOOLS_LIST => list_tools(suite, caller, request).await,
        methods::TOOLS_CALL => {
            let tool = called_tool(&request.params.members)?;
            request.notes.iter().for_each(|notes| suite.note_own_call(request.params, notes));
            if !suite.settings.expose.permits(&tool) {
                return Ok(suite.not_allowed(&tool));
            }
            let said = forward_call(suite, caller, request, &tool).await;
            if let Some(note) = request.notes
                && note.is_new_tool()
                && suite.has_tool(&tool)
            {
                note.tool_exists();
            }
            said
        }
        methods::SUBSCRIBE | methods::UNSUBSCRIBE => {
            let named = member(&request.params.members, "uri")?;
            follow::answer(suite, caller, request, &named, &named.text).await
        }
        _ => forward(suite, caller, request, None).await,
    }
}

/// The tool that a call names. A repeated `name` is refused, so that the daemon and the child read the same
/// one.
fn called_tool(params: &Members<'_>) -> Result<String, Failure> {
    let mut names = params.0.iter().filter(|(key, _)| key == "name");
    match (names.next(), names.next()) {
        (Some((_, name)), None) => string(*name).map(Into::into),
        _ => None,
    }
    .ok_or_else(|| Failure::InvalidParams("`params.name` must be there once, and a string".to_owned()))
}

async fn initialize(
    suite: &Suite,
    caller: &Arc<Caller>,
    request: HostRequest<'_>,
) -> Result<SuiteReply, Failure> {
    let revision = initialize::negotiate(caller, request.params.raw);
    // A child that ran before is described by its manifest and need not be started.
    if let Some(server_info) = suite.server_info() {
        return Ok(SuiteReply::Own(server_info.to_json_for(revision)));
    }
    let lease = suite.lease(CallContext::new(caller, None)).await?;
    Ok(SuiteReply::Own(lease.server_info().to_json_for(revision)))
}

/// The child's `server/discover` result, for a modern host.
pub(super) async fn discover(
    catalog: &Catalog,
    name: &str,
    caller: &Arc<Caller>,
) -> Result<SuiteReply, Failure> {
    let suite = catalog.child(name).ok_or_else(|| Failure::NoSuchChild { child: name.to_owned() })?;
    if let Some(server_info) = suite.server_info() {
        return Ok(SuiteReply::Own(server_info.for_discover()));
    }
    let lease = suite.lease(CallContext::new(caller, None)).await?;
    Ok(SuiteReply::Own(lease.server_info().for_discover()))
}

/// A tool list from cached data, filtered by `expose`, which applies on every face.
fn known_tools(suite: &Suite, caller: &Caller, list: &Arc<ToolList>) -> SuiteReply {
    let exposed = list.tools.iter().filter(|tool| suite.shows_of(list, &tool.name));
    let tools: Vec<_> = match caller.era() {
        ProtocolEra::Modern => exposed.map(|tool| Cow::Borrowed(tool.raw.get())).collect(),
        ProtocolEra::Legacy => exposed.map(|tool| schema::tool_for_legacy((&*tool.raw).into())).collect(),
    };
    SuiteReply::Own(rpc::tools_result(&tools.join(",")))
}

async fn list_tools(
    suite: &Suite,
    caller: &Arc<Caller>,
    request: HostRequest<'_>,
) -> Result<SuiteReply, Failure> {
    let runs = suite.pool.as_ref().is_some_and(|pool| !pool.running().is_empty());
    if !runs && let Some(manifest) = suite.shown_manifest() {
        return Ok(known_tools(suite, caller, &manifest.tools));
    }
    // Some tools of a remote child may be unusable, so its list is filtered.
    if suite.settings.expose.is_open() && !suite.is_remote() && !suite.holds_changes() {
        return forward(suite, caller, request, None).await;
    }
    let lease = suite.lease(CallContext::new(caller, None)).await?;
    let list = lease.tools(suite.limits, Instant::now()).await.map_err(|error| suite.failed(None, error))?;
    // Compared before it is shown.
    suite.held_drift(&list).await;
    Ok(known_tools(suite, caller, &list))
}
