//! What a child sends reaches exactly the host it is for: questions, roots, progress, logs and answers, in
//! any interleaving.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::collections::HashMap;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use proto_tests::bins::bins;
use proto_tests::shim::{ShimOptions, structured, text_of};
use proto_tests::wait::until_true;
use proto_tests::{DaemonProcess, Home, Shim, TEST_TIMEOUT};
use serde_json::{Value, json};

fn home_with(pool: &Value) -> Home {
    let home = Home::new();
    let journal = home.path().join("journal");
    home.child_with("k", &["echo"], &[("EVIL_JOURNAL", journal.to_str().unwrap())]);
    home.config(&json!({"suites": {"k": {"pool": pool}}}));
    home
}

/// Has the child ask, and returns the answer that the child received.
fn ask(shim: &mut Shim, kind: &str) -> Value {
    let answer = shim.call("k", "ask", &format!(r#"{{"kind":"{kind}"}}"#));
    serde_json::from_str(&text_of(&answer)).unwrap()
}

fn reply(shim: &mut Shim, question: &Value, result: &Value) {
    let id = &question["id"];
    shim.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
}

#[track_caller]
fn in_flight(daemon: &DaemonProcess, calls: u64) {
    until_true("the calls to be under way", TEST_TIMEOUT, || {
        let suite = daemon.suite("k");
        let children = suite["children"].as_array().unwrap().clone();
        children.iter().map(|child| child["inFlight"].as_u64().unwrap()).sum::<u64>() == calls
    });
}

fn initialize_of(home: &Home, pid: i32) -> Value {
    let text = std::fs::read_to_string(home.path().join("journal")).unwrap();
    let line = text.lines().find_map(|line| {
        line.strip_prefix(&format!("{pid} ")).filter(|line| line.contains("\"initialize\""))
    });
    serde_json::from_str(line.unwrap()).unwrap()
}

// --- roots ---

const WITHOUT_ROOTS: &str =
    r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}"#;

#[test]
fn a_shared_child_gets_no_hosts_roots() {
    let home = home_with(&json!({}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let pid = shim.pid_of("k");
    let capabilities = initialize_of(&home, pid)["params"]["capabilities"].clone();
    assert!(capabilities["roots"].is_null(), "{capabilities}");
    assert!(capabilities["sampling"].is_object(), "{capabilities}");
    assert!(capabilities["elicitation"].is_object(), "{capabilities}");
    let answer = ask(&mut shim, "roots");
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    assert!(answer.get("result").is_none(), "{answer}");
    // A change of the roots is not forwarded either.
    shim.send(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    let received = structured(&shim.call("k", "received", "{}")).to_string();
    assert!(!received.contains("roots/list_changed"), "{received}");
}

#[test]
fn a_sessions_own_child_gets_its_hosts_roots() {
    let home = home_with(&json!({"scope": "session"}));
    let _daemon = home.daemon();
    let mut shims = [home.shim(), home.shim()];
    for (n, shim) in shims.iter_mut().enumerate() {
        let pid = shim.pid_of("k");
        let capabilities = initialize_of(&home, pid)["params"]["capabilities"].clone();
        assert!(capabilities["roots"].is_object(), "{capabilities}");
        let id = shim.start_call("k", "ask", r#"{"kind":"roots"}"#);
        let question = shim.notification("roots/list");
        reply(shim, &question, &json!({"roots": [{"uri": format!("file:///host-{n}")}]}));
        let answer = text_of(&shim.answer_to(&id.to_string()));
        assert!(answer.contains(&format!("file:///host-{n}")), "{answer}");
        assert!(!answer.contains(&format!("file:///host-{}", 1 - n)), "{answer}");
    }
    // A change is forwarded to that host's child only.
    shims[0].send(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    let [first, second] = &mut shims;
    until_true("the news", TEST_TIMEOUT, || {
        structured(&first.call("k", "received", "{}")).to_string().contains("roots/list_changed")
    });
    assert!(!structured(&second.call("k", "received", "{}")).to_string().contains("roots/list_changed"));
}

#[test]
fn a_host_without_roots_has_its_workspace_as_root() {
    let home = home_with(&json!({"scope": "session"}));
    let _daemon = home.daemon();
    let mut shim = home.raw_shim();
    shim.initialize_as(WITHOUT_ROOTS);
    let workspace = home.workspace().canonicalize().unwrap();
    let root = json!({"uri": format!("file://{}", workspace.display()), "name": "work"});
    assert_eq!(ask(&mut shim, "roots")["result"], json!({"roots": [root]}));
    assert_eq!(ask(&mut shim, "elicitation")["result"]["action"], "decline");
    assert!(ask(&mut shim, "sampling")["error"].is_object());
}

#[test]
fn a_host_without_workspace_and_roots_has_no_roots() {
    let home = home_with(&json!({"scope": "session"}));
    let _daemon = home.daemon();
    let options = ShimOptions { workspace: Some(home.path()), ..ShimOptions::default() };
    let mut shim = Shim::start(&home, options);
    shim.initialize_as(WITHOUT_ROOTS);
    assert_eq!(ask(&mut shim, "roots")["result"], json!({"roots": []}));
}

/// A server that takes its folders from the roots. Validation is off because `folders` is not in its tool
/// list.
fn home_with_follower(pool: &Value) -> Home {
    let home = Home::new();
    home.child("k", &["follows-roots"]);
    home.config(&json!({"suites": {"k": {"pool": pool, "validate": false}}}));
    home
}

#[test]
fn a_sessions_own_child_runs_in_the_workspace_if_its_definition_says_so() {
    for (scope, place) in
        [("session", home_workspace as fn(&Home) -> PathBuf), ("shared", Home::config_folder)]
    {
        let home = Home::new();
        let mut entry = home.entry(&bins().evil_child, &["echo"], &[]);
        entry["cwd"] = json!("${workspaceFolder}");
        home.definition("k", &json!({"mcpServers": {"k": entry}}).to_string());
        home.config(&json!({"suites": {"k": {"pool": {"scope": scope, "warm": 1}}}}));
        let _daemon = home.daemon();
        let mut shim = home.shim();
        let pid = shim.pid_of("k");
        let cwd = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap();
        assert_eq!(cwd, place(&home).canonicalize().unwrap(), "{scope}");
    }
}

fn home_workspace(home: &Home) -> PathBuf {
    home.workspace()
}

#[test]
fn the_first_call_of_a_session_waits_for_the_workspace_as_root() {
    for pool in [json!({"scope": "session"}), json!({"scope": "session", "warm": 1})] {
        let home = home_with_follower(&pool);
        let _daemon = home.daemon();
        for _ in 0..2 {
            let mut shim = home.raw_shim();
            shim.initialize_as(WITHOUT_ROOTS);
            let folders = text_of(&shim.call("k", "folders", "{}"));
            assert!(folders.contains("/work\""), "{pool}: {folders}");
        }
    }
}

#[test]
fn the_first_call_of_a_session_waits_for_the_roots_of_its_host() {
    let home = home_with_follower(&json!({"scope": "session"}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let id = shim.start_call("k", "folders", "{}");
    let question = shim.notification("roots/list");
    reply(&mut shim, &question, &json!({"roots": [{"uri": "file:///of/the/host"}]}));
    let folders = text_of(&shim.answer_to(&id.to_string()));
    assert!(folders.contains("file:///of/the/host"), "{folders}");
}

#[test]
fn a_host_that_answers_roots_list_late_is_served_without_roots_and_then_with_them() {
    let home = home_with_follower(&json!({"scope": "session"}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let id = shim.start_call("k", "folders", "{}");
    let question = shim.notification("roots/list");
    assert_eq!(text_of(&shim.answer_to(&id.to_string())), "none yet");
    // After 30 s the daemon answers the child with an empty list, and the child continues.
    let mut folders = || text_of(&shim.call("k", "folders", "{}"));
    until_true("word that there are no roots", 3 * TEST_TIMEOUT, || folders().contains(r#""roots":[]"#));
    // The host's request is not cancelled, so the host may still ask its user.
    assert!(shim.take_notifications_of_calls().is_empty());
    reply(&mut shim, &question, &json!({"roots": [{"uri": "file:///of/the/host"}]}));
    let mut folders = || text_of(&shim.call("k", "folders", "{}"));
    until_true("the roots of the host", TEST_TIMEOUT, || folders().contains("file:///of/the/host"));
    // The daemon uses the host's late answer and does not ask a second time.
    assert!(shim.take_notifications_of_calls().is_empty());
    // A later answer replaces the first one.
    shim.send(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    let question = shim.notification("roots/list");
    reply(&mut shim, &question, &json!({"roots": [{"uri": "file:///another"}]}));
    let mut folders = || text_of(&shim.call("k", "folders", "{}"));
    until_true("the other roots", TEST_TIMEOUT, || folders().contains("file:///another"));
}

#[test]
fn a_spare_has_no_roots_until_a_session_takes_it() {
    let home = Home::new();
    let journal = home.path().join("journal");
    // Asks for the roots after its handshake, and serves nothing before it is answered.
    home.child_with("k", &["roots-after-initialized"], &[("EVIL_JOURNAL", journal.to_str().unwrap())]);
    home.config(&json!({"suites": {"k": {"pool": {"scope": "session", "warm": 1}}}}));
    let daemon = home.daemon();
    let mut first = home.shim();
    let id = first.start_call("k", "where", "{}");
    let question = first.notification("roots/list");
    reply(&mut first, &question, &json!({"roots": [{"uri": "file:///first"}]}));
    let own = structured(&first.answer_to(&id.to_string()))["pid"].clone();
    let of = |pid: &Value| {
        let text = std::fs::read_to_string(&journal).unwrap();
        text.lines().filter(|line| line.starts_with(&format!("{pid} "))).collect::<Vec<_>>().join("\n")
    };
    assert!(of(&own).contains("file:///first"));
    let mut spare = Value::Null;
    until_true("a spare", TEST_TIMEOUT, || {
        let suite = daemon.suite("k");
        let children = suite["children"].as_array().unwrap().clone();
        let found = children.into_iter().find(|child| child["ownedBySession"] == false);
        spare = found.map_or(Value::Null, |child| child["pid"].clone());
        !spare.is_null() && of(&spare).contains(r#""roots":[]"#)
    });
    assert!(!of(&spare).contains("file:///first"), "{}", of(&spare));
    assert!(!of(&spare).contains("roots/list_changed"));
    let mut second = home.shim();
    assert_eq!(second.pid_of("k"), spare);
    until_true("the news that there may be roots", TEST_TIMEOUT, || {
        of(&spare).contains("roots/list_changed")
    });
}

// --- which host a question goes to ---

#[test]
fn a_question_with_two_hosts_in_flight_is_refused_with_advice() {
    let home = home_with(&json!({}));
    let daemon = home.daemon();
    let (mut one, mut two) = (home.shim(), home.shim());
    let hanging = two.start_call("k", "hang", "{}");
    in_flight(&daemon, 1);
    for kind in ["elicitation", "sampling"] {
        let answer = ask(&mut one, kind);
        assert!(
            answer["error"]["message"].as_str().unwrap_or_default().contains("`pool.scope` `session`"),
            "{answer}"
        );
    }
    for shim in [&mut one, &mut two] {
        shim.request("ping", "{}");
        assert!(shim.take_notifications_of_calls().is_empty(), "somebody was asked all the same");
    }
    // A cancelled call still counts until the child answers it. The child is known to ask, so the next caller
    // gets another.
    two.send(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{hanging}}}}}"#
    ));
    in_flight(&daemon, 0);
    let id = one.start_call("k", "ask", r#"{"kind":"elicitation"}"#);
    let question = one.notification("elicitation/create");
    reply(&mut one, &question, &json!({"action": "accept", "content": {"age": 7}}));
    assert!(text_of(&one.answer_to(&id.to_string())).contains("accept"));
}

#[test]
fn a_child_in_use_is_not_replaced_beyond_max() {
    let home = home_with(&json!({}));
    let daemon = home.daemon();
    let (mut one, mut two, mut three) = (home.shim(), home.shim(), home.shim());
    let pid = one.pid_of("k");
    let id = one.start_call("k", "ask", r#"{"kind":"elicitation"}"#);
    let question = one.notification("elicitation/create");
    reply(&mut one, &question, &json!({"action": "accept", "content": {"age": 7}}));
    one.answer_to(&id.to_string());
    two.start_call("k", "hang", "{}");
    in_flight(&daemon, 1);
    let cancelled = three.start_call("k", "hang", "{}");
    in_flight(&daemon, 2);
    three.send(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{cancelled}}}}}"#
    ));
    in_flight(&daemon, 1);
    assert_eq!(one.pid_of("k"), pid);
    assert_eq!(daemon.starts("k"), 1);
}

#[test]
fn two_calls_of_one_host_count_as_one_candidate() {
    let home = home_with(&json!({}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.start_call("k", "hang", "{}");
    in_flight(&daemon, 1);
    let id = shim.start_call("k", "ask", r#"{"kind":"elicitation"}"#);
    let question = shim.notification("elicitation/create");
    reply(&mut shim, &question, &json!({"action": "accept", "content": {"age": 7}}));
    assert!(text_of(&shim.answer_to(&id.to_string())).contains("accept"));
}

#[test]
fn two_hosts_with_their_own_children_can_be_asked_at_once() {
    let home = home_with(&json!({"scope": "session"}));
    let _daemon = home.daemon();
    let mut shims = [home.shim(), home.shim()];
    let ids = [0, 1].map(|n| shims[n].start_call("k", "ask", r#"{"kind":"elicitation"}"#));
    let questions = [0, 1].map(|n| shims[n].notification("elicitation/create"));
    for n in [1, 0] {
        reply(&mut shims[n], &questions[n], &json!({"action": "accept", "content": {"age": n}}));
    }
    for n in [0, 1] {
        let answer: Value = serde_json::from_str(&text_of(&shims[n].answer_to(&ids[n].to_string()))).unwrap();
        assert_eq!(answer["result"]["content"]["age"], n, "{answer}");
    }
}

#[test]
fn a_timed_out_call_stays_a_candidate_until_the_child_answers() {
    let home = home_with(&json!({}));
    home.config(&json!({"timeouts": {"rpcMs": 700}}));
    let _daemon = home.daemon();
    let (mut one, mut two) = (home.shim(), home.shim());
    assert!(two.call("k", "hang", "{}").contains("700"));
    let answer = ask(&mut one, "elicitation");
    assert!(
        answer["error"]["message"].as_str().unwrap_or_default().contains("`pool.scope` `session`"),
        "{answer}"
    );
}

#[test]
fn the_daemons_own_requests_add_no_candidate() {
    let home = Home::new();
    // Its list takes two seconds, on a separate thread.
    home.child("k", &["list-later", "2000"]);
    let daemon = home.daemon();
    let (mut one, mut two) = (home.shim(), home.shim());
    one.call("k", "echo", "{}");
    // An unknown subtool makes the daemon ask for the list again.
    let unknown = two.start_call("k", "no-such-thing", "{}");
    in_flight(&daemon, 1);
    let id = one.start_call("k", "ask", r#"{"kind":"elicitation"}"#);
    let question = one.notification("elicitation/create");
    reply(&mut one, &question, &json!({"action": "accept", "content": {}}));
    assert!(text_of(&one.answer_to(&id.to_string())).contains("accept"));
    assert!(two.answer_to(&unknown.to_string()).contains("unknown subtool"));
}

#[test]
fn an_open_question_pauses_the_timeout_and_progress_resets_it() {
    let home = home_with(&json!({}));
    home.config(&json!({"timeouts": {"rpcMs": 2500}}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let id = shim.start_call("k", "ask", r#"{"kind":"elicitation"}"#);
    let question = shim.notification("elicitation/create");
    let begin = Instant::now();
    until_true("twice the deadline", TEST_TIMEOUT, || begin.elapsed() > Duration::from_secs(5));
    reply(&mut shim, &question, &json!({"action": "accept", "content": {}}));
    let answer = shim.answer_to(&id.to_string());
    assert!(answer.contains("accept"), "{answer}");
    let id = shim.start_call_with_token("k", "progress", r#"{"steps":8,"ms":500}"#, "7");
    let answer = shim.answer_to(&id.to_string());
    assert!(answer.contains("\"ok\":true"), "4 s, but never silent for long: {answer}");
}

// --- progress, logs and answers ---

/// A simple generator that is reproducible for a given seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn seeds() -> std::ops::Range<u64> {
    let many = std::env::var("SWITCHBOARD_INTERLEAVINGS").map_or(2, |text| text.parse().expect("a number"));
    let first = std::env::var("SWITCHBOARD_SEED").map_or(1, |text| text.parse().expect("a number"));
    first..first + many
}

const SESSIONS: u64 = 12;
const STEPS: u64 = 120;

/// Every session marks what it sends, and everything that comes back must carry its own mark. All sessions
/// use the same ids and progress tokens, so only correct routing keeps their traffic apart.
#[test]
fn no_session_ever_sees_the_traffic_of_another() {
    for seed in seeds() {
        let home = Home::new();
        for child in ["shared", "session", "call"] {
            home.child_with(child, &["echo"], &[("WHO", child)]);
        }
        home.config(&json!({"suites": {
            "session": {"pool": {"scope": "session", "max": 16}},
            "call": {"pool": {"scope": "call", "max": 3}},
        }}));
        let _daemon = home.daemon();
        let heard: Vec<[u64; 3]> = thread::scope(|scope| {
            let home = &home;
            let runs: Vec<_> =
                (0..SESSIONS).map(|session| scope.spawn(move || converse(home, seed, session))).collect();
            runs.into_iter().map(|run| run.join().unwrap_or_else(|_| panic!("seed {seed}"))).collect()
        });
        let total = |at: usize| heard.iter().map(|heard| heard[at]).sum::<u64>();
        eprintln!("seed {seed}: {} answers, {} progress, {} logs", total(0), total(1), total(2));
        assert!(total(0) > SESSIONS * STEPS / 2 && total(1) > 0 && total(2) > 0, "seed {seed}: {heard:?}");
    }
}

/// The numbers of answers, progress and log messages received, all checked for this session's mark.
fn converse(home: &Home, seed: u64, session: u64) -> [u64; 3] {
    let mut dice = Dice(seed * 1000 + session);
    let mut shim = home.shim();
    let mark = format!("mark-{session}-");
    let mut open: HashMap<u64, bool> = HashMap::new();
    let mut heard = [0; 3];
    for step in 0..STEPS {
        let child = ["shared", "session", "call"][usize::try_from(dice.roll(3)).unwrap()];
        let args = |more: &str| format!(r#"{{"mark":"{mark}{step}"{more}}}"#);
        let id = 1000 + step;
        let (subtool, args) = match dice.roll(10) {
            0..4 => ("echo", args("")),
            4 | 5 => ("progress", args(&format!(r#","steps":{},"ms":{}"#, 1 + dice.roll(4), dice.roll(8)))),
            6 | 7 => ("log", args("")),
            _ => ("slow", args(&format!(r#","ms":{}"#, dice.roll(30)))),
        };
        shim.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{child}_suite","arguments":{{"action":"call","subtool":"{subtool}","args":{args}}},"_meta":{{"progressToken":{step}}}}}}}"#
        ));
        let cancelled = dice.roll(12) == 0;
        if cancelled {
            shim.send(&format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
            ));
        }
        open.insert(id, cancelled);
        if dice.roll(40) == 0 && !open.is_empty() {
            // The host disconnects with calls in flight, and another one connects.
            shim = home.shim();
            open.clear();
        }
        while open.values().filter(|cancelled| !**cancelled).count() > 8 {
            take(&mut shim, &mark, &mut open, &mut heard);
        }
    }
    while open.values().any(|cancelled| !*cancelled) {
        take(&mut shim, &mark, &mut open, &mut heard);
    }
    heard
}

fn take(shim: &mut Shim, mark: &str, open: &mut HashMap<u64, bool>, heard: &mut [u64; 3]) {
    let line = shim.receive();
    let message: Value = serde_json::from_str(&line).unwrap();
    match message["method"].as_str() {
        None => {
            let id = message["id"].as_u64().unwrap_or_else(|| panic!("{line}"));
            assert!(open.remove(&id).is_some(), "nobody here asked for {line}");
            let own = format!("{mark}{}", id - 1000);
            let said = &message["result"]["structuredContent"]["args"]["mark"];
            assert_eq!(*said, own.as_str(), "{line}");
            heard[0] += 1;
        }
        Some("notifications/progress") => {
            let token = message["params"]["progressToken"].as_u64().unwrap_or_else(|| panic!("{line}"));
            assert_eq!(message["params"]["message"], format!("{mark}{token}").as_str(), "{line}");
            heard[1] += 1;
        }
        Some("notifications/message") => {
            let data = message["params"]["data"].as_str().unwrap_or_else(|| panic!("{line}"));
            assert!(data.starts_with(mark), "a log of somebody else: {line}");
            heard[2] += 1;
        }
        // The server ran for the first time.
        Some("notifications/tools/list_changed") => {}
        Some(_) => panic!("nothing else was to come: {line}"),
    }
}
