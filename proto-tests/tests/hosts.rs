//! `switchboard setup`, `import` and `undo`: the files of every host, byte for byte.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use proto_tests::{Home, Terminal, bins};
use serde_json::{Value, json};

/// A host, its config file below HOME, a sample of that file, and the servers that `import` takes from it.
const SAMPLES: [(&str, &str, &str, &[&str]); 15] = [
    ("claude-code", ".claude.json", "claude-code.json", &["docs", "github", "local-db"]),
    ("claude-desktop", ".config/Claude/claude_desktop_config.json", "claude-desktop.json", &["filesystem"]),
    ("cursor", ".cursor/mcp.json", "cursor.json", &["github", "linear"]),
    ("vscode", ".config/Code/User/mcp.json", "vscode.json", &["page", "postgres"]),
    ("copilot-cli", ".copilot/mcp-config.json", "copilot-cli.json", &["playwright"]),
    ("zed", ".config/zed/settings.json", "zed.json", &["time"]),
    ("windsurf", ".codeium/windsurf/mcp_config.json", "windsurf.json", &["figma"]),
    ("codex", ".codex/config.toml", "codex.toml", &["context7", "far"]),
    ("gemini", ".gemini/settings.json", "gemini.json", &["events", "stream", "weather"]),
    ("qwen", ".qwen/settings.json", "qwen.json", &["news", "search", "tickets"]),
    ("cline", ".cline/data/settings/cline_mcp_settings.json", "cline.json", &["github", "notes"]),
    ("roo", ROO, "roo.json", &["github", "sqlite"]),
    ("continue", ".continue/config.yaml", "continue.yaml", &["files", "remote"]),
    ("opencode", ".config/opencode/opencode.jsonc", "opencode.jsonc", &["everything"]),
    ("junie", ".junie/mcp/mcp.json", "junie.json", &["git"]),
];
const ROO: &str = ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json";

/// Part of every secret in the samples.
const CANARY: &str = "CANARY";

fn sample(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/hosts").join(name)).unwrap()
}

/// A program for hosts to start.
fn shim(home: &Home, folder: &str) -> String {
    let shim = home.write(&format!("{folder}/switchboard"), "#!/bin/sh\n");
    fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).unwrap();
    shim.to_str().unwrap().to_owned()
}

fn text(output: &Output) -> String {
    String::from_utf8([&output.stdout[..], &output.stderr].concat()).unwrap()
}

