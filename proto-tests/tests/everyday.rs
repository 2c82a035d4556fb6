//! Commands as users know them from other programs: `call key=value`, `status --watch`, `logs --since`, `stop` with
//! nothing to stop, `doctor --fix`, `pin`, `uninstall`.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use proto_tests::bins::bins;
use proto_tests::wait::until_true;
use proto_tests::{DaemonProcess, Home, TEST_TIMEOUT, Terminal};
use serde_json::{Value, json};

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
fn in_json(home: &Home, command: &[&str], code: i32) -> Value {
    let output = home.command(&[&["--json"], command].concat());
    assert_eq!(output.status.code(), Some(code), "{command:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{command:?}: {error}: {output:?}"))
}

#[test]
fn a_call_takes_key_value_words_and_the_schema_gives_them_types() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let _daemon = home.daemon();
    let file = home.write("note.txt", "from a file");
    let from_file = format!("t=@{}", file.display());
    for (words, object) in [
        (
            &["echo", "a=1", "b=two", "c:=\"3\"", "d.e=true"][..],
            json!({"a": 1, "b": "two", "c": "3", "d": {"e": true}}),
        ),
        // The schema says that both are strings.
        (&["strict", "need=5", "may=true"], json!({"need": "5", "may": "true"})),
        (&["echo", &from_file], json!({"t": "from a file"})),
        (&["echo", r#"{"a": [1]}"#], json!({"a": [1]})),
        (&["echo"], json!({})),
    ] {
        let output = home.command(&[&["call", "kid"], words].concat());
        assert!(output.status.success(), "{words:?}: {output:?}");
        assert!(
            out(&output).contains(&object.to_string()) || out(&output).contains(&spaced(&object)),
            "{words:?}: {}",
            out(&output)
        );
    }
    for (words, said) in [
        (&["strict", "need=x", "ned=y"][..], "no argument `ned`; did you mean `need`?"),
        (&["strict", "need=x", "need=y"], "`need` is given twice"),
        (&["echo", "a:=x"], "`a:=` needs JSON"),
        (&["echo", "a=1", "word"], "`word` is neither `key=value`"),
        (&["echo", "a=@/nonexistent"], "reads a file: `/nonexistent` cannot be read"),
    ] {
        let output = home.command(&[&["call", "kid"], words].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        assert!(err(&output).contains(said), "{words:?}: {output:?}");
    }
}

#[test]
fn a_refused_call_says_what_to_type() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let _daemon = home.daemon();
    for (tool, words) in
        [("strict", "`switchboard introspect kid strict`"), ("strct", "`switchboard introspect kid`")]
    {
        let output = home.command(&["call", "kid", tool]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = err(&output);
        assert!(said.contains(words) && !said.contains("subtool") && !said.contains("action"), "{said}");
    }
}

fn spaced(object: &Value) -> String {
    object.to_string().replace(':', ": ").replace(',', ", ")
}

#[test]
fn a_dry_run_starts_all_servers_at_once_and_counts_them() {
    let home = Home::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        home.child(name, &["slow-initialize", "1500"]);
    }
    home.child("broken", &["exit-at-start", "1"]);
    let begun = Instant::now();
    let output = home.command(&["--dry-run"]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(begun.elapsed() < Duration::from_secs(8), "one after the other: {:?}", begun.elapsed());
    assert!(out(&output).contains("6 of 7 servers answer; these do not: broken"), "{}", out(&output));
    assert!(!out(&output).contains("not exposed"), "{}", out(&output));
    assert!(!err(&output).contains('\r'), "progress without a terminal: {output:?}");
    let screen = Terminal::start(&home, &home.workspace(), &["--dry-run"], &[("TERM", "xterm")]).end();
    assert!(screen.text.contains("starting 7 servers: "), "{}", screen.text);
}

#[test]
fn stop_and_service_remove_with_nothing_to_do_are_no_errors() {
    let home = Home::new();
    let output = home.command(&["stop"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(out(&output), "no switchboardd is running\n");
    assert_eq!(in_json(&home, &["stop"], 0), json!({"running": false}));
    let no_socket = |args: &[&str]| {
        std::process::Command::new(&proto_tests::bins().switchboard)
            .args(args)
            .env_clear()
            .envs(home.environment())
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap()
    };
    for args in [&["service", "remove"][..], &["service", "remove", "--dry-run"]] {
        let output = no_socket(args);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(out(&output).contains("there is no service to remove"), "{output:?}");
    }
}

#[test]
fn status_is_shown_again_until_it_is_interrupted() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon();
    let mut screen = Terminal::start(&home, &home.workspace(), &["status", "--watch"], &[("TERM", "xterm")]);
    assert!(screen.shows("\u{1b}[H"), "the screen is not cleared");
    assert!(screen.shows("kid"));
    drop(daemon);
    home.kill_daemons();
    assert!(screen.shows("no switchboardd is running"));
    screen.type_in("\u{3}");
    screen.end();
}

#[test]
fn logs_since_leaves_out_what_is_older() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let _daemon = home.daemon();
    home.shim().call("kid", "stderr", r#"{"text":"an early word"}"#);
    let logs = |since: &str| out(&home.command(&["logs", "kid", "--since", since]));
    until_true("the word", TEST_TIMEOUT, || logs("1h").contains("an early word"));
    std::thread::sleep(Duration::from_millis(2100));
    assert!(!logs("1s").contains("an early word"), "{}", logs("1s"));
    assert_eq!(home.command(&["logs", "--since", "soon"]).status.code(), Some(2));
}

#[test]
fn doctor_puts_errors_first_folds_warnings_and_fixes_modes() {
    let home = Home::new();
    for name in ["one", "two", "three"] {
        home.definition(
            name,
            &json!({"name": name, "command": {"cmd": "npx", "args": ["-y", name]}}).to_string(),
        );
    }
    home.child("kid", &["echo"]);
    let token = home.write(".local/state/switchboard/token", "x");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).unwrap();
    let output = home.command(&["doctor"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = out(&output);
    assert!(text.starts_with('✗'), "{text}");
    assert!(text.find('✗') < text.find('!') && text.find("\n!") < text.find("\n✓"), "{text}");
    assert_eq!(text.matches("without a fixed version").count(), 1, "{text}");
    assert_eq!(text.matches("login shell's PATH").count(), 1, "{text}");
    assert!(text.contains("one (`one`)") && text.contains("switchboard pin"), "{text}");
    assert!(text.contains("`switchboard doctor --fix` fixes 2 of these"), "{text}");
    let findings = in_json(&home, &["doctor"], 1);
    let unpinned = findings["findings"].as_array().unwrap().iter().filter(|one| one["about"] == "unpinned");
    assert_eq!(unpinned.count(), 3, "{findings}");
    let output = home.command(&["doctor", "--fix"]);
    assert!(
        out(&output).contains("fixed: closed ~/.local/state/switchboard/token to others (mode 600)"),
        "{output:?}"
    );
    assert_eq!(fs::metadata(&token).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(out(&home.command(&["doctor", "--fix"])).contains("nothing here can be fixed without you"));
}

/// A package runner that starts the evil child, whatever the package is.
fn runner(home: &Home, name: &str) -> String {
    let evil = proto_tests::bins().evil_child.display();
    let file = home.write(&format!("bin/{name}"), &format!("#!/bin/sh\nexec {evil} echo\n"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn pin_writes_the_version_that_runs_and_nothing_else() {
    let home = Home::new();
    let npx = runner(&home, "npx");
    let text = format!(
        "{{\n  // mine\n  \"mcpServers\": {{\n    \"kid\": {{ \"command\": \"{npx}\", \"args\": [\"-y\", \"evil-pkg\"], \"env\": {{\"{}\": \"{}\"}} }},\n    \"other\": {{ \"command\": \"{npx}\", \"args\": [\"-y\", \"gone-pkg@latest\"], \"env\": {{\"{}\": \"{}\"}} }},\n  }},\n}}\n",
        "SWITCHBOARD_TEST",
        home.mark(),
        "SWITCHBOARD_TEST",
        home.mark()
    );
    let file = home.definition("many", &text);
    home.command(&["--dry-run"]);
    let info = in_json(&home, &["--dry-run"], 0);
    assert_eq!(info["suites"].as_array().unwrap().len(), 2, "{info}");
    // Not on disk: not known.
    let told = in_json(&home, &["pin", "--dry-run"], 1);
    assert!(told["servers"].as_array().unwrap().iter().all(|one| one["result"] == "unknown"), "{told}");
    let version = told["servers"][0]["why"].as_str().unwrap();
    let version = version.strip_prefix("it reports ").unwrap().split(',').next().unwrap().to_owned();
    home.write(".npm/_npx/a1/node_modules/evil-pkg/package.json", &json!({"version": version}).to_string());
    home.write(".npm/_npx/a1/node_modules/gone-pkg/package.json", &json!({"version": "99.9.9"}).to_string());
    home.write(".npm/_npx/b2/node_modules/gone-pkg/package.json", &json!({"version": "98.0.0"}).to_string());
    let output = home.command(&["pin", "--dry-run"]);
    assert!(output.status.success(), "{output:?}");
    let shown = out(&output);
    assert!(
        shown.contains(&format!("evil-pkg@{version}")) && shown.contains("1 of 2 servers can be pinned"),
        "{shown}"
    );
    assert!(shown.contains("on disk are 98.0.0, 99.9.9; write `gone-pkg@VERSION` in ~/.config"), "{shown}");
    let doctor = out(&home.command(&["doctor"]));
    assert!(doctor.contains("# write the version of `gone-pkg@latest`"), "{doctor}");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert_eq!(home.command(&["pin"]).status.code(), Some(2));
    let output = home.command(&["pin", "--yes"]);
    assert!(output.status.success() && out(&output).contains("pinned 1 of 2 servers"), "{output:?}");
    let pinned = text.replace("\"evil-pkg\"", &format!("\"evil-pkg@{version}\""));
    assert_eq!(fs::read_to_string(&file).unwrap(), pinned);
    assert_eq!(home.command(&["pin", "kid"]).status.code(), Some(1));
    // Nothing was pinned.
    assert_eq!(home.command(&["pin", "--yes"]).status.code(), Some(1));
    // The tree of exactly this command is the one that runs, whatever version the server reports.
    home.write(".npm/_npx/b2/package.json", &json!({"_npx": {"packages": ["gone-pkg@latest"]}}).to_string());
    assert!(out(&home.command(&["doctor"])).contains("(98.0.0 runs now)"));
    let output = home.command(&["pin", "--yes"]);
    assert!(output.status.success() && out(&output).contains("pinned 1 of 1 server"), "{output:?}");
    assert!(fs::read_to_string(&file).unwrap().contains("gone-pkg@98.0.0"));
}

#[test]
fn uninstall_undoes_everything_and_purge_deletes_the_rest() {
    let home = Home::new();
    let before = r#"{ "mcpServers": { "toy": { "command": "toy" } } }"#;
    let cursor = home.write(".cursor/mcp.json", before);
    home.child("kid", &["echo"]);
    let shim = home.write("bin/switchboard", "#!/bin/sh\n");
    fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).unwrap();
    home.run_ok(&["setup", "--host", "curs", "--yes", "--shim", shim.to_str().unwrap()]);
    assert_ne!(fs::read_to_string(&cursor).unwrap(), before);
    let _daemon = home.daemon();
    let told = in_json(&home, &["uninstall", "--dry-run"], 0);
    let steps: Vec<&str> =
        told["steps"].as_array().unwrap().iter().map(|step| step.as_str().unwrap()).collect();
    assert!(
        steps[0].contains("~/.cursor/mcp.json") && steps[1].starts_with("stop switchboardd"),
        "{steps:?}"
    );
    assert_ne!(fs::read_to_string(&cursor).unwrap(), before);
    assert_eq!(home.command(&["uninstall"]).status.code(), Some(2), "nobody was asked");
    // As `install.sh` writes them.
    home.write(".local/share/man/man1/switchboard.1", "");
    home.write(".local/share/zsh/site-functions/_switchboard", "");
    let output = home.command(&["uninstall", "--yes"]);
    let said = out(&output);
    assert!(
        said.contains("share/man/man1/switchboard*.1") && said.contains("site-functions/_switchboard"),
        "{said}"
    );
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_to_string(&cursor).unwrap(), before);
    assert!(home.daemons().is_empty() && home.config_folder().is_dir());
    assert!(out(&output).contains("switchboard uninstall --purge"), "{output:?}");
    let output = home.command(&["uninstall", "--purge", "--yes"]);
    assert!(output.status.success(), "{output:?}");
    assert!(!home.config_folder().exists() && !home.state_folder().exists(), "{output:?}");
    let output = home.command(&["uninstall"]);
    assert!(
        output.status.success() && out(&output).contains("nothing of Switchboard is set up"),
        "{output:?}"
    );
}

/// Two daemons of one user share their folders.
#[test]
fn purge_with_a_socket_spares_the_folders_of_another_daemon() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let named = home.daemon();
    let usual = Command::new(&bins().switchboardd)
        .args(["--listen", "off"])
        .env_clear()
        .envs(home.environment())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let asks_usual = || {
        let mut command = Command::new(&bins().switchboard);
        command
            .args(["status", "--json"])
            .env_clear()
            .envs(home.environment())
            .output()
            .unwrap()
            .status
            .success()
    };
    until_true("the other daemon to serve", TEST_TIMEOUT, asks_usual);
    let output = home.command(&["uninstall", "--purge", "--yes"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("another switchboardd of yours serves") && said.contains("nothing was changed"),
        "{said}"
    );
    assert_eq!(home.daemons().len(), 2);
    assert!(home.config_folder().is_dir() && home.state_folder().is_dir());
    let mut usual = usual;
    usual.kill().unwrap();
    usual.wait().unwrap();
    let output = home.command(&["uninstall", "--purge", "--yes"]);
    assert!(output.status.success() && !home.config_folder().exists(), "{output:?}");
    drop(named);
}

#[test]
fn purge_leaves_a_config_that_is_among_other_files() {
    let home = Home::new();
    let work = home.write("proj/work.txt", "mine").parent().unwrap().to_owned();
    let config = home.write("proj/x.json", r#"{"http": {"listen": "off"}}"#);
    let state = home.path().join("elsewhere");
    let daemon = DaemonProcess::start_with(
        &home,
        &["--listen", "off", "--config", config.to_str().unwrap()],
        &[("XDG_STATE_HOME", state.to_str().unwrap())],
    );
    let told = in_json(&home, &["uninstall", "--purge", "--dry-run"], 0);
    let output = home.command(&["uninstall", "--purge", "--yes"]);
    assert!(output.status.success(), "{output:?}");
    drop(daemon);
    assert_eq!(fs::read_to_string(work.join("work.txt")).unwrap(), "mine");
    assert!(config.exists() && state.join("switchboard").is_dir(), "{output:?}");
    assert!(!home.config_folder().exists() && !home.state_folder().exists(), "{output:?}");
    assert!(told["left"].to_string().contains("proj/x.json"), "{told}");
    assert!(!told["steps"].to_string().contains("proj"), "{told}");
    assert!(out(&output).contains("proj/x.json is not in Switchboard's own folder and stays"), "{output:?}");
}

#[test]
fn a_host_is_known_by_a_beginning_that_only_one_has() {
    let home = Home::new();
    home.write(".qwen/settings.json", "{}");
    let said = |host: &str, code: i32| {
        let output = home.command(&["import", "--host", host, "--dry-run"]);
        assert_eq!(output.status.code(), Some(code), "{host}: {output:?}");
        err(&output)
    };
    assert!(said("claude", 2).contains("`claude` may be claude-code or claude-desktop"));
    assert!(said("vim", 2).contains("known editors are claude-code, "));
    assert!(said("gemni", 2).contains("did you mean `gemini`?"));
    said("qwen-code", 0);
    home.write(".claude.json", "{}");
    assert!(said("claude", 0).contains("`claude` is taken as `claude-code`"));
}

#[test]
fn a_daemon_whose_usual_port_is_taken_uses_another() {
    let home = Home::new();
    home.write(".config/switchboard/switchboard.config.json", "{}");
    // Taken by us, or by somebody else already.
    let _taken = std::net::TcpListener::bind("127.0.0.1:7420");
    home.run_ok(&["start"]);
    let status = in_json(&home, &["status"], 0);
    let address = status["whereabouts"]["tcp"].as_str().unwrap().to_owned();
    assert!(address.starts_with("127.0.0.1:") && !address.ends_with(":7420"), "{status}");
    let told = fs::read_to_string(format!("{}.json", home.socket().display())).unwrap();
    assert!(told.contains(&address), "{told}");
    let opened = out(&home.command(&["open", "--no-browser"]));
    assert!(opened.contains(&address), "{opened}");
    assert!(!out(&home.command(&["doctor"])).contains("no TCP"));
    home.run_ok(&["stop"]);
}
