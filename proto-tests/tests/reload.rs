//! Editing a file is enough: hosts see every change of definitions and config, and children that did not
//! change keep running.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use proto_tests::proof::{counted, measured, measured_ms};
use proto_tests::shim::structured;
use proto_tests::wait::{until, until_true};
use proto_tests::{DaemonProcess, Home, Shim, TEST_TIMEOUT, bins};
use rustix::process::Signal;
use serde_json::{Value, json};

/// The suites that a host sees.
fn listed(shim: &mut Shim) -> Vec<String> {
    let answer: Value = serde_json::from_str(&shim.request("tools/list", "{}")).unwrap();
    let tools = answer["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().trim_end_matches("_suite").to_owned()).collect()
}

#[track_caller]
fn sees(shim: &mut Shim, expect: &[&str]) {
    let mut last = Vec::new();
    let seen = proto_tests::wait::becomes(TEST_TIMEOUT, || {
        last = listed(shim);
        last == expect
    });
    assert!(seen, "sees {last:?} and not {expect:?}");
}

/// The text of a definition whose child has this version in its environment.
fn definition(home: &Home, name: &str, version: &str) -> String {
    let entry = home.entry(&bins().evil_child, &["echo"], &[("VERSION", version)]);
    json!({"mcpServers": {name: entry}}).to_string()
}

fn version(shim: &mut Shim, child: &str) -> String {
    let answer = shim.call(child, "env", "{}");
    structured(&answer)["VERSION"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[track_caller]
fn serves(shim: &mut Shim, child: &str, expect: &str) {
    let expect = format!("\"VERSION\":\"{expect}\"");
    until_true(&format!("`{child}` with {expect}"), TEST_TIMEOUT, || {
        shim.call(child, "env", "{}").contains(&expect)
    });
}

fn generation(daemon: &DaemonProcess) -> u64 {
    daemon.status()["generation"].as_u64().unwrap()
}

#[test]
fn created_changed_and_deleted_files_are_noticed() {
    let home = Home::new();
    let _daemon = home.daemon();
    let mut shim = home.shim();
    sees(&mut shim, &[]);
    home.definition("a", &definition(&home, "a", "1"));
    shim.notification("notifications/tools/list_changed");
    sees(&mut shim, &["a"]);
    assert_eq!(version(&mut shim, "a"), "1");
    // Written in place.
    home.definition("a", &definition(&home, "a", "2"));
    serves(&mut shim, "a", "2");
    // Replaced by a rename, as editors save.
    let file = home.config_folder().join("mcps/a/.mcp.json");
    fs::write(file.with_extension("tmp"), definition(&home, "a", "3")).unwrap();
    fs::rename(file.with_extension("tmp"), &file).unwrap();
    serves(&mut shim, "a", "3");
    fs::rename(&file, file.with_extension("away")).unwrap();
    sees(&mut shim, &[]);
    fs::rename(file.with_extension("away"), &file).unwrap();
    sees(&mut shim, &["a"]);
    fs::remove_file(&file).unwrap();
    sees(&mut shim, &[]);
    // The folder is still watched, and so is a new one of the same name.
    fs::remove_dir(file.parent().unwrap()).unwrap();
    home.definition("a", &definition(&home, "a", "4"));
    serves(&mut shim, "a", "4");
}

#[test]
fn moved_and_linked_folders_are_noticed() {
    let home = Home::new();
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let mcps = home.config_folder().join("mcps");
    let aside = home.path().join("aside");
    fs::create_dir_all(aside.join("x")).unwrap();
    fs::write(aside.join("x/.mcp.json"), definition(&home, "x", "1")).unwrap();
    fs::rename(aside.join("x"), mcps.join("x")).unwrap();
    sees(&mut shim, &["x"]);
    fs::rename(mcps.join("x"), aside.join("x")).unwrap();
    sees(&mut shim, &[]);
    // Changes in a folder that was moved away are ignored.
    fs::write(aside.join("x/.mcp.json"), definition(&home, "y", "1")).unwrap();
    // A link to a folder works like a folder, and changes behind it are seen.
    std::os::unix::fs::symlink(aside.join("x"), mcps.join("link")).unwrap();
    sees(&mut shim, &["y"]);
    fs::write(aside.join("x/.mcp.json"), definition(&home, "z", "1")).unwrap();
    sees(&mut shim, &["z"]);
    // A link can be replaced by another.
    fs::create_dir(aside.join("w")).unwrap();
    fs::write(aside.join("w/.mcp.json"), definition(&home, "w", "1")).unwrap();
    std::os::unix::fs::symlink(aside.join("w"), mcps.join("new")).unwrap();
    fs::rename(mcps.join("new"), mcps.join("link")).unwrap();
    sees(&mut shim, &["w"]);
    // A file may be a link, too.
    fs::remove_file(mcps.join("link")).unwrap();
    fs::create_dir(mcps.join("l")).unwrap();
    std::os::unix::fs::symlink(aside.join("w/.mcp.json"), mcps.join("l/.mcp.json")).unwrap();
    serves_once_seen(&mut shim, "w", "1");
    fs::write(aside.join("w/.mcp.json"), definition(&home, "w", "2")).unwrap();
    serves(&mut shim, "w", "2");
    // The folder of all definitions is moved.
    fs::rename(&mcps, aside.join("mcps")).unwrap();
    sees(&mut shim, &[]);
    fs::rename(aside.join("mcps"), &mcps).unwrap();
    sees(&mut shim, &["w"]);
    fs::write(aside.join("w/.mcp.json"), definition(&home, "w", "3")).unwrap();
    serves(&mut shim, "w", "3");
}

#[track_caller]
fn serves_once_seen(shim: &mut Shim, child: &str, expect: &str) {
    sees(shim, &[child]);
    serves(shim, child, expect);
}

#[test]
fn files_in_folders_that_do_not_exist_yet_are_noticed() {
    let home = Home::new();
    fs::remove_dir_all(home.path().join(".config")).unwrap();
    let _daemon = home.daemon();
    let mut shim = home.shim();
    sees(&mut shim, &[]);
    home.definition("a", &definition(&home, "a", "1"));
    sees(&mut shim, &["a"]);
    home.config(&json!({"discoverGlobs": ["deep/er/*/x.json"]}));
    sees(&mut shim, &[]);
    home.write(".config/switchboard/deep/er/b/x.json", &definition(&home, "b", "1"));
    sees(&mut shim, &["b"]);
    fs::remove_dir_all(home.path().join(".config")).unwrap();
    sees(&mut shim, &[]);
    home.definition("c", &definition(&home, "c", "1"));
    sees(&mut shim, &["c"]);
}

#[test]
fn a_workspace_is_watched_like_the_users_own_files() {
    let home = Home::new();
    let workspace = home.workspace();
    let root = workspace.to_str().unwrap().to_owned();
    let _daemon = DaemonProcess::start(&home, &["--listen", "off", "--trust-root", &root]);
    let mut shim = home.shim();
    sees(&mut shim, &[]);
    fs::create_dir_all(workspace.join("mcps/a")).unwrap();
    fs::write(workspace.join("mcps/a/.mcp.json"), definition(&home, "a", "1")).unwrap();
    serves_once_seen(&mut shim, "a", "1");
    fs::write(
        workspace.join("switchboard.config.json"),
        json!({"suites": {"a": {"suiteName": "other_suite"}}}).to_string(),
    )
    .unwrap();
    sees(&mut shim, &["other"]);
    // Deleted and cloned again.
    fs::rename(&workspace, workspace.with_extension("old")).unwrap();
    sees(&mut shim, &[]);
    fs::create_dir_all(workspace.join("mcps/b")).unwrap();
    fs::write(workspace.join("mcps/b/.mcp.json"), definition(&home, "b", "1")).unwrap();
    sees(&mut shim, &["b"]);
}

#[test]
fn the_config_is_reloaded_and_a_broken_one_changes_nothing() {
    let home = Home::new();
    home.definition("a", &definition(&home, "a", "1"));
    let daemon = home.daemon();
    let mut shim = home.shim();
    let pid = shim.pid_of("a");
    home.config(&json!({"suites": {"a": {"suiteName": "first_suite"}}}));
    sees(&mut shim, &["first"]);
    home.write(".config/switchboard/switchboard.config.json", "{\n  \"suites\": {,}\n}");
    let told = until("the problem in the status", TEST_TIMEOUT, || {
        let problems = daemon.status()["problems"].to_string();
        problems.contains("switchboard.config.json:2:").then_some(problems)
    });
    assert!(told.contains("not valid JSON"), "{told}");
    assert_eq!(listed(&mut shim), ["first"]);
    // The other files are still watched.
    home.definition("b", &definition(&home, "b", "1"));
    sees(&mut shim, &["first", "b"]);
    std::fs::remove_dir_all(home.config_folder().join("mcps/b")).unwrap();
    sees(&mut shim, &["first"]);
    home.config(&json!({}));
    sees(&mut shim, &["a"]);
    assert_eq!(daemon.status()["problems"], json!([]));
    assert_eq!(shim.pid_of("a"), pid, "the child did not change");
}

#[test]
fn a_reload_with_an_invalid_config_still_reads_definitions() {
    let home = Home::new();
    home.definition("a", &definition(&home, "a", "1"));
    home.config(&json!({"watch": "poll"}));
    let daemon = home.daemon();
    let order = |args: &[&str]| {
        let output = home.command(args);
        (String::from_utf8(output.stdout).unwrap(), output.status.code())
    };
    let (said, code) = order(&["reload"]);
    assert_eq!((said.as_str(), code), ("reloaded: 1 server of your own, 0 projects open\n", Some(0)));
    home.definition("b", &definition(&home, "b", "1"));
    home.write(".config/switchboard/switchboard.config.json", r#"{"watch": "poll", "nonsense": 1}"#);
    let answer = daemon.endpoint().post("/control/reload", "");
    assert_eq!(answer.status, 200, "{answer:?}");
    let (said, code) = order(&["reload"]);
    assert!(said.starts_with("reloaded: 2 servers of your own"), "{said}");
    assert!(said.contains("unknown key `nonsense`"), "{said}");
    assert_eq!(code, Some(1), "{said}");
    let (said, code) = order(&["reload", "--json"]);
    let told: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&told["suites"], &told["configOk"], code), (&json!(2), &json!(false), Some(1)), "{said}");
    home.config(&json!({"watch": "poll"}));
    assert_eq!(order(&["reload"]).1, Some(0));
}

#[test]
fn children_whose_command_did_not_change_keep_running() {
    let home = Home::new();
    home.definition("same", &definition(&home, "same", "1"));
    home.definition("other", &definition(&home, "other", "1"));
    let daemon = home.daemon();
    let mut shim = home.shim();
    let (same, other) = (shim.pid_of("same"), shim.pid_of("other"));
    until_true("their descriptions", TEST_TIMEOUT, || {
        shim.tools().values().all(|tool| tool["description"].as_str().unwrap().contains("Tools: echo"))
    });
    shim.take_notifications();
    let entry = home.entry(&bins().evil_child, &["echo"], &[("VERSION", "1")]);
    let text = format!("// a comment\n{}", json!({"servers": {"same": entry}}));
    let before = generation(&daemon);
    home.definition("same", &text);
    home.definition("other", &definition(&home, "other", "2"));
    serves(&mut shim, "other", "2");
    assert_eq!(shim.pid_of("same"), same);
    assert_ne!(shim.pid_of("other"), other);
    assert!(generation(&daemon) > before);
    // Neither name nor description changed, so no host is notified.
    let heard = shim.take_notifications();
    assert!(!heard.iter().any(|line| line.contains("list_changed")), "{heard:?}");
    let described = json!({"mcpServers": {"same": {"description": "anew", "command": entry["command"], "args": entry["args"], "env": entry["env"]}}});
    home.definition("same", &described.to_string());
    shim.notification("notifications/tools/list_changed");
    assert_eq!(shim.pid_of("same"), same);
}

#[test]
fn calls_in_flight_finish_on_the_old_child() {
    let home = Home::new();
    home.definition("a", &definition(&home, "a", "1"));
    home.definition("b", &definition(&home, "b", "1"));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let (pid, gone) = (shim.pid_of("a"), shim.pid_of("b"));
    let slow = shim.start_call("a", "slow", r#"{"ms": 2500}"#);
    let removed = shim.start_call("b", "slow", r#"{"ms": 2500}"#);
    home.definition("a", &definition(&home, "a", "2"));
    fs::remove_dir_all(home.config_folder().join("mcps/b")).unwrap();
    serves(&mut shim, "a", "2");
    assert_ne!(shim.pid_of("a"), pid);
    sees(&mut shim, &["a"]);
    assert!(shim.answer_to(&slow.to_string()).contains("\"result\""));
    assert!(shim.answer_to(&removed.to_string()).contains("\"result\""));
    for pid in [pid, gone] {
        until_true("the old child to go", TEST_TIMEOUT, || !Path::new(&format!("/proc/{pid}/stat")).exists());
    }
}

#[test]
fn changes_are_noticed_by_polling() {
    let home = Home::new();
    home.config(&json!({"watch": "poll"}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    home.definition("a", &definition(&home, "a", "1"));
    shim.notification("notifications/tools/list_changed");
    serves_once_seen(&mut shim, "a", "1");
    home.definition("a", &definition(&home, "a", "2"));
    serves(&mut shim, "a", "2");
}

#[test]
fn a_storm_of_writes_ends_in_the_right_state_and_restarts_no_unchanged_child() {
    let home = Home::new();
    let names: Vec<String> = (0..20).map(|n| format!("c{n}")).collect();
    for name in &names {
        home.definition(name, &definition(&home, name, "1"));
    }
    let daemon = home.daemon();
    let mut shim = home.shim();
    let pid = shim.pid_of("c0");
    let seconds =
        std::env::var("SWITCHBOARD_WRITE_SECONDS").map_or(2, |text| text.parse().expect("a number"));
    let before = generation(&daemon);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut writes = 0_u32;
    let mut next = Instant::now();
    while Instant::now() < end {
        let name = &names[1 + writes as usize % 19];
        let file = home.config_folder().join(format!("mcps/{name}/.mcp.json"));
        let text = definition(&home, name, &writes.to_string());
        match writes % 4 {
            // A partial file, for a moment.
            0 => fs::write(&file, &text[..text.len() / 2]).unwrap(),
            1 => fs::write(&file, &text).unwrap(),
            2 => drop(fs::remove_file(&file)),
            _ => {
                fs::write(file.with_extension("tmp"), &text).unwrap();
                fs::rename(file.with_extension("tmp"), &file).unwrap();
            }
        }
        // The definition that does not change is rewritten as often, with the same text.
        home.definition("c0", &definition(&home, "c0", "1"));
        writes += 1;
        // Two writes per round: a thousand a second, if the machine can.
        next += Duration::from_millis(2);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    for name in &names[1..] {
        home.definition(name, &definition(&home, name, "last"));
    }
    let last = Instant::now();
    for name in &names[1..] {
        serves(&mut shim, name, "last");
    }
    measured_ms("R14", "all right after the last write", last.elapsed());
    counted("R14", "writes", u64::from(writes) * 2);
    assert_eq!(shim.pid_of("c0"), pid, "a child was restarted that did not change");
    assert_eq!(daemon.starts("c0"), 1);
    let reloads = generation(&daemon) - before;
    measured("R14", "reloads in a second", reloads as f64 / seconds as f64);
    assert!(reloads <= seconds * 5 + 10, "{reloads} reloads in {seconds} s");
}

#[test]
fn an_overflow_of_the_event_queue_loses_no_change() {
    let limit: u32 =
        fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    let home = Home::new();
    home.definition("a", &definition(&home, "a", "1"));
    let daemon = home.daemon();
    let mut shim = home.shim();
    sees(&mut shim, &["a"]);
    daemon.signal(Signal::STOP);
    let file = home.config_folder().join("mcps/a/.mcp.json");
    let noise = [file.with_extension("one"), file.with_extension("two")];
    fs::write(&noise[0], "").unwrap();
    // More distinct events than the kernel queues; the ones that matter come after them and are lost.
    for n in 0..limit {
        fs::rename(&noise[(n % 2) as usize], &noise[(1 - n % 2) as usize]).unwrap();
    }
    home.definition("a", &definition(&home, "a", "2"));
    home.definition("b", &definition(&home, "b", "1"));
    daemon.signal(Signal::CONT);
    sees(&mut shim, &["a", "b"]);
    serves(&mut shim, "a", "2");
}

#[test]
fn values_are_expanded_and_children_restart_when_they_change() {
    let home = Home::new();
    // The keyring of the user who runs this test is never asked.
    home.write(".profile", "export PATH=/usr/local/bin:/usr/bin:/bin\nexport FROM_PROFILE=yes\nexport DBUS_SESSION_BUS_ADDRESS=unix:path=/nonexistent\n");
    let env = home.entry(
        &bins().evil_child,
        &["echo"],
        &[
            ("VERSION", "${TOKEN}"),
            ("PROFILE", "${FROM_PROFILE}"),
            ("OR", "${UNSET:-else}"),
            ("HOST", "${HOST_SECRET:-none}"),
        ],
    );
    home.definition("a", &json!({"mcpServers": {"a": env}}).to_string());
    let daemon = home.daemon();
    let mut shim = home.shim();
    until_true("the missing value to show", TEST_TIMEOUT, || daemon.suite("a")["state"] == "misconfigured");
    let answer = shim.call("a", "env", "{}");
    assert!(answer.contains("missing `TOKEN`") && answer.contains("secret set TOKEN"), "{answer}");
    assert!(home.children().is_empty());
    let file = home.write(".config/switchboard/env", "TOKEN=from-the-file\n");
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    until_true("the value to be found", TEST_TIMEOUT, || daemon.suite("a")["state"] == "cold");
    let answer = structured(&shim.call("a", "env", "{}"));
    assert_eq!(answer["VERSION"], "from-the-file");
    assert_eq!((&answer["PROFILE"], &answer["OR"]), (&json!("yes"), &json!("else")));
    assert_eq!(answer["HOST"], "none", "the host's environment never matters");
    // A changed value restarts the child.
    home.write(".config/switchboard/env", "TOKEN=changed\n");
    serves(&mut shim, "a", "changed");
    // A file that others can read is not used, and an error says so.
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    until_true("the complaint", TEST_TIMEOUT, || {
        daemon.suite("a")["lastError"].to_string().contains("chmod 600")
    });
}

#[test]
fn changes_of_env_files_are_noticed() {
    let home = Home::new();
    let folder = home.config_folder().join("mcps/a");
    let mut entry = home.entry(&bins().evil_child, &["echo"], &[("OWN", "env wins")]);
    entry["envFile"] = "vars.env".into();
    home.definition("a", &json!({"mcpServers": {"a": entry}}).to_string());
    let daemon = home.daemon();
    let mut shim = home.shim();
    assert!(shim.call("a", "env", "{}").contains("does not exist"));
    fs::write(folder.join("vars.env"), "VERSION=1\nOWN=no\n").unwrap();
    until_true("the file to be seen", TEST_TIMEOUT, || daemon.suite("a")["state"] == "cold");
    serves(&mut shim, "a", "1");
    assert_eq!(structured(&shim.call("a", "env", "{}"))["OWN"], "env wins");
    fs::write(folder.join("vars.env"), "VERSION=2\n").unwrap();
    serves(&mut shim, "a", "2");
}

#[test]
fn changed_links_on_the_path_are_noticed() {
    let home = Home::new();
    let folder = home.config_folder();
    // As users keep their dotfiles: the config is a link into another folder.
    let kept = home.write("dotfiles/switchboard.json", &json!({"http": {"listen": "off"}}).to_string());
    fs::remove_file(folder.join("switchboard.config.json")).unwrap();
    std::os::unix::fs::symlink(&kept, folder.join("switchboard.config.json")).unwrap();
    // The definitions are behind two links.
    for release in ["one", "two"] {
        home.write(&format!("releases/{release}/mcps/a/.mcp.json"), &definition(&home, "a", release));
    }
    fs::remove_dir(folder.join("mcps")).unwrap();
    std::os::unix::fs::symlink(home.path().join("releases/one"), folder.join("current")).unwrap();
    std::os::unix::fs::symlink("current/mcps", folder.join("mcps")).unwrap();
    let _daemon = home.daemon();
    let mut shim = home.shim();
    serves_once_seen(&mut shim, "a", "one");
    std::os::unix::fs::symlink(home.path().join("releases/two"), folder.join("next")).unwrap();
    fs::rename(folder.join("next"), folder.join("current")).unwrap();
    serves(&mut shim, "a", "two");
    let named = json!({"http": {"listen": "off"}, "suites": {"a": {"suiteName": "named_suite"}}});
    fs::write(&kept, named.to_string()).unwrap();
    sees(&mut shim, &["named"]);
}
