//! `conformance-client URL`: the official suite starts it for each of its client scenarios. The environment
//! names the scenario and its context.

use std::process::ExitCode;

use proto_tests::conformance::host::{Scenario, play};

fn main() -> ExitCode {
    let Some(url) = std::env::args().nth(1) else {
        eprintln!("usage: conformance-client URL (the suite starts it: see proto-tests/conformance)");
        return ExitCode::from(2);
    };
    let told = |name: &str| std::env::var(name).unwrap_or_default();
    play(&Scenario {
        name: told("MCP_CONFORMANCE_SCENARIO"),
        url,
        is_modern: told("MCP_CONFORMANCE_PROTOCOL_VERSION").as_str() >= "2026-07-28",
        context: serde_json::from_str(&told("MCP_CONFORMANCE_CONTEXT")).unwrap_or_default(),
    });
    ExitCode::SUCCESS
}
