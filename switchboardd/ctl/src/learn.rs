//! Starts servers once after `add` and `import`, so that what they offer is known, and described to hosts, when the
//! first session begins. Only definitions of the user's own, which the command has just written.

use std::path::PathBuf;
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use switchboard_wire::visible::visible;
use tokio::time::Instant;

use super::ask::{AskError, about, ask};
use super::at_once::run_all;
use super::brief::brief;
use super::daemon_session::request;
use super::dry_run::{self, OF_PROJECTS, OfflineDaemon};
use super::local_config::LocalConfig;
use super::output::{count, say};
use crate::args::Args;
use switchboardd::child::Tool;

/// How long all of them may take. The daemon answers sooner that a server is still starting, and goes on.
const LEARN_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a server that has started may take to list what it offers, and the daemon to show it.
const LISTS_TIMEOUT: Duration = Duration::from_secs(20);
const LISTED_TIMEOUT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

/// A server that was just defined.
#[derive(Debug, Clone)]
pub(super) struct NewServer {
    pub(super) name: String,
    /// The folder in whose sessions it is shown; `None`: everywhere.
    pub(super) shown_in: Option<PathBuf>,
}

impl NewServer {
    /// Servers of these names, as the user's config shows them.
    pub(super) fn named(args: &Args, names: &[String]) -> Vec<Self> {
        let local = LocalConfig::open_if_possible(args);
        let folder = |name: &str| local.as_ref()?.personal.config.suite(name).workspaces?.into_iter().next();
        names.iter().map(|name| Self { name: name.clone(), shown_in: folder(name) }).collect()
    }
}

/// What became of one start.
pub(super) struct LearnedServer {
    name: String,
    outcome: LearnOutcome,
}

enum LearnOutcome {
    /// The number of tools that hosts can see; `None` if it was not known in time.
    Tools(Option<usize>),
    /// It runs once for each project, and was not started.
    OfProjects,
    NotStarted(String),
}

impl LearnedServer {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Why it is not known that it works.
    pub(super) fn fault(&self) -> Option<String> {
        match &self.outcome {
            LearnOutcome::Tools(_) => None,
            LearnOutcome::OfProjects => Some(format!("it {OF_PROJECTS}")),
            LearnOutcome::NotStarted(_) => Some("it did not start".to_owned()),
        }
    }

    /// Continues the words "it".
    pub(super) fn sentence(&self) -> String {
        match &self.outcome {
            LearnOutcome::Tools(Some(tools)) => format!("was started once: {}", count(*tools, "tool")),
            LearnOutcome::Tools(None) => "was started once: it has not listed its tools yet".to_owned(),
            LearnOutcome::OfProjects => OF_PROJECTS.to_owned(),
            LearnOutcome::NotStarted(why) => format!("did not start: {why}"),
        }
    }

    pub(super) fn as_json(&self) -> Value {
        match &self.outcome {
            LearnOutcome::Tools(tools) => json!({ "server": self.name, "tools": tools }),
            LearnOutcome::OfProjects => json!({ "server": self.name, "ofProjects": true }),
            LearnOutcome::NotStarted(why) => json!({ "server": self.name, "error": why }),
        }
    }
}

/// Starts imported servers, and prints what became of them unless the user wants JSON.
pub(super) async fn learn_imported(args: &Args, servers: &[NewServer]) -> Vec<LearnedServer> {
    let learned = learn(args, servers).await;
    if !args.json {
        learned.iter().for_each(|one| say!("{}: it {}", visible(&one.name), visible(&one.sentence())));
        let is = |kind: fn(&LearnOutcome) -> bool| learned.iter().filter(|one| kind(&one.outcome)).count();
        let good = is(|outcome| matches!(outcome, LearnOutcome::Tools(_)));
        let bad = is(|outcome| matches!(outcome, LearnOutcome::NotStarted(_)));
        if good + bad > 1 {
            let fix = if bad == 0 { "" } else { "; `switchboard --dry-run` tries them again" };
            say!("{good} of {} answer{fix}", count(good + bad, "server"));
        }
    }
    learned
}

/// Starts these servers, all at once, in the daemon that runs; without one, here.
pub(super) async fn learn(args: &Args, servers: &[NewServer]) -> Vec<LearnedServer> {
    // A project that is gone has no sessions.
    let is_there = |server: &&NewServer| server.shown_in.as_ref().is_none_or(|folder| folder.is_dir());
    let servers: Vec<NewServer> = servers.iter().filter(is_there).cloned().collect();
    if servers.is_empty() {
        return Vec::new();
    }
    match ask(args, Method::GET, "/suites", None).await {
        Ok(_) => {
            let names = servers.iter().map(|server| server.name.clone());
            let starts = servers.iter().map(|server| bounded(&server.name, in_daemon(args, server)));
            run_all("starting", names.zip(starts).collect()).await
        }
        Err(AskError::NoDaemon(_)) => here(args, &servers).await,
        Err(error) => not_started(&servers, &error.to_string()),
    }
}

fn not_started(servers: &[NewServer], why: &str) -> Vec<LearnedServer> {
    let outcome = || LearnOutcome::NotStarted(why.to_owned());
    let one = |server: &NewServer| LearnedServer { name: server.name.clone(), outcome: outcome() };
    servers.iter().map(one).collect()
}

