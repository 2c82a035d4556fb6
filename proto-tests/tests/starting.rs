//! How children are started: their environment, directory and time, and the errors if a start fails.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use proto_tests::shim::{kind_of, structured, text_of};
use proto_tests::wait::until_true;
use proto_tests::{Home, TEST_TIMEOUT, bins};
use serde_json::{Value, json};

#[test]
fn a_child_gets_only_allowed_and_declared_variables() {
    let home = Home::new();
    home.child_with("env", &["echo"], &[("DECLARED", "by the definition"), ("HOME_ALONE", "1")]);
    let _daemon = home.daemon();
    let env = structured(&home.shim().call("env", "env", "{}"));
    assert_eq!(env["DECLARED"], "by the definition");
    assert_eq!(env["HOME"].as_str(), home.path().to_str());
    assert_eq!(env["PATH"], "/usr/local/bin:/usr/bin:/bin");
    // It gets neither the daemon's variables, nor the host's, nor all that a login shell sets.
    for secret in ["HOST_SECRET", "FROM_PROFILE", "LISTEN_FDS", "SWITCHBOARD_SOCKET"] {
        assert!(env.get(secret).is_none(), "{secret} reached the child: {env}");
    }
}

#[test]
fn the_login_shell_gets_nothing_of_the_daemons_environment() {
    let home = Home::new();
    home.write(".profile", "export XDG_HEARD=\"$HOST_SECRET$SWITCHBOARD_TEST\" LC_TERM=\"$TERM\"\n");
    home.child("env", &["echo"]);
    let _daemon = home.daemon();
    let env = structured(&home.shim().call("env", "env", "{}"));
    assert_eq!((&env["XDG_HEARD"], &env["LC_TERM"]), (&json!(""), &json!("dumb")), "{env}");
}

