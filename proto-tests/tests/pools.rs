//! Which sessions share a child, how many children there are, how long they stay, and spares.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

use proto_tests::shim::{kind_of, structured};
use proto_tests::wait::{until, until_true};
use proto_tests::{Home, Shim, TEST_TIMEOUT, bins, procs};
use serde_json::{Value, json};

/// A definition in the one-child format, from an entry that `Home::entry` made.
fn define(home: &Home, folder: &str, name: &str, description: &str, entry: &Value) {
    let mut command = json!({"cmd": entry["command"], "args": entry["args"], "env": entry["env"]});
    if entry["cwd"].is_string() {
        command["cwd"] = entry["cwd"].clone();
    }
    let text = json!({"name": name, "description": description, "command": command}).to_string();
    home.definition(folder, &text);
}

fn pool(home: &Home, child: &str, pool: &Value) {
    home.config(&json!({"suites": {child: {"pool": pool}}}));
}

fn bare_host(home: &Home) -> Shim {
    let mut shim = home.raw_shim();
    shim.initialize_as(
        r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bare","version":"1"}}"#,
    );
    shim
}

fn cancel(shim: &mut Shim, id: u64) {
    shim.send(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
    ));
}

/// Accepts the next question of this method.
#[track_caller]
fn answer_question(shim: &mut Shim, method: &str) {
    let question = shim.notification(method);
    let id = &question["id"];
    shim.send(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"action":"accept","content":{{"age":7}}}}}}"#
    ));
}

/// Long enough for a fault that is due after 5 s, even on a busy machine.
const SLOT_TIMEOUT: Duration = Duration::from_secs(20);

// --- launch keys ---

#[test]
fn hosts_with_different_capabilities_share_one_process() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let daemon = home.daemon();
    let (mut rich, mut bare) = (home.shim(), bare_host(&home));
    assert_eq!(rich.pid_of("k"), bare.pid_of("k"));
    assert_eq!(daemon.pids("k").len(), 1);
    assert_eq!(daemon.starts("k"), 1);
}

#[test]
fn equal_commands_share_a_process_and_others_do_not() {
    let home = Home::new();
    let evil = &bins().evil_child;
    let elsewhere = home.workspace();
    let plain = home.entry(evil, &["echo"], &[]);
    let env = home.entry(evil, &["echo"], &[("COLOUR", "red")]);
    let args = home.entry(evil, &["echo", "more"], &[]);
    let mut cwd = plain.clone();
    cwd["cwd"] = json!(elsewhere);
    let servers = json!({"a": plain, "b": plain, "env": env, "args": args, "cwd": cwd});
    home.definition("all", &json!({"mcpServers": servers}).to_string());
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let a = shim.pid_of("a");
    assert_eq!(a, shim.pid_of("b"), "equal launches are one pool, whatever they are called");
    let pids: BTreeSet<i32> = ["a", "env", "args", "cwd"].map(|child| shim.pid_of(child)).into();
    assert_eq!(pids.len(), 4, "{pids:?}");
}

#[test]
fn a_new_name_or_description_keeps_the_process() {
    let home = Home::new();
    let entry = home.entry(&bins().evil_child, &["echo"], &[]);
    define(&home, "k", "k", "before", &entry);
    let daemon = home.daemon();
    let mut shim = home.shim();
    let pid = shim.pid_of("k");

    define(&home, "k", "k", "after", &entry);
    home.run_ok(&["reload"]);
    assert!(daemon.suite("k")["description"].as_str().unwrap().starts_with("Use this tool for after."));
    assert_eq!(shim.pid_of("k"), pid, "a description is no reason for a new process");

    home.config(&json!({"suites": {"k": {"suiteName": "other"}}}));
    home.run_ok(&["reload"]);
    assert_eq!(daemon.suite("k")["name"], "other");
    assert_eq!(daemon.pids("k"), [pid], "a suite name is no reason for a new process");

    home.config(&json!({}));
    define(&home, "k", "renamed", "after", &entry);
    home.run_ok(&["reload"]);
    assert_eq!(shim.pid_of("renamed"), pid, "a child's name is no reason for a new process");
    assert_eq!(daemon.starts("renamed"), 1);
}

