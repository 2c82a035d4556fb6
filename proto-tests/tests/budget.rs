//! The limits over all children: which child is evicted, which start waits, which is refused and how soon;
//! and that no order of events makes a call wait for ever.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::time::{Duration, Instant};

use proto_tests::scripted_server::{RecordedRequest, Responder, ScriptedServer, legacy};
use proto_tests::shim::{kind_of, structured};
use proto_tests::wait::until_true;
use proto_tests::{DaemonProcess, Home, Shim, TEST_TIMEOUT, bins, procs};
use serde_json::{Value, json};

/// Limit for a refusal after the 5 s that a start waits for room; generous for a busy machine.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(15);
/// Limit for a refusal without waiting.
const PROMPT_ANSWER: Duration = Duration::from_secs(3);

fn home_with(children: &[&str], config: &Value) -> Home {
    let home = Home::new();
    for child in children {
        home.child(child, &["echo"]);
    }
    home.config(config);
    home
}

fn is_ok(answer: &str) -> bool {
    answer.contains("\"ok\":true")
}

#[track_caller]
fn busy(daemon: &DaemonProcess, child: &str, calls: u64) {
    until_true("the calls to be under way", TEST_TIMEOUT, || {
        daemon.suite(child)["children"][0]["inFlight"] == calls
    });
}

/// Answers the child's question.
fn reply(shim: &mut Shim, question: &Value) {
    let id = &question["id"];
    shim.send(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"action":"accept","content":{{"age":7}}}}}}"#
    ));
}

