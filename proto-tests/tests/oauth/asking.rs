//! Hosts that can open a login page for their user: the call continues after the login.

use proto_tests::Shim;
use proto_tests::authority::{Rules, browse};
use proto_tests::shim::call_params;
use serde_json::{Value, json};

use crate::person::{CHILD, OauthSetup};

const LEGACY: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"url":{}}},"clientInfo":{"name":"proto-tests","version":"1"}}"#;

fn legacy(world: &OauthSetup) -> Shim {
    let mut shim = world.home.raw_shim();
    shim.initialize_as(LEGACY);
    shim
}

/// The URL that the host was asked to open.
#[track_caller]
fn page(question: &Value) -> String {
    assert_eq!(question["params"]["mode"], "url", "{question}");
    question["params"]["url"].as_str().unwrap().to_owned()
}

fn reply(shim: &mut Shim, question: &Value, action: &str) {
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": action}});
    shim.send(&answer.to_string());
}

#[test]
fn a_call_continues_after_the_login() {
    let world = OauthSetup::new(Rules::default());
    let _daemon = world.home.daemon();
    let mut shim = legacy(&world);
    let call = shim.start_call(CHILD, "greet", "{}");
    let question = shim.notification("elicitation/create");
    reply(&mut shim, &question, "accept");
    browse(&page(&question));
    let answer = shim.answer_to(&call.to_string());
    assert!(answer.contains("hello"), "{answer}");
    let complete = shim.notification("notifications/elicitation/complete");
    assert_eq!(complete["params"]["elicitationId"], question["params"]["elicitationId"]);
    assert_eq!(world.guarded.seen("tools/call").len(), 1);
}

#[test]
fn two_hosts_log_in_once() {
    let world = OauthSetup::new(Rules::default());
    let _daemon = world.home.daemon();
    let (mut one, mut other) = (legacy(&world), legacy(&world));
    let calls = [one.start_call(CHILD, "greet", "{}"), other.start_call(CHILD, "greet", "{}")];
    let questions = [one.notification("elicitation/create"), other.notification("elicitation/create")];
    assert_eq!(page(&questions[0]), page(&questions[1]));
    browse(&page(&questions[0]));
    assert!(one.answer_to(&calls[0].to_string()).contains("hello"));
    assert!(other.answer_to(&calls[1].to_string()).contains("hello"));
    assert_eq!(world.authority.seen("/token").len(), 1);
}

#[test]
fn a_user_who_declines_is_not_asked_twice() {
    let world = OauthSetup::new(Rules::default());
    let _daemon = world.home.daemon();
    let mut shim = legacy(&world);
    let call = shim.start_call(CHILD, "greet", "{}");
    let question = shim.notification("elicitation/create");
    reply(&mut shim, &question, "decline");
    let answer = shim.answer_to(&call.to_string());
    assert!(answer.contains("the login was declined"), "{answer}");
    assert!(world.guarded.seen("tools/call").is_empty());
}

#[test]
fn more_scopes_are_asked_for_when_they_are_needed() {
    let world = OauthSetup::new(Rules::default());
    world.guarded.change(|wants| (wants.scope, wants.to_call) = (Some("read"), Some("write")));
    let _daemon = world.home.daemon();
    let mut shim = legacy(&world);
    let call = shim.start_call(CHILD, "greet", "{}");
    for _ in 0..2 {
        let question = shim.notification("elicitation/create");
        browse(&page(&question));
    }
    let answer = shim.answer_to(&call.to_string());
    assert!(answer.contains("hello"), "{answer}");
    let scopes: Vec<_> =
        world.authority.seen("/authorize").iter().map(|seen| seen.fields["scope"].clone()).collect();
    assert_eq!(scopes, ["read", "read write"]);
    assert!(shim.call(CHILD, "greet", "{}").contains("hello"));
}

#[test]
fn the_daemon_gives_up_on_a_server_that_always_wants_more_scopes() {
    let world = OauthSetup::new(Rules::default());
    world.guarded.change(|wants| wants.to_call = Some("write"));
    let _daemon = world.home.daemon();
    let mut shim = legacy(&world);
    let call = shim.start_call(CHILD, "greet", "{}");
    browse(&page(&shim.notification("elicitation/create")));
    // Whatever is granted, the server wants another scope.
    for scope in ["b", "c", "d", "e"] {
        let question = shim.notification("elicitation/create");
        world.guarded.change(|wants| wants.to_call = Some(scope));
        browse(&page(&question));
        if scope == "c" {
            break;
        }
    }
    let answer = shim.answer_to(&call.to_string());
    assert!(answer.contains("login"), "{answer}");
    assert!(world.authority.seen("/authorize").len() <= 4);
}

#[test]
fn a_modern_host_retries_after_the_login() {
    let world = OauthSetup::new(Rules::default());
    let _daemon = world.home.daemon();
    let mut shim = world.home.raw_shim();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}},
    });
    let mut params: Value = serde_json::from_str(&call_params(CHILD, "greet", "{}")).unwrap();
    params["_meta"] = meta;
    let asked: Value = serde_json::from_str(&shim.request("tools/call", &params.to_string())).unwrap();
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required", "{asked}");
    let (key, question) = result["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    browse(&page(question));
    params["requestState"] = result["requestState"].clone();
    params["inputResponses"] = json!({key: {"action": "accept"}});
    let answer = shim.request("tools/call", &params.to_string());
    assert!(answer.contains("hello"), "{answer}");
}

#[test]
fn a_single_child_face_requires_the_login_too() {
    let world = OauthSetup::new(Rules::default());
    let daemon = world.home.daemon();
    let answer = daemon
        .endpoint()
        .post(&format!("/proxy/{CHILD}"), r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#);
    // A host without a mailbox cannot be asked.
    assert!(answer.text().contains("switchboard login far"), "{}", answer.text());
}