/// The command's output, after checking its exit code and that it shows no secret.
#[track_caller]
fn said(home: &Home, args: &[&str], code: i32) -> String {
    // These tests import servers that cannot be started.
    let more: &[&str] = if args[0] == "import" { &["--no-start"] } else { &[] };
    let output = home.command(&[args, more].concat());
    let said = text(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert!(!said.contains(CANARY) && !said.contains("canary"), "{args:?} shows a secret: {said}");
    said
}

/// Stops the thread that writes like a host, even if the test panics.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[track_caller]
fn set_up(home: &Home, more: &[&str]) -> String {
    let shim = shim(home, "bin");
    said(home, &[&["setup", "--yes", "--shim", &shim], more].concat(), 0)
}

/// The names of the user's own servers.
fn own(home: &Home) -> Vec<String> {
    let folders = fs::read_dir(home.config_folder().join("mcps")).unwrap().flatten();
    let mut names: Vec<_> = folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn definition(home: &Home, name: &str) -> Value {
    let file = home.config_folder().join("mcps").join(name).join(".mcp.json");
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

/// Every file below HOME with its bytes and mode.
fn everything(home: &Home) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let (mut found, mut open) = (BTreeMap::new(), vec![home.path()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            let meta = path.symlink_metadata().unwrap();
            if meta.is_dir() {
                open.push(path.clone());
            }
            let body = if meta.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            found.insert(path, (meta.mode(), body));
        }
    }
    found
}

/// Whether all characters of `small` are in `large`, in the same order.
fn is_kept(small: &str, large: &str) -> bool {
    let mut large = large.chars();
    small.chars().all(|wanted| large.any(|found| found == wanted))
}

#[test]
fn every_host_goes_through_setup_import_setup_and_undo() {
    for (host, file, vector, servers) in SAMPLES {
        let home = Home::new();
        let before = sample(vector);
        let file = home.write(file, &before);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let now = || fs::read_to_string(&file).unwrap();
        let told = set_up(&home, &[]);
        assert!(told.contains(": set up ("), "{host}: {told}");
        let after = now();
        assert!(is_kept(&before, &after), "{host}: {after}");
        assert_eq!(after.matches(&shim(&home, "bin")).count(), 1, "{host}: {after}");
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o640, "{host}");
        said(&home, &["import", "--host", host], 0);
        assert_eq!(
            (own(&home), now()),
            (servers.iter().map(|name| (*name).to_owned()).collect(), after.clone()),
            "{host}"
        );
        let all = everything(&home);
        said(&home, &["import"], 0);
        assert!(set_up(&home, &["--host", host]).contains("already set up"), "{host}");
        assert_eq!(everything(&home), all, "{host}: twice is not once");
        let told = said(&home, &["undo", "--yes"], 0);
        assert!(told.contains("restored as it was"), "{host}: {told}");
        assert_eq!(now(), before, "{host}");
        assert!(said(&home, &["undo"], 0).contains("nothing to undo"), "{host}");
        for name in own(&home) {
            let file = home.config_folder().join("mcps").join(&name).join(".mcp.json");
            said(&home, &["check", file.to_str().unwrap()], 0);
        }
    }
}

#[test]
fn each_hosts_entry_has_the_hosts_own_format() {
    for (host, file, vector, _) in SAMPLES {
        let home = Home::new();
        let file = home.write(file, &sample(vector));
        set_up(&home, &["--host", host]);
        let (text, shim) = (fs::read_to_string(&file).unwrap(), shim(&home, "bin"));
        let compact: String = text.split_whitespace().collect();
        let plain = format!(r#""switchboard":{{"command":"{shim}","args":[]}}"#);
        let stdio = format!(r#""switchboard":{{"type":"stdio","command":"{shim}","args":[]}}"#);
        let expect = match host {
            "claude-code" | "vscode" => stdio,
            "copilot-cli" => {
                format!(r#""switchboard":{{"type":"local","command":"{shim}","args":[],"tools":["*"]}}"#)
            }
            "codex" => {
                format!("[mcp_servers.switchboard]command=\"{shim}\"supports_parallel_tool_calls=true")
            }
            "continue" => format!("mcpServers:-name:switchboardcommand:\"{shim}\"#everything"),
            "opencode" => format!(r#""switchboard":{{"type":"local","command":["{shim}"],"enabled":true}}"#),
            _ => plain,
        };
        assert!(compact.contains(&expect), "{host}: {expect} is not in {text}");
        // A file that was strict JSON stays strict JSON.
        if let Ok(value) = serde_json::from_str::<Value>(&sample(vector)) {
            let mut now: Value = serde_json::from_str(&text).unwrap();
            let key = if host == "vscode" { "servers" } else { "mcpServers" };
            assert!(now[key].as_object_mut().unwrap().remove("switchboard").is_some(), "{host}");
            assert_eq!(now, value, "{host}");
        }
    }
}

#[test]
fn missing_and_empty_files_are_created_and_restored() {
    for (host, file, vector, _) in SAMPLES {
        let contents: &[Option<&str>] = if vector.ends_with("json") || vector.ends_with("jsonc") {
            &[None, Some(""), Some("{}"), Some("{}\n"), Some("\r\n{\r\n}\r\n"), Some("\u{feff}{\"a\":1}")]
        } else {
            &[None, Some(""), Some("# nothing yet\n"), Some("\r\n")]
        };
        for content in contents {
            let home = Home::new();
            let path = home.path().join(file);
            if let Some(content) = content {
                home.write(file, content);
            }
            shim(&home, "bin");
            let before = everything(&home);
            set_up(&home, &["--host", host]);
            let made = fs::read_dir(home.path()).unwrap().count();
            assert!(made > 0 && everything(&home) != before, "{host} {content:?}");
            said(&home, &["undo", "--yes"], 0);
            let mut after = everything(&home);
            after.retain(|path, _| !path.starts_with(home.path().join(".local")));
            assert_eq!(after, before, "{host} {content:?} {}", path.display());
        }
    }
}

#[test]
fn a_dry_run_writes_nothing() {
    let home = Home::new();
    for (_, file, vector, _) in SAMPLES {
        home.write(file, &sample(vector));
    }
    let shim = shim(&home, "bin");
    let before = everything(&home);
    let told = said(&home, &["setup", "--dry-run", "--shim", &shim], 0);
    assert_eq!(told.matches("would be set up").count(), SAMPLES.len(), "{told}");
    assert!(told.contains("found      Cursor (by its file)") && told.contains("+++ "), "{told}");
    said(&home, &["import", "--dry-run"], 0);
    said(&home, &["import", "--dry-run", "--remove"], 0);
    said(&home, &["undo", "--dry-run"], 0);
    let told: Value =
        serde_json::from_str(&said(&home, &["setup", "--dry-run", "--json", "--shim", &shim], 0)).unwrap();
    assert_eq!(told["files"].as_array().unwrap().len(), SAMPLES.len(), "{told}");
    assert!(told["files"][0]["diff"].as_str().unwrap().contains("+    \"switchboard\": {"), "{told}");
    assert_eq!(everything(&home), before);
    set_up(&home, &[]);
    let before = everything(&home);
    let told = said(&home, &["undo", "--dry-run"], 0);
    assert_eq!(told.matches("would be restored").count(), SAMPLES.len(), "{told}");
    assert_eq!(everything(&home), before);
}

#[test]
fn secrets_are_stored_privately_and_never_shown() {
    let home = Home::new();
    for (_, file, vector, _) in SAMPLES {
        home.write(file, &sample(vector));
    }
    // `said` checks the output.
    set_up(&home, &[]);
    said(&home, &["import"], 0);
    said(&home, &["import", "--json"], 0);
    said(&home, &["import", "--remove", "--yes"], 0);
    let of_hosts: Vec<PathBuf> = SAMPLES.iter().map(|(_, file, ..)| home.path().join(file)).collect();
    for (path, (mode, body)) in everything(&home) {
        if String::from_utf8_lossy(&body).contains(CANARY) && !of_hosts.contains(&path) {
            assert!(path.starts_with(home.state_folder()), "{}", path.display());
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
            assert_eq!(
                path.parent().unwrap().metadata().unwrap().mode() & 0o777,
                0o700,
                "{}",
                path.display()
            );
        }
    }
    let kept = said(&home, &["secret", "ls"], 0);
    for name in [
        "MCP_GITHUB_PERSONAL_ACCESS_TOKEN",
        "DOCS_TOKEN",
        "MCP_X_FIGMA_TOKEN",
        "NOTES_API_KEY",
        "REMOTE_TOKEN",
    ] {
        assert!(
            kept.lines().any(|line| line.trim_start().starts_with(&format!("{name} "))),
            "{name}: {kept}"
        );
    }
    assert_eq!(definition(&home, "docs")["headers"]["Authorization"], "Bearer ${DOCS_TOKEN}");
    assert_eq!(definition(&home, "notes")["url"], "https://notes.example.com/mcp?api_key=${NOTES_API_KEY}");
    said(&home, &["undo", "--yes"], 0);
    for (host, file, vector, _) in SAMPLES {
        assert_eq!(fs::read_to_string(home.path().join(file)).unwrap(), sample(vector), "{host}");
    }
}

#[test]
fn entries_in_different_formats_become_the_same_definition() {
    let home = Home::new();
    for (_, file, vector, _) in SAMPLES {
        home.write(file, &sample(vector));
    }
    let told = said(&home, &["import"], 0);
    // Four hosts run it: three with the same token, and one in another version.
    assert_eq!(told.matches("the same server as `github`").count(), 2, "{told}");
    assert!(told.contains("`github` is the name of another server; this one is `github-2`"), "{told}");
    for (part, why) in [
        ("here (Cursor): skipped", "would run code of whatever project is open"),
        ("off (Zed): skipped", "turned off in Zed"),
        ("mcp-server-context7 (Zed): skipped", "an extension may start it"),
        ("old (Windsurf): skipped", "turned off in Windsurf"),
        ("jira (OpenCode): skipped", "turned off"),
        ("filed (OpenCode): skipped", "only OpenCode reads"),
    ] {
        assert!(told.lines().any(|line| line.starts_with(part) && line.contains(why)), "{part}: {told}");
    }
    assert!(told.contains("`switchboard secret set pg-url`"), "{told}");
    let command = |name: &str| definition(&home, name)["command"].clone();
    assert_eq!(
        command("context7"),
        json!({"cmd": "npx", "args": ["-y", "@upstash/context7-mcp"], "env": {"LOG_LEVEL": "debug"}, "passEnv": ["CONTEXT7_TOKEN"]})
    );
    assert_eq!(definition(&home, "context7")["timeout"], 120_000);
    assert_eq!(definition(&home, "time")["timeout"], 30_000);
    assert_eq!(
        definition(&home, "far"),
        json!({"name": "far", "type": "http", "url": "https://far.example.com/mcp",
               "headers": {"Authorization": "Bearer ${FAR_TOKEN}", "X-Team": "${FAR_TEAM}"}})
    );
    assert_eq!(
        command("weather")["env"],
        json!({"WEATHER_API_KEY": "${WEATHER_API_KEY}", "HOME_TOWN": "${TOWN:-Bern}"})
    );
    assert_eq!(
        (&definition(&home, "events")["type"], &definition(&home, "stream")["type"]),
        (&json!("sse"), &json!("http"))
    );
    assert_eq!(command("postgres")["args"][2], "${input:pg-url}");
    assert_eq!(command("postgres")["env"]["REGION"], "${input:region:-eu}");
    assert_eq!(command("everything")["env"], json!({"API_KEY": "${EVERYTHING_KEY}", "PLAIN": "x"}));
    assert_eq!(command("files")["env"], json!({"TOKEN": "${FILES_TOKEN}"}));
    assert_eq!(command("local-db")["cwd"], "/home/ada/shop");
    assert_eq!(command("git")["cwd"], "/home/ada/shop");
    let all = everything(&home);
    assert!(!said(&home, &["import"], 0).contains("imported as"));
    assert_eq!(everything(&home), all);
}

#[test]
fn a_server_works_after_it_was_imported() {
    let home = Home::new();
    let entry = home.entry(&bins().evil_child, &["echo"], &[("API_TOKEN", "sk-CANARY0123456789abcdef")]);
    home.write(".cursor/mcp.json", &json!({"mcpServers": {"kid": entry}}).to_string());
    let _daemon = home.daemon();
    let mut shim = home.shim();
    assert!(said(&home, &["import"], 0).contains("kid (Cursor): imported as `kid`"));
    assert!(shim.call("kid", "echo", "{}").contains("\"ok\":true"));
    assert_eq!(definition(&home, "kid")["command"]["env"]["API_TOKEN"], "${KID_API_TOKEN}");
    // A server that the user already has is not imported again, whatever its name.
    home.write(".gemini/settings.json", &json!({"mcpServers": {"toy": entry}}).to_string());
    assert!(said(&home, &["import"], 0).contains("toy (Gemini CLI): already there as `kid`"));
    // Another value under the same name makes another server, and another secret.
    let other = home.entry(&bins().evil_child, &["echo"], &[("API_TOKEN", "sk-CANARY9876543210fedcba")]);
    home.write(".gemini/settings.json", &json!({"mcpServers": {"kid": other}}).to_string());
    assert!(said(&home, &["import"], 0).contains("this one is `kid-2`"));
    assert_eq!(definition(&home, "kid-2")["command"]["env"]["API_TOKEN"], "${KID_API_TOKEN_2}");
}

#[test]
fn servers_that_would_not_work_are_left_in_their_host() {
    let home = Home::new();
    let cursor = json!({"mcpServers": {
        "plain": {"url": "http://192.168.1.5:8080/mcp"},
        "files": {"command": "npx", "args": ["-y", "server-filesystem", "./docs"]},
    }});
    home.write(".cursor/mcp.json", &cursor.to_string());
    let told = said(&home, &["import", "--remove", "--yes"], 0);
    assert!(told.contains("plain (Cursor): skipped: `url` is not encrypted"), "{told}");
    assert!(told.contains("files (Cursor): skipped: its `./docs` is relative to the project"), "{told}");
    let kept = fs::read_to_string(home.path().join(".cursor/mcp.json")).unwrap();
    assert_eq!(kept, cursor.to_string());
}

#[test]
fn a_server_of_one_project_keeps_its_directory_and_is_reported() {
    let home = Home::new();
    let claude = json!({
        "projects": {"/home/ada/shop": {"mcpServers": {
            "mine": {"command": "/bin/mine"},
            "other": {"command": "/bin/wide"},
        }}},
        "mcpServers": {"wide": {"command": "/bin/wide"}},
    });
    home.write(".claude.json", &claude.to_string());
    let told = said(&home, &["import"], 0);
    assert!(told.contains("it is shown in /home/ada/shop only (`workspaces`)"), "{told}");
    assert!(told.contains("other (Claude Code, /home/ada/shop): the same server as `wide`"), "{told}");
    assert_eq!(definition(&home, "mine")["command"]["cwd"], "/home/ada/shop");
    assert!(definition(&home, "wide")["command"].get("cwd").is_none());
}

#[test]
fn imported_servers_can_be_removed_from_their_host() {
    for (host, file, vector, servers) in SAMPLES {
        let home = Home::new();
        let before = sample(vector);
        let file = home.write(file, &before);
        set_up(&home, &["--host", host]);
        let with_ours = fs::read_to_string(&file).unwrap();
        let told = said(&home, &["import", "--remove", "--yes"], 0);
        assert!(told.contains("the imported servers were removed"), "{host}: {told}");
        let after = fs::read_to_string(&file).unwrap();
        let is_rest = is_kept(&after.replace(" []", ""), &with_ours);
        assert!(after.len() < with_ours.len() && is_rest, "{host}: {after}");
        let told: Value = serde_json::from_str(&said(&home, &["import", "--json"], 0)).unwrap();
        let left = told["servers"].as_array().unwrap();
        assert!(left.iter().all(|server| server["result"] == "left out"), "{host}: {told}");
        assert_eq!(own(&home).len(), servers.len());
        said(&home, &["undo", "--yes"], 0);
        assert_eq!(fs::read_to_string(&file).unwrap(), before, "{host}");
    }
}

#[test]
fn undo_removes_only_our_entry_from_a_file_that_changed_since() {
    for (host, file, vector, _) in SAMPLES {
        let home = Home::new();
        let before = sample(vector);
        let file = home.write(file, &before);
        set_up(&home, &[]);
        let change = |text: &str| match host {
            "codex" => {
                text.replace("\"night\"", "\"day\"")
                    + "\n[mcp_servers.switchboard.tools.x]\napproval_mode = \"auto\"\n"
            }
            "continue" => text.replace("name: Mine", "name: Yours"),
            _ => text.replacen('{', "{ \"new\": [true],", 1),
        };
        fs::write(&file, change(&fs::read_to_string(&file).unwrap())).unwrap();
        let told = said(&home, &["undo", "--yes"], 0);
        assert!(told.contains("only what Switchboard did was undone"), "{host}: {told}");
        let expect = if host == "codex" { before.replace("\"night\"", "\"day\"") } else { change(&before) };
        let now = fs::read_to_string(&file).unwrap();
        assert_eq!(now.trim_end(), expect.trim_end(), "{host}");
        assert!(said(&home, &["undo"], 0).contains("nothing to undo"));
    }
}

#[test]
fn undo_restores_removed_servers_in_a_file_that_changed_since() {
    for (host, file, vector, servers) in SAMPLES {
        let home = Home::new();
        let file = home.write(file, &sample(vector));
        set_up(&home, &["--host", host]);
        said(&home, &["import", "--remove", "--yes"], 0);
        let text = fs::read_to_string(&file).unwrap();
        let changed = match host {
            "codex" | "continue" => format!("# changed\n{text}"),
            _ => text.replacen('{', "{ \"new\": [true],", 1),
        };
        fs::write(&file, changed).unwrap();
        said(&home, &["undo", "--yes"], 0);
        let now = fs::read_to_string(&file).unwrap();
        assert!(!now.contains("bin/switchboard"), "{host}: {now}");
        // `import` finds the same servers again.
        let told: Value = serde_json::from_str(&said(&home, &["import", "--json"], 0)).unwrap();
        let there =
            told["servers"].as_array().unwrap().iter().filter(|server| server["result"] == "already there");
        assert_eq!(there.count(), servers.len(), "{host}: {told}");
    }
}

#[test]
fn setup_updates_the_path_of_a_moved_shim_and_undo_still_restores() {
    for (host, file, vector, _) in SAMPLES {
        let home = Home::new();
        let before = sample(vector);
        let file = home.write(file, &before);
        set_up(&home, &[]);
        let moved = shim(&home, "elsewhere");
        let told = said(&home, &["setup", "--yes", "--shim", &moved], 0);
        assert!(told.contains("path updated"), "{host}: {told}");
        let now = fs::read_to_string(&file).unwrap();
        assert!(now.contains(&moved) && !now.contains(&shim(&home, "bin")), "{host}: {now}");
        said(&home, &["undo", "--yes"], 0);
        assert_eq!(fs::read_to_string(&file).unwrap(), before, "{host}");
    }
}

#[test]
fn undo_restores_an_entry_that_the_user_wrote() {
    let home = Home::new();
    let by_hand = json!({"mcpServers": {"switchboard": {"command": "/old/switchboard", "env": {"A": "1"}}}})
        .to_string();
    let file = home.write(".cursor/mcp.json", &by_hand);
    assert!(set_up(&home, &[]).contains("path updated"));
    assert_eq!(fs::read_to_string(&file).unwrap(), by_hand.replace("/old/switchboard", &shim(&home, "bin")));
    said(&home, &["undo", "--yes"], 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), by_hand);
    // If the host has changed the file since, the entry stays.
    set_up(&home, &[]);
    let changed = fs::read_to_string(&file).unwrap().replacen('{', "{\"new\": 1, ", 1);
    fs::write(&file, &changed).unwrap();
    assert!(said(&home, &["undo", "--yes"], 0).contains("nothing of Switchboard is left in it"));
    assert_eq!(fs::read_to_string(&file).unwrap(), changed);
}

#[test]
fn files_that_cannot_be_edited_are_reported_and_left_alone() {
    let home = Home::new();
    for (_, file, vector, _) in SAMPLES {
        home.write(file, &sample(vector));
    }
    let broken = [
        (".cursor/mcp.json", "{\n  \"mcpServers\": {,}\n}", ":2:18: not valid JSON"),
        (".codex/config.toml", "[mcp_servers\n", ":1:13: not valid TOML"),
        (".continue/config.yaml", "a: [1\nb: 2\n", ": not valid YAML"),
        (
            ".gemini/settings.json",
            "{\"mcpServers\": {}, \"mcpServers\": {}}",
            ":1:20: `mcpServers` appears twice",
        ),
        (".config/zed/settings.json", "{\"context_servers\": 1}", "`context_servers` must be an object"),
        (
            ".junie/mcp/mcp.json",
            "{\"mcpServers\": {\"switchboard\": {\"command\": \"x\"}}}",
            "that is something else",
        ),
    ];
    for (file, text, _) in broken {
        home.write(file, text);
    }
    fs::write(home.path().join(".copilot/mcp-config.json"), b"{\n\"gr\xfc\xdfe\": 1}").unwrap();
    let shim = shim(&home, "bin");
    let told = said(&home, &["setup", "--yes", "--shim", &shim], 1);
    for (file, text, says) in broken {
        let path = home.path().join(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        let line = told
            .lines()
            .find(|line| line.starts_with("switchboard: ") && line.contains(path.to_str().unwrap()));
        assert!(line.is_some_and(|line| line.contains(says)), "{file}: {told}");
    }
    assert!(told.contains("mcp-config.json: is not UTF-8 text, in line 2"), "{told}");
    assert!(told.contains("by hand, that would be:\n\n[mcp_servers.switchboard]"), "{told}");
    assert_eq!(told.matches(": set up (").count(), SAMPLES.len() - broken.len() - 1, "{told}");
    let told = said(&home, &["import"], 1);
    assert!(told.contains(":2:18: not valid JSON") && told.contains("imported as"), "{told}");
    // `undo` does not touch a file that is broken now, and handles it once it is fixed.
    let file = home.path().join(".claude.json");
    fs::write(&file, "{").unwrap();
    assert!(said(&home, &["undo", "--yes"], 1).contains(".claude.json:1:"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "{");
    fs::write(&file, "{}").unwrap();
    assert!(said(&home, &["undo", "--yes"], 0).contains("nothing of Switchboard is left in it"));
}

#[test]
fn a_symbolic_link_stays_a_link() {
    let home = Home::new();
    let kept = home.write("dotfiles/cursor.json", &sample("cursor.json"));
    fs::create_dir_all(home.path().join(".cursor")).unwrap();
    let link = home.path().join(".cursor/mcp.json");
    symlink("../dotfiles/cursor.json", &link).unwrap();
    set_up(&home, &[]);
    assert!(link.is_symlink() && fs::read_to_string(&kept).unwrap().contains("bin/switchboard"));
    said(&home, &["undo", "--yes"], 0);
    assert!(link.is_symlink());
    assert_eq!(fs::read_to_string(&kept).unwrap(), sample("cursor.json"));
    fs::remove_file(&kept).unwrap();
    let shim = shim(&home, "bin");
    assert!(said(&home, &["setup", "--yes", "--shim", &shim], 1).contains("is a link that leads nowhere"));
    assert!(link.is_symlink() && !kept.exists());
}

#[test]
fn read_only_files_and_folders_are_not_written() {
    let home = Home::new();
    let file = home.write(".cursor/mcp.json", "{}");
    let shim = shim(&home, "bin");
    fs::create_dir_all(home.path().join(".gemini")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    fs::set_permissions(home.path().join(".gemini"), fs::Permissions::from_mode(0o555)).unwrap();
    // Root may write everything, so this runs as another user.
    let is_root = rustix::process::geteuid().is_root();
    let (nobody, mut words) = (65534, Vec::new());
    if is_root {
        for (path, _) in everything(&home) {
            std::os::unix::fs::chown(path, Some(nobody), Some(nobody)).unwrap();
        }
        for folder in [home.path(), home.path().parent().unwrap().to_owned()] {
            std::os::unix::fs::chown(folder, Some(nobody), Some(nobody)).unwrap();
        }
        words.extend(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    // A copy of the binaries that every user can read.
    bins().copy_to(&home.path());
    let program = home.path().join("switchboard");
    words.extend([program.to_str().unwrap(), "setup", "--yes", "--shim", &shim]);
    let output = Command::new(words[0])
        .args(&words[1..])
        .env_clear()
        .envs(home.environment())
        .env("SWITCHBOARD_SOCKET", home.socket())
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = text(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains(".cursor/mcp.json: is read-only; `chmod u+w"), "{told}");
    assert!(told.contains(".gemini/settings.json: cannot be written: Permission denied"), "{told}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "{}");
    assert_eq!(fs::read_dir(home.path().join(".gemini")).unwrap().count(), 0);
    fs::set_permissions(home.path().join(".gemini"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_host_that_writes_all_the_time_loses_nothing() {
    let home = Home::new();
    let file = home.write(".claude.json", "{\n  \"n\": 0,\n  \"mcpServers\": {}\n}\n");
    let shim = shim(&home, "bin");
    let (stop, last) = (AtomicBool::new(false), AtomicU64::new(0));
    let draft = home.path().join(".claude.json.tmp");
    std::thread::scope(|scope| {
        let _ends = Ends(&stop);
        // As Claude Code does it: reads the file, changes a number and replaces the file by a rename.
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let text = fs::read_to_string(&file).expect("there is always a file");
                let value: Value = serde_json::from_str(&text).expect("it is always a whole one");
                let n = last.fetch_add(1, Ordering::Relaxed) + 1;
                let now = text.replacen(&format!("\"n\": {}", value["n"]), &format!("\"n\": {n}"), 1);
                fs::write(&draft, now).unwrap();
                fs::rename(&draft, &file).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        for round in 0..6 {
            let command: &[&str] = if round % 2 == 0 {
                &["setup", "--yes", "--shim", &shim, "--host", "claude-code"]
            } else {
                &["undo", "--yes"]
            };
            // On a busy machine the host may win every race; then the command says so.
            let told = home.command(command);
            let is_busy = text(&told).contains("is written by another program all the time");
            assert!(told.status.success() || is_busy, "{}", text(&told));
        }
    });
    let value: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(value["n"], last.load(Ordering::Relaxed), "the host's last word was lost");
    let left: Vec<_> = fs::read_dir(home.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("switchboard-")), "{left:?}");
}

#[test]
fn a_host_that_saves_in_place_loses_nothing() {
    let home = Home::new();
    let long = "x".repeat(8000);
    let whole = |n: u64| format!("{{\n  \"n\": {n},\n  \"long\": \"{long}\",\n  \"mcpServers\": {{}}\n}}\n");
    let file = home.write(".claude.json", &whole(0));
    let shim = shim(&home, "bin");
    let (stop, last) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _ends = Ends(&stop);
        // As Node's `writeFile` does it: truncates the file and then writes it. A busy machine may interrupt
        // it anywhere.
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let text = whole(last.fetch_add(1, Ordering::Relaxed) + 1);
                let mut open = fs::OpenOptions::new().write(true).truncate(true).open(&file).expect("a file");
                for piece in text.as_bytes().chunks(2000) {
                    std::thread::sleep(std::time::Duration::from_millis(3));
                    open.write_all(piece).unwrap();
                }
                drop(open);
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        });
        for round in 0..6 {
            let command: &[&str] = if round % 2 == 0 {
                &["setup", "--yes", "--shim", &shim, "--host", "claude-code"]
            } else {
                &["undo", "--yes"]
            };
            // A file that is read in the middle of a save may be refused, but is never overwritten.
            let told = home.command(command);
            assert!(matches!(told.status.code(), Some(0 | 1)), "{}", text(&told));
            for record in fs::read_dir(home.state_folder().join("hosts")).into_iter().flatten().flatten() {
                let body = fs::read_to_string(record.path()).unwrap_or_default();
                assert!(
                    body.is_empty() || body.contains(&long),
                    "the copy of what stood there was lost: {body}"
                );
            }
        }
    });
    let value: Value = serde_json::from_slice(&fs::read(&file).unwrap()).expect("it is a whole one");
    assert_eq!(value["n"], last.load(Ordering::Relaxed), "the host's last word was lost");
    assert_eq!(value["long"], long);
}

#[test]
fn undo_restores_a_file_that_was_deleted_since() {
    let home = Home::new();
    let file = home.write(".cursor/mcp.json", &sample("cursor.json"));
    set_up(&home, &[]);
    fs::remove_file(&file).unwrap();
    assert!(set_up(&home, &["--host", "cursor"]).contains("Cursor: set up"));
    said(&home, &["undo", "--yes"], 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), sample("cursor.json"));
    set_up(&home, &["--host", "cursor"]);
    said(&home, &["import", "--remove", "--yes"], 0);
    fs::remove_dir_all(home.path().join(".cursor")).unwrap();
    assert!(said(&home, &["undo", "--yes"], 0).contains("restored as it was"));
    assert_eq!(fs::read_to_string(&file).unwrap(), sample("cursor.json"));
}

#[test]
fn a_file_with_two_hard_links_is_left_alone() {
    let home = Home::new();
    let file = home.write(".cursor/mcp.json", "{}");
    fs::hard_link(&file, home.path().join("mine.json")).unwrap();
    let shim = shim(&home, "bin");
    assert!(said(&home, &["setup", "--yes", "--shim", &shim], 1).contains("has another name as well"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "{}");
}

#[test]
fn concurrent_setups_run_one_after_the_other() {
    let home = Home::new();
    for (_, file, vector, _) in SAMPLES {
        home.write(file, &sample(vector));
    }
    let shim = shim(&home, "bin");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| said(&home, &["setup", "--yes", "--shim", &shim], 0));
        }
    });
    for (host, file, _, _) in SAMPLES {
        let text = fs::read_to_string(home.path().join(file)).unwrap();
        assert_eq!(text.matches(&shim).count(), 1, "{host}: {text}");
    }
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| said(&home, &["undo", "--yes"], 0));
        }
    });
    for (host, file, vector, _) in SAMPLES {
        assert_eq!(fs::read_to_string(home.path().join(file)).unwrap(), sample(vector), "{host}");
    }
}

