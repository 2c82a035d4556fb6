//! Replaces a file that a running program may write at the same time: atomically, and without losing what
//! that program wrote.

use std::ffi::OsString;
use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{Access, CWD, RenameFlags, access, renameat_with};
use rustix::process::{Pid, geteuid, test_kill_process};
use switchboard_definitions::document::Problem;
use switchboard_definitions::files::text::read_text;

use super::HostFileError;

/// A program that writes in between this often is busy.
const MAX_ATTEMPTS: usize = 100;
/// How long a file that cannot be parsed may still be in the middle of a write.
const INCOMPLETE_GRACE: Duration = Duration::from_millis(60);
/// Time between two reads of a file that is being written: many times what a save takes.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// A file written longer ago than this is not being written now.
const RECENT_WRITE: Duration = Duration::from_secs(1);
const BUSY_TEXT: &str = "is written by another program all the time; close that one and try again";
const TEMP_PREFIX: &str = ".switchboard-";

/// What to do with a file.
#[derive(Debug)]
pub enum Edit {
    Keep,
    Write(String),
    Delete,
}

/// What was done with it.
#[derive(Debug, PartialEq, Eq)]
pub enum SwapOutcome {
    Kept,
    Written,
    Deleted,
}

/// Passes the text (`None`: no file) to `edit` and applies the result; starts over if another program wrote
/// in between. Before each try, `about_to` gets the old and the new text.
pub fn swap(
    path: &Path,
    mut edit: impl FnMut(Option<&str>) -> Result<Edit, HostFileError>,
    mut about_to: impl FnMut(Option<&str>, Option<&str>) -> io::Result<()>,
) -> Result<SwapOutcome, Problem> {
    let real = real_path(path).map_err(|why| Problem::of(path, why))?;
    let unwritten = |error: io::Error| Problem::of(path, format!("cannot be written: {error}"));
    let look = || read_text(&real).map_err(|why| Problem::of(path, why));
    let settled =
        |known: FileIdentity, had_text| settled(&real, known, had_text).map_err(|why| Problem::of(path, why));
    let first = which(&real);
    let (mut known, mut stands) = if is_fresh(&real) { settled(first, false)? } else { (first, look()?) };
    for _ in 0..MAX_ATTEMPTS {
        let had_text = has_text(stands.as_deref());
        let wanted = match edit(stands.as_deref()) {
            Ok(Edit::Keep) => return Ok(SwapOutcome::Kept),
            Ok(Edit::Write(text)) => Some(text),
            Ok(Edit::Delete) => None,
            Err(refusal) => {
                std::thread::sleep(INCOMPLETE_GRACE);
                if look()? == stands {
                    return Err(refusal.of(path));
                }
                (known, stands) = settled(known, had_text)?;
                continue;
            }
        };
        about_to(stands.as_deref(), wanted.as_deref()).map_err(unwritten)?;
        let draft = TempFile::new(&real, wanted.as_deref().unwrap_or_default())
            .map_err(|why| Problem::of(path, why))?;
        let is_done = read_text(&real).as_ref() == Ok(&stands)
            && match (&stands, &wanted) {
                (None, None) => return Ok(SwapOutcome::Kept),
                (Some(stood), Some(wanted)) => draft.exchange(&real, stood, wanted),
                (None, Some(_)) => draft.move_to_empty(&real),
                (Some(stood), None) => draft.take(&real, stood),
            }
            .map_err(unwritten)?;
        if is_done {
            return Ok(if wanted.is_some() { SwapOutcome::Written } else { SwapOutcome::Deleted });
        }
        // Another program writes. We continue with what it will have written.
        (known, stands) = settled(known, had_text)?;
    }
    Err(Problem::of(path, BUSY_TEXT))
}

/// The text once no program is in the middle of writing it. Hosts truncate a file and fill it again: one that
/// had text must have some again, and two reads must agree. A file that replaces another is complete at once.
fn settled(
    real: &Path,
    known: FileIdentity,
    had_text: bool,
) -> Result<(FileIdentity, Option<String>), String> {
    let look = || (which(real), read_text(real));
    let mut last = (known, Ok(None));
    for round in 0..MAX_ATTEMPTS {
        let now = look();
        let (is_same, is_other) = (round > 0 && now == last, now.0 != last.0);
        let is_fit = match &now.1 {
            Ok(text) => (is_same || is_other) && (!had_text || has_text(text.as_deref())),
            Err(_) => is_same,
        };
        if is_fit {
            return now.1.map(|text| (now.0, text));
        }
        last = now;
        std::thread::sleep(RETRY_INTERVAL);
    }
    match had_text && !has_text(last.1.ok().flatten().as_deref()) {
        true => Err("was just emptied by another program; look at it and try again".to_owned()),
        false => Err(BUSY_TEXT.to_owned()),
    }
}

fn has_text(text: Option<&str>) -> bool {
    text.is_some_and(|text| !text.trim().is_empty())
}

/// Identifies a file: by its inode and, because inodes are reused, its creation time.
type FileIdentity = Option<(u64, Option<SystemTime>)>;

fn which(real: &Path) -> FileIdentity {
    real.metadata().ok().map(|meta| (meta.ino(), meta.created().ok()))
}

fn is_fresh(real: &Path) -> bool {
    let written = real.metadata().and_then(|meta| meta.modified());
    written.is_ok_and(|written| written.elapsed().is_ok_and(|since| since < RECENT_WRITE))
}

