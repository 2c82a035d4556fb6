//! The official Rust SDK as host of the real shim, in each of its lifecycles, with a child of either era: it
//! lists, calls, and answers what the child asks.
#![allow(clippy::disallowed_methods, reason = "a host starts its shim")]
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use proto_tests::{Home, PATIENCE, bins};
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationCapability, Implementation, ProtocolVersion,
};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RequestContext};
use rmcp::transport::TokioChildProcess;
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde_json::json;
use tokio::process::Command;
use tokio::time::timeout;

/// The person in front of the host: has a name and a colour.
struct Person;

impl ClientHandler for Person {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::default());
        ClientConfig::new(capabilities, Implementation::new("rust-sdk-host", "1.0.0"))
    }

    async fn create_elicitation(
        &self,
        question: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { requested_schema, .. } = question else {
            panic!("the child asks with a form, not {question:?}");
        };
        let answer = match requested_schema.properties.keys().next().map(String::as_str) {
            Some("name") => json!({"name": "Ada"}),
            Some("color") => json!({"color": "blue"}),
            other => panic!("asked for {other:?}"),
        };
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(answer))
    }
}

async fn check(lifecycle: impl Fn() -> ClientLifecycleMode) {
    for era in ["legacy", "modern", "both"] {
        let home = Home::new();
        let entry = home.entry(&bins().era_child, &["--era", era], &[]);
        home.definition("era", &json!({"mcpServers": {"era": entry}}).to_string());
        let _daemon = home.daemon();
        let talk = async {
            let mut shim = Command::new(&bins().switchboard);
            shim.arg("--socket").arg(home.socket()).arg("--no-start");
            shim.env_clear().envs(home.environment()).current_dir(home.workspace());
            let transport = TokioChildProcess::new(shim).expect("a shim that starts");
            let sdk = Person.serve_with_lifecycle(transport, lifecycle()).await.expect(era);
            let tools = sdk.list_all_tools().await.expect(era);
            assert!(tools.iter().any(|tool| tool.name == "era_suite"), "{era}");
            let call =
                json!({"action": "call", "subtool": "test_input_required_result_multi_round", "args": {}});
            let asks =
                CallToolRequestParams::new("era_suite").with_arguments(call.as_object().unwrap().clone());
            let result = sdk.call_tool(asks).await.expect(era);
            let said = serde_json::to_string(&result).unwrap();
            assert!(said.contains("Ada") && said.contains("blue"), "{era}: {said}");
            sdk.cancel().await.expect(era);
        };
        timeout(PATIENCE, talk).await.expect("an end in time");
    }
}

#[tokio::test]
async fn the_sdk_initializes() {
    check(|| ClientLifecycleMode::Initialize).await;
}

#[tokio::test]
async fn the_sdk_discovers() {
    check(|| ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }).await;
}

#[tokio::test]
async fn the_sdk_finds_out_by_itself() {
    let preferred = || vec![ProtocolVersion::V_2026_07_28];
    check(|| ClientLifecycleMode::Auto { preferred_versions: preferred(), legacy_version: None }).await;
}
