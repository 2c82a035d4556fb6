//! The shim's own answers to a host while no daemon can be reached. They keep the connection open, which some
//! hosts give up for good when `initialize` fails. The host hears of the real lists once a daemon is up.

use switchboard_wire::rpc;

use crate::methods::{self, HostMethod, OutgoingKind, OutgoingMessage};

/// The answer to a legacy host's message, if it needs no daemon. `why`: the reason why there is no daemon.
pub(crate) fn answer(message: &OutgoingMessage, greeted: bool, why: &str) -> Option<Vec<u8>> {
    let OutgoingKind::Request { id, method } = &message.kind else { return None };
    let result = match method {
        HostMethod::Initialize => initialize(&message.body, why),
        HostMethod::Safe if greeted && !methods::is_modern(&message.body) => {
            methods::empty_list(&message.body)?.to_owned()
        }
        _ => return None,
    };
    Some(rpc::result(id, &result))
}

fn initialize(body: &[u8], why: &str) -> String {
    serde_json::json!({
        "protocolVersion": methods::revision(body),
        "capabilities": {
            "tools": { "listChanged": true },
            "prompts": { "listChanged": true },
            "resources": { "subscribe": true, "listChanged": true },
            "completions": {},
            "logging": {},
        },
        "serverInfo": { "name": "switchboard", "title": "Switchboard", "version": env!("CARGO_PKG_VERSION") },
        "instructions": format!("There are no tools yet, because {why}. They appear here when that is fixed."),
    })
    .to_string()
}

/// The notifications which say that every list has changed.
pub(crate) fn list_changed_notifications() -> impl Iterator<Item = Vec<u8>> {
    methods::LIST_CHANGES.iter().map(|method| rpc::notification(method, None))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fault::tests::request;

    fn answer_json(method: &str, params: &str, greeted: bool) -> Option<Value> {
        let answer = answer(&request("1", method, params), greeted, "nobody is there")?;
        Some(serde_json::from_slice(&answer).unwrap())
    }

    #[test]
    fn a_host_is_greeted_in_its_own_revision() {
        for (asked, agreed) in
            [("2025-03-26", "2025-03-26"), ("2025-11-25", "2025-11-25"), ("x", "2025-11-25")]
        {
            let params = json!({ "protocolVersion": asked }).to_string();
            let told = answer_json("initialize", &params, false).unwrap();
            assert_eq!(told["result"]["protocolVersion"], agreed);
            assert_eq!(told["result"]["capabilities"]["tools"]["listChanged"], true);
            assert!(told["result"]["instructions"].as_str().unwrap().contains("nobody is there"));
        }
    }

    #[test]
    fn only_lists_are_answered_and_only_after_a_greeting() {
        assert_eq!(answer_json("tools/list", "{}", true).unwrap()["result"], json!({"tools": []}));
        assert_eq!(answer_json("tools/list", "{}", false), None);
        let modern = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
        assert_eq!(answer_json("tools/list", modern, true), None);
        for method in ["tools/call", "resources/read", "prompts/get", "server/discover", "x"] {
            assert_eq!(answer_json(method, "{}", true), None, "{method}");
        }
        assert_eq!(list_changed_notifications().count(), 3);
    }
}
