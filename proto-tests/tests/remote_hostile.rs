//! Hostile remote servers, and servers that fail at the worst moment: each causes a clear error within its
//! deadline, and nothing else is disturbed.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use proto_tests::scripted_server::{RecordedRequest, Responder, ScriptedServer, legacy, modern};
use proto_tests::shim::{kind_of, text_of};
use proto_tests::wait::until_true;
use proto_tests::{DaemonProcess, Home, Shim, TEST_TIMEOUT};
use serde_json::{Value, json};

/// Timeouts of a start and of a silent call in these tests.
const SPAWN: Duration = Duration::from_millis(1500);
const RPC: Duration = Duration::from_millis(1500);
/// The delay that a busy machine may add.
const SLACK: Duration = Duration::from_secs(6);

struct TestSetup {
    shim: Shim,
    daemon: DaemonProcess,
    _home: Home,
}

impl TestSetup {
    /// A daemon with this server as child `far` and a well-behaved local child.
    fn with(far: &ScriptedServer, more: &Value) -> Self {
        Self::with_timeout(far, more, RPC)
    }

    fn with_timeout(far: &ScriptedServer, more: &Value, rpc: Duration) -> Self {
        let home = Home::new();
        let mut entry = json!({"type": "http", "url": far.url()});
        more.as_object().into_iter().flatten().for_each(|(key, value)| entry[key] = value.clone());
        home.definition("far", &json!({"mcpServers": {"far": entry}}).to_string());
        home.child("near", &["echo"]);
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap();
        home.config(&json!({"timeouts":
            {"childSpawnMs": ms(SPAWN), "rpcMs": ms(rpc), "maxMs": 4 * ms(rpc)}}));
        let daemon = home.daemon();
        let mut shim = home.shim();
        shim.call("near", "echo", r#"{"text":"warm"}"#);
        Self { shim, daemon, _home: home }
    }

    /// Calls the remote child; meanwhile the local one answers as usual.
    #[track_caller]
    fn call(&mut self) -> String {
        let begun = Instant::now();
        let id = self.shim.start_call("far", "echo", r#"{"a":1}"#);
        let near = self.shim.call("near", "echo", r#"{"text":"hi"}"#);
        assert!(text_of(&near).contains("hi"), "{near}");
        let answer = self.shim.answer_to(&id.to_string());
        let took = begun.elapsed();
        assert!(took < 4 * RPC + SLACK, "{took:?}: {answer}");
        answer
    }

    /// The call fails with this kind, and its message contains all of these words.
    #[track_caller]
    fn fails(&mut self, kind: &str, words: &[&str]) -> String {
        let answer = self.call();
        assert_eq!(kind_of(&answer).as_deref(), Some(kind), "{answer}");
        let message = text_of(&answer);
        for word in words.iter().chain(&["`far`"]) {
            assert!(message.contains(word), "`{word}` is not in: {message}");
        }
        assert_eq!(self.daemon.endpoint().get("/health").status, 200);
        message
    }

    #[track_caller]
    fn works(&mut self) {
        let answer = self.call();
        assert_eq!(text_of(&answer), r#"{"a":1}"#, "{answer}");
    }
}

/// A well-behaved server, except for calls.
fn calls(answer: impl Fn(&RecordedRequest, &mut Responder) + Send + Sync + 'static) -> ScriptedServer {
    ScriptedServer::start(move |asked, back| match asked.what().as_str() {
        "tools/call" => answer(asked, back),
        _ => legacy(asked, back),
    })
}

/// Like `calls`, but only the first call misbehaves.
fn first_call(answer: impl Fn(&RecordedRequest, &mut Responder) + Send + Sync + 'static) -> ScriptedServer {
    let count = AtomicUsize::new(0);
    calls(move |asked, back| match count.fetch_add(1, Ordering::Relaxed) {
        0 => answer(asked, back),
        _ => legacy(asked, back),
    })
}

#[test]
fn a_server_that_never_answers_anything() {
    let far = ScriptedServer::start(|_, back| {
        back.is_left();
    });
    let mut stage = TestSetup::with(&far, &json!({}));
    stage.fails("child_spawn_timeout", &["1500 ms"]);
    assert_eq!(far.count("initialize"), 0, "silence says nothing about the era");
}

#[test]
fn a_server_that_never_answers_a_call() {
    let far = first_call(|_, back| {
        back.is_left();
    });
    let mut stage = TestSetup::with(&far, &json!({}));
    stage.fails("rpc_timeout", &["1500 ms", "`echo`"]);
    let cancelled = far.wait_for("notifications/cancelled");
    let call = far.wait_for("tools/call");
    assert_eq!(cancelled.message()["params"]["requestId"], call.message()["id"]);
    assert_eq!(cancelled.header("mcp-session-id"), Some("s1"));
    stage.works();
}

#[test]
fn a_modern_server_that_never_answers_a_call_sees_the_connection_close() {
    let left = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&left);
    let far = ScriptedServer::start(move |asked, back| match asked.what().as_str() {
        "tools/call" => {
            let begun = Instant::now();
            back.events();
            seen.fetch_add(usize::from(back.is_left() && begun.elapsed() < TEST_TIMEOUT), Ordering::Relaxed);
        }
        _ => modern(asked, back),
    });
    let mut stage = TestSetup::with(&far, &json!({}));
    stage.fails("rpc_timeout", &["1500 ms"]);
    until_true("the connection to close", TEST_TIMEOUT, || left.load(Ordering::Relaxed) == 1);
    assert_eq!(far.count("notifications/cancelled"), 0);
}

#[test]
fn one_byte_a_second() {
    let far = first_call(|asked, back| {
        let body = asked.result(&json!({"content": []})).to_string();
        back.head(200, &[("Content-Type", "application/json"), ("Content-Length", &body.len().to_string())]);
        let _ = body.bytes().all(|byte| {
            thread::sleep(Duration::from_secs(1));
            back.raw([byte])
        });
    });
    let mut stage = TestSetup::with(&far, &json!({}));
    stage.fails("rpc_timeout", &["1500 ms"]);
    stage.works();
}

#[test]
fn endless_events() {
    let far = first_call(|_, back| {
        back.events();
        let note = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}});
        while back.event(&note) && back.raw(": and on\n\n") {
            thread::sleep(Duration::from_millis(1));
        }
    });
    let mut stage = TestSetup::with(&far, &json!({}));
    stage.fails("rpc_timeout", &["1500 ms"]);
    stage.works();
}