#[test]
fn a_killed_command_leaves_the_old_file_or_the_new_one() {
    let home = Home::new();
    let before = sample("claude-code.json");
    let file = home.write(".claude.json", &before);
    set_up(&home, &[]);
    let after = fs::read_to_string(&file).unwrap();
    let shim = shim(&home, "bin");
    for round in 0..40_u64 {
        let args: &[&str] =
            if round % 2 == 0 { &["undo", "--yes"] } else { &["setup", "--yes", "--shim", &shim] };
        let mut child = Command::new(&bins().switchboard)
            .args(args)
            .env_clear()
            .envs(home.environment())
            .env("SWITCHBOARD_SOCKET", home.socket())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_micros(1500 * (round % 20)));
        let _ = child.kill();
        child.wait().unwrap();
        let now = fs::read_to_string(&file).unwrap();
        assert!(now == before || now == after, "{now}");
    }
    set_up(&home, &[]);
    said(&home, &["undo", "--yes"], 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    let left: Vec<_> = fs::read_dir(home.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("switchboard-")), "{left:?}");
}

#[test]
fn the_user_is_asked_about_every_file() {
    let home = Home::new();
    let cursor = home.write(".cursor/mcp.json", "{}");
    let zed = home.write(".config/zed/settings.json", "// mine\n{}");
    let shim = shim(&home, "bin");
    let setup = ["setup", "--shim", &shim];
    let start = |args: &[&str], env: &[(&str, &str)]| Terminal::start(&home, &home.workspace(), args, env);
    let screen = start(&setup, &[]).answer_all("\n");
    assert_eq!((screen.code, screen.text.matches("[y/N]").count()), (Some(0), 2), "{}", screen.text);
    assert_eq!(screen.text.matches("declined").count(), 2, "{}", screen.text);
    assert!(screen.text.contains("\x1b[32m+    \"switchboard\": {\x1b[0m"), "{}", screen.text);
    assert_eq!(fs::read_to_string(&cursor).unwrap(), "{}");
    let mut terminal = start(&setup, &[("NO_COLOR", "1")]);
    assert!(terminal.shows("[y/N] "));
    terminal.type_in("y\n");
    assert!(terminal.shows("[y/N] "));
    terminal.type_in("n\n");
    let screen = terminal.end();
    assert!(!screen.text.contains('\x1b') && screen.text.contains("Cursor: set up"), "{}", screen.text);
    assert!(fs::read_to_string(&cursor).unwrap().contains(&shim));
    assert_eq!(fs::read_to_string(&zed).unwrap(), "// mine\n{}");
    let screen = start(&["undo"], &[]).answer_all("y\n");
    assert!(screen.text.contains("restored as it was"), "{}", screen.text);
    assert_eq!(fs::read_to_string(&cursor).unwrap(), "{}");
}

