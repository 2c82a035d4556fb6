//! Everything at the same time: hosts of both eras over every way in, servers that misbehave, and processes of every kind
//! that are killed and stopped, while definitions change and the disk fills up. Each request is answered exactly once, or
//! its session is gone; no call reaches a server twice; at the end nothing is left.
//!
//! `SWITCHBOARD_CHAOS_SECONDS` makes it longer, and `SWITCHBOARD_SEED` decides what happens when.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::collections::{HashMap, HashSet};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

use proto_tests::proof::{counted, measured};
use proto_tests::shim::{INITIALIZE, answer_id, call_params};
use proto_tests::streamable::{MODERN, with_meta};
use proto_tests::wait::{becomes, until, until_true};
use proto_tests::{Endpoint, Home, Request, Shim, TEST_TIMEOUT, bins, procs};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

/// A simple generator that is the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[usize::try_from(self.roll(all.len() as u64)).unwrap()]
    }
}

/// Servers, and what is wrong with each.
const SERVERS: [(&str, &[&str]); 9] = [
    ("well", &["echo"]),
    ("own", &["echo"]),
    ("twice", &["answers-twice"]),
    ("strange", &["unknown-ids"]),
    ("noisy", &["noisy-stdout"]),
    ("weak", &["crash-after", "15"]),
    ("slow", &["slow-answers", "40"]),
    ("silent", &["never-answers"]),
    ("loud", &["floods", "stderr", "200"]),
];

/// How long any answer may take: longer than every deadline, every pause after a failure and every time for which a
/// process is stopped.
const ANSWERED: Duration = Duration::from_secs(60);

struct Stage {
    home: Home,
    is_over: AtomicBool,
    /// Every call has a number of its own.
    calls: AtomicU64,
    answers: AtomicU64,
    faults: AtomicU64,
    gone: AtomicU64,
    /// What was done to whom, for the report.
    deeds: Mutex<Vec<String>>,
}

