//! `switchboard service` where no service manager can be reached; `interop/service.sh` tests with one.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]
#![cfg(target_os = "linux")]

use std::fs;
use std::process::{Command, Output, Stdio};

use proto_tests::activator::installed;
use proto_tests::{Home, bins};
use serde_json::Value;

/// Runs a command with a runtime directory that has no manager in it, never that of the user who runs the
/// tests.
fn switchboard(home: &Home, args: &[&str]) -> Output {
    let program = installed(home).join("switchboard");
    Command::new(program)
        .args(args)
        .env_clear()
        .envs(home.environment())
        .env("XDG_RUNTIME_DIR", home.workspace())
        .current_dir(home.workspace())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn without_a_manager_install_fails_and_writes_nothing() {
    let home = Home::new();
    let removed = switchboard(&home, &["service", "remove"]);
    assert!(removed.status.success(), "nothing to do is no error: {removed:?}");
    let output = switchboard(&home, &["service", "install"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    for part in ["systemd does not answer for this user", "the first editor starts the daemon", "wsl.conf"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(said.contains("\n  You do not need it") && !said.contains(r"\u{a}"), "{said}");
    let output = switchboard(&home, &["service", "install", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(json(&output)["error"].as_str().unwrap().contains("systemd does not answer"), "{output:?}");
    let said = String::from_utf8(switchboard(&home, &["service", "status"]).stdout).unwrap();
    assert!(said.contains("\n  You do not need it") && !said.contains(r"\u{a}"), "{said}");
    let output = switchboard(&home, &["service", "status", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let status = json(&output);
    assert_eq!((&status["reachable"], &status["installed"]), (&false.into(), &false.into()), "{status}");
    assert!(status["version"].is_null() && status["pid"].is_null(), "{status}");
    assert!(!home.path().join(".config/systemd").exists());
}

#[test]
fn leftover_units_are_removed_even_without_a_manager() {
    let home = Home::new();
    let ours = home.write(
        ".config/systemd/user/switchboardd.socket",
        "# Written by `switchboard service install` 0.1.0; `switchboard service remove` deletes it.\n[Socket]\n",
    );
    let theirs = home.write(".config/systemd/user/switchboardd.service", "[Service]\nExecStart=/bin/true\n");
    let output = switchboard(&home, &["service", "remove", "--dry-run"]);
    assert!(output.status.success() && ours.exists(), "{output:?}");
    let output = switchboard(&home, &["service", "remove"]);
    assert!(output.status.success(), "{output:?}");
    assert!(!ours.exists() && theirs.exists(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("left ") && said.contains("switchboardd.service"), "{said}");
}

#[test]
fn invalid_services_are_refused() {
    let home = Home::new();
    let output = switchboard(&home, &["service", "install", "--socket", "/tmp/elsewhere"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--socket"), "{output:?}");
    let output = Command::new(&bins().switchboardd)
        .args(["service", "install", "--dry-run"])
        .env_clear()
        .envs(home.environment())
        .env("XDG_RUNTIME_DIR", home.workspace())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("is in a build folder"), "{output:?}");
    assert!(!home.path().join(".config/systemd").exists());
    assert_eq!(switchboard(&home, &["service"]).status.code(), Some(2));
    assert!(fs::read_dir(home.state_folder()).is_err(), "a refusal leaves nothing behind");
}
