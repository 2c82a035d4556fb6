//! A new user's first ten minutes: runs the quick start of the README and the removal of `docs/install.md` verbatim
//! in a clean HOME with two editors. The output is compared with `first_ten_minutes.txt`; `UPDATE_TRANSCRIPT=1` rewrites it.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proto_tests::wait::until_true;
use proto_tests::{Home, TEST_TIMEOUT, bins};
use serde_json::{Value, json};

const README: &str = include_str!("../../README.md");
const INSTALL: &str = include_str!("../../docs/install.md");

/// The lines of the block after `<!-- test: NAME -->`.
fn block(page: &'static str, name: &str) -> Vec<&'static str> {
    let mark = format!("<!-- test: {name} -->\n```sh\n");
    let (_, rest) = page.split_once(&mark).unwrap_or_else(|| panic!("there is no block `{name}`"));
    rest.split_once("```").unwrap().0.lines().collect()
}

/// A user at a terminal, and what the terminal showed.
struct Person<'h> {
    home: &'h Home,
    seen: String,
}

impl Person<'_> {
    fn bin(&self) -> PathBuf {
        self.home.path().join(".cargo/bin")
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.home.environment());
        // Editors installed on the test machine must not be found.
        command.env("PATH", self.bin());
        command.env("SWITCHBOARD_SOCKET", self.home.socket()).current_dir(self.home.workspace());
        command
    }

    /// Types a line and returns the exit code.
    fn types(&mut self, line: &str) -> i32 {
        let output = self.command("/bin/sh").args(["-c", line]).stdin(Stdio::null()).output().unwrap();
        let line = line.split("  #").next().unwrap().trim_end();
        writeln!(self.seen, "$ {line}").unwrap();
        for text in [&output.stdout, &output.stderr] {
            self.seen.push_str(&String::from_utf8_lossy(text));
        }
        let code = output.status.code().unwrap();
        if code != 0 {
            writeln!(self.seen, "(exit {code})").unwrap();
        }
        code
    }

    /// Types a line, checks the exit code and looks for these words; returns the output.
    #[track_caller]
    fn sees(&mut self, line: &str, code: i32, words: &[&str]) -> String {
        let begin = self.seen.len();
        let ended = self.types(line);
        let printed = self.seen.split_off(begin);
        assert_eq!(ended, code, "{line}\n{printed}");
        for word in words {
            assert!(printed.contains(word), "`{word}` is not in the output of {line}\n{printed}");
        }
        printed
    }

    fn follows(&mut self, name: &str) {
        for line in block(README, name) {
            assert_eq!(self.types(line), 0, "{line}\n{}", self.seen);
        }
    }

    /// Replaces what differs between machines and runs.
    fn transcript(&self) -> String {
        let seen = self.seen.replace(self.home.path().to_str().unwrap(), "~");
        let seen = seen.replace(bins().mock_child.to_str().unwrap(), "/usr/bin/mock-child");
        let seen = seen.replace(self.home.mark(), "/TMP");
        // `pid 3237` as `pid N`.
        let mut parts = seen.split("(pid ");
        let first = parts.next().unwrap_or_default().to_owned();
        parts
            .fold(first, |seen, part| seen + "(pid N" + part.trim_start_matches(|c: char| c.is_ascii_digit()))
    }
}

/// Talks to the shim like a host that starts the command in its config file.
fn as_a_host(person: &Person<'_>, program: &str) -> Vec<Value> {
    let mut shim = person
        .command(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut input, mut output) = (shim.stdin.take().unwrap(), BufReader::new(shim.stdout.take().unwrap()));
    let suite = |arguments: Value| json!({"name": "mock_suite", "arguments": arguments});
    let asked = [
        (
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "cursor", "version": "1"}}),
        ),
        ("tools/list", json!({})),
        ("tools/call", suite(json!({"action": "introspect"}))),
        ("tools/call", suite(json!({"action": "call", "subtool": "echo", "args": {"text": "hello"}}))),
    ];
    let mut answers = Vec::new();
    for (id, (method, params)) in asked.into_iter().enumerate() {
        writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .unwrap();
        loop {
            let mut line = String::new();
            assert!(output.read_line(&mut line).unwrap() > 0, "the shim ended");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == id {
                answers.push(answer);
                break;
            }
        }
    }
    drop(input);
    assert!(shim.wait().unwrap().success());
    answers
}

