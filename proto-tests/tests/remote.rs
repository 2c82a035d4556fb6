//! Remote children: their transport and era are detected, remembered and detected again; their sessions,
//! streams, headers and questions work like those of any child.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto_tests::conformance::{FrontServer, adapter};
use proto_tests::scripted_server::{
    RecordedRequest, Responder, ScriptedServer, echoed, legacy, modern, tools,
};
use proto_tests::shim::{kind_of, text_of};
use proto_tests::wait::until_true;
use proto_tests::{Home, Request, TEST_TIMEOUT, bins};
use serde_json::{Value, json};

fn home_of(entry: &Value) -> Home {
    let home = Home::new();
    home.definition("far", &json!({"mcpServers": {"far": entry}}).to_string());
    home
}

fn home(far: &ScriptedServer) -> Home {
    home_of(&json!({"type": "http", "url": far.url()}))
}

fn era_child(args: &[&str]) -> FrontServer {
    let command: Vec<&str> =
        [bins().era_child.to_str().unwrap()].into_iter().chain(args.iter().copied()).collect();
    adapter(&bins().stdio_adapter, &command).unwrap()
}

/// The requests that opened conversations, in order.
fn openings(far: &ScriptedServer) -> Vec<String> {
    let opens = |what: &String| matches!(what.as_str(), "server/discover" | "initialize");
    far.whats().into_iter().filter(opens).collect()
}

