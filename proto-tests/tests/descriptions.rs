//! What a model reads about a suite: the server's own words once they are known, and why it cannot be used.
//! Hosts are notified once of each change, and of a server that fails all the time only now and then.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proto_tests::scripted_server::{RecordedRequest, Responder, ScriptedServer, legacy};
use proto_tests::shim::kind_of;
use proto_tests::wait::{until, until_true};
use proto_tests::{Home, Shim, TEST_TIMEOUT, bins};
use serde_json::{Value, json};

const CHANGED: &str = "notifications/tools/list_changed";

/// Longer than it takes the daemon to notify hosts.
const QUIET: Duration = Duration::from_millis(600);

#[track_caller]
fn description(shim: &mut Shim, suite: &str) -> String {
    shim.tools()[suite]["description"].as_str().unwrap().to_owned()
}

/// How many times the host was notified until it was quiet.
#[track_caller]
fn heard(shim: &mut Shim) -> usize {
    std::thread::sleep(QUIET);
    shim.request("ping", "{}");
    shim.take_notifications().iter().filter(|line| line.contains(CHANGED)).count()
}

/// A remote server with words and tools of its own; `more` further tools are added to its list.
fn wordy(asked: &RecordedRequest, back: &mut Responder, more: usize) {
    match asked.what().as_str() {
        "initialize" => {
            let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "far", "version": "1", "description": "# Far\n\n**Sends** mail\u{202e}. And more."},
                "instructions": "Ask before you send."});
            back.json_with(200, &[("Mcp-Session-Id", "s1")], &asked.result(&hello));
        }
        "tools/list" => {
            let names = ["send_mail", "read_mail", "hidden_mail"].map(ToOwned::to_owned);
            let names = names.into_iter().chain((0..more).map(|n| format!("extra{n}_mail_tool")));
            let tools: Vec<Value> =
                names.map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
            back.json(200, &asked.result(&json!({"tools": tools})));
        }
        _ => legacy(asked, back),
    }
}

fn far_home(far: &ScriptedServer) -> Home {
    let home = Home::new();
    home.definition("far", &json!({"mcpServers": {"far": {"type": "http", "url": far.url()}}}).to_string());
    home
}

fn modern(mut params: Value, client: &str) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": client, "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params.to_string()
}

const FAR: &str = "Sends mail. Actions: 'introspect' | 'call'. Tools: send_mail, read_mail";

#[test]
fn a_server_that_ran_describes_itself_and_hosts_hear_it_once() {
    let far = ScriptedServer::start(|asked, back| wordy(asked, back, 0));
    let home = far_home(&far);
    home.config(&json!({"suites": {"far": {"expose": {"deny": ["hidden*"]}}}}));
    {
        let _daemon = home.daemon();
        let (mut shim, mut other, mut listening) = (home.shim(), home.shim(), home.raw_shim());
        assert_eq!(
            description(&mut shim, "far_suite"),
            "Use this tool for far. Actions: 'introspect' | 'call'"
        );
        let filter = json!({"notifications": {"toolsListChanged": true}});
        listening.start_request("subscriptions/listen", &modern(filter, "m"));
        listening.notification("notifications/subscriptions/acknowledged");
        shim.introspect("far");
        for shim in [&mut shim, &mut other] {
            shim.notification(CHANGED);
            assert_eq!(description(shim, "far_suite"), FAR);
            assert_eq!(heard(shim), 0, "once is enough");
        }
        listening.notification(CHANGED);
        std::thread::sleep(QUIET);
        let list = listening.request("tools/list", &modern(json!({}), "m"));
        assert!(list.contains(FAR) && listening.take_notifications().is_empty(), "{list}");
        shim.call("far", "send_mail", "{}");
        home.run_ok(&["restart", "far"]);
        shim.call("far", "send_mail", "{}");
        assert_eq!(heard(&mut shim), 0, "it says what it said before");
    }
    // The next daemon knows it from the manifest.
    let _daemon = home.daemon();
    let mut shim = home.raw_shim();
    let told = shim.initialize()["result"]["instructions"].as_str().unwrap().to_owned();
    assert!(told.contains("`query`") && told.ends_with("\nfar_suite: Ask before you send."), "{told}");
    assert!(told.len() < 320, "{} bytes: {told}", told.len());
    assert_eq!(description(&mut shim, "far_suite"), FAR);
}

