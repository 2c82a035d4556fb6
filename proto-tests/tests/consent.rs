//! Consent that can be read, given for many at once, and taken back.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::fs;

use proto_tests::shim::{kind_of, structured, text_of};
use proto_tests::wait::until_true;
use proto_tests::{Home, Project, Shim, TEST_TIMEOUT, Terminal, bins};
use serde_json::{Value, json};

fn told(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
}

fn list(home: &Home) -> Value {
    serde_json::from_slice(&home.command(&["allow", "--list", "--json"]).stdout).unwrap()
}

#[test]
fn allow_names_the_files_of_the_project_that_would_be_used() {
    let home = Home::new();
    let project = home.project("work");
    project.write("tools/x.py", "print()");
    project.write("hook.js", "");
    project.write("package.json", "{}");
    let shows = |entry: &Value, files: &[&str]| {
        let _ = fs::remove_dir_all(project.path().join("mcps"));
        project.define("k", entry);
        let text = project.on_terminal(&["allow"], "n\n").text;
        let named: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("  project   ")?.split_once(" is a file of this project"))
            .map(|(file, _)| file)
            .collect();
        assert_eq!(named, files, "{text}");
        assert_eq!(text.contains("you approve the path, not the contents"), !files.is_empty(), "{text}");
    };
    let run = bins().evil_child.to_str().unwrap();
    shows(&json!({"command": run, "args": ["echo", "v1"]}), &[]);
    shows(&json!({"command": run, "args": ["../../tools/x.py"]}), &["tools/x.py"]);
    shows(&json!({"command": run, "args": ["tools/x.py"], "cwd": "../.."}), &["tools/x.py"]);
    let entry = json!({"command": run, "args": ["a"], "cwd": "../..", "env": {"NODE_OPTIONS": "--require ./hook.js"}});
    shows(&entry, &["hook.js"]);
    fs::copy(&bins().evil_child, project.path().join("server")).unwrap();
    shows(&json!({"command": "../../server", "args": ["echo"]}), &["server"]);
    fs::copy(&bins().evil_child, project.path().join("npm")).unwrap();
    shows(&json!({"command": "./npm", "args": ["start"], "cwd": "../.."}), &["npm", "package.json"]);
}

/// What is in a file of the project is not part of what is allowed: the words of `allow` are true.
#[test]
fn a_changed_file_of_the_project_runs_without_a_new_question() {
    let home = Home::new();
    let project = home.project("work");
    let trace = home.path().join("trace");
    let script = project.write("server.sh", "exit 1\n");
    project.define("k", &home.entry("/bin/sh".as_ref(), &["../../server.sh"], &[]));
    let text = project.allow().text;
    assert!(text.contains("  project   server.sh is a file of this project"), "{text}");
    fs::write(script, format!("touch {}\nexec {} echo\n", trace.display(), bins().evil_child.display()))
        .unwrap();
    let _daemon = home.daemon();
    assert!(structured(&project.mute_shim().call("k", "where", "{}")).is_object());
    assert!(trace.exists());
}

#[test]
fn all_asks_once_for_each_project() {
    let home = Home::new();
    let projects: Vec<Project<'_>> = ["work", "p1", "p2"].map(|name| home.project(name)).into();
    let daemon = home.daemon();
    for project in &projects {
        for name in ["a", "b"] {
            project.child(name, &["v1"]);
        }
    }
    // A project is known by a session in it, by an earlier decision, or because the command runs there.
    let shim = projects[1].mute_shim();
    let file = projects[2].path().join("mcps/b/.mcp.json");
    home.run_ok(&["deny", file.to_str().unwrap()]);
    let mut terminal = Terminal::start(&home, projects[0].path(), &["allow", "--all"], &[]);
    let mut asked = Vec::new();
    for keys in ["y\n", "n\n", "y\n"] {
        assert!(terminal.shows("[y/N] "));
        terminal.type_in(keys);
        asked.push(keys);
    }
    let screen = terminal.end();
    assert_eq!(screen.code, Some(4), "{}", screen.text);
    let text = &screen.text;
    assert_eq!(text.matches("[y/N] ").count(), 3, "{text}");
    for (project, count) in [(&projects[0], 2), (&projects[1], 2), (&projects[2], 1)] {
        let servers = if count == 1 { "1 server" } else { "2 servers" };
        assert!(text.contains(&format!("project {}: {servers}\n", project.path().display())), "{text}");
    }
    // In order of their paths: p1 yes, p2 no, work yes.
    let said = list(&home)["said"].as_array().unwrap().clone();
    let mut allowed: Vec<String> = said
        .iter()
        .filter(|said| said["verdict"] == "allow")
        .map(|said| said["file"].as_str().unwrap().to_owned())
        .collect();
    allowed.sort();
    let file = |at: usize, name: &str| {
        projects[at].path().join(format!("mcps/{name}/.mcp.json")).to_str().unwrap().to_owned()
    };
    assert_eq!(allowed, [file(1, "a"), file(1, "b"), file(0, "a"), file(0, "b")]);
    // Only what is left is asked about, and denied servers are not.
    let text = projects[0].on_terminal(&["allow", "--all"], "y\n").text;
    assert_eq!((text.matches("[y/N] ").count(), text.contains("1 server\n")), (1, true), "{text}");
    let text = projects[0].on_terminal(&["allow", "--all"], "y\n").text;
    assert!(text.contains("nothing waits for your approval"), "{text}");
    assert_eq!(home.command(&["allow", "--all"]).status.code(), Some(1), "without a terminal");
    drop((shim, daemon));
}

