//! Writing and checking private files, and the limit of open files.

pub mod private;
pub mod regular;
pub mod state;
pub mod text;

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::OFlags;
pub use switchboard_wire::folder::is_ours_alone;
use switchboard_wire::open_files;

/// Raises the soft limit of open files to the hard limit: the daemon holds many connections and pipes.
pub fn raise_limit() {
    if let Err(error) = open_files::raise() {
        tracing::warn!(target: "daemon", "the limit of open files stays where it is: {error}");
    }
}

/// The soft limit of open files that this process was started with, for its children: some programs loop over
/// all descriptors below it, some use `select`. `None` if it was not changed.
pub fn soft_limit_before() -> Option<u64> {
    open_files::before()
}

/// Restores the limit that this process was started with, for a successor that replaces it.
pub fn lower_limit() {
    if let Some(before) = soft_limit_before() {
        open_files::set(before);
    }
}

/// Replaces a private file atomically.
pub fn replace(path: &Path, body: &[u8]) -> io::Result<()> {
    static TEMP_FILE_COUNT: AtomicU64 = AtomicU64::new(0);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}-{}", std::process::id(), TEMP_FILE_COUNT.fetch_add(1, Ordering::Relaxed)));
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

/// Opens our own private file for writing (a lock, or a log to append to) without following links.
pub fn open_own(file: &Path, append: bool) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut open = OpenOptions::new();
    open.create(true).truncate(false).append(append).write(true).mode(0o600);
    let opened = open.custom_flags(flags.bits().cast_signed()).open(file)?;
    if !opened.metadata()?.is_file() {
        return Err(io::Error::other(format!("`{}` is not a regular file", file.display())));
    }
    Ok(opened)
}

/// How another user could write a file or replace it. Results for folders are cached in `folders`. `real` is
/// the file's real path.
pub fn others_can_write(real: &Path, folders: &mut HashMap<PathBuf, Option<String>>) -> Option<String> {
    let how = |path: &Path| match std::fs::metadata(path) {
        Ok(meta) if meta.mode() & 0o020 != 0 && !meta.is_dir() && has_access_list(path) => {
            Some(describe_path_error(path, &"others can write it by an access list (`getfacl`)"))
        }
        Ok(meta) => is_ours_alone(&meta).err().map(|why| describe_path_error(path, &why)),
        Err(error) => Some(describe_path_error(path, &error)),
    };
    how(real).or_else(|| {
        real.ancestors().skip(1).find_map(|folder| match folders.get(folder) {
            Some(known) => known.clone(),
            None => folders.entry(folder.to_owned()).or_insert_with(|| how(folder)).clone(),
        })
    })
}

/// Formats a path with a message about it.
pub fn describe_path_error(path: &Path, why: &dyn std::fmt::Display) -> String {
    format!("`{}`: {why}", path.display())
}

/// Whether the file has a POSIX access list.
#[cfg(target_os = "linux")]
pub fn has_access_list(path: &Path) -> bool {
    rustix::fs::getxattr(path, "system.posix_acl_access", &mut [0_u8; 0][..]).is_ok_and(|length| length > 0)
}

#[cfg(not(target_os = "linux"))]
pub fn has_access_list(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_replacement_leaves_no_draft() {
        let folder = tempfile::tempdir().unwrap();
        // A folder in the way: the draft is written and cannot be renamed over it.
        std::fs::create_dir_all(folder.path().join("token/x")).unwrap();
        assert!(replace(&folder.path().join("token"), b"t").is_err());
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}
