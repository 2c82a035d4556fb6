//! Fuzzes everything that parses untrusted input: no panic, no hang, no unbounded memory.
//! `SWITCHBOARD_FUZZ_CASES` sets the number of cases per target.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use globset::GlobBuilder;
use random::{Random, run};
use switchboard_definitions::definition::Launch;
use switchboard_definitions::discover::entry::EntryLocation;
use switchboard_definitions::discover::host_files::HOST_FILES;
use switchboard_definitions::discover::{hosts, shapes, walk};
use switchboard_definitions::document::Document;
use switchboard_definitions::env_file;
use switchboard_definitions::expand;
use switchboard_definitions::expand::{Dialect, ExpansionContext, Template};
use switchboard_definitions::trust::view::mentioned;
use switchboard_wire::envelope::{Message, Outcome, range_of, splice};
use switchboard_wire::framing::{Decoder, Frame};
use switchboardd::oauth::bearer_challenge::BearerChallenge;

const LIMIT: usize = 200;
/// Limit for the headers of a message, and for a line that only looks like a header.
const HEADERS: usize = 8 * 1024;

#[test]
fn framing() {
    const PARTS: [&str; 19] = [
        "{\"id\":1}",
        "{",
        "[",
        "}",
        "\"id\":",
        "\"x\"",
        "\\",
        "\"",
        "7",
        "\n",
        "\r\n",
        "\r\n\r\n",
        "Content-Length: ",
        "content-length:12\r\n\r\n",
        "Content-Type: x\r\n",
        "99999999999999999999",
        "150\r\n\r\n",
        "\u{feff}",
        " ",
    ];
    run("framing", |random| {
        let mut input = random.text(&PARTS, 60).into_bytes();
        if random.below(3) == 0 {
            let noise = random.bytes(300);
            input.extend(noise);
        }
        let whole = frames(&input, usize::MAX, random);
        let most = 1 + random.below(40);
        assert_eq!(frames(&input, most, random), whole);
    });
}

#[test]
fn challenges() {
    const PARTS: [&str; 14] = [
        "Bearer",
        "Basic ",
        " ",
        ",",
        "=",
        "\"",
        "\\",
        "scope",
        "error=",
        "resource_metadata",
        "a b",
        "ü",
        "\t",
        "==",
    ];
    run("challenges", |random| {
        let header = random.text(&PARTS, 40);
        if let Some(demand) = BearerChallenge::parse(&header) {
            assert!(header.to_ascii_lowercase().contains("bearer"));
            let all = [demand.scope, demand.error, demand.resource_metadata];
            assert!(all.iter().flatten().all(|value| value.len() <= header.len()));
        }
    });
}

/// The frames of an input that arrives in pieces.
fn frames(input: &[u8], most: usize, random: &mut Random) -> Vec<Frame> {
    let mut decoder = Decoder::new(LIMIT);
    let (mut rest, mut all, mut bytes) = (input, Vec::new(), 0);
    while !rest.is_empty() {
        let piece = if most == usize::MAX { rest.len() } else { rest.len().min(1 + random.below(most)) };
        decoder.buffer().extend_from_slice(&rest[..piece]);
        rest = &rest[piece..];
        while let Some(frame) = decoder.next_frame() {
            all.push(frame);
        }
        assert!(decoder.buffer().len() <= LIMIT + HEADERS + piece);
    }
    all.extend(decoder.finish());
    for frame in &all {
        bytes += match frame {
            Frame::Message { body, .. } => {
                assert!(body.len() <= LIMIT);
                body.len()
            }
            Frame::Noise(line) => line.len(),
            Frame::Oversize { id, .. } => id.as_ref().map_or(0, |id| id.len()),
        };
    }
    assert!(bytes <= input.len());
    all
}

