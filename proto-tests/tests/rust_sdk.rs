//! The official Rust SDK as host: `rmcp` starts the real shim, as an editor does.
#![allow(clippy::disallowed_methods, reason = "a host starts its shim")]

use std::time::Duration;

use proto_tests::{Home, TEST_TIMEOUT, bins};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ClientRequest,
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, Implementation,
    ProgressNotificationParam, ProtocolVersion,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext, RunningService};
use rmcp::transport::TokioChildProcess;
use rmcp::{ClientHandler, ErrorData, RoleClient, serve_client};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// The user of the host, who sees progress and answers with an age.
struct Person {
    progress: mpsc::Sender<ProgressNotificationParam>,
}

impl ClientHandler for Person {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::default());
        ClientConfig::new(capabilities, Implementation::new("rust-sdk-host", "1.0.0"))
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.send(progress).await.expect("a test that listens");
    }

    async fn create_elicitation(
        &self,
        question: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = question else {
            panic!("the child asks with a form, not {question:?}");
        };
        assert_eq!(message, "how old?");
        assert!(requested_schema.properties.contains_key("age"), "{requested_schema:?}");
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"age": 36})))
    }
}

struct Host {
    sdk: RunningService<RoleClient, Person>,
    progress: mpsc::Receiver<ProgressNotificationParam>,
}

impl Host {
    /// Starts a shim and does the SDK's own handshake with it.
    async fn start(home: &Home) -> Self {
        let mut shim = Command::new(&bins().switchboard);
        shim.arg("--socket").arg(home.socket()).arg("--no-start");
        shim.env_clear().envs(home.environment()).current_dir(home.workspace());
        let transport = TokioChildProcess::new(shim).expect("a shim that starts");
        let (sender, progress) = mpsc::channel(64);
        let sdk = timeout(TEST_TIMEOUT, serve_client(Person { progress: sender }, transport));
        Self { sdk: sdk.await.expect("an answer in time").expect("a handshake"), progress }
    }

    async fn call(&self, suite: &'static str, subtool: &str, args: &Value) -> CallToolResult {
        let call = self.sdk.call_tool(request(suite, subtool, args));
        timeout(TEST_TIMEOUT, call).await.expect("an answer in time").expect("a result")
    }

    /// Every message that the evil child got so far.
    async fn received(&self) -> Vec<Value> {
        let result = self.call("evil_suite", "received", &json!({})).await;
        let lines = result.structured_content.expect("lines")["lines"].take();
        let lines: Vec<String> = serde_json::from_value(lines).expect("strings");
        lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Polls the evil child until it has received a matching message, and returns that message.
    async fn until_received(&self, such: impl Fn(&Value) -> bool) -> Value {
        let look = async {
            loop {
                if let Some(found) = self.received().await.into_iter().find(&such) {
                    return found;
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(TEST_TIMEOUT, look).await.expect("the message reaches the child")
    }

    /// Ends the conversation as the SDK does: closes the shim's input, and the shim exits.
    async fn leave(self) {
        self.sdk.cancel().await.expect("an end without a panic");
    }
}

fn request(suite: &'static str, subtool: &str, args: &Value) -> CallToolRequestParams {
    let arguments = json!({"action": "call", "subtool": subtool, "args": args});
    CallToolRequestParams::new(suite).with_arguments(arguments.as_object().expect("an object").clone())
}

fn text(result: &CallToolResult) -> Value {
    let text = &result.content[0].as_text().expect("text").text;
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A home with the mock child and a well-behaved evil child.
fn home() -> Home {
    let home = Home::new();
    let mock = home.entry(&bins().mock_child, &[], &[]);
    home.definition("mock", &json!({"mcpServers": {"mock": mock}}).to_string());
    home.child("evil", &["echo"]);
    home
}

#[tokio::test]
async fn the_sdk_connects_and_lists_one_suite_per_child() {
    let home = home();
    let _daemon = home.daemon();
    let host = Host::start(&home).await;
    let peer = host.sdk.peer_info().expect("what the other side is");
    assert_eq!(peer.protocol_version, ProtocolVersion::V_2025_11_25);
    assert!(peer.capabilities.tools.is_some());
    let tools = host.sdk.list_all_tools().await.expect("a list");
    let mut names: Vec<_> = tools.iter().map(|tool| &*tool.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["evil_suite", "mock_suite"]);
    host.leave().await;
}

#[tokio::test]
async fn the_sdk_introspects_and_calls_through_a_suite() {
    let home = home();
    let _daemon = home.daemon();
    let host = Host::start(&home).await;
    let introspect = CallToolRequestParams::new("mock_suite")
        .with_arguments(json!({"action": "introspect"}).as_object().expect("an object").clone());
    let shown = text(&host.sdk.call_tool(introspect).await.expect("a result"));
    assert_eq!(shown["tools"][0]["name"], "click");
    assert_eq!(shown["tools"][0]["summary"], "Pretend to click the element that a CSS selector finds.");
    assert_eq!(shown["tools"][1]["inputSchema"]["required"], json!(["text"]));

    let args = json!({"text": "naïve 🧑‍🚀", "more": [1, 2]});
    let result = host.call("mock_suite", "echo", &args).await;
    let expected = json!({"ok": true, "name": "echo", "args": args});
    assert_eq!(text(&result), expected);
    assert_eq!(result.structured_content, Some(expected));

    let wrong = host.call("mock_suite", "ecko", &json!({})).await;
    assert_eq!(wrong.is_error, Some(true));
    host.leave().await;
}

#[tokio::test]
async fn the_sdk_gets_the_progress_of_its_call() {
    let home = home();
    let _daemon = home.daemon();
    let mut host = Host::start(&home).await;
    host.call("evil_suite", "progress", &json!({"steps": 5})).await;
    for step in 1..=5 {
        let heard =
            timeout(TEST_TIMEOUT, host.progress.recv()).await.expect("all of them").expect("a sender");
        assert_eq!((heard.progress, heard.total), (f64::from(step), Some(5.0)));
    }
    host.leave().await;
}

#[tokio::test]
async fn the_sdks_cancel_reaches_the_child() {
    let home = home();
    let _daemon = home.daemon();
    let host = Host::start(&home).await;
    let call =
        ClientRequest::CallToolRequest(CallToolRequest::new(request("evil_suite", "hang", &json!({}))));
    let handle =
        host.sdk.send_cancellable_request(call, PeerRequestOptions::no_options()).await.expect("it is sent");
    let hang = host.until_received(|message| message["params"]["name"] == "hang").await;
    handle.cancel(Some("enough".into())).await.expect("it is sent");
    let cancelled = host.until_received(|message| message["method"] == "notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], hang["id"]);
    host.leave().await;
}

#[tokio::test]
async fn the_sdk_answers_a_question_of_the_child() {
    let home = home();
    let _daemon = home.daemon();
    let host = Host::start(&home).await;
    let answer = text(&host.call("evil_suite", "ask", &json!({"kind": "elicitation"})).await);
    assert_eq!(answer["result"], json!({"action": "accept", "content": {"age": 36}}));
    host.leave().await;
}
