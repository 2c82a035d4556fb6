//! A workspace that is edited at random, as fast as possible: nothing that the user has not allowed is ever
//! executed, and allowed servers work throughout.
//!
//! `SWITCHBOARD_EDITS` sets the number of edits, `SWITCHBOARD_SEED` the seed.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use proto_tests::proof::counted;
use proto_tests::shim::structured;
use proto_tests::wait::until_true;
use proto_tests::{DaemonProcess, Home, Project, Shim, TEST_TIMEOUT, bins, procs};
use serde_json::{Value, json};

/// A simple generator that is reproducible for a given seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % sides as u64).unwrap()
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.roll(of.len())]
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Folders in which definitions that are not allowed come and go.
const PLACES: [&str; 4] = ["a", "b", "c", "link"];

/// Files in which editors keep servers of a project, with the key of the servers.
const EDITORS_FILES: [(&str, &str); 8] = [
    (".mcp.json", "mcpServers"),
    (".cursor/mcp.json", "mcpServers"),
    (".vscode/mcp.json", "servers"),
    (".codex/config.toml", "mcp_servers"),
    (".gemini/settings.json", "mcpServers"),
    (".zed/settings.json", "context_servers"),
    ("opencode.json", "mcp"),
    (".continue/mcpServers/x.json", "mcpServers"),
];

struct Field<'h> {
    project: &'h Project<'h>,
    /// The file that every forbidden program would write.
    trace: PathBuf,
    /// A folder outside of the workspace with a definition that is not allowed.
    outside: PathBuf,
    good: Value,
    mark: String,
}

impl Field<'_> {
    /// A definition that writes the trace file if any part of it is executed.
    fn bad(&self, name: &str, dice: &mut Dice) -> String {
        let entry = self.bad_entry(name, dice);
        match dice.roll(4) {
            0 => json!({"name": name, "command": {"cmd": entry["command"], "args": entry["args"]}}),
            1 => json!({"servers": {name: entry}}),
            // Also under the name of the allowed server.
            2 => json!({"mcpServers": {name: entry, "good": entry}}),
            _ => json!({"mcpServers": {name: entry}}),
        }
        .to_string()
    }

    /// Such a definition in a file of an editor.
    fn bad_file(&self, (file, key): (&str, &str), dice: &mut Dice) -> String {
        let name = file.trim_start_matches('.').split(['.', '/']).next().unwrap();
        let name = if dice.roll(4) == 0 { "good" } else { name };
        let entry = self.bad_entry(name, dice);
        if file.ends_with(".toml") {
            let args = entry.get("args").cloned().unwrap_or(json!([]));
            return format!("[{key}.{name}]\ncommand = {}\nargs = {args}\n", entry["command"]);
        }
        json!({key: {name: entry}}).to_string()
    }

    fn bad_entry(&self, name: &str, dice: &mut Dice) -> Value {
        let leave = format!("echo {name} >> {}", self.trace.display());
        let run = self.project.path().join("run");
        match dice.roll(5) {
            0 => json!({"command": "sh", "args": ["-c", leave]}),
            1 => json!({"command": "/bin/sh", "args": ["-c", leave], "env": {"N": dice.roll(3).to_string()}}),
            2 => json!({"command": run, "args": ["x"]}),
            3 => json!({"command": "../../run", "description": "words"}),
            _ => json!({"command": "touch", "args": [self.trace], "cwd": "/"}),
        }
    }

    /// Changes one of the files of editors.
    fn edit_editors_file(&self, dice: &mut Dice) {
        let known = *dice.pick(&EDITORS_FILES);
        let file = self.project.path().join(known.0);
        let text = self.bad_file(known, dice);
        match dice.roll(6) {
            0 | 1 => self.put(&file, &text),
            2 => {
                let _ = fs::create_dir_all(file.parent().unwrap());
                let _ = fs::write(&file, &text[..dice.roll(text.len())]);
            }
            3 => drop(fs::remove_file(&file)),
            4 => {
                let targets = [self.outside.join(".mcp.json"), self.file("a"), self.good_file()];
                let _ = fs::remove_file(&file);
                let _ = symlink(dice.pick(&targets), &file);
            }
            _ => {
                // The editor's folder is moved away, or comes back as a link that leads out.
                let folder = self.project.path().join(".cursor");
                let _ = fs::rename(&folder, self.project.path().join("gone"));
                let _ = fs::remove_dir_all(self.project.path().join("gone"));
                let _ = fs::remove_file(&folder);
                if dice.roll(2) == 0 {
                    let _ = symlink(&self.outside, &folder);
                }
            }
        }
    }

    /// The file of the allowed server, changed to run something else.
    fn poisoned(&self, dice: &mut Dice) -> Value {
        let leave = format!("echo good >> {}", self.trace.display());
        let mut entry = self.good.clone();
        match dice.roll(6) {
            0 => entry = json!({"command": "sh", "args": ["-c", leave]}),
            1 => entry["args"] = json!(["echo", "poisoned"]),
            2 => entry["env"]["LD_PRELOAD"] = "/nonexistent".into(),
            3 => entry["cwd"] = "/".into(),
            4 => entry["command"] = json!(self.project.path().join("run")),
            _ => entry["description"] = format!("words {}", dice.roll(9)).into(),
        }
        json!({"mcpServers": {"good": entry}})
    }

    fn file(&self, place: &str) -> PathBuf {
        self.project.path().join("mcps").join(place).join(".mcp.json")
    }

    fn good_file(&self) -> PathBuf {
        self.project.path().join("keep/good/.mcp.json")
    }

    /// Writes the file in one atomic step.
    fn put(&self, file: &Path, text: &str) {
        let draft = self.project.path().join("draft");
        fs::write(&draft, text).unwrap();
        let _ = fs::create_dir_all(file.parent().unwrap());
        if fs::rename(&draft, file).is_err() {
            let _ = fs::remove_file(&draft);
        }
    }

    fn edit(&self, dice: &mut Dice) {
        let root = self.project.path();
        let place = *dice.pick(&PLACES);
        let file = self.file(place);
        let folder = file.parent().unwrap();
        match dice.roll(18) {
            0 | 1 => {
                let _ = fs::create_dir_all(folder);
                let _ = fs::write(&file, self.bad(place, dice));
            }
            2 => self.put(&file, &self.bad(place, dice)),
            3 => {
                let text = self.bad(place, dice);
                let _ = fs::write(&file, &text[..dice.roll(text.len())]);
            }
            4 => drop(fs::remove_file(&file)),
            5 => drop(fs::rename(folder, root.join("mcps").join(dice.pick(&PLACES)))),
            6 => drop(fs::rename(root.join("mcps"), root.join("away"))),
            7 => {
                let _ = fs::rename(root.join("away"), root.join("mcps"));
                let _ = fs::create_dir(root.join("mcps"));
            }
            8 => {
                // A link to a folder inside or outside, in one atomic step.
                let (draft, link) = (root.join("draft-link"), root.join("mcps/link"));
                let target =
                    [root.join("mcps/a"), root.join("mcps/b"), self.outside.clone(), root.to_owned()];
                let _ = fs::remove_file(&draft);
                symlink(dice.pick(&target), &draft).unwrap();
                let _ = fs::remove_dir_all(&link);
                let _ = fs::rename(&draft, &link);
            }
            9 => {
                let _ = fs::remove_file(&file);
                let targets = [self.outside.join(".mcp.json"), self.file("a"), root.join("twin")];
                let _ = symlink(dice.pick(&targets), &file);
            }
            10 => self.put(&self.good_file(), &self.poisoned(dice).to_string()),
            11 => {
                // Not atomic: the daemon may read a partial file.
                let text = self.poisoned(dice).to_string();
                fs::write(self.good_file(), &text[..dice.roll(text.len())]).unwrap();
            }
            12 => self.put(&self.good_file(), &json!({"mcpServers": {"good": self.good}}).to_string()),
            13 => self.put(&root.join("switchboard.config.json"), &config(dice).to_string()),
            _ => self.edit_editors_file(dice),
        }
    }
}

