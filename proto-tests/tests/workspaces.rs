//! What a session sees: the user's own servers and those of its workspace, each with their own settings. All
//! workspaces here are trusted; `trust.rs` tests trust.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use proto_tests::project::CANNOT_ASK;
use proto_tests::shim::{structured, text_of};
use proto_tests::wait::until_true;
use proto_tests::{DaemonProcess, Home, Project, Request, Shim, ShimOptions, TEST_TIMEOUT, Terminal};
use serde_json::{Value, json};

/// A daemon that trusts all projects of this home, and listens on a port too.
fn trusting(home: &Home) -> DaemonProcess {
    DaemonProcess::start(home, &["--listen", "127.0.0.1:0", "--trust-root", home.mark()])
}

fn names(shim: &mut Shim) -> Vec<String> {
    shim.tools().into_keys().collect()
}

fn children(seen: &Value) -> Vec<String> {
    let suites = seen["suites"].as_array().unwrap_or_else(|| panic!("{seen}"));
    suites.iter().map(|suite| suite["child"].as_str().unwrap_or("?").to_owned()).collect()
}

/// `/status` of one workspace.
fn state_of(daemon: &DaemonProcess, root: &Path) -> Value {
    let status = daemon.status();
    let known = status["workspaces"].as_array().unwrap().iter();
    known.clone().find(|known| known["root"] == json!(root)).unwrap_or_else(|| panic!("{status}")).clone()
}

#[test]
fn a_session_sees_the_users_own_servers_and_its_workspaces() {
    let home = Home::new();
    home.child("mine", &["echo"]);
    let (one, two) = (home.project("one"), home.project("two"));
    one.child("first", &["1"]);
    two.child("second", &["2"]);
    let daemon = trusting(&home);
    let (mut in_one, mut in_two) = (one.shim(), two.shim());
    assert_eq!(names(&mut in_one), ["first_suite", "mine_suite"]);
    assert_eq!(names(&mut in_two), ["mine_suite", "second_suite"]);
    assert_eq!(structured(&in_one.call("first", "where", "{}"))["args"][2], "1");
    assert_eq!(structured(&in_two.call("second", "where", "{}"))["args"][2], "2");
    let foreign = in_one.call("second", "where", "{}");
    assert!(foreign.contains("Unknown tool: second_suite"), "{foreign}");
    // A server of the user's own is one process for all workspaces.
    assert_eq!(in_one.pid_of("mine"), in_two.pid_of("mine"));
    assert_eq!(daemon.starts("mine"), 1);
    // A workspace lists only its own servers.
    assert_eq!(children(&state_of(&daemon, one.path())), ["first"]);
    assert_eq!(children(&daemon.status()), ["mine"]);
    assert_eq!(state_of(&daemon, two.path())["sessions"], 1);
}

#[test]
fn changes_in_a_workspace_are_notified_only_there() {
    let home = Home::new();
    let (one, two) = (home.project("one"), home.project("two"));
    one.child("first", &[]);
    let _daemon = trusting(&home);
    let (mut in_one, mut in_two) = (one.shim(), two.shim());
    assert_eq!(names(&mut in_two), [""; 0]);
    one.child("later", &[]);
    in_one.notification("notifications/tools/list_changed");
    assert_eq!(names(&mut in_one), ["first_suite", "later_suite"]);
    two.child("other", &[]);
    in_two.notification("notifications/tools/list_changed");
    assert_eq!(in_two.take_notifications(), [""; 0]);
    fs::remove_dir_all(one.path().join("mcps/first")).unwrap();
    in_one.notification("notifications/tools/list_changed");
    assert_eq!(names(&mut in_one), ["later_suite"]);
    // The folder of all definitions is moved away and back.
    fs::rename(one.path().join("mcps"), one.path().join("away")).unwrap();
    in_one.notification("notifications/tools/list_changed");
    assert_eq!(names(&mut in_one), [""; 0]);
    fs::rename(one.path().join("away"), one.path().join("mcps")).unwrap();
    in_one.notification("notifications/tools/list_changed");
    assert_eq!(names(&mut in_one), ["later_suite"]);
}

