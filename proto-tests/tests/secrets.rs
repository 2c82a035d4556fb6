//! Secrets of a user: set, listed and removed, in a private file if no keyring answers. `interop/keyring.sh`
//! tests the real keyring.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use proto_tests::daemon::DaemonProcess;
use proto_tests::wait::until;
use proto_tests::{Home, TEST_TIMEOUT, bins, procs};
use serde_json::{Value, json};

const VALUE: &str = "hunter2 \u{1f511} $HOME";

/// A command with a D-Bus address where nothing listens: a test must not find the user's keyring.
fn switchboard(home: &Home) -> Command {
    let mut command = Command::new(&bins().switchboard);
    command.env_clear().envs(home.environment()).env("SWITCHBOARD_SOCKET", home.socket());
    command.env("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={}/no-bus", home.mark()));
    command.current_dir(home.workspace()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn begin(home: &Home, args: &[&str], input: &[u8]) -> Child {
    let mut child = switchboard(home).arg("secret").args(args).spawn().unwrap();
    // A command that refuses its arguments does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    child
}

fn secret(home: &Home, args: &[&str], input: &str) -> Output {
    begin(home, args, input.as_bytes()).wait_with_output().unwrap()
}

/// The command's output, after checking its exit code and that it shows no value.
#[track_caller]
fn said(output: &Output, code: i32) -> String {
    let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(!said.contains("hunter"), "{said}");
    said
}

fn file(home: &Home) -> PathBuf {
    home.state_folder().join("secrets/secrets.json")
}

fn kept(home: &Home) -> Value {
    serde_json::from_slice(&fs::read(file(home)).unwrap()).unwrap()
}

fn mode(path: PathBuf) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_secret_is_set_listed_and_removed() {
    let home = Home::new();
    assert!(said(&secret(&home, &["ls"], ""), 0).contains("no secrets"));
    let told = said(&secret(&home, &["set", "GITHUB_TOKEN"], &format!("{VALUE}\n")), 0);
    assert!(
        told.contains("stored `GITHUB_TOKEN` in a file that only you can read\nthe keyring can't be used: "),
        "{told}"
    );
    assert!(told.contains("/no-bus"), "{told}");
    assert_eq!(kept(&home)["secrets"], json!({"GITHUB_TOKEN": {"in": "file", "value": VALUE}}));
    let folder = home.state_folder().join("secrets");
    assert_eq!((mode(folder.clone()), mode(file(&home)), mode(folder.join("lock"))), (0o700, 0o600, 0o600));

    // Only the last line break is removed; the last value wins.
    said(&secret(&home, &["set", "a.b-c_9"], "hunter3\n\n"), 0);
    said(&secret(&home, &["set", "GITHUB_TOKEN"], "hunter4\r\n"), 0);
    assert_eq!(kept(&home)["secrets"]["a.b-c_9"]["value"], "hunter3\n");
    assert_eq!(kept(&home)["secrets"]["GITHUB_TOKEN"]["value"], "hunter4");
    let told = said(&secret(&home, &["ls"], ""), 0);
    assert!(
        told.contains("GITHUB_TOKEN  private file") && told.contains("a.b-c_9       private file"),
        "{told}"
    );
    let told: Value = serde_json::from_str(&said(&secret(&home, &["ls", "--json"], ""), 0)).unwrap();
    let named = |at: usize| (told["secrets"][at]["name"].as_str(), told["secrets"][at]["in"].as_str());
    assert_eq!((named(0), named(1)), ((Some("GITHUB_TOKEN"), Some("file")), (Some("a.b-c_9"), Some("file"))));

    assert_eq!(said(&secret(&home, &["rm", "GITHUB_TOKEN"], ""), 0), "removed `GITHUB_TOKEN`\n");
    assert!(!kept(&home)["secrets"].as_object().unwrap().contains_key("GITHUB_TOKEN"));
    assert!(!fs::read_to_string(file(&home)).unwrap().contains("hunter4"));
    let told = said(&secret(&home, &["rm", "GITHUB_TOKEN"], ""), 1);
    assert!(told.contains("there is no secret `GITHUB_TOKEN`"), "{told}");
    // No temporary file is left.
    assert_eq!(fs::read_dir(folder).unwrap().count(), 2);
}

#[test]
fn invalid_names_and_values_are_refused() {
    let home = Home::new();
    for (name, input, part) in [
        ("9A", "hunter2".to_owned(), "is not a valid secret name"),
        ("A B", "hunter2".to_owned(), "is not a valid secret name"),
        ("A", String::new(), "empty"),
        ("A", "\n".to_owned(), "empty"),
        ("A", "hunter\0".to_owned(), "NUL"),
        ("A", "hunter2".repeat(10_000), "longer than 64 KiB"),
    ] {
        let told = said(&secret(&home, &["set", name], &input), 1);
        assert!(told.contains(part), "{told}");
    }
    let latin = begin(&home, &["set", "A"], b"hunter\xff").wait_with_output().unwrap();
    assert!(said(&latin, 1).contains("not UTF-8"));
    assert!(!file(&home).exists());
    let longest = "h".repeat(64 * 1024);
    said(&secret(&home, &["set", "A"], &format!("{longest}\n")), 0);
    assert_eq!(kept(&home)["secrets"]["A"]["value"], longest);
}

#[test]
fn a_file_that_is_damaged_or_open_to_others_is_left_alone() {
    let home = Home::new();
    said(&secret(&home, &["set", "A"], "hunter2"), 0);
    let orders: [&[&str]; 3] = [&["set", "B"], &["rm", "A"], &["ls"]];
    let name = file(&home).display().to_string();
    let refused = |part: &str| {
        let before = fs::read(file(&home)).unwrap();
        for order in orders {
            let told = said(&secret(&home, order, "hunter3"), 1);
            assert!(told.contains(part) && told.contains(&name), "{told}");
        }
        assert_eq!(fs::read(file(&home)).unwrap(), before);
    };
    for open in [0o644, 0o660, 0o602] {
        fs::set_permissions(file(&home), fs::Permissions::from_mode(open)).unwrap();
        refused(&format!("chmod 600 '{name}'"));
    }
    fs::set_permissions(file(&home), fs::Permissions::from_mode(0o600)).unwrap();
    said(&secret(&home, &["ls"], ""), 0);
    fs::write(file(&home), r#"{"version":1,"secrets":{"A":"hunter2"}}"#).unwrap();
    refused("is damaged at line 1, column");
    fs::write(file(&home), r#"{"version":7,"secrets":[]}"#).unwrap();
    refused("is of version 7");
    if rustix::process::geteuid().is_root() {
        fs::write(file(&home), r#"{"version":1,"secrets":{}}"#).unwrap();
        std::os::unix::fs::chown(file(&home), Some(65_534), None).unwrap();
        refused("belongs to another user (uid 65534)");
    }
}

#[test]
fn concurrent_sets_lose_no_secret() {
    let home = Home::new();
    let names: Vec<String> = (0..16).map(|number| format!("NAME_{number}")).collect();
    let all: Vec<Child> =
        names.iter().map(|name| begin(&home, &["set", name], format!("hunter-{name}").as_bytes())).collect();
    for child in all {
        said(&child.wait_with_output().unwrap(), 0);
    }
    for name in names {
        assert_eq!(kept(&home)["secrets"][&name]["value"], format!("hunter-{name}"));
    }
}

/// A bus that accepts connections and never answers.
#[test]
fn a_keyring_that_hangs_is_given_up_and_its_process_reveals_nothing() {
    let home = Home::new();
    let bus = home.workspace().join("bus");
    let _listener = UnixListener::bind(&bus).unwrap();
    let mut command = switchboard(&home);
    command
        .args(["secret", "set", "A"])
        .env("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={}", bus.display()));
    let start = Instant::now();
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"hunter2").unwrap();
    let asks = until("the keyring to be asked", TEST_TIMEOUT, || {
        let all = procs::descendants(i32::try_from(child.id()).unwrap());
        all.into_iter().find(|process| process.cmdline.ends_with("--keyring"))
    });
    assert_eq!(asks.cmdline, "switchboard-ctl --keyring");
    // The process is closed to its own user; root can still read it.
    if let Ok(environ) = fs::read(format!("/proc/{}/environ", asks.pid)) {
        let environ = String::from_utf8_lossy(&environ).into_owned();
        assert!(environ.contains("DBUS_SESSION_BUS_ADDRESS=") && !environ.contains("hunter"), "{environ}");
        assert!(!environ.contains("SWITCHBOARD_"), "{environ}");
    }
    let told = said(&child.wait_with_output().unwrap(), 0);
    assert!(told.contains("the keyring can't be used: no answer within 20 s"), "{told}");
    assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
    assert!(home.processes().is_empty(), "{:#?}", home.processes());
    assert_eq!(kept(&home)["secrets"]["A"]["value"], "hunter2");
}

#[test]
fn a_running_daemon_is_told_of_changed_secrets() {
    let home = Home::new();
    let daemon = home.daemon();
    let generation = || daemon.status()["generation"].clone();
    let before = generation();
    said(&secret(&home, &["set", "A"], "hunter2"), 0);
    let after = generation();
    assert_ne!(before, after);
    said(&secret(&home, &["rm", "A"], ""), 0);
    assert_ne!(generation(), after);
    // Other commands report an invalid config: here the secret is stored and the daemon is told.
    home.write(".config/switchboard/switchboard.config.json", "{");
    let told = said(&secret(&home, &["set", "A"], "hunter2"), 0);
    assert!(told.contains("stored `A`") && !told.contains("was not told"), "{told}");
}

#[test]
fn help_shows_examples() {
    let home = Home::new();
    for (args, example) in [
        (&["set", "--help"][..], "switchboard secret set GITHUB_TOKEN"),
        (&["ls", "--help"], "switchboard secret ls"),
        (&["rm", "--help"], "switchboard secret rm GITHUB_TOKEN"),
        (&["--help"], "set"),
    ] {
        let told = said(&secret(&home, args, ""), 0);
        assert!(told.contains(example), "{told}");
    }
    said(&secret(&home, &["set"], ""), 2);
}

/// `script(1)` runs a shell line on a new terminal.
struct Terminal {
    script: Child,
    shown: String,
}

impl Terminal {
    fn new(home: &Home, line: &str) -> Self {
        let script = Command::new("script")
            .args(["--quiet", "--return", "--command", line, "/dev/null"])
            .env_clear()
            .envs(home.environment())
            .env("SWITCHBOARD_SOCKET", home.socket())
            .env("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={}/no-bus", home.mark()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script(1), which is part of every Linux");
        Self { script, shown: String::new() }
    }

    fn read_until(&mut self, part: &str) {
        let stdout = self.script.stdout.as_mut().unwrap();
        let mut byte = [0];
        while !self.shown.ends_with(part) {
            assert_eq!(stdout.read(&mut byte).unwrap(), 1, "{:?}", self.shown);
            self.shown.push(char::from(byte[0]));
        }
    }

    fn type_in(&mut self, keys: &str) {
        let stdin = self.script.stdin.as_mut().unwrap();
        stdin.write_all(keys.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Everything that was shown, and the exit code.
    fn end(mut self) -> (String, Option<i32>) {
        let mut rest = Vec::new();
        self.script.stdout.as_mut().unwrap().read_to_end(&mut rest).unwrap();
        self.shown.push_str(&String::from_utf8_lossy(&rest));
        (self.shown, self.script.wait().unwrap().code())
    }
}

#[test]
fn a_value_typed_at_the_prompt_is_not_shown() {
    let home = Home::new();
    let line = format!("{} secret set TYPED", bins().switchboard.display());
    let mut terminal = Terminal::new(&home, &line);
    terminal.read_until("value for TYPED (not shown): ");
    terminal.type_in("hunter2\n");
    let (shown, code) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("stored `TYPED`") && !shown.contains("hunter"), "{shown}");
    assert_eq!(kept(&home)["secrets"]["TYPED"]["value"], "hunter2");
}

#[test]
fn a_line_that_the_terminal_would_cut_off_is_refused() {
    let home = Home::new();
    let line = format!("{} secret set TYPED", bins().switchboard.display());
    let mut terminal = Terminal::new(&home, &line);
    terminal.read_until("(not shown): ");
    for _ in 0..10 {
        terminal.type_in(&"hunter2".repeat(100));
    }
    terminal.type_in("\n");
    let (shown, code) = terminal.end();
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("too long for a terminal; pipe it in") && !shown.contains("hunter"), "{shown}");
    assert!(!file(&home).exists());
}

#[test]
fn an_interrupted_prompt_leaves_the_terminal_as_it_was() {
    let home = Home::new();
    let binary = bins().switchboard.display();
    let line = format!("trap : INT; {binary} secret set TYPED; echo \"it ended with $?\"; stty -a");
    let mut terminal = Terminal::new(&home, &line);
    terminal.read_until("(not shown): ");
    terminal.type_in("hunter\u{3}");
    let (shown, _) = terminal.end();
    assert!(shown.contains("interrupted") && shown.contains("it ended with 1"), "{shown}");
    assert!(shown.contains(" echo ") && !shown.contains("-echo ") && !shown.contains("hunter"), "{shown}");
    assert!(!file(&home).exists());
}

// --- what other processes can see ---

#[test]
fn a_secret_argument_of_a_child_is_not_in_the_guards_command_line() {
    let home = Home::new();
    home.child("k", &["echo", "--token", "${CANARY}"]);
    said(&secret(&home, &["set", "CANARY"], "hunter2"), 0);
    let _daemon = home.daemon();
    let child = home.shim().pid_of("k");
    let guard = procs::find(procs::find(child).unwrap().parent).unwrap();
    assert!(guard.cmdline.starts_with("switchboard-guard"), "{guard:?}");
    assert!(!guard.cmdline.contains("hunter"), "{guard:?}");
    // The child's own arguments are its author's choice.
    assert!(procs::find(child).unwrap().cmdline.ends_with("--token hunter2"));
    // `check` and `doctor` warn the author.
    let file = home.config_folder().join("mcps/k/.mcp.json");
    let told = home.command(&["check", file.to_str().unwrap()]);
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("`${CANARY}` among its arguments"), "{told}");
    let told = home.command(&["doctor"]);
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("`${CANARY}` among its arguments"), "{told}");
}

/// A user who is not root, for tests that run as root: root may read everything.
const SOMEBODY: u32 = 42_017;

/// A command prefix that runs a program as that user with core files enabled; and the uid.
fn as_somebody() -> (Command, u32) {
    let mut command = Command::new("/bin/sh");
    let myself = rustix::process::geteuid().as_raw();
    let (run, uid) = match myself {
        0 => ("exec setpriv --reuid=42017 --regid=42017 --clear-groups", SOMEBODY),
        _ => ("exec", myself),
    };
    command.args(["-c", &format!("ulimit -c unlimited; {run} \"$0\" \"$@\"")]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    (command, uid)
}

fn core_limit(pid: i32) -> String {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap();
    line.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn neither_daemon_nor_guard_can_be_read_by_what_they_start() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let (mut command, uid) = as_somebody();
    let own = Command::new("chown").args(["-R", &format!("{uid}:{uid}")]).arg(home.mark()).status().unwrap();
    assert!(own.success());
    command.arg(&bins().switchboardd);
    let daemon = DaemonProcess::spawn_as(&home, command, &["--listen", "off"], &[]);
    until("the socket", TEST_TIMEOUT, || home.socket().exists().then_some(()));
    // The daemon only answers its own user.
    let child = until("a call to be answered", TEST_TIMEOUT, || {
        let mut call = as_somebody().0;
        call.arg(&bins().switchboard).args(["call", "k", "echo", "{}"]).env_clear().envs(home.environment());
        call.env("SWITCHBOARD_SOCKET", home.socket()).current_dir(home.workspace());
        let answered = call.stderr(Stdio::null()).status().unwrap().success();
        home.children().first().filter(|_| answered).map(|child| child.pid)
    });
    let guard = procs::find(child).unwrap().parent;
    let owner = |pid: i32| fs::metadata(format!("/proc/{pid}/environ")).unwrap().uid();
    for closed in [daemon.pid(), guard] {
        assert_eq!((owner(closed), core_limit(closed).as_str()), (0, "0"), "{:?}", procs::find(closed));
    }
    // The child runs as it would without Switchboard.
    assert_eq!((owner(child), core_limit(child).as_str()), (uid, "unlimited"));
}
