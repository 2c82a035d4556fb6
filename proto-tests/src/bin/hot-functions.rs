//! Writes `hot-functions.ld` of the daemon and of the shim: which functions run from the start to a few calls. The
//! linker puts them side by side (`build.rs` of each package), so that the pages of all other functions stay on
//! disk. Those that run before the first call come first: a daemon that nobody uses has only these in memory. A function
//! that is missing from the list works as before; it only takes memory of its own.
//!
//! Run it when `figures` shows that idle memory grew: `proto-tests/hot-functions.sh` builds both programs with their
//! symbols, and then runs this. Needs valgrind.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a tool for maintainers"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use proto_tests::{DaemonProcess, Home, Shim, bins};
use rustix::process::Signal;
use serde_json::json;

const SUITES: usize = 20;

/// Names of generic functions can have thousands of letters, all of them ASCII. A shorter pattern matches functions that
/// never run.
const MAX_PATTERN: usize = 200;

/// Long enough for the work that follows a start: the watcher, the login shell, the first sweep.
const SETTLE: Duration = Duration::from_secs(8);

fn main() {
    let home = Home::new();
    let folder = home.path().join("bin");
    fs::create_dir(&folder).unwrap();
    bins().copy_to(&folder);
    // Under valgrind the daemon believes that its binary was replaced. It does not hand over to one that others can
    // write.
    fs::set_permissions(folder.join("switchboardd"), Permissions::from_mode(0o777)).unwrap();
    (0..SUITES).for_each(|number| home.child(&format!("c{number}"), &["echo"]));
    for phase in Phase::ALL {
        run(&home, &folder, phase);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (program, package) in [("switchboardd", "switchboardd"), ("switchboard", "switchboard-shim")] {
        let found = Phase::ALL.map(|phase| patterns(&folder, program, phase));
        let file = root.join(package).join("hot-functions.ld");
        fs::write(&file, script(found.iter().flat_map(|(patterns, _)| patterns))).unwrap();
        for (phase, (patterns, bytes)) in Phase::ALL.iter().zip(&found) {
            println!("{}: {phase:?}, {} functions, {} KiB", file.display(), patterns.len(), bytes / 1024);
        }
    }
}

/// How far a daemon is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// An editor attaches and lists; then nothing happens.
    Idle,
    /// What most users do: an editor attaches, lists, introspects and calls; a second one comes; somebody looks at the
    /// state.
    Used,
}

impl Phase {
    const ALL: [Self; 2] = [Self::Idle, Self::Used];
}

fn run(home: &Home, folder: &Path, phase: Phase) {
    let daemon = under_valgrind(folder, "switchboardd", phase);
    let mut command = Command::new(daemon);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let daemon = DaemonProcess::spawn_as(home, command, &["--listen", "127.0.0.1:0"], &[]).serving();
    let program = under_valgrind(folder, "switchboard", phase);
    let attach = || {
        let mut shim = Shim::start_program(home, &program);
        shim.initialize();
        shim.request("tools/list", "{}");
        shim
    };
    let leave = |mut shim: Shim| {
        shim.close_stdin();
        assert!(shim.ended(Duration::from_secs(20)).success());
    };
    match phase {
        Phase::Idle => {
            let shim = attach();
            std::thread::sleep(SETTLE);
            leave(shim);
        }
        Phase::Used => {
            for _ in 0..2 {
                let mut shim = attach();
                shim.introspect("c0");
                for number in 0..30 {
                    shim.call(&format!("c{}", number % 3), "echo", "{}");
                }
                shim.request("ping", "{}");
                leave(shim);
            }
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).to_string();
            daemon.endpoint().post("/mcp", &body);
            // Not `/metrics`, which reads the vDSO: valgrind has none.
            for path in ["/health", "/suites", "/status"] {
                daemon.endpoint().get(path);
            }
            std::thread::sleep(SETTLE);
        }
    }
    daemon.signal(Signal::TERM);
    let written =
        || traces(folder, "switchboardd", phase).iter().any(|file| fs::metadata(file).unwrap().len() > 0);
    proto_tests::wait::until_true("the trace of the daemon", Duration::from_secs(30), written);
    drop(daemon);
}

