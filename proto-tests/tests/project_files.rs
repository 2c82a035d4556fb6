//! The files in which editors keep the servers of a project: found, held, and not shown to an editor that reads them
//! itself. And the user's own servers that are for some projects only.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proto_tests::http::Request;
use proto_tests::shim::{ShimOptions, structured, text_of};
use proto_tests::wait::until_true;
use proto_tests::{DaemonProcess, Home, Project, Shim, TEST_TIMEOUT, bins};
use serde_json::{Value, json};

/// Longer than changes of files are collected, and than a host waits for news.
const PAUSE: Duration = Duration::from_secs(1);

const CHANGED: &str = "notifications/tools/list_changed";

/// For each editor: the name that it gives itself, its server, and the file of the project.
const EDITORS: [(&str, &str, &str); 11] = [
    ("claude-code", "claude", ".mcp.json"),
    ("cursor-vscode", "cursor", ".cursor/mcp.json"),
    ("Visual Studio Code", "vscode", ".vscode/mcp.json"),
    ("codex-mcp-client", "codex", ".codex/config.toml"),
    ("gemini-cli-mcp-client-switchboard", "gemini", ".gemini/settings.json"),
    ("qwen-cli-mcp-client-switchboard", "qwen", ".qwen/settings.json"),
    ("Roo Code", "roo", ".roo/mcp.json"),
    ("Zed", "zed", ".zed/settings.json"),
    ("opencode", "opencode", "opencode.jsonc"),
    ("junie", "junie", ".junie/mcp/mcp.json"),
    ("continue-cli-client", "continue", ".continue/mcpServers/own.json"),
];

/// An editor of this name in a folder; it cannot ask its user.
#[track_caller]
fn editor(home: &Home, folder: &Path, client: &str) -> Shim {
    let workspace = Some(folder.to_owned());
    let mut shim = Shim::start(home, ShimOptions { workspace, ..ShimOptions::default() });
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": client, "version": "1"},
    });
    shim.initialize_as(&hello.to_string());
    shim
}

/// The servers that a host sees.
#[track_caller]
fn seen(shim: &mut Shim) -> BTreeSet<String> {
    shim.tools().into_keys().map(|name| name.trim_end_matches("_suite").to_owned()).collect()
}

/// Waits until a host sees these servers.
#[track_caller]
fn comes_to_see(shim: &mut Shim, expect: &[&str]) {
    until_true(&format!("{expect:?}"), TEST_TIMEOUT, || seen(shim) == names(expect));
}

/// What a host was told, some time after something changed.
#[track_caller]
fn heard(shim: &mut Shim) -> Vec<String> {
    std::thread::sleep(PAUSE);
    shim.request("ping", "{}");
    shim.take_notifications()
}

