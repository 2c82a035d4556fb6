//! Reads a file that may come from an untrusted source.

use std::path::Path;

use crate::files::regular;
pub use crate::files::regular::ReadTextError;

const MAX_BYTES: u64 = 1024 * 1024;

/// Reads a file that may come from an untrusted source. It must be regular, of a sane size, and its real path
/// must be inside `within`. Never blocks, whatever kind of file it is.
pub fn read_text(file: &Path, within: Option<&Path>) -> Result<String, ReadTextError> {
    regular::read_text(file, MAX_BYTES, within)
}