#[test]
fn a_new_environment_replaces_the_process_and_calls_in_flight_finish() {
    let home = Home::new();
    let entry = |colour: &str| home.entry(&bins().evil_child, &["echo"], &[("COLOUR", colour)]);
    define(&home, "k", "k", "x", &entry("red"));
    let daemon = home.daemon();
    let mut shim = home.shim();
    let old = shim.pid_of("k");
    let slow = shim.start_call("k", "slow", r#"{"ms":2000,"mark":"old"}"#);
    until_true("the call to be under way", TEST_TIMEOUT, || {
        daemon.suite("k")["children"][0]["inFlight"] == 1
    });

    define(&home, "k", "k", "x", &entry("blue"));
    home.run_ok(&["reload"]);
    let new = shim.pid_of("k");
    assert_ne!(new, old);
    assert_eq!(structured(&shim.call("k", "env", "{}"))["COLOUR"], "blue");
    assert!(procs::alive(old), "it still has a call to finish");
    let answer = shim.answer_to(&slow.to_string());
    assert_eq!(structured(&answer)["args"]["mark"], "old", "{answer}");
    until_true("the old one to go", TEST_TIMEOUT, || !procs::alive(old));
    assert_eq!(shim.pid_of("k"), new);
}

#[test]
fn a_removed_definition_stops_its_process() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let _daemon = home.daemon();
    let pid = home.shim().pid_of("k");
    fs::remove_file(home.config_folder().join("mcps/k/.mcp.json")).unwrap();
    home.run_ok(&["reload"]);
    until_true("the process to go", TEST_TIMEOUT, || !procs::alive(pid));
}

// --- scopes ---

#[test]
fn session_scope_gives_each_session_its_own_process_until_it_ends() {
    let home = Home::new();
    home.child("k", &["echo"]);
    pool(&home, "k", &json!({"scope": "session"}));
    let daemon = home.daemon();
    let (mut one, mut two) = (home.shim(), home.shim());
    let (first, second) = (one.pid_of("k"), two.pid_of("k"));
    assert_ne!(first, second);
    assert_eq!(one.pid_of("k"), first, "a session keeps its process");
    // The child's state belongs to the session: `one` has called twice, so this is its third call.
    assert_eq!(structured(&one.call("k", "count", "{}"))["count"], 3);
    assert_eq!(structured(&two.call("k", "count", "{}"))["count"], 2);
    let owned = |pid: i32| {
        let suite = daemon.suite("k");
        let children = suite["children"].as_array().unwrap().clone();
        children.iter().any(|child| child["pid"] == pid && child["ownedBySession"] == true)
    };
    assert!(owned(first) && owned(second));

    drop(one);
    until_true("the process to go with its session", TEST_TIMEOUT, || !procs::alive(first));
    assert_eq!(two.pid_of("k"), second, "the other session is not concerned");
    assert_eq!(daemon.pids("k"), [second]);
}

