//! `pool.scope: "workspace"`: the user's own server runs once for each project, with that project's folder and roots.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use proto_tests::shim::{ShimOptions, call_params, kind_of, structured, text_of};
use proto_tests::wait::until_true;
use proto_tests::{DaemonProcess, Home, Shim, TEST_TIMEOUT, bins};
use serde_json::{Value, json};

/// A home with one server of the user's own that names the project in its arguments and its environment.
fn home_with(pool: &Value) -> Home {
    let home = Home::new();
    let mut entry = home.entry(
        &bins().evil_child,
        &["echo", "${workspaceFolder}/docs", "${workspaceFolderBasename}"],
        &[],
    );
    entry["env"]["PROJECT"] = json!("${CLAUDE_PROJECT_DIR}");
    home.definition("k", &json!({"mcpServers": {"k": entry}}).to_string());
    let mut pool = pool.clone();
    pool["scope"] = json!("workspace");
    home.config(&json!({"suites": {"k": {"pool": pool}}}));
    home
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap()
}

/// A host that belongs to no project.
fn homeless(home: &Home) -> Shim {
    let mut shim = Shim::start(home, ShimOptions { workspace: Some(home.path()), ..ShimOptions::default() });
    shim.initialize();
    shim
}

fn ask_roots(shim: &mut Shim) -> Value {
    serde_json::from_str(&text_of(&shim.call("k", "ask", r#"{"kind":"roots"}"#))).unwrap()
}

fn in_status<'a>(status: &'a Value, root: &Path) -> &'a Value {
    let mut known = status["workspaces"].as_array().unwrap().iter();
    known.find(|known| known["root"] == json!(root)).unwrap_or_else(|| panic!("{status}"))
}

#[test]
fn two_workspaces_and_three_sessions_have_two_processes_that_share_nothing() {
    let home = home_with(&json!({}));
    let (one, two) = (home.project("one"), home.project("two"));
    let daemon = home.daemon();
    let mut shims = [one.shim(), one.mute_shim(), two.shim()];
    let pids: Vec<i32> = shims.iter_mut().map(|shim| shim.pid_of("k")).collect();
    assert!(pids[0] == pids[1] && pids[0] != pids[2], "{pids:?}");
    assert_eq!(home.children().len(), 2);
    for (shim, project) in shims.iter_mut().zip([&one, &one, &two]) {
        let root = real(project.path());
        let (root, name) = (root.to_str().unwrap(), root.file_name().unwrap().to_str().unwrap().to_owned());
        let told = structured(&shim.call("k", "where", "{}"));
        assert_eq!(
            told["args"].as_array().unwrap()[2..],
            [json!(format!("{root}/docs")), json!(name)],
            "{told}"
        );
        // Only where the definition says so is the project the working directory.
        assert_eq!(told["cwd"], json!(home.config_folder().join("mcps/k")), "{told}");
        let env = shim.call("k", "env", "{}");
        assert!(env.contains(root) && env.contains("PROJECT"), "{env}");
        // The host is not asked: its roots could differ from those of the others.
        assert_eq!(
            ask_roots(shim)["result"],
            json!({"roots": [{"uri": format!("file://{root}"), "name": name}]})
        );
        assert_eq!(shim.take_notifications().iter().filter(|line| line.contains("roots/list")).count(), 0);
    }
    shims[0].call("k", "echo", r#"{"word":"canary-of-one"}"#);
    shims[2].call("k", "echo", r#"{"word":"canary-of-two"}"#);
    let received = shims[1].call("k", "received", "{}");
    assert!(received.contains("canary-of-one") && !received.contains("canary-of-two"), "{received}");
    assert!(!received.contains(real(two.path()).to_str().unwrap()), "{received}");
    let received = shims[2].call("k", "received", "{}");
    assert!(received.contains("canary-of-two") && !received.contains("canary-of-one"), "{received}");
    assert!(!received.contains(&format!("{}\"", real(one.path()).display())), "{received}");
    let status = daemon.status();
    for (project, pid) in [(&one, pids[0]), (&two, pids[2])] {
        let suite = &in_status(&status, &real(project.path()))["suites"][0];
        assert_eq!((&suite["child"], &suite["pool"]["scope"]), (&json!("k"), &json!("workspace")), "{suite}");
        assert_eq!(suite["pool"]["workspace"], json!(real(project.path())), "{suite}");
        assert_eq!(suite["children"][0]["pid"], pid, "{suite}");
    }
    let told = String::from_utf8(home.command(&["status"]).stdout).unwrap();
    // Once for each project, not among the user's own.
    let listed = told.split(" running").next().unwrap();
    // The command's own folder is the third.
    assert_eq!(listed.matches("\n  k ").count(), 3, "{told}");
    assert_eq!(told.matches("1 server of ").count(), 3, "{told}");
    let explained = |folder: &Path| {
        let args = ["explain", "k", "--workspace", folder.to_str().unwrap()];
        String::from_utf8(home.command(&args).stdout).unwrap()
    };
    let root = real(one.path());
    let here = explained(&root);
    assert!(here.contains(&format!("{}/docs", root.display())), "{here}");
    assert!(!here.contains(&format!("{}/docs", home.config_folder().display())), "{here}");
    let metrics = daemon.endpoint().get("/metrics").text();
    assert!(
        metrics.lines().any(|line| line.starts_with("switchboard_pool_size{")
            && line.contains("\"k\"")
            && line.ends_with(" 2")),
        "{metrics}"
    );
}

#[test]
fn a_session_without_a_workspace_is_refused_with_what_to_do() {
    let home = home_with(&json!({}));
    let project = home.project("one");
    let daemon = home.daemon();
    let mut outside = homeless(&home);
    for arguments in
        [json!({"action": "call", "subtool": "echo", "args": {}}), json!({"action": "introspect"})]
    {
        let answer =
            outside.request("tools/call", &json!({"name": "k_suite", "arguments": arguments}).to_string());
        assert!(
            answer.contains("this session belongs to none") && answer.contains("--workspace DIR"),
            "{answer}"
        );
        assert_eq!(kind_of(&answer).as_deref(), Some("no_workspace"), "{answer}");
    }
    assert_eq!(home.children().len(), 0);
    // Over HTTP, the workspace is in the query.
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}}"#,
        call_params("k", "where", "{}")
    );
    let refused = daemon.endpoint().post("/proxy", &body).text();
    assert!(refused.contains("?workspace=DIR") && refused.contains("no_workspace"), "{refused}");
    let served = daemon.endpoint().post(&format!("/proxy?{}", project.named()), &body).text();
    assert_eq!(structured(&served)["pid"], project.shim().pid_of("k"), "{served}");
    assert_eq!(home.children().len(), 1);
    // What the server said in one project is known outside; it still starts nothing.
    let tools = outside.introspect("k");
    assert!(tools.to_string().contains("received"), "{tools}");
    let refused = outside.call("k", "echo", "{}");
    assert_eq!(kind_of(&refused).as_deref(), Some("no_workspace"), "{refused}");
    assert_eq!(home.children().len(), 1);
}

