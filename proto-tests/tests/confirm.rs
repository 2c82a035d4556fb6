//! `confirm`: the user is asked in the host before a call is sent. Nothing is sent without a yes, and nothing twice.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use proto_tests::shim::{kind_of, structured, text_of};
use proto_tests::streamable::{HttpHost, with_meta};
use proto_tests::wait::until_true;
use proto_tests::{Home, Shim, TEST_TIMEOUT, bins};
use serde_json::{Value, json};

const ASKED: &str = "elicitation/create";
const WITHDRAWN: &str = "notifications/cancelled";
const CHOICES: [&str; 3] = ["once", "this session", "no"];
const CANNOT_ASK: &str =
    r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"mute","version":"1"}}"#;

/// A server with tools of every kind, that writes down its calls.
struct Server {
    list: PathBuf,
}

impl Server {
    fn new(home: &Home, name: &str) -> Self {
        let tool = |name: &str, annotations: Value| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": annotations});
        let tools = [
            tool("get", json!({"readOnlyHint": true})),
            tool("add", json!({"readOnlyHint": false, "destructiveHint": false})),
            tool("delete_page", json!({"readOnlyHint": false, "destructiveHint": true})),
            tool("silent", json!({})),
        ];
        let list = home.path().join(format!("{name}.tools"));
        std::fs::write(&list, json!({"tools": tools}).to_string()).unwrap();
        home.child(name, &["annotated", list.to_str().unwrap()]);
        Self { list }
    }

    /// The calls that it got.
    fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.list.with_extension("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// A home with the server `n`, that asks about deletions.
fn home_that_asks(confirm: &Value) -> (Home, Server) {
    let home = Home::new();
    let server = Server::new(&home, "n");
    home.config(&json!({"suites": {"n": {"confirm": confirm, "split": false, "redact": ["token"]}}}));
    (home, server)
}

fn call_of(subtool: &str, args: &Value) -> Value {
    json!({"name": "n_suite", "arguments": {"action": "call", "subtool": subtool, "args": args}})
}

fn start(shim: &mut Shim, subtool: &str, args: &Value) -> String {
    shim.start_request("tools/call", &call_of(subtool, args).to_string()).to_string()
}

fn reply(shim: &mut Shim, question: &Value, result: &Value) {
    shim.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}).to_string());
}

fn accept(choice: &str) -> Value {
    json!({"action": "accept", "content": {"decision": choice}})
}

/// A modern request; `can_ask`: whether the host supports elicitation.
fn modern(shim: &mut Shim, params: &Value, can_ask: bool) -> Value {
    let mut params = with_meta(params);
    if !can_ask {
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    }
    serde_json::from_str(&shim.request("tools/call", &params.to_string())).unwrap()
}

/// The same request, with the user's answer to the question in `asked`.
fn answered(params: &Value, asked: &Value, result: &Value) -> Value {
    let mut params = params.clone();
    params["requestState"] = asked["result"]["requestState"].clone();
    params["inputResponses"] = json!({"confirm": result});
    params
}

#[track_caller]
fn is_unconfirmed(answer: &str, words: &str) {
    assert_eq!(kind_of(answer).as_deref(), Some("not_confirmed"), "{answer}");
    assert!(text_of(answer).contains(words), "{answer}");
}

