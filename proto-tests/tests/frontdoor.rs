//! The HTTP routes over the unix socket: the rules that prevent hangs, one row each.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use proto_tests::streamable::{HttpHost, ModernHost, with_meta};
use proto_tests::wait::{until, until_true};
use proto_tests::{Endpoint, Home, Request, Response, TEST_TIMEOUT, bins};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const PARSE_ERROR: &str = r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// Runs the check on both faces of a home with a child `kid`.
fn doors(check: impl Fn(&Endpoint, &str)) {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon();
    for route in ["/proxy", "/proxy/kid"] {
        check(&daemon.endpoint(), route);
    }
}

#[track_caller]
fn is_json(response: &Response) {
    let kind = response.header("content-type").unwrap_or_default();
    assert!(kind.starts_with("application/json"), "{kind}: {}", response.text());
}

#[test]
fn a_body_that_is_not_json_is_refused_at_once() {
    doors(|endpoint, route| {
        for body in [
            &b"{\"incomplete\": json"[..],
            b"",
            b"{",
            b"nul",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"",
            b"\xff\xfe",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}",
            b"<html>",
            PING.repeat(2).as_bytes(),
        ] {
            for kind in ["application/json", "text/plain", "application/x-www-form-urlencoded"] {
                let response =
                    endpoint.send(&Request::new("POST", route).header("Content-Type", kind).body(body));
                assert_eq!(response.status, 400, "{route}: {body:?}");
                assert_eq!(response.text(), PARSE_ERROR, "{route}: {body:?}");
                is_json(&response);
            }
        }
    });
}

#[test]
fn json_that_is_not_a_message_is_refused_too() {
    doors(|endpoint, route| {
        for body in [
            "{}",
            "[]",
            "7",
            "null",
            "\"ping\"",
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            r#"{"id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
        ] {
            let response = endpoint.post(route, body);
            assert_eq!(response.status, 400, "{route}: {body}");
            is_json(&response);
            assert_eq!(response.json()["error"]["code"], -32600, "{route}: {body}");
        }
    });
}

