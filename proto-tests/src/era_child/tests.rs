//! Sessions with the child, in memory.
#![expect(clippy::needless_pass_by_value, reason = "a conversation reads best with its messages in place")]

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{Child, Options};
use crate::wait::TEST_TIMEOUT;

struct TestSession {
    child: Arc<Child>,
    said: Receiver<Value>,
}

struct TestOutput(Mutex<Sender<Value>>);

impl Write for TestOutput {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let message = serde_json::from_slice(line).expect("one message a write");
        let _ = self.0.get_mut().unwrap().send(message);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TestSession {
    fn with(flags: &str) -> Self {
        let options = Options::parse(flags.split_whitespace().map(str::to_owned)).unwrap();
        let (mouth, said) = channel();
        Self { child: Child::new(options, Box::new(TestOutput(Mutex::new(mouth)))), said }
    }

    fn legacy(flags: &str, capabilities: Value) -> Self {
        let talk = Self::with(flags);
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities});
        talk.say(json!({"id": 0, "method": "initialize", "params": params}));
        assert!(talk.receive()["result"]["serverInfo"].is_object());
        talk
    }

    fn say(&self, mut message: Value) {
        message["jsonrpc"] = "2.0".into();
        self.child.line(message.to_string().as_bytes());
    }

    #[track_caller]
    fn receive(&self) -> Value {
        self.said.recv_timeout(TEST_TIMEOUT).expect("an answer")
    }

    #[track_caller]
    fn ask(&self, id: Value, method: &str, params: Value) -> Value {
        self.say(json!({"id": id, "method": method, "params": params}));
        let answer = self.receive();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    #[track_caller]
    fn modern(&self, method: &str, mut params: Value) -> Value {
        params["_meta"] = meta(json!({"elicitation": {}, "sampling": {}, "roots": {}}));
        self.ask(json!("m"), method, params)
    }
}

fn meta(client: Value) -> Value {
    json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": client})
}

#[test]
fn a_legacy_child_knows_no_discover_and_adds_no_modern_fields() {
    let talk = TestSession::legacy("--era legacy", json!({}));
    let answer = talk.ask(json!(1), "server/discover", json!({"_meta": meta(json!({}))}));
    assert_eq!(answer["error"]["code"], -32601);
    let list = talk.ask(json!(2), "tools/list", json!({}));
    assert!(list["result"].get("resultType").is_none() && list["result"].get("ttlMs").is_none());
}

