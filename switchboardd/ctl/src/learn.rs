//! Starts servers once after `add` and `import`, so that what they offer is known, and described to hosts, when the
//! first session begins. Only definitions of the user's own, which the command has just written.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use switchboard_wire::visible::visible;

use super::ask::{AskError, ask};
use super::at_once::run_all;
use super::brief::brief;
use super::daemon_session::request;
use super::dry_run::{self, OF_PROJECTS, OfflineDaemon};
use super::output::{count, say};
use crate::args::Args;
use switchboardd::child::Tool;

/// How long all of them may take. The daemon answers sooner that a server is still starting, and goes on.
const LEARN_TIMEOUT: Duration = Duration::from_secs(60);

/// What became of one start.
pub(super) struct LearnedServer {
    name: String,
    outcome: LearnOutcome,
}

enum LearnOutcome {
    /// The number of tools that hosts can see.
    Tools(usize),
    /// It runs once for each project, and was not started.
    OfProjects,
    NotStarted(String),
}

impl LearnedServer {
    /// Continues the words "it".
    pub(super) fn sentence(&self) -> String {
        match &self.outcome {
            LearnOutcome::Tools(tools) => format!("was started once: {}", count(*tools, "tool")),
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

/// Starts imported servers, prints what became of them unless the user wants JSON, and returns that.
pub(super) async fn learn_imported(args: &Args, names: &[String]) -> Vec<Value> {
    let learned = learn(args, names).await;
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
    learned.iter().map(LearnedServer::as_json).collect()
}

/// Starts these servers, all at once, in the daemon that runs; without one, here.
pub(super) async fn learn(args: &Args, names: &[String]) -> Vec<LearnedServer> {
    if names.is_empty() {
        return Vec::new();
    }
    match ask(args, Method::GET, "/suites", None).await {
        Ok(known) => {
            let suite_of =
                |name: &str| known["suites"].as_array()?.iter().find(|suite| suite["child"] == name).cloned();
            let starts = names.iter().map(|name| bounded(name, in_daemon(args, suite_of(name))));
            run_all("starting", names.iter().cloned().zip(starts).collect()).await
        }
        Err(AskError::NoDaemon(_)) => here(args, names).await,
        Err(error) => not_started(names, &error.to_string()),
    }
}

fn not_started(names: &[String], why: &str) -> Vec<LearnedServer> {
    names
        .iter()
        .map(|name| LearnedServer { name: name.clone(), outcome: LearnOutcome::NotStarted(why.to_owned()) })
        .collect()
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

/// `suite`: the daemon's view of it.
async fn in_daemon(args: &Args, suite: Option<Value>) -> Result<LearnOutcome, String> {
    let suite = suite.ok_or("the daemon does not find it")?;
    let name = suite["name"].as_str().unwrap_or_default().to_owned();
    if suite["state"] == "held" {
        return Err("it is held; `switchboard allow` shows it and asks".to_owned());
    }
    let wanted = request("tools/call", &json!({ "name": name, "arguments": { "action": "introspect" } }));
    let answer = ask(args, Method::POST, "/proxy", Some(&wanted)).await.map_err(|error| error.to_string())?;
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
    let known =
        ask(args, Method::GET, &format!("/suites/{name}"), None).await.map_err(|error| error.to_string())?;
    let tools = known["subtools"].as_u64().and_then(|tools| usize::try_from(tools).ok());
    Ok(LearnOutcome::Tools(tools.unwrap_or(0)))
}

/// Starts them as children of this command, and ends them again.
async fn here(args: &Args, names: &[String]) -> Vec<LearnedServer> {
    let OfflineDaemon { daemon, .. } = match OfflineDaemon::open(args) {
        Ok(offline) => offline,
        Err(fatal) => return not_started(names, &fatal),
    };
    let workspace = daemon.workspaces.personal.clone();
    let (catalog, caller) = (workspace.catalog(), daemon.anonymous_session(&workspace).caller.clone());
    let start = async |name: &str| {
        let suite = catalog.child(name).ok_or("it was not found again")?;
        let exposed = |tool: &&Tool| suite.settings.expose.permits(&tool.name);
        match dry_run::subtools(suite, &caller).await {
            Ok(tools) => Ok(LearnOutcome::Tools(tools.tools.iter().filter(exposed).count())),
            Err(failure) if failure.needs_project() => Ok(LearnOutcome::OfProjects),
            Err(failure) => Err(failure.to_string()),
        }
    };
    let jobs = names.iter().map(|name| (name.clone(), bounded(name, start(name)))).collect();
    let learned = run_all("starting", jobs).await;
    daemon.services.registry.stop_all().await;
    learned
}
