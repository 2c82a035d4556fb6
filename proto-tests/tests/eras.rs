//! Hosts and children of both eras: how the daemon detects a child's era, what a modern host is told, and how
//! questions are bridged between the eras.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use proto_tests::shim::call_params;
use proto_tests::wait::{until, until_true};
use proto_tests::{DaemonProcess, Home, Request, Shim, TEST_TIMEOUT, bins};
use serde_json::{Value, json};

const MODERN: &str = "2026-07-28";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A home with the era child, which journals what it receives.
fn home(args: &[&str]) -> Home {
    let home = Home::new();
    define(&home, args);
    home
}

fn define(home: &Home, args: &[&str]) {
    let journal = home.path().join("journal");
    let entry = home.entry(&bins().era_child, args, &[("ERA_JOURNAL", journal.to_str().unwrap())]);
    home.definition("era", &json!({"mcpServers": {"era": entry}}).to_string());
}

/// A child that runs this shell script.
fn scripted(script: &str) -> Home {
    let home = Home::new();
    let entry = home.entry("/bin/sh".as_ref(), &["-c", script], &[]);
    home.definition("era", &json!({"mcpServers": {"era": entry}}).to_string());
    home
}

/// All messages that the child received.
fn journal(home: &Home) -> Vec<Value> {
    let text = std::fs::read_to_string(home.path().join("journal")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn methods(home: &Home) -> Vec<String> {
    journal(home).iter().map(|line| line["method"].as_str().unwrap_or("-").to_owned()).collect()
}

fn meta(capabilities: &Value) -> Value {
    json!({VERSION: MODERN, CAPABILITIES: capabilities})
}

fn modern(params: Value) -> String {
    modern_as(&json!({"elicitation": {}, "sampling": {}, "roots": {}}), params)
}

fn modern_as(capabilities: &Value, mut params: Value) -> String {
    let mut all = meta(capabilities);
    if let Some(own) = params["_meta"].as_object() {
        all.as_object_mut().unwrap().extend(own.clone());
    }
    params["_meta"] = all;
    params.to_string()
}

fn suite(tool: &str, args: &Value) -> Value {
    serde_json::from_str(&call_params("era", tool, &args.to_string())).unwrap()
}

#[track_caller]
fn ask(shim: &mut Shim, method: &str, params: &str) -> Value {
    serde_json::from_str(&shim.request(method, params)).unwrap()
}

#[track_caller]
fn post(daemon: &DaemonProcess, method: &str, params: &str) -> Value {
    let body = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"{method}","params":{params}}}"#);
    daemon.endpoint().post("/proxy/era", &body).json()
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {answer}"))
}

/// A retry of `call` with these answers to the questions in `asked`.
fn retry(mut call: Value, asked: &Value, answers: &Value) -> String {
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    call["inputResponses"] = answers.clone();
    call["requestState"] = asked["result"]["requestState"].clone();
    modern(call)
}

fn accept(content: &Value) -> Value {
    json!({"action": "accept", "content": content})
}

// Children.