/// Follows a symlink to its target.
fn real_path(path: &Path) -> Result<PathBuf, String> {
    if !path.is_symlink() {
        return Ok(path.to_owned());
    }
    path.canonicalize().map_err(|_| "is a link that leads nowhere".to_owned())
}

/// The next version of a file, in the same folder; removed on drop.
struct TempFile {
    path: PathBuf,
    /// It holds a host's text that could not be put back.
    is_left: bool,
}

impl TempFile {
    fn new(real: &Path, text: &str) -> Result<Self, String> {
        let failed = |error: io::Error| format!("cannot be written: {error}");
        let meta = real.metadata().ok();
        let uid = geteuid();
        if let Some(meta) = &meta {
            if !uid.is_root() && meta.uid() != uid.as_raw() {
                return Err(format!("belongs to another user (uid {})", meta.uid()));
            }
            if meta.nlink() > 1 {
                return Err(
                    "has another name as well (a hard link), which would keep the old text".to_owned()
                );
            }
            // Replacing it would work, but whoever made it read-only does not want that.
            if access(real, Access::WRITE_OK).is_err() {
                return Err(format!("is read-only; `chmod u+w '{}'` opens it", real.display()));
            }
        }
        let path = draft_path(real, std::process::id());
        sweep(real);
        let _ = std::fs::remove_file(&path);
        let mut file =
            OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path).map_err(failed)?;
        let draft = Self { path, is_left: false };
        if let Some(meta) = &meta {
            if uid.is_root() {
                std::os::unix::fs::fchown(&file, Some(meta.uid()), Some(meta.gid())).map_err(failed)?;
            } else if meta.gid() != rustix::process::getegid().as_raw() {
                // Fails if we are not in that group.
                let _ = std::os::unix::fs::fchown(&file, None, Some(meta.gid()));
            }
            file.set_permissions(Permissions::from_mode(meta.mode() & 0o7777)).map_err(failed)?;
        }
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        Ok(draft)
    }

    /// Exchanges both files atomically. False, with everything as before, if the text had changed meanwhile.
    fn exchange(self, real: &Path, stood: &str, wanted: &str) -> io::Result<bool> {
        let is_there =
            |path: &Path, text: &str| read_text(path).is_ok_and(|now| now.as_deref() == Some(text));
        match renameat_with(CWD, &self.path, CWD, real, RenameFlags::EXCHANGE) {
            Ok(()) if is_there(&self.path, stood) => Ok(true),
            Ok(()) => self.give_back(real, wanted).map(|()| false),
            // Not every file system supports it; then a race between check and rename remains.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
                Ok(is_there(real, stood) && std::fs::rename(&self.path, real).map(|()| true)?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Puts the host's file back: it is newer than ours, and the host may still write into it. Repeats if an
    /// even newer one appeared meanwhile.
    fn give_back(self, real: &Path, placed: &str) -> io::Result<()> {
        let mut placed = Ok(Some(placed.to_owned()));
        for _ in 0..MAX_ATTEMPTS {
            let theirs = read_text(&self.path);
            if let Err(error) = renameat_with(CWD, &self.path, CWD, real, RenameFlags::EXCHANGE) {
                return Err(self.keep_aside(&error.into()));
            }
            if read_text(&self.path) == placed {
                return Ok(());
            }
            placed = theirs;
        }
        Err(self.keep_aside(&io::Error::other("another program writes it all the time")))
    }

    /// Keeps a host's file that cannot be put back, under a name that `sweep` does not remove.
    fn keep_aside(mut self, error: &io::Error) -> io::Error {
        let kept = self.path.with_extension("kept");
        let kept = if std::fs::rename(&self.path, &kept).is_ok() { kept } else { self.path.clone() };
        self.is_left = true;
        io::Error::other(format!("{error}; what the editor wrote last is in `{}`", kept.display()))
    }

    /// Creates the file; false if there is one by now.
    fn move_to_empty(self, real: &Path) -> io::Result<bool> {
        match std::fs::hard_link(&self.path, real) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            // Not every file system has hard links.
            Err(_) => std::fs::rename(&self.path, real).map(|()| true),
        }
    }

    /// Removes the file; false, and the file is back, if its text had changed meanwhile.
    fn take(self, real: &Path, stood: &str) -> io::Result<bool> {
        std::fs::rename(real, &self.path)?;
        if read_text(&self.path).is_ok_and(|taken| taken.as_deref() == Some(stood)) {
            return Ok(true);
        }
        match std::fs::hard_link(&self.path, real) {
            Ok(()) => Ok(false),
            // A newer file exists.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(_) => match std::fs::rename(&self.path, real) {
                Ok(()) => Ok(false),
                Err(error) => Err(self.keep_aside(&error)),
            },
        }
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.is_left {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn draft_path(real: &Path, pid: u32) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(real.file_name().unwrap_or_default());
    name.push(format!("{TEMP_PREFIX}{pid}"));
    real.with_file_name(name)
}

/// Removes drafts of processes that were killed.
fn sweep(real: &Path) {
    let Some(folder) = real.parent().and_then(|folder| std::fs::read_dir(folder).ok()) else { return };
    let own = draft_path(real, 0);
    let stem = own
        .file_name()
        .map(|name| name.to_string_lossy().trim_end_matches('0').to_owned())
        .unwrap_or_default();
    for entry in folder.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(&stem)).and_then(|pid| pid.parse().ok());
        let is_dead = |pid: i32| {
            Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
        };
        if pid.is_some_and(is_dead) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