#[test]
fn the_era_is_detected_once_and_remembered_across_runs() {
    let far = ScriptedServer::start(legacy);
    let home = home(&far);
    {
        let daemon = home.daemon();
        assert_eq!(text_of(&home.shim().call("far", "echo", r#"{"a":1}"#)), r#"{"a":1}"#);
        until_true("a manifest", TEST_TIMEOUT, || home.state_folder().join("manifests").exists());
        assert_eq!(daemon.suite("far")["children"][0]["revision"], "2025-11-25");
        assert_eq!(daemon.suite("far")["children"][0]["pid"], Value::Null);
        assert_eq!(daemon.suite("far")["url"], far.url());
    }
    assert_eq!(openings(&far), ["server/discover", "initialize"]);
    let goodbye = far.wait_for("DELETE");
    assert_eq!(goodbye.header("mcp-session-id"), Some("s1"));

    let _daemon = home.daemon();
    let mut shim = home.shim();
    assert_eq!(shim.introspect("far")["tools"][0]["name"], "echo", "a list needs no server");
    shim.call("far", "echo", "{}");
    assert_eq!(openings(&far), ["server/discover", "initialize", "initialize"]);
}

#[test]
fn a_change_of_a_servers_era_is_detected() {
    let is_modern = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&is_modern);
    let far = ScriptedServer::start(move |asked, back| match now.load(Ordering::Relaxed) {
        true => modern(asked, back),
        false => legacy(asked, back),
    });
    let home = home(&far);
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("far", "echo", "{}");
    for (modern, revision) in [(true, "2026-07-28"), (false, "2025-11-25")] {
        is_modern.store(modern, Ordering::Relaxed);
        // The first call may fail, because the remembered era no longer fits.
        let _ = shim.call("far", "echo", "{}");
        let answer = shim.call("far", "echo", r#"{"b":2}"#);
        assert_eq!(text_of(&answer), r#"{"b":2}"#, "{answer}");
        let children = daemon.suite("far")["children"].clone();
        let children = children.as_array().unwrap();
        assert!(children.iter().any(|child| child["revision"] == revision), "{children:?}");
    }
}

#[test]
fn each_request_carries_its_session_and_version_headers() {
    let far = ScriptedServer::start(legacy);
    let home = home(&far);
    let _daemon = home.daemon();
    home.shim().call("far", "echo", "{}");
    for asked in far.asked() {
        let opens = matches!(asked.what().as_str(), "server/discover" | "initialize");
        assert_eq!(asked.header("mcp-session-id"), (!opens).then_some("s1"), "{asked:?}");
        let version = match asked.what().as_str() {
            "server/discover" => Some("2026-07-28"),
            "initialize" => None,
            _ => Some("2025-11-25"),
        };
        assert_eq!(asked.header("mcp-protocol-version"), version, "{asked:?}");
        if asked.verb == "POST" {
            assert_eq!(asked.header("accept"), Some("application/json, text/event-stream"));
            assert_eq!(asked.header("content-type"), Some("application/json"));
        }
    }
    let order = far.whats();
    let at = |what: &str| order.iter().position(|asked| asked == what).unwrap();
    assert!(at("notifications/initialized") < at("tools/list"), "{order:?}");
}

#[test]
fn headers_of_the_definition_are_expanded_sent_and_never_shown() {
    let far = ScriptedServer::start(legacy);
    let home = home_of(&json!({"type": "streamable-http", "url": far.url(),
        "headers": {"Authorization": "Bearer ${FAR_TOKEN}", "X-Team": "blue", "Host": "evil.example", "Mcp-Session-Id": "theirs"}}));
    home.write(".config/switchboard/env", "FAR_TOKEN=s3cr3t\n");
    let file = home.config_folder().join("env");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let daemon = home.daemon();
    home.shim().call("far", "echo", "{}");
    for asked in far.asked() {
        assert_eq!(asked.header("authorization"), Some("Bearer s3cr3t"), "{asked:?}");
        assert_eq!(asked.header("x-team"), Some("blue"));
        assert_ne!(asked.header("host"), Some("evil.example"));
    }
    let call = far.wait_for("tools/call");
    assert_eq!(call.headers.iter().filter(|(name, _)| name == "mcp-session-id").count(), 1);
    assert_eq!(call.header("mcp-session-id"), Some("s1"), "what is ours to say is ours");
    assert!(!daemon.status().to_string().contains("s3cr3t"));
    assert!(!daemon.log().contains("s3cr3t"));
}

#[test]
fn no_header_of_a_hosts_request_is_forwarded() {
    let far = ScriptedServer::start(legacy);
    let home = home(&far);
    let daemon = home.daemon_on_tcp();
    let token = format!("Bearer {}", daemon.token());
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}}}"#;
    let request = Request::new("POST", "/proxy/far")
        .header("Authorization", &token)
        .header("Mcp-Param-X", "y")
        .header("Cookie", "c")
        .body(call);
    assert_eq!(daemon.tcp().send(&request).status, 200);
    for asked in far.asked() {
        for never in ["authorization", "cookie", "mcp-param-x", "origin", "switchboard-session"] {
            assert_eq!(asked.header(never), None, "{asked:?}");
        }
    }
}

#[test]
fn unencrypted_urls_are_allowed_only_for_this_machine() {
    for (url, why) in [
        ("http://mcp.example/x", "not encrypted"),
        ("ftp://127.0.0.1/", "http"),
        ("https://me:pw@mcp.example/", "password"),
    ] {
        let home = home_of(&json!({"type": "http", "url": url}));
        let _daemon = home.daemon();
        let answer = home.shim().call("far", "echo", "{}");
        assert_eq!(kind_of(&answer).as_deref(), Some("misconfigured"), "{answer}");
        assert!(answer.contains(why) && !answer.contains("me:pw"), "{answer}");
    }
}

#[test]
fn a_broken_stream_is_resumed_where_it_broke() {
    let far = ScriptedServer::start(|asked, back| {
        match (asked.what().as_str(), asked.header("last-event-id")) {
            ("tools/call", _) => {
                back.events();
                // A stream that sends an event id first, and ends at once.
                back.raw("id: a-1\nretry: 50\ndata:\n\n");
            }
            ("GET", Some("a-1")) => {
                back.events();
                back.raw(": still here\n\nid: a-2\nretry: 10\ndata:\n\n");
            }
            ("GET", Some("a-2")) => {
                back.events();
                // There is only one call, and its id is the highest so far.
                back.raw("event: message\r\nid: a-3\r\ndata: {\"jsonrpc\":\"2.0\",\r\n");
                back.raw(format!("data: \"id\":{},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"late\"}}]}}}}\r\n\r\n", LAST.load(Ordering::Relaxed)));
            }
            _ => legacy(asked, back),
        }
    });
    static LAST: AtomicUsize = AtomicUsize::new(0);
    let home = home(&far);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let id = shim.start_call("far", "echo", "{}");
    let call = far.wait_for("tools/call");
    LAST.store(usize::try_from(call.message()["id"].as_u64().unwrap()).unwrap(), Ordering::Relaxed);
    assert_eq!(text_of(&shim.answer_to(&id.to_string())), "late");
    assert_eq!(far.count("tools/call"), 1, "what may have run is not run again");
    let resumed = far.asked().into_iter().find(|asked| asked.header("last-event-id") == Some("a-2")).unwrap();
    assert_eq!(resumed.header("mcp-session-id"), Some("s1"));
}

#[test]
fn notifications_on_the_servers_own_stream_are_handled() {
    let grown = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&grown);
    let far = ScriptedServer::start(move |asked, back| match asked.what().as_str() {
        "GET" => {
            back.events();
            until_true("more tools", TEST_TIMEOUT, || now.load(Ordering::Relaxed));
            back.event(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
            back.is_left();
        }
        "tools/list" if now.load(Ordering::Relaxed) => {
            let mut list = tools();
            list["tools"][0]["name"] = "shout".into();
            back.json(200, &asked.result(&list));
        }
        _ => legacy(asked, back),
    });
    let home = home(&far);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("far", "echo", "{}");
    far.wait_for("GET");
    grown.store(true, Ordering::Relaxed);
    until_true("the new tool", TEST_TIMEOUT, || shim.introspect("far")["tools"][0]["name"] == "shout");
}

/// A modern server whose tool wants an argument as a header, under a name that changes.
fn with_header(current: &Arc<AtomicUsize>) -> ScriptedServer {
    let current = Arc::clone(current);
    ScriptedServer::start(move |asked, back| {
        let name = format!("Region-{}", current.load(Ordering::Relaxed));
        match asked.what().as_str() {
            "tools/list" => {
                let schema = json!({"type": "object", "properties": {
                    "where": {"type": "string", "x-mcp-header": name},
                    "in": {"type": "object", "properties": {"count": {"type": "integer", "x-mcp-header": "Count"}}}}});
                let bad =
                    json!({"type": "object", "properties": {"x": {"type": "object", "x-mcp-header": "X"}}});
                back.json(200, &asked.result(&json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                    "tools": [{"name": "écho", "inputSchema": schema}, {"name": "bad", "inputSchema": bad}]})));
            }
            "tools/call" if asked.header(&format!("mcp-param-{name}")).is_none() => {
                back.json(400, &asked.error(-32020, "header mismatch"));
            }
            _ => modern(asked, back),
        }
    })
}