#[test]
fn changes_without_a_terminal_need_the_yes_flag() {
    let home = Home::new();
    let file = home.write(".cursor/mcp.json", &sample("cursor.json"));
    let shim = shim(&home, "bin");
    for args in
        [&["setup", "--shim", &shim][..], &["setup", "--json", "--shim", &shim], &["import", "--remove"]]
    {
        assert!(said(&home, args, 2).contains("use `--yes`"));
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), sample("cursor.json"));
    set_up(&home, &[]);
    assert!(said(&home, &["undo"], 2).contains("`--yes`"));
    assert!(fs::read_to_string(&file).unwrap().contains(&shim));
}

#[test]
fn only_the_selected_hosts_are_set_up() {
    let home = Home::new();
    home.write(".cursor/mcp.json", "{}");
    let told = set_up(&home, &["--host", "gemini,zed"]);
    assert!(told.contains("Gemini CLI: set up") && told.contains("Zed: set up"), "{told}");
    assert_eq!(fs::read_to_string(home.path().join(".cursor/mcp.json")).unwrap(), "{}");
    said(&home, &["undo", "--yes", "--host", "zed"], 0);
    assert!(home.path().join(".gemini/settings.json").exists() && !home.path().join(".config/zed").exists());
    let told = said(&home, &["setup", "--yes", "--host", "curser"], 2);
    assert!(told.contains("there is no editor `curser`; did you mean `cursor`?"), "{told}");
    let told = set_up(&home, &["--host", "visual-studio,jetbrains"]);
    assert!(
        told.contains("Visual Studio: keeps no file of its own") && told.contains("\"servers\": {"),
        "{told}"
    );
    assert!(told.contains("JetBrains AI Assistant: keeps no file of its own"), "{told}");
    // Where the user disabled our entry, nothing is changed, and setup says so.
    home.write(
        ".cursor/mcp.json",
        &json!({"mcpServers": {"switchboard": {"command": shim(&home, "bin"), "disabled": true}}})
            .to_string(),
    );
    assert!(set_up(&home, &["--host", "cursor"]).contains("set up, but turned off there"));
    // A new file would hide Continue's older config.
    home.write(".continue/config.json", "{}");
    let shim = shim(&home, "bin");
    let told = said(&home, &["setup", "--yes", "--shim", &shim, "--host", "continue"], 1);
    assert!(
        told.contains("would replace `config.json`") && !home.path().join(".continue/config.yaml").exists()
    );
}