#[test]
fn the_readme_leads_to_a_working_editor_and_back() {
    let home = Home::new();
    fs::remove_dir_all(home.config_folder()).unwrap();
    let mut person = Person { home: &home, seen: String::new() };
    // In place of `cargo install`.
    fs::create_dir_all(person.bin()).unwrap();
    bins().copy_to(&person.bin());
    std::os::unix::fs::symlink("/bin/rm", person.bin().join("rm")).unwrap();
    let entry = home.entry(&bins().mock_child, &[], &[]);
    let cursor = home.write(".cursor/mcp.json", &format!("{:#}\n", json!({"mcpServers": {"mock": entry}})));
    let codex = home.write(".codex/config.toml", "# mine\nmodel = \"some-model\"\n");
    let before = [&cursor, &codex].map(|file| fs::read(file).unwrap());

    // The editor has its own server or Switchboard's copy of it at every step.
    person.follows("editors");
    let servers = |file: &Path| -> Vec<String> {
        let written: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        written["mcpServers"].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(servers(&cursor), ["mock", "switchboard"]);
    person.follows("servers");
    assert_eq!(servers(&cursor), ["mock", "switchboard"]);
    person.follows("remove-copies");
    let written: Value = serde_json::from_slice(&fs::read(&cursor).unwrap()).unwrap();
    let servers = written["mcpServers"].as_object().unwrap();
    assert_eq!(servers.keys().collect::<Vec<_>>(), ["switchboard"], "{written}");
    let program = servers["switchboard"]["command"].as_str().unwrap();
    assert_eq!(Path::new(program), person.bin().join("switchboard"));
    assert!(fs::read_to_string(&codex).unwrap().contains(program));

    let answers = as_a_host(&person, program);
    assert_eq!(answers[0]["result"]["serverInfo"]["name"], "switchboard");
    assert_eq!(answers[1]["result"]["tools"][0]["name"], "mock_suite", "{answers:?}");
    assert!(answers[2]["result"]["content"][0]["text"].as_str().unwrap().contains("\"echo\""));
    assert!(answers[3]["result"].to_string().contains("hello"), "{}", answers[3]);

    // By hand, too. Output that differs from run to run is checked here and not recorded.
    person.sees("switchboard status", 0, &["mock", "ready"]);
    person.sees("switchboard ls", 0, &["mock", ".mcp.json"]);
    person.sees("switchboard explain mock", 0, &["your own", "mock-child"]);
    person.sees("switchboard savings", 0, &["tokens a session", "`mock`", "costs more than it saves"]);
    assert_eq!(person.types("switchboard introspect mock"), 0);
    assert_eq!(person.types("switchboard call mock echo '{\"text\":\"hello\"}'"), 0);
    assert_eq!(person.types("switchboard call mock ehco '{}'"), 1);

    // A typo is found and fixed.
    let file = home.config_folder().join("mcps/mock/.mcp.json");
    let good = fs::read_to_string(&file).unwrap();
    fs::write(&file, good.replacen("\"command\"", "\"comand\"", 1)).unwrap();
    assert_eq!(person.types("switchboard reload"), 0);
    let check = "switchboard check ";
    let advice = person.sees("switchboard doctor", 1, &["did you mean `command`", check]);
    // The user types what doctor suggests.
    let advice = advice.lines().find_map(|line| line.trim().strip_prefix(check)).unwrap().to_owned();
    assert_eq!(Path::new(&advice), file);
    assert_eq!(
        person.types("switchboard check ~/.config/switchboard/mcps/mock/.mcp.json"),
        1,
        "{}",
        person.seen
    );
    fs::write(&file, good).unwrap();
    assert_eq!(person.types("switchboard reload"), 0);
    assert_eq!(
        person.types("switchboard check ~/.config/switchboard/mcps/mock/.mcp.json"),
        0,
        "{}",
        person.seen
    );

    for line in block(INSTALL, "remove") {
        // The programs that replaced `cargo install` are deleted with the HOME, and no service is installed.
        if !line.starts_with("cargo") && !line.contains("service") {
            assert_eq!(person.types(line), 0, "{line}\n{}", person.seen);
        }
    }
    assert_eq!([&cursor, &codex].map(|file| fs::read(file).unwrap()), before);
    assert!(!home.config_folder().exists() && !home.state_folder().exists());
    until_true("nothing to be left", TEST_TIMEOUT, || home.processes().is_empty());

    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/first_ten_minutes.txt");
    if std::env::var_os("UPDATE_TRANSCRIPT").is_some() {
        fs::write(&golden, person.transcript()).unwrap();
    }
    assert_eq!(
        person.transcript(),
        fs::read_to_string(&golden).unwrap_or_default(),
        "README and program differ"
    );
}
