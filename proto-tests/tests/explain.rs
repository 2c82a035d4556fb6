//! `switchboard explain` and `switchboard status`: where servers come from and what happened to them.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use proto_tests::wait::until_true;
use proto_tests::{Home, TEST_TIMEOUT, bins};
use serde_json::Value;

fn told(home: &Home, args: &[&str]) -> String {
    let output = home.command(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn explain_shows_everything_but_secrets() {
    let home = Home::new();
    home.child_with(
        "kid",
        &["echo"],
        &[("API_TOKEN", "${API_TOKEN}"), ("PLAIN", "plain-secret-value"), ("SHELLED", "${FROM_PROFILE}")],
    );
    home.write(".config/switchboard/env", "API_TOKEN=very-secret-value\n");
    let env = home.config_folder().join("env");
    std::fs::set_permissions(&env, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    // It works without a daemon, too.
    let text = told(&home, &["explain", "kid"]);
    assert!(text.contains("no daemon"), "{text}");
    let _daemon = home.daemon();
    home.run_ok(&["call", "kid", "stderr", r#"{"text":"last words"}"#]);
    assert_eq!(home.command(&["call", "kid", "crash"]).status.code(), Some(5));
    // The caller is told at once; the exit is recorded only when no process of the server is left.
    until_true("the end to be noted", TEST_TIMEOUT, || told(&home, &["explain", "kid"]).contains("status 3"));
    for name in ["kid", "kid_suite"] {
        let text = told(&home, &["explain", name]);
        for part in [
            ".config/switchboard/mcps/kid/.mcp.json",
            "your own",
            bins().evil_child.to_str().unwrap(),
            "API_TOKEN=${API_TOKEN}  (API_TOKEN comes from",
            "switchboard/env",
            "FROM_PROFILE comes from your login shell",
            "PLAIN=•••",
            "scope shared",
            "exited with status 3",
            "crash was asked for",
            "speaks    2025-11-25, as ",
            "switchboard logs kid",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("very-secret-value") && !text.contains("plain-secret-value"), "{text}");
    }
    let whole: Value = serde_json::from_str(&told(&home, &["explain", "kid", "--json"])).unwrap();
    assert_eq!(whole["layer"], "personal");
    assert!(whole["live"]["exits"][0]["what"].as_str().unwrap().contains("status 3"), "{whole}");
    assert!(!whole.to_string().contains("secret-value"), "{whole}");
}

#[test]
fn explain_names_missing_values_and_how_to_set_them() {
    let home = Home::new();
    home.child_with("kid", &["echo"], &[("API_TOKEN", "${NOWHERE_SET}")]);
    let text = told(&home, &["explain", "kid"]);
    assert!(text.contains("switchboard secret set NOWHERE_SET"), "{text}");
    let _daemon = home.daemon();
    for _ in 0..2 {
        assert!(!home.command(&["introspect", "kid"]).status.success());
    }
    let text = told(&home, &["explain", "kid"]);
    assert!(text.contains("next      `switchboard secret set NOWHERE_SET`"), "{text}");
    assert!(!text.contains("started so far") && !text.contains("switchboard check"), "{text}");
    let errors = text.lines().filter(|line| line.contains("missing `NOWHERE_SET`"));
    assert_eq!(errors.count(), 1, "{text}");
    let output = home.command(&["explain", "kdi"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("did you mean `kid`"), "{output:?}");
}

#[test]
fn explain_shows_held_and_outdated_servers() {
    let home = Home::new();
    let project = home.project("work");
    project.child("notes", &[]);
    let _daemon = home.daemon();
    let text = told(&home, &["explain", "notes"]);
    assert!(
        text.contains("held: you have not allowed it") && text.contains("switchboard allow notes"),
        "{text}"
    );
    assert!(!text.contains("words of notes") || text.contains("held"), "{text}");
    let screen = project.allow();
    assert!(screen.text.contains("allowed"), "{screen:?}");
    let text = told(&home, &["explain", "notes"]);
    assert!(text.contains("trust     allowed 20"), "{text}");
    project.child("notes", &["--another"]);
    let text = told(&home, &["explain", "notes"]);
    assert!(text.contains("keeps running") && text.contains("--another"), "{text}");
}

#[test]
fn status_shows_everything_that_runs() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    home.child("bad", &["exit-at-start", "1"]);
    let daemon = home.daemon_on_tcp();
    let mut shim = home.shim();
    shim.call("kid", "echo", "{}");
    assert_eq!(home.command(&["call", "bad", "x"]).status.code(), Some(5));
    let whole: Value = serde_json::from_str(&told(&home, &["status", "--json"])).unwrap();
    assert_eq!(whole["pid"], daemon.pid());
    assert!(whole["memoryKb"].as_u64().unwrap() > 1024, "{whole}");
    assert_eq!(whole["restartPending"], Value::Null, "{whole}");
    assert_eq!(whole["whereabouts"]["socket"], home.socket().to_str().unwrap());
    let tcp = whole["whereabouts"]["tcp"].as_str().unwrap().to_owned();
    let kid = whole["suites"].as_array().unwrap().iter().find(|suite| suite["child"] == "kid").unwrap();
    assert!(kid["children"][0]["memoryKb"].as_u64().unwrap() > 100, "{kid}");
    assert!(kid["subtools"].as_u64().unwrap() > 10, "{kid}");
    let text = told(&home, &["status"]);
    for part in [
        &*daemon.pid().to_string(),
        &tcp,
        "token",
        "proto-tests 1",
        "2025-11-25",
        "kid ",
        "ready",
        "bad ",
        "failed",
        "last error",
        "MiB",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_taken_port_is_shown() {
    let home = Home::new();
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let _daemon = proto_tests::DaemonProcess::start(&home, &["--listen", &address]);
    let text = told(&home, &["status"]);
    assert!(text.contains(&format!("{address} is taken")), "{text}");
}

#[test]
fn status_reports_a_pending_restart_after_an_update() {
    let home = Home::new();
    let folder = home.workspace().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    bins().copy_to(&folder);
    home.order_with(&folder.join("switchboard"), &["start"]);
    // With a session open, the daemon does not hand over to the new program by itself.
    let _shim = home.shim();
    assert!(!told(&home, &["status"]).contains("pending"));
    let program = folder.join("switchboardd");
    std::fs::remove_file(&program).unwrap();
    std::fs::copy(&bins().switchboardd, &program).unwrap();
    let text = told(&home, &["status"]);
    assert!(text.contains("pending") && text.contains("switchboard restart"), "{text}");
    home.order_with(&folder.join("switchboard"), &["restart"]);
    until_true("the new program", TEST_TIMEOUT, || !told(&home, &["status"]).contains("pending"));
    // Only this test knows the daemon of this copy, so it has to stop it.
    home.run_ok(&["stop"]);
}

#[test]
fn explain_shows_a_working_directory_that_depends_on_the_session() {
    let home = Home::new();
    let entry = r#"{"mcpServers": {"kid": {"command": "true", "cwd": "${workspaceFolder}"}}}"#;
    home.definition("kid", entry);
    let folder = home.config_folder();
    let text = told(&home, &["explain", "kid"]);
    let place = format!(
        "the project that is open (`pool.scope` `session` or `workspace`); without one, {}",
        folder.display()
    );
    assert!(text.contains(&format!("in        {place}\n")), "{text}");
    let file = folder.join("mcps/kid/.mcp.json");
    let text = told(&home, &["check", file.to_str().unwrap()]);
    assert!(text.contains(&format!("  kid: true  (in {place})\n")), "{text}");
    let whole: Value =
        serde_json::from_str(&told(&home, &["check", "--json", file.to_str().unwrap()])).unwrap();
    let server = &whole[0]["servers"][0];
    assert_eq!(
        (&server["cwd"], &server["sessionCwd"]),
        (&folder.to_str().into(), &"${workspaceFolder}".into())
    );
    // In a project's file it means the project, whatever path leads to the file.
    std::fs::write(home.workspace().join(".mcp.json"), entry).unwrap();
    let beside = home.config_folder().join("mcps/kid/../../../../../work/.mcp.json");
    assert_eq!(beside.canonicalize().unwrap(), home.workspace().join(".mcp.json").canonicalize().unwrap());
    for file in [".mcp.json", beside.to_str().unwrap()] {
        let text = told(&home, &["check", file]);
        assert!(text.contains("  kid: true\n"), "{file}: {text}");
    }
    // Paths that lead back to the user's folder, and links into or to it, count as the user's own.
    let back = home.workspace().join("../home/.config/switchboard/mcps/../mcps/kid/.mcp.json");
    std::os::unix::fs::symlink(home.workspace(), folder.join("mcps/linked")).unwrap();
    std::os::unix::fs::symlink(&folder, home.path().join("dotfiles")).unwrap();
    let linked = folder.join("mcps/linked/.mcp.json");
    for file in [back, linked, home.path().join("dotfiles/mcps/kid/.mcp.json")] {
        let text = told(&home, &["check", file.to_str().unwrap()]);
        assert!(text.contains(&format!("  kid: true  (in {place})\n")), "{}: {text}", file.display());
    }
}