#[test]
fn a_request_gets_one_json_answer_whatever_its_content_type_and_accept() {
    doors(|endpoint, route| {
        for kind in [None, Some("application/json"), Some("text/plain"), Some("nonsense")] {
            for accept in [
                None,
                Some("*/*"),
                Some("application/json"),
                Some("application/*"),
                Some("application/json, text/event-stream"),
                Some("text/event-stream, application/json;q=0.1"),
                Some("text/html, */*;q=0.1"),
            ] {
                let mut request = Request::new("POST", route).body(PING);
                request = kind.map_or(request.clone(), |kind| request.header("Content-Type", kind));
                request = accept.map_or(request.clone(), |accept| request.header("Accept", accept));
                let response = endpoint.send(&request);
                assert_eq!(response.status, 200, "{route} {kind:?} {accept:?}: {}", response.text());
                is_json(&response);
                assert_eq!(response.json(), json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
            }
        }
    });
}

#[test]
fn a_client_that_does_not_accept_json_gets_406() {
    doors(|endpoint, route| {
        for accept in [
            "text/event-stream",
            "text/html",
            "application/json;q=0",
            "application/xml, text/*",
            "image/*",
            "*/*, application/json;q=0",
        ] {
            let response = endpoint.send(&Request::new("POST", route).header("Accept", accept).body(PING));
            assert_eq!(response.status, 406, "{route} {accept}: {}", response.text());
        }
        let response = endpoint.send(&Request::new("GET", route).header("Accept", "text/event-stream"));
        assert_eq!(response.status, 405, "{route}: {}", response.text());
        allows(&response, route);
    });
}

#[track_caller]
fn allows(response: &Response, route: &str) {
    let allow = response.header("allow").unwrap_or_default();
    for method in ["POST", "GET", "OPTIONS"] {
        assert!(allow.contains(method), "{route}: Allow: {allow}");
    }
}

#[test]
fn other_methods_get_405_with_the_allowed_ones() {
    doors(|endpoint, route| {
        for method in ["PUT", "DELETE", "PATCH", "TRACE", "BREW"] {
            let response = endpoint.send(&Request::new(method, route));
            assert_eq!(response.status, 405, "{method} {route}");
            allows(&response, route);
        }
    });
    let home = Home::new();
    let daemon = home.daemon();
    for route in ["/health", "/ready", "/version", "/suites", "/status"] {
        let response = daemon.endpoint().post(route, "{}");
        assert_eq!(response.status, 405, "POST {route}");
        assert!(response.header("allow").is_some_and(|allow| allow.contains("GET")), "{route}");
    }
}

#[test]
fn notifications_and_answers_get_an_empty_202() {
    doors(|endpoint, route| {
        for body in [
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/never/heard/of","params":{}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#,
            r#"{"jsonrpc":"2.0","id":"nobody-asked","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}"#,
        ] {
            let response = endpoint.post(route, body);
            assert_eq!((response.status, response.text().as_str()), (202, ""), "{route}: {body}");
        }
    });
}

#[test]
fn a_body_over_the_limit_is_too_large() {
    let limit = 16 << 20;
    doors(|endpoint, route| {
        let announced = Request::new("POST", route).header("Content-Length", &(limit + 1).to_string());
        assert_eq!(endpoint.send(&announced).status, 413, "{route}");
        let mut connection = endpoint.connect().unwrap();
        let head = Request::new("POST", route).header("Transfer-Encoding", "chunked").bytes("localhost");
        connection.write(&head);
        let chunk = vec![b' '; 1 << 20];
        for _ in 0..18 {
            connection.write(format!("{:x}\r\n", chunk.len()).as_bytes());
            connection.write(&chunk);
            connection.write(b"\r\n");
        }
        assert_eq!(connection.response(false).unwrap().status, 413, "{route}, in chunks");
        // The limit itself is fine.
        let fits = format!("{}{PING}", " ".repeat(limit - PING.len()));
        assert_eq!(endpoint.post(route, &fits).status, 200, "{route}, at the limit");
    });
}

#[test]
fn options_lists_the_methods_of_a_route() {
    let home = Home::new();
    let daemon = home.daemon();
    for (route, has) in [
        ("/hop/session", "POST, OPTIONS"),
        ("/hop/mailbox", "POST, OPTIONS"),
        ("/control/stop", "POST, OPTIONS"),
        ("/proxy", "POST, GET, OPTIONS"),
        ("/health", "GET, HEAD, OPTIONS"),
    ] {
        let response = daemon.endpoint().send(&Request::new("OPTIONS", route));
        assert_eq!((response.status, response.header("allow")), (204, Some(has)), "{route}");
    }
}

#[test]
fn options_grants_foreign_origins_nothing() {
    doors(|endpoint, route| {
        let response = endpoint.send(&Request::new("OPTIONS", route));
        assert!(response.status == 204 || response.status == 200, "{}", response.status);
        assert_eq!(response.header("access-control-allow-origin"), None);
        let preflight = Request::new("OPTIONS", route)
            .header("Origin", "https://evil.example")
            .header("Access-Control-Request-Method", "POST");
        let response = endpoint.send(&preflight);
        assert_eq!(response.status, 403, "{route}");
        assert_eq!(response.header("access-control-allow-origin"), None);
    });
}

#[test]
fn initialize_has_defaults_for_missing_params() {
    doors(|endpoint, route| {
        for params in [
            r#","params":{}"#,
            "",
            r#","params":{"protocolVersion":"2024-11-05"}"#,
            r#","params":{"clientInfo":{"name":"x","version":"1"}}"#,
        ] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":"i","method":"initialize"{params}}}"#);
            let response = endpoint.post(route, &body);
            assert_eq!(response.status, 200, "{route} {params}");
            let result = &response.json()["result"];
            assert!(result["protocolVersion"].is_string(), "{route} {params}: {result}");
            assert!(
                result["capabilities"].is_object() && result["serverInfo"]["name"].is_string(),
                "{result}"
            );
        }
    });
}