impl Stage {
    fn new() -> Self {
        let home = Home::new();
        for (name, behaviour) in SERVERS {
            define(&home, name, behaviour);
        }
        configure(&home, 0);
        Self {
            home,
            is_over: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            gone: AtomicU64::new(0),
            deeds: Mutex::default(),
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::unix(&self.home.socket())
    }

    fn count(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A call whose arguments say which it is.
    fn params(&self, dice: &mut Dice) -> (u64, String) {
        let n = self.count();
        let (server, _) = dice.one_of(&SERVERS);
        (n, call_params(server, "echo", &format!(r#"{{"n":{n}}}"#)))
    }

    /// The answer to call `n`: its own result, or a fault.
    #[track_caller]
    fn judge(&self, n: u64, answer: &Value) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        let content = &answer["result"]["structuredContent"];
        if content["ok"] == true {
            assert_eq!(content["args"]["n"], n, "the answer to another call: {answer}");
        } else {
            assert!(answer["error"].is_object() || answer["result"]["isError"] == true, "{answer}");
            self.faults.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn session_gone(&self) {
        self.gone.fetch_add(1, Ordering::Relaxed);
    }

    #[track_caller]
    fn deeds(&self) -> String {
        let deeds = self.deeds.lock().unwrap();
        deeds[deeds.len().saturating_sub(30)..].join("\n")
    }
}

fn define(home: &Home, name: &str, behaviour: &[&str]) {
    let journal = home.path().join(format!("journal-{name}"));
    home.child_with(name, behaviour, &[("EVIL_JOURNAL", journal.to_str().unwrap())]);
}

/// The personal config; another `round` has another text for the same servers.
fn configure(home: &Home, round: u64) {
    home.config(&json!({
        "timeouts": {"rpcMs": 1500, "childSpawnMs": 8000, "maxMs": 20_000},
        "suites": {
            "own": {"pool": {"scope": "session"}},
            "well": {"description": format!("round {}", round % 3)},
        },
    }));
}

#[test]
fn every_request_is_answered_once_whatever_is_done_to_whom() {
    let seconds = number("SWITCHBOARD_CHAOS_SECONDS", 8);
    let seed = number("SWITCHBOARD_SEED", 1);
    eprintln!("SWITCHBOARD_SEED={seed} SWITCHBOARD_CHAOS_SECONDS={seconds}");
    let stage = Stage::new();
    let first = stage.home.daemon();
    let before = at_rest(&stage, first.pid());
    thread::scope(|scope| {
        let stage = &stage;
        let mut hosts = Vec::new();
        for host in 0..4 {
            hosts.push(scope.spawn(move || behind_shims(stage, Dice(seed * 100 + host))));
        }
        for way in [Way::Proxy, Way::Legacy, Way::Modern] {
            let mut dice = Dice(seed * 100 + 50 + way as u64);
            hosts.push(scope.spawn(move || over_http(stage, way, &mut dice)));
        }
        disturb(stage, &mut Dice(seed), Duration::from_secs(seconds));
        stage.is_over.store(true, Ordering::Relaxed);
        for host in hosts {
            if let Err(panic) = host.join() {
                eprintln!("seed {seed}; what was done last:\n{}", stage.deeds());
                std::panic::resume_unwind(panic);
            }
        }
    });
    nothing_ran_twice(&stage);
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    counted("R23", "requests answered once", of(&stage.answers));
    counted("R23", "of these with a fault", of(&stage.faults));
    counted("R23", "sessions that were gone", of(&stage.gone));
    counted("R23", "disturbances", stage.deeds.lock().unwrap().len() as u64);
    assert!(of(&stage.answers) > of(&stage.faults) + 100, "nearly only faults");

    // Whichever daemon runs now, it is the only one; it holds no more than the first did.
    stage.home.shim().tools();
    let daemons = stage.home.daemons();
    assert_eq!(daemons.len(), 1, "{daemons:#?}\n{}", stage.deeds());
    let after = at_rest(&stage, daemons[0].pid);
    let difference = |after: usize, before: usize| after as f64 - before as f64;
    measured("R23", "more descriptors than before", difference(after.fds, before.fds));
    measured("R23", "more threads than before", difference(after.threads, before.threads));
    // Other files may be watched, and the log of a daemon that a shim has started is a file of its own.
    assert!(after.fds <= before.fds + 6, "{before:?} {after:?}\n{}", stage.deeds());
    assert!(after.threads <= before.threads + 2, "{before:?} {after:?}");
    drop(first);
}

// --- hosts ---

/// Legacy hosts, one after the other: when a shim is killed, the next one takes its place.
fn behind_shims(stage: &Stage, mut dice: Dice) {
    while !stage.is_over() {
        let mut shim = stage.home.raw_shim();
        if converse(stage, &mut dice, &mut shim).is_none() {
            stage.session_gone();
        }
    }
}

/// The requests of one session; those of all sessions have the same ids.
#[derive(Default)]
struct OpenRequests {
    last: u64,
    /// With the number of the call, if it is one.
    waiting: HashMap<u64, Option<u64>>,
    answered: HashSet<u64>,
}

/// `None` if the shim was killed.
fn converse(stage: &Stage, dice: &mut Dice, shim: &mut Shim) -> Option<()> {
    let mut open = OpenRequests::default();
    shim.try_send(&format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{INITIALIZE}}}"#))?;
    open.waiting.insert(0, None);
    take_answer(stage, shim, &mut open)?;
    shim.try_send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
    while !stage.is_over() {
        while open.waiting.len() < 12 {
            open.last += 1;
            let next = open.last;
            let (method, n, params) = match dice.roll(12) {
                0 => ("tools/list", None, "{}".to_owned()),
                1 => ("ping", None, "{}".to_owned()),
                _ => {
                    let (n, params) = stage.params(dice);
                    ("tools/call", Some(n), params)
                }
            };
            open.waiting.insert(next, n);
            shim.try_send(&format!(
                r#"{{"jsonrpc":"2.0","id":{next},"method":"{method}","params":{params}}}"#
            ))?;
            if dice.roll(15) == 0 {
                // A cancelled request is answered once or never.
                open.waiting.remove(&next);
                shim.try_send(&format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{next}}}}}"#
                ))?;
            }
        }
        take_answer(stage, shim, &mut open)?;
    }
    while !open.waiting.is_empty() {
        take_answer(stage, shim, &mut open)?;
    }
    Some(())
}

