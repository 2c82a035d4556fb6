//! One child as it is: its own names and bytes, only ids and progress tokens are ours on the way.

use std::borrow::Cow;
use std::sync::Arc;

use switchboard_wire::envelope::{place_of, string};
use switchboard_wire::framing::push_single_line;
use switchboard_wire::members::{Members, without};
use switchboard_wire::raw::Raw;
use tokio::time::Instant;

use super::offers::member;
use super::{Request, follow, opening, set_level};
use crate::caller::Caller;
use crate::catalog::Catalog;
use crate::child::{ChildId, ToolList};
use crate::era::{Era, schema};
use crate::error::Failure;
use crate::methods;
use crate::suite::login::{self, Entered};
use crate::suite::{Asked, Said, Suite, outgoing};

pub(super) async fn answer(
    catalog: &Catalog,
    name: &str,
    caller: &Arc<Caller>,
    request: Request<'_>,
) -> Result<Said, Failure> {
    let suite = catalog.child(name).ok_or_else(|| Failure::NoSuchChild { child: name.to_owned() })?;
    request.is_for(suite);
    let told = request.params.and_then(Members::of).filter(login::is_about_login);
    let bare = request
        .params
        .filter(|_| told.is_some())
        .map(|params| without(params, |key| key == "inputResponses"));
    if let Some(told) = &told
        && let Some(again) = suite.came_back(told).await?
    {
        return Ok(again);
    }
    let request = Request {
        params: bare.as_deref().and_then(|bare| Raw::parse(bare.as_bytes())).or(request.params),
        ..request
    };
    let mut said = act(suite, caller, request).await;
    for _ in 0..login::LOGINS {
        let Err(failure) = &said else { break };
        said = match suite.log_in(caller, failure).await {
            Ok(Entered::Yes) => act(suite, caller, request).await,
            Ok(Entered::Asks(asks)) => Ok(asks),
            Ok(Entered::No) => break,
            Err(failure) => Err(failure),
        };
    }
    said
}

async fn act(suite: &Suite, caller: &Arc<Caller>, request: Request<'_>) -> Result<Said, Failure> {
    match request.method {
        methods::INITIALIZE => initialize(suite, caller, request).await,
        methods::PING => Ok(Said::Ours("{}".to_owned())),
        methods::SET_LEVEL => set_level(caller, request.params),
        methods::TOOLS_LIST => list_tools(suite, caller, request).await,
        methods::TOOLS_CALL => {
            let tool = called_tool(request.params)?;
            request.note.iter().for_each(|note| note.tool(&tool));
            if !suite.settings.expose.permits(&tool) {
                return Ok(suite.not_allowed(&tool));
            }
            let said = forward(suite, caller, request, Some(&tool), None).await;
            if let Some(note) = request.note
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

async fn initialize(suite: &Suite, caller: &Arc<Caller>, request: Request<'_>) -> Result<Said, Failure> {
    let revision = opening::welcome(caller, request.params);
    // A child that ran before need not run to say who it is.
    if let Some(manifest) = suite.manifest() {
        return Ok(Said::Ours(manifest.hello.written_for(revision)));
    }
    let lease = suite.lease(caller, None, None).await?;
    Ok(Said::Ours(lease.hello().written_for(revision)))
}

/// Who it is, for a modern host.
pub(super) async fn discover(catalog: &Catalog, name: &str, caller: &Arc<Caller>) -> Result<Said, Failure> {
    let suite = catalog.child(name).ok_or_else(|| Failure::NoSuchChild { child: name.to_owned() })?;
    if let Some(hello) = suite.hello() {
        return Ok(Said::Ours(hello.for_discover()));
    }
    let lease = suite.lease(caller, None, None).await?;
    Ok(Said::Ours(lease.hello().for_discover()))
}

/// The list from what is known: of a child that does not run but did, and wherever `expose`, which
/// holds on every face, leaves something out.
fn known_tools(suite: &Suite, caller: &Caller, list: &ToolList) -> Said {
    let exposed = list.tools.iter().filter(|tool| suite.settings.expose.permits(&tool.name));
    let tools: Vec<_> = match caller.era() {
        Era::Modern => exposed.map(|tool| Cow::Borrowed(tool.raw.get())).collect(),
        Era::Legacy => exposed.map(|tool| schema::tool_for_legacy((&*tool.raw).into())).collect(),
    };
    Said::Ours(format!(r#"{{"tools":[{}]}}"#, tools.join(",")))
}

async fn list_tools(suite: &Suite, caller: &Arc<Caller>, request: Request<'_>) -> Result<Said, Failure> {
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
) -> Result<Said, Failure> {
    request.is_for(suite);
    let asked = Instant::now();
    let lane = caller.lane(suite.child_name()).await;
    let token = request.params.and_then(Members::of).and_then(|params| outgoing::progress_token(&params));
    let lease = suite.lease_since(caller, tool, token.map(Raw::get), asked).await?;
    let params = |id, out: &mut Vec<u8>| {
        if let Some(params) = request.params {
            push_params(params, token, swap.as_ref(), id, out);
        }
    };
    let span = request.note.and_then(|note| note.span);
    let call = suite
        .send(lease, caller, request.method, tool, token.map(Raw::get), span, params)
        .await
        .map_err(|error| suite.unavailable(tool, error))?;
    drop(lane);
    let asked = Asked { method: request.method, subtool: tool, token: token.map(Raw::get), span, params };
    suite.converse(call, caller, asked).await
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
            .map(|change| change.map(|(raw, with)| (place_of(whole, raw.get()), with)));
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