#[test]
fn a_legacy_host_asks_before_the_call_is_sent() {
    let (home, server) = home_that_asks(&json!(["delete_*"]));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let args = json!({"id": 7, "token": "s3cret", "text": "a\u{202e}b"});
    let id = start(&mut shim, "delete_page", &args);
    let question = shim.notification(ASKED);
    let message = question["params"]["message"].as_str().unwrap();
    for part in ["`delete_page`", "`n`", r#""id":7"#, r#""token":[redacted]"#, r#""text":"a\u{202e}b""#] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!message.contains("s3cret"), "{message}");
    let schema = &question["params"]["requestedSchema"];
    assert_eq!(schema["properties"]["decision"]["enum"], json!(CHOICES));
    // Other calls do not wait for the answer.
    assert_eq!(structured(&shim.call("n", "get", "{}"))["name"], "get");
    assert_eq!(server.calls(), ["get {}"]);
    reply(&mut shim, &question, &accept("once"));
    assert_eq!(structured(&shim.answer_to(&id))["args"], args);
    assert_eq!(server.calls().len(), 2);
    // Once is once.
    let id = start(&mut shim, "delete_page", &json!({}));
    let question = shim.notification(ASKED);
    reply(&mut shim, &question, &accept("this session"));
    assert_eq!(structured(&shim.answer_to(&id))["name"], "delete_page");
    assert_eq!(structured(&shim.call("n", "delete_page", "{}"))["name"], "delete_page");
    assert_eq!(server.calls().len(), 4);
    // Another session is asked for itself.
    let mut other = home.shim();
    let id = start(&mut other, "delete_page", &json!({}));
    let question = other.notification(ASKED);
    reply(&mut other, &question, &accept("no"));
    is_unconfirmed(&other.answer_to(&id), "the user did not allow");
    assert_eq!(server.calls().len(), 4);
}

/// A yes for the session is about the tool as it was described then.
#[test]
fn a_tool_that_changed_is_asked_about_again() {
    let (home, server) = home_that_asks(&json!(["delete_*"]));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let id = start(&mut shim, "delete_page", &json!({}));
    let question = shim.notification(ASKED);
    reply(&mut shim, &question, &accept("this session"));
    shim.answer_to(&id);
    home.run_ok(&["restart", "n"]);
    assert_eq!(structured(&shim.call("n", "delete_page", "{}"))["name"], "delete_page");
    let text = std::fs::read_to_string(&server.list).unwrap();
    let mut list: Value = serde_json::from_str(&text).unwrap();
    list["tools"][2]["description"] = "Deletes all pages".into();
    std::fs::write(&server.list, list.to_string()).unwrap();
    home.run_ok(&["restart", "n"]);
    let id = start(&mut shim, "delete_page", &json!({}));
    let question = shim.notification(ASKED);
    assert_eq!(server.calls().len(), 2);
    reply(&mut shim, &question, &accept("no"));
    is_unconfirmed(&shim.answer_to(&id), "the user did not allow");
    // A change that is taken back is what the user said yes to.
    std::fs::write(&server.list, text).unwrap();
    home.run_ok(&["restart", "n"]);
    assert_eq!(structured(&shim.call("n", "delete_page", "{}"))["name"], "delete_page");
}

/// A yes is about the tool as it was when the user was asked.
#[test]
fn a_tool_that_changes_during_the_question_is_asked_about_again() {
    let (home, server) = home_that_asks(&json!(["delete_*"]));
    let _daemon = home.daemon();
    let (mut shim, mut newer) = (home.shim(), home.raw_shim());
    let describe = |text: &str| {
        let list = std::fs::read_to_string(&server.list).unwrap();
        let mut list: Value = serde_json::from_str(&list).unwrap();
        list["tools"][2]["description"] = text.into();
        std::fs::write(&server.list, list.to_string()).unwrap();
        home.run_ok(&["restart", "n"]);
    };
    let id = start(&mut shim, "delete_page", &json!({"id": 1}));
    let question = shim.notification(ASKED);
    describe("Deletes all pages");
    reply(&mut shim, &question, &accept("once"));
    let question = shim.notification(ASKED);
    assert!(server.calls().is_empty());
    reply(&mut shim, &question, &accept("once"));
    assert_eq!(structured(&shim.answer_to(&id))["args"], json!({"id": 1}));
    assert_eq!(server.calls().len(), 1);
    let params = call_of("delete_page", &json!({"id": 2}));
    let asked = modern(&mut newer, &params, true);
    describe("Deletes everything");
    let asked = modern(&mut newer, &answered(&params, &asked, &accept("once")), true);
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    assert_eq!(server.calls().len(), 1);
    let called = modern(&mut newer, &answered(&params, &asked, &accept("once")), true);
    assert_eq!(called["result"]["structuredContent"]["args"], json!({"id": 2}), "{called}");
    assert_eq!(server.calls().len(), 2);
}

#[test]
fn an_answer_other_than_yes_is_no() {
    let (home, server) = home_that_asks(&json!(["delete_*"]));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let answers = [
        accept("no"),
        accept("Once"),
        accept("yes"),
        json!({"action": "accept", "content": {"decision": true}}),
        json!({"action": "accept", "content": {"decision": ["once"]}}),
        json!({"action": "accept", "content": {}}),
        json!({"action": "accept"}),
        json!({"action": "decline", "content": {"decision": "once"}}),
        json!({"action": "cancel", "content": {"decision": "once"}}),
        json!({"decision": "once"}),
        json!(null),
        json!("once"),
    ];
    for answer in &answers {
        let id = start(&mut shim, "delete_page", &json!({}));
        let question = shim.notification(ASKED);
        reply(&mut shim, &question, answer);
        is_unconfirmed(&shim.answer_to(&id), "it was not sent");
    }
    let id = start(&mut shim, "delete_page", &json!({}));
    let question = shim.notification(ASKED);
    shim.send(&format!(
        r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-1,"message":"no"}}}}"#,
        question["id"]
    ));
    is_unconfirmed(&shim.answer_to(&id), "it was not sent");
    // A modern host's answers count the same.
    for answer in &answers {
        let params = call_of("delete_page", &json!({}));
        let asked = modern(&mut shim, &params, true);
        let said = modern(&mut shim, &answered(&params, &asked, answer), true);
        is_unconfirmed(&said.to_string(), "it was not sent");
    }
    assert!(server.calls().is_empty());
}