#[test]
fn a_modern_child_is_discovered_once_and_told_about_the_host() {
    let home = home(&["--era", "modern"]);
    let _daemon = home.daemon();
    let mut shim = home.raw_shim();
    shim.initialize_as(r#"{"protocolVersion":"2025-11-25","capabilities":{"sampling":{}},"clientInfo":{"name":"h","version":"2"}}"#);
    ask(&mut shim, "logging/setLevel", r#"{"level":"error"}"#);
    assert!(
        text(&ask(&mut shim, "tools/call", &suite("test_simple_text", &json!({})).to_string()))
            .contains("simple")
    );
    let said = journal(&home);
    let first = &said[0];
    assert_eq!(first["method"], "server/discover");
    assert!(first["id"].is_string(), "{first}");
    assert!(
        !methods(&home).iter().any(|method| method == "initialize" || method == "notifications/initialized")
    );
    let call = said.iter().find(|line| line["method"] == "tools/call").unwrap();
    let meta = &call["params"]["_meta"];
    assert_eq!(meta[VERSION], MODERN);
    assert_eq!(meta[CAPABILITIES], json!({"sampling": {}}));
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"], json!({"name": "h", "version": "2"}));
    assert_eq!(meta["io.modelcontextprotocol/logLevel"], "error");
    for line in &said {
        assert!(line["params"]["_meta"][VERSION].is_string() || line.get("id").is_none(), "{line}");
    }
    let listen = said.iter().find(|line| line["method"] == "subscriptions/listen").unwrap();
    assert_eq!(listen["params"]["notifications"]["toolsListChanged"], true);
}

#[test]
fn the_era_of_a_child_is_remembered() {
    for (era, method) in [("legacy", "initialize"), ("modern", "server/discover")] {
        let home = home(&["--era", era]);
        for start in 0..2 {
            let _ = std::fs::remove_file(home.path().join("journal"));
            let daemon = home.daemon();
            text(&post(&daemon, "tools/call", r#"{"name":"test_simple_text","arguments":{}}"#));
            until_true("a manifest", TEST_TIMEOUT, || {
                std::fs::read_dir(home.state_folder().join("manifests")).is_ok_and(|all| all.count() > 0)
            });
            let first = if start == 0 { "server/discover" } else { method };
            assert_eq!(methods(&home)[0], first, "{era}, start {start}");
        }
    }
}

#[test]
fn a_change_of_a_childs_era_is_detected() {
    let home = home(&["--era", "legacy"]);
    {
        let daemon = home.daemon();
        text(&post(&daemon, "tools/call", r#"{"name":"test_simple_text","arguments":{}}"#));
        until_true("a manifest", TEST_TIMEOUT, || {
            std::fs::read_dir(home.state_folder().join("manifests")).is_ok_and(|all| all.count() > 0)
        });
    }
    // Now the same command line runs another server, while its manifest still describes the old one.
    let manifests = home.state_folder().join("manifests");
    let old = std::fs::read_dir(&manifests).unwrap().next().unwrap().unwrap().path();
    let kept = std::fs::read(&old).unwrap();
    define(&home, &["--era", "modern"]);
    {
        let daemon = home.daemon();
        text(&post(&daemon, "tools/call", r#"{"name":"test_simple_text","arguments":{}}"#));
        until_true("another manifest", TEST_TIMEOUT, || std::fs::read_dir(&manifests).unwrap().count() > 1);
    }
    let new =
        std::fs::read_dir(&manifests).unwrap().map(|file| file.unwrap().path()).find(|file| *file != old);
    std::fs::write(new.unwrap(), kept).unwrap();
    let _ = std::fs::remove_file(home.path().join("journal"));
    let daemon = home.daemon();
    assert!(
        text(&post(&daemon, "tools/call", r#"{"name":"test_simple_text","arguments":{}}"#))
            .contains("simple")
    );
    assert_eq!(methods(&home)[..2], ["initialize", "server/discover"]);
}

const HELLO: &str = r#"{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}"#;

/// Reads lines and answers them; `$id` is the id of each line as it was written.
fn reads(cases: &str) -> String {
    format!(
        r#"while read -r line; do id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p'); case "$line" in {cases} *'"initialize"'*) echo "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{HELLO}}}";; *tools/call*) echo "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{\"content\":[]}}}}";; *tools/list*) echo "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{\"tools\":[{{\"name\":\"t\"}}]}}}}";; esac; done"#
    )
}

#[test]
fn a_child_that_exits_at_the_probe_is_restarted() {
    let home = scripted(&reads("*server/discover*) exit 3;;"));
    let daemon = home.daemon();
    let answer = post(&daemon, "tools/call", r#"{"name":"t","arguments":{}}"#);
    assert_eq!(answer["result"], json!({"content": []}), "{answer}");
}

#[test]
fn a_child_that_ignores_the_probe_is_initialized_in_the_same_process() {
    // It answers the probe late, after `initialize`.
    let late = r#"*server/discover*) probe=$id;; *notifications/initialized*) echo "{\"jsonrpc\":\"2.0\",\"id\":$probe,\"result\":{\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{}}}";;"#;
    let home = scripted(&reads(late));
    let daemon = home.daemon();
    let begin = Instant::now();
    let answer = post(&daemon, "tools/call", r#"{"name":"t","arguments":{}}"#);
    assert_eq!(answer["result"], json!({"content": []}), "{answer}");
    assert!(begin.elapsed() >= Duration::from_secs(2));
    assert_eq!(daemon.starts("era"), 1);
}

#[test]
fn any_error_to_the_probe_means_legacy() {
    for error in [
        r#"{\"code\":-32601,\"message\":\"m\"}"#,
        r#"{\"code\":-32000,\"message\":\"m\"}"#,
        r#"{\"code\":-32022,\"message\":\"m\",\"data\":{\"supported\":[\"2031-01-01\"]}}"#,
    ] {
        let refuses =
            format!(r#"*server/discover*) echo "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{error}}}";;"#);
        let home = scripted(&reads(&refuses));
        let daemon = home.daemon();
        let answer = post(&daemon, "tools/call", r#"{"name":"t","arguments":{}}"#);
        assert_eq!(answer["result"], json!({"content": []}), "{error}: {answer}");
    }
}

// Hosts.

#[test]
fn a_modern_host_gets_server_info_and_modern_error_codes() {
    let home = home(&["--era", "legacy"]);
    let _daemon = home.daemon();
    let mut shim = home.raw_shim();
    let found = ask(&mut shim, "server/discover", &modern(json!({})));
    let result = &found["result"];
    assert_eq!(result["supportedVersions"], json!([MODERN]));
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "switchboard");
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
    for method in ["ping", "initialize", "logging/setLevel", "resources/subscribe", "no/such"] {
        assert_eq!(ask(&mut shim, method, &modern(json!({})))["error"]["code"], -32601, "{method}");
    }
    let lacking = ask(&mut shim, "tools/list", &json!({"_meta": {VERSION: MODERN}}).to_string());
    assert_eq!(lacking["error"]["code"], -32602, "{lacking}");
    let newer = json!({"_meta": {VERSION: "2099-01-01", CAPABILITIES: {}}}).to_string();
    let unsupported = ask(&mut shim, "tools/list", &newer);
    assert_eq!(unsupported["error"]["code"], -32022);
    assert_eq!(unsupported["error"]["data"], json!({"supported": [MODERN], "requested": "2099-01-01"}));
    // A host that lacks a capability the child needs gets the modern error code for that.
    let missing = modern(suite("test_input_required_result_sampling", &json!({})));
    let missing = missing.replace(r#""sampling":{}"#, r#""other":{}"#);
    let refused = ask(&mut shim, "tools/call", &missing);
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
    assert_eq!(refused["error"]["data"]["requiredCapabilities"], json!({"sampling": {}}));
}

#[test]
fn both_eras_mix_on_one_connection() {
    let home = home(&["--era", "both"]);
    let _daemon = home.daemon();
    let mut shim = home.raw_shim();
    let found = ask(&mut shim, "server/discover", &modern(json!({})));
    assert_eq!(found["result"]["resultType"], "complete");
    let hello = shim.initialize();
    assert_eq!(hello["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(ask(&mut shim, "ping", "{}")["result"], json!({}));
    for _ in 0..2 {
        let call = suite("test_simple_text", &json!({}));
        let plain = ask(&mut shim, "tools/call", &call.to_string());
        assert!(
            plain["result"].get("resultType").is_none() && plain["result"].get("_meta").is_none(),
            "{plain}"
        );
        assert_eq!(ask(&mut shim, "tools/call", &modern(call))["result"]["resultType"], "complete");
    }
}

#[test]
fn a_modern_host_gets_only_the_notifications_it_listens_for() {
    let home = home(&["--era", "legacy"]);
    let _daemon = home.daemon();
    let mut shim = home.raw_shim();
    ask(&mut shim, "tools/list", &modern(json!({})));
    let filter = json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["x:y"]}});
    shim.send(&format!(
        r#"{{"jsonrpc":"2.0","id":"1","method":"subscriptions/listen","params":{}}}"#,
        modern(filter)
    ));
    let first = shim.notification("notifications/subscriptions/acknowledged");
    assert_eq!(first["params"]["notifications"], json!({"toolsListChanged": true}));
    assert_eq!(first["params"]["_meta"][SUBSCRIPTION], "1");
    home.child("another", &[]);
    let changed = shim.notification("notifications/tools/list_changed");
    assert_eq!(changed["params"]["_meta"][SUBSCRIPTION], "1", "{changed}");
    shim.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"1"}}"#);
    ask(&mut shim, "tools/list", &modern(json!({})));
    home.child("a-third", &[]);
    until_true("a third suite", TEST_TIMEOUT, || {
        ask(&mut shim, "tools/list", &modern(json!({})))["result"]["tools"].as_array().unwrap().len() == 3
    });
    let heard = shim.take_notifications();
    assert!(heard.is_empty(), "{heard:?}");
}

#[test]
fn a_listen_request_continues_with_the_next_daemon() {
    let home = home(&["--era", "legacy"]);
    let mut daemon = home.daemon();
    let mut shim = home.raw_shim();
    let filter = json!({"notifications": {"toolsListChanged": true}});
    shim.start_request("subscriptions/listen", &modern(filter));
    shim.notification("notifications/subscriptions/acknowledged");
    let begin = Instant::now();
    daemon.signal(rustix::process::Signal::TERM);
    daemon.ended(TEST_TIMEOUT);
    assert!(begin.elapsed() < Duration::from_secs(8), "a listen held up the daemon's end");
    let _next = home.daemon();
    shim.notification("notifications/subscriptions/acknowledged");
    home.child("another", &[]);
    shim.notification("notifications/tools/list_changed");
}

#[test]
fn batches_are_accepted_only_in_revision_2025_03_26() {
    let home = home(&["--era", "legacy"]);
    let daemon = home.daemon();
    let batch = r#"[{"jsonrpc":"2.0","id":"x","method":"tools/list"},{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":"y","method":"ping"},{"jsonrpc":"2.0","id":"z","method":"initialize","params":{}}]"#;
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut shim = home.raw_shim();
        shim.initialize_as(&json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}}).to_string());
        shim.send(batch);
        if revision == "2025-03-26" {
            assert!(shim.answer_to("\"x\"").contains("era_suite"));
            assert!(shim.answer_to("\"y\"").contains("\"result\":{}"));
            assert!(shim.answer_to("\"z\"").contains("-32600"));
            shim.send(
                r#"[{"jsonrpc":"1.0","id":"w","method":"ping"},{"jsonrpc":"2.0","id":"v","method":"ping"}]"#,
            );
            assert!(shim.answer_to("\"w\"").contains("-32600"));
            assert!(shim.answer_to("\"v\"").contains("\"result\":{}"));
            shim.send(&format!("[{}]", vec!["{}"; 321].join(",")));
            assert!(shim.answer_to("null").contains("at most 320"));
        } else {
            assert!(shim.answer_to("null").contains("-32600"), "{revision}");
        }
    }
    let plain = daemon.endpoint().post("/proxy", batch);
    assert_eq!(plain.json()["error"]["code"], -32600);
    let request = Request::new("POST", "/proxy").header("Content-Type", "application/json");
    let named = daemon.endpoint().send(&request.header("MCP-Protocol-Version", "2025-03-26").body(batch));
    let answers = named.json();
    assert_eq!(answers.as_array().map(Vec::len), Some(3), "{answers}");
    assert_eq!(answers[1], json!({"jsonrpc": "2.0", "id": "y", "result": {}}));
    assert_eq!(answers[2]["error"]["code"], -32600);
}

// Questions between the eras.

#[test]
fn a_modern_childs_questions_are_put_to_a_legacy_host() {
    let home = home(&["--era", "modern"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let id = shim.start_call("era", "test_input_required_result_multi_round", "{}");
    for (step, content) in [("Step 1", json!({"name": "Ada"})), ("Step 2", json!({"color": "blue"}))] {
        let question = shim.notification("elicitation/create");
        assert!(question["params"]["message"].as_str().unwrap().starts_with(step), "{question}");
        shim.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": accept(&content)}).to_string());
    }
    let answer: Value = serde_json::from_str(&shim.answer_to(&id.to_string())).unwrap();
    assert!(text(&answer).contains("blue") && text(&answer).contains("state-ok"), "{answer}");
    let calls: Vec<Value> =
        journal(&home).into_iter().filter(|line| line["method"] == "tools/call").collect();
    assert_eq!(calls.len(), 3);
    assert!(calls[0]["params"].get("requestState").is_none());
    assert!(
        calls[1]["params"]["requestState"].is_string()
            && calls[1]["params"]["inputResponses"]["step1"].is_object()
    );
    let ids: Vec<_> = calls.iter().map(|call| call["id"].to_string()).collect();
    assert!(ids[0] != ids[1] && ids[1] != ids[2]);
}

#[test]
fn a_question_is_cancelled_when_its_call_is_cancelled() {
    let home = home(&["--era", "modern"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let id = shim.start_call("era", "test_input_required_result_elicitation", "{}");
    let question = shim.notification("elicitation/create");
    shim.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
            .to_string(),
    );
    let withdrawn = shim.notification("notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
}

#[test]
fn a_legacy_childs_questions_reach_a_modern_host_as_results() {
    let home = home(&["--era", "legacy"]);
    home.config(&json!({"suites": {"era": {"pool": {"scope": "session"}}}}));
    let _daemon = home.daemon();
    let mut shim = home.raw_shim();
    let call = suite("test_input_required_result_multiple_inputs", &json!({}));
    let asked = ask(&mut shim, "tools/call", &modern(call.clone()));
    let requests = asked["result"]["inputRequests"].as_object().unwrap_or_else(|| panic!("{asked}")).clone();
    assert_eq!(requests.len(), 3, "one round, all of its questions: {asked}");
    let mut answers = serde_json::Map::new();
    for (key, request) in &requests {
        let answer = match request["method"].as_str().unwrap() {
            "elicitation/create" => accept(&json!({"name": "Ada"})),
            "sampling/createMessage" => {
                json!({"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"})
            }
            _ => json!({"roots": [{"uri": "file:///x"}]}),
        };
        answers.insert(key.clone(), answer);
    }
    // The daemon asks again for missing answers and ignores answers to questions that were never asked.
    let (last, rest) = (answers.keys().next_back().unwrap().clone(), answers.clone());
    let mut some = rest;
    some.remove(&last);
    some.insert("nobody's".into(), json!({}));
    let again = ask(&mut shim, "tools/call", &retry(call.clone(), &asked, &some.into()));
    let keys: Vec<_> =
        again["result"]["inputRequests"].as_object().unwrap_or_else(|| panic!("{again}")).keys().collect();
    assert_eq!(keys, [&last]);
    let answer = ask(&mut shim, "tools/call", &retry(call, &again, &json!({&last: answers[&last]})));
    assert!(text(&answer).contains("Ada") && text(&answer).contains("Paris"), "{answer}");
    assert_eq!(answer["result"]["resultType"], "complete");
    let calls = methods(&home).iter().filter(|method| *method == "tools/call").count();
    assert_eq!(calls, 1, "the child's call was made once");
}

#[test]
fn a_request_state_is_good_for_its_own_request_only() {
    // A legacy child's call is suspended, a modern child's state is sealed in ours.
    for era in ["legacy", "modern"] {
        is_good_once_for_its_own_request(era);
    }
}

fn is_good_once_for_its_own_request(era: &str) {
    let home = home(&["--era", era]);
    let mut daemon = home.daemon();
    let call = json!({"name": "test_input_required_result_elicitation", "arguments": {"n": 1}});
    let answers = |asked: &Value| {
        let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        json!({key: accept(&json!({"name": "Ada"}))})
    };
    let asked = post(&daemon, "tools/call", &modern(call.clone()));
    assert_eq!(asked["result"]["inputRequests"]["user_name"]["method"], "elicitation/create", "{asked}");
    let broken = |changed: Value| {
        let answer = post(&daemon, "tools/call", &modern(changed));
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("requestState"), "{answer}");
    };
    let state = asked["result"]["requestState"].as_str().unwrap();
    let mut with_state = call.clone();
    with_state["inputResponses"] = answers(&asked);
    for tampered in [format!("{state}x"), state.replace('.', "!"), "x".into()] {
        with_state["requestState"] = tampered.into();
        broken(with_state.clone());
    }
    with_state["requestState"] = state.into();
    with_state["arguments"]["n"] = 2.into();
    broken(with_state.clone());
    with_state["arguments"]["n"] = 1.into();
    assert_eq!(text(&post(&daemon, "tools/call", &modern(with_state.clone()))), "Hello, Ada!");
    // The state is used up, and later belongs to an earlier run: the call may have run, so no host may be led
    // to repeat it.
    let failed = |daemon: &DaemonProcess, why: &str| {
        let answer = post(daemon, "tools/call", &modern(with_state.clone()));
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
        assert_eq!(answer["result"]["_meta"]["switchboard"]["kind"], "request_state", "{answer}");
        assert!(text(&answer).contains(why) && text(&answer).contains("may or may not have run"), "{answer}");
    };
    failed(&daemon, "used before");
    daemon.kill();
    failed(&home.daemon(), "earlier run");
}

#[test]
fn a_suspended_call_without_a_retry_is_cancelled_in_the_child() {
    let home = home(&["--era", "legacy"]);
    home.config(&json!({"timeouts": {"maxMs": 1500}}));
    let daemon = home.daemon();
    let call = json!({"name": "test_input_required_result_elicitation", "arguments": {}});
    let asked = post(&daemon, "tools/call", &modern(call));
    assert_eq!(asked["result"]["resultType"], "input_required");
    let said = until("a cancel", TEST_TIMEOUT, || {
        let said = journal(&home);
        said.iter().any(|line| line["method"] == "notifications/cancelled").then_some(said)
    });
    let answer = said.iter().position(|line| line["result"]["action"] == "cancel");
    let cancel = said.iter().position(|line| line["method"] == "notifications/cancelled");
    assert!(answer.is_some() && answer < cancel, "{said:?}");
}

#[test]
fn a_suspended_call_does_not_block_questions_to_other_hosts() {
    let home = home(&["--era", "legacy"]);
    let daemon = home.daemon();
    let call = json!({"name": "test_input_required_result_elicitation", "arguments": {}});
    let first = post(&daemon, "tools/call", &modern(call.clone()));
    let second = post(&daemon, "tools/call", &modern(call.clone()));
    let mut shim = home.shim();
    let id = shim.start_call("era", "test_input_required_result_elicitation", "{}");
    let question = shim.notification("elicitation/create");
    shim.send(
        &json!({"jsonrpc": "2.0", "id": question["id"], "result": accept(&json!({"name": "Eve"}))})
            .to_string(),
    );
    assert!(shim.answer_to(&id.to_string()).contains("Hello, Eve!"));
    for (asked, key, name) in [(&second, "user_name", "Bob"), (&first, "user_name", "Ada")] {
        let answers = json!({key: accept(&json!({"name": name}))});
        let answer = post(&daemon, "tools/call", &retry(call.clone(), asked, &answers));
        assert_eq!(text(&answer), format!("Hello, {name}!"), "{answer}");
    }
}

#[test]
fn between_modern_ends_only_the_request_state_is_replaced() {
    let home = home(&["--era", "modern"]);
    let daemon = home.daemon();
    let call = json!({"name": "test_input_required_result_request_state", "arguments": {}, "_meta": {"traceparent": "00-1"}});
    let asked = post(&daemon, "tools/call", &modern(call.clone()));
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answers = json!({&key: accept(&json!({"ok": true}))});
    let answer = post(&daemon, "tools/call", &retry(call.clone(), &asked, &answers));
    assert!(text(&answer).contains("state-ok"), "{answer}");
    let calls: Vec<Value> =
        journal(&home).into_iter().filter(|line| line["method"] == "tools/call").collect();
    assert_eq!(calls[0]["params"]["_meta"]["traceparent"], "00-1");
    assert_eq!(
        calls[0]["params"]["_meta"][CAPABILITIES],
        json!({"elicitation": {}, "sampling": {}, "roots": {}})
    );
    assert_ne!(calls[1]["params"]["requestState"], asked["result"]["requestState"]);
    let tampered = retry(call, &asked, &answers).replace("\"requestState\":\"", "\"requestState\":\"f");
    assert_eq!(post(&daemon, "tools/call", &tampered)["error"]["code"], -32602);
}

/// A server whose definition, or a value of it, was changed while the user answered is another server. So is a tool that
/// needs a yes since then.
#[test]
fn answers_go_only_to_the_server_that_asked() {
    let values = |home: &Home, value: &str| {
        let file = home.write(".config/switchboard/env", &format!("WHICH={value}\n"));
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let definition = |home: &Home| define(home, &["--era", "modern", "--page", "7"]);
    let changed_value = |home: &Home| values(home, "second");
    let confirm = |home: &Home| home.config(&json!({"suites": {"era": {"confirm": ["test_*"]}}}));
    let changes: [&dyn Fn(&Home); 3] = [&definition, &changed_value, &confirm];
    for (number, change) in changes.into_iter().enumerate() {
        let home = Home::new();
        values(&home, "first");
        let file = home.path().join("journal");
        let variables = [("ERA_JOURNAL", file.to_str().unwrap()), ("WHICH", "${WHICH}")];
        let entry = home.entry(&bins().era_child, &["--era", "modern"], &variables);
        home.definition("era", &json!({"mcpServers": {"era": entry}}).to_string());
        let daemon = home.daemon();
        let call = json!({"name": "test_input_required_result_elicitation", "arguments": {}});
        let asked = post(&daemon, "tools/call", &modern(call.clone()));
        let answers = json!({"user_name": accept(&json!({"name": "Ada"}))});
        let retry = retry(call, &asked, &answers);
        change(&home);
        home.run_ok(&["reload"]);
        let answer = post(&daemon, "tools/call", &retry);
        assert_eq!(answer["result"]["_meta"]["switchboard"]["kind"], "child_changed", "{number}: {answer}");
        let calls = journal(&home).into_iter().filter(|line| line["method"] == "tools/call").count();
        assert_eq!(calls, 1, "{number}");
    }
}

#[test]
fn non_object_results_are_wrapped_for_a_legacy_host() {
    let home = home(&["--era", "modern"]);
    let daemon = home.daemon();
    for _ in 0..2 {
        let listed = post(&daemon, "tools/list", "{}");
        let tools = listed["result"]["tools"].as_array().unwrap();
        let list = tools.iter().find(|tool| tool["name"] == "test_structured_list").unwrap();
        assert_eq!(list["outputSchema"]["properties"]["result"]["type"], "array", "{list}");
        let answer = post(&daemon, "tools/call", r#"{"name":"test_structured_list","arguments":{}}"#);
        assert_eq!(answer["result"]["structuredContent"], json!({"result": [1, 2, 3]}), "{answer}");
    }
    let call = modern(json!({"name": "test_structured_list", "arguments": {}}));
    assert_eq!(post(&daemon, "tools/call", &call)["result"]["structuredContent"], json!([1, 2, 3]));
}

#[test]
fn a_cancelled_call_does_not_block_a_modern_childs_logs_to_another_host() {
    let home = home(&["--era", "modern"]);
    let _daemon = home.daemon();
    let (mut leaves, mut stays) = (home.raw_shim(), home.raw_shim());
    let id = leaves.start_request("tools/call", &modern(suite("test_wait", &json!({"seconds": 600}))));
    let call = until("the call", TEST_TIMEOUT, || {
        journal(&home).into_iter().find(|line| line["params"]["name"] == "test_wait")
    });
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    leaves.send(&cancel.to_string());
    until_true("the cancel", TEST_TIMEOUT, || {
        journal(&home).iter().any(|line| {
            line["method"] == "notifications/cancelled" && line["params"]["requestId"] == call["id"]
        })
    });
    // Once the child has answered this call, it has read the cancel.
    ask(&mut stays, "tools/call", &modern(suite("test_simple_text", &json!({}))));
    let mut logs = suite("test_logging_tool", &json!({}));
    logs["_meta"] = json!({"io.modelcontextprotocol/logLevel": "warning"});
    let id = stays.start_request("tools/call", &modern(logs));
    assert_eq!(stays.notification("notifications/message")["params"]["data"], "as a warning");
    stays.answer_to(&id.to_string());
}