#[test]
fn the_config_decides_what_is_described() {
    let far = ScriptedServer::start(|asked, back| wordy(asked, back, 40));
    let home = far_home(&far);
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.introspect("far");
    shim.notification(CHANGED);
    let text = description(&mut shim, "far_suite");
    assert!(text.starts_with("Sends mail. ") && text.chars().count() <= 300, "{text}");
    assert!(text.contains(" … (+"), "{text}");
    for (introspection, expect) in [
        (json!({"describe": "off"}), "Use this tool for far. Actions: 'introspect' | 'call'"),
        (
            json!({"describe": "names", "describeMaxChars": 110}),
            "Use this tool for far. Actions: 'introspect' | 'call'. Tools: send_mail, read_mail, extra0_mail_tool … (+40)",
        ),
    ] {
        home.config(&json!({"introspection": introspection}));
        shim.notification(CHANGED);
        assert_eq!(description(&mut shim, "far_suite"), expect);
    }
    home.config(&json!({"introspection": {"describe": "of"}}));
    until_true("the mistake", TEST_TIMEOUT, || {
        daemon.status()["problems"].to_string().contains("introspection.describe")
    });
}

#[test]
fn hosts_that_search_tools_get_words_to_find_them_by() {
    let far = ScriptedServer::start(|asked, back| wordy(asked, back, 40));
    let home = far_home(&far);
    home.config(&json!({"suites": {"far": {"alwaysLoad": true}}}));
    let _daemon = home.daemon();
    let (mut plain, mut claude) = (home.shim(), home.raw_shim());
    claude.initialize_as(
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"claude-code","version":"2"}}"#,
    );
    plain.introspect("far");
    for shim in [&mut plain, &mut claude] {
        shim.notification(CHANGED);
        assert_eq!(heard(shim), 0);
    }
    assert_eq!(plain.tools()["far_suite"].get("_meta"), None);
    let meta = &claude.tools()["far_suite"]["_meta"];
    assert_eq!(meta["anthropic/alwaysLoad"], true);
    assert!(meta["anthropic/searchHint"].as_str().unwrap().contains("extra39"), "{meta}");
    let mut stateless = home.raw_shim();
    let list = stateless.request("tools/list", &modern(json!({}), "claude-code"));
    assert!(list.contains("anthropic/alwaysLoad"), "{list}");
    assert!(!stateless.request("tools/list", &modern(json!({}), "other")).contains("anthropic/"));
}

#[test]
fn nothing_of_a_held_server_is_described() {
    let home = Home::new();
    let project = home.project("work");
    project.child("k", &["v1"]);
    let _daemon = home.daemon();
    let mut shim = project.mute_shim();
    assert!(description(&mut shim, "k_suite").starts_with("Held by Switchboard"));
    project.allow();
    shim.notification(CHANGED);
    shim.introspect("k");
    until_true("its tools", TEST_TIMEOUT, || description(&mut shim, "k_suite").contains("Tools: echo"));
    // The version that was allowed serves on, and its words are shown.
    project.child("k", &["v2"]);
    until_true("the new version to wait", TEST_TIMEOUT, || {
        let suite = shim.request("tools/list", "{}");
        suite.contains("Tools: echo") && home.command(&["allow", "--list"]).status.success()
    });
    assert!(description(&mut shim, "k_suite").contains("Tools: echo"));
    // Without the user's decision, nothing of it is left, although its manifest is.
    std::fs::remove_file(home.state_folder().join("trust/trust.json")).unwrap();
    until_true("it to be held", TEST_TIMEOUT, || {
        description(&mut shim, "k_suite").starts_with("Held by Switchboard")
    });
    assert!(!description(&mut shim, "k_suite").contains("echo"));
}

/// Checks for a failed call with a sentence.
#[track_caller]
fn is_refused(answer: &str, kind: &str) {
    let value: Value = serde_json::from_str(answer).unwrap();
    assert_eq!(value["result"]["isError"], true, "{answer}");
    assert_eq!(kind_of(answer).as_deref(), Some(kind), "{answer}");
}

