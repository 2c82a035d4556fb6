//! Broken and hostile files: each is reported with its position, none blocks the daemon or a command, and the
//! last good version of a definition stays in use.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use proto_tests::proof::measured_ms;
use proto_tests::wait::{until, until_true};
use proto_tests::{DaemonProcess, Home, TEST_TIMEOUT, bins};
use serde_json::{Value, json};

/// Time limit for reading these files, generous because the machine may be busy.
const BOUND: Duration = Duration::from_secs(5);
const NOBODY: u32 = 65534;
const SOMEBODY: u32 = 42_017;

/// A name, the function that creates the file, and the expected message.
struct Bad {
    name: &'static str,
    make: fn(&Path),
    says: &'static str,
}

fn text(path: &Path, text: impl AsRef<[u8]>) {
    fs::write(path, text).unwrap();
}

const BAD: [Bad; 14] = [
    Bad {
        name: "twice",
        make: |path| text(path, "{\"mcpServers\": {\"x\": {\"command\": \"a\",\n \"command\": \"b\"}}}"),
        says: ":2:2: `mcpServers.x.command` appears twice",
    },
    Bad {
        name: "twice-in-disguise",
        make: |path| text(path, r#"{"mcpServers": {}, "mcpS\u0065rvers": {"x": {"command": "a"}}}"#),
        says: ":1:20: `mcpServers` appears twice",
    },
    Bad {
        name: "both",
        make: |path| text(path, r#"{"mcpServers": {}, "servers": {}}"#),
        says: ":1:1: has both `mcpServers` and `servers`",
    },
    Bad {
        name: "itself",
        make: |path| text(path, r#"{"mcpServers": {"self": {"command": "/opt/bin/switchboard"}}}"#),
        says: ":1:25: `self` is misconfigured: it would start Switchboard itself",
    },
    Bad { name: "long", make: |path| text(path, " ".repeat(1024 * 1024 + 1)), says: ": is over 1 MiB" },
    Bad {
        name: "deep",
        make: |path| text(path, format!(r#"{{"mcpServers": {}{}}}"#, "[".repeat(64), "]".repeat(64))),
        says: ":1:79: nested deeper than 64 levels",
    },
    Bad { name: "deeper", make: |path| text(path, "[".repeat(500_000)), says: ":1:" },
    Bad { name: "pipe", make: make_pipe, says: ": is not a regular file" },
    Bad { name: "device", make: |path| symlink("/dev/zero", path).unwrap(), says: ": is not a regular file" },
    Bad { name: "folder", make: |path| fs::create_dir(path).unwrap(), says: ": is not a regular file" },
    Bad {
        name: "latin",
        make: |path| text(path, b"{\n \"gr\xfc\xdfe\": 1}"),
        says: ": is not UTF-8 text, in line 2",
    },
    Bad { name: "empty", make: |path| text(path, ""), says: ":1:1: is empty; it must be a JSON object" },
    Bad {
        name: "sparse",
        make: |path| File::create(path).unwrap().set_len(10 << 30).unwrap(),
        says: ": is over 1 MiB",
    },
    Bad {
        name: "dangling",
        make: |path| symlink("nowhere", path).unwrap(),
        says: ": is a link that leads nowhere",
    },
];

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn place(home: &Home, name: &str) -> PathBuf {
    let folder = home.config_folder().join("mcps").join(name);
    fs::create_dir_all(&folder).unwrap();
    folder.join(".mcp.json")
}

fn problems(daemon: &DaemonProcess) -> Vec<String> {
    let start = Instant::now();
    let status = daemon.status();
    measured_ms("S4", "status of a daemon with all of them", start.elapsed());
    assert!(start.elapsed() < BOUND, "the status took {:?}", start.elapsed());
    serde_json::from_value(status["problems"].clone()).unwrap()
}

#[test]
fn each_bad_file_is_checked_quickly() {
    let home = Home::new();
    for bad in BAD {
        let file = place(&home, bad.name);
        (bad.make)(&file);
        let start = Instant::now();
        let output = home.command(&["check", file.to_str().unwrap()]);
        measured_ms("S4", "`check` of one bad file", start.elapsed());
        assert!(start.elapsed() < BOUND, "{}: {:?}", bad.name, start.elapsed());
        assert_eq!(output.status.code(), Some(1), "{}: {output:?}", bad.name);
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.starts_with(&format!("{}{}", file.display(), bad.says)), "{}: {said}", bad.name);
        assert!(said.len() < 4000, "{}: {} bytes", bad.name, said.len());
    }
    let file = home.definition("bom", "\u{feff}{\"mcpServers\": {\"x\": {\"command\": \"true\"}}}");
    let output = home.command(&["check", file.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("Claude Code refuses the file"), "{said}");
}

#[test]
fn the_daemon_reports_each_bad_file_and_serves_the_others() {
    let home = Home::new();
    home.child("good", &["echo"]);
    for bad in BAD {
        (bad.make)(&place(&home, bad.name));
    }
    let entry = home.entry(&bins().evil_child, &["echo"], &[]);
    home.definition("bom", &format!("\u{feff}{}", json!({"mcpServers": {"marked": entry}})));
    let daemon = home.daemon();
    let told = problems(&daemon);
    for bad in BAD {
        let expect = format!("mcps/{}/.mcp.json{}", bad.name, bad.says);
        assert!(told.iter().any(|problem| problem.contains(&expect)), "{expect} is missing in {told:#?}");
    }
    assert_eq!(told.len(), BAD.len(), "{told:#?}");
    let mut shim = home.shim();
    for name in ["good", "marked"] {
        assert!(shim.call(name, "echo", "{}").contains("\"ok\":true"), "{name}");
    }
    // A reload is as quick.
    let start = Instant::now();
    home.run_ok(&["reload"]);
    assert!(start.elapsed() < BOUND, "{:?}", start.elapsed());
    // Each file can be fixed on its own.
    let fixed = place(&home, "pipe");
    fs::remove_file(&fixed).unwrap();
    home.child("pipe", &["echo"]);
    until_true("the fixed file", TEST_TIMEOUT, || problems(&daemon).len() == BAD.len() - 1);
    until_true("its suite", TEST_TIMEOUT, || shim.call("pipe", "echo", "{}").contains("\"ok\":true"));
}

#[test]
fn a_file_that_becomes_invalid_leaves_its_server_running() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    home.child("other", &["echo"]);
    let file = place(&home, "kid");
    let good = fs::read_to_string(&file).unwrap();
    let daemon = home.daemon();
    let mut shim = home.shim();
    let pid = shim.pid_of("kid");
    // A folder cannot be renamed over a file, and a single bad entry is tested below.
    for bad in BAD.into_iter().filter(|bad| !["folder", "itself"].contains(&bad.name)) {
        let draft = file.with_file_name("draft");
        (bad.make)(&draft);
        fs::rename(&draft, &file).unwrap();
        let expect = format!("mcps/kid/.mcp.json{}", bad.says);
        until_true(&expect, TEST_TIMEOUT, || {
            let told = problems(&daemon);
            told.len() == 1
                && told[0].contains(&expect)
                && told[0].ends_with("; its last valid version stays in use")
        });
        assert_eq!(shim.pid_of("kid"), pid, "{}", bad.name);
    }
    // A deleted file takes its server with it.
    fs::remove_file(&file).unwrap();
    until_true("the server to go", TEST_TIMEOUT, || {
        problems(&daemon).is_empty() && home.children().is_empty()
    });
    text(&file, &good);
    until_true("the server to come back", TEST_TIMEOUT, || {
        shim.call("kid", "echo", "{}").contains("\"ok\":true")
    });
    text(&file, r#"{"name": "kid", "command": {"cmd": "switchboardd"}}"#);
    until_true("the entry to be refused", TEST_TIMEOUT, || {
        problems(&daemon).iter().any(|told| told.contains("itself; its last valid version stays in use"))
    });
    assert!(shim.call("kid", "echo", "{}").contains("\"ok\":true"));
    text(&file, &good);
    until_true("all to be well", TEST_TIMEOUT, || problems(&daemon).is_empty());
    assert!(shim.call("other", "echo", "{}").contains("\"ok\":true"));
}

#[test]
fn a_workspace_cannot_link_to_files_outside_itself() {
    let home = Home::new();
    let secret = home.write("secret.json", r#"{"mcpServers": {"x": {"command": "a", "key": "hunter2"}}}"#);
    let folder = home.workspace().join("mcps/x");
    fs::create_dir_all(&folder).unwrap();
    symlink(&secret, folder.join(".mcp.json")).unwrap();
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.request("tools/list", "{}");
    let status = until("the workspace", TEST_TIMEOUT, || {
        let status = daemon.status().to_string();
        status.contains("leads out of").then_some(status)
    });
    assert!(!status.contains("hunter2"), "{status}");
}

/// Runs the daemon's binary as another user and waits for it to exit.
fn as_nobody(home: &Home, args: &[&str]) -> Output {
    nobody(home).args(args).output().unwrap()
}

fn nobody(home: &Home) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.arg(home.workspace().join("switchboardd")).arg("--socket").arg(home.socket());
    command.env_clear().envs(home.environment()).current_dir("/").stdin(Stdio::null());
    command
}

#[test]
fn an_unreadable_file_is_reported() {
    if !rustix::process::getuid().is_root() || Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("skipped: becoming another user needs root and setpriv");
        return;
    }
    let home = Home::new();
    let closed = home.definition("closed", r#"{"mcpServers": {"x": {"command": "true"}}}"#);
    home.definition("open", r#"{"mcpServers": {"y": {"command": "true"}}}"#);
    bins().copy_to(&home.workspace());
    give_away(Path::new(home.mark()));
    fs::set_permissions(&closed, Permissions::from_mode(0o000)).unwrap();
    let output = as_nobody(&home, &["check", closed.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said.contains(".mcp.json: cannot be read: Permission denied"), "{said}");
    let mut daemon = nobody(&home).args(["--listen", "off"]).stderr(Stdio::null()).spawn().unwrap();
    let status: Value = until("the daemon's status", TEST_TIMEOUT, || {
        let output = as_nobody(&home, &["status", "--json"]);
        serde_json::from_slice(&output.stdout).ok().filter(|_| output.status.success())
    });
    let told = status["problems"].to_string();
    assert!(told.contains("closed/.mcp.json: cannot be read: Permission denied"), "{told}");
    let suites: Vec<_> = status["suites"].as_array().unwrap().iter().map(|suite| &suite["child"]).collect();
    assert_eq!(suites, ["y"]);
    assert!(as_nobody(&home, &["stop"]).status.success());
    assert!(daemon.wait().unwrap().success());
}

fn give_away(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    for entry in path.is_dir().then(|| fs::read_dir(path).unwrap()).into_iter().flatten() {
        give_away(&entry.unwrap().path());
    }
}

/// The daemon runs guard and commands by descriptors that it opened itself.
#[test]
fn a_guard_or_commands_that_others_can_change_are_not_started() {
    if !rustix::process::getuid().is_root() || Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("skipped: becoming another user needs root and setpriv");
        return;
    }
    let home = Home::new();
    let folder = home.workspace();
    bins().copy_to(&folder);
    let child = folder.join("mock-child");
    assert!(Command::new("cp").arg(&bins().mock_child).arg(&child).status().unwrap().success());
    let define = |name: &str, env: &[(&str, &str)]| {
        let entry = json!({"mcpServers": {name: home.entry(&child, &["echo"], env)}});
        home.definition(name, &entry.to_string());
    };
    // Each has a pool of its own, which has not failed before.
    for number in 0..4 {
        define(&format!("k{number}"), &[]);
        define(&format!("s{number}"), &[("KEY", "${CANARY}")]);
    }
    let secrets = home.state_folder().join("secrets");
    fs::create_dir_all(&secrets).unwrap();
    fs::write(secrets.join("secrets.json"), r#"{"version":1,"secrets":{"CANARY":{"in":"keyring"}}}"#)
        .unwrap();
    for (path, mode) in
        [(home.state_folder(), 0o700), (secrets.clone(), 0o700), (secrets.join("secrets.json"), 0o600)]
    {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    give_away(Path::new(home.mark()));
    let set = |name: &str, owner: u32, mode: u32| {
        chown(folder.join(name), Some(owner), Some(owner)).unwrap();
        fs::set_permissions(folder.join(name), Permissions::from_mode(mode)).unwrap();
    };
    let mut daemon = None;
    let mut call = |server: &str| {
        daemon.get_or_insert_with(|| {
            nobody(&home).args(["--listen", "off"]).stderr(Stdio::null()).spawn().unwrap()
        });
        until_true("the daemon", TEST_TIMEOUT, || as_nobody(&home, &["status"]).status.success());
        let output = as_nobody(&home, &["call", server, "echo", r#"{"text":"x"}"#]);
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    // Before the daemon starts, and while it runs.
    let cases = [
        (SOMEBODY, 0o755, "it belongs to another user (uid 42017)"),
        (NOBODY, 0o777, "everybody can write it"),
        (0, 0o775, "a group can write it (gid 0)"),
    ];
    for (number, (owner, mode, why)) in cases.into_iter().enumerate() {
        let programs = [("switchboard-guard", "k"), ("switchboard-ctl", "s")];
        programs.iter().for_each(|(name, _)| set(name, owner, mode));
        for (name, server) in programs {
            let (is_called, said) = call(&format!("{server}{number}"));
            assert!(!is_called && said.contains(&format!("{name}` is not started: {why}")), "{said}");
        }
    }
    // It is looked at again until it is right.
    set("switchboard-guard", 0, 0o755);
    let (is_called, said) = call("k3");
    assert!(is_called, "{said}");
    assert!(as_nobody(&home, &["stop"]).status.success());
    assert!(daemon.unwrap().wait().unwrap().success());
}
