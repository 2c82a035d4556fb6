//! Files that are private to their owner.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes a private file whole or not at all.
pub fn replace(path: &Path, body: &[u8]) -> io::Result<()> {
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}-{}", std::process::id(), DRAFTS.fetch_add(1, Ordering::Relaxed)));
    let draft = Path::new(&name);
    let _ = std::fs::remove_file(draft);
    let written =
        OpenOptions::new().create_new(true).write(true).mode(0o600).open(draft).and_then(|mut file| {
            file.write_all(body)?;
            file.sync_all()
        });
    let written = written.and_then(|()| std::fs::rename(draft, path));
    if written.is_err() {
        let _ = std::fs::remove_file(draft);
    }
    written
}
