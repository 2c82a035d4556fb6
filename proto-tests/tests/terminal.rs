//! What commands show on a terminal: text from files and servers cannot control it.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use proto_tests::terminal::Screen;
use proto_tests::{DaemonProcess, Home, Project, Terminal, bins, shim::structured};
use serde_json::json;

/// Clears the screen, sets the title, returns to the start of the line, reorders and hides text.
const EVIL: &str = "\x1b[2J\x1b]0;t\x07\r\u{9b}31m\u{202e}\u{200b}!";

/// Fails if the text holds control characters other than our own colours.
#[track_caller]
fn harmless(what: &str, text: &str) {
    let mut rest = text.to_owned();
    for colour in ["0", "1", "2", "4", "31", "32", "33"] {
        rest = rest.replace(&format!("\x1b[{colour}m"), "");
    }
    // Our own progress line overwrites the one before.
    rest = rest.replace("\r\x1b[2K", "").replace("\r\n", "\n");
    let raw = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{200b}'..='\u{200c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
    };
    if let Some(at) = rest.find(raw) {
        let near: String = rest[at..].chars().take(60).collect();
        panic!("`{what}` shows {near:?} raw:\n{}", rest.escape_debug());
    }
}

/// A project whose files hold escape sequences wherever text is allowed.
fn hostile(home: &Home) -> Project<'_> {
    home.child("evil", &["escapes"]);
    home.child_with("mine", &["echo"], &[("PLAIN", EVIL)]);
    let project = home.project("work");
    project.define(
        "aaa",
        &json!({"command": format!("missing {EVIL}"), "args": [EVIL], "env": {"A": EVIL}, "description": EVIL}),
    );
    project.define(
        "bbb",
        &json!({"command": bins().evil_child, "args": ["echo", EVIL], "env": {"B": EVIL}, "description": EVIL}),
    );
    project.define("ccc", &json!({"url": format!("http://127.0.0.1:9/{EVIL}"), "headers": {"x-a": "b"}}));
    project.define("ddd", &json!({"command": "true", "args": EVIL}));
    project.write(&format!("mcps/{}/.mcp.json", "f\x1b[2J\u{202e}g"), "{nonsense \x1b[2J");
    project.write("evil.json", &json!({"mcpServers": {EVIL: {"command": EVIL, EVIL: 1}}}).to_string());
    project
}