#[test]
fn get_describes_a_route() {
    doors(|endpoint, route| {
        for accept in [None, Some("*/*"), Some("application/json")] {
            let request = Request::new("GET", route);
            let response =
                endpoint.send(&accept.map_or(request.clone(), |accept| request.header("Accept", accept)));
            assert_eq!(response.status, 200, "{route}");
            is_json(&response);
            assert!(response.text().contains("kid"), "{route}: {}", response.text());
        }
    });
}

#[test]
fn health_and_discovery_can_be_curled() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon();
    let endpoint = daemon.endpoint();
    for route in ["/health", "/ready", "/version"] {
        assert_eq!(endpoint.get(route).status, 200, "{route}");
        let head = endpoint.send(&Request::new("HEAD", route));
        assert_eq!((head.status, head.body.len()), (200, 0), "{route}");
    }
    assert!(endpoint.get("/version").text().contains(env!("CARGO_PKG_VERSION")));
    for route in ["/suites", "/suites/kid_suite", "/suites/kid_suite/tools", "/status"] {
        let response = endpoint.get(route);
        assert_eq!(response.status, 200, "{route}: {}", response.text());
        is_json(&response);
        response.json();
    }
    assert!(endpoint.get("/suites").text().contains("kid_suite"));
    for route in ["/nowhere", "/proxy/nobody", "/suites/nobody", "/proxy/kid/extra", "/PROXY", "//proxy"] {
        assert_eq!(endpoint.get(route).status, 404, "{route}");
    }
    let response = endpoint.post("/proxy/nobody", PING);
    assert_eq!(response.status, 404, "{}", response.text());
}

#[test]
fn methods_and_calls_work_on_both_faces() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon();
    let endpoint = daemon.endpoint();
    let ask = |route: &str, method: &str, params: Value| {
        let body = json!({"jsonrpc": "2.0", "id": "q", "method": method, "params": params}).to_string();
        let response = endpoint.post(route, &body);
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()
    };
    let suites = ask("/proxy", "tools/list", json!({}));
    assert_eq!(suites["result"]["tools"][0]["name"], "kid_suite");
    let tools = ask("/proxy/kid", "tools/list", json!({}));
    let names: Vec<_> =
        tools["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert!(names.contains(&&json!("echo")), "{tools}");
    let by_suite =
        json!({"name": "kid_suite", "arguments": {"action": "call", "subtool": "echo", "args": {"a": 1}}});
    assert_eq!(ask("/proxy", "tools/call", by_suite)["result"]["structuredContent"]["ok"], true);
    let direct = json!({"name": "echo", "arguments": {"a": 1}});
    assert_eq!(ask("/proxy/kid", "tools/call", direct)["result"]["structuredContent"]["ok"], true);
    for route in ["/proxy", "/proxy/kid"] {
        assert_eq!(ask(route, "no/such/method", json!({}))["error"]["code"], -32601, "{route}");
        assert_eq!(ask(route, "ping", json!({}))["result"], json!({}), "{route}");
    }
}

#[test]
fn hidden_tools_are_hidden_on_every_face() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    home.config(&json!({"suites": {"kid": {"expose": {"allow": ["echo"]}}}}));
    let daemon = home.daemon();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let tools = daemon.endpoint().post("/proxy/kid", body).json();
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 1, "{tools}");
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"crash","arguments":{}}}"#;
    let refused = daemon.endpoint().post("/proxy/kid", body).text();
    assert!(refused.contains("not allowed by Switchboard"), "{refused}");
}

