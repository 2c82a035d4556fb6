//! Files: those that are private to their owner, and how many may be open.

pub mod private;
pub mod text;

use std::fs::{Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Where there is no hard limit: more than we use, less than any system refuses.
const PLENTY: u64 = 10_240;

static SOFT_LIMIT: OnceLock<Option<u64>> = OnceLock::new();

/// Lifts the soft limit of open files to the hard one: connections and pipes are what this process is made of.
pub fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    SOFT_LIMIT.get_or_init(|| current);
    let wanted = maximum.unwrap_or(PLENTY);
    if current.is_some_and(|current| current < wanted)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })
    {
        tracing::warn!(target: "daemon", "the limit of open files stays where it is: {error}");
    }
}

/// The soft limit of open files that this process was started with, for its children: some programs walk
/// through all numbers below it, some use `select`. `None` if it was not changed.
pub fn soft_limit_before() -> Option<u64> {
    SOFT_LIMIT.get().copied().flatten()
}

/// Back to what this process was started with, for another that takes its place.
pub fn lower_limit() {
    if let Some(before) = soft_limit_before() {
        let maximum = getrlimit(Resource::Nofile).maximum;
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(before), maximum });
    }
}

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

/// Whether nobody but its owner, who is us or root, can write it; else why not. The group that is our
/// own, which nobody else is in, counts as us.
pub fn is_ours_alone(meta: &Metadata) -> Result<(), String> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if meta.uid() != uid && meta.uid() != 0 {
        return Err(format!("it belongs to another user (uid {})", meta.uid()));
    }
    // In a folder like /tmp others may add, and may not touch what is there.
    let is_sticky = meta.is_dir() && meta.mode() & 0o1000 != 0;
    if meta.mode() & 0o002 != 0 && !is_sticky {
        return Err("everybody can write it; `chmod o-w` mends that".to_owned());
    }
    // A group of one's own has the number of its user; with a list of others it shows as the group's, too.
    let is_private = meta.gid() == gid && gid == uid;
    if meta.mode() & 0o020 != 0 && !is_private && !is_sticky {
        return Err(format!("a group can write it (gid {}); `chmod g-w` mends that", meta.gid()));
    }
    Ok(())
}

/// Whether a list of its own says who else may do what with a file.
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
    fn a_draft_that_cannot_be_finished_is_no_litter() {
        let folder = tempfile::tempdir().unwrap();
        // A folder in the way: the draft is written and cannot be moved over it.
        std::fs::create_dir_all(folder.path().join("token/x")).unwrap();
        assert!(replace(&folder.path().join("token"), b"t").is_err());
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}
