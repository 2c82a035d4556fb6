//! `switchboard --dry-run`: what a host would be shown, and what is behind it, without a daemon.

use std::sync::Arc;

use super::Exit;
use super::output::print;
use crate::args::Args;
use crate::board::Board;
use crate::caller::Caller;
use crate::child::Ledger;
use crate::config::Config;
use crate::daemon;
use crate::error::Failure;
use crate::layer::Ground;
use crate::suite::Suite;
use crate::suite::summary::summary;

pub(super) async fn run(args: &Args) -> Exit {
    let home = match daemon::home() {
        Ok(home) => home,
        Err(fatal) => {
            eprintln!("switchboard: {fatal}");
            return Exit::Error;
        }
    };
    let file = daemon::config_file(args, &home);
    let config = match Config::load(&file) {
        Ok(config) => config,
        Err(problems) => {
            problems.iter().for_each(|problem| eprintln!("switchboard: {problem}"));
            return Exit::Error;
        }
    };
    let trust_roots = match daemon::trust_roots(args) {
        Ok(roots) => roots,
        Err(fatal) => {
            eprintln!("switchboard: {fatal}");
            return Exit::Error;
        }
    };
    let ground = Ground::new(&home, &daemon::state_folder(&home), &trust_roots);
    let board = Board::new(file, config, ground, String::new(), Ledger::unwritten());
    let workspace = board.workspace(super::workspace(args).as_deref()).await;
    let catalog = workspace.catalog();
    for problem in &catalog.problems {
        eprintln!("problem: {problem}");
    }
    if catalog.suites.is_empty() {
        print(&format!(
            "no servers found in {} (globs: {})",
            catalog.config().folder.display(),
            catalog.config().discover_globs.join(", ")
        ));
    }
    let mut exit = Exit::Ok;
    for suite in &catalog.suites {
        print(&format!("{}  ({}, {})", suite.name, suite.child_name(), suite.definition.file.display()));
        match subtools(suite, &board.strangers_of(&workspace).caller).await {
            Ok(()) => {}
            Err(failure @ Failure::Held { .. }) => {
                eprintln!("  {failure}");
                exit = Exit::Held;
            }
            Err(failure) => {
                eprintln!("  {failure}");
                exit = Exit::ChildFailed;
            }
        }
    }
    board.nursery.roster.clear().await;
    exit
}

/// Starts the child, prints its subtools with a mark on those that are not exposed.
async fn subtools(suite: &Suite, caller: &Arc<Caller>) -> Result<(), Failure> {
    let lease = suite.lease(caller, None, None).await?;
    let list = lease
        .tools(suite.limits, tokio::time::Instant::now())
        .await
        .map_err(|error| suite.failed(None, error))?;
    let width = list.tools.iter().map(|tool| tool.name.chars().count()).max().unwrap_or(0).min(40);
    for tool in &list.tools {
        let mark = if suite.settings.expose.permits(&tool.name) { ' ' } else { '-' };
        let line = summary(tool.description.as_deref().unwrap_or_default(), 80);
        print(format!("  {mark} {:width$}  {line}", tool.name).trim_end());
    }
    let hidden = list.tools.iter().filter(|tool| !suite.settings.expose.permits(&tool.name)).count();
    print(&format!("    {} subtools, {hidden} not exposed (-)", list.tools.len()));
    Ok(())
}
