//! One child as it is: its own names and bytes, only ids and progress tokens are ours on the way.

use std::borrow::Cow;
use std::sync::Arc;

use switchboard_wire::envelope::{range_of, string};
use switchboard_wire::framing::push_single_line;
use switchboard_wire::members::{Members, remove_members};
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;
use tokio::time::Instant;

use super::offers::member;
use super::{Request, follow, initialize, set_level};
use crate::caller::Caller;
use crate::catalog::Catalog;
use crate::child::{ChildId, ToolList};
use crate::era::{ProtocolEra, schema};
use crate::error::Failure;
use crate::methods;
use crate::suite::login::{self, LoginOutcome};
use crate::suite::{ChildRequest, Suite, SuiteReply, outgoing};

pub(super) async fn answer(
    catalog: &Catalog,
    name: &str,
    caller: &Arc<Caller>,
    request: Request<'_>,
) -> Result<SuiteReply, Failure> {
    let suite = catalog.child(name).ok_or_else(|| Failure::NoSuchChild { child: name.to_owned() })?;
    request.set_suite(suite);
    let login_params = request.params.and_then(Members::of).filter(login::is_about_login);
    let bare = request
        .params
        .filter(|_| login_params.is_some())
        .map(|params| remove_members(params, |key| key == "inputResponses"));
    if let Some(told) = &login_params
        && let Some(again) = suite.resume_after_login(told).await?
    {
        return Ok(again);
    }
    let request = Request {
        params: bare.as_deref().and_then(|bare| Raw::parse(bare.as_bytes())).or(request.params),
        ..request
    };
    let mut said = dispatch(suite, caller, request).await;
    for _ in 0..login::LOGINS {
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

async fn dispatch(suite: &Suite, caller: &Arc<Caller>, request: Request<'_>) -> Result<SuiteReply, Failure> {
    match request.method {
        methods::INITIALIZE => initialize(suite, caller, request).await,
        methods::PING => Ok(SuiteReply::Own("{}".to_owned())),
        methods::SET_LEVEL => set_level(caller, request.params),
        methods::TOOLS_LIST => list_tools(suite, caller, request).await,
        methods::TOOLS_CALL => {
            let tool = called_tool(request.params)?;
            request.notes.iter().for_each(|note| note.tool(&tool));
            if !suite.settings.expose.permits(&tool) {
                return Ok(suite.not_allowed(&tool));
            }
            let said = forward(suite, caller, request, Some(&tool), None).await;
            if let Some(note) = request.notes
                && note.is_new_tool()
                && suite.has_tool(&tool)
            {
                note.tool_exists();
            }
            said
        }
        methods::SUBSCRIBE | methods::UNSUBSCRIBE => {
            let named = member(request.params, "uri")?;
            follow::answer(suite, caller, request, &named, &named.text).await
        }
        _ => forward(suite, caller, request, None, None).await,
    }
}

/// The tool that a call names: once, so that we and the child read the same.
fn called_tool(params: Option<Raw<'_>>) -> Result<String, Failure> {
    let params = params.and_then(Members::of).unwrap_or_default();
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
    request: Request<'_>,
) -> Result<SuiteReply, Failure> {
    let revision = initialize::negotiate(caller, request.params);
    // A child that ran before need not run to say who it is.
    if let Some(manifest) = suite.manifest() {
        return Ok(SuiteReply::Own(manifest.server_info.to_json_for(revision)));
    }
    let lease = suite.lease(caller, None, None).await?;
    Ok(SuiteReply::Own(lease.server_info().to_json_for(revision)))
}

/// Who it is, for a modern host.
pub(super) async fn discover(
    catalog: &Catalog,
    name: &str,
    caller: &Arc<Caller>,
) -> Result<SuiteReply, Failure> {
    let suite = catalog.child(name).ok_or_else(|| Failure::NoSuchChild { child: name.to_owned() })?;
    if let Some(server_info) = suite.server_info() {
        return Ok(SuiteReply::Own(server_info.for_discover()));
    }
    let lease = suite.lease(caller, None, None).await?;
    Ok(SuiteReply::Own(lease.server_info().for_discover()))
}

/// The list from what is known: of a child that does not run but did, and wherever `expose`, which
/// holds on every face, leaves something out.
fn known_tools(suite: &Suite, caller: &Caller, list: &ToolList) -> SuiteReply {
    let exposed = list.tools.iter().filter(|tool| suite.settings.expose.permits(&tool.name));
    let tools: Vec<_> = match caller.era() {
        ProtocolEra::Modern => exposed.map(|tool| Cow::Borrowed(tool.raw.get())).collect(),
        ProtocolEra::Legacy => exposed.map(|tool| schema::tool_for_legacy((&*tool.raw).into())).collect(),
    };
    SuiteReply::Own(rpc::tools_result(&tools.join(",")))
}

async fn list_tools(
    suite: &Suite,
    caller: &Arc<Caller>,
    request: Request<'_>,
) -> Result<SuiteReply, Failure> {
    let runs = suite.pool.as_ref().is_some_and(|pool| !pool.running().is_empty());
    if !runs && let Some(manifest) = suite.manifest() {
        return Ok(known_tools(suite, caller, &manifest.tools));
    }
    // Of a child behind HTTP not every tool can be used.
    if suite.settings.expose.is_open() && !suite.is_remote() {
        return forward(suite, caller, request, None, None).await;
    }
    let lease = suite.lease(caller, None, None).await?;
    let list = lease.tools(suite.limits, Instant::now()).await.map_err(|error| suite.failed(None, error))?;
    Ok(known_tools(suite, caller, &list))
}

/// A value within `params` that goes on as another one.
pub(super) struct Swap<'a> {
    pub(super) raw: Raw<'a>,
    /// As JSON.
    pub(super) with: String,
}

/// Sends a request on as it is, but for ids, tokens and what is swapped.
pub(super) async fn forward(
    suite: &Suite,
    caller: &Arc<Caller>,
    request: Request<'_>,
    tool: Option<&str>,
    swap: Option<Swap<'_>>,
) -> Result<SuiteReply, Failure> {
    request.set_suite(suite);
    let asked = Instant::now();
    let send_right = caller.send_queue(suite.child_name()).await;
    let token = request.params.and_then(Members::of).and_then(|params| outgoing::progress_token(&params));
    let lease = suite.lease_since(caller, tool, token.map(Raw::get), asked).await?;
    let params = |id, out: &mut Vec<u8>| {
        if let Some(params) = request.params {
            push_params(params, token, swap.as_ref(), id, out);
        }
    };
    let span = request.notes.and_then(|note| note.span);
    let call = suite
        .send(lease, caller, request.method, tool, token.map(Raw::get), span, params)
        .await
        .map_err(|error| suite.unavailable(tool, error))?;
    drop(send_right);
    let child_request =
        ChildRequest { method: request.method, subtool: tool, token: token.map(Raw::get), span, params };
    suite.await_response(call, caller, child_request).await
}

fn push_params(
    params: Raw<'_>,
    token: Option<Raw<'_>>,
    swap: Option<&Swap<'_>>,
    id: ChildId,
    out: &mut Vec<u8>,
) {
    let whole = params.get().as_bytes();
    let id = id.0.to_string();
    let mut changes =
        [token.map(|token| (token, id.as_str())), swap.map(|swap| (swap.raw, swap.with.as_str()))]
            .map(|change| change.map(|(raw, with)| (range_of(whole, raw.get()), with)));
    changes.sort_by_key(|change| change.as_ref().map(|(place, _)| place.start));
    let mut done = 0;
    for (place, with) in changes.into_iter().flatten() {
        push_single_line(&whole[done..place.start], out);
        out.extend_from_slice(with.as_bytes());
        done = place.end;
    }
    push_single_line(&whole[done..], out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_token_and_name_are_swapped() {
        let params = r#"{"z": 1.0,"_meta":{"progressToken":"t","k":[]},"name":"a_b","x":"a_b"}"#;
        let params = Raw::parse(params.as_bytes()).unwrap();
        let members = Members::of(params).unwrap();
        let token = outgoing::progress_token(&members);
        let swap = Swap { raw: members.get("name").unwrap(), with: "\"b\"".to_owned() };
        let mut out = Vec::new();
        push_params(params, token, Some(&swap), ChildId(7), &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"z": 1.0,"_meta":{"progressToken":7,"k":[]},"name":"b","x":"a_b"}"#
        );
        let mut out = Vec::new();
        push_params(params, None, None, ChildId(7), &mut out);
        assert_eq!(out, params.get().as_bytes());
    }
}