fn names(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

/// A server that leaves its name in a file whenever it is started.
fn entry(home: &Home, name: &str, version: &str) -> Value {
    let program = bins().evil_child.display().to_string();
    let script = format!("echo {name} >> {}; exec {program} echo {version}", trace(home).display());
    home.entry(Path::new("/bin/sh"), &["-c", &script], &[])
}

fn trace(home: &Home) -> PathBuf {
    home.path().join("trace")
}

/// The servers that were started.
fn started(home: &Home) -> BTreeSet<String> {
    fs::read_to_string(trace(home)).unwrap_or_default().lines().map(ToOwned::to_owned).collect()
}

/// The text of a project's file with these servers, as its editor writes it.
fn text(file: &str, servers: &Value) -> String {
    if file.ends_with(".toml") {
        let mut text = "model = \"o9\"\n\n[features]\nx = 1_000\n".to_owned();
        for (name, entry) in servers.as_object().unwrap() {
            let of = |key: &str| entry[key].to_string();
            text += &format!("\n[mcp_servers.{name}]\ncommand = {}\nargs = {}\n", of("command"), of("args"));
            text += &format!("[mcp_servers.{name}.env]\n");
            for (variable, value) in entry["env"].as_object().unwrap() {
                text += &format!("{variable} = {value}\n");
            }
        }
        return text;
    }
    let whole = match file {
        ".vscode/mcp.json" => json!({"inputs": [], "servers": servers}),
        ".zed/settings.json" => json!({"theme": "One", "context_servers": servers}),
        ".gemini/settings.json" => json!({"mcp": {"allowed": ["x"]}, "mcpServers": servers}),
        _ if file.starts_with("opencode") => {
            let local = |(name, entry): (&String, &Value)| {
                let argv: Vec<Value> =
                    [&[entry["command"].clone()][..], entry["args"].as_array().unwrap()].concat();
                (name.clone(), json!({"type": "local", "command": argv, "environment": entry["env"]}))
            };
            json!({"$schema": "x", "mcp": Value::Object(servers.as_object().unwrap().iter().map(local).collect())})
        }
        _ => json!({"mcpServers": servers}),
    };
    whole.to_string()
}

fn put(project: &Project<'_>, file: &str, servers: &Value) -> PathBuf {
    project.write(file, &text(file, servers))
}

#[track_caller]
fn allow(project: &Project<'_>, what: &str) -> String {
    let screen = project.on_terminal(&["allow", what], "y\n");
    assert_eq!(screen.code, Some(0), "{}", screen.text);
    screen.text
}

fn said(home: &Home, args: &[&str]) -> String {
    let output = home.command(args);
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[track_caller]
fn version(shim: &mut Shim, server: &str) -> Value {
    let answer = shim.call(server, "where", "{}");
    assert!(answer.contains("structuredContent"), "{answer}");
    structured(&answer)["args"][2].clone()
}

fn problems(daemon: &DaemonProcess, project: &Project<'_>) -> String {
    daemon.seen_from(project.path())["problems"].to_string()
}

#[test]
fn servers_of_editors_files_are_held_and_not_shown_twice() {
    let home = Home::new();
    let project = home.project("work");
    for (_, server, file) in EDITORS {
        // Switchboard's own entry is there as well, as `setup` writes it.
        let us = home.entry(Path::new("/usr/bin/switchboard"), &[], &[]);
        put(&project, file, &json!({server: entry(&home, server, "v1"), "switchboard": us}));
    }
    let daemon = home.daemon();
    let all: BTreeSet<String> = EDITORS.iter().map(|(_, server, _)| (*server).to_owned()).collect();
    let mut shims: Vec<(Shim, &str)> =
        EDITORS.iter().map(|(client, server, _)| (editor(&home, project.path(), client), *server)).collect();
    for (shim, own) in &mut shims {
        let mut others = all.clone();
        others.remove(*own);
        // VS Code reads the `.mcp.json` of a project, too.
        if *own == "vscode" {
            others.remove("claude");
        }
        assert_eq!(seen(shim), others, "{own}");
        for (name, tool) in shim.tools() {
            assert!(tool["description"].as_str().unwrap().starts_with("Held"), "{name}: {tool}");
        }
    }
    let mut unknown = editor(&home, project.path(), "somebody");
    assert_eq!(seen(&mut unknown), all);
    assert!(!problems(&daemon, &project).contains("switchboard"), "{}", problems(&daemon, &project));
    for server in &all {
        let answer = unknown.call(server, "where", "{}");
        assert!(text_of(&answer).contains("is held"), "{answer}");
    }
    for order in [&["restart", "zed"][..], &["reload"], &["--dry-run"], &["doctor"], &["status"]] {
        home.command(order);
    }
    assert!(started(&home).is_empty(), "{:?}", started(&home));
    // One after the other is allowed; only these run.
    let mut allowed = BTreeSet::new();
    for (_, server, file) in EDITORS {
        let shown = allow(&project, server);
        assert!(shown.contains(file), "{shown}");
        allowed.insert(server.to_owned());
        until_true(server, TEST_TIMEOUT, || {
            unknown.call(server, "where", "{}").contains("structuredContent")
        });
        assert_eq!(version(&mut unknown, server), "v1");
        assert_eq!(started(&home), allowed);
    }
    for (shim, own) in &mut shims {
        assert!(!seen(shim).contains(*own), "{own}");
        let refused = shim.call(own, "where", "{}");
        assert!(refused.contains(&format!("this host reads server `{own}` itself")), "{refused}");
        let other = if *own == "codex" { "zed" } else { "codex" };
        assert_eq!(version(shim, other), "v1", "{own}");
    }
    let status = said(&home, &["status"]);
    assert!(status.contains("not shown to cursor, where its file is read already"), "{status}");
    // They run in the project's folder, as in their editors.
    let place = structured(&unknown.call("cursor", "where", "{}"))["cwd"].clone();
    assert_eq!(place, json!(project.path()), "{place}");
}

#[test]
fn a_modern_host_is_known_by_each_request() {
    let home = Home::new();
    let project = home.project("work");
    put(&project, ".mcp.json", &json!({"one": entry(&home, "one", "v1")}));
    put(&project, ".cursor/mcp.json", &json!({"two": entry(&home, "two", "v1")}));
    let _daemon = home.daemon();
    let workspace = Some(project.path().to_owned());
    let mut shim = Shim::start(&home, ShimOptions { workspace, ..ShimOptions::default() });
    for (client, shown, hidden) in
        [("claude-code", "two_suite", "one_suite"), ("cursor", "one_suite", "two_suite")]
    {
        let params = json!({"_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": client, "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }});
        let list = shim.request("tools/list", &params.to_string());
        assert!(list.contains(shown) && !list.contains(hidden), "{client}: {list}");
    }
}

#[test]
fn a_host_hears_of_changes_of_what_it_sees() {
    let home = Home::new();
    let project = home.project("work");
    put(&project, ".mcp.json", &json!({"one": entry(&home, "one", "v1")}));
    put(&project, ".cursor/mcp.json", &json!({"two": entry(&home, "two", "v1")}));
    let _daemon = home.daemon();
    let mut shim = editor(&home, project.path(), "claude-code");
    // Nothing has changed for it since.
    seen(&mut shim);
    put(&project, ".vscode/mcp.json", &json!({}));
    home.command(&["reload"]);
    assert_eq!(heard(&mut shim), [""; 0]);
    // A change of what it reads itself is none for it.
    put(
        &project,
        ".mcp.json",
        &json!({"one": entry(&home, "one", "v1"), "more": entry(&home, "more", "v1")}),
    );
    home.command(&["reload"]);
    let mut other = editor(&home, project.path(), "cursor");
    assert_eq!(seen(&mut other), names(&["more", "one"]));
    assert_eq!(heard(&mut shim), [""; 0]);
    assert_eq!(seen(&mut shim), names(&["two"]));
    put(&project, ".cursor/mcp.json", &json!({"three": entry(&home, "three", "v1")}));
    home.command(&["reload"]);
    let heard = heard(&mut shim);
    assert!(heard.iter().any(|line| line.contains(CHANGED)), "{heard:?}");
}

#[test]
fn a_changed_file_is_read_again() {
    for file in [".cursor/mcp.json", ".codex/config.toml", "opencode.json"] {
        let home = Home::new();
        let project = home.project("work");
        let daemon = home.daemon();
        let mut shim = editor(&home, project.path(), "somebody");
        assert_eq!(seen(&mut shim), names(&[]));
        put(&project, file, &json!({"k": entry(&home, "k", "v1")}));
        shim.notification(CHANGED);
        assert!(text_of(&shim.call("k", "where", "{}")).contains("is held"), "{file}");
        allow(&project, "k");
        shim.notification(CHANGED);
        assert_eq!(version(&mut shim, "k"), "v1", "{file}");
        // Another command waits, and the allowed one serves.
        put(&project, file, &json!({"k": entry(&home, "k", "v2")}));
        until_true("the change", TEST_TIMEOUT, || {
            daemon.suite_from(project.path(), "k")["waiting"].is_string()
        });
        assert_eq!(version(&mut shim, "k"), "v1", "{file}");
        allow(&project, "k");
        until_true("v2", TEST_TIMEOUT, || version(&mut shim, "k") == "v2");
        // A broken file keeps its last good version.
        let good = fs::read_to_string(project.path().join(file)).unwrap();
        project.write(file, &good[..good.len() - 4]);
        until_true("the mistake", TEST_TIMEOUT, || problems(&daemon, &project).contains("stays in use"));
        assert_eq!(version(&mut shim, "k"), "v2", "{file}");
        project.write(file, &good);
        until_true("no mistake", TEST_TIMEOUT, || !problems(&daemon, &project).contains("stays in use"));
        fs::remove_file(project.path().join(file)).unwrap();
        comes_to_see(&mut shim, &[]);
        assert_eq!(started(&home), names(&["k"]));
    }
}

#[test]
fn links_out_of_the_project_are_not_followed() {
    let home = Home::new();
    let (project, outside) = (home.project("work"), home.project("outside"));
    for (_, server, file) in EDITORS {
        put(&outside, file, &json!({server: entry(&home, server, "v1")}));
    }
    // Some are links themselves; of others, the folder is one.
    for file in [".mcp.json", "opencode.jsonc", ".cursor", ".codex", ".continue"] {
        symlink(outside.path().join(file), project.path().join(file)).unwrap();
    }
    fs::create_dir(project.path().join(".vscode")).unwrap();
    symlink(outside.path().join(".vscode/mcp.json"), project.path().join(".vscode/mcp.json")).unwrap();
    let daemon = home.daemon();
    let mut shim = editor(&home, project.path(), "somebody");
    assert_eq!(seen(&mut shim), names(&[]));
    let told = problems(&daemon, &project);
    for file in [".mcp.json", ".vscode/mcp.json", "opencode.jsonc"] {
        assert!(told.contains(&format!("{file}: leads out")), "{told}");
    }
    // A link that stays inside is one way to the file.
    fs::remove_file(project.path().join(".cursor")).unwrap();
    put(&project, "editors/mcp.json", &json!({"inside": entry(&home, "inside", "v1")}));
    symlink(project.path().join("editors"), project.path().join(".cursor")).unwrap();
    comes_to_see(&mut shim, &["inside"]);
}

#[test]
fn the_users_own_files_are_never_files_of_a_project() {
    let home = Home::new();
    for (_, server, file) in EDITORS {
        home.write(file, &text(file, &json!({server: entry(&home, server, "v1")})));
    }
    home.write(
        ".config/opencode/opencode.json",
        &text("opencode.json", &json!({"o": entry(&home, "o", "v1")})),
    );
    fs::create_dir_all(home.path().join("plain/deep")).unwrap();
    // A repository with the user's settings, which HOME links to.
    home.write("dotfiles/.gemini/settings.json", "{}");
    fs::remove_file(home.path().join(".gemini/settings.json")).unwrap();
    home.write(
        "dotfiles/.gemini/settings.json",
        &text(".gemini/settings.json", &json!({"g": entry(&home, "g", "v1")})),
    );
    symlink(home.path().join("dotfiles/.gemini/settings.json"), home.path().join(".gemini/settings.json"))
        .unwrap();
    let _daemon = home.daemon();
    for folder in ["", "plain", "plain/deep", ".cursor", ".config", ".config/opencode", "dotfiles"] {
        let mut shim = editor(&home, &home.path().join(folder), "somebody");
        assert_eq!(seen(&mut shim), names(&[]), "{folder}");
    }
    assert!(started(&home).is_empty());
}

#[test]
fn a_file_of_an_editor_marks_the_project() {
    let home = Home::new();
    let project = home.project("work");
    put(&project, ".cursor/mcp.json", &json!({"k": entry(&home, "k", "v1")}));
    put(&project, "mono/mcps/x/.mcp.json", &json!({"x": entry(&home, "x", "v1")}));
    put(&project, "mono/part/.mcp.json", &json!({"part": entry(&home, "part", "v1")}));
    project.write("src/deep/x", "");
    let _daemon = home.daemon();
    for (folder, expect) in [("src/deep", "k"), (".cursor", "k"), ("mono/part", "x"), ("mono/mcps/x", "x")] {
        let mut shim = editor(&home, &project.path().join(folder), "somebody");
        assert_eq!(seen(&mut shim), names(&[expect]), "{folder}");
    }
}

#[test]
fn project_files_can_be_turned_off() {
    let home = Home::new();
    let project = home.project("work");
    put(&project, ".mcp.json", &json!({"k": entry(&home, "k", "v1")}));
    project.write("src/x", "");
    let daemon = home.daemon();
    let mut shim = editor(&home, project.path(), "somebody");
    assert_eq!(seen(&mut shim), names(&["k"]));
    project.config(&json!({"projectFiles": false}));
    comes_to_see(&mut shim, &[]);
    fs::remove_file(project.path().join("switchboard.config.json")).unwrap();
    comes_to_see(&mut shim, &["k"]);
    // The user's word counts everywhere; a project cannot take it back.
    home.config(&json!({"projectFiles": false}));
    comes_to_see(&mut shim, &[]);
    project.config(&json!({"projectFiles": true}));
    home.command(&["reload"]);
    assert_eq!(seen(&mut shim), names(&[]));
    assert!(!daemon.seen_from(&project.path().join("src"))["suites"].to_string().contains('k'));
    // What is no flag reads nothing.
    home.config(&json!({"projectFiles": "yes"}));
    until_true("the mistake", TEST_TIMEOUT, || {
        daemon.status()["problems"].to_string().contains("projectFiles")
    });
    assert_eq!(seen(&mut shim), names(&[]));
}

#[test]
fn one_server_in_two_files_is_one_suite() {
    let home = Home::new();
    let project = home.project("work");
    let (same, other) = (entry(&home, "k", "v1"), entry(&home, "k", "v2"));
    put(&project, ".mcp.json", &json!({"k": same, "clash": same}));
    put(&project, ".cursor/mcp.json", &json!({"k": same, "clash": other}));
    let daemon = home.daemon();
    let mut unknown = editor(&home, project.path(), "somebody");
    assert_eq!(seen(&mut unknown), names(&["clash"]));
    put(&project, ".mcp.json", &json!({"k": same}));
    comes_to_see(&mut unknown, &["clash", "k"]);
    assert!(!problems(&daemon, &project).contains("already defined"), "{}", problems(&daemon, &project));
    // Each of the two has it already.
    for (client, expect) in [("claude-code", &["clash"][..]), ("cursor", &[]), ("Zed", &["clash", "k"])] {
        assert_eq!(seen(&mut editor(&home, project.path(), client)), names(expect), "{client}");
    }
    put(&project, ".mcp.json", &json!({"k": same, "clash": entry(&home, "k", "v3")}));
    until_true("the clash", TEST_TIMEOUT, || {
        let told = problems(&daemon, &project);
        told.contains(".cursor/mcp.json") && told.contains("`clash` is already defined in `")
    });
    let explained = said(&home, &["explain", "k"]);
    assert!(
        explained.contains("Claude Code, Cursor, VS Code and Copilot CLI are not shown it"),
        "{explained}"
    );
}

#[test]
fn a_file_that_a_glob_finds_is_shown_to_every_editor() {
    let home = Home::new();
    let project = home.project("work");
    project.config(&json!({"discoverGlobs": [".mcp.json"]}));
    put(&project, ".mcp.json", &json!({"k": entry(&home, "k", "v1")}));
    let _daemon = home.daemon();
    assert_eq!(seen(&mut editor(&home, project.path(), "claude-code")), names(&["k"]));
}

#[test]
fn every_editors_way_of_writing_is_read() {
    let home = Home::new();
    let project = home.project("work");
    project.write(
        ".codex/config.toml",
        "[mcp_servers.far]\nurl = \"https://h.example/mcp\"\nbearer_token_env_var = \"FAR_TOKEN\"\nenv_http_headers = { \"X-Team\" = \"TEAM\" }\n[mcp_servers.text]\ncommand = \"run\"\nargs = [\"${HOME}\", \"$A\"]\ntool_timeout_sec = 1_20\n[mcp_servers.off]\ncommand = \"x\"\nenabled = false\n",
    );
    project.write(
        ".gemini/settings.json",
        r#"{"mcpServers": {"dollar": {"command": "run", "args": ["$A/x", "${B}", "5$", "$1"]}, "events": {"url": "https://h.example/sse"}}}"#,
    );
    project.write(
        ".zed/settings.json",
        "// settings\n{\"context_servers\": {\"z\": {\"command\": \"run\", \"args\": [\"${A}\"]},},}",
    );
    project.write(".vscode/mcp.json", r#"{"servers": {"v": {"command": "${workspaceFolder}/run", "args": ["${input:i}"]}}, "inputs": [{"id": "i", "default": "d"}]}"#);
    let explain = |name: &str| said(&home, &["explain", name]);
    let root = project.path().display().to_string();
    for (name, parts) in [
        ("far", &["https://h.example/mcp", "FAR_TOKEN", "TEAM"][..]),
        ("text", &["run '${HOME}' '$A'"]),
        ("dollar", &["'${A}/x' '${B}' '5$' '$1'"]),
        ("events", &["sse"]),
        ("z", &["run '${A}'"]),
        ("v", &["/run '${input:i:-d}'", root.as_str()]),
    ] {
        let told = explain(name);
        assert!(parts.iter().all(|part| told.contains(part)), "{name}: {told}");
    }
    assert!(!explain("text").contains("needs"), "{}", explain("text"));
    assert!(explain("dollar").contains("needs     A "), "{}", explain("dollar"));
    assert!(explain("off").contains("there is no suite or server `off`"));
    let checked = said(&home, &["check", ".codex/config.toml"]);
    assert!(checked.contains("far") && !checked.contains("neither"), "{checked}");
}

#[test]
fn doctor_and_import_name_what_is_read_and_what_is_not() {
    let home = Home::new();
    let project = home.project("work");
    put(&project, ".cursor/mcp.json", &json!({"k": entry(&home, "k", "v1")}));
    project.write(".continue/mcpServers/own.yaml", "mcpServers:\n  - name: y\n    command: y\n");
    let told = said(&home, &["doctor"]);
    assert!(told.contains("own.yaml is not read"), "{told}");
    let all: Value = serde_json::from_str(&said(&home, &["doctor", "--json"])).unwrap();
    let held = all["findings"].as_array().unwrap().iter().find(|one| one["about"] == "held").unwrap();
    assert!(held["what"].as_str().unwrap().contains(".cursor/mcp.json, which Cursor reads"), "{held}");
    let told = said(&home, &["import", "--dry-run"]);
    assert!(
        told.contains("not imported: k of this project, which Switchboard reads from .cursor/mcp.json"),
        "{told}"
    );
    assert!(said(&home, &["explain", "k"]).contains("Cursor is not shown it"));
    project.config(&json!({"projectFiles": false}));
    let told = said(&home, &["doctor", "--json"]);
    assert!(told.contains("`projectFiles` is false in"), "{told}");
    assert!(!said(&home, &["import", "--dry-run"]).contains("not imported"));
}

#[test]
fn a_personal_server_can_be_for_some_projects_only() {
    let home = Home::new();
    home.child("mine", &["echo", "v1"]);
    home.child("wide", &["echo"]);
    let (one, two) = (home.project("one"), home.project("two"));
    one.child("own", &[]);
    fs::create_dir_all(one.path().join("below/mcps")).unwrap();
    // The folder may be named through a link.
    let link = home.path().join("link");
    symlink(one.path(), &link).unwrap();
    home.config(&json!({"suites": {"mine": {"workspaces": [link]}}}));
    let daemon = home.daemon();
    let mut in_one = editor(&home, one.path(), "somebody");
    let mut in_two = editor(&home, two.path(), "somebody");
    assert_eq!(seen(&mut in_one), names(&["mine", "own", "wide"]));
    assert_eq!(seen(&mut editor(&home, &one.path().join("below"), "x")), names(&["mine", "wide"]));
    assert_eq!(seen(&mut in_two), names(&["wide"]));
    assert_eq!(seen(&mut editor(&home, &home.path(), "x")), names(&["wide"]));
    assert_eq!(version(&mut in_one, "mine"), "v1");
    let why = "server `mine` is not shown in this project (`suites.mine.workspaces`)";
    let refused = in_two.call("mine", "where", "{}");
    assert!(refused.contains(why) && !refused.contains(one.path().to_str().unwrap()), "{refused}");
    let alone = daemon.endpoint().post("/proxy/mine", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).text();
    assert!(alone.contains(why) && !alone.contains(one.path().to_str().unwrap()), "{alone}");
    assert!(!daemon.status()["suites"].to_string().contains("mine"));
    let of_one = daemon.status()["workspaces"].to_string();
    assert!(of_one.contains("mine_suite"), "{of_one}");
    assert!(said(&home, &["explain", "mine"]).contains("shown in  sessions of"));
    // A project's server of that name is used where the user's is not shown, under another name.
    two.child("mine", &["of two"]);
    two.child("other", &[]);
    two.config(&json!({"suites": {"other": {"suiteName": "mine_suite_write"}}}));
    until_true("two servers more", TEST_TIMEOUT, || seen(&mut in_two).len() == 3);
    let of_two: Vec<String> = in_two.tools().into_keys().filter(|name| name != "wide_suite").collect();
    assert!(of_two[0].starts_with("mine_") && of_two[0] != "mine_suite", "{of_two:?}");
    assert_eq!(of_two[1], "other_suite");
    let call = json!({"name": of_two[0], "arguments": {"action": "call", "subtool": "where", "args": {}}});
    assert!(text_of(&in_two.request("tools/call", &call.to_string())).contains("is held"));
    fs::remove_dir_all(two.path().join("mcps")).unwrap();
    fs::remove_file(two.path().join("switchboard.config.json")).unwrap();
    comes_to_see(&mut in_two, &["wide"]);
    // The list changes with the setting.
    home.config(&json!({"suites": {"mine": {"workspaces": [two.path()]}}}));
    comes_to_see(&mut in_one, &["own", "wide"]);
    until_true("the other project", TEST_TIMEOUT, || {
        in_two.call("mine", "where", "{}").contains("structuredContent")
    });
    // A mistake is reported, and the last good setting counts.
    home.config(&json!({"suites": {"mine": {"workspaces": "all"}}}));
    until_true("the mistake", TEST_TIMEOUT, || {
        daemon.status()["problems"].to_string().contains("workspaces")
    });
    assert_eq!(seen(&mut in_one), names(&["own", "wide"]));
    // A project says nothing of this.
    one.config(&json!({"suites": {"own": {"workspaces": ["/"]}}}));
    until_true("the refusal", TEST_TIMEOUT, || {
        problems(&daemon, &one).contains("`workspaces` is for the personal config only")
    });
}

#[test]
fn servers_of_one_project_stay_that_projects_after_import() {
    let home = Home::new();
    let (one, two) = (home.project("one"), home.project("two"));
    let server = |args: &[&str]| home.entry(&bins().evil_child, &[&["echo"], args].concat(), &[]);
    let far = json!({"type": "http", "url": "https://h.example/mcp"});
    let claude = json!({
        "mcpServers": {"wide": server(&["wide"])},
        "projects": {
            one.path().to_str().unwrap(): {"mcpServers": {"db": server(&["one"]), "far": far}},
            two.path().to_str().unwrap(): {"mcpServers": {"db": server(&["two"]), "far": far}},
        },
    });
    home.write(".claude.json", &claude.to_string());
    let shim = bins().switchboard.to_str().unwrap();
    home.run_ok(&["setup", "--yes", "--host", "claude-code", "--shim", shim]);
    let daemon = home.daemon();
    let output = home.command(&["import", "--remove", "--yes"]);
    // `far` does not answer.
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(told.contains("far stays in Claude Code: it did not start"), "{told}");
    assert!(told.contains(&format!("it is shown in {} only (`workspaces`)", one.path().display())), "{told}");
    assert!(told.contains(&format!("it is shown in {}, too", two.path().display())), "{told}");
    let config = fs::read_to_string(home.config_folder().join("switchboard.config.json")).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    let folders = |name: &str| config["suites"][name]["workspaces"].clone();
    assert_eq!(folders("far"), json!([one.path(), two.path()]), "{config}");
    assert_eq!((folders("db"), folders("db-2")), (json!([one.path()]), json!([two.path()])), "{config}");
    assert!(folders("wide").is_null());
    assert!(told.contains("db: it was started once") && told.contains("db-2: it was started once"), "{told}");
    let mut in_one = editor(&home, one.path(), "claude-code");
    let mut in_two = editor(&home, two.path(), "claude-code");
    assert_eq!(seen(&mut in_one), names(&["db", "far", "wide"]));
    assert_eq!(seen(&mut in_two), names(&["db-2", "far", "wide"]));
    assert_eq!(version(&mut in_one, "db"), "one");
    assert_eq!(version(&mut in_two, "db-2"), "two");
    // Another run finds nothing new, and a server for all projects is not the one of some.
    home.write(".cursor/mcp.json", &json!({"mcpServers": {"far": far}}).to_string());
    let again = said(&home, &["import", "--yes", "--no-start"]);
    assert!(again.contains("imported as `far-2`"), "{again}");
    until_true("the new one", TEST_TIMEOUT, || daemon.status()["suites"].to_string().contains("far-2"));
}

#[test]
fn a_key_of_any_length_stops_neither_the_daemon_nor_a_command() {
    let home = Home::new();
    let project = home.project("work");
    put(&project, ".mcp.json", &json!({"k": entry(&home, "k", "v1")}));
    let daemon = home.daemon();
    let mut shim = editor(&home, project.path(), "somebody");
    for parts in [700, 5_000, 400_000] {
        let key = vec!["a"; parts].join(".");
        for text in [format!("{key} = 1\n"), format!("[{key}]\n"), format!("x = {{ {key} = 1 }}\n")] {
            let file = project.write(".codex/config.toml", &text);
            let told = said(&home, &["check", file.to_str().unwrap()]);
            assert!(told.contains("nested deeper than 64 levels"), "{parts}: {told}");
            home.run_ok(&["reload"]);
            assert!(problems(&daemon, &project).contains("nested deeper"), "{parts}");
        }
    }
    assert_eq!(seen(&mut shim), names(&["k"]));
}

#[test]
fn files_in_folders_that_are_made_first_are_noticed() {
    let home = Home::new();
    let project = home.project("work");
    let _daemon = home.daemon();
    let mut shim = editor(&home, project.path(), "somebody");
    let mut expect = BTreeSet::new();
    for (file, server) in [
        (".cursor/mcp.json", "cursor"),
        (".junie/mcp/mcp.json", "junie"),
        (".continue/mcpServers/own.json", "continue"),
        ("mcps/x/.mcp.json", "x"),
    ] {
        let mut made = project.path().to_owned();
        for folder in Path::new(file).parent().unwrap() {
            made.push(folder);
            fs::create_dir(&made).unwrap();
            std::thread::sleep(PAUSE);
        }
        put(&project, file, &json!({server: entry(&home, server, "v1")}));
        expect.insert(server.to_owned());
        until_true(file, Duration::from_secs(10), || seen(&mut shim) == expect);
    }
    // The user's own, too.
    let folder = home.config_folder().join("mcps/own");
    fs::create_dir_all(&folder).unwrap();
    std::thread::sleep(PAUSE);
    fs::write(
        folder.join(".mcp.json"),
        json!({"mcpServers": {"own": entry(&home, "own", "v1")}}).to_string(),
    )
    .unwrap();
    expect.insert("own".to_owned());
    until_true("own", Duration::from_secs(10), || seen(&mut shim) == expect);
}

#[test]
fn a_session_below_a_new_project_joins_it_at_a_reload() {
    let home = Home::new();
    let project = home.project("work");
    project.write("sub/x", "");
    let _daemon = home.daemon();
    let sub = project.path().join("sub");
    let mut shim = editor(&home, &sub, "somebody");
    assert_eq!(seen(&mut shim), names(&[]));
    put(&project, ".mcp.json", &json!({"k": entry(&home, "k", "v1")}));
    assert_eq!(seen(&mut editor(&home, &sub, "somebody")), names(&["k"]));
    home.run_ok(&["reload"]);
    shim.notification(CHANGED);
    assert_eq!(seen(&mut shim), names(&["k"]));
    fs::remove_file(project.path().join(".mcp.json")).unwrap();
    home.run_ok(&["reload"]);
    comes_to_see(&mut shim, &[]);
}

#[test]
fn a_file_above_the_folder_of_an_editor_hides_only_what_it_searches_for() {
    let home = Home::new();
    let project = home.project("work");
    put(&project, ".mcp.json", &json!({"claude": entry(&home, "claude", "v1")}));
    put(&project, ".cursor/mcp.json", &json!({"cursor": entry(&home, "cursor", "v1")}));
    project.write("sub/x", "");
    let _daemon = home.daemon();
    for (client, at_root, below) in [
        ("cursor-vscode", &["claude"][..], &["claude", "cursor"][..]),
        ("Visual Studio Code", &["cursor"], &["claude", "cursor"]),
        ("claude-code", &["cursor"], &["cursor"]),
    ] {
        assert_eq!(seen(&mut editor(&home, project.path(), client)), names(at_root), "{client}");
        assert_eq!(seen(&mut editor(&home, &project.path().join("sub"), client)), names(below), "{client}");
    }
}

#[test]
fn a_limited_server_is_known_after_a_restart() {
    let home = Home::new();
    home.child("mine", &["echo"]);
    home.child("warm", &["echo"]);
    let project = home.project("work");
    let only_here = |pool: Value| json!({"workspaces": [project.path()], "pool": pool});
    home.config(&json!({"suites": {"mine": only_here(json!({})), "warm": only_here(json!({"warm": 1}))}}));
    let mut daemon = home.daemon();
    let mut shim = editor(&home, project.path(), "somebody");
    for server in ["mine", "warm"] {
        assert!(shim.call(server, "where", "{}").contains("structuredContent"));
    }
    let known = |daemon: &DaemonProcess| daemon.suite_from(project.path(), "mine")["subtools"].as_u64();
    until_true("its tools", TEST_TIMEOUT, || known(&daemon).is_some_and(|tools| tools > 10));
    let described = |shim: &mut Shim| shim.tools()["mine_suite"]["description"].clone();
    until_true("its description", TEST_TIMEOUT, || described(&mut shim).to_string().contains("received"));
    drop(shim);
    daemon.signal(rustix::process::Signal::TERM);
    daemon.ended(TEST_TIMEOUT);
    drop(daemon);
    let daemon = home.daemon();
    let mut shim = editor(&home, project.path(), "somebody");
    assert!(described(&mut shim).to_string().contains("received"), "{}", described(&mut shim));
    assert!(known(&daemon).is_some_and(|tools| tools > 10), "{:?}", known(&daemon));
    until_true("the spare", TEST_TIMEOUT, || !home.children().is_empty());
    assert_eq!(home.children().len(), 1);
}

#[test]
fn nothing_tells_of_a_limited_server_without_a_token() {
    let home = Home::new();
    home.child("mine", &["echo"]);
    home.child("everywhere", &["echo"]);
    let (one, two) = (home.project("one"), home.project("two"));
    home.config(&json!({"suites": {"mine": {"workspaces": [one.path()]}}}));
    let daemon = home.daemon_on_tcp();
    let (tcp, token) = (daemon.tcp(), daemon.token());
    for path in ["/suites/", "/proxy/"] {
        let get = |name: &str| Request::new("GET", &format!("{path}{name}"));
        let answer = |name: &str| {
            let found = tcp.send(&get(name));
            (found.status, found.text().replace(name, "NAME"))
        };
        assert_eq!(answer("mine"), answer("none"));
        assert_eq!(answer("mine_suite").1, answer("none_suite").1);
        let told = tcp.send(&get("mine").bearer(&token)).text();
        assert!(told.contains("not shown in this project"), "{told}");
        assert!(!told.contains(one.path().to_str().unwrap()), "{told}");
    }
    let told = editor(&home, two.path(), "somebody").call("mine", "where", "{}");
    assert!(told.contains("not shown in this project"), "{told}");
}

#[test]
fn deny_counts_for_every_file_with_the_same_server() {
    let home = Home::new();
    let project = home.project("work");
    let same = json!({"k": entry(&home, "k", "v1")});
    put(&project, ".mcp.json", &same);
    let _daemon = home.daemon();
    let mut shim = editor(&home, project.path(), "somebody");
    assert_eq!(seen(&mut shim), names(&["k"]));
    // A copy that comes later changes nothing.
    home.run_ok(&["deny", "k"]);
    comes_to_see(&mut shim, &[]);
    put(&project, ".cursor/mcp.json", &same);
    home.run_ok(&["reload"]);
    assert_eq!(seen(&mut shim), names(&[]));
    allow(&project, "k");
    comes_to_see(&mut shim, &["k"]);
    assert_eq!(version(&mut shim, "k"), "v1");
    // Both are denied, also if both were allowed.
    home.run_ok(&["deny", "k"]);
    comes_to_see(&mut shim, &[]);
    fs::remove_file(project.path().join(".mcp.json")).unwrap();
    home.run_ok(&["reload"]);
    assert_eq!(seen(&mut shim), names(&[]));
    allow(&project, "k");
    put(&project, ".mcp.json", &same);
    allow(&project, "k");
    comes_to_see(&mut shim, &["k"]);
    home.run_ok(&["deny", "k"]);
    comes_to_see(&mut shim, &[]);
}

#[test]
fn the_second_of_two_servers_of_one_name_can_be_approved() {
    let home = Home::new();
    let project = home.project("work");
    put(&project, ".mcp.json", &json!({"k": entry(&home, "k", "first")}));
    let file = put(&project, ".cursor/mcp.json", &json!({"k": entry(&home, "k", "second")}));
    let _daemon = home.daemon();
    let mut shim = editor(&home, project.path(), "somebody");
    assert_eq!(seen(&mut shim), names(&["k"]));
    let list = said(&home, &["allow", "--list"]);
    assert!(list.contains(".mcp.json)") && list.contains(".cursor/mcp.json)"), "{list}");
    // The first one asks first; after a no, the other one does.
    let screen = project.on_terminal(&["allow", "k"], "n\nn\n");
    assert!(screen.text.contains("echo first") && screen.text.contains("echo second"), "{}", screen.text);
    let told = allow(&project, file.to_str().unwrap());
    assert_eq!(told.matches("is already defined in").count(), 1, "{told}");
    until_true("the second", TEST_TIMEOUT, || shim.call("k", "where", "{}").contains("structuredContent"));
    assert_eq!(version(&mut shim, "k"), "second");
}

#[test]
fn import_leaves_servers_of_folders_that_are_no_projects() {
    let home = Home::new();
    let project = home.project("work");
    put(&project, ".mcp.json", &json!({}));
    project.write("sub/x", "");
    let (here, sub) = (home.path(), project.path().join("sub"));
    let server = |name: &str| json!({"mcpServers": {name: entry(&home, name, "v1")}});
    let claude = json!({"projects": {
        here.to_str().unwrap(): server("of-home"),
        "/": server("of-root"),
        sub.to_str().unwrap(): server("of-sub"),
        project.path().to_str().unwrap(): server("of-work"),
    }});
    let file = home.write(".claude.json", &claude.to_string());
    let told = said(&home, &["import", "--remove", "--yes", "--no-start"]);
    for (name, why) in [
        ("of-home", "which cannot be a project of Switchboard; it stays where it is"),
        ("of-root", "which cannot be a project of Switchboard; it stays where it is"),
        ("of-sub", "whose sessions belong to the project"),
    ] {
        let line = told.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        assert!(line.contains("skipped: it is for") && line.contains(why), "{name}: {told}");
    }
    let left: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    for (folder, name) in [(here.as_path(), "of-home"), (Path::new("/"), "of-root"), (&sub, "of-sub")] {
        assert!(left["projects"][folder.to_str().unwrap()]["mcpServers"][name].is_object(), "{left}");
    }
    let config = fs::read_to_string(home.config_folder().join("switchboard.config.json")).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    assert_eq!(config["suites"], json!({"of-work": {"workspaces": [project.path()]}}));
}

/// For each editor with limits of its own: the file, its server, the limit in the entry and at the top of the file, and
/// what `allow` shows of it. All of them forbid `env`.
const LIMITS: [(&str, &str, &str, &str, &str); 8] = [
    (".cursor/mcp.json", "cursor", r#"{"disabledTools": ["env"]}"#, "{}", "not: env"),
    (".roo/mcp.json", "roo", r#"{"disabledTools": ["env"]}"#, "{}", "not: env"),
    (".github/mcp.json", "copilot", r#"{"tools": ["where"]}"#, "{}", "only: where"),
    (
        ".gemini/settings.json",
        "gemini",
        r#"{"includeTools": ["where(x)", "env"], "excludeTools": ["env"]}"#,
        "{}",
        "only: env, where; not: env",
    ),
    (".qwen/settings.json", "qwen", r#"{"excludeTools": ["env"]}"#, "{}", "not: env"),
    (
        "opencode.json",
        "opencode",
        "{}",
        r#"{"tools": {"opencode_e*": false, "opencode_echo": true}}"#,
        "not: e*",
    ),
    (
        "opencode.jsonc",
        "open",
        "{}",
        r#"{"permission": {"open_*": "deny", "open_where": "allow"}}"#,
        "only: where",
    ),
    (
        ".junie/mcp/mcp.json",
        "junie",
        r#"{"enabled_tools": ["where", "echo"], "disabled_tools": []}"#,
        "{}",
        "only: echo, where",
    ),
];

/// A file with one server and these limits.
fn limited(home: &Home, file: &str, server: &str, in_entry: &str, on_top: &str) -> String {
    let mut whole: Value =
        serde_json::from_str(&text(file, &json!({server: entry(home, server, "v1")}))).unwrap();
    let key = if file.starts_with("opencode") { "mcp" } else { "mcpServers" };
    let add = |object: &mut Value, more: &str| {
        let more: Value = serde_json::from_str(more).unwrap();
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    };
    add(&mut whole[key][server], in_entry);
    add(&mut whole, on_top);
    whole.to_string()
}

#[test]
fn what_a_project_file_forbids_is_forbidden_everywhere() {
    let home = Home::new();
    let project = home.project("work");
    for (file, server, in_entry, on_top, _) in LIMITS {
        project.write(file, &limited(&home, file, server, in_entry, on_top));
    }
    let codex = text(".codex/config.toml", &json!({"codex": entry(&home, "codex", "v1")}));
    let limits = "\ndisabled_tools = [\"env\"]\nenabled_tools = [\"where\", \"env\"]\n";
    project.write(
        ".codex/config.toml",
        &codex.replace("\n[mcp_servers.codex.env]", &format!("{limits}[mcp_servers.codex.env]")),
    );
    let _daemon = home.daemon();
    let mut shim = editor(&home, project.path(), "somebody");
    let codex = (".codex/config.toml", "codex", "", "", "only: env, where; not: env");
    for (_, server, _, _, shown) in LIMITS.into_iter().chain([codex]) {
        let told = allow(&project, server);
        assert!(told.contains(&format!("  tools     {shown}")), "{server}: {told}");
        until_true(server, TEST_TIMEOUT, || shim.call(server, "where", "{}").contains("structuredContent"));
        let refused = shim.call(server, "env", "{}");
        assert!(
            refused.contains("\"isError\":true") && !refused.contains("structuredContent"),
            "{server}: {refused}"
        );
        assert!(said(&home, &["explain", server]).contains(shown), "{server}");
    }
}

#[test]
fn looser_limits_of_a_project_file_need_consent() {
    let home = Home::new();
    let project = home.project("work");
    let file = ".cursor/mcp.json";
    let limit = |tools: &str| {
        project.write(file, &limited(&home, file, "k", &format!(r#"{{"disabledTools": {tools}}}"#), "{}"));
        home.run_ok(&["reload"]);
    };
    project.write(file, &limited(&home, file, "k", r#"{"disabledTools": ["env"]}"#, "{}"));
    let daemon = home.daemon();
    let mut shim = editor(&home, project.path(), "somebody");
    allow(&project, "k");
    until_true("k", TEST_TIMEOUT, || shim.call("k", "where", "{}").contains("structuredContent"));
    let mut runs = |tool: &str| shim.call("k", tool, "{}").contains("structuredContent");
    // Stricter ones count at once.
    limit(r#"["env", "received"]"#);
    assert!(runs("where") && !runs("env") && !runs("received"));
    limit("[]");
    assert!(runs("where") && !runs("env"));
    assert!(daemon.suite_from(project.path(), "k")["waiting"].is_string());
    assert!(said(&home, &["allow", "--list"]).contains("waiting   k"));
    let told = allow(&project, "k");
    assert!(told.contains("  changed   tools: not: env → all"), "{told}");
    until_true("env", TEST_TIMEOUT, || runs("env"));
    // What is not understood forbids the server, and the last valid version stays in use.
    limit(r#""env""#);
    assert!(runs("where"));
    assert!(problems(&daemon, &project).contains("disabledTools"), "{}", problems(&daemon, &project));
    project
        .write(".roo/mcp.json", &limited(&home, ".roo/mcp.json", "odd", r#"{"disabledTools": "env"}"#, "{}"));
    home.run_ok(&["reload"]);
    let told = said(&home, &["explain", "odd"]);
    assert!(told.contains("its `disabledTools` is not understood"), "{told}");
}

#[test]
fn limits_of_both_files_hold_for_one_server() {
    let home = Home::new();
    let project = home.project("work");
    put(&project, ".mcp.json", &json!({"k": entry(&home, "k", "v1")}));
    project.write(
        ".cursor/mcp.json",
        &limited(&home, ".cursor/mcp.json", "k", r#"{"disabledTools": ["env"]}"#, "{}"),
    );
    let _daemon = home.daemon();
    let mut shim = editor(&home, project.path(), "somebody");
    allow(&project, "k");
    until_true("k", TEST_TIMEOUT, || shim.call("k", "where", "{}").contains("structuredContent"));
    let refused = shim.call("k", "env", "{}");
    assert!(!refused.contains("structuredContent"), "{refused}");
    home.run_ok(&["reload"]);
    assert!(!said(&home, &["allow", "--list"]).contains("waiting"));
}

#[test]
fn the_only_root_of_an_editor_that_starts_in_home_is_its_project() {
    let home = Home::new();
    home.child("mine", &["echo"]);
    home.config(&json!({"suites": {"mine": {"pool": {"scope": "workspace"}}}}));
    let (one, two) = (home.project("one"), home.project("two"));
    put(&one, ".mcp.json", &json!({"k": entry(&home, "k", "v1")}));
    let _daemon = home.daemon();
    for (folders, expect) in [(&[one.path()][..], &["k", "mine"][..]), (&[one.path(), two.path()], &["mine"])]
    {
        let workspace = Some(home.path());
        let mut shim = Shim::start(&home, ShimOptions { workspace, ..ShimOptions::default() });
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": {"roots": {"listChanged": true}},
            "clientInfo": {"name": "somebody", "version": "1"},
        });
        shim.initialize_as(&hello.to_string());
        let question = shim.notification("roots/list");
        let roots: Vec<_> =
            folders.iter().map(|folder| json!({"uri": format!("file://{}", folder.display())})).collect();
        shim.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": roots}}).to_string());
        comes_to_see(&mut shim, expect);
        let is_served = |shim: &mut Shim| shim.call("mine", "where", "{}").contains("structuredContent");
        match folders.len() {
            1 => until_true("the project", TEST_TIMEOUT, || is_served(&mut shim)),
            _ => assert!(!is_served(&mut shim)),
        }
    }
}
