//! The documentation is true: its commands run, its JSON is accepted, its links lead somewhere.
//!
//! The words after a fence say what a block is:
//! - `sh`: run by a test. Blocks marked `<!-- test: NAME -->` are run by `first_ten_minutes.rs`.
//! - `sh install`: installs something, builds, serves or needs a browser; not run.
//! - `sh example`: from the help texts; a test in `switchboard-ctl` parses each line.
//! - `sh terminal`: one command that asks questions; run on a terminal, in a project with a held server.
//! - `json config`, `json server` (or `jsonc`): `switchboard check` accepts it.
//! - `json editor`, `toml editor`, `yaml editor`: for an editor's file.
//! - `text`, or nothing: output and pictures.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use proto_tests::markdown::{Page, pages, root};
use proto_tests::{Home, Terminal, bins};
use serde_json::{Value, json};

const KINDS: [&str; 13] = [
    "",
    "text",
    "sh",
    "sh install",
    "sh example",
    "sh terminal",
    "json config",
    "jsonc config",
    "json server",
    "json editor",
    "toml editor",
    "yaml editor",
    "json",
];

#[test]
fn every_block_says_what_it_is() {
    let mut wrong = String::new();
    for page in pages() {
        for block in page.blocks().iter().filter(|block| !KINDS.contains(&block.kind)) {
            writeln!(wrong, "{}:{}: `{}`", page.name, block.line, block.kind).unwrap();
        }
    }
    assert!(wrong.is_empty(), "unknown kinds of blocks; `proto-tests/tests/docs.rs` lists them:\n{wrong}");
}

#[test]
fn the_readme_is_short() {
    let lines = fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(lines <= 150, "README.md has {lines} lines; move something to docs/");
}

