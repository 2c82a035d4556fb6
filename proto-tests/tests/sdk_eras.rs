//! The official Rust SDK as host, in each of its lifecycles, with children of all eras, through the shim and
//! over Streamable HTTP: it lists, calls, gets progress, answers questions, subscribes to a resource and
//! cancels.
#![allow(clippy::disallowed_methods, reason = "a host starts its shim")]
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(deprecated, reason = "sampling, logging and subscribing are the legacy era's, and in use")]

use std::time::Duration;

use proto_tests::{Home, TEST_TIMEOUT, bins};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest,
    CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, GetPromptRequestParams, Implementation, LoggingLevel,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams,
    ResourceUpdatedNotificationParam, SamplingCapability, SamplingMessage, ServerNotification,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, PeerRequestOptions, RequestContext,
    RunningService,
};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

const WATCHED: &str = "test://watched-resource";

/// Notifications that the host gets.
#[derive(Debug, PartialEq)]
enum HostEvent {
    Progress(u32),
    Updated(String),
    Log(Value),
}

/// The user of the host: answers with a name or a colour, and declines or cancels when the message says so.
struct Person {
    heard: mpsc::Sender<HostEvent>,
}

impl ClientHandler for Person {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::default());
        capabilities.sampling = Some(SamplingCapability::default());
        ClientConfig::new(capabilities, Implementation::new("rust-sdk-host", "1.0.0"))
    }

    async fn create_elicitation(
        &self,
        question: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = question else {
            panic!("the child asks with a form, not {question:?}");
        };
        match message.as_str() {
            "decline" => return Ok(ElicitResult::new(ElicitationAction::Decline)),
            "cancel" => return Ok(ElicitResult::new(ElicitationAction::Cancel)),
            _ => {}
        }
        let answer = match requested_schema.properties.keys().next().map(String::as_str) {
            Some("name") => json!({"name": "Ada"}),
            Some("color") => json!({"color": "blue"}),
            other => panic!("asked for {other:?}"),
        };
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(answer))
    }

    async fn create_message(
        &self,
        question: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let asked = serde_json::to_string(&question.messages).unwrap();
        assert!(asked.contains("why?"), "{asked}");
        Ok(CreateMessageResult::new(SamplingMessage::assistant_text("forty-two"), "a-model".to_owned()))
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.heard.send(HostEvent::Progress(progress.progress as u32)).await.unwrap();
    }

    async fn on_resource_updated(
        &self,
        update: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.heard.send(HostEvent::Updated(update.uri)).await.unwrap();
    }

    async fn on_logging_message(
        &self,
        log: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.heard.send(HostEvent::Log(log.data)).await.unwrap();
    }
}

#[derive(Debug, Clone, Copy)]
enum HostTransport {
    /// `switchboard --child era`.
    Shim,
    /// `/mcp/era`.
    Http,
}

struct Host {
    sdk: RunningService<RoleClient, Person>,
    heard: mpsc::Receiver<HostEvent>,
    is_modern: bool,
}

impl Host {
    async fn start(home: &Home, transport: HostTransport, lifecycle: ClientLifecycleMode) -> Self {
        let is_modern = !matches!(lifecycle, ClientLifecycleMode::Initialize);
        let (sender, heard) = mpsc::channel(64);
        let person = Person { heard: sender };
        let sdk = match transport {
            HostTransport::Shim => {
                person.serve_with_lifecycle(shim(home, &["--child", "era"]), lifecycle).await.unwrap()
            }
            HostTransport::Http => {
                let socket = home.socket();
                let transport = StreamableHttpClientTransport::from_unix_socket(
                    socket.to_str().unwrap(),
                    "http://localhost/mcp/era",
                );
                person.serve_with_lifecycle(transport, lifecycle).await.unwrap()
            }
        };
        Self { sdk, heard, is_modern }
    }

    /// Calls a tool, and returns the whole result as JSON text.
    async fn call(&self, tool: &'static str, args: &Value) -> String {
        let result = self.sdk.call_tool(request(tool, args)).await.unwrap();
        serde_json::to_string(&result).unwrap()
    }

    async fn next(&mut self) -> HostEvent {
        timeout(TEST_TIMEOUT, self.heard.recv()).await.expect("something to hear").unwrap()
    }

