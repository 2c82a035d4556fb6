//! A host that supports elicitation asks its user about held servers; apart from `switchboard allow`, nothing
//! else can allow one.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::path::Path;
use std::time::{Duration, Instant};

use proto_tests::shim::{call_params, structured, text_of};
use proto_tests::streamable::with_meta;
use proto_tests::wait::until_true;
use proto_tests::{Home, Request, Shim, TEST_TIMEOUT, bins};
use serde_json::{Value, json};

const ASKED: &str = "elicitation/create";
const CHANGED: &str = "notifications/tools/list_changed";
const CHOICES: [&str; 3] = ["allow this version", "not now", "never"];

fn reply(shim: &mut Shim, question: &Value, result: &Value) {
    let id = &question["id"];
    shim.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
}

fn choose(shim: &mut Shim, question: &Value, choice: &str) {
    reply(shim, question, &json!({"action": "accept", "content": {"decision": choice}}));
}

#[track_caller]
fn is_held(answer: &str) {
    assert!(answer.contains("\"isError\":true") && text_of(answer).contains("is held"), "{answer}");
}

/// Nobody was asked before the answer to a ping: earlier questions would have arrived first.
#[track_caller]
fn nobody_was_asked(shim: &mut Shim) {
    shim.request("ping", "{}");
    let asked: Vec<_> = shim.take_notifications().into_iter().filter(|line| line.contains(ASKED)).collect();
    assert!(asked.is_empty(), "{asked:?}");
}

#[test]
fn the_first_call_asks_and_continues_once_allowed() {
    let home = Home::new();
    let project = home.project("work");
    let mut entry = home.entry(
        &bins().evil_child,
        &["echo", "two words"],
        &[("LD_LIBRARY_PATH", "/own/lib"), ("A_TOKEN", "hidden"), ("A_TOKEN_COMMAND", "evil|sh")],
    );
    entry["description"] = "words of its own".into();
    project.define("k", &entry);
    let _daemon = home.daemon();
    let mut shim = project.shim();
    let id = shim.start_call("k", "where", "{}");
    let question = shim.notification(ASKED);
    let message = question["params"]["message"].as_str().unwrap();
    for part in [
        format!("runs      {} echo 'two words'", bins().evil_child.display()),
        "sets      LD_LIBRARY_PATH=/own/lib\n".to_owned(),
        "sets      A_TOKEN=••• (6 characters)\n".to_owned(),
        "sets      A_TOKEN_COMMAND='evil|sh'\n".to_owned(),
        "warning   sets `LD_LIBRARY_PATH`".to_owned(),
        project.path().join("mcps/k/.mcp.json").display().to_string(),
    ] {
        assert!(message.contains(&part), "{part}: {message}");
    }
    assert!(!message.contains("hidden") && !message.contains("words of its own"), "{message}");
    let schema = &question["params"]["requestedSchema"];
    assert_eq!(schema["properties"]["decision"]["enum"], json!(CHOICES));
    assert_eq!(schema["required"], json!(["decision"]));
    assert!(home.children().is_empty());
    choose(&mut shim, &question, CHOICES[0]);
    assert_eq!(structured(&shim.answer_to(&id.to_string()))["args"][2], "two words");
    shim.notification(CHANGED);
    shim.call("k", "where", "{}");
    nobody_was_asked(&mut shim);
    let log = std::fs::read_to_string(home.state_folder().join("trust/audit.log")).unwrap();
    assert!(log.contains("the user in \"proto-tests\", asked there"), "{log}");
    // The decision is a normal one: it applies in other hosts, and can be revoked.
    assert_eq!(structured(&project.mute_shim().call("k", "where", "{}"))["args"][2], "two words");
    home.run_ok(&["deny", "k"]);
    shim.notification(CHANGED);
    assert!(shim.tools().is_empty());
}