#[test]
fn the_envelope() {
    const SEEDS: [&str; 5] = [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":[1.0,null]}}}"#,
        r#"{"jsonrpc":"2.0","id":"\u00e4","result":{"content":[{"type":"text","text":"\ud83d\ude00"}]}}"#,
        r#"{"jsonrpc":"2.0","id":-1.5e3,"error":{"code":-32000,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7}}"#,
        "{ \"jsonrpc\" : \"2.0\" ,\n \"id\" : null,\r\n \"result\" : null }",
    ];
    const PARTS: [&str; 22] = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "null",
        "1",
        "-",
        "1e999",
        "\"2.0\"",
        "\"jsonrpc\"",
        "\"id\"",
        "\"method\"",
        "\"params\"",
        "\"result\"",
        "\"error\"",
        "\\ud800",
        "\n",
        "[[[[[[[[[[[[[[[[[[[[",
    ];
    run("envelope", |random| {
        let text = if random.below(4) == 0 {
            random.text(&PARTS, 40)
        } else {
            let seed = random.one_of(&SEEDS);
            random.mutated(seed, &PARTS)
        };
        let mut body = text.into_bytes();
        if random.below(6) == 0 && !body.is_empty() {
            let at = random.below(body.len());
            body[at] = random.next().to_le_bytes()[0];
        }
        let Ok(message) = Message::parse(&body) else { return };
        let id = match message {
            Message::Request { id, method, .. } => {
                assert!(method.name().len() <= body.len());
                Some(id)
            }
            Message::Notification { method, .. } => {
                assert!(method.name().len() <= body.len());
                None
            }
            Message::Response { id, outcome: Outcome::Result(_) | Outcome::Error(_), .. } => Some(id),
        };
        if let Some(id) = id {
            let other = splice(&body, range_of(&body, id.get()), b"\"other\"");
            assert!(other.len() <= body.len() + 7 && !other.contains(&b'\n'));
            Message::parse(&other).unwrap();
        }
    });
}

const JSON_PARTS: [&str; 40] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "//",
    "/*",
    "*/",
    "\n",
    "null",
    "true",
    "-1",
    "1e999",
    "\"mcpServers\":{",
    "\"servers\":{",
    "\"x\":{",
    "\"command\":",
    "\"args\":[",
    "\"env\":{",
    "\"url\":",
    "\"name\":",
    "\"type\":\"http\"",
    "\"type\":\"stdio\"",
    "\"timeout\":",
    "\"cwd\":",
    "\"envFile\":\"e\"",
    "\"transport\":{",
    "\"headers\":{",
    "\"inputs\":[",
    "\"disabled\":",
    "\"${A:-b}\"",
    "\"${input:i}\"",
    "\"${file:x}\"",
    "\"~/x\"",
    "\"switchboard\"",
    "\\u0000",
    "\u{feff}",
];

