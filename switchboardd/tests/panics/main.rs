//! A panic anywhere in a whole daemon: it fails at most what it happens in. Every request is answered or its connection
//! is closed, and afterwards new hosts are served, servers answer, files are read again, and the daemon ends as usual.
//!
//! The shipped daemon has nothing to panic on purpose. Here a subscriber of the log panics at one of its lines, one line
//! after the other, so that a panic comes wherever the daemon says something at any level.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

#[path = "../sim/simulation.rs"]
mod simulation;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use simulation::{Host, SimulatedDaemon};
use switchboard_wire::hop::Draining;
use switchboardd::daemon::Stop;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::span;
use tracing::{Event, Metadata, Subscriber};

const INJECTED: &str = "injected by the test";

/// Counts the lines of the log, and panics at one of them.
#[derive(Clone, Default)]
struct Injector(Arc<Injection>);

#[derive(Default)]
struct Injection {
    /// Lines count only while a panic may come: not while the daemon starts or ends.
    armed: AtomicBool,
    lines: AtomicU64,
    /// The line to panic at; 0 for none.
    at: u64,
    /// Where each line is written, by its first number.
    places: std::sync::Mutex<BTreeMap<String, u64>>,
    panicked: AtomicBool,
}

impl Subscriber for Injector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.module_path().is_some_and(|path| path.starts_with("switchboard"))
    }

    fn event(&self, event: &Event<'_>) {
        let injection = &self.0;
        if !injection.armed.load(Ordering::Relaxed) {
            return;
        }
        let number = injection.lines.fetch_add(1, Ordering::Relaxed) + 1;
        let place = format!(
            "{}:{}",
            event.metadata().file().unwrap_or_default(),
            event.metadata().line().unwrap_or_default()
        );
        if number == injection.at {
            injection.panicked.store(true, Ordering::Relaxed);
            panic!("{INJECTED}, at {place}");
        }
        injection.places.lock().unwrap().entry(place).or_insert(number);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// Panics of the test's own are shown, injected ones are not.
fn hide_injected_panics() {
    let shown = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload().downcast_ref::<String>();
        if !text.is_some_and(|text| text.starts_with(INJECTED)) {
            shown(panic);
        }
    }));
}

#[test]
fn a_panic_fails_at_most_what_it_happens_in() {
    hide_injected_panics();
    let calm = Injector::default();
    if let Some(problem) = run(&calm) {
        panic!("without any panic: {problem}");
    }
    // Each place where the daemon writes to its log, when it does so first, and when it has done so for a while.
    let places = calm.0.places.lock().unwrap().clone();
    let lines = calm.0.lines.load(Ordering::Relaxed);
    assert!(places.len() >= 8, "only {} places", places.len());
    let every = std::env::var("SWITCHBOARD_PANICS").map_or(40, |text| text.parse().expect("a number"));
    let others = (1..=every.min(lines)).map(|number| number * lines / every.min(lines));
    let mut numbers: Vec<u64> = places.values().copied().chain(others).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let (mut panics, mut wrong) = (0, Vec::new());
    for at in numbers {
        let injector = Injector(Arc::new(Injection { at, ..Injection::default() }));
        if let Some(problem) = run(&injector) {
            let place = places.iter().filter(|(_, first)| **first <= at).max_by_key(|(_, first)| **first);
            wrong.push(format!("a panic at line {at} of the log (about {place:?}): {problem}"));
        }
        panics += u64::from(injector.0.panicked.load(Ordering::Relaxed));
    }
    eprintln!("proof R22 total panics in a whole daemon = {panics}");
    eprintln!("proof R22 largest places in its code = {}", places.len());
    assert!(wrong.is_empty(), "{} of {panics}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Runs one daemon; what is wrong with it.
fn run(injector: &Injector) -> Option<String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let _log = tracing::subscriber::set_default(injector.clone());
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(scenario(injector))));
    ended.unwrap_or_else(|_| Some("a host could not go on".into()))
}