/// Takes one answer. `None` if the shim was killed.
fn take_answer(stage: &Stage, shim: &mut Shim, open: &mut OpenRequests) -> Option<()> {
    if open.waiting.is_empty() {
        return Some(());
    }
    let end = Instant::now() + ANSWERED;
    loop {
        let line = match shim.receive_within(end.saturating_duration_since(Instant::now())) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => panic!(
                "not answered within {ANSWERED:?}: {:?}\n{}\n{}",
                open.waiting,
                shim.stderr(),
                stage.deeds()
            ),
        };
        let Some(id) = answer_id(&line).and_then(|id| id.parse::<u64>().ok()) else { continue };
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert!(open.answered.insert(id), "request {id} was answered twice: {line}\n{}", stage.deeds());
        match open.waiting.remove(&id) {
            Some(Some(n)) => stage.judge(n, &answer),
            Some(None) => {
                stage.answers.fetch_add(1, Ordering::Relaxed);
            }
            None => assert!(id <= open.last, "an answer to no request: {line}"),
        }
        return Some(());
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Proxy,
    Legacy,
    Modern,
}

/// Requests over HTTP, one after the other: each gets one answer, or its connection breaks.
fn over_http(stage: &Stage, way: Way, dice: &mut Dice) {
    let mut session: Option<String> = None;
    let mut opened = Vec::new();
    while !stage.is_over() {
        let (n, params) = stage.params(dice);
        let params: Value = serde_json::from_str(&params).unwrap();
        let request = match way {
            Way::Proxy => post("/proxy", &body(n, "tools/call", &params)),
            Way::Modern => post("/mcp", &body(n, "tools/call", &with_meta(&params)))
                .header("MCP-Protocol-Version", MODERN)
                .header("Mcp-Method", "tools/call")
                .header("Mcp-Name", params["name"].as_str().unwrap()),
            Way::Legacy => {
                if session.is_none() {
                    session = open_session(stage);
                    opened.extend(session.clone());
                }
                match &session {
                    Some(session) => {
                        post("/mcp", &body(n, "tools/call", &params)).header("Mcp-Session-Id", session)
                    }
                    None => {
                        thread::sleep(Duration::from_millis(20));
                        continue;
                    }
                }
            }
        };
        let Some((status, answers)) = exchange(stage, &request) else {
            // The daemon was killed, or is not there.
            stage.session_gone();
            session = None;
            thread::sleep(Duration::from_millis(20));
            continue;
        };
        match status {
            200 => {
                let own: Vec<&Value> = answers.iter().filter(|answer| answer["id"] == n).collect();
                match (own.as_slice(), way) {
                    ([answer], _) => stage.judge(n, answer),
                    // The host of a legacy stream that ends early may resume it.
                    ([], Way::Legacy) => session = None,
                    _ => panic!(
                        "{way:?}: {} answers to one request: {answers:?}\n{}",
                        own.len(),
                        stage.deeds()
                    ),
                }
            }
            // The session belonged to an earlier daemon, or this one is ending.
            _ => session = None,
        }
    }
    // A session over HTTP stays until its host ends it, or for long.
    for session in opened {
        exchange(stage, &Request::new("DELETE", "/mcp").header("Mcp-Session-Id", &session));
    }
}