#[test]
fn a_profile_that_hangs_leaves_no_process() {
    let home = Home::new();
    home.write(".profile", "sleep 6543; true\n");
    home.child("env", &["echo"]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    let env = structured(&shim.call("env", "env", "{}"));
    // Not the PATH that the daemon was started with: that may be a host's.
    assert_eq!(env["PATH"], "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin");
    assert!(daemon.log().contains("the login shell takes longer than 5 s"), "{}", daemon.log());
    // The shell may still answer for the next start, but does not outlive the daemon.
    let sleepers = || home.processes().iter().any(|process| process.cmdline.contains("6543"));
    drop(daemon);
    until_true("the shell to go", TEST_TIMEOUT, || !sleepers());
}

/// A home where only the login shell's PATH finds the server, and where the profile does something the first
/// time.
fn home_with_first_time(what: &str) -> Home {
    let home = Home::new();
    fs::create_dir_all(home.path().join("bin")).unwrap();
    std::os::unix::fs::symlink(&bins().evil_child, home.path().join("bin/only-in-my-profile")).unwrap();
    let first = format!("[ -e \"$HOME/asked\" ] || {{ : > \"$HOME/asked\"; {what}; }}");
    home.write(".profile", &format!("{first}\nexport PATH=$HOME/bin:/usr/bin:/bin NEEDED=there\n"));
    let entry = home.entry("only-in-my-profile".as_ref(), &["echo"], &[("GIVEN", "${NEEDED}")]);
    home.definition("p", &json!({"mcpServers": {"p": entry}}).to_string());
    home
}

#[test]
fn the_late_answer_of_a_slow_login_shell_is_used() {
    let home = home_with_first_time("sleep 7");
    let daemon = home.daemon();
    let mut shim = home.shim();
    let refused = shim.call("p", "env", "{}");
    assert!(refused.contains("NEEDED") || refused.contains("only-in-my-profile"), "{refused}");
    until_true("the shell's late answer to be used", TEST_TIMEOUT, || {
        kind_of(&shim.call("p", "env", "{}")).is_none()
    });
    assert_eq!(structured(&shim.call("p", "env", "{}"))["GIVEN"], "there");
    assert!(daemon.log().contains("the login shell gave its environment"), "{}", daemon.log());
}

#[test]
fn a_login_shell_that_failed_once_is_asked_again() {
    let home = home_with_first_time("exit 1");
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let refused = shim.call("p", "env", "{}");
    assert!(refused.contains("NEEDED") || refused.contains("only-in-my-profile"), "{refused}");
    until_true("the shell to be asked again", TEST_TIMEOUT, || {
        kind_of(&shim.call("p", "env", "{}")).is_none()
    });
    assert_eq!(structured(&shim.call("p", "env", "{}"))["GIVEN"], "there");
}

#[test]
fn background_jobs_of_a_profile_are_not_waited_for() {
    let home = Home::new();
    home.write(".profile", "export LC_SEEN=yes\nsleep 4 &\n");
    home.child("env", &["echo"]);
    let _daemon = home.daemon();
    let start = Instant::now();
    assert_eq!(structured(&home.shim().call("env", "env", "{}"))["LC_SEEN"], "yes");
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

#[test]
fn a_login_shell_is_never_stopped_by_the_daemons_terminal() {
    let home = Home::new();
    home.write(".bash_profile", "stty -a </dev/tty; read -t 1 x </dev/tty; export LC_SEEN=yes\n");
    home.child("env", &["echo"]);
    let line = format!("{} --listen off --socket {}", bins().switchboardd.display(), home.socket().display());
    let mut terminal = Command::new("script")
        .args(["--quiet", "--command", &line, "/dev/null"])
        .env_clear()
        .envs(home.environment())
        .env("SHELL", "/bin/bash")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("script(1), which is part of every Linux");
    until_true("the daemon", TEST_TIMEOUT, || std::os::unix::net::UnixStream::connect(home.socket()).is_ok());
    let mut shim = home.shim();
    let start = Instant::now();
    assert_eq!(structured(&shim.call("env", "env", "{}"))["LC_SEEN"], "yes");
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    drop(shim);
    drop(home);
    terminal.kill().unwrap();
    terminal.wait().unwrap();
}

#[test]
fn the_search_path_is_the_login_shells_without_relative_entries() {
    let home = Home::new();
    fs::create_dir_all(home.path().join("bin")).unwrap();
    std::os::unix::fs::symlink(&bins().evil_child, home.path().join("bin/only-in-my-profile")).unwrap();
    let path = format!("{}/bin:.:relative:/usr/bin:/bin", home.path().display());
    home.write(".profile", &format!("echo noise on stdout\nexport PATH={path}\n"));
    let entry = home.entry("only-in-my-profile".as_ref(), &["echo"], &[]);
    home.definition("p", &json!({"mcpServers": {"p": entry}}).to_string());
    let _daemon = home.daemon();
    let env = structured(&home.shim().call("p", "env", "{}"));
    assert_eq!(env["PATH"], format!("{}/bin:/usr/bin:/bin", home.path().display()));
}

#[test]
fn arguments_reach_no_shell_and_the_directory_is_the_definitions() {
    let home = Home::new();
    let odd = ["$HOME", "; touch pwned", "a b", "*", "`id`", "\"'"];
    home.child("w", &[&["echo"], &odd[..]].concat());
    let _daemon = home.daemon();
    let told = structured(&home.shim().call("w", "where", "{}"));
    let args: Vec<_> =
        told["args"].as_array().unwrap().iter().skip(2).map(|arg| arg.as_str().unwrap()).collect();
    assert_eq!(args, odd);
    assert_eq!(told["cwd"].as_str(), home.config_folder().join("mcps/w").to_str());
}

#[test]
fn a_relative_command_is_relative_to_its_definition() {
    let home = Home::new();
    let entry = home.entry("./mine".as_ref(), &["echo"], &[]);
    home.definition("rel", &json!({"mcpServers": {"rel": entry}}).to_string());
    std::os::unix::fs::symlink(&bins().evil_child, home.config_folder().join("mcps/rel/mine")).unwrap();
    let _daemon = home.daemon();
    assert!(home.shim().call("rel", "echo", "{}").contains("\"ok\":true"));
}

#[test]
fn a_missing_command_is_reported_with_the_search_path() {
    let home = Home::new();
    home.definition(
        "none",
        &json!({"name": "none", "command": {"cmd": "no-such-command", "args": []}}).to_string(),
    );
    let _daemon = home.daemon();
    let answer = home.shim().call("none", "echo", "{}");
    assert_eq!(kind_of(&answer).as_deref(), Some("child_spawn_failed"), "{answer}");
    for said in ["no-such-command", "/usr/local/bin:/usr/bin:/bin", "`none`"] {
        assert!(answer.contains(said), "{said} is missing in {answer}");
    }
}

#[test]
fn a_definition_without_a_command_is_misconfigured() {
    let home = Home::new();
    home.definition("idle", r#"{"name":"idle","description":"has no command"}"#);
    let _daemon = home.daemon();
    let answer = home.shim().call("idle", "echo", "{}");
    assert_eq!(kind_of(&answer).as_deref(), Some("misconfigured"), "{answer}");
    assert!(answer.contains("no command"), "{answer}");
}

#[test]
fn lists_and_handshakes_start_nothing() {
    let home = Home::new();
    home.child("lazy", &["echo"]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    let list: Value = serde_json::from_str(&shim.request("tools/list", "{}")).unwrap();
    assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 1);
    for method in ["prompts/list", "resources/list", "resources/templates/list"] {
        shim.request(method, "{}");
    }
    for route in ["/suites", "/status", "/proxy", "/proxy/lazy", "/health", "/ready"] {
        assert_eq!(daemon.endpoint().get(route).status, 200, "{route}");
    }
    assert!(home.children().is_empty(), "{:?}", home.children());
    assert!(shim.call("lazy", "echo", "{}").contains("\"ok\":true"));
    assert_eq!(home.children().len(), 1);
}

#[test]
fn each_child_has_a_small_guard() {
    let home = Home::new();
    home.child("g", &["echo"]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("g", "echo", "{}");
    let guards: Vec<_> = home
        .processes()
        .into_iter()
        .filter(|process| process.cmdline.starts_with("switchboard-guard"))
        .collect();
    assert_eq!(guards.len(), 1, "{:#?}", home.processes());
    let child = &home.children()[0];
    assert_eq!(child.parent, guards[0].pid);
    assert_eq!(guards[0].parent, daemon.pid());
}

#[test]
fn the_child_of_a_killed_guard_is_killed_too() {
    let home = Home::new();
    home.child("g", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let before = structured(&shim.call("g", "where", "{}"))["pid"].as_i64().unwrap();
    let guard = home
        .processes()
        .into_iter()
        .find(|process| process.cmdline.starts_with("switchboard-guard"))
        .unwrap();
    let id = shim.start_call("g", "hang", "{}");
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(guard.pid).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    let answer = shim.answer_to(&id.to_string());
    assert_eq!(kind_of(&answer).as_deref(), Some("child_exited"), "{answer}");
    until_true("the old child to go", TEST_TIMEOUT, || {
        !proto_tests::procs::alive(i32::try_from(before).unwrap())
    });
    let after = structured(&shim.call("g", "where", "{}"))["pid"].as_i64().unwrap();
    assert_ne!(before, after);
}

#[test]
fn the_bundled_mock_child_works_end_to_end() {
    let home = Home::new();
    let entry = home.entry(&bins().mock_child, &[], &[]);
    home.definition("mock", &json!({"mcpServers": {"mock": entry}}).to_string());
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let answer = shim.call("mock", "click", r##"{"selector":"#buy","z":1,"a":2}"##);
    assert_eq!(text_of(&answer), r##"{"ok":true,"name":"click","args":{"selector":"#buy","z":1,"a":2}}"##);
}

/// A server that is a shell script. Each start adds a line to the file `starts` in HOME.
fn scripted(home: &Home, script: &str) {
    let script = format!("echo once >> {}/starts\n{script}", home.path().display());
    let entry = home.entry("/bin/sh".as_ref(), &["-c", &script], &[]);
    home.definition("s", &json!({"mcpServers": {"s": entry}}).to_string());
}

fn starts(home: &Home) -> usize {
    fs::read_to_string(home.path().join("starts")).unwrap_or_default().lines().count()
}

#[test]
fn a_server_that_ends_at_start_is_started_once() {
    let home = Home::new();
    scripted(&home, "echo no token >&2; exit 1");
    let _daemon = home.daemon();
    let answer = home.shim().call("s", "echo", "{}");
    assert_eq!(kind_of(&answer).as_deref(), Some("child_exited"), "{answer}");
    assert_eq!(answer.matches("no token").count(), 1, "{answer}");
    assert_eq!(starts(&home), 1);
}

#[test]
fn a_server_that_ends_when_it_is_asked_for_its_era_is_started_twice_at_most() {
    let home = Home::new();
    scripted(&home, "echo no token >&2; read -r line; exit 1");
    let _daemon = home.daemon();
    let answer = home.shim().call("s", "echo", "{}");
    assert_eq!(kind_of(&answer).as_deref(), Some("child_exited"), "{answer}");
    assert_eq!(answer.matches("no token").count(), 1, "{answer}");
    assert_eq!(starts(&home), 2);
}

#[test]
fn the_start_timeout_includes_the_probe() {
    let home = Home::new();
    home.config(&json!({"timeouts": {"childSpawnMs": 3000}}));
    scripted(&home, "sleep 60");
    home.child("other", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    // The work before the very first start does not count.
    shim.call("other", "echo", "{}");
    let begin = Instant::now();
    let answer = shim.call("s", "echo", "{}");
    assert!(answer.contains("within 3000 ms"), "{answer}");
    assert!(begin.elapsed() < Duration::from_millis(4800), "{:?}", begin.elapsed());
}

#[test]
fn what_a_server_prints_to_stdout_is_shown() {
    let home = Home::new();
    home.config(&json!({"timeouts": {"childSpawnMs": 1500}}));
    scripted(&home, "echo 'Hello, I am starting up!'; echo ready; sleep 60");
    home.child("banner", &["banner"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let answer = shim.call("s", "echo", "{}");
    let expect = "wrote 2 lines to stdout that are not JSON-RPC, the first: `Hello, I am starting up!`";
    assert!(answer.contains(expect), "{answer}");
    let shown = |args: &[&str]| String::from_utf8(home.command(args).stdout).unwrap();
    let logs = shown(&["logs", "s"]);
    assert!(logs.contains("stdout: Hello, I am starting up!") && logs.contains("stdout: ready"), "{logs}");
    let explained = shown(&["explain", "s"]);
    assert!(explained.contains("Hello, I am starting up!"), "{explained}");
    assert!(shim.call("banner", "echo", "{}").contains("\"ok\":true"));
    let findings: Value = serde_json::from_str(&shown(&["doctor", "--json"])).unwrap();
    let warns = findings["findings"].as_array().unwrap().iter().any(|finding| {
        finding["severity"] == "warning"
            && finding["what"]
                .as_str()
                .is_some_and(|what| what.contains("`banner`") && what.contains("stdout"))
    });
    assert!(warns, "{findings}");
}