#[test]
fn endless_progress_ends_at_the_total_timeout() {
    let far = first_call(|asked, back| {
        back.events();
        let id = asked.message()["id"].clone();
        let note = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": id, "progress": 1}});
        while back.event(&note) {
            thread::sleep(Duration::from_millis(50));
        }
    });
    let mut stage = TestSetup::with(&far, &json!({}));
    stage.fails("rpc_timeout", &["6000 ms"]);
    stage.works();
}

/// Limit for the daemon's peak memory while it receives a flood.
const MOST_MEMORY_MB: u64 = 120;

fn memory_mb(daemon: &DaemonProcess) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// Writes 1 GiB, or less if the daemon stops reading.
fn flood(back: &mut Responder, piece: &[u8]) {
    for _ in 0..(1 << 30) / piece.len() {
        if !back.raw(piece) {
            return;
        }
    }
}

#[test]
fn a_body_of_a_gigabyte() {
    let told = first_call(|_, back| {
        back.head(200, &[("Content-Type", "application/json"), ("Content-Length", "1073741824")]);
        flood(back, &[b' '; 64 * 1024]);
    });
    let untold = first_call(|_, back| {
        back.head(200, &[("Content-Type", "application/json")]);
        flood(back, &[b' '; 64 * 1024]);
    });
    for far in [told, untold] {
        let mut stage = TestSetup::with(&far, &json!({}));
        stage.fails("answer_too_long", &["16 MiB"]);
        stage.works();
        assert!(memory_mb(&stage.daemon) < MOST_MEMORY_MB);
    }
}

