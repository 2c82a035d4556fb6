//! `switchboard check`, as a user meets it who has just written a file.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::fs;
use std::process::{Command, Stdio};

use proto_tests::{Home, bins};
use serde_json::{Value, json};

const TYPO: &str = r#"{
  // mine
  "mcpServers": {
    "gh": { "comand": "npx", "args": ["hunter2"] },
    "ok": { "command": "npx", "args": ["-y", "a b"], "cwd": "sub", "env": { "T": "${TOKEN}" } }
  }
}
"#;

/// Its output and its exit code; it runs in the workspace, where the file is.
fn piped(home: &Home, args: &[&str]) -> (String, Option<i32>) {
    let output = home.command(&[&["check"], args].concat());
    assert!(output.stderr.is_empty(), "{output:?}");
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

/// Like `piped`, but on a terminal.
fn on_a_terminal(home: &Home, args: &str) -> (String, Option<i32>) {
    let line = format!("{} check {args}", bins().switchboard.display());
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env_clear()
        .envs(home.environment())
        .current_dir(home.workspace())
        .stdin(Stdio::null())
        .output()
        .expect("script(1), which is part of every Linux");
    (String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n"), output.status.code())
}

fn write(home: &Home, name: &str, text: &str) {
    fs::write(home.workspace().join(name), text).unwrap();
}

#[test]
fn a_mistake_is_reported_with_its_position_and_the_nearest_key() {
    let home = Home::new();
    write(&home, ".mcp.json", TYPO);
    let (said, code) = piped(&home, &[".mcp.json"]);
    assert_eq!(code, Some(1), "{said}");
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[0], ".mcp.json:4:11: `gh` is misconfigured: no command");
    assert_eq!(lines[1], ".mcp.json:4:13: unknown key `mcpServers.gh.comand`; did you mean `command`?");
    assert!(said.contains(".mcp.json: 2 problems\n  ok: npx -y 'a b'\n"), "{said}");
    // The file's text is not written to a pipe, which a program or a model may read.
    assert!(!said.contains('^') && !said.contains("hunter2"), "{said}");
}

#[test]
fn on_a_terminal_the_faulty_line_is_shown() {
    let home = Home::new();
    write(&home, ".mcp.json", TYPO);
    let (said, code) = on_a_terminal(&home, ".mcp.json");
    assert_eq!(code, Some(1), "{said}");
    let marked = "did you mean `command`?\n 4 |     \"gh\": { \"comand\": \"npx\", \"args\": [\"hunter2\"] },\n   |             ^\n";
    assert!(said.contains(marked), "{said}");
    let marked =
        "no command\n 4 |     \"gh\": { \"comand\": \"npx\", \"args\": [\"hunter2\"] },\n   |           ^\n";
    assert!(said.contains(marked), "{said}");
}

#[test]
fn control_characters_of_a_file_are_escaped() {
    let home = Home::new();
    write(
        &home,
        "odd.json",
        "{\"mcpServers\": {\"a\\u001b[2Jb\": {}, \"c\": {\"\\u202ekey\": 1, \"command\": \"x\\u001b]0;t\"}}}",
    );
    for said in [piped(&home, &["odd.json"]).0, on_a_terminal(&home, "odd.json").0] {
        assert!(!said.contains('\u{1b}') && !said.contains('\u{202e}'), "{said:?}");
        assert!(said.contains(r"\u{202e}key"), "{said}");
    }
}

#[test]
fn hosts_that_would_reject_the_file_are_named() {
    let home = Home::new();
    write(&home, ".mcp.json", TYPO);
    let (said, _) = piped(&home, &[".mcp.json"]);
    for note in [
        "note: Claude Code refuses the file: it takes strict JSON",
        "note: Claude Code ignores `cwd`",
        "note: `mcpServers` is not read by Zed (`context_servers`), OpenCode (`mcp`) and Visual Studio (`servers`)",
        "Roo, Codex, and VS Code outside of a `.mcp.json` do not fill in `${NAME}`",
    ] {
        assert!(said.contains(note), "{note}: {said}");
    }
    write(&home, "plain.json", r#"{"mcpServers": {"x": {"command": "true"}}}"#);
    let (said, code) = piped(&home, &["plain.json"]);
    assert_eq!(code, Some(0));
    assert!(!said.contains("Claude Code") && said.ends_with("plain.json: fine\n  x: true\n"), "{said}");
    write(&home, "url.json", r#"{"mcpServers": {"x": {"url": "https://me:pass@h.example/mcp?key=1"}}}"#);
    let (said, _) = piped(&home, &["url.json"]);
    assert!(
        said.contains("url.json:1:30: `url` without `type` is taken as `http`; Claude Code refuses it"),
        "{said}"
    );
    assert!(said.contains("Claude Desktop and Junie") && !said.contains("me:pass"), "{said}");
    // URLs that can never be used.
    for (url, why) in [
        ("https://me:pass@h.example/mcp", "holds a name or a password"),
        ("http://h.example/mcp", "is not encrypted"),
        ("http://127.0.0.1:99999/mcp", "is not valid"),
    ] {
        write(&home, "far.json", &json!({"mcpServers": {"x": {"type": "http", "url": url}}}).to_string());
        let (said, code) = piped(&home, &["far.json"]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn check_can_print_json() {
    let home = Home::new();
    write(&home, ".mcp.json", TYPO);
    write(&home, "one.json", r#"{"name": "x", "disabled": true, "command": {"cmd": "c"}}"#);
    let (said, code) = piped(&home, &["--json", ".mcp.json", "one.json", "absent.json"]);
    assert_eq!(code, Some(1));
    let said: Vec<Value> = serde_json::from_str(&said).unwrap();
    assert_eq!(said[0]["ok"], false);
    assert_eq!(
        said[0]["problems"][1],
        json!({"line": 4, "column": 13, "message": "unknown key `mcpServers.gh.comand`; did you mean `command`?"})
    );
    let server = &said[0]["servers"][0];
    assert_eq!((&server["name"], &server["env"]), (&json!("ok"), &json!(["T"])));
    assert_eq!(server["fillsIn"], json!(["TOKEN"]));
    assert_eq!(server["cwd"], home.workspace().join("sub").to_str().unwrap());
    assert_eq!((&said[1]["ok"], &said[1]["servers"]), (&json!(true), &json!([])));
    assert!(said[1]["notes"][0]["message"].as_str().unwrap().contains("turned off"), "{said:?}");
    assert_eq!(said[2]["problems"], json!([{"line": null, "column": null, "message": "does not exist"}]));
}

#[test]
fn a_config_is_checked_as_a_config() {
    let home = Home::new();
    write(&home, "switchboard.config.json", "{\n  \"suitez\": {},\n  \"http\": {\"listen\": \"off\"}\n}");
    let (said, code) = piped(&home, &["switchboard.config.json"]);
    assert_eq!(code, Some(1));
    assert!(
        said.starts_with("switchboard.config.json:2:3: unknown key `suitez`; did you mean `suites`?\n"),
        "{said}"
    );
    assert!(said.contains(":3:11: `http` is for the personal config only\n"), "{said}");
    assert!(said.contains("read as a project's config; `--config FILE`"), "{said}");
    // The user's own config is recognised by its path or by `--config`.
    let own = home.config_folder().join("switchboard.config.json");
    let (said, code) = piped(&home, &[own.to_str().unwrap()]);
    assert_eq!((said.ends_with(": fine\n"), code), (true, Some(0)), "{said}");
    write(&home, "mine.json", r#"{"http": {"listen": "off"}, "discoverGlobs": ["*.json"]}"#);
    let (said, code) = piped(&home, &["--config", "mine.json", "mine.json"]);
    assert_eq!((said.as_str(), code), ("mine.json: fine\n", Some(0)));
    let (said, code) = piped(&home, &["mine.json"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("mine.json:1:1: is a config, not a definition of servers"), "{said}");
    write(&home, "switchboard.config.js", "module.exports = {}");
    let (said, code) = piped(&home, &["switchboard.config.js"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("plain JSON"), "{said}");
}