fn body(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn post(path: &str, body: &Value) -> Request {
    Request::new("POST", path)
        .header("Accept", "application/json, text/event-stream")
        .header("Content-Type", "application/json")
        .header("Connection", "close")
        .body(body.to_string())
}

/// The status and all messages of the answer; `None` if the connection broke.
fn exchange(stage: &Stage, request: &Request) -> Option<(u16, Vec<Value>)> {
    let mut connection = stage.endpoint().connect().ok()?;
    connection.set_timeout(ANSWERED);
    connection.write(&request.bytes("localhost"));
    let response = match connection.response(false) {
        Ok(response) => response,
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            panic!("no answer within {ANSWERED:?} to {request:?}\n{}", stage.deeds())
        }
        Err(_) => return None,
    };
    let text = response.text();
    let is_stream = response.header("content-type") == Some("text/event-stream");
    let messages: Vec<Value> = if is_stream {
        let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
        data.filter_map(|data| serde_json::from_str(data).ok()).collect()
    } else {
        serde_json::from_str(&text).into_iter().collect()
    };
    Some((response.status, messages))
}

/// The id of a new legacy session at `/mcp`.
fn open_session(stage: &Stage) -> Option<String> {
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let mut connection = stage.endpoint().connect().ok()?;
    connection.set_timeout(ANSWERED);
    connection.write(&post("/mcp", &body(0, "initialize", &params)).bytes("localhost"));
    let response = connection.response(false).ok()?;
    let session = response.header("mcp-session-id")?.to_owned();
    let opened = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    exchange(stage, &post("/mcp", &opened).header("Mcp-Session-Id", &session));
    Some(session)
}

// --- disturbances ---

