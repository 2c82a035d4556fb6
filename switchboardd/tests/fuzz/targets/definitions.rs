//! What users and projects write: definitions, placeholders, env files, globs, the config.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use globset::GlobBuilder;
use switchboard_definitions::config::{Config, ConfigOwner};
use switchboard_definitions::definition::Launch;
use switchboard_definitions::discover::entry::EntryLocation;
use switchboard_definitions::discover::host_files::HOST_FILES;
use switchboard_definitions::discover::{hosts, shapes, walk};
use switchboard_definitions::document::Document;
use switchboard_definitions::env_file;
use switchboard_definitions::expand::{self, Dialect, ExpansionContext, Template};
use switchboard_definitions::trust::view::mentioned;

use super::{Target, no_seeds};

pub(crate) const JSON_PARTS: &[&str] = &[
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

pub(crate) const DOCUMENTS: Target = Target {
    name: "documents",
    parts: JSON_PARTS,
    most: 60,
    seeds: documents,
    run: |input| read(&String::from_utf8_lossy(input)),
};

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

pub(crate) const PROJECT_FILES: Target = Target {
    name: "project-files",
    parts: &[
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
        ":",
        "command = \"c\"\n",
        "args = [\"a\"]\n",
        "\"mcpServers\":{",
        "\"context_servers\":{",
        "\"mcp\":{",
        "\"command\":\"c\"",
        "\"url\":",
        "1_0",
        "1979-05-27",
        "true",
        "# n",
        "//",
        "\\u0041",
        "é",
    ],
    most: 60,
    seeds: || {
        vec![
            "[mcp_servers.a]\ncommand = \"c\"\nargs = [\"a\"]\n[mcp_servers.a.env]\nK = \"v\"\n".to_owned(),
            r#"{"mcpServers": {"a": {"command": "c", "args": ["a"], "env": {"K": "${K}"}}}}"#.to_owned(),
            r#"{"context_servers": {"a": {"command": "c"}}, "mcp": {"a": {"type": "local", "command": ["c"]}}}"#.to_owned(),
        ]
    },
    run: |input| {
        let text = String::from_utf8_lossy(input);
        for known in &HOST_FILES {
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
        }
    },
};

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

pub(crate) const EXPANSION: Target = Target {
    name: "expansion",
    parts: &[
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
    ],
    most: 30,
    seeds: no_seeds,
    run: |input| {
        let text = String::from_utf8_lossy(input);
        let values: expand::PlaceholderValues = [("A", "${B}"), ("B", ""), ("i", "value")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
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
    },
};

pub(crate) const ENV_FILES: Target = Target {
    name: "env-files",
    parts: &[
        "A", "B1", "=", "\n", "\r\n", "\r", " ", "\t", "#", "'", "\"", "\\", "\\n", "export ", "$A", "\0",
        "\u{feff}", "é", "A=1\n", "B='",
    ],
    most: 50,
    seeds: no_seeds,
    run: |input| {
        let text = String::from_utf8_lossy(input);
        match env_file::parse(&text) {
            Ok(all) => {
                let size: usize = all.iter().map(|(name, value)| name.len() + value.len()).sum();
                assert!(size <= text.len());
            }
            Err((line, why)) => {
                assert!((1..=1 + text.matches('\n').count()).contains(&line) && !why.is_empty(), "{text:?}");
            }
        }
    },
};

pub(crate) const CONFIG: Target = Target {
    name: "config",
    parts: &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "null",
        "true",
        "-1",
        "1e999",
        "\"*\"",
        "\"suites\":{",
        "\"x\":{",
        "\"pool\":{",
        "\"scope\":\"call\"",
        "\"warm\":",
        "\"max\":",
        "\"idleMs\":",
        "\"timeouts\":{",
        "\"rpcMs\":",
        "\"expose\":{",
        "\"allow\":[",
        "\"deny\":[",
        "\"show\":",
        "\"split\":",
        "\"confirm\":",
        "\"http\":{",
        "\"listen\":",
        "\"trust\":{",
        "\"drift\":\"hold\"",
        "\"oauth\":{",
        "\"record\":",
        "\"discoverGlobs\":[",
        "\"aggregate\":{",
        "\"budget\":{",
        "//",
        "\n",
        "\u{feff}",
    ],
    most: 50,
    seeds: || {
        vec![
            r#"{"suites": {"x": {"pool": {"scope": "session", "warm": 1, "max": 4, "idleMs": 1000}, "expose": {"allow": ["a*"], "deny": ["b"]}, "timeouts": {"rpcMs": 5}, "confirm": ["c"], "show": ["d"]}}, "http": {"listen": "127.0.0.1:1", "allowedOrigins": ["https://a"]}, "trust": {"drift": "hold"}, "discoverGlobs": ["*/.mcp.json"], "budget": {"children": 3}}"#.to_owned(),
        ]
    },
    run: |input| {
        let text = String::from_utf8_lossy(input);
        let (file, folder) = (Path::new("/w/switchboard.config.json"), Path::new("/w"));
        let document = Document::from_text(file, &text);
        for owner in [ConfigOwner::Personal, ConfigOwner::Workspace] {
            match Config::parse(&document, folder, owner) {
                Ok(config) => {
                    let suite = config.suite("x");
                    let _ = (suite.expose.permits("a"), config.unusable_reason("x"));
                }
                Err(problems) => {
                    assert!(!problems.is_empty() && problems.len() <= text.len() + 1);
                    for problem in &problems {
                        assert!(problem.message.len() <= text.len() + 500, "{}", problem.message);
                        assert!(problem.pictured().lines().all(|line| !line.contains('\u{1b}')));
                    }
                }
            }
        }
    },
};

/// A few folders to walk through, and everything in them. They stay for the next run.
static TREE: LazyLock<(PathBuf, Vec<PathBuf>)> = LazyLock::new(|| {
    let root = std::env::temp_dir().join("switchboard-fuzz-globs");
    for name in ["mcps/a/.mcp.json", "mcps/b/.mcp.json", "a/b/.mcp.json", "a/x", "x", ".mcp.json"] {
        std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        std::fs::write(root.join(name), "{}").unwrap();
    }
    let root = root.canonicalize().unwrap();
    let mut all = Vec::new();
    list(&root, &mut all);
    (root, all)
});

pub(crate) const GLOBS: Target = Target {
    name: "globs",
    parts: &[
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
    ],
    most: 8,
    seeds: no_seeds,
    run: |input| {
        let glob = String::from_utf8_lossy(input).into_owned();
        let (root, all) = &*TREE;
        let walked = walk::walk(root, std::slice::from_ref(&glob), true);
        assert!(!walked.cut_short && walked.dirs.len() <= all.len() + 1);
        let Ok(matcher) = GlobBuilder::new(&glob).literal_separator(true).build() else {
            return assert!(walked.files.is_empty());
        };
        let matcher = matcher.compile_matcher();
        let depth = if glob.contains("**") { usize::MAX } else { glob.matches('/').count() };
        let expect = all.iter().filter(|file| {
            let below = file.strip_prefix(root).unwrap();
            matcher.is_match(below) && below.components().count() <= depth.saturating_add(1)
        });
        assert_eq!(walked.files, expect.cloned().collect::<Vec<PathBuf>>(), "{glob}");
    },
};

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
