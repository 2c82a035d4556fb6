//! The hop protocol between shim and daemon: sessions, message order, the mailbox and its watermark,
//! cancelling.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::thread;
use std::time::Instant;

use proto_tests::http::Connection;
use proto_tests::wait::until_true;
use proto_tests::{DaemonProcess, Home, Request, Response, TEST_TIMEOUT};
use serde_json::{Value, json};

/// One session, as a shim opens it.
struct Session<'a> {
    daemon: &'a DaemonProcess,
    name: String,
    seq: u64,
}

impl<'a> Session<'a> {
    fn open(daemon: &'a DaemonProcess) -> Self {
        let body = json!({"workspace": null, "version": "0.1.0", "hop": {"min": 1, "max": 1}});
        let response = daemon.endpoint().post("/hop/session", &body.to_string());
        assert_eq!(response.status, 200, "{}", response.text());
        let opened = response.json();
        assert_eq!(opened["hop"], 1);
        assert!(opened["boot"].as_str().is_some_and(|boot| !boot.is_empty()));
        let name = opened["session"].as_str().unwrap().to_owned();
        assert!(name.len() >= 22, "128 bits are longer than {name}");
        let mut session = Self { daemon, name, seq: 0 };
        let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params":
            {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t", "version": "1"}}});
        assert_eq!(session.post(&initialize.to_string()).status, 200);
        session
    }

    fn request(&self, seq: u64, body: &str) -> Request {
        Request::new("POST", "/proxy")
            .header("Switchboard-Session", &self.name)
            .header("Switchboard-Seq", &seq.to_string())
            .body(body)
    }

    fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    fn post(&mut self, body: &str) -> Response {
        let seq = self.next_seq();
        self.daemon.endpoint().send(&self.request(seq, body))
    }

    /// Sends on a separate connection and does not wait for the answer.
    fn start(&mut self, body: &str) -> Connection {
        let seq = self.next_seq();
        let mut connection = self.daemon.endpoint().connect().unwrap();
        connection.write(&self.request(seq, body).bytes("localhost"));
        connection
    }

    fn mailbox(&self, after: u64, wait_ms: u64) -> Value {
        let request = Request::new("POST", "/hop/mailbox")
            .header("Switchboard-Session", &self.name)
            .body(json!({"after": after, "waitMs": wait_ms}).to_string());
        let response = self.daemon.endpoint().send(&request);
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()
    }
}

fn call(id: u64, subtool: &str, args: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"kid_suite","arguments":{{"action":"call","subtool":"{subtool}","args":{args}}},"_meta":{{"progressToken":"t{id}"}}}}}}"#
    )
}

fn journalled(home: &Home) -> std::path::PathBuf {
    let journal = home.path().join("journal");
    home.child_with("kid", &["echo"], &[("EVIL_JOURNAL", journal.to_str().unwrap())]);
    journal
}