/// A small file system for the daemon's state, which can be filled up.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` if nothing can be mounted here.
    fn on(folder: PathBuf) -> Option<Self> {
        // As the daemon makes it, which refuses one that others can enter.
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs"])
            .arg(&folder)
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success()).then_some(Self(folder))
    }

    fn fill(&self) {
        let _ = std::fs::write(self.0.join("filler"), vec![0; 2 << 20]);
    }

    fn free(&self) {
        let _ = std::fs::remove_file(self.0.join("filler"));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn signal(pid: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// The processes of the test that may be disturbed, by kind.
fn victims(stage: &Stage, kind: &str) -> Vec<i32> {
    let shim = format!("{} ", bins().switchboard.display());
    let (daemon, child) = (bins().switchboardd.to_str().unwrap(), bins().evil_child.to_str().unwrap());
    let is_one = |line: &str| match kind {
        "shim" => line.starts_with(&shim),
        "daemon" => line.starts_with(daemon),
        "guard" => line.starts_with("switchboard-guard"),
        _ => line.starts_with(child),
    };
    let all = stage.home.processes();
    all.into_iter().filter(|process| is_one(&process.cmdline)).map(|process| process.pid).collect()
}

fn disturb(stage: &Stage, dice: &mut Dice, length: Duration) {
    let disk = SmallDisk::on(stage.home.state_folder().join("calls"));
    let begin = Instant::now();
    let mut stopped: Vec<(Instant, i32)> = Vec::new();
    let mut round = 0;
    while begin.elapsed() < length {
        thread::sleep(Duration::from_millis(20 + dice.roll(200)));
        stopped.retain(|(until, pid)| {
            let is_due = *until <= Instant::now();
            if is_due {
                signal(*pid, Signal::CONT);
            }
            !is_due
        });
        round += 1;
        // Servers are disturbed often, the daemon rarely.
        let kind = *dice.one_of(&[
            "server", "server", "server", "server", "guard", "guard", "shim", "daemon", "files", "files",
            "disk",
        ]);
        let deed = match kind {
            "files" => change_files(stage, dice, round),
            "disk" => match &disk {
                Some(disk) if dice.roll(2) == 0 => {
                    disk.fill();
                    "the disk is full".to_owned()
                }
                Some(disk) => {
                    disk.free();
                    "the disk has room".to_owned()
                }
                None => continue,
            },
            _ => {
                let all = victims(stage, kind);
                if all.is_empty() {
                    continue;
                }
                let pid = *dice.one_of(&all);
                let what = match (kind, dice.roll(4)) {
                    ("daemon", 0) => Signal::TERM,
                    (_, 0 | 1) => Signal::KILL,
                    _ => Signal::STOP,
                };
                signal(pid, what);
                if what == Signal::STOP {
                    stopped.push((Instant::now() + Duration::from_millis(100 + dice.roll(1500)), pid));
                }
                format!("{kind} {pid}: {what:?}")
            }
        };
        stage.deeds.lock().unwrap().push(format!("{:?} {deed}", begin.elapsed()));
    }
    stopped.iter().for_each(|(_, pid)| signal(*pid, Signal::CONT));
    if let Some(disk) = &disk {
        disk.free();
    }
    for (name, behaviour) in SERVERS {
        define(&stage.home, name, behaviour);
    }
    configure(&stage.home, 0);
}

/// A storm of writes, a definition that goes or comes back, or a mistake in the config.
fn change_files(stage: &Stage, dice: &mut Dice, round: u64) -> String {
    let (name, behaviour) = *dice.one_of(&SERVERS);
    match dice.roll(4) {
        0 => {
            (0..50).for_each(|_| define(&stage.home, name, behaviour));
            format!("`{name}` is written 50 times")
        }
        1 => {
            let _ = std::fs::remove_dir_all(stage.home.config_folder().join("mcps").join(name));
            format!("`{name}` is removed")
        }
        2 => {
            stage.home.write(".config/switchboard/switchboard.config.json", "{ broken");
            "the config is broken".into()
        }
        _ => {
            SERVERS.iter().for_each(|(name, behaviour)| define(&stage.home, name, behaviour));
            configure(&stage.home, round);
            "all definitions are back".into()
        }
    }
}

// --- what is left ---

/// No call reached a server twice, or two processes.
#[track_caller]
fn nothing_ran_twice(stage: &Stage) {
    let mut seen = HashSet::new();
    for (name, _) in SERVERS {
        let journal = stage.home.path().join(format!("journal-{name}"));
        for line in std::fs::read(journal).unwrap_or_default().split(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let Some((_, line)) = line.split_once(' ') else { continue };
            let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
            if let Some(n) = line["params"]["arguments"]["n"].as_u64() {
                assert!(seen.insert(n), "call {n} reached a server twice\n{}", stage.deeds());
            }
        }
    }
    counted("R23", "calls that reached a server", seen.len() as u64);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Holds {
    fds: usize,
    threads: usize,
}

/// What the daemon holds without hosts and servers.
fn at_rest(stage: &Stage, pid: i32) -> Holds {
    until_true("the sessions to end", ANSWERED, || {
        let status = stage.endpoint().try_get("/status").filter(|status| status.status == 200);
        status.is_some_and(|status| status.json()["sessions"].as_array().is_some_and(Vec::is_empty))
    });
    until_true("all definitions", TEST_TIMEOUT, || {
        let status = stage.endpoint().get("/status").json();
        status["suites"].as_array().is_some_and(|suites| suites.len() == SERVERS.len())
    });
    for (name, _) in SERVERS {
        stage.home.run_ok(&["restart", name]);
    }
    let left = || procs::descendants(pid);
    assert!(becomes(TEST_TIMEOUT, || left().is_empty()), "{:#?}\n{}", left(), stage.deeds());
    let holds = || Holds { fds: procs::fds(pid), threads: procs::threads(pid) };
    let mut last = (holds(), Instant::now());
    until("it to settle", TEST_TIMEOUT, || {
        let now = holds();
        if now != last.0 {
            last = (now, Instant::now());
        }
        (last.1.elapsed() > Duration::from_secs(3)).then_some(now)
    })
}