#[test]
fn arguments_are_sent_as_headers_if_the_schema_says_so() {
    let current = Arc::new(AtomicUsize::new(1));
    let far = with_header(&current);
    let home = home(&far);
    let daemon = home.daemon();
    let mut shim = home.shim();
    let args = r#"{"where":" Zürich","in":{"count":5},"z":1.0}"#;
    assert!(text_of(&shim.call("far", "écho", args)).contains("Zürich"));
    let call = far.wait_for("tools/call");
    assert_eq!(call.header("mcp-method"), Some("tools/call"));
    assert_eq!(call.header("mcp-name"), Some("=?base64?w6ljaG8=?="));
    assert_eq!(call.header("mcp-param-region-1"), Some("=?base64?IFrDvHJpY2g=?="));
    assert_eq!(call.header("mcp-param-count"), Some("5"));
    assert_eq!(call.header("mcp-session-id"), None);

    // The name changes without a notification: the daemon refetches the list and repeats the call.
    current.store(2, Ordering::Relaxed);
    assert!(text_of(&shim.call("far", "écho", args)).contains("Zürich"));
    let calls: Vec<RecordedRequest> =
        far.asked().into_iter().filter(|asked| asked.what() == "tools/call").collect();
    let given: Vec<bool> = calls.iter().map(|call| call.header("mcp-param-region-2").is_some()).collect();
    assert_eq!(given, [false, false, true]);

    let names = |list: &Value| -> Vec<Value> {
        list.as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect()
    };
    assert_eq!(names(&shim.introspect("far")["tools"]), ["écho"], "a tool that breaks the rules is left out");
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    assert_eq!(names(&daemon.endpoint().post("/proxy/far", list).json()["result"]["tools"]), ["écho"]);
    assert!(daemon.log().contains("`bad` is left out"), "{}", daemon.log());
}