#[test]
fn the_users_own_server_wins_a_name_clash() {
    let home = Home::new();
    home.child("k", &["echo", "personal"]);
    home.child("named", &["echo", "personal"]);
    home.config(&json!({"suites": {"named": {"suiteName": "chosen"}}}));
    let project = home.project("work");
    project.child("k", &["workspace"]);
    project.child("x", &["workspace"]);
    project.child("y", &["workspace"]);
    project.config(&json!({"suites": {"x": {"suiteName": "chosen"}, "y": {"suiteName": "k_suite"}}}));
    let daemon = trusting(&home);
    let mut shim = project.shim();
    let names = names(&mut shim);
    assert_eq!(names.len(), 4, "{names:?}");
    for name in ["k_suite", "chosen", "x_suite", "y_suite"] {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
    assert_eq!(structured(&shim.call("k", "where", "{}"))["args"][2], "personal");
    let params = r#"{"name":"chosen","arguments":{"action":"call","subtool":"where","args":{}}}"#;
    assert_eq!(structured(&shim.request("tools/call", params))["args"][2], "personal");
    let problems = daemon.seen_from(project.path())["problems"].to_string();
    assert!(problems.contains("`k` is also your own, which is used"), "{problems}");
    // Sessions outside of the workspace do not see the problem.
    assert!(!daemon.status()["problems"].to_string().contains("also your own"));
}

#[test]
fn settings_of_a_workspace_touch_its_own_servers_only() {
    let home = Home::new();
    home.child("mine", &["echo"]);
    home.config(&json!({"suites": {"mine": {"pool": {"max": 3}}}}));
    let project = home.project("work");
    project.child("theirs", &[]);
    let settings = json!({
        "description": "words from a workspace",
        "expose": {"allow": ["echo", "where", "hang"]},
        "timeouts": {"rpcMs": 300},
        "pool": {"scope": "call", "max": 2, "idleMs": 77_000},
        "summaryMaxChars": 8,
        "redact": ["text"],
        "validate": false,
    });
    project.config(&json!({
        "suites": {"mine": settings, "theirs": settings},
        "timeouts": {"childSpawnMs": 5000, "rpcMs": 200, "maxMs": 500},
        "introspection": {"mode": "redacted", "summaryMaxChars": 8},
    }));
    let daemon = trusting(&home);
    let mut shim = project.shim();
    let tools = shim.tools();
    assert_eq!(tools["theirs_suite"]["description"], "words from a workspace");
    let own = tools["mine_suite"]["description"].as_str().unwrap().to_owned();
    assert!(own.contains("things that mine does"), "{own}");
    let refused = shim.call("theirs", "count", "{}");
    assert!(text_of(&refused).contains("not allowed by Switchboard"), "{refused}");
    assert_eq!(structured(&shim.call("mine", "count", "{}"))["count"], 1);
    let silent = shim.call("theirs", "hang", "{}");
    assert!(silent.contains("rpc_timeout") && silent.contains("300"), "{silent}");
    shim.call("mine", "slow", r#"{"ms":600}"#);
    let suite = daemon.suite_from(project.path(), "theirs");
    assert_eq!(suite["pool"]["scope"], "call", "{suite}");
    assert_eq!((&suite["pool"]["max"], &suite["pool"]["idleMs"]), (&json!(2), &json!(77_000)));
    let suite = daemon.suite("mine");
    assert_eq!((&suite["pool"]["scope"], &suite["pool"]["max"]), (&json!("shared"), &json!(3)), "{suite}");
    let mine = shim.introspect("mine").to_string();
    assert!(
        mine.contains("inputSchema") && mine.contains("Gives its arguments back as they came."),
        "{mine}"
    );
    let checked = shim.call("mine", "strict", "{}");
    assert!(text_of(&checked).contains("missing argument `need`"), "{checked}");
    assert!(!shim.introspect("theirs").to_string().contains("inputSchema"));
    let problems = state_of(&daemon, project.path())["problems"].to_string()
        + &daemon.seen_from(project.path())["problems"].to_string();
    assert!(problems.contains("`suites.mine`: `mine` is your own"), "{problems}");
}

#[test]
fn a_workspace_cannot_configure_trust_listeners_budgets_or_watching() {
    for (key, value) in [
        ("http", json!({"listen": "127.0.0.1:1"})),
        ("budget", json!({"children": 1})),
        ("trust", json!({"roots": ["/"]})),
        ("trust", json!({"elicit": true})),
        ("watch", json!("poll")),
    ] {
        let home = Home::new();
        let project = home.project("work");
        project.child("k", &[]);
        project.config(&json!({key: value}));
        let daemon = home.daemon();
        let mut shim = project.mute_shim();
        assert!(shim.tools()["k_suite"]["description"].as_str().unwrap().starts_with("Held"), "{key}");
        let problems = state_of(&daemon, project.path())["problems"].to_string();
        let wanted = format!("`{key}` is for the personal config only");
        assert!(problems.contains(&wanted) && problems.contains("switchboard.config.json:1:"), "{problems}");
        assert_eq!(daemon.status()["budget"]["children"], 64);
    }
}

const OUTSIDE: &str = r#"{"name": "outside", "command": {"cmd": "true"}}"#;

#[test]
fn globs_of_a_workspace_cannot_leave_it() {
    let home = Home::new();
    let outside = home.project("outside");
    outside.write("x/.mcp.json", OUTSIDE);
    let absolute = format!("{}/x/.mcp.json", outside.path().display());
    let project = home.project("work");
    let daemon = trusting(&home);
    let mut shim = project.shim();
    for glob in ["../outside/x/.mcp.json", "a/../../outside/*/.mcp.json", "..", &absolute, "/**/.mcp.json"] {
        project.config(&json!({"discoverGlobs": [glob]}));
        until_true(glob, TEST_TIMEOUT, || {
            state_of(&daemon, project.path())["problems"].to_string().contains("stay inside")
        });
        assert_eq!(names(&mut shim), [""; 0], "{glob}");
    }
    project.config(&json!({"discoverGlobs": ["{x,../outside}/**/.mcp.json", "[.][.]/outside/x/.mcp.json"]}));
    home.run_ok(&["reload"]);
    assert_eq!(names(&mut shim), [""; 0]);
}

#[test]
fn links_of_a_workspace_cannot_leave_it() {
    let home = Home::new();
    let outside = home.project("work-outside");
    let file = outside.write("x/.mcp.json", OUTSIDE);
    outside.write("mcps/x/.mcp.json", OUTSIDE);
    let inside = r#"{"name": "inside", "command": {"cmd": "true"}}"#;
    let check = |make: &dyn Fn(&Project<'_>), expect: &[&str]| {
        let project = home.project("work");
        fs::remove_dir_all(project.path()).unwrap();
        fs::create_dir_all(project.path().join("mcps")).unwrap();
        make(&project);
        let daemon = trusting(&home);
        assert_eq!(children(&daemon.seen_from(project.path())), expect);
    };
    let at = |project: &Project<'_>, path: &str| project.path().join(path);
    check(&|project| symlink(outside.path().join("x"), at(project, "mcps/link")).unwrap(), &[]);
    check(&|project| symlink("../../work-outside/x", at(project, "mcps/link")).unwrap(), &[]);
    check(
        &|project| {
            fs::create_dir(at(project, "mcps/x")).unwrap();
            symlink(&file, at(project, "mcps/x/.mcp.json")).unwrap();
        },
        &[],
    );
    check(
        &|project| {
            fs::remove_dir(at(project, "mcps")).unwrap();
            symlink(outside.path().join("mcps"), at(project, "mcps")).unwrap();
        },
        &[],
    );
    // The config must stay inside, too.
    check(
        &|project| {
            outside.config(&json!({"discoverGlobs": ["deep/*/.mcp.json"]}));
            project.write("deep/x/.mcp.json", inside);
            symlink(outside.path().join("switchboard.config.json"), at(project, "switchboard.config.json"))
                .unwrap();
        },
        &[],
    );
    // A link that stays inside is followed.
    check(
        &|project| {
            project.write("elsewhere/.mcp.json", inside);
            symlink("../elsewhere", at(project, "mcps/link")).unwrap();
        },
        &["inside"],
    );
}

#[test]
fn the_root_and_home_are_not_workspaces() {
    let home = Home::new();
    home.child("mine", &["echo"]);
    home.write("mcps/k/.mcp.json", r#"{"name": "k", "command": {"cmd": "true"}}"#);
    home.write("switchboard.config.json", r#"{"suites": {"mine": {"description": "no"}}}"#);
    let daemon = trusting(&home);
    let link = home.project("links").path().join("home");
    symlink(home.path(), &link).unwrap();
    let gone = home.project("gone").path().to_owned();
    let nowhere = gone.join("nowhere");
    for none in [Path::new("/"), &home.path(), &link, &home.path().join("mcps/.."), &nowhere] {
        let options = ShimOptions {
            workspace: Some(home.workspace()),
            args: vec!["--workspace".into(), none.display().to_string()],
            ..ShimOptions::default()
        };
        let mut shim = Shim::start(&home, options);
        shim.initialize_as(CANNOT_ASK);
        assert_eq!(names(&mut shim), ["mine_suite"], "{}", none.display());
        assert_eq!(children(&daemon.seen_from(none)), ["mine"]);
    }
    assert_eq!(daemon.status()["workspaces"], json!([]));
}

#[test]
fn callers_without_a_session_can_name_a_workspace_if_authorized() {
    let home = Home::new();
    home.child("mine", &["echo"]);
    let project = home.project("my work");
    project.child("theirs", &["here"]);
    let daemon = trusting(&home);
    let (socket, tcp, token) = (daemon.endpoint(), daemon.tcp(), daemon.token());
    let query = format!("workspace={}", project.path().display().to_string().replace(' ', "%20"));
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"where","arguments":{}}}"#;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let with_token = |method: &str, target: &str, body: &str| {
        tcp.send(&Request::new(method, target).bearer(&token).body(body))
    };
    for target in ["/suites", "/proxy"] {
        let named = format!("{target}?{query}");
        assert_eq!(children(&socket.get(&named).json()), ["mine", "theirs"]);
        assert_eq!(children(&with_token("GET", &named, "").json()), ["mine", "theirs"]);
        assert_eq!(children(&socket.get(target).json()), ["mine"]);
        let shown = tcp.get(&named).text();
        assert!(shown.contains("mine_suite") && !shown.contains("theirs"), "{shown}");
    }
    for name in ["theirs", "theirs_suite"] {
        assert_eq!(socket.get(&format!("/suites/{name}?{query}")).status, 200);
        assert_eq!(socket.get(&format!("/suites/{name}")).status, 404);
        assert_eq!(tcp.get(&format!("/suites/{name}?{query}")).status, 404);
    }
    let (aggregate, single) = (format!("/proxy?{query}"), format!("/proxy/theirs?{query}"));
    for by_socket in [true, false] {
        let post = |target: &str, body: &str| match by_socket {
            true => socket.post(target, body),
            false => with_token("POST", target, body),
        };
        assert!(post(&aggregate, list).text().contains("theirs_suite"));
        assert!(!post("/proxy", list).text().contains("theirs_suite"));
        assert_eq!(post(&single, call).json()["result"]["structuredContent"]["args"][2], "here");
        assert_eq!(post("/proxy/theirs", call).status, 404);
    }
    assert_eq!(tcp.post(&single, call).status, 401);
    // Without a full path no workspace is meant, neither the daemon's directory nor HOME.
    for none in ["workspace=", "workspace=.", "workspace=../my%20work", "workspace=my%20work", "w", ""] {
        assert_eq!(children(&socket.get(&format!("/suites?{none}")).json()), ["mine"], "{none}");
    }
}

#[test]
fn a_project_reached_by_a_link_is_the_same_workspace() {
    let home = Home::new();
    let project = home.project("work");
    project.child("k", &[]);
    let link = home.project("links").path().join("link");
    symlink(project.path(), &link).unwrap();
    let daemon = trusting(&home);
    let (mut straight, mut by_link) = (project.shim(), {
        let options = ShimOptions { workspace: Some(link), ..ShimOptions::default() };
        let mut shim = Shim::start(&home, options);
        shim.initialize();
        shim
    });
    assert_eq!(straight.pid_of("k"), by_link.pid_of("k"));
    let known = daemon.status()["workspaces"].clone();
    assert_eq!(known.as_array().unwrap().len(), 1, "{known}");
}

#[test]
fn sessions_and_commands_agree_on_the_workspace_of_a_folder() {
    let home = Home::new();
    let project = home.project("work");
    project.child("k", &[]);
    let deep = project.path().join("deep/er");
    fs::create_dir_all(&deep).unwrap();
    let daemon = trusting(&home);
    let options = ShimOptions { workspace: Some(deep.clone()), ..ShimOptions::default() };
    let mut shim = Shim::start(&home, options);
    shim.initialize();
    assert_eq!(names(&mut shim), ["k_suite"]);
    assert_eq!(children(&daemon.seen_from(&deep)), ["k"]);
    let root = format!("--trust-root={}", home.mark());
    for args in [
        &["ls"][..],
        &["status"],
        &["call", "k", "echo"],
        &["introspect", "k"],
        &["savings"],
        &["logs", "k"],
        &["explain", "k"],
        &["--dry-run", &root],
    ] {
        let screen = Terminal::start(&home, &deep, args, &[]).answer_all("");
        assert_eq!(screen.code, Some(0), "{args:?}: {}", screen.text);
    }
    for args in [&["ls"][..], &["--dry-run", &root]] {
        let screen = Terminal::start(&home, &deep, args, &[]).answer_all("");
        assert!(screen.text.contains("mcps/k/.mcp.json"), "{args:?}: {}", screen.text);
    }
    let known = daemon.status()["workspaces"].clone();
    assert_eq!(known.as_array().unwrap().len(), 1, "{known}");
    assert_eq!(known[0]["root"], json!(project.path()), "{known}");
}