#[test]
fn only_a_permanent_shim_path_is_written() {
    let home = Home::new();
    let file = home.write(".cursor/mcp.json", "{}");
    let told = said(&home, &["setup", "--yes"], 1);
    assert!(told.contains("is in a build folder") && told.contains("`--shim PATH`"), "{told}");
    assert!(
        said(&home, &["setup", "--yes", "--shim", "/no/such"], 1)
            .contains("is not a program that can be started")
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "{}");
    // The shim next to the daemon is used, under the path by which PATH finds it.
    let installed = home.path().join("opt/v1");
    fs::create_dir_all(&installed).unwrap();
    bins().copy_to(&installed);
    let program = installed.join("switchboard");
    let run = |path: &str| {
        let output = Command::new(&program)
            .args(["setup", "--yes"])
            .env_clear()
            .envs(home.environment())
            .env("PATH", path)
            .env("SWITCHBOARD_SOCKET", home.socket())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        fs::read_to_string(&file).unwrap()
    };
    assert!(run("/usr/bin").contains(program.to_str().unwrap()));
    let links = home.path().join("links");
    fs::create_dir(&links).unwrap();
    symlink(&program, links.join("switchboard")).unwrap();
    let text = run(links.to_str().unwrap());
    assert!(text.contains(links.join("switchboard").to_str().unwrap()) && !text.contains("opt/v1"), "{text}");
    said(&home, &["undo", "--yes"], 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), "{}");
}

#[test]
fn a_folder_that_others_can_write_is_warned_of() {
    let home = Home::new();
    home.write(".cursor/mcp.json", "{}");
    let folder = home.path().join(".cursor");
    let shim = shim(&home, "bin");
    let shown = |extra: &[&str]| {
        said(&home, &[&["setup", "--dry-run", "--host", "cursor", "--shim", &shim], extra].concat(), 0)
    };
    assert!(!shown(&[]).contains("others could"), "{}", shown(&[]));
    for (path, mode) in [(folder.clone(), 0o777), (folder.join("mcp.json"), 0o666)] {
        let before = path.metadata().unwrap().permissions();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let said = shown(&[]);
        let what = format!("`{}`: everybody can write it", path.display());
        assert!(said.contains("warning:") && said.contains(&what), "{said}");
        let told: Value = serde_json::from_str(&shown(&["--json"])).unwrap();
        assert!(told["files"][0]["warning"].as_str().is_some_and(|said| said.contains(&what)), "{told}");
        fs::set_permissions(&path, before).unwrap();
    }
}
