//! What hosts write: other framings, garbage, messages over the limit.

use std::io::{Read, Write};

use serde_json::json;

use crate::host::{Host, binary, shim};

#[test]
fn garbage_is_answered_and_the_session_continues() {
    let (mut host, daemon, _folder) = Host::with_daemon();
    let parse_error = r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}"#;
    for garbage in ["hello\n", "{\"incomplete\": json\n", "{\n", "\"id\"\n"] {
        host.write(garbage.as_bytes());
        assert_eq!(host.line(), parse_error, "{garbage}");
    }
    host.write(b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]\n");
    let heard = host.expect_message();
    assert_eq!((heard["error"]["code"].as_i64(), &heard["id"]), (Some(-32600), &json!(null)));
    host.write(b"{\"id\":\"x\",\"method\":\"ping\"}\n");
    let heard = host.expect_message();
    assert_eq!((heard["error"]["code"].as_i64(), &heard["id"]), (Some(-32600), &json!("x")));
    host.write(b"\r\n\n  \n");
    host.request(1, "tools/list");
    daemon.expect("tools/list").result(&json!({}));
    host.expect_result(1);
}

#[test]
fn a_host_with_content_length_frames_gets_such_frames() {
    let (folder, socket) = crate::host::socket_dir();
    let daemon = crate::daemon::FakeDaemon::bind(&socket, "boot1");
    let mut child = shim(binary(), &socket).arg("--no-start").spawn().unwrap();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#;
    let mut stdin = child.stdin.take().unwrap();
    write!(stdin, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let call = daemon.expect("initialize");
    assert_eq!(call.body, body);
    call.result(&json!({"a": 1}));
    drop(stdin);
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    let answer = r#"{"id":1,"jsonrpc":"2.0","result":{"a":1}}"#;
    assert_eq!(out, format!("Content-Length: {}\r\n\r\n{answer}", answer.len()));
    assert!(child.wait().unwrap().success());
    drop(folder);
}

#[test]
fn a_message_over_the_limit_is_refused_under_its_id() {
    let (mut host, _daemon, _folder) = Host::with_daemon();
    let block = vec![b'x'; 1 << 20];
    let mut say = |method: &str| {
        host.write(
            format!(r#"{{"jsonrpc":"2.0","id":"big","method":"{method}","params":{{"x":""#).as_bytes(),
        );
        for _ in 0..17 {
            host.write(&block);
        }
        host.write(b"\"}}\n");
        let heard = host.expect_message();
        assert_eq!(heard["id"], "big");
        heard
    };
    assert_eq!(say("prompts/get")["error"]["code"], -32600);
    assert_eq!(say("tools/call")["result"]["isError"], true);
    host.ping();
}

#[test]
fn large_messages_pass_up_to_the_hosts_limit() {
    let (mut host, daemon, _folder) = Host::with_daemon();
    let filling = "ä".repeat(3 << 20);
    host.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"x": filling}}));
    let call = daemon.expect("tools/call");
    assert_eq!(call.json()["params"]["x"], filling);
    call.result(&json!({"x": filling}));
    assert_eq!(host.expect_result(1)["x"], filling);

    host.request(2, "tools/call");
    daemon.expect("tools/call").result(&json!({"x": "y".repeat(7 << 20)}));
    let text = host.expect_failed_call(2, "answer_too_long");
    assert!(text.contains("7340032") && text.contains("73400"), "{text}");
    host.ping();
}

#[test]
fn a_notification_over_the_limit_is_dropped_with_a_line() {
    let (mut host, daemon, _folder) = Host::with_daemon();
    daemon
        .mail(&json!({"jsonrpc": "2.0", "method": "notifications/x", "params": {"x": "y".repeat(8 << 20)}}));
    daemon.mail(
        &json!({"jsonrpc": "2.0", "id": "boot1-1", "method": "x/ask", "params": {"x": "y".repeat(8 << 20)}}),
    );
    daemon.mail(&json!({"jsonrpc": "2.0", "method": "notifications/y"}));
    assert_eq!(host.expect_message()["method"], "notifications/y");
    assert!(host.stderr_line().contains("dropped a message"));
    // The question is answered, so that its child does not wait.
    let answer = daemon.call();
    assert_eq!(answer.json()["id"], "boot1-1");
    assert_eq!(answer.json()["error"]["code"], -32000);
    host.ping();
}