#[test]
fn a_fixed_revision_is_answered_whatever_the_client_asks() {
    let talk = TestSession::with("--era legacy --revision 2024-11-05");
    let answer =
        talk.ask(json!(1), "initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}}));
    assert_eq!(answer["result"]["protocolVersion"], "2024-11-05");
}

#[test]
fn a_modern_child_names_its_versions_to_a_handshake() {
    let talk = TestSession::with("--era modern");
    let answer =
        talk.ask(json!(1), "initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}}));
    assert_eq!(answer["error"]["code"], -32022);
    assert_eq!(answer["error"]["data"], json!({"supported": ["2026-07-28"], "requested": "2025-11-25"}));
    assert_eq!(talk.modern("initialize", json!({}))["error"]["code"], -32601);
    assert_eq!(talk.modern("ping", json!({}))["error"]["code"], -32601);
    assert_eq!(talk.ask(json!(2), "tools/list", json!({}))["error"]["code"], -32602);
}

#[test]
fn a_child_of_both_eras_accepts_both_in_one_session() {
    let talk = TestSession::legacy("", json!({}));
    assert_eq!(talk.modern("tools/list", json!({}))["result"]["resultType"], "complete");
    assert_eq!(talk.ask(json!(1), "ping", json!({}))["result"], json!({}));
    assert_eq!(
        talk.modern("server/discover", json!({}))["result"]["supportedVersions"],
        json!(["2026-07-28"])
    );
}

#[test]
fn a_legacy_question_is_a_request_and_blocks_no_other_call() {
    let talk = TestSession::legacy("--era legacy", json!({"elicitation": {}}));
    let call = json!({"name": "test_input_required_result_elicitation"});
    talk.say(json!({"id": 1, "method": "tools/call", "params": call}));
    let question = talk.receive();
    assert_eq!((&question["id"], &question["method"]), (&json!("user_name"), &json!("elicitation/create")));
    talk.ask(json!(2), "ping", json!({}));
    talk.say(json!({"id": question["id"], "result": {"action": "accept", "content": {"name": "Ada"}}}));
    let answer = talk.receive();
    assert_eq!(answer["id"], 1);
    assert_eq!(answer["result"]["content"][0]["text"], "Hello, Ada!");
}

#[test]
fn a_modern_question_is_a_result_that_the_host_retries_with_answers() {
    let talk = TestSession::with("--era modern");
    let name = "test_input_required_result_multi_round";
    let first = talk.modern("tools/call", json!({"name": name}));
    assert_eq!(first["result"]["resultType"], "input_required");
    let answers = json!({"step1": {"action": "accept", "content": {"name": "Ada"}}});
    let state = &first["result"]["requestState"];
    let second =
        talk.modern("tools/call", json!({"name": name, "inputResponses": answers, "requestState": state}));
    assert!(second["result"]["inputRequests"]["step2"].is_object(), "{second}");
    let answers = json!({"step2": {"action": "accept", "content": {"color": "blue"}}});
    let state = &second["result"]["requestState"];
    let third =
        talk.modern("tools/call", json!({"name": name, "inputResponses": answers, "requestState": state}));
    assert_eq!(third["result"]["resultType"], "complete");
    let other = talk.modern("tools/call", json!({"name": "test_simple_text", "requestState": state}));
    assert_eq!(other["error"]["code"], -32602, "the state of another tool");
}

#[test]
fn a_cancelled_call_withdraws_its_question_and_is_not_answered() {
    let talk = TestSession::legacy("--era legacy", json!({"sampling": {}}));
    talk.say(json!({"id": 1, "method": "tools/call",
        "params": {"name": "test_sampling", "arguments": {"prompt": "?"}}}));
    let question = talk.receive();
    talk.say(json!({"method": "notifications/cancelled", "params": {"requestId": 1}}));
    assert_eq!(talk.receive()["params"]["requestId"], question["id"]);
    let report = talk.ask(json!(2), "tools/call", json!({"name": "test_report"}));
    assert_eq!(report["result"]["structuredContent"]["cancelled"], 1);
}

#[test]
fn listeners_hear_what_they_asked_for() {
    let talk = TestSession::with("--era modern");
    let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta(json!({}))});
    talk.say(json!({"id": 7, "method": "subscriptions/listen", "params": params}));
    let heard = talk.receive();
    assert_eq!(heard["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(heard["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
    talk.modern("tools/call", json!({"name": "test_trigger_prompt_change"}));
    let call = json!({"name": "test_trigger_tool_change", "_meta": meta(json!({}))});
    talk.say(json!({"id": 8, "method": "tools/call", "params": call}));
    assert_eq!(talk.receive()["method"], "notifications/tools/list_changed");
    assert_eq!(talk.receive()["id"], 8);
    talk.say(json!({"method": "notifications/cancelled", "params": {"requestId": 7}}));
    talk.modern("tools/call", json!({"name": "test_trigger_tool_change"}));
}

#[test]
fn lists_are_paged_on_request() {
    let talk = TestSession::with("--era modern --page 2");
    let first = talk.modern("prompts/list", json!({}));
    assert_eq!(first["result"]["prompts"].as_array().unwrap().len(), 2);
    let mut cursor = first["result"]["nextCursor"].clone();
    let mut pages = 1;
    while !cursor.is_null() {
        cursor = talk.modern("prompts/list", json!({"cursor": cursor}))["result"]["nextCursor"].clone();
        pages += 1;
    }
    assert_eq!(pages, 3);
    assert_eq!(talk.modern("prompts/list", json!({"cursor": "from-99"}))["error"]["code"], -32602);
}
