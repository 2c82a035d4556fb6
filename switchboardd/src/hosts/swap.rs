//! Replacing a file that a running program may write at the same moment: whole or not at all, and nothing that the other
//! one wrote is lost.

use std::ffi::OsString;
use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, CWD, RenameFlags, access, renameat_with};
use rustix::process::{Pid, geteuid, test_kill_process};

use super::Refusal;
use crate::document::Problem;
use crate::files::text::read_text;

/// Who writes in between that often is busy with something.
const TRIES: usize = 100;
/// How long a file that makes no sense may be one that is just being written.
const SETTLE: Duration = Duration::from_millis(60);
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
    let mut stands = look()?;
    // What the host last wrote; the same as what stands there, but for a moment.
    let mut theirs = stands.clone();
    for _ in 0..TRIES {
        let wanted = match edit(theirs.as_deref()) {
            Ok(Edit::Keep) if theirs == stands => return Ok(Swapped::Kept),
            Ok(Edit::Keep) => theirs.clone(),
            Ok(Edit::Write(text)) => Some(text),
            Ok(Edit::Delete) => None,
            Err(refusal) => {
                std::thread::sleep(SETTLE);
                let now = look()?;
                if now == stands {
                    return Err(refusal.of(path));
                }
                theirs.clone_from(&now);
                stands = now;
                continue;
            }
        };
        about_to(theirs.as_deref(), wanted.as_deref()).map_err(unwritten)?;
        let draft =
            Draft::new(&real, wanted.as_deref().unwrap_or_default()).map_err(|why| Problem::of(path, why))?;
        let now = look()?;
        if now != stands {
            theirs.clone_from(&now);
            stands = now;
            continue;
        }
        let displaced = match (&stands, &wanted) {
            (None, None) => return Ok(Swapped::Kept),
            (Some(_), Some(_)) => draft.exchange(&real),
            (None, Some(_)) => {
                draft.place(&real).map(|placed| if placed { None } else { Some(String::new()) })
            }
            (Some(_), None) => draft.take(&real),
        };
        let displaced = displaced.map_err(unwritten)?;
        if displaced == stands {
            return Ok(if wanted.is_some() { Swapped::Written } else { Swapped::Deleted });
        }
        // Somebody wrote in the last moment. What they wrote is what we go on from.
        theirs = if stands.is_none() { look()? } else { displaced };
        stands = if stands.is_none() { theirs.clone() } else { wanted };
    }
    Err(Problem::of(path, "is written by another program all the time; close that one and try again"))
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
        let draft = Self { path };
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

    /// Both change places at once; what stood there is given back.
    fn exchange(&self, real: &Path) -> io::Result<Option<String>> {
        let stood = std::fs::read_to_string(real).ok();
        match renameat_with(CWD, &self.path, CWD, real, RenameFlags::EXCHANGE) {
            Ok(()) => read_text(&self.path).map_err(io::Error::other),
            // Not every file system can; then the moment between looking and moving stays.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
                std::fs::rename(&self.path, real).map(|()| stood)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// To where nothing stands; false if something does by now.
    fn place(&self, real: &Path) -> io::Result<bool> {
        match std::fs::hard_link(&self.path, real) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            // Not every file system has links.
            Err(_) => std::fs::rename(&self.path, real).map(|()| true),
        }
    }

    /// Takes the file away and gives back what was in it.
    fn take(&self, real: &Path) -> io::Result<Option<String>> {
        std::fs::rename(real, &self.path)?;
        read_text(&self.path).map_err(io::Error::other)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
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
