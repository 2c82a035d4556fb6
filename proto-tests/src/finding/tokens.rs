//! Counts tokens with the program that the daemon uses for it.
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::io::Write;
use std::process::{Command, Stdio};

use crate::bins::bins;

/// The number of tokens of each text.
pub fn count(texts: &[&str]) -> Vec<usize> {
    let mut process = Command::new(&bins().switchboard_ctl)
        .arg("--count-tokens")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("switchboard-ctl");
    let mut stdin = process.stdin.take().unwrap();
    for text in texts {
        writeln!(stdin, "{}", serde_json::to_string(text).unwrap()).unwrap();
    }
    drop(stdin);
    let output = process.wait_with_output().unwrap();
    let counts: Vec<usize> =
        String::from_utf8_lossy(&output.stdout).lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(counts.len(), texts.len(), "{}", output.status);
    counts
}