#[test]
fn a_server_that_cannot_be_used_says_why_and_what_to_do() {
    let home = Home::new();
    let entry = |command: &str, env: &[(&str, &str)]| home.entry(std::path::Path::new(command), &[], env);
    let evil = bins().evil_child.to_str().unwrap();
    home.definition(
        "unset",
        &json!({"mcpServers": {"unset": entry(evil, &[("TOKEN", "${NO_SUCH_TOKEN}")])}}).to_string(),
    );
    home.definition("lost", &json!({"mcpServers": {"lost": entry("no-such-program-5f1e", &[])}}).to_string());
    home.definition("empty", r#"{"name": "empty", "description": "nothing"}"#);
    home.child("dying", &["exit-at-start", "1"]);
    let locked = ScriptedServer::start(|asked, back| {
        let secret = asked.header("authorization").is_some();
        back.head(
            401,
            &[("WWW-Authenticate", if secret { "Basic" } else { "Bearer" }), ("Content-Length", "0")],
        );
    });
    home.definition(
        "locked",
        &json!({"mcpServers": {"locked": {"type": "http", "url": locked.url()}}}).to_string(),
    );
    let _daemon = home.daemon();
    let mut shim = home.shim();
    // The first list says which program is missing.
    assert!(
        description(&mut shim, "lost_suite").starts_with(
            "Not available: command `no-such-program-5f1e` not found; see `switchboard explain lost_suite`.",
        ),
        "{}",
        description(&mut shim, "lost_suite")
    );
    // A missing value is known without a start.
    until_true("the missing value", TEST_TIMEOUT, || {
        description(&mut shim, "unset_suite").starts_with(
            "Not available: missing `NO_SUCH_TOKEN`; set it with `switchboard secret set NO_SUCH_TOKEN`. Use this tool for unset.",
        )
    });
    assert_eq!(
        description(&mut shim, "empty_suite"),
        "Not available: no command; the user fixes `empty/.mcp.json`. Use this tool for nothing. Actions: 'introspect' | 'call'"
    );
    for (server, kind) in [
        ("unset", "misconfigured"),
        ("lost", "child_spawn_failed"),
        ("empty", "misconfigured"),
        ("dying", "child_exited"),
        ("locked", "needs_login"),
    ] {
        is_refused(&shim.call(server, "echo", "{}"), kind);
    }
    for (suite, expect) in [
        (
            "lost_suite",
            "Not available: command `no-such-program-5f1e` not found; see `switchboard explain lost_suite`.",
        ),
        (
            "dying_suite",
            "Not available: it exited with status 1 when it was started; see `switchboard logs dying_suite`.",
        ),
        ("locked_suite", "Not available: it needs a login; the user runs `switchboard login locked_suite`."),
    ] {
        let text = until(expect, TEST_TIMEOUT, || {
            Some(description(&mut shim, suite)).filter(|text| text.starts_with("Not available"))
        });
        assert!(text.starts_with(expect), "{text}");
    }
    // After five failures within a minute it rests.
    until_true("the rest", TEST_TIMEOUT, || {
        shim.call("dying", "echo", "{}");
        description(&mut shim, "dying_suite").starts_with(
            "Not available: it keeps failing (exited with status 1 when it was started); see `switchboard logs dying_suite`. A call tries again after a pause.",
        )
    });
    // The remedy works, and the description follows.
    home.write(".config/switchboard/env", "NO_SUCH_TOKEN=hunter2\n");
    set_private(&home.config_folder().join("env"));
    until_true("the value", TEST_TIMEOUT, || {
        description(&mut shim, "unset_suite").starts_with("Use this tool for unset.")
    });
}

fn set_private(file: &std::path::Path) {
    std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
}

#[test]
fn a_server_that_fails_all_the_time_does_not_flood_hosts() {
    // Every second start succeeds, and the server says something else each time.
    let starts = Arc::new(AtomicUsize::new(0));
    let count = starts.clone();
    let far = ScriptedServer::start(move |asked, back| match asked.what().as_str() {
        "initialize" | "server/discover" if count.fetch_add(1, Ordering::Relaxed) % 5 == 4 => back.empty(500),
        _ => wordy(asked, back, count.load(Ordering::Relaxed) % 7),
    });
    let home = far_home(&far);
    let daemon = home.daemon();
    let mut shim = home.shim();
    for _ in 0..12 {
        shim.call("far", "send_mail", "{}");
        std::thread::sleep(Duration::from_millis(120));
        daemon.endpoint().post("/control/restart", r#"{"suite":"far"}"#);
    }
    assert!(starts.load(Ordering::Relaxed) > 12, "it was started again and again");
    let told = heard(&mut shim);
    assert!((1..=4).contains(&told), "{told} notifications");
}
