//! Runs one command on a terminal of its own, with script(1), which every Linux has.
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use crate::bins::bins;
use crate::home::Home;
use crate::wait::{TEST_TIMEOUT, until};

pub struct Terminal {
    script: Child,
    keys: Option<ChildStdin>,
    bytes: Receiver<u8>,
    shown: Vec<u8>,
}

/// What the terminal showed, and the exit code.
#[derive(Debug)]
pub struct Screen {
    pub text: String,
    pub code: Option<i32>,
}

impl Terminal {
    /// Runs `switchboard ARGS` as a user types it in this directory.
    #[track_caller]
    pub fn start(home: &Home, folder: &Path, args: &[&str], env: &[(&str, &str)]) -> Self {
        let words = std::iter::once(bins().switchboard.to_str().unwrap()).chain(args.iter().copied());
        let line: Vec<_> = words.map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
        let mut script = Command::new("script")
            .args(["--quiet", "--return", "--command", &line.join(" "), "/dev/null"])
            .env_clear()
            .envs(home.environment())
            .env("SWITCHBOARD_SOCKET", home.socket())
            .envs(env.iter().copied())
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script(1)");
        let (keys, mut output) = (script.stdin.take(), script.stdout.take().unwrap());
        let (sender, bytes) = channel();
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut chunk) {
                if chunk[..read].iter().any(|byte| sender.send(*byte).is_err()) {
                    return;
                }
            }
        });
        Self { script, keys, bytes, shown: Vec::new() }
    }

    /// Reads until this is shown; false if the command ends before that.
    #[track_caller]
    pub fn shows(&mut self, part: &str) -> bool {
        let end = Instant::now() + TEST_TIMEOUT;
        loop {
            match self.bytes.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(byte) => self.shown.push(byte),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return false,
                Err(_) => panic!("no {part:?}: {}", String::from_utf8_lossy(&self.shown)),
            }
            if self.shown.ends_with(part.as_bytes()) {
                return true;
            }
        }
    }

    pub fn type_in(&mut self, keys: &str) {
        let stdin = self.keys.as_mut().unwrap();
        stdin.write_all(keys.as_bytes()).and_then(|()| stdin.flush()).unwrap();
    }

    /// Answers every question with the same keys.
    #[track_caller]
    pub fn answer_all(mut self, keys: &str) -> Screen {
        while self.shows("[y/N] ") {
            self.type_in(keys);
        }
        self.end()
    }

    /// Waits until the command ends.
    #[track_caller]
    pub fn end(mut self) -> Screen {
        let until_then = Instant::now() + TEST_TIMEOUT;
        let left = || until_then.saturating_duration_since(Instant::now());
        while let Ok(byte) = self.bytes.recv_timeout(left()) {
            self.shown.push(byte);
        }
        let text = String::from_utf8_lossy(&self.shown).replace("\r\n", "\n");
        let status = until(&format!("the end of {text}"), TEST_TIMEOUT, || self.script.try_wait().unwrap());
        Screen { text, code: status.code() }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}
