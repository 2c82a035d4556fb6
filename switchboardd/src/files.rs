//! Files: those that are private to their owner, and how many may be open.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
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