/// A modern host gets the question as a result, and retries the request with the user's decision.
#[test]
fn a_modern_host_retries_with_the_users_decision() {
    let home = Home::new();
    let project = home.project("work");
    project.child("k", &[]);
    let _daemon = home.daemon();
    let mut shim = project.mute_shim();
    let call = |more: &Value| {
        let mut params: Value = serde_json::from_str(&call_params("k", "where", "{}")).unwrap();
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        with_meta(&params).to_string()
    };
    let word = |result: &Value, choice: &str| {
        json!({
            "requestState": result["requestState"],
            "inputResponses": {"consent": {"action": "accept", "content": {"decision": choice}}},
        })
    };
    let ask = |shim: &mut Shim, more: &Value| -> Value {
        let answer: Value = serde_json::from_str(&shim.request("tools/call", &call(more))).unwrap();
        answer["result"].clone()
    };
    let asked = ask(&mut shim, &json!({}));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let question = &asked["inputRequests"]["consent"];
    assert_eq!(question["method"], ASKED);
    assert!(
        question["params"]["message"].as_str().unwrap().contains("waits for your approval"),
        "{question}"
    );
    assert!(home.children().is_empty());
    // A forged request state is rejected.
    let mut forged = word(&asked, CHOICES[0]);
    forged["requestState"] = json!("no state of ours");
    assert!(ask(&mut shim, &forged).is_null());
    let called = ask(&mut shim, &word(&asked, CHOICES[0]));
    assert_eq!(called["resultType"], "complete", "{called}");
    assert!(called["structuredContent"]["args"].is_array(), "{called}");
    let log = std::fs::read_to_string(home.state_folder().join("trust/audit.log")).unwrap();
    assert!(log.contains("the user in \"test-host\", asked there"), "{log}");
}

#[test]
fn an_answer_other_than_yes_leaves_the_server_held() {
    let accept = |content: Value| json!({"action": "accept", "content": content});
    let answers = [
        accept(json!({"decision": CHOICES[1]})),
        accept(json!({"decision": "Allow this version"})),
        accept(json!({"decision": true})),
        accept(json!({"decision": [CHOICES[0]]})),
        accept(json!({})),
        json!({"action": "accept"}),
        json!({"action": "decline", "content": {"decision": CHOICES[0]}}),
        json!({"action": "cancel", "content": {"decision": CHOICES[0]}}),
        json!({"decision": CHOICES[0]}),
        json!(null),
    ];
    let home = Home::new();
    let project = home.project("work");
    for n in 0..=answers.len() {
        project.child(&format!("k{n}"), &[]);
    }
    let daemon = home.daemon();
    let mut shim = project.shim();
    let last = format!("k{}", answers.len());
    for (n, answer) in answers.iter().enumerate() {
        let child = format!("k{n}");
        let id = shim.start_call(&child, "where", "{}");
        let question = shim.notification(ASKED);
        reply(&mut shim, &question, answer);
        is_held(&shim.answer_to(&id.to_string()));
        // Only the first answer counts.
        choose(&mut shim, &question, CHOICES[0]);
        is_held(&shim.call(&child, "where", "{}"));
        nobody_was_asked(&mut shim);
    }
    let id = shim.start_call(&last, "where", "{}");
    let question = shim.notification(ASKED);
    shim.send(&format!(
        r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-1,"message":"no"}}}}"#,
        question["id"]
    ));
    is_held(&shim.answer_to(&id.to_string()));
    // A new version is asked about again, and so is each new session.
    project.child("k0", &["v2"]);
    until_true("the new version", TEST_TIMEOUT, || {
        daemon.suite_from(project.path(), "k0")["waiting"].as_str().unwrap().ends_with("v2")
    });
    for shim in [&mut shim, &mut project.shim()] {
        let id = shim.start_call("k0", "where", "{}");
        let question = shim.notification(ASKED);
        reply(shim, &question, &json!({"action": "decline"}));
        is_held(&shim.answer_to(&id.to_string()));
    }
    assert!(home.children().is_empty());
    assert!(!home.state_folder().join("trust/trust.json").exists());
}

#[test]
fn identical_servers_of_one_file_are_asked_about_separately() {
    let home = Home::new();
    let project = home.project("work");
    let entry = home.entry(&bins().evil_child, &["echo"], &[]);
    project.write("mcps/x/.mcp.json", &json!({"mcpServers": {"a": entry, "b": entry}}).to_string());
    let _daemon = home.daemon();
    let mut shim = project.shim();
    for name in ["a", "b"] {
        let id = shim.start_call(name, "echo", "{}");
        let question = shim.notification(ASKED);
        assert!(question["params"]["message"].as_str().unwrap().contains(&format!("\n{name}  (")));
        choose(&mut shim, &question, CHOICES[0]);
        structured(&shim.answer_to(&id.to_string()));
    }
}

