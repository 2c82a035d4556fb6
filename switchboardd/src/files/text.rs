//! The text of a file that belongs to another program of the same person.

use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::event_loop::may_block;

/// Hosts keep histories beside their settings; none is longer.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The text; `None` if there is no such file. Never waits, whatever stands there under that name.
pub fn read_text(file: &Path) -> Result<Option<String>, String> {
    may_block();
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let opened = match std::fs::OpenOptions::new().read(true).custom_flags(flags).open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound && file.is_symlink() => {
            return Err("is a link that leads nowhere".to_owned());
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    let failed = |error: io::Error| format!("cannot be read: {error}");
    if !opened.metadata().map_err(failed)?.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let mut body = Vec::new();
    opened.take(MAX_BYTES + 1).read_to_end(&mut body).map_err(failed)?;
    if body.len() as u64 > MAX_BYTES {
        return Err(format!("is over {} MiB", MAX_BYTES >> 20));
    }
    String::from_utf8(body).map(Some).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..good].iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("is not UTF-8, in line {line}")
    })
}
