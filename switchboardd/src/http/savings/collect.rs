//! Collects what `savings` counts: all current suites, sessions and children of the daemon.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use switchboard_definitions::definition::Launch;
use switchboard_definitions::discover::host_files::HostSet;
use switchboard_wire::envelope::string;

use crate::catalog::Catalog;
use crate::pool::Pool;
use crate::savings::snapshot::{
    PoolUsage, SavingsSnapshot, SessionRow, SuiteRow, SuiteTools, ToolsKnown, WorkspaceView,
};
use crate::session::Session;
use crate::state::Daemon;
use crate::suite::{ShownForm, Suite};
use switchboard_guard::process_tree::{memory_of, memory_of_copy, proportional};

/// Maps the file and name of a suite's definition to the index of its row.
type SuiteRowIndex = HashMap<(PathBuf, String), usize>;

/// Reads manifests and `/proc`, so it must not run on the event loop.
pub(super) fn collect(daemon: &Daemon) -> SavingsSnapshot {
    let mut all = SavingsSnapshot { daemon: proportional(std::process::id()), ..SavingsSnapshot::default() };
    let mut places = SuiteRowIndex::new();
    let catalogs = std::iter::once((None, daemon.catalog()))
        .chain(daemon.workspaces.all().into_iter().map(|known| (known.root.clone(), known.catalog())));
    let pools = daemon.workspace_loader.pools.all();
    for (root, catalog) in catalogs {
        add_view(&mut all, (root.clone(), None, &*catalog), &pools, &mut places);
        for (hosts, catalog) in catalog.of_hosts() {
            add_view(&mut all, (root.clone(), Some(hosts), &**catalog), &pools, &mut places);
        }
    }
    for session in daemon.sessions.all() {
        if !session.caller.is_command_line() {
            let row = session_row(&all, &session);
            all.sessions.push(row);
        }
    }
    all
}

fn session_row(all: &SavingsSnapshot, session: &Session) -> SessionRow {
    let workspace = session.workspace();
    let root = workspace.root.clone();
    let host = session.file_reader(&workspace, || session.caller.profile().client_name());
    let host = host.filter(|_| session.face.child().is_none());
    let is_of_host =
        |view: &WorkspaceView| view.hosts.zip(host).is_some_and(|(hosts, host)| hosts.contains(host));
    let own = all.views.iter().position(|view| view.root == root && is_of_host(view));
    let view = own.or_else(|| all.views.iter().position(|view| view.root == root)).unwrap_or(0);
    let usage = session.caller.usage();
    let (used, fetched) =
        usage.map(|usage| (usage.used().collect(), usage.fetched().to_vec())).unwrap_or_default();
    SessionRow {
        client: session.caller.profile().client_name(),
        folder: session.folder.clone(),
        view,
        child: session.face.child().map(ToOwned::to_owned),
        used,
        fetched,
        shim: session.shim().and_then(proportional),
    }
}

fn add_view(
    all: &mut SavingsSnapshot,
    (root, hosts, catalog): (Option<PathBuf>, Option<HostSet>, &Catalog),
    pools: &[Arc<Pool>],
    places: &mut SuiteRowIndex,
) {
    let mut suites = Vec::new();
    for (at, suite) in catalog.suites.iter().enumerate() {
        let which = (suite.definition.file.clone(), suite.definition.name.clone());
        // The user's own suites are in every view, but are counted once.
        let place = *places.entry(which).or_insert_with(|| {
            let is_suite = catalog.shown_form(suite).0 == ShownForm::Suite;
            let mut row = suite_row(all, root.clone(), (suite, is_suite), &catalog.listed_entries(at));
            row.pool_usage = suite.pool.as_ref().map(|pool| pool_usage(pool, pools));
            all.suites.push(row);
            all.suites.len() - 1
        });
        suites.push(place);
    }
    let instructions = all.text(catalog.read_by_every_host());
    all.views.push(WorkspaceView { root, hosts, instructions, suites });
}

fn suite_row(
    all: &mut SavingsSnapshot,
    workspace: Option<PathBuf>,
    (suite, is_suite): (&Suite, bool),
    entries: &[String],
) -> SuiteRow {
    let manifest = suite.manifest();
    let known = match (&manifest, &suite.pool) {
        _ if suite.is_held() => ToolsKnown::Held,
        (_, None) => ToolsKnown::Misconfigured,
        (None, Some(_)) => ToolsKnown::No,
        (Some(manifest), Some(_)) => {
            let tools = &manifest.tools.tools;
            let mut listed: Vec<_> = tools.iter().map(|tool| all.definition(tool.raw.get())).collect();
            let said = manifest.server_info.instructions.as_ref().and_then(|said| string(&**said));
            if let Some(said) = said.filter(|said| !said.trim().is_empty()) {
                listed.push(all.instructions(&said));
            }
            let exposed = |name: &str| suite.settings.expose.permits(name);
            ToolsKnown::Yes(SuiteTools {
                tools: tools.len(),
                hidden: tools.iter().filter(|tool| !exposed(&tool.name)).count(),
                listed,
                introspection: all.text(suite.introspection(&manifest.tools)),
            })
        }
    };
    SuiteRow {
        name: suite.name.clone(),
        child: suite.child_name().to_owned(),
        workspace,
        known,
        shown: all.definitions(entries),
        is_suite,
        pool_usage: None,
    }
}

/// `pools`: all that there are, for those that workspaces have of this one.
fn pool_usage(pool: &Arc<Pool>, pools: &[Arc<Pool>]) -> PoolUsage {
    let of_workspaces: Vec<&Arc<Pool>> = pools.iter().filter(|one| one.is_workspace_pool_of(pool)).collect();
    let running: Vec<_> =
        std::iter::once(pool).chain(of_workspaces.iter().copied()).flat_map(|pool| pool.running()).collect();
    let guards: Vec<u32> = running.iter().filter_map(|child| child.guard_pid()).collect();
    let sum =
        |of: fn(u32) -> u64| Some(guards.iter().map(|guard| of(*guard)).sum()).filter(|bytes| *bytes > 0);
    PoolUsage {
        fingerprint: pool.fingerprint(),
        of_workspaces: of_workspaces.iter().map(|pool| pool.fingerprint()).collect(),
        is_remote: matches!(pool.launch(), Launch::Remote(_)),
        children: running.len(),
        memory: sum(memory_of),
        copies: sum(memory_of_copy),
        start_ms: pool.start_took().map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
    }
}