#[test]
fn a_header_mismatch_after_the_retry_is_reported() {
    let far = ScriptedServer::start(|asked, back| match asked.what().as_str() {
        "tools/call" => back.json(400, &asked.error(-32020, "header mismatch")),
        _ => modern(asked, back),
    });
    let home = home(&far);
    let _daemon = home.daemon();
    let answer = home.shim().call("far", "echo", "{}");
    assert!(answer.contains("header mismatch"), "{answer}");
    assert_eq!(far.count("tools/call"), 2);
}

#[test]
fn questions_go_to_the_host_of_the_call_they_belong_to() {
    let served = era_child(&["--era", "legacy"]);
    let home = home_of(&json!({"type": "http", "url": served.url("/mcp")}));
    let _daemon = home.daemon();
    let (mut one, mut other) = (home.shim(), home.shim());
    let waits = one.start_call("far", "test_elicitation", r#"{"message":"first?"}"#);
    let question = one.notification("elicitation/create");
    // With another host's call in flight on the same child, the question still reaches the right host.
    let asks = other.start_call("far", "test_elicitation", r#"{"message":"second?"}"#);
    let second = other.notification("elicitation/create");
    assert_eq!(question["params"]["message"], "first?");
    assert_eq!(second["params"]["message"], "second?");
    let accept = |question: &Value| {
        json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {}}})
            .to_string()
    };
    other.send(&accept(&second));
    one.send(&accept(&question));
    assert!(text_of(&other.answer_to(&asks.to_string())).contains("accept"));
    assert!(text_of(&one.answer_to(&waits.to_string())).contains("accept"));
}

#[test]
fn progress_comes_before_its_result() {
    for (era, path) in [("legacy", "/mcp"), ("modern", "/mcp"), ("legacy", "/sse")] {
        let served = era_child(&["--era", era]);
        let home = home_of(&json!({"type": "http", "url": served.url(path)}));
        let _daemon = home.daemon();
        let mut shim = home.shim();
        let id = shim.start_call_with_token("far", "test_tool_with_progress", "{}", "\"mine\"");
        shim.answer_to(&id.to_string());
        let news = shim.take_notifications();
        let progress = news.iter().filter(|note| note.contains(r#""progressToken":"mine""#)).count();
        assert!(progress >= 3, "{era} {path}: {news:?}");
    }
}

#[test]
fn every_spelling_of_a_remote_entry_works() {
    let served = era_child(&["--era", "legacy"]);
    let (http, sse) = (served.url("/mcp"), served.url("/sse"));
    for entry in [
        json!({"type": "http", "url": http}),
        json!({"type": "streamable-http", "url": http}),
        json!({"type": "sse", "url": http}),
        json!({"type": "sse", "url": sse}),
        json!({"type": "http", "url": sse}),
        json!({"url": http}),
        json!({"httpUrl": http}),
        json!({"serverUrl": http}),
    ] {
        let home = home_of(&entry);
        let _daemon = home.daemon();
        let answer = home.shim().call("far", "test_simple_text", "{}");
        assert!(text_of(&answer).contains("simple text"), "{entry}: {answer}");
    }
}

/// A server of 2024-11-05: its answers come on its event stream.
fn old() -> ScriptedServer {
    let stream: Mutex<Option<Responder>> = Mutex::default();
    ScriptedServer::start(move |asked, back| match (asked.verb.as_str(), asked.target.as_str()) {
        ("GET", "/mcp") => {
            back.events();
            back.raw("event: endpoint\ndata: /messages?s=1\n\n");
            *stream.lock().unwrap() = Some(back.again());
            back.is_left();
        }
        ("POST", "/messages?s=1") => {
            let result = match asked.what().as_str() {
                "initialize" => json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "old", "version": "1"}}),
                "tools/list" => tools(),
                _ => echoed(asked),
            };
            back.empty(202);
            if asked.message().get("id").is_some() {
                stream.lock().unwrap().as_mut().unwrap().event(&asked.result(&result));
            }
        }
        _ => back.empty(405),
    })
}

