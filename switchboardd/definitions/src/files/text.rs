//! Reads a text file that belongs to another program of the same user.

use std::path::Path;

use super::regular::{self, ReadTextError};

/// Hosts store histories in their settings files; none is longer.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The text; `None` if there is no such file. Never blocks, whatever kind of file it is.
pub fn read_text(file: &Path) -> Result<Option<String>, String> {
    match regular::read_text(file, MAX_BYTES, None) {
        Ok(text) => Ok(Some(text)),
        Err(ReadTextError::Absent) => Ok(None),
        Err(ReadTextError::Refused(why)) => Err(why),
    }
}
