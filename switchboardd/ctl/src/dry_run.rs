//! `switchboard --dry-run`: shows what hosts would see, and which servers are behind it, without a daemon.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_definitions::config::{Config, ConfigOwner, LastGood, UsableConfig};
use switchboard_definitions::document::Problem;
use switchboard_definitions::suite_name::derived;
use switchboard_wire::printable;

use super::CliExit;
use super::at_once::run_all;
use super::brief::brief;
use super::output::{columns_of, count, failed, indented, print, print_json, remark, say, tilde};
use crate::args::Args;
use switchboardd::Caller;
use switchboardd::Daemon;
use switchboardd::Failure;
use switchboardd::Locations;
use switchboardd::child::{RunLog, Tool, ToolList};
use switchboardd::daemon;
use switchboardd::summary;
use switchboardd::{CallContext, Suite};

/// How long a server may take to list its prompts and resources, once its tools are known.
const LIST_TIMEOUT: Duration = Duration::from_secs(20);

/// What is said of a server that runs once for each project.
pub(super) const OF_PROJECTS: &str = "starts when an editor uses it in a project";

/// A daemon inside of this command, which serves nobody.
pub(super) struct OfflineDaemon {
    pub(super) daemon: Arc<Daemon>,
    /// Mistakes in the personal config.
    mistakes: Vec<Problem>,
}

impl OfflineDaemon {
    pub(super) fn open(args: &Args) -> Result<Self, String> {
        Self::open_with(args, |_| {})
    }

    /// Shows all of the user's own servers, also those that are shown in the sessions of some projects only.
    pub(super) fn open_everywhere(args: &Args) -> Result<Self, String> {
        Self::open_with(args, |config| config.suites.values_mut().for_each(|suite| suite.workspaces = None))
    }

    fn open_with(args: &Args, change: impl FnOnce(&mut Config)) -> Result<Self, String> {
        let _ = switchboard_guard::memory::protect_memory();
        let home = daemon::home().map_err(|fatal| fatal.to_string())?;
        let file = daemon::config_file(&args.of_daemon(), &home);
        let state = daemon::state_folder(&home);
        // The version that a daemon would use.
        let UsableConfig { mut config, problems } =
            LastGood::new(&state).usable(&file, ConfigOwner::Personal);
        change(&mut config);
        let trust_roots = daemon::trust_roots(&args.of_daemon()).map_err(|fatal| fatal.to_string())?;
        let locations = Locations::new(&home, &state, &trust_roots);
        let daemon = Daemon::new(file, config, locations, String::new(), RunLog::unwritten());
        Ok(Self { daemon, mistakes: problems })
    }
}

pub(super) async fn run(args: &Args) -> CliExit {
    let OfflineDaemon { daemon, mistakes } = match OfflineDaemon::open(args) {
        Ok(offline) => offline,
        Err(fatal) => return failed(&fatal),
    };
    let workspace = daemon.workspace_loader.workspace(super::workspace(args).as_deref()).await;
    let catalog = workspace.catalog();
    let mut exit = if mistakes.is_empty() { CliExit::Ok } else { CliExit::Error };
    let problems = || mistakes.iter().chain(&catalog.problems);
    let mut told = Vec::new();
    if !args.json {
        problems().for_each(|problem| remark!("problem: {}", indented(problem)));
    }
    if catalog.suites.is_empty() && !args.json {
        say!(
            "no servers found in {} (globs: {})",
            catalog.config().folder.display(),
            catalog.config().discover_globs.join(", ")
        );
    }
    let caller = daemon.anonymous_session(&workspace).caller.clone();
    let jobs = catalog.suites.iter().map(|suite| (suite.child_name().to_owned(), subtools(suite, &caller)));
    let started = run_all("starting", jobs.collect()).await;
    let (mut failures, mut of_projects) = (Vec::new(), Vec::new());
    for (suite, started) in catalog.suites.iter().zip(started) {
        let (name, server, file) = (&suite.name, suite.child_name(), &suite.definition.file);
        if !args.json {
            let suite = if derived(server) == **name { String::new() } else { format!("suite {name}, ") };
            say!("{server}  ({suite}{})", tilde(&file.display().to_string()));
        }
        let mut one = json!({ "name": &**name, "server": server, "file": file });
        match started {
            Ok(tools) if args.json => one["tools"] = as_json(suite, &tools),
            Ok(tools) => {
                say!("  {}", indented(suite.description(&suite.facts())));
                show(suite, &tools);
            }
            Err(failure) if failure.needs_project() => {
                if !args.json {
                    say!("  {OF_PROJECTS}");
                }
                of_projects.push(server);
                one["ofProjects"] = json!(true);
            }
            Err(failure) => {
                exit = match failure {
                    Failure::Held { .. } => CliExit::Held,
                    _ => CliExit::ChildFailed,
                };
                remark!("  {}", indented(brief(&failure.to_string())));
                failures.push(server);
                one["error"] = json!(failure.to_string());
            }
        }
        one["description"] = json!(suite.description(&suite.facts()));
        told.push(one);
    }
    if args.json {
        let problems: Vec<String> = problems().map(ToString::to_string).collect();
        print_json(&json!({ "suites": told, "problems": problems }));
    } else if !told.is_empty() {
        say!("");
        summarized(told.len(), &failures, &of_projects).lines().for_each(|line| say!("{line}"));
    }
    daemon.services.registry.stop_all().await;
    exit
}