#[test]
fn the_old_transport_is_remembered_too() {
    let far = old();
    let home = home(&far);
    for run in 1..=2 {
        let daemon = home.daemon();
        assert_eq!(text_of(&home.shim().call("far", "echo", r#"{"a":1}"#)), r#"{"a":1}"#);
        assert_eq!(daemon.suite("far")["children"][0]["revision"], "2024-11-05");
        until_true("a manifest", TEST_TIMEOUT, || home.state_folder().join("manifests").exists());
        let ways: Vec<_> = far
            .asked()
            .iter()
            .filter(|asked| matches!(asked.what().as_str(), "server/discover" | "initialize" | "GET"))
            .map(|asked| format!("{} {}", asked.what(), asked.target))
            .collect();
        let first = ["server/discover /mcp", "initialize /mcp", "GET /mcp", "initialize /messages?s=1"];
        let again = ["GET /mcp", "initialize /messages?s=1"];
        let expected: Vec<_> = if run == 1 { first.to_vec() } else { [&first[..], &again].concat() };
        assert_eq!(ways, expected);
    }
}

#[test]
fn the_listen_request_to_a_modern_server_is_repeated_when_its_stream_breaks() {
    let listens = AtomicUsize::new(0);
    let grown = AtomicBool::new(false);
    let far = ScriptedServer::start(move |asked, back| match asked.what().as_str() {
        "server/discover" => back.json(
            200,
            &asked.result(&json!({"resultType": "complete",
            "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": true}},
            "ttlMs": 0, "cacheScope": "private"})),
        ),
        "subscriptions/listen" => {
            let count = listens.fetch_add(1, Ordering::Relaxed);
            let meta = json!({"io.modelcontextprotocol/subscriptionId": asked.message()["id"]});
            back.events();
            back.event(&json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": {"toolsListChanged": true}, "_meta": meta}}));
            if count == 1 {
                grown.store(true, Ordering::Relaxed);
                back.event(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}}));
                back.is_left();
            }
        }
        "tools/list" if grown.load(Ordering::Relaxed) => {
            let mut list = tools();
            list["tools"][0]["name"] = "shout".into();
            (list["resultType"], list["ttlMs"], list["cacheScope"]) =
                ("complete".into(), 0.into(), "private".into());
            back.json(200, &asked.result(&list));
        }
        _ => modern(asked, back),
    });
    let home = home(&far);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("far", "echo", "{}");
    until_true("the new tool", TEST_TIMEOUT, || shim.introspect("far")["tools"][0]["name"] == "shout");
    assert!(far.count("subscriptions/listen") >= 2);
    assert_eq!(far.count("server/discover"), 1, "a stream that breaks is not the end of a child");
}

#[test]
fn a_held_definition_makes_no_connection() {
    let far = ScriptedServer::start(legacy);
    let home = Home::new();
    let folder = home.workspace().join("mcps/far");
    std::fs::create_dir_all(&folder).unwrap();
    let entry = json!({"type": "http", "url": far.url(), "headers": {"X": "${HOME}"}});
    std::fs::write(folder.join(".mcp.json"), json!({"mcpServers": {"far": entry}}).to_string()).unwrap();
    let _daemon = home.daemon();
    let mut shim = home.raw_shim();
    // A host whose user cannot be asked.
    shim.initialize_as(
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}"#,
    );
    let answer = shim.call("far", "echo", "{}");
    assert!(answer.contains("held") && answer.contains(&far.url()), "{answer}");
    assert!(far.asked().is_empty());
}