/// One document of each shape, and the files of the black-box tests if they exist.
fn documents() -> Vec<String> {
    let entry = r#"{"type": "stdio", "command": "npx", "args": ["-y", "${A}"], "env": {"K": "${B:-c}", "N": 1, "G": null}, "cwd": "${workspaceFolder}"}"#;
    let mut seeds = vec![
        format!(r#"{{"mcpServers": {{"x": {entry}, "y": {{"url": "https://h/mcp", "headers": {{"A": "${{T}}"}}}}}}}}"#),
        format!(r#"{{"servers": {{"x": {entry}}}, "inputs": [{{"id": "i", "default": "d"}}]}}"#),
        format!(r#"{{"x": {entry}}}"#),
        format!("{{ // said\n \"context_servers\": {{\"x\": {entry},}},}}"),
        r#"{"name": "x", "description": "d", "command": {"cmd": "c", "args": ["a"], "env": {"K": "v"}, "passEnv": ["P"]}}"#.to_owned(),
        r#"{"mcp": {"x": {"type": "local", "command": ["c", "a"], "environment": {"K": "v"}, "enabled": true}}}"#.to_owned(),
        r#"{"$schema": "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json", "mcpServers": {"x": {"type": "stdio", "command": "./c", "cwd": "d"}}}"#.to_owned(),
    ];
    let files = concat!(env!("CARGO_MANIFEST_DIR"), "/../proto-tests/vectors/definitions");
    let files = std::fs::read_dir(files).into_iter().flatten().flatten();
    seeds.extend(files.filter_map(|file| std::fs::read_to_string(file.path()).ok()));
    seeds
}

fn places() -> ExpansionContext {
    ExpansionContext {
        folder: "/d".into(),
        root: "/w".into(),
        home: "/h".into(),
        data: "/s/data".into(),
        personal: false,
        inputs: BTreeMap::new(),
        dialect: Dialect::All,
    }
}

fn read(text: &str) {
    let file = Path::new("/d/.mcp.json");
    let document = Document::from_text(file, text);
    let spot = EntryLocation {
        file,
        context: places(),
        variables: &|_| env_file::parse("A=1").map_err(|(_, why)| why),
    };
    let read = shapes::read(&document, &spot);
    assert!(read.definitions.len() <= 256 && read.problems.len() <= 65 && read.notes.len() <= 65);
    assert!(!read.broken || (read.definitions.is_empty() && !read.problems.is_empty()), "{text}");
    for said in read.problems.iter().chain(&read.notes) {
        assert!(said.message.len() <= text.len() + 500, "{}", said.message);
        assert!(said.pictured().lines().all(|line| !line.contains('\u{1b}')));
    }
    for definition in &read.definitions {
        if let Ok(launch) = &definition.launch {
            mentioned(launch);
            assert_eq!(launch.digest().len(), 64);
            if let Launch::Process(launch) = launch {
                let _ = launch.fill(&BTreeMap::new());
            }
        }
    }
    assert!(hosts::notes(&document, read.shape, &read.definitions).len() <= 20);
}

#[test]
fn arbitrary_definitions() {
    run("arbitrary definitions", |random| {
        let text = random.text(&JSON_PARTS, 60);
        read(&if random.below(2) == 0 { format!("{{{text}}}") } else { text });
    });
}

#[test]
fn files_of_hosts() {
    const TOML_PARTS: [&str; 24] = [
        "[mcp_servers.a]",
        "[mcp_servers]",
        "[[mcp_servers]]",
        "[mcp_servers.a.env]",
        "\n",
        "a",
        ".",
        " = ",
        "\"x\"",
        "'y'",
        "\"\"\"",
        "{",
        "}",
        "[",
        "]",
        ",",
        "command = \"c\"\n",
        "args = [\"a\"]\n",
        "1_0",
        "1979-05-27",
        "true",
        "# n",
        "\\u0041",
        "é",
    ];
    run("files of hosts", |random| {
        let known = &HOST_FILES[random.below(HOST_FILES.len())];
        let text = match known.path.ends_with(".toml") {
            true => random.text(&TOML_PARTS, 60),
            false => format!(r#"{{"{}": {{{}}}}}"#, known.key, random.text(&JSON_PARTS, 60)),
        };
        let file = Path::new("/d").join(known.path);
        let document = Document::from_text(&file, &text);
        let location = EntryLocation {
            file: &file,
            context: known.context(places()),
            variables: &|_| Ok(BTreeMap::new()),
        };
        let read = shapes::read_host_file(&document, known, &location);
        assert!(!read.broken || (read.definitions.is_empty() && !read.problems.is_empty()), "{text}");
        assert!(read.problems.iter().all(|said| said.message.len() <= text.len() + 500), "{text}");
    });
}

#[test]
fn mutated_definitions() {
    let seeds = documents();
    run("mutated definitions", |random| {
        let seed = &seeds[random.below(seeds.len())];
        let text = random.mutated(seed, &JSON_PARTS);
        read(&text);
    });
}

#[test]
fn expansion() {
    const PARTS: [&str; 24] = [
        "${",
        "}",
        "$",
        "{",
        ":-",
        ":",
        "env:",
        "input:",
        "A",
        "B",
        "a-b",
        "file:",
        "workspaceFolder",
        "userHome",
        "PLUGIN_ROOT",
        "PLUGIN_DATA",
        "/",
        "${A}",
        "${A:-",
        "${input:i}",
        "$$",
        "%A%",
        " ",
        "\0",
    ];
    let values: expand::PlaceholderValues = [("A", "${B}"), ("B", ""), ("i", "value")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    run("expansion", |random| {
        let text = random.text(&PARTS, 30);
        let plugin = ExpansionContext { dialect: Dialect::Plugin, ..places() };
        let template = Template::parse(&text, &plugin).unwrap();
        assert_eq!(template.placeholders().count(), 0);
        let opencode = ExpansionContext { dialect: Dialect::OpenCode, ..places() };
        let _ = Template::parse(&text, &opencode);
        let Ok(template) = Template::parse(&text, &places()) else { return };
        let mut missing = BTreeSet::new();
        let filled = template.fill(&values, &mut missing);
        assert!(filled.len() <= text.len() * 2 && missing.len() <= template.placeholders().count());
        let written = serde_json::to_string(&template).unwrap();
        assert_eq!(serde_json::from_str::<Template>(&written).unwrap(), template);
        // The displayed form parses to the same template.
        assert_eq!(Template::parse(&template.to_string(), &places()).unwrap(), template, "{text}");
    });
}

#[test]
fn env_files() {
    const PARTS: [&str; 20] = [
        "A", "B1", "=", "\n", "\r\n", "\r", " ", "\t", "#", "'", "\"", "\\", "\\n", "export ", "$A", "\0",
        "\u{feff}", "é", "A=1\n", "B='",
    ];
    run("env files", |random| {
        let text = random.text(&PARTS, 50);
        match env_file::parse(&text) {
            Ok(all) => {
                let size: usize = all.iter().map(|(name, value)| name.len() + value.len()).sum();
                assert!(size <= text.len());
            }
            Err((line, why)) => {
                assert!((1..=1 + text.matches('\n').count()).contains(&line) && !why.is_empty(), "{text:?}");
            }
        }
    });
}

#[test]
fn globs() {
    const PARTS: [&str; 25] = [
        "a",
        "b",
        ".mcp.json",
        "/",
        "/",
        "/",
        "*",
        "**",
        "**/",
        "/**",
        "?",
        "[",
        "]",
        "[ab]",
        "[!a]",
        "[a/b]",
        "{",
        "}",
        ",",
        "{a,b}",
        "{a/b,c}",
        "\\",
        "mcps",
        "-",
        "x",
    ];
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in ["mcps/a/.mcp.json", "mcps/b/.mcp.json", "a/b/.mcp.json", "a/x", "x", ".mcp.json"] {
        std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        std::fs::write(root.join(name), "{}").unwrap();
    }
    let mut all = Vec::new();
    list(&root, &mut all);
    run("globs", |random| {
        let glob = random.text(&PARTS, 8);
        let walked = walk::walk(&root, std::slice::from_ref(&glob), true);
        assert!(!walked.cut_short && walked.dirs.len() <= all.len() + 1);
        let Ok(matcher) = GlobBuilder::new(&glob).literal_separator(true).build() else {
            return assert!(walked.files.is_empty());
        };
        let matcher = matcher.compile_matcher();
        let depth = if glob.contains("**") { usize::MAX } else { glob.matches('/').count() };
        let expect = all.iter().filter(|file| {
            let below = file.strip_prefix(&root).unwrap();
            matcher.is_match(below) && below.components().count() <= depth.saturating_add(1)
        });
        assert_eq!(walked.files, expect.cloned().collect::<Vec<PathBuf>>(), "{glob}");
    });
}

/// Everything below a folder, in the order that a walk returns.
fn list(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            list(&entry.path(), all);
        }
        all.push(entry.path());
    }
    all.sort();
}