#[test]
fn a_session_that_ends_during_a_start_leaves_no_process() {
    let home = Home::new();
    // Longer than a session outlives its last connection, shorter than the start timeout.
    home.child("k", &["slow-initialize", "5000"]);
    pool(&home, "k", &json!({"scope": "session"}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.start_call("k", "echo", "{}");
    until_true("the start", TEST_TIMEOUT, || !home.children().is_empty());
    drop(shim);
    until_true("the session to end", TEST_TIMEOUT, || daemon.status()["sessions"] == json!([]));
    until_true("the process to follow it", TEST_TIMEOUT, || home.children().is_empty());
}

#[test]
fn a_full_session_pool_refuses_a_session_until_another_ends() {
    let home = Home::new();
    home.child("k", &["echo"]);
    pool(&home, "k", &json!({"scope": "session", "max": 2}));
    let daemon = home.daemon();
    let (mut one, mut two, mut three) = (home.shim(), home.shim(), home.shim());
    one.pid_of("k");
    let second = two.pid_of("k");
    let asked = Instant::now();
    let answer = three.call("k", "echo", "{}");
    let took = asked.elapsed();
    assert_eq!(kind_of(&answer).as_deref(), Some("no_room"), "{answer}");
    assert!(answer.contains("pool.max") && answer.contains("2") && answer.contains("`k`"), "{answer}");
    assert!(took < SLOT_TIMEOUT, "{took:?}");
    assert_eq!(daemon.pids("k").len(), 2);

    // A session that ends makes room for one that waits.
    let waiting = three.start_call("k", "where", "{}");
    drop(one);
    let answer = three.answer_to(&waiting.to_string());
    assert!(structured(&answer)["pid"].is_number(), "{answer}");
    assert_eq!(two.pid_of("k"), second);
}

#[test]
fn call_scope_never_gives_a_process_two_calls_at_once() {
    let home = Home::new();
    let journal = home.path().join("journal");
    home.child_with("k", &["echo"], &[("EVIL_JOURNAL", journal.to_str().unwrap())]);
    pool(&home, "k", &json!({"scope": "call", "max": 3}));
    let daemon = home.daemon();
    let most = thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let (mut most_at_once, mut most) = (0, 0);
            until("all the calls", TEST_TIMEOUT, || {
                let suite = daemon.suite("k");
                let children = suite["children"].as_array().unwrap().clone();
                let flying = |child: &Value| child["inFlight"].as_u64().unwrap();
                most_at_once = most_at_once.max(children.iter().map(flying).max().unwrap_or(0));
                most = most.max(children.len());
                let seen = fs::read_to_string(&journal).unwrap_or_default().matches("\"slow\"").count();
                (seen >= 24 && children.iter().all(|child| flying(child) == 0)).then_some(())
            });
            (most_at_once, most)
        });
        for _ in 0..4 {
            scope.spawn(|| {
                let mut shim = home.shim();
                let ids: Vec<_> = (0..6).map(|_| shim.start_call("k", "slow", r#"{"ms":150}"#)).collect();
                for id in ids {
                    let answer = shim.answer_to(&id.to_string());
                    assert!(answer.contains("\"ok\":true"), "{answer}");
                }
            });
        }
        looking.join().unwrap()
    });
    assert_eq!(most, (1, 3), "calls at once on one process, processes at once");
    assert_eq!(daemon.starts("k"), 3);
    // Each call reached a process once. (The polls of `/status` above show that none overlapped.)
    assert_eq!(fs::read_to_string(&journal).unwrap().matches("\"slow\"").count(), 24);
}

