//! The `/mcp` endpoints for modern hosts: every request is independent, and ends with its connection.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use proto_tests::streamable::{MODERN, ModernHost, with_meta};
use proto_tests::wait::until_true;
use proto_tests::{DaemonProcess, Home, Request, TEST_TIMEOUT, bins};
use serde_json::{Value, json};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

struct TestSetup {
    daemon: DaemonProcess,
    home: Home,
}

/// A daemon with the era child behind `/mcp/era`.
fn setup(era: &str) -> TestSetup {
    let home = Home::new();
    let entry = home.entry(&bins().era_child, &["--era", era], &[]);
    home.definition("era", &json!({"mcpServers": {"era": entry}}).to_string());
    TestSetup { daemon: home.daemon(), home }
}

impl TestSetup {
    fn host(&self) -> ModernHost {
        self.at("/mcp/era")
    }

    fn at(&self, path: &str) -> ModernHost {
        ModernHost::new(self.daemon.endpoint(), path)
    }
}

fn call(tool: &str) -> Value {
    json!({"name": tool, "arguments": {}})
}

#[track_caller]
fn refused(stage: &TestSetup, request: &Request, status: u16, code: i64) {
    let answer = stage.daemon.endpoint().send(request);
    assert_eq!(
        (answer.status, answer.json()["error"]["code"].as_i64()),
        (status, Some(code)),
        "{}",
        answer.text()
    );
}