/// Settings that would help to start a held server; the globs stay.
fn config(dice: &mut Dice) -> Value {
    let mut config = json!({"discoverGlobs": ["mcps/*/.mcp.json", "keep/*/.mcp.json"]});
    let name = *dice.pick(&PLACES);
    match dice.roll(6) {
        5 => config["projectFiles"] = (dice.roll(2) == 0).into(),
        0 => config["suites"] = json!({name: {"pool": {"warm": 1, "scope": "call"}}}),
        1 => config["suites"] = json!({name: {"suiteName": "another", "validate": false}}),
        2 => config["trust"] = json!({"roots": ["/"]}),
        3 => config["suites"] = json!({"nobody": {"pool": {"warm": 2}}}),
        _ => {}
    }
    config
}

/// Calls every suite: the allowed ones answer as before, all others are refused.
fn use_everything(shim: &mut Shim, seed: u64) {
    for allowed in ["good", "swapped"] {
        let answer = shim.call(allowed, "where", "{}");
        assert!(answer.contains("structuredContent"), "seed {seed}: {allowed}: {answer}");
        assert_eq!(structured(&answer)["args"][2], "allowed", "seed {seed}: {answer}");
    }
    let held = |name: &String| !["good_suite", "swapped_suite"].contains(&name.as_str());
    for name in shim.tools().into_keys().filter(held) {
        for action in ["introspect", "call"] {
            let params = format!(r#"{{"name":"{name}","arguments":{{"action":"{action}","subtool":"x"}}}}"#);
            let answer = shim.request("tools/call", &params);
            let refused = ["is held", "Unknown tool", "misconfigured"].iter().any(|why| answer.contains(why));
            assert!(refused, "seed {seed}: {name}: {answer}");
        }
    }
}

/// Checks until the end that no descendant of the daemon runs anything forbidden.
fn watch(daemon: i32, forbidden: &[String], over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        for process in procs::descendants(daemon) {
            let known = |word: &String| process.cmdline.contains(word.as_str());
            assert!(!forbidden.iter().any(known), "was started: {process:?}");
        }
        // Leaves CPU time for the others on a small machine.
        thread::sleep(Duration::from_millis(2));
    }
}

