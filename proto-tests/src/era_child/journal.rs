//! Records the child's input for tests: every line received is appended to the file that `ERA_JOURNAL` names.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::Mutex;

const JOURNAL: &str = "ERA_JOURNAL";

pub(crate) struct Journal(Option<Mutex<File>>);

impl Journal {
    pub(super) fn from_environment() -> Self {
        Self(std::env::var_os(JOURNAL).map(|path| {
            Mutex::new(OpenOptions::new().create(true).append(true).open(path).expect("a journal to write"))
        }))
    }

    pub(super) fn note(&self, line: &[u8]) {
        if let Some(file) = &self.0 {
            let line = [line.trim_ascii_end(), b"\n"].concat();
            file.lock().unwrap().write_all(&line).expect("a journal to write");
        }
    }
}