#[test]
fn names_of_children_are_percent_encoded() {
    let home = Home::new();
    home.servers("odd", &[("my kid/é", &["echo"])]);
    let daemon = home.daemon();
    let response = daemon.endpoint().post("/proxy/my%20kid%2F%C3%A9", PING);
    assert_eq!(response.status, 200, "{}", response.text());
}

/// Checks for a result that says what failed; a JSON-RPC error could make the host repeat the call.
#[track_caller]
fn is_crash(answer: &Value, child: &str, is_modern: bool) {
    assert!(answer.get("error").is_none(), "{answer}");
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(1), &json!(true)), "{answer}");
    let about = json!({"kind": "child_exited", "child": child, "subtool": "crash", "retryable": false});
    assert_eq!(answer["result"]["_meta"]["switchboard"], about, "{answer}");
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(text.contains("crash was asked for"), "{answer}");
    assert_eq!(answer["result"]["resultType"] == "complete", is_modern, "{answer}");
}

#[test]
fn a_failed_call_is_a_result_on_every_face_and_in_both_eras() {
    let home = Home::new();
    // One child for each call, since repeated crashes would open its circuit.
    let crashes: Vec<String> = (0..8).map(|n| format!("k{n}")).collect();
    for name in crashes.iter().map(String::as_str).chain(["kid"]) {
        home.child(name, &["echo"]);
    }
    home.definition("lost", r#"{"name": "lost", "command": {"cmd": "/no/such/program"}}"#);
    let daemon = home.daemon();
    let in_suite = |name: &str, tool: &str| {
        let arguments = json!({"action": "call", "subtool": tool, "args": {}});
        json!({"name": format!("{name}_suite"), "arguments": arguments})
    };
    let call_at = |route: &str, params: &Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let response = daemon.endpoint().post(route, &body.to_string());
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()
    };
    let (aggregate, single) = crashes.split_at(4);
    let plain = |_: &str| json!({"name": "crash", "arguments": {}});
    let suite = |child: &str| in_suite(child, "crash");
    for (children, is_single) in [(aggregate, false), (single, true)] {
        let params = |child: &str| if is_single { plain(child) } else { suite(child) };
        let path =
            |base: &str, child: &str| if is_single { format!("{base}/{child}") } else { base.to_owned() };
        let [a, b, c, d] = children else { panic!("{children:?}") };
        is_crash(&call_at(&path("/proxy", a), &params(a)), a, false);
        is_crash(&call_at(&path("/proxy", b), &with_meta(&params(b))), b, true);
        let legacy = HttpHost::open(daemon.endpoint(), &path("/mcp", c), "2025-11-25", &json!({}));
        is_crash(&legacy.ask("tools/call", &params(c)), c, false);
        let modern = ModernHost::new(daemon.endpoint(), &path("/mcp", d));
        is_crash(&modern.ask("tools/call", &params(d)), d, true);
    }
    // A child that cannot start; `introspect` is a call of the suite too.
    for arguments in [json!({"action": "introspect"}), json!({"action": "call", "subtool": "x"})] {
        let answer = call_at("/proxy", &json!({"name": "lost_suite", "arguments": arguments}));
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert_eq!(answer["result"]["_meta"]["switchboard"]["child"], "lost", "{answer}");
    }
    // A server's own error passes unchanged, and a request that is not a valid call keeps its error code.
    let mut own = in_suite("kid", "raise");
    own["arguments"]["args"] = json!({"json": r#"{"code":-32050,"message":"mine"}"#});
    assert_eq!(call_at("/proxy", &own)["error"], json!({"code": -32050, "message": "mine"}));
    assert_eq!(call_at("/proxy", &in_suite("nobody", "x"))["error"]["code"], -32602);
    assert_eq!(call_at("/proxy", &json!({}))["error"]["code"], -32602);
}

#[test]
fn headers_do_not_reach_a_child_and_questions_do_not_hang() {
    let home = Home::new();
    let journal = home.path().join("journal");
    home.child_with("kid", &["echo"], &[("EVIL_JOURNAL", journal.to_str().unwrap())]);
    let daemon = home.daemon();
    for kind in ["elicitation", "sampling", "roots"] {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params":
            {"name": "kid_suite", "arguments": {"action": "call", "subtool": "ask", "args": {"kind": kind}}}});
        let request = Request::new("POST", "/proxy")
            .header("X-Canary", "canary-in-a-header")
            .header("Cookie", "canary-in-a-cookie")
            .body(body.to_string());
        let response = daemon.endpoint().send(&request);
        let text = response.json()["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(text.contains("decline") || text.contains("-32601"), "{kind}: {text}");
    }
    assert!(!fs::read_to_string(&journal).unwrap().contains("canary"));
}

#[test]
fn a_closed_connection_cancels_its_call() {
    let home = Home::new();
    let journal = home.path().join("journal");
    home.child_with("kid", &["echo"], &[("EVIL_JOURNAL", journal.to_str().unwrap())]);
    let daemon = home.daemon();
    let holds = |text: &str| fs::read_to_string(&journal).unwrap_or_default().contains(text);
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"kid_suite","arguments":{"action":"call","subtool":"hang","args":{}}}}"#;
    let mut connection = daemon.endpoint().connect().unwrap();
    connection.write(&Request::new("POST", "/proxy").body(body).bytes("localhost"));
    until_true("the call", TEST_TIMEOUT, || holds("\"hang\""));
    drop(connection);
    until_true("the cancel", TEST_TIMEOUT, || holds("notifications/cancelled"));
}

