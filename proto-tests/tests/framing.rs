//! Framing on both ends: what hosts may send, what children get, and how long a message may be.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::fs;

use proto_tests::shim::{INITIALIZE, answer_id, call_params, kind_of, structured};
use proto_tests::{Home, Shim, TEST_TIMEOUT};
use serde_json::{Value, json};

fn request(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

fn framed(message: &str) -> String {
    format!("Content-Length: {}\r\n\r\n{message}", message.len())
}

/// All output until its end, for hosts that do not use line framing.
fn output(shim: &mut Shim) -> String {
    let mut all = String::new();
    while let Ok(line) = shim.receive_within(TEST_TIMEOUT) {
        all += &line;
        all.push('\n');
    }
    all
}

#[test]
fn a_host_that_uses_content_length_is_answered_with_it() {
    let home = Home::new();
    home.child("f", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.raw_shim();
    shim.send_bytes(framed(&request("1", "initialize", INITIALIZE)).as_bytes());
    let pretty = serde_json::to_string_pretty(&json!({
        "jsonrpc": "2.0", "id": "two", "method": "tools/call",
        "params": {"name": "f_suite", "arguments": {"action": "call", "subtool": "echo", "args": {"a": [1, 2]}}},
    }))
    .unwrap();
    shim.send_bytes(framed(&pretty).as_bytes());
    shim.close_stdin();
    let all = output(&mut shim);
    let mut rest = all.as_str();
    let mut ids = Vec::new();
    while let Some(behind) = rest.trim_start_matches('\n').strip_prefix("Content-Length: ") {
        let (length, body) = behind.split_once("\r\n\r\n").unwrap();
        let (message, after) = body.split_at(length.parse().unwrap());
        ids.push(answer_id(message).unwrap());
        rest = after;
    }
    ids.sort();
    assert_eq!(ids, ["\"two\"", "1"], "{all}");
    assert_eq!(rest.trim(), "", "{all}");
}

#[test]
fn blanks_line_endings_and_write_sizes_do_not_matter() {
    let home = Home::new();
    home.child("f", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    // One byte at a time, with CRLF, surrounding blanks and blank lines.
    for byte in request("\"a\"", "ping", "{}").bytes().chain(*b"\r\n\r\n\n") {
        shim.send_bytes(&[byte]);
    }
    assert_eq!(answer_id(&shim.receive()).as_deref(), Some("\"a\""));
    shim.send_bytes(format!("  {}  \n", request("\"b\"", "ping", "{}")).as_bytes());
    assert_eq!(answer_id(&shim.receive()).as_deref(), Some("\"b\""));
    // Two messages in one write.
    let both = format!("{}\n{}\n", request("1001", "ping", "{}"), request("1002", "ping", "{}"));
    shim.send_bytes(both.as_bytes());
    assert_eq!(answer_id(&shim.receive()).as_deref(), Some("1001"));
    assert_eq!(answer_id(&shim.receive()).as_deref(), Some("1002"));
}

#[test]
fn a_child_always_gets_one_compact_line() {
    let home = Home::new();
    let journal = home.path().join("journal");
    home.child_with("f", &["echo"], &[("EVIL_JOURNAL", journal.to_str().unwrap())]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let pretty = serde_json::to_string_pretty(&json!({
        "jsonrpc": "2.0", "id": "p", "method": "tools/call",
        "params": {"name": "f_suite", "arguments": {"action": "call", "subtool": "echo", "args": {"text": "a\nb", "list": [1, 2]}}},
    }))
    .unwrap();
    shim.send_bytes(framed(&pretty).as_bytes());
    // A host whose first message was a line is answered in lines.
    let answer = shim.answer_to("\"p\"");
    assert_eq!(structured(&answer)["args"], json!({"text": "a\nb", "list": [1, 2]}));
    let lines = fs::read_to_string(&journal).unwrap();
    for line in lines.lines() {
        let message = line.split_once(' ').unwrap().1;
        let parsed: Value = serde_json::from_str(message).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(parsed["jsonrpc"], "2.0");
    }
}

#[test]
fn an_invalid_message_is_answered_with_an_error_and_the_session_continues() {
    let home = Home::new();
    let _daemon = home.daemon();
    let mut shim = home.shim();
    for (line, code) in [
        ("{\"incomplete\": json", -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,", -32700),
        ("[]", -32600),
        ("{}", -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600),
    ] {
        shim.send(line);
        let answer: Value = serde_json::from_str(&shim.receive()).unwrap();
        assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
    }
    assert!(shim.request("ping", "{}").contains("\"result\":{}"));
}

#[test]
fn a_call_over_the_limit_is_refused_and_the_next_one_works() {
    let home = Home::new();
    home.child("f", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let text = "x".repeat(17 << 20);
    let id = shim.start_call("f", "echo", &format!(r#"{{"text":"{text}"}}"#));
    let answer = shim.answer_to(&id.to_string());
    assert_eq!(kind_of(&answer).as_deref(), Some("too_long"), "{answer}");
    assert!(answer.contains("\"isError\":true") && answer.contains("16777216 bytes"), "{answer}");
    assert!(shim.call("f", "echo", "{}").contains("\"ok\":true"));
}

#[test]
fn a_long_answer_reaches_the_host_whole_and_a_longer_one_is_a_clear_error() {
    let home = Home::new();
    home.child("f", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let whole = shim.call("f", "big", r#"{"bytes":6000000}"#);
    assert_eq!(proto_tests::shim::text_of(&whole).len(), 6_000_000);
    let too_long = shim.call("f", "big", r#"{"bytes":8000000}"#);
    assert!(
        too_long.len() < 2000 && too_long.contains("7340032 bytes"),
        "{}",
        &too_long[..too_long.len().min(500)]
    );
    assert_eq!(kind_of(&too_long).as_deref(), Some("answer_too_long"));
    assert!(shim.call("f", "echo", "{}").contains("\"ok\":true"));
}

#[test]
fn an_unterminated_last_line_is_a_message() {
    let home = Home::new();
    home.child("f", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    shim.send_bytes(request("\"last\"", "tools/call", &call_params("f", "echo", "{}")).as_bytes());
    shim.close_stdin();
    assert!(shim.answer_to("\"last\"").contains("\"ok\":true"));
    assert!(shim.ended(TEST_TIMEOUT).success());
}
