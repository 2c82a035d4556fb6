//! Files in the formats of other hosts, with each host's own extensions: all of them yield the same servers.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::path::{Path, PathBuf};

use proto_tests::Home;
use serde_json::{Value, json};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/definitions");

/// The file, and whether it defines the local server and the remote one.
const FILES: [(&str, bool, bool); 20] = [
    ("agent-plugin.json", true, true),
    ("claude-code-plugin.json", true, true),
    ("claude-code-project.json", true, true),
    ("claude-desktop.json", true, false),
    ("cline.json", true, true),
    ("codex-plugin-flat.json", true, true),
    ("codex-plugin-wrapped.json", true, true),
    ("continue.json", true, true),
    ("copilot-cli.json", true, true),
    ("cursor.json", true, true),
    ("gemini-settings.json", true, true),
    ("junie.json", true, false),
    ("one-child-remote.json", false, true),
    ("one-child.json", true, false),
    ("opencode.jsonc", true, true),
    ("roo.json", true, true),
    ("visual-studio.json", true, true),
    ("vscode.json", true, true),
    ("windsurf.json", true, true),
    ("zed-settings.json", true, true),
];

#[track_caller]
fn checked(files: &[PathBuf]) -> Vec<Value> {
    let home = Home::new();
    let mut args = vec!["check", "--json"];
    args.extend(files.iter().map(|file| file.to_str().unwrap()));
    let output = home.command(&args);
    let said: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert!(output.status.success(), "{said:#?}");
    said
}

#[test]
fn files_of_all_hosts_yield_the_same_servers() {
    let mut there: Vec<_> = std::fs::read_dir(FOLDER)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".env"))
        .collect();
    there.sort();
    assert_eq!(there, FILES.iter().map(|(name, ..)| *name).collect::<Vec<_>>());
    let paths: Vec<_> = FILES.iter().map(|(name, ..)| Path::new(FOLDER).join(name)).collect();
    for (said, (name, started, reached)) in checked(&paths).iter().zip(FILES) {
        assert_eq!(said["ok"], true, "{name}: {said:#}");
        assert_eq!(said["problems"], json!([]), "{name}");
        let mut expect = Vec::new();
        if started {
            expect.push(json!({
                "name": "github",
                "type": "stdio",
                "command": ["npx", "-y", "@modelcontextprotocol/server-github@2025.4.8", "--read-only"],
                "env": ["GITHUB_TOKEN", "LOG_LEVEL"],
                "cwd": FOLDER,
            }));
        }
        if reached {
            expect.push(json!({
                "name": "docs",
                "type": "http",
                "url": "https://docs.example.com/mcp",
                "headers": ["authorization"],
            }));
        }
        let servers = said["servers"].as_array().unwrap().iter().map(|server| {
            let mut server = server.clone();
            for host_s_own in ["fillsIn", "timeoutMs", "description"] {
                server.as_object_mut().unwrap().remove(host_s_own);
            }
            server
        });
        assert_eq!(servers.collect::<Vec<_>>(), expect, "{name}");
    }
}

#[test]
fn extensions_of_a_host_are_understood_or_reported() {
    let said = |name: &str| checked(&[Path::new(FOLDER).join(name)]).remove(0);
    let of = |said: &Value, what: &str| said["servers"][0][what].clone();
    let cline = said("cline.json");
    assert_eq!(of(&cline, "timeoutMs"), 60_000);
    let notes = cline["notes"].to_string();
    assert!(notes.contains("autoApprove") && notes.contains("`resting` is turned off"), "{notes}");
    assert_eq!(of(&said("gemini-settings.json"), "timeoutMs"), 600_000);
    assert_eq!(of(&said("claude-code-project.json"), "fillsIn"), json!(["GITHUB_TOKEN", "LOG_LEVEL"]));
    assert_eq!(of(&said("vscode.json"), "fillsIn"), json!(["github-token", "level"]));
    assert_eq!(of(&said("codex-plugin-flat.json"), "fillsIn"), json!(["HTTPS_PROXY"]));
    assert_eq!(of(&said("opencode.jsonc"), "fillsIn"), json!(["GITHUB_TOKEN"]));
    // Agent Plugins expand only their own path variables.
    assert_eq!(of(&said("agent-plugin.json"), "fillsIn"), json!([]));
    assert!(of(&said("one-child.json"), "description").as_str().unwrap().starts_with("Repositories"));
}