#[test]
fn the_least_recently_used_idle_child_makes_room() {
    let home = home_with(&["a", "b", "c"], &json!({"budget": {"children": 2}}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    let (a, b) = (shim.pid_of("a"), shim.pid_of("b"));
    assert_eq!(shim.pid_of("a"), a, "used last");
    let c = shim.pid_of("c");
    assert!(procs::alive(a) && !procs::alive(b), "`b` was used least recently");
    let again = shim.pid_of("b");
    assert!(!procs::alive(a) && procs::alive(c), "then `a` was");
    assert_ne!(again, b);
    let budget = daemon.status()["budget"].clone();
    assert_eq!((&budget["children"], &budget["running"]), (&json!(2), &json!(2)), "{budget}");
    assert_eq!(home.children().len(), 2);
}

#[test]
fn a_busy_child_is_never_evicted() {
    let home = home_with(&["a", "b", "c"], &json!({"budget": {"children": 2}}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    let slow = shim.start_call("a", "slow", r#"{"ms":3000}"#);
    busy(&daemon, "a", 1);
    let b = shim.pid_of("b");
    shim.pid_of("c");
    assert!(!procs::alive(b), "`a` was used before it, but is busy");
    assert!(is_ok(&shim.answer_to(&slow.to_string())));
}

#[test]
fn a_start_is_refused_after_a_wait_if_all_children_are_busy() {
    let home = home_with(&["a", "b", "c"], &json!({"budget": {"children": 2}}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    let held =
        [shim.start_call("a", "slow", r#"{"ms":20000}"#), shim.start_call("b", "slow", r#"{"ms":20000}"#)];
    busy(&daemon, "a", 1);
    busy(&daemon, "b", 1);
    let mut other = home.shim();
    let asked = Instant::now();
    let answer = other.call("c", "echo", "{}");
    let took = asked.elapsed();
    assert_eq!(kind_of(&answer).as_deref(), Some("no_room"), "{answer}");
    assert!(answer.contains("budget.children") && answer.contains("`c`"), "{answer}");
    assert!(took >= Duration::from_secs(4), "it did not wait for room: {took:?}");
    assert!(took < REFUSAL_TIMEOUT, "{took:?}");
    assert_eq!(daemon.pids("c").len(), 0);
    // A refusal for lack of room is no failure of the child: the circuit stays closed and there is no
    // back-off.
    assert_ne!(daemon.suite("c")["state"], "resting");
    for id in held {
        assert!(is_ok(&shim.answer_to(&id.to_string())));
    }
    assert!(is_ok(&other.call("c", "echo", "{}")));
}

#[test]
fn a_waiting_start_gets_room_as_soon_as_a_child_is_idle() {
    let home = home_with(&["a", "b"], &json!({"budget": {"children": 1}}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    let slow = shim.start_call("a", "slow", r#"{"ms":1500}"#);
    busy(&daemon, "a", 1);
    let asked = Instant::now();
    let answer = shim.call("b", "echo", "{}");
    assert!(is_ok(&answer), "`a` was idle after 1.5 s: {answer}");
    assert!(asked.elapsed() < REFUSAL_TIMEOUT, "{:?}", asked.elapsed());
    assert!(is_ok(&shim.answer_to(&slow.to_string())));
}

#[test]
fn two_first_calls_at_once_under_a_budget_of_one_are_both_answered() {
    let home = home_with(&["a", "b"], &json!({"budget": {"children": 1}}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let ids = [shim.start_call("a", "echo", "{}"), shim.start_call("b", "echo", "{}")];
    for id in ids {
        let answer = shim.answer_to(&id.to_string());
        assert!(is_ok(&answer), "{answer}");
    }
    assert_eq!(home.children().len(), 1);
}

#[test]
fn a_start_waits_for_a_child_that_is_still_starting() {
    let home = home_with(&["b"], &json!({"budget": {"children": 1}}));
    home.child("a", &["slow-initialize", "1000"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let first = shim.start_call("a", "echo", "{}");
    until_true("its start", TEST_TIMEOUT, || !home.children().is_empty());
    let answer = shim.call("b", "echo", "{}");
    assert!(is_ok(&answer), "{answer}");
    assert!(is_ok(&shim.answer_to(&first.to_string())));
}

#[test]
fn a_start_is_refused_at_once_if_all_children_wait_for_their_hosts() {
    let home = home_with(&["a", "b", "c"], &json!({"budget": {"children": 2}}));
    let _daemon = home.daemon();
    let (mut one, mut two) = (home.shim(), home.shim());
    let first = one.start_call("a", "ask", r#"{"kind":"elicitation"}"#);
    let second = two.start_call("b", "ask", r#"{"kind":"sampling"}"#);
    let questions = (one.notification("elicitation/create"), two.notification("sampling/createMessage"));
    let asked = Instant::now();
    let answer = home.shim().call("c", "echo", "{}");
    let took = asked.elapsed();
    assert_eq!(kind_of(&answer).as_deref(), Some("no_room"), "{answer}");
    assert!(answer.contains("budget.children"), "{answer}");
    assert!(took < PROMPT_ANSWER, "nothing could become free, and yet it waited {took:?}");
    reply(&mut one, &questions.0);
    reply(&mut two, &questions.1);
    one.answer_to(&first.to_string());
    two.answer_to(&second.to_string());
}

/// A child waits for its host, whose model calls another child before it answers. That call must not wait for
/// room that only its own host could free.
#[test]
fn a_host_with_an_open_question_does_not_wait_for_itself() {
    let home = home_with(&["a", "b"], &json!({"budget": {"children": 1}}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    let asking = shim.start_call("a", "ask", r#"{"kind":"elicitation"}"#);
    let question = shim.notification("elicitation/create");
    let asked = Instant::now();
    let refused = shim.call("b", "echo", "{}");
    assert_eq!(kind_of(&refused).as_deref(), Some("no_room"), "{refused}");
    assert!(asked.elapsed() < PROMPT_ANSWER, "{:?}", asked.elapsed());
    reply(&mut shim, &question);
    let answer = shim.answer_to(&asking.to_string());
    assert!(answer.contains("accept"), "{answer}");
    // The question is answered, so there is room.
    assert!(is_ok(&shim.call("b", "echo", "{}")));
    assert_eq!(daemon.pids("a").len(), 0);
}

#[test]
fn an_open_question_beside_a_plain_call_does_not_deadlock() {
    let home = home_with(&["a", "b", "c"], &json!({"budget": {"children": 2}}));
    let daemon = home.daemon();
    let (mut one, mut two) = (home.shim(), home.shim());
    let asking = one.start_call("a", "ask", r#"{"kind":"elicitation"}"#);
    let question = one.notification("elicitation/create");
    let slow = two.start_call("b", "slow", r#"{"ms":2000}"#);
    busy(&daemon, "b", 1);
    // `b` will become idle, so this call waits and gets its place.
    let answer = one.call("c", "echo", "{}");
    assert!(is_ok(&answer), "{answer}");
    assert!(is_ok(&two.answer_to(&slow.to_string())));
    reply(&mut one, &question);
    assert!(one.answer_to(&asking.to_string()).contains("accept"));
}

#[test]
fn spares_evict_no_child() {
    let config = json!({
        "budget": {"children": 2},
        "suites": {"s": {"pool": {"scope": "session", "warm": 3}}},
    });
    let home = home_with(&["a", "s"], &config);
    let daemon = home.daemon();
    let mut shim = home.shim();
    let a = shim.pid_of("a");
    let s = shim.pid_of("s");
    let begin = Instant::now();
    until_true("a while", TEST_TIMEOUT, || begin.elapsed() > Duration::from_secs(1));
    assert!(procs::alive(a) && procs::alive(s));
    assert_eq!(daemon.pids("s"), [s]);
    assert_eq!(home.children().len(), 2);
}

#[test]
fn a_reload_changes_the_budget() {
    let home = home_with(&["a", "b"], &json!({"budget": {"children": 1}}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.pid_of("a");
    home.config(&json!({"budget": {"children": 2}}));
    home.run_ok(&["reload"]);
    shim.pid_of("b");
    assert_eq!(daemon.status()["budget"]["running"], 2);
}

// --- subscribed resources ---

/// Subscribes to a resource of this child without making a call.
fn follow(home: &Home, child: &str, uri: &str) -> Shim {
    let mut shim = home.shim_of(child);
    shim.initialize();
    let answer = shim.request("resources/subscribe", &json!({"uri": uri}).to_string());
    assert!(answer.contains("\"result\""), "{answer}");
    shim
}

/// `b` gets no room while the other child has a subscriber, and gets it once the subscriber leaves.
fn stays_while_it_is_followed(home: &Home, child: &str, uri: &str) {
    home.child("b", &["echo"]);
    home.config(&json!({"budget": {"children": 1}}));
    let daemon = home.daemon();
    let mut follower = follow(home, child, uri);
    let mut shim = home.shim();
    for _ in 0..3 {
        let asked = Instant::now();
        let answer = shim.call("b", "echo", "{}");
        assert_eq!(kind_of(&answer).as_deref(), Some("no_room"), "{answer}");
        assert!(asked.elapsed() < REFUSAL_TIMEOUT, "{:?}", asked.elapsed());
    }
    assert_eq!(daemon.starts(child), 1, "{}", daemon.log());
    assert!(!daemon.log().contains("stopped to make room"), "{}", daemon.log());
    follower.request("resources/unsubscribe", &json!({"uri": uri}).to_string());
    let answer = shim.call("b", "echo", "{}");
    assert!(is_ok(&answer), "{answer}");
    assert_eq!(daemon.starts(child), 1, "nobody wants it any more");
}

#[test]
fn a_child_with_subscribers_is_not_evicted() {
    for era in ["legacy", "modern"] {
        let home = Home::new();
        let entry = home.entry(&bins().era_child, &["--era", era], &[]);
        home.definition("era", &json!({"mcpServers": {"era": entry}}).to_string());
        stays_while_it_is_followed(&home, "era", "test://watched-resource");
    }
}

#[test]
fn a_remote_child_with_subscribers_is_not_evicted() {
    let far = ScriptedServer::start(|asked: &RecordedRequest, back: &mut Responder| {
        match asked.what().as_str() {
            "initialize" => {
                let hello = json!({"protocolVersion": "2025-11-25", "serverInfo": {"name": "far", "version": "1"},
                "capabilities": {"tools": {}, "resources": {"subscribe": true}}});
                back.json_with(200, &[("Mcp-Session-Id", "s1")], &asked.result(&hello));
            }
            "resources/list" => {
                back.json(200, &asked.result(&json!({"resources": [{"uri": "u:1", "name": "one"}]})));
            }
            "resources/templates/list" => back.json(200, &asked.result(&json!({"resourceTemplates": []}))),
            "resources/subscribe" | "resources/unsubscribe" => back.json(200, &asked.result(&json!({}))),
            _ => legacy(asked, back),
        }
    });
    let home = Home::new();
    home.definition("far", &json!({"mcpServers": {"far": {"type": "http", "url": far.url()}}}).to_string());
    stays_while_it_is_followed(&home, "far", "u:1");
}

/// The restart for a subscriber uses free room only and evicts no other child.
#[test]
fn a_child_with_subscribers_is_restarted_without_evicting_another() {
    let home = home_with(&["b"], &json!({"budget": {"children": 2}}));
    let entry = home.entry(&bins().era_child, &["--era", "legacy"], &[]);
    home.definition("era", &json!({"mcpServers": {"era": entry}}).to_string());
    let daemon = home.daemon();
    let mut shim = home.shim();
    let b = shim.pid_of("b");
    let _follower = follow(&home, "era", "test://watched-resource");
    // The smaller budget has no room for both.
    home.config(&json!({"budget": {"children": 1}}));
    home.run_ok(&["reload"]);
    let era = rustix::process::Pid::from_raw(daemon.pids("era")[0]).unwrap();
    rustix::process::kill_process(era, rustix::process::Signal::KILL).unwrap();
    until_true("it to be gone", TEST_TIMEOUT, || daemon.pids("era").is_empty());
    let begin = Instant::now();
    until_true("a while", TEST_TIMEOUT, || begin.elapsed() > Duration::from_secs(2));
    assert!(procs::alive(b) && daemon.pids("era").is_empty(), "{}", daemon.log());
    home.config(&json!({"budget": {"children": 2}}));
    home.run_ok(&["reload"]);
    until_true("it to come back without a call", TEST_TIMEOUT, || daemon.pids("era").len() == 1);
    assert!(procs::alive(b));
}

// --- memory ---

#[test]
fn the_memory_limit_does_not_apply_to_remote_children() {
    let far = ScriptedServer::start(legacy);
    let home = home_with(&["glutton", "b"], &json!({"budget": {"memoryMb": 100}}));
    for name in ["far", "near"] {
        let entry = json!({"type": "http", "url": format!("{}?{name}", far.url())});
        home.definition(name, &json!({"mcpServers": {name: entry}}).to_string());
    }
    let daemon = home.daemon();
    let (mut shim, mut other) = (home.shim(), home.shim());
    let served = |answer: &str| {
        assert!(kind_of(answer).is_none() && answer.contains("\"result\""), "{answer}");
    };
    served(&other.call("far", "echo", "{}"));
    assert!(is_ok(&shim.call("glutton", "eat", r#"{"mb":130}"#)));
    let held = shim.start_call("glutton", "slow", r#"{"ms":20000}"#);
    busy(&daemon, "glutton", 1);
    let answer = other.call("b", "echo", "{}");
    assert_eq!(kind_of(&answer).as_deref(), Some("no_room"), "{answer}");
    assert!(answer.contains("budget.memoryMb"), "{answer}");
    assert!(!daemon.log().contains("stopped to make room"), "{}", daemon.log());
    served(&other.call("far", "echo", "{}"));
    assert_eq!(daemon.starts("far"), 1);
    // A remote child uses no memory of this machine.
    served(&other.call("near", "echo", "{}"));
    assert!(is_ok(&shim.answer_to(&held.to_string())));
}

#[test]
fn an_idle_child_over_the_memory_limit_is_evicted_for_a_start() {
    let home = home_with(&["glutton", "b"], &json!({"budget": {"memoryMb": 120}}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    let glutton = shim.pid_of("glutton");
    assert!(is_ok(&shim.call("glutton", "eat", r#"{"mb":150}"#)));
    let used = daemon.status()["budget"]["usedMb"].as_u64().unwrap();
    assert!((150..300).contains(&used), "{used} MiB");
    assert!(is_ok(&shim.call("b", "echo", "{}")));
    until_true("the glutton to go", TEST_TIMEOUT, || !procs::alive(glutton));
    // The status measures memory at most once a second.
    until_true("its memory to be free", TEST_TIMEOUT, || {
        daemon.status()["budget"]["usedMb"].as_u64() < Some(120)
    });
}

#[test]
fn memory_of_grandchildren_counts() {
    let home = home_with(&["a"], &json!({"budget": {"memoryMb": 1000}}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.pid_of("a");
    let alone = daemon.status()["budget"]["usedMb"].as_u64().unwrap();
    let pids = structured(&shim.call("a", "fork", "{}"))["pids"].as_array().unwrap().len();
    assert_eq!(pids, 5);
    until_true("all of them to be weighed", TEST_TIMEOUT, || {
        let of_tree: u64 =
            procs::descendants(daemon.pid()).iter().map(|process| procs::pss_kib(process.pid)).sum();
        let used = daemon.status()["budget"]["usedMb"].as_u64().unwrap();
        used >= alone && used.abs_diff(of_tree >> 10) <= 8
    });
}

#[test]
fn a_start_over_the_memory_limit_is_refused_if_all_are_busy() {
    let home = home_with(&["glutton", "b"], &json!({"budget": {"memoryMb": 100}}));
    let daemon = home.daemon();
    let (mut shim, mut other) = (home.shim(), home.shim());
    assert!(is_ok(&shim.call("glutton", "eat", r#"{"mb":130}"#)));
    let held = shim.start_call("glutton", "slow", r#"{"ms":20000}"#);
    busy(&daemon, "glutton", 1);
    let asked = Instant::now();
    let answer = other.call("b", "echo", "{}");
    assert_eq!(kind_of(&answer).as_deref(), Some("no_room"), "{answer}");
    assert!(answer.contains("budget.memoryMb") && answer.contains("100"), "{answer}");
    assert!(asked.elapsed() < REFUSAL_TIMEOUT, "{:?}", asked.elapsed());
    assert!(is_ok(&shim.answer_to(&held.to_string())));
}

#[test]
fn an_idle_child_that_exceeds_the_memory_limit_is_evicted() {
    let home = home_with(&["glutton"], &json!({"budget": {"memoryMb": 100}}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let pid = shim.pid_of("glutton");
    assert!(is_ok(&shim.call("glutton", "eat", r#"{"mb":130}"#)));
    // The budget is checked every 10 s.
    until_true("it to go", TEST_TIMEOUT, || !procs::alive(pid));
}
