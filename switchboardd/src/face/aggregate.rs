//! The aggregate face: one suite per child, and the prompts and resources of all of them.

use std::sync::Arc;

use switchboard_wire::envelope::string;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

use super::{Request, consent, links, offers, opening, set_level};
use crate::board::Board;
use crate::caller::Caller;
use crate::catalog::Catalog;
use crate::child::List;
use crate::era;
use crate::error::Failure;
use crate::methods;
use crate::session::Session;
use crate::suite::summary::summary;
use crate::suite::{Conversation, Said};
use crate::thrift::Mark;

/// Hosts show this much of the instructions; names beyond it would be cut anyway.
const INSTRUCTIONS: usize = 1800;
/// As much of what one server says of itself.
const OWN_INSTRUCTIONS: usize = 400;

pub(super) async fn answer(
    board: &Arc<Board>,
    session: &Arc<Session>,
    caller: &Arc<Caller>,
    catalog: &Catalog,
    request: Request<'_>,
) -> Result<Said, Failure> {
    match request.method {
        methods::TOOLS_CALL => call(board, session, caller, catalog, request).await,
        methods::TOOLS_LIST => list(board, caller, catalog, request),
        methods::INITIALIZE => Ok(Said::Ours(initialize(catalog, caller, request))),
        methods::PING => Ok(Said::Ours("{}".to_owned())),
        methods::SET_LEVEL => set_level(caller, request.params),
        methods::PROMPTS_LIST => offers::list(session, caller, catalog, List::Prompts, request.params).await,
        methods::RESOURCES_LIST => {
            offers::list(session, caller, catalog, List::Resources, request.params).await
        }
        methods::TEMPLATES_LIST => {
            offers::list(session, caller, catalog, List::Templates, request.params).await
        }
        methods::PROMPTS_GET => offers::prompt(catalog, caller, request).await,
        methods::RESOURCES_READ => offers::read(catalog, caller, request).await,
        methods::SUBSCRIBE | methods::UNSUBSCRIBE => offers::follow(catalog, caller, request).await,
        methods::COMPLETE => offers::complete(catalog, caller, request).await,
        method => Err(Failure::UnknownMethod { method: method.to_owned() }),
    }
}

async fn call(
    board: &Arc<Board>,
    session: &Arc<Session>,
    caller: &Arc<Caller>,
    catalog: &Catalog,
    request: Request<'_>,
) -> Result<Said, Failure> {
    let params = request.params.and_then(Members::of).unwrap_or_default();
    let name = params
        .text("name")
        .ok_or_else(|| Failure::InvalidParams("`params.name` must be a string".to_owned()))?;
    let suite =
        catalog.suite(&name).ok_or_else(|| Failure::InvalidParams(format!("Unknown tool: {name}")))?;
    request.is_for(suite);
    if suite.waiting().is_some() && consent::may_ask(board, session, caller, suite) {
        if caller.as_once().is_some() {
            let asked = ask_first(board.clone(), session.clone(), caller.clone(), request);
            return Conversation::new(caller, suite, None, asked).go_on().await;
        }
        if consent::ask(board, session, caller, suite).await {
            let catalog = session.workspace().catalog();
            let suite = catalog.suite(&name).unwrap_or(suite);
            let said = suite.run(caller, &params, request.note).await?;
            return Ok(links::renamed(&catalog, suite.child_name(), said));
        }
    }
    let said = suite.run(caller, &params, request.note).await?;
    Ok(links::renamed(catalog, suite.child_name(), said))
}

/// For a modern host: it gets the question as an answer, and comes back with the person's word.
fn ask_first(
    board: Arc<Board>,
    session: Arc<Session>,
    caller: Arc<Caller>,
    request: Request<'_>,
) -> impl Future<Output = Result<Said, Failure>> + use<> {
    let params = request.params.map_or_else(|| "{}".to_owned(), |params| params.get().to_owned());
    async move {
        let params = Raw::parse(params.as_bytes()).and_then(Members::of).unwrap_or_default();
        let name = params.text("name").unwrap_or_default();
        let unknown = || Failure::InvalidParams(format!("Unknown tool: {name}"));
        let before = session.workspace().catalog();
        consent::ask(&board, &session, &caller, before.suite(&name).ok_or_else(unknown)?).await;
        let catalog = session.workspace().catalog();
        let suite = catalog.suite(&name).ok_or_else(unknown)?;
        // Whoever asked has had an answer by then.
        let said = suite.run(&caller, &params, None).await?;
        Ok(links::renamed(&catalog, suite.child_name(), said))
    }
}

/// Everything fits one page, so there is no cursor that could be meant.
fn list(
    board: &Board,
    caller: &Arc<Caller>,
    catalog: &Catalog,
    request: Request<'_>,
) -> Result<Said, Failure> {
    let cursor = request.params.and_then(Members::of).and_then(|params| params.get("cursor"));
    match cursor.filter(|cursor| cursor.get() != "null") {
        Some(cursor) => Err(Failure::InvalidParams(format!("unknown cursor {}", cursor.get()))),
        None => {
            note_shown(board, caller, catalog);
            Ok(Said::Ours(catalog.tools_list.clone()))
        }
    }
}

/// The first time that a host is shown a suite, that is noted: it was spared the tools behind it.
fn note_shown(board: &Board, caller: &Arc<Caller>, catalog: &Catalog) {
    let Some(mut account) = caller.account() else { return };
    let all = std::iter::once(Mark::BOARD).chain(catalog.pools().map(|pool| pool.mark()));
    let new = account.shows(catalog.generation, all);
    drop(account);
    if !new.is_empty() {
        board.nursery.thrift.shown(new.into_iter());
    }
}

fn initialize(catalog: &Catalog, caller: &Caller, request: Request<'_>) -> String {
    let revision = opening::welcome(caller, request.params);
    serde_json::json!({
        "protocolVersion": revision,
        "capabilities": capabilities(),
        "serverInfo": era::server(),
        "instructions": instructions(catalog),
    })
    .to_string()
}

/// The same for a modern host, but for what every result has.
pub(super) fn discover(catalog: &Catalog) -> String {
    serde_json::json!({
        "supportedVersions": methods::MODERN_REVISIONS,
        "capabilities": capabilities(),
        "instructions": instructions(catalog),
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

/// What the host is told before it sees anything.
pub fn instructions(catalog: &Catalog) -> String {
    let mut text = String::from(
        "Each tool here is a suite that stands for one MCP server. Call it with {\"action\":\"introspect\"} first to see its subtools, then with {\"action\":\"call\",\"subtool\":…,\"args\":{…}}. Suites: ",
    );
    let mut first = true;
    for suite in &catalog.suites {
        if text.len() + suite.name.len() > INSTRUCTIONS {
            text.push_str(", …");
            break;
        }
        if !first {
            text.push_str(", ");
        }
        first = false;
        text.push_str(&suite.name);
    }
    if catalog.suites.is_empty() {
        text.push_str("none yet");
    }
    // What the servers themselves have to say, as far as there is room, and it is at hand: nobody waits for
    // a disk here.
    for suite in &catalog.suites {
        let manifest = suite.pool.as_ref().and_then(|pool| pool.manifest());
        let said = manifest.as_ref().and_then(|manifest| string(&**manifest.hello.instructions.as_ref()?));
        let Some(said) = said.filter(|said| !said.trim().is_empty()) else { continue };
        let said = format!("\n\n{}: {}", suite.name, summary(&said, OWN_INSTRUCTIONS));
        if text.len() + said.len() <= INSTRUCTIONS {
            text.push_str(&said);
        }
    }
    text
}
