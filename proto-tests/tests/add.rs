//! `switchboard add` and `switchboard remove`: servers of the user's own come and go without a restart.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use proto_tests::wait::until_true;
use proto_tests::{Home, TEST_TIMEOUT, bins};
use serde_json::{Value, json};

/// The command's output on both streams, after checking its exit code.
#[track_caller]
fn said(home: &Home, args: &[&str], code: i32) -> String {
    let output = home.command(args);
    let said = String::from_utf8([&output.stdout[..], &output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    said
}

/// `add NAME OPTIONS -- evil-child echo`.
#[track_caller]
fn add(home: &Home, name: &str, options: &[&str], code: i32) -> String {
    let mark = format!("SWITCHBOARD_TEST={}", home.mark());
    let evil = bins().evil_child.to_str().unwrap();
    said(home, &[&["add", name, "--env", &mark], options, &["--", evil, "echo"]].concat(), code)
}

fn file(home: &Home, name: &str) -> PathBuf {
    home.config_folder().join("mcps").join(name).join(".mcp.json")
}

fn written(home: &Home, name: &str) -> Value {
    serde_json::from_slice(&fs::read(file(home, name)).unwrap()).unwrap()
}

#[test]
fn a_server_is_usable_once_added_and_gone_once_removed() {
    let home = Home::new();
    let daemon = home.daemon();
    let mut shim = home.shim();
    let told = add(&home, "kid", &["--description", "plays", "--env", "A=1 2"], 0);
    assert_eq!(
        told,
        format!("added `kid` in {}\nit was started once: 24 tools\n", file(&home, "kid").display())
    );
    assert!(shim.call("kid", "echo", "{}").contains("\"ok\":true"));
    shim.notification("notifications/tools/list_changed");
    let definition = written(&home, "kid");
    assert_eq!((&definition["name"], &definition["description"]), (&json!("kid"), &json!("plays")));
    assert_eq!(definition["command"]["env"]["A"], "1 2");
    assert_eq!(fs::metadata(file(&home, "kid")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(daemon.suite("kid")["state"], "ready", "{}", daemon.suite("kid"));
    let told = said(&home, &["remove", "kid"], 0);
    assert_eq!(told, format!("removed `kid` from {}\n", file(&home, "kid").display()));
    assert!(!file(&home, "kid").parent().unwrap().exists());
    assert_eq!(daemon.status()["suites"], json!([]));
    until_true("its child to go", TEST_TIMEOUT, || home.children().is_empty());
}

#[test]
fn a_name_can_be_added_only_once() {
    let home = Home::new();
    add(&home, "kid", &[], 0);
    let told = add(&home, "kid", &["--env", "A=1"], 1);
    assert!(told.contains("`kid` is already defined in") && told.contains("`--force` replaces it"), "{told}");
    assert_eq!(written(&home, "kid")["command"]["env"]["A"], Value::Null);
    add(&home, "kid", &["--env", "A=1", "--force"], 0);
    assert_eq!(written(&home, "kid")["command"]["env"]["A"], "1");
    // A server defined in another file blocks the name, and `--force` does not replace it there.
    home.servers("many", &[("one", &["echo"]), ("many", &["echo"])]);
    let told = add(&home, "one", &["--force"], 1);
    assert!(told.contains("mcps/many/.mcp.json") && told.contains("`switchboard remove one`"), "{told}");
    // `--force` does not overwrite a file that defines other servers too.
    let before = fs::read(file(&home, "many")).unwrap();
    let told = add(&home, "many", &["--force"], 1);
    assert!(told.contains("defines `one` as well"), "{told}");
    assert_eq!(fs::read(file(&home, "many")).unwrap(), before);
    // A broken file may be the user's work: it takes `--force` to overwrite it.
    home.definition("torn", "{");
    assert!(add(&home, "torn", &[], 1).contains("`--force`"));
    add(&home, "torn", &["--force"], 0);
}

#[test]
fn a_server_that_cannot_work_is_not_written() {
    let home = Home::new();
    for (name, options, says) in [
        ("kid", &["--env", "hunter2"][..], "`--env` must be NAME=VALUE"),
        ("kid", &["--env", "=hunter2"], "`--env` must be NAME=VALUE"),
        ("kid", &["--env", "A=${file:/x}"], "`${file:…}` is not supported"),
        ("kid", &["--env-file", "/no/such.env"], "/no/such.env` does not exist"),
        ("a/b", &[], "no `/`"),
        (".kid", &[], "no `.` in front"),
        ("k\u{1b}d", &[], "printable"),
        (&"k".repeat(65), &[], "1 to 64 printable"),
    ] {
        let told = add(&home, name, options, 1);
        assert!(told.contains(says) && !told.contains("hunter2"), "{told}");
    }
    let told = said(&home, &["add", "self", "--", "switchboard"], 1);
    assert!(told.contains("Switchboard itself"), "{told}");
    for (options, says) in [
        (&["--url", "h.example/mcp"][..], "`url` must begin with `http://` or `https://`"),
        (&["--url", "http://h.example/mcp"], "`url` is not encrypted"),
        (&["--url", "https://h.example", "--header", "Bearer hunter2"], "`--header` must be NAME: VALUE"),
        (&["--url", "https://h.example", "--header", "a b: c"], "cannot name a header"),
    ] {
        let told = said(&home, &[&["add", "far"], options].concat(), 1);
        assert!(told.contains(says) && !told.contains("hunter2"), "{told}");
    }
    for usage in
        [&["add"][..], &["add", "kid"], &["add", "kid", "--url", "https://h", "--", "true"], &["remove"]]
    {
        said(&home, usage, 2);
    }
    let left: Vec<_> = fs::read_dir(home.config_folder().join("mcps")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn add_warns_of_a_secret_in_the_definition() {
    let home = Home::new();
    let told = add(&home, "tok", &["--env", "GITHUB_TOKEN=ghp_0123456789abcdefghij"], 0);
    assert!(told.contains("`switchboard secret set TOK_GITHUB_TOKEN`") && !told.contains("ghp_"), "{told}");
    let told = add(&home, "gap", &["--env", "GITHUB_TOKEN=${GITHUB_TOKEN:-none}"], 0);
    assert!(!told.contains("secret set"), "{told}");
}

#[test]
fn a_url_is_written_as_a_remote_server() {
    let home = Home::new();
    let url = ["--url", "https://docs.example.com/mcp", "--header", "Authorization: Bearer ${DOCS_TOKEN}"];
    said(&home, &[&["add", "docs", "--description", "pages"], &url[..]].concat(), 0);
    assert_eq!(
        written(&home, "docs"),
        json!({
            "name": "docs", "description": "pages", "type": "http", "url": "https://docs.example.com/mcp",
            "headers": {"Authorization": "Bearer ${DOCS_TOKEN}"},
        })
    );
    assert!(
        said(&home, &["check", file(&home, "docs").to_str().unwrap()], 0)
            .contains("docs: https://docs.example.com/mcp")
    );
}

#[test]
fn add_fails_if_the_globs_do_not_find_the_new_file() {
    let home = Home::new();
    home.config(&json!({"discoverGlobs": ["servers/*.json"]}));
    let told = add(&home, "kid", &[], 1);
    assert!(told.contains("the `discoverGlobs` of") && told.contains("do not find"), "{told}");
    assert!(!file(&home, "kid").exists());
    home.write(".config/switchboard/switchboard.config.json", "{\"discoverGlob\": 1}");
    assert!(add(&home, "kid", &[], 1).contains("did you mean `discoverGlobs`?"));
}

#[test]
fn relative_paths_are_resolved_against_the_current_directory() {
    let home = Home::new();
    fs::write(home.workspace().join("v.env"), "A=1\n").unwrap();
    said(&home, &["add", "kid", "--env-file", "v.env", "--cwd", ".", "--", "./serve", "./arg"], 0);
    let command = &written(&home, "kid")["command"];
    let here = |name: &str| json!(home.workspace().join(name).to_str().unwrap());
    assert_eq!((&command["cmd"], &command["envFile"]), (&here("serve"), &here("v.env")));
    assert_eq!(
        (&command["cwd"], &command["args"]),
        (&json!(home.workspace().to_str().unwrap()), &json!(["./arg"]))
    );
}

#[test]
fn removing_one_server_keeps_the_rest_of_the_file() {
    let home = Home::new();
    let entry = home.entry(&bins().evil_child, &["echo"], &[]);
    let text = format!(
        "\u{feff}{{\r\n  // all of mine\r\n  \"mcpServers\": {{\r\n    \"one\": {entry}, // the first\r\n    /* kept */ \"two\": {entry},\r\n  }},\r\n  \"theme\": \"dark\"\r\n}}\r\n"
    );
    let kept = home.write("dotfiles/mcp.json", &text);
    fs::create_dir_all(file(&home, "many").parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&kept, file(&home, "many")).unwrap();
    let daemon = home.daemon();
    let mut shim = home.shim();
    assert!(shim.call("one", "echo", "{}").contains("\"ok\":true"));
    said(&home, &["remove", "one"], 0);
    let rest = fs::read_to_string(&kept).unwrap();
    for part in ["\u{feff}{", "// all of mine\r\n", "/* kept */ \"two\"", "\"theme\": \"dark\"\r\n}\r\n"] {
        assert!(rest.contains(part), "{part:?} is missing in {rest:?}");
    }
    assert!(!rest.contains("\"one\""), "{rest}");
    assert!(file(&home, "many").is_symlink(), "the link was written over");
    let names: Vec<_> =
        daemon.status()["suites"].as_array().unwrap().iter().map(|suite| suite["child"].clone()).collect();
    assert_eq!(names, ["two"]);
    assert!(shim.call("two", "echo", "{}").contains("\"ok\":true"));
    // Removing the last server leaves an empty map, and the user's comments.
    said(&home, &["remove", "two"], 0);
    assert!(fs::read_to_string(&kept).unwrap().contains("// all of mine"));
}

#[test]
fn an_unknown_name_gets_the_nearest_name_suggested() {
    let home = Home::new();
    home.child("github", &["echo"]);
    let told = said(&home, &["remove", "gihtub"], 1);
    assert!(told.contains("you have no server `gihtub`; did you mean `github`?"), "{told}");
    assert!(!said(&home, &["remove", "zebra"], 1).contains("did you mean"));
    assert!(file(&home, "github").exists());
}

/// The description of this suite, as the next host is shown it.
#[track_caller]
fn described(home: &Home, suite: &str) -> String {
    home.shim().tools()[suite]["description"].as_str().unwrap().to_owned()
}

#[test]
fn a_server_that_was_added_is_described_in_the_first_session() {
    // With a daemon and without one.
    for runs in [true, false] {
        let home = Home::new();
        let daemon = runs.then(|| home.daemon());
        let told = add(&home, "kid", &["--description", "plays"], 0);
        assert!(told.ends_with("\nit was started once: 24 tools\n"), "{told}");
        let _daemon = daemon.unwrap_or_else(|| {
            until_true("its child to go", TEST_TIMEOUT, || home.children().is_empty());
            home.daemon()
        });
        // Not later: some hosts never ask again.
        let text = described(&home, "kid_suite");
        assert!(
            text.starts_with("Use this tool for plays. ") && text.contains("Tools: echo, slow"),
            "{text}"
        );
        // The user may not want it to be started.
        let told = add(&home, "other", &["--no-start"], 0);
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(!described(&home, "other_suite").contains("Tools"));
        let told: Value = serde_json::from_str(&add(&home, "third", &["--json"], 0)).unwrap();
        assert_eq!(told["start"], json!({"server": "third", "tools": 24}), "{told}");
    }
}

#[test]
fn a_server_that_does_not_start_is_added_all_the_same() {
    for runs in [true, false] {
        let home = Home::new();
        let daemon = runs.then(|| home.daemon());
        let mark = format!("SWITCHBOARD_TEST={}", home.mark());
        let evil = bins().evil_child.to_str().unwrap();
        let told = said(&home, &["add", "kid", "--env", &mark, "--", evil, "exit-at-start", "1"], 0);
        assert!(told.contains("\nit did not start: it exited with status 1"), "{told}");
        assert!(file(&home, "kid").exists());
        // What it lacks is said once, and it is not started.
        let told = said(&home, &["add", "bare", "--env", "A=${NO_SUCH_TOKEN}", "--", evil, "echo"], 0);
        assert!(
            told.contains("note: it is misconfigured: missing `NO_SUCH_TOKEN`") && told.lines().count() == 2,
            "{told}"
        );
        if let Some(daemon) = daemon {
            assert_eq!(daemon.starts("kid"), 1);
            assert_eq!(daemon.starts("bare"), 0);
        }
    }
}

#[test]
fn imported_servers_are_learned_and_nothing_of_a_workspace_is_started() {
    let home = Home::new();
    let project = home.project("work");
    let trace = home.path().join("trace");
    let touch = format!("touch {}", trace.display());
    project.define("held", &home.entry(std::path::Path::new("/bin/sh"), &["-c", &touch], &[]));
    let entry = home.entry(&bins().evil_child, &["echo"], &[]);
    let lost = home.entry(std::path::Path::new("/nonexistent/program"), &[], &[]);
    home.write(".cursor/mcp.json", &json!({"mcpServers": {"kid": entry, "lost": lost}}).to_string());
    let told = said(&home, &["import"], 0);
    assert!(told.contains("\nkid: it was started once: 24 tools\n"), "{told}");
    assert!(told.contains("\nlost: it did not start: "), "{told}");
    assert!(!trace.exists() && home.children().is_empty(), "{told}");
    let _daemon = home.daemon();
    assert!(described(&home, "kid_suite").contains("Tools: echo, slow"));
}
