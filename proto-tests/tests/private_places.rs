//! Paths that are shared with other users: no program talks to another user's socket, stores anything in a
//! folder that others can change, or runs a daemon that a project brings along.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto_tests::shim::INITIALIZE;
use proto_tests::wait::until;
use proto_tests::{DaemonProcess, Home, TEST_TIMEOUT, bins};
use rustix::process::Signal;
use serde_json::json;

const NOBODY: u32 = 65534;

fn can_be_others() -> bool {
    let can =
        rustix::process::getuid().is_root() && Command::new("setpriv").arg("--version").output().is_ok();
    if !can {
        eprintln!("skipped: becoming another user needs root and setpriv");
    }
    can
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn give_away(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    for entry in path.is_dir().then(|| fs::read_dir(path).unwrap()).into_iter().flatten() {
        give_away(&entry.unwrap().path());
    }
}

/// Answers every request with 200, and records what it received.
fn impostor(socket: &Path) -> Arc<Mutex<Vec<u8>>> {
    let listener = UnixListener::bind(socket).unwrap();
    set_mode(socket, 0o777);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heard);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let kept = Arc::clone(&kept);
            std::thread::spawn(move || {
                let mut chunk = [0; 4096];
                while let Ok(read @ 1..) = stream.read(&mut chunk) {
                    kept.lock().unwrap().extend_from_slice(&chunk[..read]);
                    let body = r#"{"url":"https://evil.example/","session":"s","boot":"b","hop":1}"#;
                    let length = body.len();
                    let head = format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
                    );
                    let _ = stream.write_all(format!("{head}{body}").as_bytes());
                }
            });
        }
    });
    heard
}

#[test]
fn no_command_sends_anything_to_another_users_socket() {
    if !can_be_others() {
        return;
    }
    let home = Home::new();
    bins().copy_to(&home.workspace());
    give_away(Path::new(home.mark()));
    // The test, which is root, listens there; the commands run as nobody.
    let heard = impostor(&home.socket());
    let commands: [&[&str]; 10] = [
        &["status"],
        &["stop"],
        &["start"],
        &["restart"],
        &["reload"],
        &["ls"],
        &["open", "--no-browser"],
        &["call", "demo", "echo", r#"{"secret":"CANARY"}"#],
        &["introspect", "demo"],
        &["savings"],
    ];
    for args in commands {
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(home.workspace().join("switchboard"))
            .args(args)
            .env_clear()
            .envs(home.environment())
            .env("SWITCHBOARD_SOCKET", home.socket())
            .current_dir(home.workspace())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("served by another user (uid 0)"), "{args:?}: {said}");
    }
    let heard = String::from_utf8_lossy(&heard.lock().unwrap()).into_owned();
    assert_eq!(heard, "");
}

#[test]
fn a_stop_that_is_not_answered_comes_to_an_end() {
    let home = Home::new();
    let daemon = home.daemon();
    daemon.signal(Signal::STOP);
    let mut stop = Command::new(&bins().switchboard)
        .arg("stop")
        .env_clear()
        .envs(home.environment())
        .env("SWITCHBOARD_SOCKET", home.socket())
        .current_dir(home.workspace())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let ended = proto_tests::wait::becomes(Duration::from_secs(90), || stop.try_wait().unwrap().is_some());
    let _ = stop.kill();
    daemon.signal(Signal::CONT);
    assert!(ended);
    let output = stop.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("kill {}", daemon.pid())), "{said}");
}

/// A state folder for `XDG_STATE_HOME`, with the folders of an earlier run.
fn shared_state(home: &Home) -> PathBuf {
    let shared = home.path().join("shared");
    let state = shared.join("switchboard");
    fs::create_dir_all(state.join("trust")).unwrap();
    fs::create_dir_all(state.join("logs")).unwrap();
    for folder in [&shared, &state, &state.join("trust"), &state.join("logs")] {
        set_mode(folder, 0o700);
    }
    state
}

