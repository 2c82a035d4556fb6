//! `switchboard import`: asks before anything is written, takes the servers that are named, and says what is the same.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use proto_tests::{Home, Terminal, bins};
use serde_json::{Value, json};

const CLAUDE: &str = r#"{ "mcpServers": {
  "time": { "command": "uvx", "args": ["mcp-server-time"] },
  "github": { "command": "npx", "args": ["-y", "@x/server-github"], "env": { "GITHUB_TOKEN": "hunter2hunter" } }
} }"#;
const CURSOR: &str = r#"{ "mcpServers": {
  "time": { "command": "python3", "args": ["-m", "mcp_server_time"] },
  "wide": { "command": "uvx", "args": ["mcp-server-time"] },
  "nothing": { "args": ["x"] }
} }"#;

fn home() -> Home {
    let home = Home::new();
    home.write(".claude.json", CLAUDE);
    home.write(".cursor/mcp.json", CURSOR);
    home.write(".codex/config.toml", "[mcp_servers.box]\ncommand = \"box\"\n");
    home
}

fn own(home: &Home) -> Vec<String> {
    let folder = fs::read_dir(home.config_folder().join("mcps")).unwrap();
    let mut names: Vec<String> =
        folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Adds Switchboard to the editors' files.
fn set_up(home: &Home) {
    home.run_ok(&["setup", "--yes", "--shim", bins().switchboard.to_str().unwrap()]);
}

#[test]
fn nothing_is_written_before_a_yes() {
    let home = home();
    let start = |args: &[&str]| Terminal::start(&home, &home.workspace(), args, &[("NO_COLOR", "1")]);
    for command in [&["import", "--no-start"][..], &["import", "--no-start", "--remove"]] {
        let screen = start(command).answer_all("n\n");
        assert!(screen.text.contains("import 4 servers and store 1 secret? [y/N]"), "{}", screen.text);
        assert!(screen.text.contains("nothing was changed"), "{}", screen.text);
        assert_eq!(screen.text.matches("[y/N]").count(), 1, "{}", screen.text);
    }
    assert!(own(&home).is_empty() && !home.state_folder().join("secrets").exists());
    let screen = start(&["import", "--no-start"]).answer_all("y\n");
    assert!(screen.text.contains("4 servers imported"), "{}", screen.text);
    assert_eq!(own(&home), ["box", "github", "time", "time-2"]);
}

#[test]
fn only_the_named_servers_are_imported() {
    let home = home();
    let output = home.command(&["import", "--only", "gitlab"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("no editor has a server `gitlab`; they have box, github, nothing, time, wide"),
        "{said}"
    );
    set_up(&home);
    let told = out(&home.command(&["import", "--no-start", "--only", "github,box", "--remove", "--yes"]));
    assert_eq!(own(&home), ["box", "github"]);
    assert!(!told.contains("time (") && !told.contains("wide ("), "{told}");
    assert!(fs::read_to_string(home.path().join(".claude.json")).unwrap().contains("mcp-server-time"));
}

#[test]
fn a_dry_run_speaks_of_what_would_be_and_of_all() {
    let home = home();
    let told = out(&home.command(&["import", "--dry-run"]));
    for part in [
        "time (Claude Code): would be imported as `time`",
        "its secret would be stored as `MCP_GITHUB_TOKEN`",
        "wide (Cursor): the same server as `time`",
        "nothing (Cursor): would be skipped: it has arguments but no command",
        "this one is `time-2` and looks the same; `switchboard remove time-2`",
        "4 servers would be imported, 1 duplicate, 1 would be skipped",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let told = out(&home.command(&["import", "--no-start"]));
    assert!(told.ends_with("4 servers imported, 1 duplicate, 1 skipped\n"), "{told}");
    let told = out(&home.command(&["import", "--no-start"]));
    assert!(told.ends_with("no new servers, 5 already there, 1 skipped\n"), "{told}");
    assert!(told.contains("time (Claude Code): already there as `time`"), "{told}");
}

#[test]
fn editors_have_one_order() {
    let home = home();
    let order = |told: &str| {
        let mut found: Vec<(usize, &str)> = ["Claude Code", "Cursor", "Codex"]
            .into_iter()
            .map(|name| (told.rfind(&format!("\n{name}:")).unwrap_or_else(|| panic!("{name}: {told}")), name))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, name)| name).collect::<Vec<_>>()
    };
    set_up(&home);
    let removed = out(&home.command(&["import", "--no-start", "--remove", "--yes"]));
    let undone = out(&home.command(&["undo", "--yes"]));
    assert_eq!(order(&removed), order(&undone));
    let listed: Vec<&str> = removed.lines().filter(|line| line.contains(": imported as")).collect();
    let place = |name: &str| listed.iter().position(|line| line.contains(name)).unwrap();
    let mut by_list = order(&removed);
    by_list.sort_by_key(|name| place(&format!("({name}")));
    assert_eq!(by_list, order(&removed));
}

/// Cursor has a server that works and one that ends when it starts.
fn good_and_bad() -> (Home, PathBuf) {
    let home = Home::new();
    let good = home.entry(&bins().evil_child, &["echo"], &[]);
    let bad = home.entry(Path::new("/bin/false"), &[], &[]);
    let file = home.write(".cursor/mcp.json", &json!({"mcpServers": {"good": good, "die": bad}}).to_string());
    (home, file)
}

fn servers(file: &Path) -> Vec<String> {
    let text: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    text["mcpServers"].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn nothing_is_removed_from_an_editor_that_does_not_start_switchboard() {
    let (home, file) = good_and_bad();
    let before = fs::read(&file).unwrap();
    for more in [&["--no-start"][..], &[]] {
        let output = home.command(&[&["import", "--remove", "--yes"][..], more].concat());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(
            said.contains("Cursor: its servers stay there") && said.contains("setup --host cursor"),
            "{said}"
        );
        assert_eq!(fs::read(&file).unwrap(), before);
    }
    let said = String::from_utf8(home.command(&["doctor"]).stdout).unwrap();
    let at = |part: &str| said.find(part).unwrap_or_else(|| panic!("{part}: {said}"));
    assert!(
        at("switchboard setup --host cursor") < at("switchboard import --host cursor --remove"),
        "{said}"
    );
}

#[test]
fn only_servers_that_answered_are_removed() {
    let (home, file) = good_and_bad();
    set_up(&home);
    let output = home.command(&["import", "--remove", "--yes"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("die stays in Cursor: it did not start"), "{said}");
    assert!(said.find("die: it did not start") < said.find("the imported servers were removed"), "{said}");
    assert_eq!(servers(&file), ["die", "switchboard"]);
    // What stays is said again, and may be removed by name without a test.
    let output = home.command(&["import", "--remove", "--yes", "--json"]);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &told["kept"][0]["name"]), (Some(1), &json!("die")), "{told}");
    let screen = Terminal::start(&home, &home.workspace(), &["import", "--remove"], &[("NO_COLOR", "1")]);
    let screen = screen.answer_all("n\n");
    assert!(screen.text.contains("remove die from Cursor anyway? [y/N]"), "{}", screen.text);
    assert_eq!(servers(&file), ["die", "switchboard"]);
    home.run_ok(&["import", "--remove", "--yes", "--no-start", "--only", "die"]);
    assert_eq!(servers(&file), ["switchboard"]);
}

#[test]
fn setup_after_import_names_the_next_step() {
    let home = home();
    let shim = bins().switchboard.to_str().unwrap();
    home.run_ok(&["import", "--no-start"]);
    let told = out(&home.command(&["setup", "--yes", "--shim", shim]));
    assert!(told.contains("next: `switchboard import --remove` removes"), "{told}");
}
