//! Which tools of a server were ever listed as writing, or not listed as read-only. Such a tool does not count as
//! read-only when the server says so later.

use std::collections::HashSet;
use std::sync::Mutex;

use super::Pool;
use crate::child::ToolList;

/// More names than any server has; beyond it, no tool counts as read-only.
const MAX_NAMES: usize = 16 * 1024;

#[derive(Debug, Default)]
pub(super) struct SeenWriting {
    // A leaf lock: held for a lookup or inserts.
    names: Mutex<HashSet<Box<str>>>,
}

impl SeenWriting {
    pub(super) fn note(&self, list: &ToolList) {
        let mut names = self.names.lock().expect("BUG: bookkeeping panicked");
        for tool in list.tools.iter().filter(|tool| tool.annotations.read_only != Some(true)) {
            if names.len() > MAX_NAMES {
                return;
            }
            names.insert(tool.name.clone());
        }
    }
}

impl Pool {
    /// Whether this server ever listed the tool without saying that it only reads: in its last manifest, or since
    /// the daemon runs.
    pub fn has_seen_writing(&self, tool: &str) -> bool {
        let names = self.seen_writing.names.lock().expect("BUG: bookkeeping panicked");
        names.len() > MAX_NAMES || names.contains(tool)
    }
}