/// Runs a command with that state folder.
fn with_state(home: &Home, args: &[&str]) -> Output {
    Command::new(&bins().switchboard)
        .args(args)
        .env_clear()
        .envs(home.environment())
        .env("SWITCHBOARD_SOCKET", home.socket())
        .env("XDG_STATE_HOME", home.path().join("shared"))
        .current_dir(home.workspace())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Neither the daemon nor a command uses the folder, and both say why.
#[track_caller]
fn is_refused(home: &Home, why: &str) {
    let shared = home.path().join("shared").display().to_string();
    let mut daemon = DaemonProcess::spawn_with_env(home, &[("XDG_STATE_HOME", &shared)]);
    assert_eq!(daemon.ended(TEST_TIMEOUT).code(), Some(1), "{}", daemon.log());
    assert!(daemon.log().contains(why), "{why}: {}", daemon.log());
    let commands: [&[&str]; 5] =
        [&["allow", "--list"], &["secret", "ls"], &["ls"], &["--dry-run"], &["undo", "--yes"]];
    for args in commands {
        let output = with_state(home, args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        assert!(said.contains(why), "{args:?}: {said}");
    }
}

#[test]
fn a_state_folder_that_others_can_change_is_not_used() {
    let home = Home::new();
    let state = shared_state(&home);
    // With correct permissions it is used.
    let shared = home.path().join("shared");
    let mut daemon = DaemonProcess::start_with(
        &home,
        &["--listen", "off"],
        &[("XDG_STATE_HOME", shared.to_str().unwrap())],
    );
    daemon.signal(Signal::TERM);
    assert!(daemon.ended(TEST_TIMEOUT).success());
    assert!(with_state(&home, &["allow", "--list"]).status.success());
    // No program writes through a link.
    let mine = home.write(".bashrc", "# mine\n");
    fs::remove_dir_all(state.join("logs")).unwrap();
    for (name, target) in
        [("trust", home.workspace()), ("logs", home.path()), ("manifests", home.workspace())]
    {
        let _ = fs::remove_dir_all(state.join(name));
        symlink(target, state.join(name)).unwrap();
        is_refused(&home, &format!("{name}` is a link"));
        fs::remove_file(state.join(name)).unwrap();
    }
    assert_eq!(fs::read_to_string(mine).unwrap(), "# mine\n");
    for (path, mode, why) in [
        (state.clone(), 0o755, "chmod 700"),
        (state.clone(), 0o710, "chmod 700"),
        (shared.clone(), 0o777, "everybody can write it"),
        (home.path(), 0o777, "everybody can write it"),
    ] {
        let before = path.metadata().unwrap().permissions();
        set_mode(&path, mode);
        is_refused(&home, why);
        fs::set_permissions(&path, before).unwrap();
    }
    fs::create_dir_all(state.join("secrets")).unwrap();
    set_mode(&state.join("secrets"), 0o777);
    is_refused(&home, "chmod 700");
    // A folder that an earlier version left readable is closed: others could not reach it through its parent.
    let group_is_own = home.path().metadata().is_ok_and(|meta| meta.uid() == meta.gid());
    for mode in [Some(0o755), group_is_own.then_some(0o775)].into_iter().flatten() {
        set_mode(&state.join("secrets"), mode);
        assert!(with_state(&home, &["allow", "--list"]).status.success(), "{mode:o}");
        assert_eq!(state.join("secrets").metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }
    fs::remove_dir_all(state.join("secrets")).unwrap();
    // The state folder itself as a link, or owned by another user.
    let away = home.path().join("away");
    fs::rename(&state, &away).unwrap();
    symlink(&away, &state).unwrap();
    is_refused(&home, "switchboard` is a link");
    fs::remove_file(&state).unwrap();
    fs::rename(&away, &state).unwrap();
    assert!(with_state(&home, &["allow", "--list"]).status.success());
    if can_be_others() {
        give_away(&state);
        is_refused(&home, "belongs to another user");
        chown(&state, Some(0), Some(0)).unwrap();
        is_refused(&home, "shared/switchboard/configs` belongs to another user");
    }
}

#[test]
fn a_linked_data_folder_refuses_only_the_children_that_use_it() {
    let home = Home::new();
    let state = home.state_folder();
    let evil = &bins().evil_child;
    // Its name makes it a package runner.
    let npx = home.path().join("bin/npx");
    fs::create_dir_all(npx.parent().unwrap()).unwrap();
    fs::write(&npx, format!("#!/bin/sh\nexec {} echo\n", evil.display())).unwrap();
    set_mode(&npx, 0o755);
    let mut runner = home.entry(&npx, &["-y", "a-server"], &[]);
    runner["cwd"] = json!(home.workspace());
    let stores = home.entry(evil, &["echo"], &[("STORE", "${PLUGIN_DATA}")]);
    for (name, entry) in [("runner", runner), ("stores", stores)] {
        home.definition(name, &json!({"mcpServers": {name: entry}}).to_string());
    }
    home.child("other", &["echo"]);
    let away = home.path().join("away");
    fs::create_dir_all(&away).unwrap();
    set_mode(&away, 0o700);
    fs::create_dir_all(&state).unwrap();
    set_mode(&state, 0o700);
    for name in ["data", "runners"] {
        symlink(&away, state.join(name)).unwrap();
    }
    let _daemon = home.daemon();
    let mut shim = home.shim();
    shim.pid_of("other");
    for (child, name) in [("stores", "data"), ("runner", "runners")] {
        let refused = shim.call(child, "where", "{}");
        assert!(refused.contains(&format!("{name}` is a link")), "{child}: {refused}");
    }
    assert_eq!(fs::read_dir(&away).unwrap().count(), 0);
    for (child, name) in [("stores", "data"), ("runner", "runners")] {
        fs::remove_file(state.join(name)).unwrap();
        home.run_ok(&["restart", child]);
        shim.pid_of(child);
        assert_eq!(
            state.join(name).symlink_metadata().unwrap().permissions().mode() & 0o777,
            0o700,
            "{name}"
        );
    }
}

#[test]
fn a_log_or_a_lock_that_is_a_link_is_not_written_through() {
    let home = Home::new();
    let mine = home.write(".bashrc", "# mine\n");
    for name in ["logs/switchboardd.log", "savings.lock", "trust/lock", "trust/audit.log"] {
        let file = home.state_folder().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        symlink(&mine, &file).unwrap();
    }
    for folder in ["", "logs", "trust"] {
        set_mode(&home.state_folder().join(folder), 0o700);
    }
    drop(home.shim());
    home.command(&["allow"]);
    home.run_ok(&["stop"]);
    assert_eq!(fs::read_to_string(mine).unwrap(), "# mine\n");
}

#[test]
fn a_daemon_from_a_project_folder_is_not_run() {
    let home = Home::new();
    // A shim without a daemon next to it.
    let alone = home.path().join("alone/switchboard");
    let good = home.path().join("good");
    let planted = home.workspace().join("node_modules/.bin");
    let open = home.path().join("open");
    for folder in [alone.parent().unwrap(), &good, &planted, &open, &home.workspace().join("bin")] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::copy(&bins().switchboard, &alone).unwrap();
    let marker = home.path().join("planted");
    for folder in [&planted, &open, &home.workspace().join("bin")] {
        for name in ["switchboardd", "switchboard-ctl"] {
            let program = folder.join(name);
            fs::write(&program, format!("#!/bin/sh\ntouch {}\n", marker.display())).unwrap();
            set_mode(&program, 0o755);
        }
    }
    set_mode(&open, 0o777);
    let path = |more: &str| {
        let work = home.workspace().display().to_string();
        format!(
            "{work}/node_modules/.bin:{work}/bin:node_modules/.bin:bin::.:{}:{more}/usr/bin:/bin",
            open.display()
        )
    };
    let run = |args: &[&str], path: &str| {
        let mut process = Command::new(&alone)
            .args(args)
            .env_clear()
            .envs(home.environment())
            .env("SWITCHBOARD_SOCKET", home.socket())
            .env("PATH", path)
            .current_dir(home.workspace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = process.stdin.take().unwrap();
        let _ = writeln!(stdin, r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{INITIALIZE}}}"#);
        drop(stdin);
        process.wait_with_output().unwrap()
    };
    for args in [&[][..], &["status"]] {
        let output = run(args, &path(""));
        assert!(!marker.exists(), "{args:?}: {output:?}");
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(said.contains("is not used"), "{args:?}: {said}");
    }
    // The last folder on the PATH has an acceptable one.
    bins().copy_to(&good);
    let path = path(&format!("{}:", good.display()));
    let output = run(&[], &path);
    assert!(String::from_utf8_lossy(&output.stdout).contains("serverInfo"), "{output:?}");
    assert!(!marker.exists());
    assert!(until("the daemon to stop", TEST_TIMEOUT, || run(&["stop"], &path).status.code()) == 0);
}