#[test]
fn the_user_can_deny_a_server_for_good() {
    let home = Home::new();
    let project = home.project("work");
    project.child("k", &[]);
    let daemon = home.daemon();
    let mut shim = project.shim();
    let id = shim.start_call("k", "where", "{}");
    let question = shim.notification(ASKED);
    choose(&mut shim, &question, CHOICES[2]);
    is_held(&shim.answer_to(&id.to_string()));
    shim.notification(CHANGED);
    assert!(shim.tools().is_empty());
    assert_eq!(daemon.status()["workspaces"][0]["denied"], json!(["k"]));
    project.child("k", &["v2"]);
    home.run_ok(&["reload"]);
    assert!(shim.tools().is_empty());
}

#[test]
fn a_server_is_asked_about_only_once_its_program_exists() {
    let home = Home::new();
    let project = home.project("work");
    let program = project.path().join("server");
    project.define("k", &home.entry(&program, &["echo", "v1"], &[]));
    let _daemon = home.daemon();
    let mut shim = project.shim();
    is_held(&shim.call("k", "where", "{}"));
    nobody_was_asked(&mut shim);
    std::fs::copy(&bins().evil_child, &program).unwrap();
    let id = shim.start_call("k", "where", "{}");
    let question = shim.notification(ASKED);
    choose(&mut shim, &question, CHOICES[0]);
    assert_eq!(structured(&shim.answer_to(&id.to_string()))["args"][2], "v1");
}

#[test]
fn a_program_found_at_a_new_path_is_asked_about_again() {
    let home = Home::new();
    let project = home.project("work");
    let folders = ["first", "second"].map(|name| home.path().join(name));
    let path = format!("{}:{}:/usr/bin:/bin", folders[1].display(), folders[0].display());
    home.write(".profile", &format!("export PATH={path}\n"));
    let put = |folder: &Path| {
        std::fs::create_dir(folder).unwrap();
        std::fs::copy(&bins().evil_child, folder.join("server")).unwrap();
    };
    put(&folders[0]);
    project.define("k", &home.entry(Path::new("server"), &["echo"], &[]));
    let daemon = home.daemon();
    let mut shim = project.shim();
    let mut runs = |asked_about: &Path| {
        let id = shim.start_call("k", "where", "{}");
        let question = shim.notification(ASKED);
        let message = question["params"]["message"].as_str().unwrap();
        let program = asked_about.join("server").display().to_string();
        assert!(message.contains(&format!("program   {program}")), "{message}");
        choose(&mut shim, &question, CHOICES[0]);
        let answer = structured(&shim.answer_to(&id.to_string()));
        assert_eq!(answer["args"][0], program);
        home.run_ok(&["restart", "k"]);
        until_true("its child to go", TEST_TIMEOUT, || {
            !home.processes().iter().any(|process| process.cmdline.starts_with(&program))
        });
    };
    runs(&folders[0]);
    put(&folders[1]);
    home.run_ok(&["reload"]);
    until_true("it to be held", TEST_TIMEOUT, || daemon.suite_from(project.path(), "k")["state"] == "held");
    runs(&folders[1]);
}

#[test]
fn a_host_that_does_not_support_questions_is_not_asked() {
    let home = Home::new();
    let project = home.project("work");
    project.child("k", &[]);
    let daemon = home.daemon_on_tcp();
    let url_only = r#"{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"url":{}}},"clientInfo":{"name":"t","version":"1"}}"#;
    let mut shims = [project.mute_shim(), home.raw_shim()];
    shims[1].initialize_as(url_only);
    for shim in &mut shims {
        is_held(&shim.call("k", "where", "{}"));
        nobody_was_asked(shim);
    }
    let params = call_params("k", "where", "{}");
    let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}"#;
    let target = format!("/proxy?{}", project.named());
    let (tcp, token) = (daemon.tcp(), daemon.token());
    for body in [hello, &call, &call] {
        let start = Instant::now();
        let answers = [
            daemon.endpoint().post(&target, body),
            tcp.send(&Request::new("POST", &target).bearer(&token).body(body)),
        ];
        for answer in answers {
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert_eq!(body == hello, !answer.text().contains("is held"), "{}", answer.text());
        }
        assert!(start.elapsed() < Duration::from_secs(5));
    }
    // Users can turn the questions off.
    home.config(&json!({"trust": {"elicit": false}}));
    home.run_ok(&["reload"]);
    let mut shim = project.shim();
    is_held(&shim.call("k", "where", "{}"));
    nobody_was_asked(&mut shim);
    assert!(home.children().is_empty());
}