#[test]
fn what_a_server_said_in_one_workspace_serves_the_others() {
    let home = home_with(&json!({"idleMs": 300}));
    let (one, two) = (home.project("one"), home.project("two"));
    let mut daemon = home.daemon();
    one.shim().pid_of("k");
    until_true("the idle process to stop", TEST_TIMEOUT, || home.children().is_empty());
    let known = |daemon: &DaemonProcess, root: &Path| daemon.suite_from(root, "k")["subtools"].clone();
    assert!(known(&daemon, two.path()).as_u64().is_some_and(|tools| tools > 10));
    // Also after a restart.
    daemon.signal(rustix::process::Signal::TERM);
    daemon.ended(TEST_TIMEOUT);
    drop(daemon);
    let daemon = home.daemon();
    let mut shim = two.shim();
    assert!(known(&daemon, two.path()).as_u64().is_some_and(|tools| tools > 10));
    assert!(home.children().is_empty(), "a list started something");
    assert!(shim.introspect("k").to_string().contains("received"));
    assert_eq!(structured(&shim.call("k", "where", "{}"))["args"][3], "two");
}

#[test]
fn a_changed_definition_replaces_the_processes_of_every_workspace() {
    let home = home_with(&json!({"max": 1}));
    let (one, two) = (home.project("one"), home.project("two"));
    let daemon = home.daemon();
    let (mut in_one, mut in_two) = (one.shim(), two.shim());
    let before = [in_one.pid_of("k"), in_two.pid_of("k")];
    // Another server's change leaves them alone.
    home.child("other", &["echo"]);
    in_one.notification("notifications/tools/list_changed");
    assert_eq!([in_one.pid_of("k"), in_two.pid_of("k")], before);
    let entry = home.entry(&bins().evil_child, &["echo", "new", "${workspaceFolder}"], &[]);
    home.definition("k", &json!({"mcpServers": {"k": entry}}).to_string());
    home.run_ok(&["reload"]);
    for (shim, project) in [(&mut in_one, &one), (&mut in_two, &two)] {
        let told = structured(&shim.call("k", "where", "{}"));
        assert_eq!(
            told["args"].as_array().unwrap()[2..],
            [json!("new"), json!(real(project.path()))],
            "{told}"
        );
    }
    until_true("the old processes to end", TEST_TIMEOUT, || home.children().len() == 2);
    // From outside of every project, `restart` means all of them.
    let now = [in_one.pid_of("k"), in_two.pid_of("k")];
    let answer = daemon.endpoint().post("/control/restart", r#"{"suite":"k"}"#).text();
    assert!(answer.contains("\"restarted\":true"), "{answer}");
    let then = [in_one.pid_of("k"), in_two.pid_of("k")];
    assert!(then[0] != now[0] && then[1] != now[1], "{now:?} {then:?}");
    // With scope `shared`, there is one again.
    home.config(&json!({}));
    home.run_ok(&["reload"]);
    assert_eq!(in_one.pid_of("k"), in_two.pid_of("k"));
    until_true("the others to end", TEST_TIMEOUT, || home.children().len() == 1);
}

#[test]
fn a_definition_may_ask_for_the_workspace_as_its_directory() {
    let home = Home::new();
    let (one, two) = (home.project("one"), home.project("two"));
    let mut entry = home.entry(&bins().evil_child, &["echo"], &[]);
    entry["cwd"] = json!("${workspaceFolder}");
    let mut deep = entry.clone();
    deep["cwd"] = json!("${workspaceFolder}/sub");
    home.definition("k", &json!({"mcpServers": {"k": entry, "deep": deep}}).to_string());
    let pool = json!({"pool": {"scope": "workspace"}});
    home.config(&json!({"suites": {"k": pool, "deep": pool}}));
    fs::create_dir(one.path().join("sub")).unwrap();
    let _daemon = home.daemon();
    for project in [&one, &two] {
        let told = structured(&project.shim().call("k", "where", "{}"));
        assert_eq!(told["cwd"], json!(real(project.path())), "{told}");
    }
    let told = structured(&one.shim().call("deep", "where", "{}"));
    assert_eq!(told["cwd"], json!(real(one.path()).join("sub")), "{told}");
}

/// Runs nothing of the project, although the server runs in it.
#[test]
fn a_package_runner_resolves_nothing_from_the_workspace() {
    let home = Home::new();
    let project = home.project("one");
    let ran = home.path().join("ran");
    let program = |path: &Path, script: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    // Stands for npx: takes the program of the directory that it starts in, if there is one.
    let evil = bins().evil_child.display();
    program(
        &home.path().join("bin/npx"),
        &format!("[ -x ./node_modules/.bin/srv ] && exec ./node_modules/.bin/srv\nexec {evil} echo"),
    );
    program(&project.path().join("node_modules/.bin/srv"), &format!("touch {}", ran.display()));
    home.write(
        ".profile",
        &format!("export PATH={}:/usr/local/bin:/usr/bin:/bin\n", home.path().join("bin").display()),
    );
    let mut entry = home.entry(Path::new("npx"), &["-y", "srv"], &[]);
    entry["cwd"] = json!("${workspaceFolder}");
    home.definition("k", &json!({"mcpServers": {"k": entry}}).to_string());
    home.config(&json!({"suites": {"k": {"pool": {"scope": "workspace"}}}}));
    let _daemon = home.daemon();
    let answer = project.shim().call("k", "echo", "{}");
    assert!(answer.contains("\"ok\":true") && !ran.exists(), "{answer}");
}

#[test]
fn the_first_call_waits_until_the_server_has_its_roots() {
    let home = Home::new();
    home.child("k", &["follows-roots"]);
    home.config(&json!({"suites": {"k": {"pool": {"scope": "workspace"}, "validate": false}}}));
    let project = home.project("one");
    let _daemon = home.daemon();
    let answer = project.shim().call("k", "folders", "{}");
    assert!(answer.contains(&format!("file://{}", real(project.path()).display())), "{answer}");
}

#[test]
fn the_budget_counts_the_process_of_each_workspace() {
    let home = home_with(&json!({}));
    home.config(&json!({"suites": {"k": {"pool": {"scope": "workspace"}}}, "budget": {"children": 1}}));
    let (one, two) = (home.project("one"), home.project("two"));
    let _daemon = home.daemon();
    let (mut in_one, mut in_two) = (one.shim(), two.shim());
    let first = in_one.pid_of("k");
    in_two.pid_of("k");
    // The idle one made room.
    until_true("one process", TEST_TIMEOUT, || home.children().len() == 1);
    assert_ne!(in_one.pid_of("k"), first);
}

#[test]
fn a_project_that_goes_takes_its_process_with_it_when_idle() {
    let home = home_with(&json!({"idleMs": 300}));
    let (one, two) = (home.project("one"), home.project("two"));
    let _daemon = home.daemon();
    let mut in_two = two.shim();
    one.shim().pid_of("k");
    in_two.pid_of("k");
    until_true("both to be idle", TEST_TIMEOUT, || home.children().is_empty());
    assert_eq!(structured(&in_two.call("k", "where", "{}"))["args"][3], "two");
}

#[test]
fn import_takes_servers_of_the_open_project() {
    let home = Home::new();
    let (one, two) = (home.project("one"), home.project("two"));
    let evil = home.entry(&bins().evil_child, &["echo", "${workspaceFolder}", "--root=."], &[]);
    let mut there = home.entry(&bins().evil_child, &["echo", "there"], &[]);
    there["cwd"] = json!("${workspaceFolder}");
    let servers = json!({"mcpServers": {
        "k": evil,
        "there": there,
        "git": {"command": "uvx", "args": ["mcp-server-git"]},
        "git-of-one": {"command": "uvx", "args": ["mcp-server-git", "--repository", "/srv/one"]},
        "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "."]},
        "roots": {"command": "mcp-server-filesystem"},
        "hub": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-github"]},
        "lab": {"command": "uvx", "args": ["mcp-server-gitlab"]},
        "module": {"command": "python3", "args": ["-m", "mcp_server_git"]},
        "script": {"command": "node", "args": ["${workspaceFolder}/server.js"]},
        "program": {"command": "${workspaceFolder}/serve"},
        "package": {"command": "npx", "args": ["-y", "."]},
    }});
    home.write(".cursor/mcp.json", &servers.to_string());
    let _daemon = home.daemon();
    let output = home.command(&["import"]);
    let told = String::from_utf8(output.stdout).unwrap();
    for name in ["k", "there", "git", "files", "roots"] {
        let part = format!("{name} (Cursor): imported as `{name}`\n  it works on the project that is open");
        assert!(told.contains(&part), "{name}: {told}");
    }
    for (name, why) in [
        ("script", "node ${workspaceFolder}/server.js"),
        ("program", "${workspaceFolder}/serve"),
        ("package", "npx ${workspaceFolder}"),
        ("module", "python3"),
    ] {
        let part = format!("{name} (Cursor): skipped: `{why}` would run code of whatever project is open");
        assert!(told.contains(&part), "{part}: {told}");
    }
    let text = fs::read_to_string(home.config_folder().join("switchboard.config.json")).unwrap();
    let suites = serde_json::from_str::<Value>(&text).unwrap()["suites"].clone();
    let names: Vec<_> = suites.as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["files", "git", "k", "roots", "there"]);
    assert!(
        suites.as_object().unwrap().values().all(|suite| suite["pool"]["scope"] == "workspace"),
        "{suites}"
    );
    let definition = |name: &str| {
        let file = home.config_folder().join("mcps").join(name).join(".mcp.json");
        serde_json::from_str::<Value>(&fs::read_to_string(file).unwrap()).unwrap()
    };
    assert_eq!(definition("git")["command"]["cwd"], "${workspaceFolder}");
    assert_eq!(definition("files")["command"]["args"][2], "${workspaceFolder}");
    assert!(
        ["files", "git-of-one", "roots", "hub", "lab"]
            .iter()
            .all(|name| definition(name)["command"].get("cwd").is_none())
    );
    for project in [&one, &two] {
        let root = real(project.path());
        let mut shim = project.shim();
        let told = structured(&shim.call("k", "where", "{}"));
        let expect = [json!(root), json!(format!("--root={}", root.display()))];
        assert_eq!(told["args"].as_array().unwrap()[2..], expect, "{told}");
        assert_eq!(structured(&shim.call("there", "where", "{}"))["cwd"], json!(root));
    }
    // They were not started: this session has no project.
    assert!(told.contains("\nk: it starts when an editor uses it in a project\n"), "{told}");
    // A second time they are there already.
    assert!(!String::from_utf8(home.command(&["import"]).stdout).unwrap().contains("imported as"));
}

#[test]
fn a_dry_run_without_a_project_counts_servers_of_projects_apart() {
    let home = Home::new();
    home.child("k", &["echo"]);
    home.child("other", &["echo"]);
    home.config(&json!({"suites": {"k": {"pool": {"scope": "workspace"}}}}));
    let output = home.command(&["--dry-run", "--workspace", "/"]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        told.contains("the server answers\n`k` starts when an editor uses it in a project\n"),
        "{output:?}"
    );
    assert!(output.status.success(), "{output:?}");
}
