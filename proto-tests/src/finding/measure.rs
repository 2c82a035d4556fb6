//! Asks with every intent, as a host, and looks at what comes back.

use serde_json::{Value, json};

use super::answer::{self, Entry, Place, Subtools};
use super::before;
use super::choice::{self, Choice};
use super::cost::{
    WHOLE_ARGUMENTS, call_arguments, definition_arguments, query_arguments, smallest_arguments,
};
use super::hosts::HOSTS;
use super::long::LongDefinitions;
use super::recorded::{ELEVEN, Intent, RecordedServer, fresh, heldout, tuned};
use super::tokens;
use crate::bins::bins;
use crate::daemon::DaemonProcess;
use crate::home::Home;
use crate::shim::{Shim, text_of};
use crate::wait::{TEST_TIMEOUT, until_true};

/// The name of the tool that searches all suites.
const FIND: &str = "find";

/// One way of showing servers to a model.
#[derive(Debug)]
pub struct Way {
    pub name: &'static str,
    pub start: Option<Start>,
    pub heldout: Option<Tally>,
    pub fresh: Option<Tally>,
    pub tuned: Option<Tally>,
}

/// What a model reads at the start of a session: `tools/list` and instructions.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    pub eleven: Size,
    pub sixteen: Size,
}

#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub bytes: usize,
    pub tokens: usize,
}

/// What became of some intents.
#[derive(Debug, Default)]
pub struct Tally {
    pub outcomes: Vec<Outcome>,
}

#[derive(Debug)]
pub struct Outcome {
    pub intent: Intent,
    pub place: Place,
    /// What was shown, in order.
    pub shown: Vec<String>,
    /// Bytes until the right subtool is called.
    pub cost: usize,
}

/// `introspect` of one server without a query.
#[derive(Debug)]
pub struct Whole {
    pub server: String,
    pub tools: usize,
    pub bytes: usize,
    /// How many subtools the model can call in each of [`HOSTS`].
    pub reach: [usize; 8],
}

#[derive(Debug)]
pub struct Finding {
    pub ways: Vec<Way>,
    pub wholes: Vec<Whole>,
    pub choices: Vec<Choice>,
    pub long_definitions: LongDefinitions,
}

impl Tally {
    pub fn count(&self, is: impl Fn(Place) -> bool) -> usize {
        self.outcomes.iter().filter(|outcome| is(outcome.place)).count()
    }

    pub fn share(&self, is: impl Fn(Place) -> bool) -> f64 {
        self.count(is) as f64 / self.outcomes.len() as f64
    }

    pub fn first(&self) -> f64 {
        self.share(|place| place == Place::First)
    }

    pub fn among_three(&self) -> f64 {
        self.share(|place| matches!(place, Place::First | Place::AmongThree))
    }

    pub fn missing(&self) -> usize {
        self.count(|place| place == Place::Missing)
    }

    pub fn median_cost(&self) -> usize {
        let mut costs: Vec<usize> = self.outcomes.iter().map(|outcome| outcome.cost).collect();
        costs.sort_unstable();
        costs[costs.len() / 2]
    }

    pub fn worst_cost(&self) -> usize {
        self.outcomes.iter().map(|outcome| outcome.cost).max().unwrap_or(0)
    }
}

/// Who answers `introspect`.
trait Suites {
    fn query(&mut self, server: &RecordedServer, query: &str) -> String;
    fn definition(&mut self, server: &RecordedServer, subtool: &str) -> String;
    fn whole(&mut self, server: &RecordedServer) -> String;
}

/// Suites as they were.
struct Before;

impl Suites for Before {
    fn query(&mut self, server: &RecordedServer, query: &str) -> String {
        before::introspect(server, Some(query))
    }

    fn definition(&mut self, server: &RecordedServer, subtool: &str) -> String {
        before::definition(server.tool(subtool))
    }

    fn whole(&mut self, server: &RecordedServer) -> String {
        before::introspect(server, None)
    }
}

