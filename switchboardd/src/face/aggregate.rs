//! The aggregate face: one suite per child, and the prompts and resources of all of them.

use std::sync::Arc;
use std::time::Duration;

use switchboard_mcp::era;
use switchboard_mcp::era::request_params::RequestParams;
use switchboard_mcp::methods;
use switchboard_wire::raw::Raw;
use switchboard_wire::visible::clipped;
use tokio::time::Instant;

use super::find::{self, FindOutcome};
use super::{HostRequest, RequestContext, consent, initialize, links, offers, set_level};
use crate::caller::Caller;
use crate::catalog::{CalledTool, Catalog};
use crate::changes::list_changes;
use crate::child::ListKind;
use crate::observe::metrics::OperationNotes;
use crate::pool::Pool;
use crate::savings::recorder::Fingerprint;
use crate::session::Session;
use crate::state::Daemon;
use crate::suite::failure::Failure;
use crate::suite::find_tool::nearest_suite;
use crate::suite::{MAX_ECHO, SuitePart, SuiteReply, SuspendableCall};

/// How long a list waits until it is known whether programs can be found.
const LOOK_TIMEOUT: Duration = Duration::from_millis(400);

pub(super) async fn answer(
    context: RequestContext<'_>,
    catalog: &Catalog,
    request: HostRequest<'_>,
) -> Result<SuiteReply, Failure> {
    let RequestContext { session, caller, .. } = context;
    match request.method {
        methods::TOOLS_CALL => call(context, catalog, request).await,
        methods::TOOLS_LIST => {
            look_for_programs(catalog).await;
            list(context, catalog, request)
        }
        methods::INITIALIZE => Ok(SuiteReply::Own(initialize(session, caller, request))),
        methods::PING => Ok(SuiteReply::Own("{}".to_owned())),
        methods::SET_LEVEL => set_level(caller, request.params),
        methods::PROMPTS_LIST => {
            offers::list(session, caller, catalog, ListKind::Prompts, request.params.raw).await
        }
        methods::RESOURCES_LIST => {
            offers::list(session, caller, catalog, ListKind::Resources, request.params.raw).await
        }
        methods::TEMPLATES_LIST => {
            offers::list(session, caller, catalog, ListKind::Templates, request.params.raw).await
        }
        methods::PROMPTS_GET => offers::prompt(catalog, caller, request).await,
        methods::RESOURCES_READ => offers::read(catalog, caller, request).await,
        methods::SUBSCRIBE | methods::UNSUBSCRIBE => offers::subscribe(catalog, caller, request).await,
        methods::COMPLETE => offers::complete(catalog, caller, request).await,
        method => Err(Failure::UnknownMethod { method: method.to_owned() }),
    }
}

async fn call(
    context: RequestContext<'_>,
    catalog: &Catalog,
    request: HostRequest<'_>,
) -> Result<SuiteReply, Failure> {
    let name = request
        .params
        .members
        .text("name")
        .ok_or_else(|| Failure::InvalidParams("`params.name` must be a string".to_owned()))?;
    if catalog.find_tool() == Some(&*name) {
        let (suite, instead, params) = match find::run(context.session, catalog, request).await {
            FindOutcome::Said(said) => return Ok(said),
            FindOutcome::ForSuite(suite, instead, params) => (suite, instead, params),
        };
        let params = RequestParams::read(Raw::parse(params.as_bytes()));
        // Not by its name: in the list that the host was shown, a server's own tool may have had that name.
        let called = CalledTool { suite, part: SuitePart::Found, own: None, instead };
        return call_tool(context, catalog, HostRequest { params: &params, ..request }, called).await;
    }
    let mut called = tool(context, catalog, &name, request.notes)?;
    if called.own.is_none() && called.part != SuitePart::Whole {
        called.instead = find::calling(context.session, catalog, called.suite, request);
    }
    call_tool(context, catalog, request, called).await
}

async fn call_tool(
    context: RequestContext<'_>,
    catalog: &Catalog,
    request: HostRequest<'_>,
    called: CalledTool<'_>,
) -> Result<SuiteReply, Failure> {
    let RequestContext { daemon, session, caller, .. } = context;
    let params = request.params;
    let (suite, search) = (called.suite, catalog.find_tool());
    let target = called.target(search);
    request.set_suite(suite);
    if suite.pending().is_some() && consent::may_ask(daemon, session, caller, suite) {
        if let Some(notes) = request.notes {
            notes.record_question();
            match target.own {
                Some(own) => suite.note_tool_call(own, params, notes),
                None => suite.note_call(params, notes),
            }
        }
        if caller.as_stateless().is_some() {
            let asked = ask_first(daemon.clone(), session.clone(), caller.clone(), request, called, search);
            return SuspendableCall::new(caller, suite, None, asked).run_until_input().await;
        }
        let since = Instant::now();
        let is_allowed = consent::ask(daemon, session, caller, suite).await;
        request.notes.iter().for_each(|notes| notes.record_user_time(since.elapsed()));
        if is_allowed {
            let catalog = context.catalog(None);
            let suite = catalog.child(suite.child_name()).unwrap_or(suite);
            let said = suite.run(caller, params, target, request.notes).await?;
            return Ok(links::rewrite_uris(&catalog, suite.child_name(), said));
        }
    }
    let said = suite.run(caller, params, target, request.notes).await?;
    Ok(links::rewrite_uris(catalog, suite.child_name(), said))
}

