//! Replacing a file that a running program may write at the same moment: whole or not at all, and nothing that the other
//! one wrote is lost.

use std::ffi::OsString;
use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{Access, CWD, RenameFlags, access, renameat_with};
use rustix::process::{Pid, geteuid, test_kill_process};

use super::Refusal;
use crate::document::Problem;
use crate::files::text::read_text;

/// Who writes in between that often is busy with something.
const TRIES: usize = 100;
/// How long a file that makes no sense may be one that is just being written.
const INCOMPLETE_GRACE: Duration = Duration::from_millis(60);
/// Between two looks at a file that somebody writes: many times what a save takes from its first byte to its last.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// What was written longer ago than this is not being written now.
const RECENT_WRITE: Duration = Duration::from_secs(1);
const BUSY: &str = "is written by another program all the time; close that one and try again";
const DRAFT: &str = ".switchboard-";

/// What is to become of a file.
#[derive(Debug)]
pub enum Edit {
    Keep,
    Write(String),
    /// It goes.
    Delete,
}

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Swapped {
    Kept,
    Written,
    Deleted,
}

/// Has `edit` look at the text (`None`: there is no file) and does what it says, again until nobody wrote in between.
/// `about_to` is told before each try what stands there and what will.
pub fn swap(
    path: &Path,
    mut edit: impl FnMut(Option<&str>) -> Result<Edit, Refusal>,
    mut about_to: impl FnMut(Option<&str>, Option<&str>) -> io::Result<()>,
) -> Result<Swapped, Problem> {
    let real = real_path(path).map_err(|why| Problem::of(path, why))?;
    let unwritten = |error: io::Error| Problem::of(path, format!("cannot be written: {error}"));
    let look = || read_text(&real).map_err(|why| Problem::of(path, why));
    let settled =
        |known: Which, had_text| settled(&real, known, had_text).map_err(|why| Problem::of(path, why));
    let first = which(&real);
    let (mut known, mut stands) = if is_fresh(&real) { settled(first, false)? } else { (first, look()?) };
    for _ in 0..TRIES {
        let had_text = has_text(stands.as_deref());
        let wanted = match edit(stands.as_deref()) {
            Ok(Edit::Keep) => return Ok(Swapped::Kept),
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
        let draft =
            Draft::new(&real, wanted.as_deref().unwrap_or_default()).map_err(|why| Problem::of(path, why))?;
        let is_done = read_text(&real).as_ref() == Ok(&stands)
            && match (&stands, &wanted) {
                (None, None) => return Ok(Swapped::Kept),
                (Some(stood), Some(wanted)) => draft.exchange(&real, stood, wanted),
                (None, Some(_)) => draft.place(&real),
                (Some(stood), None) => draft.take(&real, stood),
            }
            .map_err(unwritten)?;
        if is_done {
            return Ok(if wanted.is_some() { Swapped::Written } else { Swapped::Deleted });
        }
        // Somebody writes. What they are going to have written is what we go on from.
        (known, stands) = settled(known, had_text)?;
    }
    Err(Problem::of(path, BUSY))
}

/// The text once nobody is in the midst of writing it. Hosts empty a file and fill it again: one that had text has some
/// again, and two looks at it agree. One that takes another's place is whole at once.
fn settled(real: &Path, known: Which, had_text: bool) -> Result<(Which, Option<String>), String> {
    let look = || (which(real), read_text(real));
    let mut last = (known, Ok(None));
    for round in 0..TRIES {
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
        true => Err("was emptied by another program in this moment; look at it and try again".to_owned()),
        false => Err(BUSY.to_owned()),
    }
}

fn has_text(text: Option<&str>) -> bool {
    text.is_some_and(|text| !text.trim().is_empty())
}

/// Which file it is that stands there; numbers are given out again, so with when it was made.
type Which = Option<(u64, Option<SystemTime>)>;

fn which(real: &Path) -> Which {
    real.metadata().ok().map(|meta| (meta.ino(), meta.created().ok()))
}

fn is_fresh(real: &Path) -> bool {
    let written = real.metadata().and_then(|meta| meta.modified());
    written.is_ok_and(|written| written.elapsed().is_ok_and(|since| since < RECENT_WRITE))
}

/// Behind a link is the file that its person keeps.
fn real_path(path: &Path) -> Result<PathBuf, String> {
    if !path.is_symlink() {
        return Ok(path.to_owned());
    }
    path.canonicalize().map_err(|_| "is a link that leads nowhere".to_owned())
}

/// The next version of a file, beside it; nothing is left of it when it is dropped.
struct Draft {
    path: PathBuf,
    /// It is a host's, and could not go back.
    is_left: bool,
}

impl Draft {
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
                    "has another name as well (a hard link), which would go on with the old text".to_owned()
                );
            }
            // It could be replaced all the same; whoever closed it does not want that.
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
                // A group that is not ours to give away.
                let _ = std::os::unix::fs::fchown(&file, None, Some(meta.gid()));
            }
            file.set_permissions(Permissions::from_mode(meta.mode() & 0o7777)).map_err(failed)?;
        }
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        Ok(draft)
    }

    /// Both change places at once; false, and all is as it was, if by then something else stood there.
    fn exchange(self, real: &Path, stood: &str, wanted: &str) -> io::Result<bool> {
        let is_there =
            |path: &Path, text: &str| read_text(path).is_ok_and(|now| now.as_deref() == Some(text));
        match renameat_with(CWD, &self.path, CWD, real, RenameFlags::EXCHANGE) {
            Ok(()) if is_there(&self.path, stood) => Ok(true),
            Ok(()) => self.give_back(real, wanted).map(|()| false),
            // Not every file system can; then the moment between looking and moving stays.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
                Ok(is_there(real, stood) && std::fs::rename(&self.path, real).map(|()| true)?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What is here is newer than what stands there: its host may still write into it, and must do so in its place. Again
    /// if meanwhile a newer one came.
    fn give_back(self, real: &Path, placed: &str) -> io::Result<()> {
        let mut placed = Ok(Some(placed.to_owned()));
        for _ in 0..TRIES {
            let theirs = read_text(&self.path);
            if let Err(error) = renameat_with(CWD, &self.path, CWD, real, RenameFlags::EXCHANGE) {
                return Err(self.left(&error.into()));
            }
            if read_text(&self.path) == placed {
                return Ok(());
            }
            placed = theirs;
        }
        Err(self.left(&io::Error::other("another program writes it all the time")))
    }

    /// The file of a host that cannot go back to its place: it stays, under a name that nobody clears away.
    fn left(mut self, error: &io::Error) -> io::Error {
        let kept = self.path.with_extension("kept");
        let kept = if std::fs::rename(&self.path, &kept).is_ok() { kept } else { self.path.clone() };
        self.is_left = true;
        io::Error::other(format!("{error}; what its host wrote last is in `{}`", kept.display()))
    }

    /// To where nothing stands; false if something does by now.
    fn place(self, real: &Path) -> io::Result<bool> {
        match std::fs::hard_link(&self.path, real) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            // Not every file system has links.
            Err(_) => std::fs::rename(&self.path, real).map(|()| true),
        }
    }

    /// Takes the file away; false, and it is back, if by then something else was in it.
    fn take(self, real: &Path, stood: &str) -> io::Result<bool> {
        std::fs::rename(real, &self.path)?;
        if read_text(&self.path).is_ok_and(|taken| taken.as_deref() == Some(stood)) {
            return Ok(true);
        }
        match std::fs::hard_link(&self.path, real) {
            Ok(()) => Ok(false),
            // A newer one came.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(_) => match std::fs::rename(&self.path, real) {
                Ok(()) => Ok(false),
                Err(error) => Err(self.left(&error)),
            },
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_left {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn draft_path(real: &Path, pid: u32) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(real.file_name().unwrap_or_default());
    name.push(format!("{DRAFT}{pid}"));
    real.with_file_name(name)
}

/// Clears away what others left who were killed.
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