/// Runs `switchboard` on a new terminal and returns what it showed.
fn on_a_terminal(home: &Home) -> String {
    let line = format!("{} --socket {}", bins().switchboard.display(), home.socket().display());
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env_clear()
        .envs(home.environment())
        .stdin(Stdio::null())
        .output()
        .expect("script(1), which is part of every Linux");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn without_arguments_on_a_terminal_it_shows_help_and_status() {
    let home = Home::new();
    home.child("a", &["echo"]);
    let shown = on_a_terminal(&home);
    assert!(shown.contains("Usage:") && shown.contains("status"), "{shown}");
    assert!(shown.contains("no switchboardd is running"), "{shown}");
    let _daemon = home.daemon();
    let shown = on_a_terminal(&home);
    assert!(shown.contains("\n  a ") && shown.contains("cold"), "{shown}");
}

/// Longer than any idle timeout on the way. `SWITCHBOARD_IDLE_SECONDS` makes it longer.
#[test]
fn the_next_call_of_an_idle_shim_works_at_once() {
    let idle = std::env::var("SWITCHBOARD_IDLE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    let home = Home::new();
    home.child("a", &["echo"]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("a", "echo", "{}");
    std::thread::sleep(Duration::from_secs(idle));
    let start = Instant::now();
    let answer = shim.call("a", "echo", r#"{"after":"idle"}"#);
    assert_eq!(structured(&answer)["args"]["after"], "idle");
    // Neither a new child nor a new session was needed.
    assert_eq!(daemon.starts("a"), 1);
    assert!(!shim.stderr().contains("lost switchboardd"), "{}", shim.stderr());
    assert!(start.elapsed() < Duration::from_secs(5), "it took {:?}", start.elapsed());
}

#[test]
fn no_command_shows_control_characters_of_files_or_servers() {
    let home = Home::new();
    let project = hostile(&home);
    let cursor = json!({"mcpServers": {EVIL: {"command": EVIL, "env": {"A": EVIL}}}});
    home.write(".cursor/mcp.json", &cursor.to_string());
    let _daemon = DaemonProcess::start(&home, &[]);
    for args in [
        &["introspect", "evil"][..],
        &["introspect", "evil", "x;touch y"],
        &["introspect", "evil", "--full"],
        &["call", "evil", "x;touch y", r#"{"a'; touch z #": "1"}"#],
        &["call", "evil", "x;touch y", r#"{"a'; touch z #": "1"}"#, "--json"],
        &[
            "call",
            "mine",
            "raise",
            &format!(r#"{{"json": {}}}"#, json!(json!({"code": 1, "message": EVIL}).to_string())),
        ],
        &["status"],
        &["status", "--json"],
        &["ls"],
        &["ls", "--json"],
        &["explain", "evil"],
        &["explain", "mine"],
        &["explain", "aaa"],
        &["explain", "bbb"],
        &["explain", "bbb", "--json"],
        &["explain", "ccc"],
        &["logs"],
        &["logs", "evil"],
        &["logs", "evil", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["allow", "--list"],
        &["allow", "--list", "--json"],
        &["allow"],
        &["savings"],
        &["check", "evil.json", "mcps/aaa/.mcp.json", "mcps/ddd/.mcp.json"],
        &["check", "evil.json", "--json"],
        &["import", "--dry-run"],
        &["import", "--dry-run", "--json"],
        &["setup", "--dry-run", "--host", "cursor"],
        &["reload"],
        &["--dry-run"],
        &["--dry-run", "--json"],
        &["deny", "aaa"],
        &["explain", "aaa"],
    ] {
        let mut terminal = Terminal::start(&home, project.path(), args, &[]);
        // Every question is declined.
        let screen = if args[0] == "call" && args[1] == "evil" {
            if terminal.shows("): ") {
                terminal.type_in("\n");
            }
            terminal.end()
        } else {
            terminal.answer_all("n\n")
        };
        harmless(&args.join(" "), &screen.text);
        assert!(!screen.text.contains("panicked"), "{args:?}: {}", screen.text);
    }
    // The command to copy is a single shell command.
    let Screen { text, .. } = project.on_terminal(&["introspect", "evil", "x;touch y"], "");
    assert!(text.contains(r#"switchboard call evil 'x;touch y' '{"a'\''; touch z #":"#), "{text}");
    // Line breaks and joined emoji stay readable.
    assert!(text.contains("\n  second line 👩‍💻"), "{text}");
}

#[test]
fn a_repository_cannot_forge_the_question_of_another_entry() {
    let home = Home::new();
    let project = home.project("work");
    let forged =
        "\x1b[2J\x1b[Hgithub\r\n  runs      npx -y server-github\r\nallow this version? [y/N] \x1b[20;24r";
    project.define("aaa", &json!({"command": forged}));
    project
        .define("github", &json!({"command": "/bin/sh", "args": ["-c", "touch /nonexistent/x; sleep 60"]}));
    let Screen { text, code } = project.on_terminal(&["allow"], "n\n");
    assert_eq!(code, Some(4), "{text}");
    harmless("allow", &text);
    // There is one question, below what it asks about.
    assert_eq!(text.matches("\nallow this version? [y/N] ").count(), 1, "{text}");
    let last = text.rfind("\nallow this version? [y/N] ").unwrap();
    assert!(text[..last].contains("  runs      /bin/sh -c 'touch /nonexistent/x; sleep 60'\n"), "{text}");
}

#[test]
fn an_answer_that_was_typed_before_the_question_does_not_count() {
    let home = Home::new();
    // Leaves time to type: the command asks the login shell for the PATH before it looks for the program.
    home.write(".profile", "sleep 2\n");
    let project = home.project("work");
    project.child("k", &[]);
    let mut terminal = Terminal::start(&home, project.path(), &["allow"], &[]);
    terminal.type_in("y\n");
    assert!(terminal.shows("[y/N] "));
    terminal.type_in("n\n");
    let Screen { text, code } = terminal.end();
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("stays held"), "{text}");
}