#[test]
fn a_server_without_tls_behind_https_is_reported() {
    let far = ScriptedServer::start(legacy);
    let home = home_of(&json!({"type": "http", "url": far.url().replace("http:", "https:")}));
    let _daemon = home.daemon();
    let answer = home.shim().call("far", "echo", "{}");
    assert_eq!(kind_of(&answer).as_deref(), Some("child_unreachable"), "{answer}");
    assert!(far.asked().iter().all(|asked| !asked.headers.iter().any(|(name, _)| name == "accept")));
}

#[test]
fn an_idle_session_is_ended_at_the_server() {
    let far = ScriptedServer::start(legacy);
    let home = home(&far);
    home.config(&json!({"suites": {"far": {"pool": {"idleMs": 300}}}}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("far", "echo", "{}");
    far.wait_for("DELETE");
    until_true("no child", TEST_TIMEOUT, || daemon.suite("far")["children"] == json!([]));
    assert_eq!(daemon.suite("far")["state"], "cold");
    assert_eq!(text_of(&shim.call("far", "echo", r#"{"c":3}"#)), r#"{"c":3}"#);
}

#[test]
fn an_unreachable_server_is_not_retried_for_a_while() {
    let port = ScriptedServer::start(legacy).port();
    let home = home_of(&json!({"type": "http", "url": format!("http://127.0.0.1:{port}/")}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    until_true("a pause", TEST_TIMEOUT, || {
        shim.call("far", "echo", "{}");
        daemon.suite("far")["state"] == "resting"
    });
    let answer = shim.call("far", "echo", "{}");
    assert_eq!(kind_of(&answer).as_deref(), Some("child_resting"), "{answer}");
    assert!(answer.contains("could not be reached"), "{answer}");
}

#[test]
fn a_hosts_cancel_reaches_the_server() {
    for is_modern in [false, true] {
        let left = Arc::new(AtomicBool::new(false));
        let gone = Arc::clone(&left);
        let far = ScriptedServer::start(move |asked, back| match asked.what().as_str() {
            "tools/call" => {
                back.events();
                gone.store(back.is_left(), Ordering::Relaxed);
            }
            _ if is_modern => modern(asked, back),
            _ => legacy(asked, back),
        });
        let home = home(&far);
        let _daemon = home.daemon();
        let mut shim = home.shim();
        let id = shim.start_call("far", "echo", "{}");
        let call = far.wait_for("tools/call");
        shim.send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
                .to_string(),
        );
        if is_modern {
            until_true("the connection to close", TEST_TIMEOUT, || left.load(Ordering::Relaxed));
            assert_eq!(far.count("notifications/cancelled"), 0);
        } else {
            let cancelled = far.wait_for("notifications/cancelled");
            assert_eq!(cancelled.message()["params"]["requestId"], call.message()["id"]);
        }
        // The next request is answered; an answer to the cancelled call would have arrived before it.
        shim.request("tools/list", "{}");
        let answer = shim.answer_within(&id.to_string(), Duration::ZERO);
        assert_eq!(answer, None);
    }
}

/// The daemon refuses its own address as a remote server.
#[test]
fn the_daemon_refuses_itself_as_a_remote_server() {
    let home = Home::new();
    let daemon = home.daemon_on_tcp();
    let port = daemon.tcp_address().port();
    let authorization = format!("Bearer {}", daemon.token());
    for (name, url) in [("a", "http://127.0.0.1:PORT/mcp"), ("b", "http://localhost:PORT/proxy")] {
        let url = url.replace("PORT", &port.to_string());
        let entry = json!({"type": "http", "url": url, "headers": {"Authorization": authorization}});
        home.definition(name, &json!({"mcpServers": {name: entry}}).to_string());
    }
    let mut shim = home.shim();
    for name in ["a", "b"] {
        until_true("the definition", TEST_TIMEOUT, || shim.tools().contains_key(&format!("{name}_suite")));
        let answer = shim.call(name, "x", "{}");
        assert!(answer.contains("Switchboard's own address"), "{answer}");
        until_true("that it is seen", TEST_TIMEOUT, || daemon.suite(name)["state"] == "misconfigured");
    }
}