#[test]
fn a_modern_host_gets_the_question_and_retries() {
    let (home, server) = home_that_asks(&json!("destructive"));
    let _daemon = home.daemon();
    let mut shim = home.raw_shim();
    let params = call_of("delete_page", &json!({"id": 1}));
    let asked = modern(&mut shim, &params, true);
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let question = &asked["result"]["inputRequests"]["confirm"];
    assert_eq!(question["method"], ASKED);
    assert!(question["params"]["message"].as_str().unwrap().contains(r#""id":1"#), "{question}");
    // Neither a made-up state nor the answer to another question is a yes.
    let mut forged = answered(&params, &asked, &accept("once"));
    forged["requestState"] = json!("none of ours");
    assert!(modern(&mut shim, &forged, true)["error"].is_object());
    let mut without = answered(&params, &asked, &accept("once"));
    without.as_object_mut().unwrap().remove("requestState");
    assert_eq!(modern(&mut shim, &without, true)["result"]["resultType"], "input_required");
    let other = call_of("delete_page", &json!({"id": 2}));
    assert!(modern(&mut shim, &answered(&other, &asked, &accept("once")), true)["error"].is_object());
    assert!(server.calls().is_empty());
    let yes = answered(&params, &asked, &accept("once"));
    let called = modern(&mut shim, &yes, true);
    assert_eq!(called["result"]["structuredContent"]["args"], json!({"id": 1}), "{called}");
    // The same yes is not good for a second call.
    let again = modern(&mut shim, &yes, true);
    assert_eq!(again["result"]["isError"], true, "{again}");
    assert_eq!(server.calls(), [r#"delete_page {"id":1}"#]);
    let asked = modern(&mut shim, &params, true);
    modern(&mut shim, &answered(&params, &asked, &accept("this session")), true);
    let called = modern(&mut shim, &other, true);
    assert_eq!(called["result"]["structuredContent"]["args"], json!({"id": 2}), "{called}");
    assert_eq!(server.calls().len(), 3);
}

#[test]
fn a_host_that_cannot_ask_is_refused() {
    let (home, server) = home_that_asks(&json!("destructive"));
    let daemon = home.daemon();
    let mut mute = home.raw_shim();
    mute.initialize_as(CANNOT_ASK);
    let how = "the user changes `suites.n.confirm` in the user's `switchboard.config.json`";
    is_unconfirmed(&mute.call("n", "delete_page", "{}"), how);
    is_unconfirmed(&modern(&mut mute, &call_of("delete_page", &json!({})), false).to_string(), how);
    let request =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call_of("silent", &json!({}))});
    is_unconfirmed(&daemon.endpoint().post("/proxy", &request.to_string()).text(), how);
    let output = home.command(&["call", "n", "delete_page"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot ask"), "{output:?}");
    assert!(server.calls().is_empty());
    // What says that it is harmless is not asked about.
    for harmless in ["get", "add"] {
        assert_eq!(structured(&mute.call("n", harmless, "{}"))["name"], harmless);
    }
    is_unconfirmed(&mute.call("n", "silent", "{}"), how);
    assert_eq!(server.calls().len(), 2);
    // Nobody is asked about a call that would be refused anyway.
    assert!(text_of(&home.shim().call("n", "delete_pages", "{}")).contains("did you mean"));
}

#[test]
fn a_cancelled_call_withdraws_its_question() {
    let (home, server) = home_that_asks(&json!(["delete_*"]));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let id = start(&mut shim, "delete_page", &json!({}));
    let question = shim.notification(ASKED);
    let cancel =
        json!({"jsonrpc": "2.0", "method": WITHDRAWN, "params": {"requestId": id.parse::<u64>().unwrap()}});
    shim.send(&cancel.to_string());
    let withdrawn = shim.notification(WITHDRAWN);
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    reply(&mut shim, &question, &accept("this session"));
    shim.request("ping", "{}");
    // Neither sent nor remembered.
    let id = start(&mut shim, "delete_page", &json!({}));
    let question = shim.notification(ASKED);
    assert!(server.calls().is_empty());
    // A session that ends takes its question along.
    drop(shim);
    let mut shim = home.shim();
    reply(&mut shim, &question, &accept("once"));
    shim.request("ping", "{}");
    assert!(server.calls().is_empty(), "{id}");
}

#[test]
fn the_face_of_one_server_asks_too() {
    let (home, server) = home_that_asks(&json!(["delete_*"]));
    let daemon = home.daemon();
    let mut one = home.shim_of("n");
    one.initialize();
    let params = json!({"name": "delete_page", "arguments": {"id": 3}});
    let id = one.start_request("tools/call", &params.to_string()).to_string();
    let question = one.notification(ASKED);
    assert!(question["params"]["message"].as_str().unwrap().contains(r#""id":3"#));
    reply(&mut one, &question, &accept("no"));
    is_unconfirmed(&one.answer_to(&id), "the user did not allow");
    let id = one.start_request("tools/call", &params.to_string()).to_string();
    let question = one.notification(ASKED);
    reply(&mut one, &question, &accept("once"));
    assert_eq!(structured(&one.answer_to(&id))["args"], json!({"id": 3}));
    // The user would read other arguments than the server.
    let twice = r#"{"name":"delete_page","arguments":{"id":1},"arguments":{"id":2}}"#;
    assert!(one.request("tools/call", twice).contains("must be there once"));
    let asked = modern(&mut one, &params, true);
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let called = modern(&mut one, &answered(&params, &asked, &accept("once")), true);
    assert_eq!(called["result"]["structuredContent"]["args"], json!({"id": 3}), "{called}");
    assert_eq!(structured(&one.request("tools/call", r#"{"name":"get"}"#))["name"], "get");
    assert_eq!(server.calls().len(), 3);
    // Over HTTP as well.
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    is_unconfirmed(&daemon.endpoint().post("/proxy/n", &request.to_string()).text(), "cannot ask");
    let host = HttpHost::open(daemon.endpoint(), "/mcp", "2025-11-25", &json!({}));
    let answer = host.call(
        &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call_of("delete_page", &json!({}))}),
    );
    assert!(answer.text().contains("not_confirmed"), "{}", answer.text());
    assert_eq!(server.calls().len(), 3);
}

/// The subtool of a modern server that asks itself: the user is asked once about the call.
#[test]
fn a_server_that_asks_in_the_middle_of_a_call_does_not_repeat_the_question() {
    let home = Home::new();
    let child = home.entry(&bins().era_child, &["--era", "modern"], &[]);
    home.definition("e", &json!({"mcpServers": {"e": child}}).to_string());
    home.config(&json!({"suites": {"e": {"confirm": ["test_*"]}}}));
    let _daemon = home.daemon();
    let mut shim = home.raw_shim();
    let arguments =
        json!({"action": "call", "subtool": "test_input_required_result_elicitation", "args": {}});
    let params = json!({"name": "e_suite", "arguments": arguments});
    let asked = modern(&mut shim, &params, true);
    assert!(asked["result"]["inputRequests"]["confirm"].is_object(), "{asked}");
    let asked = modern(&mut shim, &answered(&params, &asked, &accept("once")), true);
    let (key, _) = asked["result"]["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_ne!(key, "confirm");
    let mut retry = params.clone();
    retry["requestState"] = asked["result"]["requestState"].clone();
    retry["inputResponses"] = json!({key: {"action": "accept", "content": {"name": "Ada"}}});
    let done = modern(&mut shim, &retry, true);
    assert!(done["result"]["content"].to_string().contains("Ada"), "{done}");
    // Once is once: the same state does not run the call again.
    let again = modern(&mut shim, &retry, true);
    assert_eq!(again["result"]["_meta"]["switchboard"]["kind"], "request_state", "{again}");
    assert!(!again["result"]["content"].to_string().contains("Hello"), "{again}");
}

/// The tool of a modern server changes while a legacy host's user answers its question: the yes was for another tool.
#[test]
fn a_tool_that_changes_while_it_asks_does_not_get_the_answer() {
    let home = Home::new();
    let journal = home.path().join("journal");
    let variables = [("ERA_JOURNAL", journal.to_str().unwrap())];
    let child = home.entry(&bins().era_child, &["--era", "modern"], &variables);
    home.definition("n", &json!({"mcpServers": {"n": child}}).to_string());
    home.config(&json!({"suites": {"n": {"confirm": ["test_question_*"]}}}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let id = start(&mut shim, "test_question_of_a_changing_tool", &json!({}));
    let question = shim.notification(ASKED);
    reply(&mut shim, &question, &accept("once"));
    let question = shim.notification(ASKED);
    assert!(question["params"]["requestedSchema"]["properties"]["name"].is_object(), "{question}");
    shim.call("n", "test_trigger_tool_change", "{}");
    reply(&mut shim, &question, &json!({"action": "accept", "content": {"name": "Ada"}}));
    let answer = shim.answer_to(&id);
    assert_eq!(kind_of(&answer).as_deref(), Some("child_changed"), "{answer}");
    assert!(!std::fs::read_to_string(journal).unwrap().contains("inputResponses"));
}

#[test]
fn of_64_calls_at_once_only_those_with_a_yes_are_sent() {
    let (home, server) = home_that_asks(&json!(["delete_*"]));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    // The number of a call says what its user answers.
    let says_yes = |number: u64| number.is_multiple_of(3);
    let number_in = |question: &Value| -> u64 {
        let message = question["params"]["message"].as_str().unwrap();
        let at = message.find(r#""n":"#).unwrap() + 4;
        message[at..].chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
    };
    let ids: HashMap<u64, String> =
        (0..64).map(|n| (n, start(&mut shim, "delete_page", &json!({"n": n})))).collect();
    let questions: Vec<Value> = (0..64).map(|_| shim.notification(ASKED)).collect();
    assert!(server.calls().is_empty());
    for question in questions.iter().rev() {
        let number = number_in(question);
        let answer = match number % 6 {
            0 | 3 => accept("once"),
            1 => accept("no"),
            2 => json!({"action": "decline"}),
            4 => json!({"action": "cancel"}),
            _ => json!({"nonsense": true}),
        };
        reply(&mut shim, question, &answer);
    }
    for (n, id) in &ids {
        let answer = shim.answer_to(id);
        if says_yes(*n) {
            assert_eq!(structured(&answer)["args"]["n"], *n);
        } else {
            is_unconfirmed(&answer, "it was not sent");
        }
    }
    let mut expect: Vec<String> =
        (0..64).filter(|n| says_yes(*n)).map(|n| format!(r#"delete_page {{"n":{n}}}"#)).collect();
    let mut calls = server.calls();
    expect.sort();
    calls.sort();
    assert_eq!(calls, expect);
    // The same with a modern host.
    let mut states = Vec::new();
    for n in 100..164 {
        let params = call_of("delete_page", &json!({"n": n}));
        let id = shim.start_request("tools/call", &with_meta(&params).to_string()).to_string();
        states.push((n, params, id));
    }
    let asked: Vec<_> = states
        .into_iter()
        .map(|(n, params, id)| {
            let asked: Value = serde_json::from_str(&shim.answer_to(&id)).unwrap();
            assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
            (n, params, asked)
        })
        .collect();
    let retries: Vec<_> = asked
        .into_iter()
        .map(|(n, params, asked)| {
            let answer = accept(if says_yes(n) { "once" } else { "no" });
            let params = with_meta(&answered(&params, &asked, &answer));
            (n, shim.start_request("tools/call", &params.to_string()).to_string())
        })
        .collect();
    for (n, id) in retries {
        let answer = shim.answer_to(&id);
        assert_eq!(answer.contains("not_confirmed"), !says_yes(n), "{answer}");
    }
    let sent: Vec<String> = server.calls().split_off(expect.len());
    assert_eq!(sent.len(), (100..164).filter(|n| says_yes(*n)).count(), "{sent:?}");
}

/// A workspace may ask about its own servers; what it says about the user's is without effect.
#[test]
fn a_workspace_adds_questions_to_its_own_servers_only() {
    let (home, server) = home_that_asks(&json!(["delete_*"]));
    let project = home.project("work");
    let list = server.list.to_str().unwrap();
    project.define("w", &home.entry(&bins().evil_child, &["annotated", list], &[]));
    project.config(&json!({"suites": {"w": {"confirm": ["add"], "split": false}, "n": {"confirm": []}}}));
    let _daemon = home.daemon();
    project.allow();
    let mut shim = project.mute_shim();
    is_unconfirmed(&shim.call("n", "delete_page", "{}"), "the user's `switchboard.config.json`");
    until_true("the server to be allowed", TEST_TIMEOUT, || kind_of(&shim.call("w", "get", "{}")).is_none());
    let before = server.calls().len();
    is_unconfirmed(&shim.call("w", "add", "{}"), "the project's `switchboard.config.json`");
    assert_eq!(server.calls().len(), before);
}

/// Two projects run the user's server with different lists: each call is judged by the list of its own process.
#[test]
fn one_process_does_not_decide_about_the_calls_of_another() {
    let home = Home::new();
    let tool = |name: &str, annotations: Value| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": annotations});
    let list = |rm: Value| {
        let reads = |name| tool(name, json!({"readOnlyHint": true}));
        json!({"tools": [reads("get"), reads("change"), tool("rm", rm)]}).to_string()
    };
    let (one, other) = (home.project("one"), home.project("other"));
    one.write("tools.json", &list(json!({"destructiveHint": true})));
    other.write("tools.json", &list(json!({"readOnlyHint": false, "destructiveHint": false})));
    let child = home.entry(&bins().evil_child, &["annotated", "${workspaceFolder}/tools.json"], &[]);
    home.definition("n", &json!({"mcpServers": {"n": child}}).to_string());
    home.config(
        &json!({"suites": {"n": {"confirm": "destructive", "split": false, "pool": {"scope": "workspace"}}}}),
    );
    let _daemon = home.daemon();
    let (mut a, mut b) = (one.mute_shim(), other.mute_shim());
    assert_eq!(kind_of(&a.call("n", "get", "{}")), None);
    is_unconfirmed(&b.call("n", "rm", "{}"), "the user's");
    // The other process says that its list changed, and is asked for it after a while.
    a.call("n", "change", "{}");
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(2) {
        a.call("n", "get", "{}");
        is_unconfirmed(&b.call("n", "rm", "{}"), "the user's");
    }
    let shown = String::from_utf8(home.command(&["status"]).stdout).unwrap();
    assert!(shown.contains("tool `rm` changed"), "{shown}");
}

#[test]
fn the_first_call_of_a_new_server_is_judged_by_its_list() {
    let (home, server) = home_that_asks(&json!("destructive"));
    let _daemon = home.daemon();
    let mut shim = home.raw_shim();
    shim.initialize_as(CANNOT_ASK);
    let answer = shim.call("n", "get", "{}");
    assert_eq!(kind_of(&answer), None, "{answer}");
    assert_eq!(server.calls(), ["get {}"]);
    is_unconfirmed(&shim.call("n", "delete_page", "{}"), "the user's");
}

/// With `validate: false`, the list of tools is not needed: it only says whether a query is an argument.
#[test]
fn a_list_that_fails_stops_no_call_that_is_not_checked() {
    let home = Home::new();
    home.child("n", &["list-error"]);
    home.config(&json!({"suites": {"n": {"validate": false}}}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let params = json!({"name": "n_suite", "arguments": {"action": "call", "subtool": "echo", "query": "x"}});
    let answer = shim.request("tools/call", &params.to_string());
    assert_eq!(structured(&answer)["ok"], true, "{answer}");
}