#[test]
fn messages_are_dispatched_in_sequence_whatever_order_they_arrive_in() {
    let home = Home::new();
    let journal = journalled(&home);
    let daemon = home.daemon();
    let mut session = Session::open(&daemon);
    session.post(&call(1, "echo", r#"{"n":0}"#));
    for round in 0..20 {
        let first = session.seq + 1;
        session.seq += 4;
        // The last messages are sent first.
        let late: Vec<_> = (1..4)
            .rev()
            .map(|n| {
                let mut connection = daemon.endpoint().connect().unwrap();
                let body = call(100 + n, "echo", &format!(r#"{{"round":{round},"n":{n}}}"#));
                connection.write(&session.request(first + n, &body).bytes("localhost"));
                connection
            })
            .collect();
        let body = call(100, "echo", &format!(r#"{{"round":{round},"n":0}}"#));
        assert_eq!(daemon.endpoint().send(&session.request(first, &body)).status, 200);
        for mut connection in late {
            assert_eq!(connection.response(false).unwrap().status, 200);
        }
    }
    let text = fs::read_to_string(journal).unwrap();
    let seen: Vec<(u64, u64)> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line.split_once(' ')?.1).ok())
        .filter_map(|line| {
            let args = &line["params"]["arguments"];
            Some((args["round"].as_u64()?, args["n"].as_u64()?))
        })
        .collect();
    let expected: Vec<_> = (0..20).flat_map(|round| (0..4).map(move |n| (round, n))).collect();
    assert_eq!(seen, expected);
}

#[test]
fn unacknowledged_messages_stay_in_the_mailbox() {
    let home = Home::new();
    journalled(&home);
    let daemon = home.daemon();
    let mut session = Session::open(&daemon);
    let answer = session.post(&call(1, "progress", r#"{"steps":5}"#));
    let watermark: u64 = answer.header("switchboard-mailbox").expect("a watermark").parse().unwrap();
    assert!(watermark >= 5, "{watermark}");
    let first = session.mailbox(0, 0);
    assert_eq!(first, session.mailbox(0, 0), "a dropped poll lost something");
    let tokens: Vec<_> =
        first["messages"].as_array().unwrap().iter().map(|m| &m["params"]["progressToken"]).collect();
    assert_eq!(tokens, ["t1"; 5]);
    assert_eq!(first["next"], watermark);
    let rest = session.mailbox(watermark, 0);
    assert_eq!(rest["messages"], json!([]));
    assert_eq!(rest["next"], watermark);
}

#[test]
fn a_poll_waits_until_a_message_arrives() {
    let home = Home::new();
    journalled(&home);
    let daemon = home.daemon();
    let mut session = Session::open(&daemon);
    session.post(&call(1, "echo", "{}"));
    // The first message: the server has run, so its suite's description changed.
    let start = session.mailbox(0, 25_000)["next"].as_u64().unwrap();
    thread::scope(|scope| {
        let poll = scope.spawn(|| session.mailbox(start, 25_000));
        let body = call(2, "log", "{}");
        let seq = 3;
        assert_eq!(daemon.endpoint().send(&session.request(seq, &body)).status, 200);
        let woken = poll.join().unwrap();
        assert!(woken["messages"].to_string().contains("something happened"), "{woken}");
    });
    let began = Instant::now();
    let next = session.mailbox(start, 0)["next"].as_u64().unwrap();
    assert_eq!(session.mailbox(next, 300)["messages"], json!([]));
    assert!(began.elapsed().as_millis() >= 250, "it did not wait");
}

#[test]
fn a_cancelled_call_gets_an_empty_answer() {
    let home = Home::new();
    let journal = journalled(&home);
    let daemon = home.daemon();
    let mut session = Session::open(&daemon);
    let mut hanging = session.start(&call(7, "hang", "{}"));
    until_true("the call", TEST_TIMEOUT, || {
        fs::read_to_string(&journal).unwrap_or_default().contains("\"hang\"")
    });
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
    assert_eq!(session.post(cancel).status, 202);
    let answer = hanging.response(false).unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (204, ""));
    until_true("the cancel", TEST_TIMEOUT, || {
        fs::read_to_string(&journal).unwrap().contains("notifications/cancelled")
    });
}

#[test]
fn an_unknown_session_is_refused() {
    let home = Home::new();
    let daemon = home.daemon();
    for name in ["", "nobody", "00000000000000000000000000000000"] {
        let request = Request::new("POST", "/proxy")
            .header("Switchboard-Session", name)
            .header("Switchboard-Seq", "1")
            .body(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        let status = daemon.endpoint().send(&request).status;
        assert!((400..500).contains(&status), "{name:?} got {status}");
        let request = Request::new("POST", "/hop/mailbox")
            .header("Switchboard-Session", name)
            .body(r#"{"after":0,"waitMs":0}"#);
        let status = daemon.endpoint().send(&request).status;
        assert!((400..500).contains(&status), "{name:?} got {status}");
    }
}

#[test]
fn incompatible_hop_versions_are_refused_with_both_ranges() {
    let home = Home::new();
    let daemon = home.daemon();
    let open = |version: &str, min: u32, max: u32| {
        let body = json!({"workspace": null, "version": version, "hop": {"min": min, "max": max}});
        daemon.endpoint().post("/hop/session", &body.to_string())
    };
    // The hop version decides, not the shim's version: older and newer shims just work.
    for (version, min, max) in [("0.0.1", 1, 1), ("99.0.0", 1, 1), ("99.0.0", 1, 7), ("nonsense", 0, 1)] {
        let opened = open(version, min, max);
        assert_eq!(opened.status, 200, "{version} {min} {max}: {}", opened.text());
        assert_eq!(opened.json()["hop"], 1);
    }
    for (min, max) in [(900, 901), (0, 0), (2, 2)] {
        let refused = open("9.9.9", min, max);
        assert_eq!(refused.status, 426, "{}", refused.text());
        let said = refused.json()["error"].as_str().unwrap().to_owned();
        assert!(said.contains("1–1") && said.contains(&format!("{min}–{max}")), "{said}");
    }
    // Open sessions are not affected.
    let mut session = Session::open(&daemon);
    assert_eq!(session.post(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).status, 200);
    for broken in ["", "{}", "[]", "{\"hop\":7}"] {
        let status = daemon.endpoint().post("/hop/session", broken).status;
        assert!((400..500).contains(&status), "{broken:?} got {status}");
    }
}

#[test]
fn the_id_of_a_question_carries_the_boot_id() {
    let home = Home::new();
    journalled(&home);
    let daemon = home.daemon();
    let mut session = Session::open(&daemon);
    let mut asking = session.start(&call(1, "ask", r#"{"kind":"elicitation"}"#));
    let batch = session.mailbox(0, 25_000);
    let question = batch["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let id = question["id"].as_str().expect("a string with the boot in it");
    // An answer for another boot is dropped, the right one is not.
    let answer = |id: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":"{id}","result":{{"action":"accept","content":{{}}}}}}"#)
    };
    assert_eq!(session.post(&answer("ffffffff-1")).status, 202);
    assert_eq!(session.post(&answer(id)).status, 202);
    let response = asking.response(false).unwrap();
    assert!(response.text().contains("accept"), "{}", response.text());
}

/// One session sends out of order on more connections than the daemon has slots, while another session calls.
#[test]
fn one_session_cannot_take_all_connections() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon();
    let mut other = Session::open(&daemon);
    assert_eq!(other.post(&call(1, "echo", "{}")).status, 200);
    // A session ends two seconds after its last connection.
    let _other_stays = other.start(&call(2, "slow", r#"{"ms":60000}"#));
    let one = Session::open(&daemon);
    let note = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
    // All of them wait for a sequence number that is never sent.
    let mut open = Vec::new();
    let begin = Instant::now();
    for seq in 3..2600 {
        let Ok(mut connection) = daemon.endpoint().connect() else { break };
        connection.write(&one.request(seq, note).bytes("localhost"));
        open.push(connection);
        if begin.elapsed() > std::time::Duration::from_secs(4) {
            break;
        }
    }
    assert!(open.len() > 2048, "only {} connections could be opened", open.len());
    let asked = Instant::now();
    assert_eq!(other.post(&call(3, "echo", "{}")).status, 200);
    let took = asked.elapsed();
    assert!(took < std::time::Duration::from_secs(5), "another session's call took {took:?}");
    // Connections without a slot are refused, and the session does not wait for their sequence numbers.
    let last = open.last_mut().unwrap().response(false).unwrap();
    assert_eq!((last.status, last.header("connection")), (429, Some("close")), "{}", last.text());
    assert!(last.json()["error"]["message"].as_str().unwrap().contains("connections"), "{}", last.text());
}

/// Only a session with revision 2025-03-26 has batches.
fn session_with_batches(daemon: &DaemonProcess) -> Session<'_> {
    let mut session = Session::open(daemon);
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params":
        {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    assert_eq!(session.post(&initialize.to_string()).status, 200);
    session.post(&call(1, "echo", "{}"));
    session
}

#[test]
fn the_calls_of_a_batch_run_at_once_and_are_answered_in_order() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon();
    let mut session = session_with_batches(&daemon);
    let mut batch: Vec<String> = (2..10).map(|id| call(id, "slow", r#"{"ms":1000}"#)).collect();
    batch.insert(1, r#"{"jsonrpc":"1.0","id":"bad","method":"ping"}"#.to_owned());
    let asked = Instant::now();
    let answers = session.post(&format!("[{}]", batch.join(","))).json();
    let took = asked.elapsed();
    let ids: Vec<_> = answers.as_array().unwrap().iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(json!(ids), json!([2, "bad", 3, 4, 5, 6, 7, 8, 9]), "{answers}");
    assert_eq!(answers[1]["error"]["code"], -32600, "{answers}");
    assert!(took < std::time::Duration::from_secs(6), "eight calls of a second took {took:?}");
}

#[test]
fn a_batch_does_not_block_the_next_message() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon();
    let mut session = session_with_batches(&daemon);
    let mut batch = session.start(&format!("[{}]", call(2, "slow", r#"{"ms":6000}"#)));
    let asked = Instant::now();
    assert_eq!(session.post(r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#).status, 200);
    let took = asked.elapsed();
    assert!(took < std::time::Duration::from_secs(4), "the next message waited {took:?} for the batch");
    let answers = batch.response(false).unwrap().json();
    assert_eq!(answers[0]["id"], 2, "{answers}");
}

#[test]
fn batches_of_one_session_have_a_limit_of_calls_together() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon();
    let mut session = session_with_batches(&daemon);
    let calls = |ids: std::ops::Range<u64>| {
        let calls: Vec<String> = ids.map(|id| call(id, "slow", r#"{"ms":3000}"#)).collect();
        format!("[{}]", calls.join(","))
    };
    let mut first = session.start(&calls(2..302));
    let refused = session.post(&calls(302..332));
    assert_eq!(refused.status, 429, "{}", refused.text());
    assert!(refused.json()["error"]["message"].as_str().unwrap().contains("320"));
    let answers = first.response(false).unwrap().json();
    assert_eq!(answers.as_array().unwrap().len(), 300);
}