#[test]
fn what_was_allowed_is_taken_back_and_ends() {
    let home = Home::new();
    let project = home.project("work");
    project.child("k", &["v1"]);
    project.child("other", &["v1"]);
    let daemon = home.daemon();
    project.allow();
    let mut shim = project.mute_shim();
    for name in ["k", "other"] {
        assert_eq!(structured(&shim.call(name, "where", "{}"))["args"][2], "v1");
    }
    assert_eq!(home.children().len(), 2);
    // A call in flight finishes.
    let mut second = project.mute_shim();
    let id = second.start_call("k", "slow", r#"{"ms": 1500}"#);
    until_true("the call to run", TEST_TIMEOUT, || {
        daemon.suite_from(project.path(), "k")["children"][0]["inFlight"] == 1
    });
    let output = home.command(&["revoke", "k", "--json"]);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let file = project.path().join("mcps/k/.mcp.json");
    assert_eq!(said, json!({"revoked": [{"name": "k", "file": file}]}));
    let refused = shim.call("k", "where", "{}");
    assert!(refused.contains("is held") && refused.contains("switchboard allow"), "{refused}");
    let answer = second.answer_to(&id.to_string());
    assert!(!answer.contains("is held") && !answer.contains("\"isError\":true"), "{answer}");
    until_true("its process to end", TEST_TIMEOUT, || home.children().len() == 1);
    assert_eq!(daemon.suite_from(project.path(), "k")["state"], "held");
    assert_eq!(structured(&shim.call("other", "where", "{}"))["args"][2], "v1");
    // It can be allowed again.
    project.allow();
    assert_eq!(structured(&shim.call("k", "where", "{}"))["args"][2], "v1");
    home.run_ok(&["revoke", "--all"]);
    for name in ["k", "other"] {
        assert!(shim.call(name, "where", "{}").contains("is held"));
    }
    until_true("all processes to end", TEST_TIMEOUT, || home.children().is_empty());
    let log = fs::read_to_string(home.state_folder().join("trust/audit.log")).unwrap();
    assert_eq!(log.lines().filter(|line| line.contains(" revoke ")).count(), 3, "{log}");
}

#[test]
fn revoke_works_without_a_daemon_and_says_what_it_cannot_do() {
    let home = Home::new();
    home.child("mine", &["echo"]);
    let (project, beside) = (home.project("work"), home.project("beside"));
    for name in ["k", "l", "m"] {
        project.child(name, &["v1"]);
    }
    beside.child("far", &["v1"]);
    project.allow();
    beside.allow();
    project.child("held", &["v1"]);
    home.run_ok(&["deny", "m"]);
    for (what, why) in [
        ("nobody", "there is no server `nobody` here"),
        ("held", "is held already"),
        ("m", "is denied"),
        ("mine", "is your own server and needs no approval"),
        ("far", "is not allowed here, but in `"),
        ("a\u{1b}[2Jb", r"a\u{1b}[2Jb"),
    ] {
        // One wrong name, and nothing is changed.
        let output = home.command(&["revoke", "k", what]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let told = told(&output);
        assert!(told.contains(why) && !told.contains('\u{1b}'), "{what}: {told}");
    }
    assert_eq!(home.command(&["revoke"]).status.code(), Some(2));
    assert_eq!(list(&home)["said"].as_array().unwrap().len(), 4);
    home.run_ok(&["revoke", "k", "l_suite"]);
    let far = beside.path().join("mcps/far/.mcp.json");
    home.run_ok(&["revoke", far.to_str().unwrap()]);
    let said = list(&home)["said"].clone();
    assert_eq!((said.as_array().unwrap().len(), &said[0]["verdict"]), (1, &json!("deny")), "{said}");
    let output = home.command(&["revoke", "--all"]);
    assert!(output.status.success() && told(&output).contains("nothing was allowed"), "{output:?}");
    let _daemon = home.daemon();
    assert!(project.mute_shim().call("k", "where", "{}").contains("is held"));
}

#[test]
fn revoking_and_allowing_at_once_loses_nothing() {
    let home = Home::new();
    let projects: Vec<Project<'_>> = (0..4).map(|n| home.project(&format!("p{n}"))).collect();
    for project in &projects {
        for name in ["a", "b", "c"] {
            project.child(name, &[]);
        }
    }
    let folder = |at: usize| projects[at].path().to_str().unwrap();
    for project in &projects[..2] {
        project.allow();
    }
    std::thread::scope(|scope| {
        for project in &projects[2..] {
            scope.spawn(|| project.allow());
        }
        for at in 0..2 {
            let (home, folder) = (&home, folder(at));
            scope.spawn(move || home.run_ok(&["revoke", folder]));
        }
    });
    let said = list(&home)["said"].as_array().unwrap().clone();
    assert_eq!(said.len(), 6, "{said:?}");
    assert!(said.iter().all(|said| !said["file"].as_str().unwrap().starts_with(folder(0))), "{said:?}");
}

#[test]
fn a_damaged_trust_file_is_not_overwritten_by_revoke() {
    let home = Home::new();
    let project = home.project("work");
    project.child("k", &["v1"]);
    project.allow();
    let file = home.state_folder().join("trust/trust.json");
    fs::write(&file, "{").unwrap();
    let output = home.command(&["revoke", "--all"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains("is damaged"), "{output:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "{");
}

/// A project's server `p` with a tool that reads and one that destroys.
fn project_that_marks(home: &Home) -> Project<'_> {
    let project = home.project("work");
    let tool = |name: &str, annotations: Value| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": annotations});
    let tools = json!({"tools": [tool("read", json!({"readOnlyHint": true})), tool("rm", json!({"destructiveHint": true}))]});
    let list = home.path().join("p.tools");
    fs::write(&list, tools.to_string()).unwrap();
    let entry = home.entry(&bins().evil_child, &["annotated", list.to_str().unwrap()], &[]);
    project.write(".mcp.json", &json!({"mcpServers": {"p": entry}}).to_string());
    project
}

#[track_caller]
fn reload(home: &Home) {
    home.run_ok(&["reload"]);
}

fn call(shim: &mut Shim, suite: &str, subtool: &str) -> String {
    let arguments = json!({"action": "call", "subtool": subtool, "args": {}});
    shim.request("tools/call", &json!({"name": suite, "arguments": arguments}).to_string())
}

#[test]
fn settings_of_a_project_that_permit_more_wait_for_the_user() {
    let home = Home::new();
    let project = project_that_marks(&home);
    let _daemon = home.daemon();
    project.allow();
    let mut shim = project.mute_shim();
    assert_eq!(kind_of(&call(&mut shim, "p_suite", "read")), None);
    let is_refused = |shim: &mut Shim| {
        let answer = call(shim, "p_suite", "rm");
        assert_eq!(kind_of(&answer).as_deref(), Some("wrong_tool"), "{answer}");
    };
    until_true("the list", TEST_TIMEOUT, || shim.tools().contains_key("p_suite_write"));
    is_refused(&mut shim);
    // It permits more: nothing changes until the user has seen it.
    project.config(&json!({"suites": {"p": {"split": false}}}));
    reload(&home);
    is_refused(&mut shim);
    is_refused(&mut project.mute_shim());
    let waiting = list(&home)["waiting"].clone();
    assert_eq!(waiting[0]["name"], "p", "{waiting}");
    let status = String::from_utf8(home.command(&["status"]).stdout).unwrap();
    assert!(status.contains("`split`: \"auto\" → false"), "{status}");
    let no = project.on_terminal(&["allow"], "n\n").text;
    assert!(no.contains("  settings  `split`: false\n"), "{no}");
    assert!(no.contains("  changed   setting `split`: \"auto\" → false\n"), "{no}");
    assert!(no.contains("what you allowed stays in force"), "{no}");
    is_refused(&mut project.mute_shim());
    project.allow();
    let runs = || kind_of(&call(&mut project.mute_shim(), "p_suite", "rm")).is_none();
    until_true("the new settings", TEST_TIMEOUT, runs);
    assert!(project.on_terminal(&["allow"], "").text.contains("nothing waits"));
    // It forbids more, and then no more than what was allowed: both need no yes.
    project
        .config(&json!({"suites": {"p": {"split": false, "confirm": ["rm"], "expose": {"deny": ["read"]}}}}));
    reload(&home);
    let mut shim = project.mute_shim();
    assert_eq!(kind_of(&call(&mut shim, "p_suite", "rm")).as_deref(), Some("not_confirmed"));
    assert!(text_of(&call(&mut shim, "p_suite", "read")).contains("not allowed by Switchboard"));
    assert_eq!(list(&home)["waiting"], json!([]));
    project.config(&json!({"suites": {"p": {"split": false}}}));
    reload(&home);
    until_true("the allowed settings", TEST_TIMEOUT, runs);
}

#[test]
fn a_project_cannot_give_an_allowed_server_another_name() {
    let home = Home::new();
    let project = project_that_marks(&home);
    let _daemon = home.daemon();
    project.allow();
    let names = || project.mute_shim().tools().into_keys().collect::<Vec<_>>();
    // Rules of editors for `q_suite` are not for this server.
    project.config(&json!({"suites": {"p": {"suiteName": "q_suite"}}}));
    reload(&home);
    assert!(names().iter().all(|name| name.starts_with("p_suite")), "{:?}", names());
    let asked = project.on_terminal(&["allow"], "n\n").text;
    assert!(asked.contains("  changed   setting `suiteName`: the usual name → q_suite\n"), "{asked}");
    assert!(names().iter().all(|name| name.starts_with("p_suite")), "{:?}", names());
    project.allow();
    until_true("the new name", TEST_TIMEOUT, || names().iter().all(|name| name.starts_with("q_suite")));
}

#[test]
fn a_project_cannot_drop_what_it_forbade_when_it_was_allowed() {
    let home = Home::new();
    let project = project_that_marks(&home);
    let strict = json!({"suites": {"p": {"split": false, "confirm": ["rm"], "expose": {"deny": ["read"]}}}});
    project.config(&strict);
    let _daemon = home.daemon();
    let text = project.allow().text;
    assert!(text.contains("`confirm`: [\"rm\"]") && text.contains("`expose.deny`: [\"read\"]"), "{text}");
    let holds = || {
        let mut shim = project.mute_shim();
        assert_eq!(kind_of(&call(&mut shim, "p_suite", "rm")).as_deref(), Some("not_confirmed"));
        assert!(text_of(&call(&mut shim, "p_suite", "read")).contains("not allowed by Switchboard"));
    };
    holds();
    for looser in
        [json!({}), json!({"confirm": "destructive"}), json!({"split": false, "expose": {"deny": ["x"]}})]
    {
        project.config(&json!({"suites": {"p": looser}}));
        reload(&home);
        let mut shim = project.mute_shim();
        let suite = if looser["split"] == false { "p_suite" } else { "p_suite_write" };
        assert_eq!(kind_of(&call(&mut shim, suite, "rm")).as_deref(), Some("not_confirmed"), "{looser}");
        assert!(text_of(&call(&mut shim, "p_suite", "read")).contains("not allowed"), "{looser}");
        assert_eq!(list(&home)["waiting"][0]["name"], "p", "{looser}");
    }
    fs::remove_file(project.path().join("switchboard.config.json")).unwrap();
    reload(&home);
    assert_eq!(list(&home)["waiting"][0]["name"], "p");
}

#[test]
fn what_the_user_forbids_holds_for_a_server_of_a_project() {
    let home = Home::new();
    let project = project_that_marks(&home);
    project.config(&json!({"suites": {"p": {"split": false}}}));
    home.config(&json!({"suites": {"p": {"split": true, "confirm": ["rm"], "expose": {"deny": ["read"]}}}}));
    let daemon = home.daemon();
    project.allow();
    let mut shim = project.mute_shim();
    let answer = call(&mut shim, "p_suite_write", "rm");
    assert_eq!(kind_of(&answer).as_deref(), Some("not_confirmed"), "{answer}");
    assert!(text_of(&answer).contains("the user's `switchboard.config.json`"), "{answer}");
    assert!(text_of(&call(&mut shim, "p_suite", "read")).contains("not allowed by Switchboard"));
    let seen = daemon.seen_from(project.path()).to_string();
    assert!(!seen.contains("was not found"), "{seen}");
}

/// A record of an earlier version says nothing about settings.
#[test]
fn a_record_without_settings_stays_valid() {
    let home = Home::new();
    let project = project_that_marks(&home);
    project.config(&json!({"suites": {"p": {"split": false}}}));
    project.allow();
    let file = home.state_folder().join("trust/trust.json");
    let mut store: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let record = store["entries"][0]["record"].as_object_mut().unwrap();
    assert!(record.remove("restrictions").is_some());
    fs::write(&file, store.to_string()).unwrap();
    let _daemon = home.daemon();
    let mut shim = project.mute_shim();
    assert_eq!(kind_of(&call(&mut shim, "p_suite", "read")), None);
    until_true("the list", TEST_TIMEOUT, || shim.tools().contains_key("p_suite_write"));
    assert_eq!(kind_of(&call(&mut shim, "p_suite", "rm")).as_deref(), Some("wrong_tool"));
}