/// How the daemon is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunConfig {
    Default,
    WithFind,
    /// One tool per server, also for those that mark some subtools as read-only.
    Unsplit,
    /// The servers' own tools where they cost fewer tokens.
    Auto,
}

/// A daemon with recorded servers that have all run, and a host.
pub struct Running {
    shim: Shim,
    /// `tools/list` and instructions of a new session.
    start: String,
    home: Home,
    has_find: bool,
    _daemon: DaemonProcess,
}

impl Running {
    pub fn start(servers: &[RecordedServer], config: RunConfig) -> Self {
        let home = Home::new();
        let find = config == RunConfig::WithFind;
        if find {
            home.config(&json!({"aggregate": {"find": true}}));
        }
        let settings = match config {
            RunConfig::Unsplit => Some(json!({"split": false})),
            RunConfig::Auto => Some(json!({"show": "auto"})),
            RunConfig::Default | RunConfig::WithFind => None,
        };
        if let Some(settings) = settings {
            let of = |server: &RecordedServer| (server.id.clone(), settings.clone());
            let suites: serde_json::Map<String, Value> = servers.iter().map(of).collect();
            home.config(&json!({"suites": suites}));
        }
        for server in servers {
            let entry = home.entry(&bins().replay_child, &[&server.id], &[]);
            home.definition(&server.id, &json!({"mcpServers": {&server.id: entry}}).to_string());
        }
        let daemon = home.daemon();
        let mut shim = home.shim();
        for server in servers {
            let text = ask(&mut shim, &server.suite(), WHOLE_ARGUMENTS);
            assert!(server.names().iter().all(|name| answer::contains_name(&text, name)), "{text}");
        }
        // Descriptions follow the manifests; they are there when two sessions in a row see the same.
        let mut start = String::new();
        until_true("the lists to settle", TEST_TIMEOUT, || {
            std::thread::sleep(std::time::Duration::from_millis(300));
            let now = session_start(&home);
            let is_settled = now == start;
            start = now;
            is_settled
        });
        let has_find = find && shim.tools().contains_key(FIND);
        Self { shim, start, has_find, _daemon: daemon, home }
    }

    /// Calls the subtool with its smallest arguments; the server echoes them. A suite that is split says which of its
    /// tools to use.
    fn call(&mut self, server: &RecordedServer, subtool: &str) {
        let arguments = call_arguments(server.tool(subtool));
        let mut text = ask(&mut self.shim, &server.suite(), &arguments);
        let writing = format!("{}_write", server.suite());
        if text.contains(&format!("call it with `{writing}`")) {
            text = ask(&mut self.shim, &writing, &arguments);
        }
        let echo = format!("{subtool} {}", smallest_arguments(server.tool(subtool)));
        assert_eq!(text, echo, "calling `{subtool}` of {} failed", server.id);
    }
}

impl Suites for Running {
    fn query(&mut self, server: &RecordedServer, query: &str) -> String {
        ask(&mut self.shim, &server.suite(), &query_arguments(query))
    }

    fn definition(&mut self, server: &RecordedServer, subtool: &str) -> String {
        ask(&mut self.shim, &server.suite(), &definition_arguments(subtool))
    }

    fn whole(&mut self, server: &RecordedServer) -> String {
        ask(&mut self.shim, &server.suite(), WHOLE_ARGUMENTS)
    }
}