    async fn lists(&self) {
        let tools = self.sdk.list_all_tools().await.unwrap();
        assert_eq!(tools.len(), 42);
        assert!(tools.iter().any(|tool| tool.name == "test_structured_list" && tool.output_schema.is_some()));
        let prompts = self.sdk.list_all_prompts().await.unwrap();
        assert_eq!(prompts.len(), 5);
        assert_eq!(prompts[1].arguments.as_ref().map(Vec::len), Some(2));
        assert_eq!(self.sdk.list_all_resources().await.unwrap().len(), 3);
        assert_eq!(self.sdk.list_all_resource_templates().await.unwrap().len(), 1);
    }

    async fn calls(&self) {
        let said = self.call("test_multiple_content_types", &json!({})).await;
        assert!(said.contains("image/png") && said.contains("test://mixed-content-resource"), "{said}");
        assert!(self.call("test_error_handling", &json!({})).await.contains(r#""isError":true"#));
        let args = json!({"arg1": "one", "arg2": "two"});
        let prompt = GetPromptRequestParams::new("test_prompt_with_arguments")
            .with_arguments(args.as_object().unwrap().clone());
        let said = serde_json::to_string(&self.sdk.get_prompt(prompt).await.unwrap()).unwrap();
        assert!(said.contains("arg1='one', arg2='two'"), "{said}");
        let read = ReadResourceRequestParams::new("test://template/12/data");
        let said = serde_json::to_string(&self.sdk.read_resource(read).await.unwrap()).unwrap();
        assert!(said.contains("Data for ID: 12"), "{said}");
        let prompt = "test_prompt_with_arguments";
        let completed = self.sdk.complete_prompt_argument(prompt, "arg1", "par", None).await.unwrap();
        assert_eq!(completed.values, ["paris", "park", "party"]);
    }

    async fn hears_progress(&mut self) {
        assert!(self.call("test_tool_with_progress", &json!({})).await.contains("Reported progress"));
        for step in [0, 50, 100] {
            assert_eq!(self.next().await, HostEvent::Progress(step));
        }
    }

    async fn answers(&self) {
        let said = self.call("test_input_required_result_multi_round", &json!({})).await;
        assert!(said.contains("Ada") && said.contains("blue"), "{said}");
        for refusal in ["decline", "cancel"] {
            let said = self.call("test_elicitation", &json!({"message": refusal})).await;
            assert!(said.contains(&format!(r#"action=\"{refusal}\", content=null"#)), "{said}");
        }
        let said = self.call("test_sampling", &json!({"prompt": "why?"})).await;
        assert!(said.contains("LLM response: forty-two"), "{said}");
    }

    async fn follows(&mut self) {
        if self.is_modern {
            let filter = SubscriptionFilter::builder().resource_subscriptions([WATCHED]).build();
            let mut listening = self.sdk.listen(filter.clone()).await.unwrap();
            assert_eq!(listening.acknowledged(), &filter);
            self.call("test_update_watched_resource", &json!({})).await;
            let told = timeout(TEST_TIMEOUT, listening.next()).await.expect("an update").unwrap().unwrap();
            let ServerNotification::ResourceUpdatedNotification(update) = told else { panic!("{told:?}") };
            assert_eq!(update.params.uri, WATCHED);
            return listening.cancel().await.unwrap();
        }
        self.sdk.subscribe(SubscribeRequestParams::new(WATCHED)).await.unwrap();
        self.call("test_update_watched_resource", &json!({})).await;
        assert_eq!(self.next().await, HostEvent::Updated(WATCHED.to_owned()));
        self.sdk.unsubscribe(UnsubscribeRequestParams::new(WATCHED)).await.unwrap();
        // The next notification is another one.
        self.call("test_update_watched_resource", &json!({})).await;
        self.sdk.set_level(SetLevelRequestParams::new(LoggingLevel::Warning)).await.unwrap();
        self.call("test_logging_tool", &json!({})).await;
        assert_eq!(self.next().await, HostEvent::Log(json!("as a warning")));
    }

    async fn cancels(&self, home: &Home) {
        let wait = request("test_wait", &json!({"seconds": 600}));
        let call = ClientRequest::CallToolRequest(CallToolRequest::new(wait));
        let options = PeerRequestOptions::no_options();
        let handle = self.sdk.send_cancellable_request(call, options).await.unwrap();
        let call = told(home, |line| line["params"]["name"] == "test_wait").await;
        handle.cancel(Some("enough".into())).await.unwrap();
        told(home, |line| {
            line["method"] == "notifications/cancelled" && line["params"]["requestId"] == call["id"]
        })
        .await;
    }
}

fn shim(home: &Home, args: &[&str]) -> TokioChildProcess {
    let mut shim = Command::new(&bins().switchboard);
    shim.arg("--socket").arg(home.socket()).arg("--no-start").args(args);
    shim.env_clear().envs(home.environment()).current_dir(home.workspace());
    TokioChildProcess::new(shim).expect("a shim that starts")
}

fn request(tool: &'static str, args: &Value) -> CallToolRequestParams {
    CallToolRequestParams::new(tool).with_arguments(args.as_object().unwrap().clone())
}

/// Waits until the child has received a matching line, and returns that line.
async fn told(home: &Home, such: impl Fn(&Value) -> bool) -> Value {
    let look = async {
        loop {
            let text = std::fs::read_to_string(home.path().join("journal")).unwrap_or_default();
            let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
            if let Some(found) = lines.into_iter().find(&such) {
                return found;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(TEST_TIMEOUT, look).await.expect("it reaches the child")
}

/// A home with the era child, whose lists are paginated.
fn home(era: &str) -> Home {
    let home = Home::new();
    let journal = home.path().join("journal");
    let env = [("ERA_JOURNAL", journal.to_str().unwrap())];
    let entry = home.entry(&bins().era_child, &["--era", era, "--page", "4"], &env);
    home.definition("era", &json!({"mcpServers": {"era": entry}}).to_string());
    home
}

async fn check(lifecycle: impl Fn() -> ClientLifecycleMode) {
    for era in ["legacy", "modern", "both"] {
        for transport in [HostTransport::Shim, HostTransport::Http] {
            let home = home(era);
            let _daemon = home.daemon();
            let talk = async {
                let mut host = Host::start(&home, transport, lifecycle()).await;
                host.lists().await;
                host.calls().await;
                host.hears_progress().await;
                host.answers().await;
                host.follows().await;
                host.cancels(&home).await;
                host.sdk.cancel().await.unwrap();
            };
            timeout(TEST_TIMEOUT, talk)
                .await
                .unwrap_or_else(|_| panic!("no end in time: {era}, {transport:?}"));
        }
    }
}

/// The same child behind its suite.
async fn check_suite(lifecycle: impl Fn() -> ClientLifecycleMode) {
    for era in ["legacy", "modern", "both"] {
        let home = home(era);
        let _daemon = home.daemon();
        let talk = async {
            let (heard, _ears) = mpsc::channel(64);
            let host = Person { heard }.serve_with_lifecycle(shim(&home, &[]), lifecycle()).await.unwrap();
            let tools = host.list_all_tools().await.unwrap();
            assert!(tools.iter().any(|tool| tool.name == "era_suite"), "{era}");
            let call =
                json!({"action": "call", "subtool": "test_input_required_result_multi_round", "args": {}});
            let result = host.call_tool(request("era_suite", &call)).await.unwrap();
            let said = serde_json::to_string(&result).unwrap();
            assert!(said.contains("Ada") && said.contains("blue"), "{era}: {said}");
            host.cancel().await.unwrap();
        };
        timeout(TEST_TIMEOUT, talk).await.unwrap_or_else(|_| panic!("no end in time: {era}"));
    }
}

fn discover() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

fn auto() -> ClientLifecycleMode {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    ClientLifecycleMode::Auto { preferred_versions, legacy_version: None }
}

#[tokio::test]
async fn the_sdk_initializes() {
    check(|| ClientLifecycleMode::Initialize).await;
}

#[tokio::test]
async fn the_sdk_discovers() {
    check(discover).await;
}

#[tokio::test]
async fn the_sdk_detects_the_era() {
    check(auto).await;
}

#[tokio::test]
async fn the_sdk_calls_through_a_suite_in_each_lifecycle() {
    check_suite(|| ClientLifecycleMode::Initialize).await;
    check_suite(discover).await;
    check_suite(auto).await;
}
