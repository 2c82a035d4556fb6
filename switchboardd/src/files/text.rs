//! The text of a file that belongs to another program of the same person.

use std::path::Path;

use super::regular::{self, Unreadable};

/// Hosts keep histories beside their settings; none is longer.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The text; `None` if there is no such file. Never waits, whatever stands there under that name.
pub fn read_text(file: &Path) -> Result<Option<String>, String> {
    match regular::read_text(file, MAX_BYTES, None) {
        Ok(text) => Ok(Some(text)),
        Err(Unreadable::Absent) => Ok(None),
        Err(Unreadable::Refused(why)) => Err(why),
    }
}