fn ask(shim: &mut Shim, tool: &str, arguments: &str) -> String {
    text_of(&shim.request("tools/call", &format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#)))
}

/// What a new session reads: the `tools/list` result and the instructions.
fn session_start(home: &Home) -> String {
    let mut shim = home.raw_shim();
    let hello = shim.initialize();
    let list = shim.request("tools/list", "{}");
    let at = crate::transcript::place(&list, &["result"]).unwrap();
    format!("{}\n{}", &list[at], hello["result"]["instructions"].as_str().unwrap_or_default())
}

/// Measures everything.
pub fn measure() -> Finding {
    let servers = RecordedServer::all();
    let (heldout, fresh, tuned) = (heldout(), fresh(), tuned());
    let eleven = &servers[..ELEVEN];
    let mut now = Running::start(&servers, RunConfig::Default);
    let with_find = Running::start(&servers, RunConfig::WithFind);
    let mut with_find = with_find.has_find.then_some(with_find);

    let mut texts = vec![listed(eleven), listed(&servers), earlier(eleven), earlier(&servers)];
    let start = |servers: &[RecordedServer], config: RunConfig| Running::start(servers, config).start.clone();
    texts.extend([start(eleven, RunConfig::Default), now.start.clone()]);
    for config in [RunConfig::Unsplit, RunConfig::Auto] {
        texts.extend([start(eleven, config), start(&servers, config)]);
    }
    if let Some(with_find) = &with_find {
        texts.extend([start(eleven, RunConfig::WithFind), with_find.start.clone()]);
    }
    let mut starts = starts(&texts).into_iter();

    let ways = vec![
        only_start("all tools listed", starts.next()),
        Way {
            name: "suites as they were (f286614)",
            start: starts.next(),
            heldout: Some(tally(&mut Before, &servers, &heldout)),
            fresh: Some(tally(&mut Before, &servers, &fresh)),
            tuned: Some(tally(&mut Before, &servers, &tuned)),
        },
        Way {
            name: "suites now",
            start: starts.next(),
            heldout: Some(tally(&mut now, &servers, &heldout)),
            fresh: Some(tally(&mut now, &servers, &fresh)),
            tuned: Some(tally(&mut now, &servers, &tuned)),
        },
        only_start("suites now, `split: false`", starts.next()),
        only_start("suites now, `show: \"auto\"`", starts.next()),
        Way {
            name: "suites now, with `find`",
            start: starts.next(),
            heldout: with_find.as_mut().map(|running| find_tally(running, &servers, &heldout)),
            fresh: with_find.as_mut().map(|running| find_tally(running, &servers, &fresh)),
            tuned: with_find.as_mut().map(|running| find_tally(running, &servers, &tuned)),
        },
    ];
    for intent in heldout.iter().chain(&fresh).chain(&tuned) {
        let server = server_of(&servers, intent);
        intent.subtools.iter().for_each(|subtool| now.call(server, subtool));
    }
    let wholes = servers.iter().map(|server| whole(&mut now, server)).collect();
    let long_definitions = LongDefinitions::of(&servers, |server, tool| now.definition(server, tool));
    let choices = choice::choices(&now.home, &servers, [&heldout, &fresh, &tuned]);
    Finding { ways, wholes, choices, long_definitions }
}

fn only_start(name: &'static str, start: Option<Start>) -> Way {
    Way { name, start, heldout: None, fresh: None, tuned: None }
}

/// What a host reads of the servers themselves.
fn listed(servers: &[RecordedServer]) -> String {
    let texts: Vec<String> =
        servers.iter().map(|server| format!("{}\n{}", server.list(), server.instructions)).collect();
    texts.join("\n")
}

fn earlier(servers: &[RecordedServer]) -> String {
    format!("{}\n{}", before::list(servers), before::instructions(servers))
}

/// `texts`: with eleven and with all servers, in turn.
fn starts(texts: &[String]) -> Vec<Start> {
    let counts = tokens::count(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    let sizes: Vec<Size> =
        texts.iter().zip(counts).map(|(text, tokens)| Size { bytes: text.len(), tokens }).collect();
    sizes.chunks(2).map(|pair| Start { eleven: pair[0], sixteen: pair[1] }).collect()
}

fn server_of<'s>(servers: &'s [RecordedServer], intent: &Intent) -> &'s RecordedServer {
    servers.iter().find(|server| server.id == intent.server).unwrap()
}

fn tally(suites: &mut dyn Suites, servers: &[RecordedServer], intents: &[Intent]) -> Tally {
    let outcomes = intents.iter().map(|intent| outcome(suites, server_of(servers, intent), intent));
    Tally { outcomes: outcomes.collect() }
}

/// Asks the suite with the intent as the query. If the answer does not say how to call the right subtool, the model asks
/// for its definition; if the subtool is missing, for the whole list.
fn outcome(suites: &mut dyn Suites, server: &RecordedServer, intent: &Intent) -> Outcome {
    let text = suites.query(server, &intent.text);
    let subtools = Subtools::read(&text, &server.names());
    let place = subtools.place(&intent.subtools);
    let called = subtools.best(&intent.subtools).unwrap_or(&intent.subtools[0]).to_owned();
    let is_callable = subtools.entry(&called).is_some_and(|entry| entry.is_callable(server.tool(&called)));
    let further = match place {
        Place::Missing => WHOLE_ARGUMENTS.len() + suites.whole(server).len(),
        _ if is_callable => 0,
        _ => definition_arguments(&called).len() + suites.definition(server, &called).len(),
    };
    let asked = query_arguments(&intent.text).len() + text.len();
    let cost = asked + further + call_arguments(server.tool(&called)).len();
    let shown = subtools.shown.into_iter().map(|entry| entry.name).collect();
    Outcome { intent: intent.clone(), place, shown, cost }
}

fn find_tally(running: &mut Running, servers: &[RecordedServer], intents: &[Intent]) -> Tally {
    Tally { outcomes: intents.iter().map(|intent| find_outcome(running, servers, intent)).collect() }
}

/// Asks `find` with the intent, over all servers. If the right subtool is not shown, the model asks its suite.
fn find_outcome(running: &mut Running, servers: &[RecordedServer], intent: &Intent) -> Outcome {
    let arguments = json!({"query": intent.text}).to_string();
    let text = ask(&mut running.shim, FIND, &arguments);
    let found = answer::found(&text, servers);
    let server = server_of(servers, intent);
    let is_right =
        |(id, entry): &(String, Entry)| *id == intent.server && intent.subtools.contains(&entry.name);
    let asked = arguments.len() + text.len();
    let (place, further) = match found.iter().position(is_right) {
        Some(rank) => {
            let (_, entry) = &found[rank];
            let tool = server.tool(&entry.name);
            let definition = match entry.is_callable(tool) {
                true => 0,
                false => {
                    definition_arguments(&tool.name).len() + running.definition(server, &tool.name).len()
                }
            };
            (Place::of_rank(rank), definition + call_arguments(tool).len())
        }
        None => {
            let next = outcome(running, server, intent);
            let place = if next.place == Place::Missing { Place::Missing } else { Place::Named };
            (place, next.cost)
        }
    };
    let shown = found.into_iter().map(|(server, entry)| format!("{server}.{}", entry.name)).collect();
    Outcome { intent: intent.clone(), place, shown, cost: asked + further }
}

fn whole(suites: &mut dyn Suites, server: &RecordedServer) -> Whole {
    let text = suites.whole(server);
    let subtools = Subtools::read(&text, &server.names());
    let entries: Vec<String> = subtools.shown.into_iter().map(|entry| entry.text).collect();
    assert_eq!(entries.len(), server.tools.len(), "{}: not every subtool is shown: {text}", server.id);
    Whole {
        server: server.id.clone(),
        tools: server.tools.len(),
        bytes: text.len(),
        reach: HOSTS.map(|host| host.cut.count(&text, &entries)),
    }
}

/// The daemon's descriptions, for reading.
pub fn descriptions() -> Vec<(String, String)> {
    let servers = RecordedServer::all();
    let mut running = Running::start(&servers, RunConfig::Default);
    let tools = running.shim.tools();
    let text = |tool: &Value| tool["description"].as_str().unwrap_or_default().to_owned();
    tools.iter().map(|(name, tool)| (name.clone(), text(tool))).collect()
}