/// What a tool stands for, and what of it the caller may reach.
fn tool<'c>(
    context: RequestContext<'_>,
    catalog: &'c Catalog,
    name: &str,
    notes: Option<&OperationNotes>,
) -> Result<CalledTool<'c>, Failure> {
    let shown = context.session.shown_tools();
    let mut called = catalog.tool(name, shown.as_deref()).ok_or_else(|| {
        notes.iter().for_each(|notes| notes.unknown_suite(name));
        let was_shown = shown.as_ref().is_some_and(|shown| shown.get(name).is_some());
        let hint = match catalog.why_not_shown(name) {
            Some(why) => format!("; {why}"),
            None if was_shown => "; its server was removed: list the tools again".to_owned(),
            None => nearest_suite(&catalog.suites, name)
                .map_or(String::new(), |near| format!("; did you mean `{near}`?")),
        };
        Failure::InvalidParams(format!("Unknown tool: {}{hint}", clipped(name, MAX_ECHO)))
    })?;
    // Our own command names a server, not one of its tools.
    if called.part == SuitePart::ReadOnly && context.caller.is_command_line() {
        called.part = SuitePart::Whole;
    }
    Ok(called)
}

/// For a modern host: it gets the question as the result, and retries with the user's answer.
fn ask_first(
    daemon: Arc<Daemon>,
    session: Arc<Session>,
    caller: Arc<Caller>,
    request: HostRequest<'_>,
    called: CalledTool<'_>,
    search: Option<&'static str>,
) -> impl Future<Output = Result<SuiteReply, Failure>> + use<> {
    let child = called.suite.child_name().to_owned();
    let CalledTool { part, own, instead, .. } = called;
    let params = request.params.raw.map_or_else(|| "{}".to_owned(), |params| params.get().to_owned());
    async move {
        let params = RequestParams::read(Raw::parse(params.as_bytes()));
        let gone = || Failure::NoSuchChild { child: child.clone() };
        let client = || caller.profile().client_name();
        let before = session.catalog_for(client);
        consent::ask(&daemon, &session, &caller, before.child(&child).ok_or_else(gone)?).await;
        let catalog = session.catalog_for(client);
        let suite = catalog.child(&child).ok_or_else(gone)?;
        // No notes: if the user was asked, the request has already been answered with the question.
        let target = CalledTool { suite, part, own, instead };
        let target = target.target(search);
        let said = suite.run(&caller, &params, target, None).await?;
        Ok(links::rewrite_uris(&catalog, suite.child_name(), said))
    }
}

/// Has the list say which servers lack their program. It goes on without the hosts if that takes long, as with a slow
/// login shell; they hear of it then.
async fn look_for_programs(catalog: &Catalog) {
    let due: Vec<Arc<Pool>> = catalog.pools().filter(|pool| pool.may_lack_program()).cloned().collect();
    if due.is_empty() {
        return;
    }
    let changed = tokio::spawn(async move {
        let mut has_changed = false;
        for pool in &due {
            has_changed |= pool.look_for_program().await;
        }
        if has_changed {
            due[0].notify_lists_changed();
        }
        has_changed
    });
    if let Ok(Ok(true)) = tokio::time::timeout(LOOK_TIMEOUT, changed).await {
        catalog.renew_tools(Instant::now());
    }
}

/// Everything fits one page, so no cursor is valid.
fn list(
    context: RequestContext<'_>,
    catalog: &Catalog,
    request: HostRequest<'_>,
) -> Result<SuiteReply, Failure> {
    let cursor = request.params.members.get("cursor");
    match cursor.filter(|cursor| cursor.get() != "null") {
        Some(cursor) => Err(Failure::InvalidParams(format!("unknown cursor {}", cursor.get()))),
        None => {
            note_shown(context.daemon, context.caller, catalog);
            context.session.set_shown_tools(catalog.shown_tools());
            let with_meta = context.caller.profile().reads_tool_meta();
            Ok(SuiteReply::Own(catalog.tools_result(context.caller.era(), with_meta)))
        }
    }
}

/// Records for the savings report the suites that this host sees for the first time.
fn note_shown(daemon: &Daemon, caller: &Arc<Caller>, catalog: &Catalog) {
    let Some(mut usage) = caller.usage() else { return };
    let all = std::iter::once(Fingerprint::AGGREGATE).chain(catalog.pools().map(|pool| pool.fingerprint()));
    let new = usage.record_shown(catalog.generation, all);
    drop(usage);
    if !new.is_empty() {
        daemon.services.savings_recorder.record_shown(new.into_iter());
    }
}

fn initialize(session: &Session, caller: &Caller, request: HostRequest<'_>) -> String {
    let revision = initialize::negotiate(caller, request.params.raw);
    list_changes::note_host(session);
    serde_json::json!({
        "protocolVersion": revision,
        "capabilities": capabilities(),
        "serverInfo": era::server(),
        "instructions": session.catalog_for(|| caller.profile().client_name()).instructions(),
    })
    .to_string()
}

/// `initialize` for a modern host, without the members that every result has.
pub(super) fn discover(catalog: &Catalog) -> String {
    serde_json::json!({
        "supportedVersions": methods::MODERN_REVISIONS,
        "capabilities": capabilities(),
        "instructions": catalog.instructions(),
    })
    .to_string()
}

fn capabilities() -> serde_json::Value {
    serde_json::json!({
        "tools": { "listChanged": true },
        "prompts": { "listChanged": true },
        "resources": { "subscribe": true, "listChanged": true },
        "completions": {},
        "logging": {},
    })
}