#[test]
fn a_connection_serves_many_requests() {
    let home = Home::new();
    let daemon = home.daemon();
    let mut connection = daemon.endpoint().connect().unwrap();
    for n in 0..50 {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{n},"method":"ping"}}"#);
        connection.write(&Request::new("POST", "/proxy").body(body).bytes("localhost"));
        assert_eq!(connection.response(false).unwrap().json()["id"], n);
        connection.write(&Request::new("POST", "/proxy").body("{broken").bytes("localhost"));
        assert_eq!(connection.response(false).unwrap().status, 400);
    }
}

#[test]
fn an_unread_log_does_not_block_and_the_file_limit_is_raised() {
    let home = Home::new();
    let mut daemon = Command::new("/bin/sh")
        .args(["-c", r#"ulimit -Sn 100; exec "$0" "$@""#])
        .arg(&bins().switchboardd)
        .args(["--listen", "off", "--socket"])
        .arg(home.socket())
        .env_clear()
        .envs(home.environment())
        .env("RUST_LOG", "debug")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let endpoint = Endpoint::unix(&home.socket());
    let mut connection = until("the daemon", TEST_TIMEOUT, || endpoint.connect().ok());
    let ping = Request::new("POST", "/proxy").body(PING).bytes("localhost");
    // Far more lines than the pipe and the log queue hold.
    for _ in 0..5000 {
        connection.write(&ping);
        assert_eq!(connection.response(false).unwrap().status, 200);
    }
    let limits = fs::read_to_string(format!("/proc/{}/limits", daemon.id())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<_> = files.split_whitespace().filter(|word| word.parse::<u64>().is_ok()).collect();
    assert_eq!(numbers[0], numbers[1], "{files}");
    // Now the log is read.
    let mut stderr = daemon.stderr.take().unwrap();
    let log = std::thread::spawn(move || {
        let mut log = String::new();
        stderr.read_to_string(&mut log).unwrap();
        log
    });
    kill_process(Pid::from_raw(i32::try_from(daemon.id()).unwrap()).unwrap(), Signal::TERM).unwrap();
    let status = until("the daemon's end", TEST_TIMEOUT, || daemon.try_wait().unwrap());
    let log = log.join().unwrap();
    assert!(status.success(), "{log}");
    assert!(log.contains("log lines dropped"), "{log}");
}