#[test]
fn every_invalid_request_gets_its_http_status_and_error_code() {
    let stage = setup("both");
    let host = stage.host();
    let id = json!("a");
    let list = with_meta(&json!({}));
    refused(&stage, &host.message(&id, "no/such/method", &list), 404, -32601);
    refused(&stage, &host.message(&id, "ping", &list), 404, -32601);
    refused(&stage, &host.message(&id, "tools/list", &json!({})), 400, -32602);
    let mut lacking = list.clone();
    lacking["_meta"].as_object_mut().unwrap().remove(CAPABILITIES);
    refused(&stage, &host.message(&id, "tools/list", &lacking), 400, -32602);
    let mut unknown = list.clone();
    unknown["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    refused(&stage, &host.message(&id, "tools/list", &unknown), 400, -32020);
    let named = host.message(&id, "tools/call", &with_meta(&call("test_simple_text")));
    assert_eq!(stage.daemon.endpoint().send(&named).status, 200);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": list}).to_string();
    let bare = || {
        Request::new("POST", "/mcp/era")
            .header("Accept", "application/json, text/event-stream")
            .header("Content-Type", "application/json")
    };
    refused(&stage, &bare().body(body.clone()), 400, -32020);
    let other = bare().header("MCP-Protocol-Version", MODERN).header("Mcp-Method", "tools/call");
    refused(&stage, &other.body(body), 400, -32020);
    // A capability that the host has to declare first.
    let mut undeclared = with_meta(&call("test_missing_capability"));
    undeclared["_meta"][CAPABILITIES] = json!({});
    refused(&stage, &host.message(&id, "tools/call", &undeclared), 400, -32021);
    // An error of the child is not an HTTP error.
    let wrong = with_meta(&json!({"uri": "test://nothing"}));
    refused(&stage, &host.message(&id, "resources/read", &wrong), 200, -32602);
    for method in ["GET", "DELETE"] {
        let answer = stage.daemon.endpoint().send(&Request::new(method, "/mcp/era").header("Accept", "*/*"));
        assert_eq!(answer.status, 405, "{method}");
    }
    let note = bare().header("MCP-Protocol-Version", MODERN);
    let answer = stage.daemon.endpoint().send(&note.body(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#));
    assert_eq!((answer.status, answer.text().as_str()), (202, ""));
}

#[test]
fn session_ids_are_neither_issued_nor_read() {
    let stage = setup("both");
    let request = stage.host().message(&json!(1), "server/discover", &with_meta(&json!({})));
    let answer = stage.daemon.endpoint().send(&request.header("Mcp-Session-Id", "nobody's"));
    assert_eq!(answer.status, 200);
    assert!(answer.header("mcp-session-id").is_none());
    assert_eq!(answer.json()["result"]["supportedVersions"], json!([MODERN]));
}

#[test]
fn progress_comes_before_the_answer_on_a_stream_without_event_ids() {
    for era in ["legacy", "modern"] {
        let stage = setup(era);
        let mut params = call("test_tool_with_progress");
        params["_meta"] = json!({"progressToken": "p"});
        let mut stream = stage.host().post(&json!("a"), "tools/call", &params);
        assert!(stream.is_events());
        let mut heard = Vec::new();
        while let Some(event) = stream.event() {
            assert_eq!(event.id, None, "{event:?}");
            heard.push(event.message);
        }
        let (answer, progress) = heard.split_last().unwrap();
        assert_eq!((&answer["id"], &answer["result"]["resultType"]), (&json!("a"), &json!("complete")));
        assert!(!progress.is_empty());
        for message in progress {
            assert_eq!(message["params"]["progressToken"], "p", "{message}");
        }
    }
}

#[test]
fn a_closed_connection_cancels_its_call() {
    for era in ["legacy", "modern"] {
        let stage = setup(era);
        let host = stage.host();
        let params = json!({"name": "test_wait", "arguments": {"seconds": 60}});
        let stream = host.post(&json!(7), "tools/call", &params);
        assert!(stream.is_events());
        drop(stream);
        until_true("the call to be cancelled", TEST_TIMEOUT, || {
            let report = host.ask("tools/call", &call("test_report"));
            report["result"]["structuredContent"]["cancelled"] == 1
        });
    }
}

/// Checks that a listener gets the notifications it asked for, from a child of this era.
fn hears(era: &str) {
    let stage = setup(era);
    let host = stage.host();
    let filter = json!({"notifications": {
        "toolsListChanged": true,
        "resourceSubscriptions": ["test://watched-resource"],
    }});
    let mut heard = host.post(&json!("l"), "subscriptions/listen", &filter);
    assert!(heard.is_events());
    let first = heard.message();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(first["params"]["notifications"], filter["notifications"]);
    assert_eq!(first["params"]["_meta"][SUBSCRIPTION], "l");
    host.ask("tools/call", &call("test_simple_text"));
    until_true("the child to be asked for the resource", TEST_TIMEOUT, || {
        host.ask("tools/call", &call("test_update_watched_resource"));
        let report = host.ask("tools/call", &call("test_report"));
        report["result"]["structuredContent"]["watched"] == 1
    });
    let update = heard.message();
    assert_eq!(update["method"], "notifications/resources/updated", "{update}");
    assert_eq!(update["params"]["uri"], "test://watched-resource");
    assert_eq!(update["params"]["_meta"], json!({SUBSCRIPTION: "l"}));
    host.ask("tools/call", &call("test_trigger_tool_change"));
    loop {
        let message = heard.message();
        if message["method"] == "notifications/tools/list_changed" {
            assert_eq!(message["params"]["_meta"], json!({SUBSCRIPTION: "l"}));
            break;
        }
        assert_eq!(message["method"], "notifications/resources/updated", "{message}");
    }
    // Once nobody listens, the daemon unsubscribes at the child.
    drop(heard);
    until_true("the child to be told that nobody follows", TEST_TIMEOUT, || {
        let report = host.ask("tools/call", &call("test_report"));
        report["result"]["structuredContent"]["watched"] == 0
    });
}

#[test]
fn a_listener_is_notified_of_changes_of_a_legacy_child() {
    hears("legacy");
}

#[test]
fn a_listener_is_notified_of_changes_of_a_modern_child() {
    hears("modern");
}

#[test]
fn listeners_on_the_aggregate_face_are_notified_of_every_child() {
    let stage = setup("modern");
    let host = stage.at("/mcp");
    // After this call, the child's resources are known.
    let arguments = json!({"action": "call", "subtool": "test_simple_text", "args": {}});
    host.ask("tools/call", &json!({"name": "era_suite", "arguments": arguments}));
    until_true("its resources", TEST_TIMEOUT, || {
        !host.ask("resources/list", &json!({}))["result"]["resources"].as_array().unwrap().is_empty()
    });
    let watched = "test://watched-resource";
    let filter = json!({"notifications": {
        "toolsListChanged": true,
        "promptsListChanged": true,
        "resourceSubscriptions": [watched, "nobodys://resource"],
    }});
    let mut heard = host.post(&json!(3), "subscriptions/listen", &filter);
    let honoured = heard.message()["params"]["notifications"].clone();
    assert_eq!(honoured["resourceSubscriptions"], json!([watched]));
    assert_eq!(honoured["promptsListChanged"], true);
    stage.home.child("another", &[]);
    let changed = heard.message();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(changed["params"]["_meta"][SUBSCRIPTION], 3);
}

#[test]
fn a_daemon_that_exits_ends_listen_requests_with_a_result() {
    let mut stage = setup("legacy");
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let mut heard = stage.host().post(&json!("l"), "subscriptions/listen", &filter);
    heard.message();
    stage.daemon.signal(rustix::process::Signal::TERM);
    let last = heard.last();
    assert_eq!(last["result"], json!({"resultType": "complete", "_meta": {SUBSCRIPTION: "l"}}), "{last}");
    assert!(stage.daemon.ended(TEST_TIMEOUT).success());
}

/// A child that belongs to one host is not given to another host: it may know the first host's roots.
#[test]
fn hosts_without_a_session_are_distinguished_by_their_names() {
    let home = Home::new();
    home.config(&json!({"suites": {"era": {"pool": {"scope": "session"}}}}));
    let entry = home.entry(&bins().era_child, &["--era", "legacy"], &[]);
    home.definition("era", &json!({"mcpServers": {"era": entry}}).to_string());
    let daemon = home.daemon();
    let host = ModernHost::new(daemon.endpoint(), "/mcp/era");
    let from = |name: &str, tool: &str| {
        let mut call = call(tool);
        call["_meta"] = json!({"io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"}});
        call
    };
    let roots = from("alice's", "test_input_required_result_list_roots");
    let asked = host.ask("tools/call", &roots);
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    host.ask("tools/call", &from("bob's", "test_simple_text"));
    assert_eq!(daemon.pids("era").len(), 2);
    let mut back = roots.clone();
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    back["inputResponses"] = json!({key: {"roots": [{"uri": "file:///home/alice"}]}});
    back["requestState"] = asked["result"]["requestState"].clone();
    assert_eq!(host.ask("tools/call", &back)["result"]["resultType"], "complete");
    host.ask("tools/call", &from("alice's", "test_simple_text"));
    assert_eq!((daemon.pids("era").len(), daemon.starts("era")), (2, 2));
}

/// The two kinds of routes differ only in streams and in requests that need one.
#[test]
fn proxy_and_registry_answer_alike() {
    for era in ["legacy", "modern"] {
        let stage = setup(era);
        let host = stage.host();
        let requests = [
            ("server/discover", json!({})),
            ("tools/list", json!({})),
            ("prompts/list", json!({})),
            ("resources/list", json!({})),
            ("resources/templates/list", json!({})),
            ("resources/read", json!({"uri": "test://static-text"})),
            ("prompts/get", json!({"name": "test_simple_prompt"})),
            ("tools/call", call("test_multiple_content_types")),
            ("tools/call", call("nothing")),
            ("no/such/method", json!({})),
        ];
        for (method, params) in requests {
            let params = with_meta(&params);
            let body = json!({"jsonrpc": "2.0", "id": "a", "method": method, "params": params}).to_string();
            let proxied = stage.daemon.endpoint().post("/proxy/era", &body);
            let registered = stage.daemon.endpoint().send(&host.message(&json!("a"), method, &params));
            assert_eq!(proxied.text(), registered.text(), "{era} {method}");
        }
        let listen = with_meta(&json!({"notifications": {}}));
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": listen});
        let answer = stage.daemon.endpoint().post("/proxy/era", &body.to_string());
        assert_eq!(answer.json()["error"]["code"], -32601);
    }
}