/// The README's tokens are those of the measurement.
#[test]
fn the_readme_has_the_measured_figures() {
    let finding = fs::read_to_string(root().join("proto-tests/FINDING.md")).unwrap();
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    for (row, words) in [("| all tools listed |", "servers take"), ("| suites now |", "they take")] {
        let row = finding.lines().find(|line| line.starts_with(row)).unwrap();
        let tokens: u32 = row.split('|').nth(3).unwrap().trim().parse().unwrap();
        let wanted = format!("{words} {},{:03}", tokens / 1000, tokens % 1000);
        assert!(readme.contains(&wanted), "the README does not say \"{wanted}\", as FINDING.md does");
    }
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut broken = BTreeSet::new();
    for page in pages() {
        for (line, link) in page.links() {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let folder = Path::new(&page.name).parent().unwrap();
            let file = if path.is_empty() { root().join(&page.name) } else { root().join(folder).join(path) };
            if !file.exists() {
                broken.insert(format!("{}:{line}: there is no `{path}`", page.name));
            } else if !anchor.is_empty() {
                let target = Page { name: link.clone(), text: fs::read_to_string(&file).unwrap() };
                if !target.anchors().iter().any(|known| known == anchor) {
                    broken.insert(format!("{}:{line}: there is no heading for `{link}`", page.name));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_page_is_in_the_summary() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    for page in pages() {
        if let Some(name) = page.name.strip_prefix("docs/").filter(|name| *name != "SUMMARY.md") {
            assert!(summary.contains(&format!("({name})")), "docs/SUMMARY.md does not name {name}");
        }
    }
}

#[test]
fn every_json_example_is_accepted() {
    let home = Home::new();
    for page in pages() {
        for block in page.blocks() {
            let place = format!("{}:{}", page.name, block.line);
            let file = match block.kind {
                "json config" | "jsonc config" => ".config/switchboard/switchboard.config.json",
                "json server" => ".config/switchboard/mcps/some/.mcp.json",
                "json editor" => {
                    let parsed: Result<Value, _> = serde_json::from_str(&block.text);
                    assert!(parsed.is_ok(), "{place}: {parsed:?}");
                    continue;
                }
                _ => continue,
            };
            let file = home.write(file, &block.text);
            let output = home.command(&["check", file.to_str().unwrap()]);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{place}: {said}{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

/// Replays what is installed and defined on the machine of a reader.
struct Reader {
    home: Home,
    port: u16,
}

impl Reader {
    fn new(page: &Page) -> Self {
        let home = Home::new();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        home.config(&json!({"http": {"listen": format!("127.0.0.1:{port}")}}));
        home.write(".profile", "export PATH=$HOME/.cargo/bin:/usr/local/bin:/usr/bin:/bin\n");
        let bin = home.path().join(".cargo/bin");
        fs::create_dir_all(&bin).unwrap();
        bins().copy_to(&bin);
        // In place of the package runners: recorded servers.
        let (replay, mock) = (bins().replay_child.display(), bins().mock_child.display());
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *server-time*) exec {replay} time ;; *server-github*) exec {replay} github ;; esac\nexec {mock}\n"
        );
        for runner in ["uvx", "npx"] {
            let file = home.write(&format!(".cargo/bin/{runner}"), &script);
            fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let time =
            json!({"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time@2026.10.19"]}}});
        if !page.text.contains("switchboard add time") {
            home.definition("time", &time.to_string());
        }
        home.write(
            ".cursor/mcp.json",
            &json!({"mcpServers": {"notes": {"command": "npx", "args": ["-y", "notes-server@1.4.0"]}}})
                .to_string(),
        );
        home.write(".codex/config.toml", "# mine\n");
        let reader = Self { home, port };
        // An editor is open.
        reader.run("switchboard start").unwrap();
        reader
    }

    /// Runs a block like a script that ends at the first error; `Err` is what it printed.
    fn run(&self, script: &str) -> Result<(), String> {
        let script = script.replace("7420", &self.port.to_string());
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-xc", &script])
            .env_clear()
            .envs(self.home.environment())
            .env("PATH", format!("{}/.cargo/bin:/usr/local/bin:/usr/bin:/bin", self.home.path().display()))
            .env("SWITCHBOARD_SOCKET", self.home.socket())
            .current_dir(self.home.workspace())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        if output.status.success() {
            return Ok(());
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Err(format!("{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr)))
    }
}

impl Drop for Reader {
    /// The harness does not know the copy of the daemon that runs.
    fn drop(&mut self) {
        let stopped = self.run("switchboard stop");
        assert!(stopped.is_ok() || std::thread::panicking(), "{stopped:?}");
    }
}

/// Each page is one user, who types its blocks from top to bottom.
#[test]
fn every_command_block_runs() {
    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    let (mut ran, mut failed) = (0, String::new());
    for page in pages() {
        let blocks: Vec<_> = page
            .blocks()
            .into_iter()
            .filter(|block| matches!(block.kind, "sh" | "sh terminal") && block.mark.is_none())
            .collect();
        if blocks.is_empty() {
            continue;
        }
        let reader = Reader::new(&page);
        for block in blocks {
            let place = format!("{}:{}", page.name, block.line);
            if block.text.contains("curl ") && !has_curl {
                assert!(std::env::var_os("CI").is_none(), "{place} needs curl");
                eprintln!("{place} was not run: there is no curl on this machine");
                continue;
            }
            ran += 1;
            if block.kind == "sh terminal" {
                let project = reader.home.project("work");
                project.child("notes", &[]);
                let words: Vec<&str> = block.text.split_whitespace().skip(1).collect();
                let screen = Terminal::start(&reader.home, project.path(), &words, &[]).answer_all("y\n");
                if screen.code != Some(0) {
                    writeln!(failed, "{place}: {screen:?}").unwrap();
                }
            } else if let Err(why) = reader.run(&block.text) {
                writeln!(failed, "{place}: {why}").unwrap();
            }
        }
    }
    assert!(failed.is_empty(), "{failed}");
    assert!(ran >= 15, "{ran} blocks are few: were they found?");
}