#[test]
fn an_event_of_a_gigabyte() {
    let one_line = first_call(|_, back| {
        back.events();
        back.raw("data: ");
        flood(back, &[b'x'; 64 * 1024]);
    });
    let many_lines = first_call(|_, back| {
        back.events();
        flood(back, "data: 0123456789\n".repeat(4096).as_bytes());
    });
    for far in [one_line, many_lines] {
        // A debug build on a busy machine takes seconds to read that much.
        let mut stage = TestSetup::with_timeout(&far, &json!({}), SLACK);
        stage.fails("answer_too_long", &["16 MiB"]);
        stage.works();
        assert!(memory_mb(&stage.daemon) < MOST_MEMORY_MB);
    }
}

#[test]
fn an_error_page_of_a_gigabyte() {
    let far = first_call(|_, back| {
        back.head(500, &[("Content-Type", "text/html")]);
        flood(back, &[b'x'; 64 * 1024]);
    });
    let mut stage = TestSetup::with(&far, &json!({}));
    stage.fails("bad_answer", &["500"]);
    stage.works();
    assert!(memory_mb(&stage.daemon) < MOST_MEMORY_MB);
}

#[test]
fn compressed_answers_are_refused() {
    let far = first_call(|asked, back| {
        assert_eq!(asked.header("accept-encoding"), None);
        back.head(200, &[("Content-Type", "application/json"), ("Content-Encoding", "gzip")]);
        back.raw(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03");
    });
    let mut stage = TestSetup::with(&far, &json!({}));
    stage.fails("bad_answer", &["`gzip`"]);
    stage.works();
}

#[test]
fn a_redirect_to_another_origin_is_not_followed() {
    let elsewhere = ScriptedServer::start(legacy);
    let other = format!("http://127.0.0.1:{}", elsewhere.port());
    for (location, told) in [
        (elsewhere.url(), other.as_str()),
        ("file:///etc/passwd".to_owned(), "`file:`"),
        (format!("//127.0.0.1:{}/x?y=secret", elsewhere.port()), &other),
    ] {
        for status in [301, 302, 307, 308] {
            let location = location.clone();
            let far = ScriptedServer::start(move |asked, back| match asked.what().as_str() {
                "tools/call" => {
                    back.head(status, &[("Location", &location), ("Content-Length", "0")]);
                }
                _ => legacy(asked, back),
            });
            let mut stage = TestSetup::with(&far, &json!({"headers": {"X-Key": "secret"}}));
            let message = stage.fails("redirected", &[told]);
            assert!(!message.contains("secret"), "{message}");
        }
    }
    assert!(elsewhere.asked().is_empty(), "{:?}", elsewhere.asked());
}

#[test]
fn redirects_within_the_origin_are_followed_up_to_a_limit() {
    let far = ScriptedServer::start(|asked, back| match asked.target.as_str() {
        "/mcp" => drop(back.head(307, &[("Location", "/real/"), ("Content-Length", "0")])),
        _ => legacy(asked, back),
    });
    let mut stage = TestSetup::with(&far, &json!({"headers": {"X-Key": "k"}}));
    stage.works();
    assert!(far.asked().iter().all(|asked| asked.header("x-key") == Some("k")));
    let round = ScriptedServer::start(|_, back| {
        back.head(307, &[("Location", "/mcp"), ("Content-Length", "0")]);
    });
    TestSetup::with(&round, &json!({})).fails("redirected", &["without an end"]);
}

#[test]
fn refused_credentials_are_not_retried() {
    let refuse = |_: &RecordedRequest, back: &mut Responder| {
        back.head(401, &[("WWW-Authenticate", "Bearer"), ("Content-Length", "0")]);
    };
    let far = ScriptedServer::start(refuse);
    let mut stage = TestSetup::with(&far, &json!({}));
    let answer = stage.call();
    let text = text_of(&answer);
    assert!(text.contains("switchboard login far") && answer.contains(r#""isError":true"#), "{answer}");
    assert_eq!(far.whats(), ["server/discover"], "it says nothing about the era");
    for _ in 0..6 {
        assert!(text_of(&stage.call()).contains("switchboard login far"), "nobody has to wait for a pause");
    }

    let far = ScriptedServer::start(refuse);
    let mut stage = TestSetup::with(&far, &json!({"headers": {"Authorization": "Bearer of-the-file"}}));
    let message = stage.fails("credentials_refused", &["401", "its file"]);
    assert!(!message.contains("of-the-file"));
    assert_eq!(far.whats(), ["server/discover"]);
    assert_eq!(far.asked()[0].header("authorization"), Some("Bearer of-the-file"));
}

#[test]
fn an_expired_session_is_reopened_and_the_call_repeated_once() {
    let sessions = AtomicUsize::new(0);
    let far = ScriptedServer::start(move |asked, back| match asked.what().as_str() {
        "initialize" => {
            let name = format!("s{}", sessions.fetch_add(1, Ordering::Relaxed));
            let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "f", "version": "1"}});
            back.json_with(200, &[("Mcp-Session-Id", &name)], &asked.result(&hello));
        }
        "tools/call" if asked.header("mcp-session-id") == Some("s0") => {
            back.json(404, &asked.error(-32001, "Session not found"));
        }
        _ => legacy(asked, back),
    });
    let mut stage = TestSetup::with(&far, &json!({}));
    stage.works();
    stage.works();
    let renewed: Vec<_> = far.asked().into_iter().filter(|asked| asked.what() == "initialize").collect();
    assert_eq!(renewed.len(), 2);
    assert!(renewed.iter().all(|asked| asked.header("mcp-session-id").is_none()));
    assert_eq!(far.count("tools/call"), 3, "refused, made, made");
    assert_eq!(stage.daemon.starts("far"), 1);
}