/// `9 of 13 servers answer; these do not: a, b`.
fn summarized(all: usize, failures: &[&str], of_projects: &[&str]) -> String {
    let all = all - of_projects.len();
    let rest = match of_projects {
        [] => String::new(),
        [one] => format!("\n`{one}` {OF_PROJECTS}"),
        several => format!("\nthese start when an editor uses them in a project: {}", several.join(", ")),
    };
    let answers = match failures {
        [] if all == 0 => return rest.trim_start().to_owned(),
        [] if all == 1 => "the server answers".to_owned(),
        [] => format!("all {all} servers answer"),
        _ => format!(
            "{} of {} answer{}; these do not: {} (`switchboard explain NAME` says more)",
            all - failures.len(),
            count(all, "server"),
            if all - failures.len() == 1 { "s" } else { "" },
            failures.join(", ")
        ),
    };
    answers + &rest
}

/// Starts the child and returns its tool list.
pub(super) async fn subtools(suite: &Suite, caller: &Arc<Caller>) -> Result<Arc<ToolList>, Failure> {
    let lease = suite.lease(CallContext::new(caller, None)).await?;
    let tools = lease
        .tools(suite.limits, tokio::time::Instant::now())
        .await
        .map_err(|error| suite.failed(None, error))?;
    // Its other lists are fetched and saved before it is stopped.
    if let Some(pool) = &suite.pool
        && tokio::time::timeout(LIST_TIMEOUT, pool.manifest_kept()).await.is_err()
    {
        remark!(
            "  its prompts and resources are not remembered: listing them takes longer than {} s",
            LIST_TIMEOUT.as_secs()
        );
    }
    Ok(tools)
}

/// Tools that hosts do not see are marked.
fn show(suite: &Suite, list: &ToolList) {
    let width = list.tools.iter().map(|tool| columns_of(&tool.name)).max().unwrap_or(0).min(40);
    for tool in &list.tools {
        let mark = if suite.settings.expose.permits(&tool.name) { ' ' } else { '-' };
        let line = summary(tool.description.as_deref().unwrap_or_default(), 80);
        let pad = width.saturating_sub(columns_of(&tool.name));
        print(&printable!("  {mark} {}{:pad$}  {line}", tool.name, "").trim_end());
    }
    let hidden = list.tools.iter().filter(|tool| !suite.settings.expose.permits(&tool.name)).count();
    let note = if hidden == 0 { String::new() } else { format!(", {hidden} hidden (-)") };
    say!("    {}{note}", count(list.tools.len(), "tool"));
}

fn as_json(suite: &Suite, list: &ToolList) -> Value {
    let one = |tool: &Tool| {
        let exposed = suite.settings.expose.permits(&tool.name);
        json!({ "name": tool.name, "exposed": exposed, "description": tool.description })
    };
    list.tools.iter().map(one).collect()
}