/// A script that starts a program of the folder and records which functions it runs.
fn under_valgrind(folder: &Path, program: &str, phase: Phase) -> PathBuf {
    let script = folder.join(format!("trace-{program}-{phase:?}"));
    let text = format!(
        "#!/bin/sh\nexec valgrind --quiet --tool=callgrind --demangle=no --callgrind-out-file={folder}/{program}.{phase:?}.%p.trace {folder}/{program} \"$@\"\n",
        folder = folder.display(),
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    script
}

fn traces(folder: &Path, program: &str, phase: Phase) -> Vec<PathBuf> {
    let is_trace =
        |name: &str| name.starts_with(&format!("{program}.{phase:?}.")) && name.ends_with(".trace");
    let entries = fs::read_dir(folder).unwrap().flatten();
    entries.filter(|entry| is_trace(&entry.file_name().to_string_lossy())).map(|entry| entry.path()).collect()
}

/// The functions of a program that ran in this phase and in none before, as patterns, and their size together. All
/// instances of a generic function have one pattern: where most of them never ran, it comes last, so that these are not
/// between functions that did.
fn patterns(folder: &Path, program: &str, phase: Phase) -> (Vec<String>, u64) {
    let mut ran = functions(folder, program, phase);
    for before in Phase::ALL.into_iter().take_while(|before| *before != phase) {
        let known = functions(folder, program, before);
        ran.retain(|name| !known.contains(name));
    }
    let table = Command::new("nm").arg("--print-size").arg(folder.join(program)).output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    // Bytes that ran, and all bytes, by pattern.
    let mut sizes = BTreeMap::<String, (u64, u64)>::new();
    for symbol in table.lines() {
        let [_, size, "t" | "T", name] = symbol.split_whitespace().collect::<Vec<_>>()[..] else { continue };
        let size = u64::from_str_radix(size, 16).unwrap();
        let sum = sizes.entry(shortened(pattern(name))).or_default();
        *sum = (sum.0 + if ran.contains(name) { size } else { 0 }, sum.1 + size);
    }
    sizes.retain(|_, (ran, _)| *ran > 0);
    let bytes = sizes.values().map(|(ran, _)| ran).sum();
    let mut patterns: Vec<(String, (u64, u64))> = sizes.into_iter().collect();
    patterns.sort_by_key(|(_, (ran, all))| 2 * ran < *all);
    let patterns: Vec<String> = patterns.into_iter().map(|(pattern, _)| pattern).collect();
    let has_symbols = patterns.len() > if phase == Phase::Idle { 100 } else { 0 };
    assert!(has_symbols, "{program} has no symbols: use proto-tests/hot-functions.sh");
    (patterns, bytes)
}

fn functions(folder: &Path, program: &str, phase: Phase) -> BTreeSet<String> {
    let mut ran = BTreeSet::new();
    for file in traces(folder, program, phase) {
        for line in fs::read_to_string(file).unwrap().lines() {
            // `fn=(12) name`, or `fn=(12) name'2` for a recursive call; later lines have the number only.
            let named = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn="));
            if let Some((_, name)) = named.and_then(|named| named.split_once(' ')) {
                ran.insert(name.split('\'').next().unwrap_or(name).to_owned());
            }
        }
    }
    ran
}

/// A name without what another compiler, or another version of a crate, writes differently: hashes of crates
/// (`17h…E`, `Cs…_`), references to earlier parts of the name (`B…_`) and numbers of the code generator.
fn pattern(name: &str) -> String {
    // `.llvm.123` and `.123` are copies of a function within one program.
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((before, _)) = name.rsplit_once('.').filter(|(_, number)| is_number(number)) {
        return format!("{}*", pattern(before.strip_suffix(".llvm").unwrap_or(before)));
    }
    if let Some(start) = name.rfind("17h").filter(|start| name.ends_with('E') && name.len() - start == 20) {
        return format!("{}17h*E", &name[..start]);
    }
    let mut pattern = String::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let hash = rest.strip_prefix("Cs").or_else(|| rest.strip_prefix('B'));
        let end = hash.and_then(|hash| hash.find(|letter: char| !letter.is_ascii_alphanumeric()));
        match (hash, end) {
            (Some(hash), Some(end)) if hash[end..].starts_with('_') && name.starts_with("_R") => {
                pattern.push_str(if first == 'C' { "Cs*_" } else { "B*_" });
                rest = &hash[end + 1..];
            }
            _ => {
                pattern.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    pattern
}

/// Long names differ early enough.
fn shortened(mut pattern: String) -> String {
    if pattern.len() > MAX_PATTERN {
        pattern.truncate(MAX_PATTERN);
        pattern.push('*');
    }
    pattern
}

/// The linker takes a function where its first pattern is.
fn script<'a>(patterns: impl Iterator<Item = &'a String>) -> String {
    let mut text = String::from(
        "/* The functions that run in every session, side by side. Written by proto-tests/hot-functions.sh. */\nSECTIONS\n{\n  .text.hot_functions :\n  {\n",
    );
    for pattern in patterns {
        text.push_str(&format!("    *(.text.{pattern} .text.unlikely.{pattern})\n"));
    }
    text.push_str("  }\n}\nINSERT BEFORE .text;\n");
    text
}