async fn scenario(injector: &Injector) -> Option<String> {
    let pools = json!({"suites": {
        "alpha": {"pool": {"idleMs": 300}},
        "beta": {"pool": {"scope": "session"}, "timeouts": {"rpcMs": 1500}},
    }});
    let mut daemon = SimulatedDaemon::start(&pools, &["alpha", "beta"]);
    let (one, other) = (daemon.host().await, daemon.host().await);
    injector.0.armed.store(true, Ordering::Relaxed);
    let mut hosts = JoinSet::new();
    hosts.spawn(converse(one));
    hosts.spawn(converse(other));
    for round in 0..3 {
        sleep(Duration::from_millis(300)).await;
        daemon.define("gamma", &[&round.to_string()]);
        daemon.control("reload", &json!({})).await;
        daemon.control("restart", &json!({"suite": "alpha"})).await;
    }
    let over = timeout(Duration::from_secs(900), async { while hosts.join_next().await.is_some() {} }).await;
    if over.is_err() {
        return Some("a request was neither answered nor was its connection closed".into());
    }
    injector.0.armed.store(false, Ordering::Relaxed);
    if let Some(problem) = serves(&daemon).await {
        return Some(problem);
    }
    daemon.stop(Stop::Drain(Draining::Stop));
    match timeout(Duration::from_secs(120), daemon.ended()).await {
        Err(_) => Some("it does not end".into()),
        Ok(false) => Some("the daemon itself panicked".into()),
        Ok(true) => None,
    }
}

/// Calls of every kind; each ends somehow.
async fn converse(host: Host) {
    let call = |suite: &str, tool: &str, args: Value| {
        json!({
            "jsonrpc": "2.0",
            "id": 0,
            "method": "tools/call",
            "params": {"name": suite, "arguments": {"action": "call", "subtool": tool, "args": args}},
        })
    };
    for round in 0..3 {
        host.try_send(json!({"jsonrpc": "2.0", "id": 0, "method": "tools/list"})).await;
        let (alpha, beta, slow, hang) = (
            call("alpha_suite", "echo", json!({"round": round})),
            call("beta_suite", "echo", json!({})),
            call("alpha_suite", "sleep", json!({"ms": 400})),
            call("beta_suite", "hang", json!({})),
        );
        tokio::join!(
            host.try_send(alpha),
            host.try_send(beta),
            host.try_send(slow),
            host.try_send(hang),
            host.try_poll(0, 200)
        );
        host.try_send(json!({"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": {"name": "alpha_suite", "arguments": {"action": "introspect"}}})).await;
        host.try_send(call("beta_suite", "crash", json!({}))).await;
        sleep(Duration::from_millis(700)).await;
    }
}

/// Whether a new host is served, by every server and by one that is defined now.
async fn serves(daemon: &SimulatedDaemon) -> Option<String> {
    daemon.define("delta", &[]);
    let opened = timeout(Duration::from_secs(60), daemon.host()).await;
    let Ok(host) = opened else { return Some("no new session can be opened".into()) };
    for suite in ["alpha_suite", "beta_suite", "gamma_suite", "delta_suite"] {
        let answered = timeout(Duration::from_secs(180), async {
            loop {
                let arguments = json!({"action": "call", "subtool": "echo", "args": {}});
                let params = json!({"name": suite, "arguments": arguments});
                let call = json!({"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": params});
                let answer = host.try_send(call).await;
                if answer.is_some_and(|answer| {
                    answer.body["result"]["isError"] != true && answer.body["result"]["content"].is_array()
                }) {
                    return;
                }
                sleep(Duration::from_secs(1)).await;
            }
        });
        if answered.await.is_err() {
            return Some(format!("`{suite}` is not served any more"));
        }
    }
    let status = timeout(Duration::from_secs(60), host.get("/status")).await;
    status.is_err().then(|| "there is no status any more".into())
}
