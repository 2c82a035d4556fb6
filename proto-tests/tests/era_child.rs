//! The era child with the official Rust SDK as its host, in each of the SDK's lifecycles.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use proto_tests::TEST_TIMEOUT;
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

/// The user of the host, who answers with a name and a colour.
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

fn discover() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

fn auto() -> ClientLifecycleMode {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    ClientLifecycleMode::Auto { preferred_versions, legacy_version: None }
}

async fn check(args: &[&str], lifecycle: ClientLifecycleMode) {
    let what = format!("{args:?} {lifecycle:?}");
    let talk = async {
        let mut child = Command::new(env!("CARGO_BIN_EXE_era-child"));
        child.args(args);
        let transport = TokioChildProcess::new(child).expect("a child that starts");
        let sdk = Person.serve_with_lifecycle(transport, lifecycle).await.expect(&what);
        let tools = sdk.list_all_tools().await.expect(&what);
        assert!(tools.iter().any(|tool| tool.name == "test_simple_text"), "{what}");
        let asks = CallToolRequestParams::new("test_input_required_result_multi_round");
        let result = sdk.call_tool(asks).await.expect(&what);
        let said = serde_json::to_string(&result).unwrap();
        assert!(said.contains("Ada") && said.contains("blue"), "{what}: {said}");
        sdk.cancel().await.expect(&what);
    };
    timeout(TEST_TIMEOUT, talk).await.expect("an end in time");
}

#[tokio::test]
async fn the_sdk_initializes() {
    for era in ["legacy", "both"] {
        check(&["--era", era], ClientLifecycleMode::Initialize).await;
    }
    for revision in ["2025-06-18", "2025-11-25"] {
        check(&["--era", "legacy", "--revision", revision], ClientLifecycleMode::Initialize).await;
    }
}

#[tokio::test]
async fn the_sdk_discovers() {
    for era in ["modern", "both"] {
        check(&["--era", era], discover()).await;
        check(&["--era", era, "--page", "7"], discover()).await;
    }
}

#[tokio::test]
async fn the_sdk_detects_the_era() {
    for era in ["legacy", "modern", "both"] {
        check(&["--era", era], auto()).await;
    }
}