#[test]
fn call_scope_works_in_parallel_up_to_max() {
    let home = Home::new();
    home.child("k", &["echo"]);
    pool(&home, "k", &json!({"scope": "call", "max": 4}));
    let daemon = home.daemon();
    let mut shims: Vec<Shim> = (0..4).map(|_| home.shim()).collect();
    let ids: Vec<u64> = shims.iter_mut().map(|shim| shim.start_call("k", "hang", "{}")).collect();
    until_true("four at once", TEST_TIMEOUT, || {
        let suite = daemon.suite("k");
        let children = suite["children"].as_array().unwrap().clone();
        children.len() == 4 && children.iter().all(|child| child["inFlight"] == 1)
    });
    // Calls of a single session run in parallel too, once there is room.
    for (shim, id) in shims.iter_mut().zip(ids) {
        shim.send(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
        ));
    }
    let pids: Vec<_> = (0..4).map(|_| shims[0].start_call("k", "slow", r#"{"ms":1000}"#)).collect();
    until_true("four of one session at once", TEST_TIMEOUT, || {
        let suite = daemon.suite("k");
        let children = suite["children"].as_array().unwrap().clone();
        children.iter().filter(|child| child["inFlight"] == 1).count() == 4
    });
    for id in pids {
        shims[0].answer_to(&id.to_string());
    }
}

/// A child that still works on a cancelled call is not free: the next call gets another child.
#[test]
fn call_scope_gives_no_call_to_a_process_that_works_on_a_cancelled_one() {
    let home = Home::new();
    home.child("k", &["slow-answers", "4000"]);
    pool(&home, "k", &json!({"scope": "call", "max": 8}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    // `pid_of` has listed its tools, so the next request in flight is the call itself.
    let first = shim.pid_of("k");
    let cancelled = shim.start_call("k", "where", "{}");
    until_true("the call", TEST_TIMEOUT, || daemon.suite("k")["children"][0]["inFlight"] == 1);
    let busy = daemon.pids("k")[0];
    assert_eq!(busy, first);
    cancel(&mut shim, cancelled);
    shim.request("ping", "{}");
    assert_ne!(shim.pid_of("k"), busy, "it still works on the other call");
    until_true("it to be free again", TEST_TIMEOUT, || shim.pid_of("k") == busy);
}

#[test]
fn call_scope_replaces_a_process_that_hangs_in_a_cancelled_call() {
    let home = Home::new();
    home.child("k", &["deaf"]);
    home.config(&json!({
        "timeouts": {"rpcMs": 1500},
        "suites": {"k": {"pool": {"scope": "call", "max": 1}, "validate": false}},
    }));
    let daemon = home.daemon();
    let mut shim = home.shim();
    let deaf = shim.pid_of("k");
    let cancelled = shim.start_call("k", "where", "{}");
    until_true("the call", TEST_TIMEOUT, || {
        daemon.suite("k")["children"][0]["inFlight"].as_u64().is_some_and(|calls| calls > 0)
    });
    shim.request("ping", "{}");
    cancel(&mut shim, cancelled);
    until_true("it to be replaced", TEST_TIMEOUT, || !procs::alive(deaf));
    until_true("another to serve", TEST_TIMEOUT, || {
        let answer = shim.call("k", "where", "{}");
        answer.contains("\"pid\"") && structured(&answer)["pid"] != deaf
    });
}

/// Servers need not answer cancelled calls. A child that answers other requests is used again.
#[test]
fn call_scope_keeps_a_process_that_dropped_a_cancelled_call() {
    let home = Home::new();
    home.child("k", &["echo"]);
    home.config(&json!({
        "timeouts": {"rpcMs": 1500},
        "suites": {"k": {"pool": {"scope": "call", "max": 1}}},
    }));
    let daemon = home.daemon();
    let mut shim = home.shim();
    let pid = shim.pid_of("k");
    for _ in 0..3 {
        let cancelled = shim.start_call("k", "hang", "{}");
        until_true("the call", TEST_TIMEOUT, || daemon.suite("k")["children"][0]["inFlight"] == 1);
        cancel(&mut shim, cancelled);
        assert_eq!(shim.pid_of("k"), pid);
    }
    let begin = Instant::now();
    until_true("longer than silence may last", TEST_TIMEOUT, || begin.elapsed() > Duration::from_secs(3));
    assert_eq!(shim.pid_of("k"), pid);
    assert_eq!(daemon.starts("k"), 1);
}

// --- which host a shared child asks ---

/// A child that may ask its host is not shared with another host whose call is open, if `max` allows another
/// child.
#[test]
fn two_hosts_of_a_shared_child_are_asked_where_max_allows() {
    let home = Home::new();
    home.child("k", &["slow-initialize", "500"]);
    pool(&home, "k", &json!({"max": 2}));
    let daemon = home.daemon();
    let (mut one, mut two) = (home.shim(), home.shim());
    one.start_call("k", "hang", "{}");
    until_true("the call", TEST_TIMEOUT, || daemon.suite("k")["children"][0]["inFlight"] == 1);
    for kind in ["elicitation/create", "sampling/createMessage"] {
        let short = kind.split('/').next().unwrap();
        let id = two.start_call("k", "ask", &json!({"kind": short}).to_string());
        answer_question(&mut two, kind);
        let answer = two.answer_to(&id.to_string());
        assert!(answer.contains("accept"), "{answer}");
    }
    assert_eq!(daemon.pids("k").len(), 2);
    one.request("ping", "{}");
    assert!(one.take_notifications_of_calls().is_empty(), "the other host was asked");
}

/// A host that cancelled, or was killed, is no reason to refuse the next host's question.
#[test]
fn a_cancelled_question_does_not_block_the_next_hosts_question() {
    for killed in [false, true] {
        let home = Home::new();
        home.child("k", &["echo"]);
        let daemon = home.daemon();
        let (mut one, mut two) = (home.shim(), home.shim());
        let asking = one.start_call("k", "ask", r#"{"kind":"elicitation"}"#);
        one.notification("elicitation/create");
        if killed {
            drop(one);
        } else {
            cancel(&mut one, asking);
        }
        until_true("the call to be given up", TEST_TIMEOUT, || {
            let suite = daemon.suite("k");
            suite["children"].as_array().unwrap().iter().all(|child| child["inFlight"] == 0)
        });
        let id = two.start_call("k", "ask", r#"{"kind":"elicitation"}"#);
        answer_question(&mut two, "elicitation/create");
        let answer = two.answer_to(&id.to_string());
        assert!(answer.contains("accept"), "killed: {killed}: {answer}");
    }
}

// --- spares ---

/// Waits until there are this many spares, and returns their pids.
#[track_caller]
fn spares(daemon: &proto_tests::DaemonProcess, child: &str, many: usize) -> Vec<i32> {
    until("spares", TEST_TIMEOUT, || {
        let suite = daemon.suite(child);
        let free: Vec<i32> = suite["children"]
            .as_array()?
            .iter()
            .filter(|child| child["ownedBySession"] == false && child["tools"].is_number())
            .map(|child| i32::try_from(child["pid"].as_i64().unwrap()).unwrap())
            .collect();
        (free.len() == many).then_some(free)
    })
}

#[test]
fn a_spare_is_initialised_before_it_is_needed_and_replaced_when_taken() {
    let home = Home::new();
    let journal = home.path().join("journal");
    home.child_with("k", &["slow-initialize", "700"], &[("EVIL_JOURNAL", journal.to_str().unwrap())]);
    pool(&home, "k", &json!({"scope": "session", "warm": 1}));
    let daemon = home.daemon();
    assert_eq!(daemon.starts("k"), 0, "what never ran is never warmed");
    let mut first = home.shim();
    first.pid_of("k");
    let spare = spares(&daemon, "k", 1)[0];
    let initialized = |pid: i32| {
        let text = fs::read_to_string(&journal).unwrap();
        text.lines()
            .any(|line| line.starts_with(&format!("{pid} ")) && line.contains("notifications/initialized"))
    };
    assert!(initialized(spare));
    let mut second = home.shim();
    // The spare is initialised, so this call does not wait for a start.
    assert_eq!(second.pid_of("k"), spare, "a new session takes the spare");
    let next = spares(&daemon, "k", 1)[0];
    assert_ne!(next, spare, "its replacement follows");
    assert_eq!(daemon.starts("k"), 3);
}

#[test]
fn a_definition_that_never_ran_is_never_warmed() {
    let home = Home::new();
    for child in ["a", "b", "c"] {
        home.child(child, &["echo"]);
    }
    home.config(&json!({"suites": {
        "a": {"pool": {"warm": 1}},
        "b": {"pool": {"warm": 2, "scope": "session"}},
        "c": {"pool": {"warm": 2, "scope": "call"}},
    }}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.request("tools/list", "{}");
    home.run_ok(&["reload"]);
    daemon.status();
    // `c` is used; that takes long enough for any start to become visible.
    shim.pid_of("c");
    spares(&daemon, "c", 2);
    assert_eq!((daemon.starts("a"), daemon.starts("b")), (0, 0));
    assert_eq!(home.children().len(), 2, "{:#?}", home.children());
}

#[test]
fn spares_are_started_again_after_a_restart_of_the_daemon() {
    let home = Home::new();
    home.child("k", &["echo"]);
    pool(&home, "k", &json!({"scope": "session", "warm": 2}));
    {
        let daemon = home.daemon();
        home.shim().pid_of("k");
        spares(&daemon, "k", 2);
    }
    until_true("the first daemon's children to go", TEST_TIMEOUT, || home.children().is_empty());
    let daemon = home.daemon();
    let waiting = spares(&daemon, "k", 2);
    assert!(waiting.contains(&home.shim().pid_of("k")));
}

#[test]
fn a_warm_shared_child_outlives_its_idle_time_and_is_restarted_after_a_crash() {
    let home = Home::new();
    home.child("k", &["echo"]);
    pool(&home, "k", &json!({"warm": 1, "idleMs": 300}));
    let daemon = home.daemon();
    let pid = home.shim().pid_of("k");
    // A warm child outlives its idle time, and is restarted after a crash without a call.
    let begin = Instant::now();
    until_true("four times its idle time", TEST_TIMEOUT, || begin.elapsed() > Duration::from_millis(1200));
    assert_eq!(daemon.pids("k"), [pid], "warm ones stay");
    home.shim().call("k", "crash", "{}");
    until_true("another one", TEST_TIMEOUT, || daemon.pids("k").first().is_some_and(|other| *other != pid));
}

// --- idle ---

#[test]
fn an_idle_child_is_stopped_and_introspection_is_not_use() {
    let home = Home::new();
    home.child("k", &["echo"]);
    pool(&home, "k", &json!({"idleMs": 2000}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    let pid = shim.pid_of("k");
    let used = Instant::now();
    until_true("the child to go although it is looked at all the time", TEST_TIMEOUT, || {
        // Once the child is gone, an introspect would start it again, so only while it surely runs.
        if used.elapsed() < Duration::from_millis(1500) {
            shim.introspect("k");
        }
        shim.request("tools/list", "{}");
        daemon.status();
        home.command(&["status"]);
        !procs::alive(pid)
    });
    let lived = used.elapsed();
    assert!(lived >= Duration::from_millis(1900), "gone too early: {lived:?}");
    assert!(lived < Duration::from_secs(15), "{lived:?}");
    assert_eq!(daemon.suite("k")["state"], "cold");
    assert_eq!(daemon.suite("k")["children"], json!([]));
    assert_ne!(shim.pid_of("k"), pid, "the next call starts another");
}

#[test]
fn a_child_with_an_unanswered_call_is_not_idle() {
    let home = Home::new();
    home.child("k", &["echo"]);
    pool(&home, "k", &json!({"idleMs": 300}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let pid = shim.pid_of("k");
    let answer = shim.call("k", "slow", r#"{"ms":2500}"#);
    assert!(answer.contains("\"ok\":true"), "{answer}");
    assert!(procs::alive(pid));
    until_true("it to go then", TEST_TIMEOUT, || !procs::alive(pid));
}

#[test]
fn idle_children_beyond_warm_are_stopped() {
    let home = Home::new();
    home.child("k", &["echo"]);
    pool(&home, "k", &json!({"scope": "call", "max": 4, "warm": 1, "idleMs": 800}));
    let daemon = home.daemon();
    let mut shims: Vec<Shim> = (0..4).map(|_| home.shim()).collect();
    let ids: Vec<u64> = shims.iter_mut().map(|shim| shim.start_call("k", "slow", r#"{"ms":1500}"#)).collect();
    until_true("four processes", TEST_TIMEOUT, || daemon.pids("k").len() == 4);
    for (shim, id) in shims.iter_mut().zip(ids) {
        shim.answer_to(&id.to_string());
    }
    until_true("three to go", TEST_TIMEOUT, || daemon.pids("k").len() == 1);
    let left = daemon.pids("k");
    let begin = Instant::now();
    until_true("a few idle times", TEST_TIMEOUT, || begin.elapsed() > Duration::from_secs(3));
    assert_eq!(daemon.pids("k"), left);
}

// --- status and defaults ---

#[test]
fn browser_servers_default_to_session_scope() {
    let home = Home::new();
    let fake = home.write("bin/chrome-devtools-mcp", "");
    fs::write(&fake, format!("#!/bin/sh\nexec {} echo\n", bins().evil_child.display())).unwrap();
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
    let browser = home.entry(&fake, &[], &[]);
    let other = home.entry(&fake, &[], &[("OTHER", "1")]);
    home.definition("b", &json!({"mcpServers": {"browser": browser, "tamed": other}}).to_string());
    home.config(&json!({"suites": {"tamed": {"pool": {"scope": "shared"}}}}));
    let daemon = home.daemon();
    assert_eq!(daemon.suite("browser")["pool"]["scope"], "session");
    assert_eq!(daemon.suite("browser")["pool"]["max"], 8);
    assert_eq!(daemon.suite("tamed")["pool"]["scope"], "shared");
    let (mut one, mut two) = (home.shim(), home.shim());
    assert_ne!(one.pid_of("browser"), two.pid_of("browser"));
    assert_eq!(one.pid_of("tamed"), two.pid_of("tamed"));
}

#[test]
fn the_status_shows_the_settings_and_state_of_a_pool() {
    let home = Home::new();
    for child in ["plain", "set", "idle"] {
        home.child(child, &["echo"]);
    }
    let set = json!({"scope": "call", "warm": 2, "max": 3, "idleMs": 4000});
    home.config(&json!({"suites": {"set": {"pool": set}}}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.pid_of("plain");
    let mut plain = daemon.suite("plain");
    // Its lists are read behind the call.
    assert!(plain["pool"].as_object_mut().unwrap().remove("isDescribed").unwrap().is_boolean());
    assert_eq!(
        plain["pool"],
        json!({"scope": "shared", "warm": 0, "max": 1, "idleMs": 600_000, "starts": 1}),
        "{plain}"
    );
    assert_eq!(plain["state"], "ready");
    let child = &plain["children"][0];
    for number in ["pid", "ageMs", "idleMs", "inFlight", "tools"] {
        assert!(child[number].is_u64(), "{number} in {child}");
    }
    let mut expected = set;
    expected["starts"] = json!(0);
    expected["isDescribed"] = json!(false);
    assert_eq!(daemon.suite("set")["pool"], expected);
    assert_eq!(daemon.suite("idle")["state"], "cold");
    let text = String::from_utf8(home.command(&["status"]).stdout).unwrap();
    assert!(text.contains("plain  "), "{text}");
}

#[test]
fn eight_children_for_three_hosts_are_eight_processes() {
    let home = Home::new();
    for child in 0..8 {
        home.child(&format!("k{child}"), &["echo"]);
    }
    let daemon = home.daemon();
    let mut shims: Vec<Shim> = (0..3).map(|_| home.shim()).collect();
    for shim in &mut shims {
        for child in 0..8 {
            shim.pid_of(&format!("k{child}"));
        }
    }
    let told: BTreeSet<i32> = (0..8).flat_map(|child| daemon.pids(&format!("k{child}"))).collect();
    let seen: BTreeSet<i32> = home.children().iter().map(|process| process.pid).collect();
    assert_eq!(told.len(), 8);
    assert_eq!(told, seen, "`/status` and the process list");
    assert_eq!(daemon.status()["budget"]["running"], 8);
}