async fn bounded(name: &str, start: impl Future<Output = Result<LearnOutcome, String>>) -> LearnedServer {
    let outcome = tokio::time::timeout(LEARN_TIMEOUT, start).await;
    let slow = || Err(format!("it takes longer than {} s", LEARN_TIMEOUT.as_secs()));
    let not_started = |why: String| LearnOutcome::NotStarted(about_it(name, &brief(&why)));
    LearnedServer {
        name: name.to_owned(),
        outcome: outcome.unwrap_or_else(|_| slow()).unwrap_or_else(not_started),
    }
}

/// The reason without the name, which the user has just typed.
fn about_it(name: &str, why: &str) -> String {
    match why.strip_prefix(&format!("server `{name}` ")) {
        Some(rest) => format!("it {rest}"),
        None => why.to_owned(),
    }
}

async fn in_daemon(args: &Args, server: &NewServer) -> Result<LearnOutcome, String> {
    let place = about(server.shown_in.as_deref());
    let known =
        ask(args, Method::GET, &format!("/suites{place}"), None).await.map_err(|error| error.to_string())?;
    let suite =
        known["suites"].as_array().and_then(|all| all.iter().find(|suite| suite["child"] == server.name));
    let suite = suite.ok_or("the daemon does not find it")?;
    let name = suite["name"].as_str().unwrap_or_default().to_owned();
    if suite["state"] == "held" {
        return Err("it is held; `switchboard allow` shows it and asks".to_owned());
    }
    let wanted = request("tools/call", &json!({ "name": name, "arguments": { "action": "introspect" } }));
    let answer = ask(args, Method::POST, &format!("/proxy{place}"), Some(&wanted))
        .await
        .map_err(|error| error.to_string())?;
    if answer["result"]["_meta"]["switchboard"]["kind"] == "no_workspace" {
        return Ok(LearnOutcome::OfProjects);
    }
    let refusal = match answer["result"]["isError"] == true {
        true => answer["result"]["content"][0]["text"].as_str(),
        false => answer["error"]["message"].as_str(),
    };
    if let Some(why) = refusal {
        return Err(why.to_owned());
    }
    let tools = known_tools(args, &name, &place).await?;
    wait_listed(args, &name, &place).await?;
    Ok(LearnOutcome::Tools(tools))
}

/// The number of its tools, once the daemon has stored its lists.
async fn known_tools(args: &Args, suite: &str, place: &str) -> Result<Option<usize>, String> {
    let due = Instant::now() + LISTS_TIMEOUT;
    loop {
        let known = get_suite(args, suite, place).await?;
        if known["pool"]["isDescribed"] == true || Instant::now() >= due {
            return Ok(known["subtools"].as_u64().and_then(|tools| usize::try_from(tools).ok()));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Waits until new sessions are shown what is known about it: the daemon collects changes for a moment.
async fn wait_listed(args: &Args, suite: &str, place: &str) -> Result<(), String> {
    let due = Instant::now() + LISTED_TIMEOUT;
    while Instant::now() < due {
        let known = get_suite(args, suite, place).await?;
        let listed =
            ask(args, Method::POST, &format!("/proxy{place}"), Some(&request("tools/list", &json!({}))))
                .await
                .map_err(|error| error.to_string())?;
        let tools = listed["result"]["tools"].as_array();
        let entry = tools.and_then(|tools| tools.iter().find(|tool| tool["name"] == suite));
        // Without an entry, its own tools are shown.
        if entry.is_none_or(|entry| entry["description"] == known["description"]) {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn get_suite(args: &Args, suite: &str, place: &str) -> Result<Value, String> {
    let answer = ask(args, Method::GET, &format!("/suites/{suite}{place}"), None).await;
    answer.map_err(|error| error.to_string())
}

/// Starts them as children of this command, and ends them again.
async fn here(args: &Args, servers: &[NewServer]) -> Vec<LearnedServer> {
    let OfflineDaemon { daemon, .. } = match OfflineDaemon::open(args) {
        Ok(offline) => offline,
        Err(fatal) => return not_started(servers, &fatal),
    };
    let start = async |server: &NewServer| {
        let workspace = daemon.workspace_loader.workspace(server.shown_in.as_deref()).await;
        let (catalog, caller) = (workspace.catalog(), daemon.anonymous_session(&workspace).caller.clone());
        let suite = catalog.child(&server.name).ok_or("it was not found again")?;
        let exposed = |tool: &&Tool| suite.settings.expose.permits(&tool.name);
        match dry_run::subtools(suite, &caller).await {
            Ok(tools) => Ok(LearnOutcome::Tools(Some(tools.tools.iter().filter(exposed).count()))),
            Err(failure) if failure.needs_project() => Ok(LearnOutcome::OfProjects),
            Err(failure) => Err(failure.to_string()),
        }
    };
    let jobs =
        servers.iter().map(|server| (server.name.clone(), bounded(&server.name, start(server)))).collect();
    let learned = run_all("starting", jobs).await;
    daemon.services.registry.stop_all().await;
    learned
}
