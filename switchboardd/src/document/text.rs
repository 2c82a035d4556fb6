//! The text of a file that somebody else may have put there.

use std::path::Path;

use crate::files::regular;
pub use crate::files::regular::Unreadable;

const MAX_BYTES: u64 = 1024 * 1024;

/// The text of a file that somebody else may have put there: a regular one, of a sane size, and none that
/// leads out of `within`. Never waits, whatever stands there under that name.
pub fn read_text(file: &Path, within: Option<&Path>) -> Result<String, Unreadable> {
    regular::read_text(file, MAX_BYTES, within)
}