#[test]
fn a_session_that_keeps_expiring_is_a_clear_error() {
    let far = calls(|asked, back| back.json(404, &asked.error(-32001, "Session not found")));
    let mut stage = TestSetup::with(&far, &json!({}));
    let answer = stage.call();
    assert!(answer.contains("Session not found"), "{answer}");
    assert_eq!(far.count("tools/call"), 2);
}

/// Cut at each point of a call: the call fails and says that it may have run, and the next one works.
#[test]
fn a_connection_that_is_cut() {
    type Cut = fn(&RecordedRequest, &mut Responder);
    let points: [(&str, Cut); 8] = [
        ("before a byte", |_, _| {}),
        ("in the status", |_, back| {
            back.raw("HTTP/1.1 20");
        }),
        ("in the headers", |_, back| {
            back.raw("HTTP/1.1 200 OK\r\nContent-Type: appli");
        }),
        ("before the body", |_, back| {
            back.head(200, &[("Content-Type", "application/json"), ("Content-Length", "100")]);
        }),
        ("in the body", |_, back| {
            back.head(200, &[("Content-Type", "application/json"), ("Content-Length", "100")]);
            back.raw(r#"{"jsonrpc":"2.0","#);
        }),
        ("before an event", |_, back| {
            back.events();
        }),
        ("in an event", |asked, back| {
            back.events();
            back.raw(format!("data: {}", asked.result(&json!({}))));
        }),
        ("in a chunk", |_, back| {
            back.head(200, &[("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]);
            back.raw("40\r\n{\"json");
        }),
    ];
    for (point, cut) in points {
        let far = first_call(cut);
        let mut stage = TestSetup::with(&far, &json!({}));
        let message = stage.fails("connection_lost", &["may or may not have run"]);
        assert_eq!(far.count("tools/call"), 1, "{point}: {message}");
        stage.works();
        assert_eq!(far.count("initialize"), 1, "{point}: one cut is not the end of a session");
    }
}

#[test]
fn a_session_that_expires_during_a_call() {
    let far = first_call(|asked, back| {
        back.events();
        let note = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": asked.message()["id"], "progress": 1}});
        // With an id, so that the daemon resumes the stream; but the server has forgotten it.
        back.raw(format!("id: 7\nretry: 20\ndata: {note}\n\n"));
    });
    let mut stage = TestSetup::with(&far, &json!({}));
    stage.fails("connection_lost", &["may or may not have run"]);
    let asks: Vec<_> = far.asked().into_iter().filter(|asked| asked.verb == "GET").collect();
    assert!(asks.iter().any(|asked| asked.header("last-event-id") == Some("7")), "{asks:?}");
    stage.works();
}

#[test]
fn a_closed_port() {
    let port = ScriptedServer::start(legacy).port();
    let far = ScriptedServer::start(legacy);
    let mut stage = TestSetup::with(&far, &json!({"url": format!("http://127.0.0.1:{port}/mcp")}));
    stage.fails("child_unreachable", &["could not be reached"]);
}

#[test]
fn a_server_that_does_not_speak_mcp() {
    let page = ScriptedServer::start(|_, back| {
        back.head(200, &[("Content-Type", "text/html")]);
        back.raw("<html>Welcome</html>");
    });
    TestSetup::with(&page, &json!({})).fails("bad_answer", &["`text/html`"]);
    let nothing = ScriptedServer::start(|_, back| back.empty(404));
    TestSetup::with(&nothing, &json!({})).fails("bad_answer", &["404"]);
    let broken = ScriptedServer::start(|_, back| back.empty(503));
    TestSetup::with(&broken, &json!({})).fails("bad_answer", &["503"]);
    assert_eq!(broken.whats(), ["server/discover"], "a failure says nothing about the era");
}

#[test]
fn answers_with_unknown_ids_and_repeated_answers() {
    let far = first_call(|asked, back| {
        back.events();
        back.event(&json!({"jsonrpc": "2.0", "id": 99999, "result": {}}));
        back.event(&json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "x"}}));
        back.raw("data: no json\n\nevent: odd\ndata: {}\n\n");
        back.event(&json!({"jsonrpc": "2.0", "id": 3, "method": "odd/question"}));
        let answer = asked.result(&json!({"content": [{"type": "text", "text": "{\"a\":1}"}]}));
        back.event(&answer);
        back.event(&answer);
    });
    let mut stage = TestSetup::with(&far, &json!({}));
    stage.works();
    stage.works();
    until_true("an answer to the odd question", TEST_TIMEOUT, || {
        let refusal = far.asked().into_iter().find(|asked| asked.message()["error"]["code"] == -32601);
        refusal.is_some_and(|refusal| refusal.message()["id"] == 3)
    });
}

#[test]
fn an_endpoint_of_the_old_transport_at_another_origin() {
    let elsewhere = ScriptedServer::start(legacy);
    let target = elsewhere.url();
    let far = ScriptedServer::start(move |asked, back| match asked.verb.as_str() {
        "GET" => {
            back.events();
            back.raw(format!("event: endpoint\ndata: {target}\n\n"));
            back.is_left();
        }
        _ => back.empty(405),
    });
    TestSetup::with(&far, &json!({})).fails("redirected", &["another origin"]);
    assert!(elsewhere.asked().is_empty());
}

#[test]
fn a_closed_sse_stream_ends_its_calls() {
    let far = ScriptedServer::start(|asked, back| match (asked.verb.as_str(), asked.target.as_str()) {
        ("GET", _) => {
            back.events();
            back.raw("event: endpoint\ndata: /messages?s=1\n\n");
            // Ends before it has sent a message.
            thread::sleep(Duration::from_millis(300));
        }
        ("POST", "/messages?s=1") => back.empty(202),
        _ => back.empty(405),
    });
    let mut stage = TestSetup::with(&far, &json!({"type": "sse"}));
    stage.fails("connection_lost", &["ended its stream"]);
}