/// Swaps the allowed version of a definition with others all the time: a daemon that reads the file twice,
/// once to check it and once to start it, sees two different versions.
fn swap(field: &Field<'_>, seed: u64, over: &AtomicBool) {
    let file = field.project.path().join("keep/swapped/.mcp.json");
    let draft = field.project.path().join("swap-draft");
    let mut dice = Dice(seed + 1);
    let allowed = json!({"mcpServers": {"swapped": field.good}}).to_string();
    while !over.load(Ordering::Relaxed) {
        let text = if dice.roll(2) == 0 { allowed.clone() } else { field.bad("swapped", &mut dice) };
        fs::write(&draft, text).unwrap();
        fs::rename(&draft, &file).unwrap();
        thread::yield_now();
    }
}

#[test]
fn random_edits_never_execute_anything_that_is_not_allowed() {
    let (seed, edits) = (number("SWITCHBOARD_SEED", 1), number("SWITCHBOARD_EDITS", 400));
    eprintln!("seed {seed}, {edits} edits");
    let home = Home::new();
    let project = home.project("work");
    let outside = home.project("outside");
    let field = Field {
        project: &project,
        trace: home.path().join("trace"),
        outside: outside.path().to_owned(),
        good: home.entry(&bins().evil_child, &["echo", "allowed"], &[]),
        mark: home.mark().to_owned(),
    };
    let mut dice = Dice(seed);
    let run = project.write("run", &format!("#!/bin/sh\necho run >> {}\n", field.trace.display()));
    fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).unwrap();
    outside.write(".mcp.json", &field.bad("outside", &mut dice));
    outside.write("mcp.json", &field.bad("outside", &mut dice));
    project.config(&json!({"discoverGlobs": ["mcps/*/.mcp.json", "keep/*/.mcp.json"]}));
    project.write("keep/good/.mcp.json", &json!({"mcpServers": {"good": field.good}}).to_string());
    project.write("keep/swapped/.mcp.json", &json!({"mcpServers": {"swapped": field.good}}).to_string());
    project.allow();
    project.write("twin", &json!({"mcpServers": {"good": field.good, "twin": field.good}}).to_string());
    let daemon = home.daemon();
    let mut shim = project.mute_shim();
    let pid = shim.pid_of("good");
    let forbidden = [field.trace.display().to_string(), run.display().to_string(), "../../run".to_owned()];
    let again = json!({"suite": "swapped", "workspace": project.path()}).to_string();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Ends the other threads even if this one panics.
        let _end = End(&over);
        scope.spawn(|| watch(daemon.pid(), &forbidden, &over));
        scope.spawn(|| swap(&field, seed, &over));
        for n in 0..edits {
            field.edit(&mut dice);
            match dice.roll(8) {
                0 | 1 => drop(daemon.endpoint().post("/control/reload", "")),
                2 => drop(daemon.endpoint().post("/control/restart", &again)),
                _ => {}
            }
            if n % 5 == 0 {
                use_everything(&mut shim, seed);
            }
            assert!(!field.trace.exists(), "seed {seed}: edit {n} was executed");
        }
    });
    use_everything(&mut shim, seed);
    assert_eq!(shim.pid_of("good"), pid, "seed {seed}: the allowed one is the one that it was");
    let starts = daemon.suite_from(project.path(), "swapped")["pool"]["starts"].as_u64().unwrap();
    assert!(starts >= edits / 50, "seed {seed}: it was started {starts} times only");
    assert!(!field.trace.exists(), "seed {seed}");
    counted("S3", "edits", edits);
    counted("S3", "starts of the allowed server that was swapped", starts);
    would_have_been_seen(&field, &daemon, &mut shim);
}

struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Proves that the test can fail: once allowed, such a definition writes the trace file.
fn would_have_been_seen(field: &Field<'_>, daemon: &DaemonProcess, shim: &mut Shim) {
    let root = field.project.path();
    let _ = fs::remove_dir_all(root.join("away"));
    let _ = fs::remove_dir_all(root.join("mcps"));
    let _ = fs::remove_dir_all(root.join("keep/swapped"));
    field.put(&root.join("switchboard.config.json"), "{}");
    let leave = format!("echo {} >> {}", field.mark, field.trace.display());
    field.project.define("a", &json!({"command": "sh", "args": ["-c", leave]}));
    until_true("the last definition", TEST_TIMEOUT, || {
        daemon.suite_from(root, "a")["state"] == "held" && daemon.suite_from(root, "swapped").is_null()
    });
    field.project.allow();
    shim.call("a", "x", "{}");
    assert!(field.trace.exists());
}
