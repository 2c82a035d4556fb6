//! Prompts, resources, templates and completions of all children on the aggregate face. Lists come from
//! cached data and start no child; every other request is forwarded to the child that owns the item.

use std::sync::Arc;

use serde_json::json;
use switchboard_mcp::log_level::LogLevel;
use switchboard_mcp::methods;
use switchboard_wire::envelope::string;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;

use super::forward::forward;
use super::requested_item::{RequestedItem, member};
use super::{HostRequest, links};
use crate::caller::Caller;
use crate::caller::mailbox::MessageKind;
use crate::catalog::Catalog;
use crate::catalog::merged_items::MergedItems;
use crate::child::ListKind;
use crate::pool::PoolStatus;
use crate::session::Session;
use crate::suite::failure::Failure;
use crate::suite::{Suite, SuiteReply};

/// `_meta` key of an incomplete list.
const INCOMPLETE_KEY: &str = "switchboard/incomplete";

/// A page of a list; `_meta` names the children whose items are missing or stale.
pub(super) async fn list(
    session: &Session,
    caller: &Caller,
    catalog: &Catalog,
    list: ListKind,
    params: Option<Raw<'_>>,
) -> Result<SuiteReply, Failure> {
    let cursor = params.and_then(Members::of).and_then(|params| params.get("cursor"));
    let cursor = match cursor.filter(|cursor| !cursor.is_null()) {
        None => None,
        Some(cursor) => Some(string(cursor).ok_or_else(|| unknown_cursor(cursor))?),
    };
    let merged = current(catalog).await;
    let page = merged.page(list, cursor.as_deref());
    let page = page.ok_or_else(|| {
        Failure::InvalidParams(
            "the cursor is of no list that is known here; list from the beginning".to_owned(),
        )
    })?;
    let mut failures = list_failures(catalog);
    failures.extend(merged.refused(list).map(|refused| {
        let why =
            format!("`{}` is offered by several servers, and `conflicts.strategy` is `refuse`", refused.key);
        (refused.children.join(", "), why)
    }));
    if failures.is_empty() {
        return Ok(SuiteReply::Own(format!("{{{page}}}")));
    }
    for (child, why) in &failures {
        log_once(session, caller, child, why);
    }
    let named: Vec<_> = failures.iter().map(|(child, why)| json!({ "child": child, "why": why })).collect();
    Ok(SuiteReply::Own(format!(r#"{{{page},"_meta":{}}}"#, json!({ INCOMPLETE_KEY: named }))))
}

fn unknown_cursor(cursor: Raw<'_>) -> Failure {
    Failure::InvalidParams(format!("unknown cursor {}", cursor.get()))
}

/// Children whose lists may be missing or stale, with the reason.
fn list_failures(catalog: &Catalog) -> Vec<(String, String)> {
    let list_failure = |suite: &Suite| {
        let pool = suite.pool.as_ref()?;
        let failed = match pool.status() {
            PoolStatus::Failed | PoolStatus::CoolingDown | PoolStatus::Misconfigured => {
                pool.last_failure().map(|why| why.to_string())
            }
            _ => pool.list_failure().map(|why| why.to_string()),
        };
        Some((suite.child_name().to_owned(), failed?))
    };
    catalog.suites.iter().filter_map(list_failure).collect()
}

/// Logs a warning to the host, once per session and child. Anonymous callers are not tracked and get it every
/// time.
fn log_once(session: &Session, caller: &Caller, child: &str, why: &str) {
    let is_told = || !session.id.is_empty() && !session.may_ask(&format!("lists {child}"));
    if !caller.wants_level(LogLevel::Warning) || is_told() {
        return;
    }
    let data = format!("server `{child}`: {why}");
    let params = json!({ "level": "warning", "logger": "switchboard", "data": data }).to_string();
    caller.push(MessageKind::Log, rpc::notification(methods::LOG_MESSAGE, Some(&params)));
}

/// `prompts/get`: forwards to the child that owns the prompt.
pub(super) async fn prompt(
    catalog: &Catalog,
    caller: &Arc<Caller>,
    request: HostRequest<'_>,
) -> Result<SuiteReply, Failure> {
    let named = member(&request.params.members, "name")?;
    let owner = prompter(catalog, &named.text).await?;
    forward_to_owner(catalog, caller, request, &named, owner).await
}

/// `resources/read`: forwards to the child that owns the resource. URIs in the answer are those that the host
/// knows.
pub(super) async fn read(
    catalog: &Catalog,
    caller: &Arc<Caller>,
    request: HostRequest<'_>,
) -> Result<SuiteReply, Failure> {
    let named = member(&request.params.members, "uri")?;
    let owner = owner(catalog, &named.text).await?;
    forward_to_owner(catalog, caller, request, &named, owner).await
}

/// Forwards the request to the child that owns the offer, under the child's own name for it.
async fn forward_to_owner(
    catalog: &Catalog,
    caller: &Arc<Caller>,
    request: HostRequest<'_>,
    named: &RequestedItem<'_>,
    (suite, own): (&Suite, Box<str>),
) -> Result<SuiteReply, Failure> {
    let said = forward(suite, caller, request, named.swapped(&own)).await?;
    Ok(links::rewrite_uris(catalog, suite.child_name(), said))
}

/// `resources/subscribe` and `resources/unsubscribe`.
pub(super) async fn subscribe(
    catalog: &Catalog,
    caller: &Arc<Caller>,
    request: HostRequest<'_>,
) -> Result<SuiteReply, Failure> {
    let named = member(&request.params.members, "uri")?;
    let (suite, own) = owner(catalog, &named.text).await?;
    super::follow::answer(suite, caller, request, &named, &own).await
}

/// `completion/complete`: forwards to the child that owns the prompt or template.
pub(super) async fn complete(
    catalog: &Catalog,
    caller: &Arc<Caller>,
    request: HostRequest<'_>,
) -> Result<SuiteReply, Failure> {
    let about = request.params.members.get("ref").and_then(Members::of).unwrap_or_default();
    match about.text("type").as_deref() {
        Some("ref/prompt") => {
            let named = member(&about, "name")?;
            let (suite, own) = prompter(catalog, &named.text).await?;
            forward(suite, caller, request, named.swapped(&own)).await
        }
        Some("ref/resource") => {
            let named = member(&about, "uri")?;
            let (suite, own) = owner(catalog, &named.text).await?;
            forward(suite, caller, request, named.swapped(&own)).await
        }
        _ => Err(Failure::InvalidParams("`ref.type` must be `ref/prompt` or `ref/resource`".to_owned())),
    }
}

/// The merged items, after waiting for lists that children just reported as changed: the host that caused the
/// change will list them next.
async fn current(catalog: &Catalog) -> Arc<MergedItems> {
    for pool in catalog.suites.iter().filter_map(|suite| suite.pool.as_ref()) {
        pool.subscriptions().wait_until_renewed().await;
    }
    catalog.offers()
}

pub(super) async fn owner<'c>(catalog: &'c Catalog, shown: &str) -> Result<(&'c Suite, Box<str>), Failure> {
    let mut merged = catalog.offers();
    // A known resource is forwarded without waiting, to keep the session's order.
    if merged.resource(shown).is_none() {
        merged = current(catalog).await;
    }
    let (child, own) =
        merged.resource(shown).ok_or_else(|| Failure::NoSuchResource { uri: shown.to_owned() })?;
    Ok((suite(catalog, child)?, own))
}

/// The child that owns the prompt, and the child's own name for it.
async fn prompter<'c>(catalog: &'c Catalog, shown: &str) -> Result<(&'c Suite, Box<str>), Failure> {
    let mut merged = catalog.offers();
    if merged.prompt(shown).is_none() {
        merged = current(catalog).await;
    }
    let entry =
        merged.prompt(shown).ok_or_else(|| Failure::InvalidParams(format!("unknown prompt `{shown}`")))?;
    Ok((suite(catalog, &entry.child)?, entry.own.clone()))
}

fn suite<'c>(catalog: &'c Catalog, child: &str) -> Result<&'c Suite, Failure> {
    catalog.child(child).ok_or_else(|| Failure::NoSuchChild { child: child.to_owned() })
}