#[test]
fn no_route_and_no_tool_call_can_allow_a_server() {
    let home = Home::new();
    let project = home.project("work");
    project.child("k", &[]);
    let daemon = home.daemon_on_tcp();
    let mut shim = project.shim();
    let id = shim.start_call("k", "where", "{}");
    let question = shim.notification(ASKED);
    let (socket, tcp, token) = (daemon.endpoint(), daemon.tcp(), daemon.token());
    let file = project.path().join("mcps/k/.mcp.json");
    let body = json!({"suite": "k", "workspace": project.path()}).to_string();
    let more = json!({"suite": "k", "name": "k", "file": file, "allow": true, "trust": true}).to_string();
    for route in ["allow", "trust", "consent", "approve", "deny", "trust/allow", "login", "add", "ALLOW"] {
        for body in [&body, &more, ""] {
            for method in ["POST", "PUT", "PATCH", "DELETE"] {
                let targets =
                    [format!("/control/{route}"), format!("/suites/k/{route}"), format!("/{route}")];
                for target in targets {
                    let request = Request::new(method, &target).body(body);
                    let status = socket.send(&request).status;
                    assert!((400..500).contains(&status), "{method} {target}: {status}");
                    let status = tcp.send(&request.bearer(&token)).status;
                    assert!((400..500).contains(&status), "{method} {target}: {status} over TCP");
                }
            }
        }
    }
    // The open question belongs to its session: no other session can answer it.
    let yes = format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"action":"accept","content":{{"decision":"{}"}}}}}}"#,
        question["id"], CHOICES[0]
    );
    let mut other = project.shim();
    other.send(&yes);
    other.request("ping", "{}");
    for target in ["/proxy".to_owned(), format!("/proxy?{}", project.named()), "/proxy/k".to_owned()] {
        socket.post(&target, &yes);
        tcp.send(&Request::new("POST", &target).bearer(&token).body(&yes));
    }
    for action in ["allow", "trust", "approve"] {
        let params = format!(
            r#"{{"name":"k_suite","arguments":{{"action":"{action}","decision":"{}"}}}}"#,
            CHOICES[0]
        );
        let answer = shim.request("tools/call", &params);
        assert!(answer.contains("\"isError\":true"), "{answer}");
    }
    assert_eq!(daemon.suite_from(project.path(), "k")["state"], "held");
    assert!(!home.state_folder().join("trust/trust.json").exists());
    reply(&mut shim, &question, &json!({"action": "cancel"}));
    is_held(&shim.answer_to(&id.to_string()));
}

#[test]
fn the_old_version_serves_while_the_user_is_asked_about_an_update() {
    let home = Home::new();
    let project = home.project("work");
    project.child("k", &["v1"]);
    let daemon = home.daemon();
    project.allow();
    let mut shim = project.shim();
    assert_eq!(structured(&shim.call("k", "where", "{}"))["args"][2], "v1");
    nobody_was_asked(&mut shim);
    project.child("k", &["v2"]);
    until_true("the update", TEST_TIMEOUT, || daemon.suite_from(project.path(), "k")["waiting"].is_string());
    for _ in 0..3 {
        assert_eq!(structured(&shim.call("k", "where", "{}"))["args"][2], "v1");
    }
    let question = shim.notification(ASKED);
    let message = question["params"]["message"].as_str().unwrap();
    assert!(message.contains("changed   argument 2: v1 → v2") && message.contains("echo v2"), "{message}");
    assert_eq!(structured(&shim.call("k", "where", "{}"))["args"][2], "v1");
    nobody_was_asked(&mut shim);
    choose(&mut shim, &question, CHOICES[0]);
    until_true("the update to be allowed", TEST_TIMEOUT, || {
        structured(&shim.call("k", "where", "{}"))["args"][2] == "v2"
    });
}

/// The call that asked is over: its host cancelled it.
#[test]
fn a_late_answer_still_counts() {
    let home = Home::new();
    let project = home.project("work");
    project.child("k", &["v1"]);
    let _daemon = home.daemon();
    let mut shim = project.shim();
    let id = shim.start_call("k", "where", "{}");
    let question = shim.notification(ASKED);
    shim.send(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
    ));
    is_held(&shim.call("k", "where", "{}"));
    // The file has changed since: the version that was shown is allowed.
    project.child("k", &["v2"]);
    home.run_ok(&["reload"]);
    choose(&mut shim, &question, CHOICES[0]);
    shim.notification(CHANGED);
    assert_eq!(structured(&shim.call("k", "where", "{}"))["args"][2], "v1");
}
