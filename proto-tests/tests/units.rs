//! The units that packages and `switchboard service install` install, checked by systemd itself.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use proto_tests::{Home, bins};

const UNITS: [&str; 2] = ["switchboardd.service", "switchboardd.socket"];

/// `None` without systemd, which is an error in CI.
fn verify(folder: &Path) -> Option<Output> {
    let verified = Command::new("systemd-analyze")
        .args(["verify", "--user", "--man=no"])
        .args(UNITS.map(|unit| folder.join(unit)))
        .env("XDG_RUNTIME_DIR", folder)
        .output();
    match verified {
        Ok(output) => Some(output),
        Err(error) => {
            let in_ci = std::env::var("CI").is_ok_and(|ci| !["", "0", "false"].contains(&&*ci));
            assert!(!in_ci, "systemd-analyze: {error}");
            eprintln!("skipped: no systemd-analyze ({error})");
            None
        }
    }
}

#[test]
fn systemd_accepts_the_units() {
    let home = Home::new();
    let folder = home.workspace();
    let deploy = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/systemd"));
    for unit in UNITS {
        let text = fs::read_to_string(deploy.join(unit)).unwrap();
        let text = text.replace("/usr/bin/switchboardd", bins().switchboardd.to_str().unwrap());
        fs::write(folder.join(unit), text).unwrap();
    }
    let Some(output) = verify(&folder) else { return };
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    // The check can fail: systemd reports a wrong key.
    let service = folder.join(UNITS[0]);
    let text = fs::read_to_string(&service).unwrap();
    fs::write(&service, text.replace("WatchdogSec=30", "WatchdogSeconds=30")).unwrap();
    assert!(String::from_utf8_lossy(&verify(&folder).unwrap().stderr).contains("WatchdogSeconds"));
}
