//! The programs that are installed beside this one: the guard of a child, and the commands, which also talk to
//! the keyring and count tokens.
//!
//! On Linux each is opened once and started through its descriptor, so that an upgrade on disk does not mix
//! versions: a daemon starts the files that were there when it started itself.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use switchboard_wire::event_loop::run_blocking;
use switchboard_wire::folder;

/// A program of the same installation.
#[derive(Debug)]
pub struct InstalledProgram {
    name: &'static str,
    // A leaf lock: held to copy or to replace it.
    opened: Mutex<Option<Arc<File>>>,
}

/// Starts a child and ends all its processes.
pub static GUARD: InstalledProgram = InstalledProgram { name: "switchboard-guard", opened: Mutex::new(None) };

/// The commands that users type.
pub static COMMANDS: InstalledProgram =
    InstalledProgram { name: "switchboard-ctl", opened: Mutex::new(None) };

impl InstalledProgram {
    /// Opens the program, or what has been installed in its place since. One that is missing or that others can
    /// change is reported when it is started.
    pub fn open(&self) {
        let _ = self.checked(true);
    }

    /// Where it is installed.
    pub fn path(&self) -> PathBuf {
        own_binary().with_file_name(self.name)
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// A command that starts it; else why it must not or cannot be started. One that was not opened is looked for
    /// again: an upgrade or the user may have mended it.
    #[expect(clippy::disallowed_methods, reason = "processes of our own, which are no children")]
    pub async fn command(&'static self) -> Result<Command, String> {
        let opened = self.opened.lock().expect("BUG: a copy panicked").clone();
        let program = match opened {
            Some(file) => by_descriptor(&file),
            None => run_blocking(move || self.checked(false)).await?,
        };
        let mut command = Command::new(program);
        command.arg0(self.name);
        Ok(command)
    }

    /// Opens the program if only the user or root can have written it. Returns the path to start it by. One that
    /// is open already is kept unless this `replaces` it: a start that is under way names its descriptor.
    fn checked(&self, replaces: bool) -> Result<PathBuf, String> {
        let path = self.path();
        let opened = self.open_ours(&path).map(Arc::new);
        // Other systems cannot execute a program through its descriptor.
        let kept = opened.as_ref().ok().filter(|_| cfg!(target_os = "linux")).cloned();
        let mut current = self.opened.lock().expect("BUG: a copy panicked");
        if let Some(first) = current.as_deref().filter(|_| !replaces) {
            return Ok(by_descriptor(first));
        }
        let program = kept.as_deref().map_or(path, by_descriptor);
        *current = kept;
        opened.map(|_| program)
    }

    fn open_ours(&self, path: &Path) -> Result<File, String> {
        let file = open(path).map_err(|error| self.explain(&error))?;
        // Not by the path, where another file may be by now.
        let meta = file.metadata().map_err(|error| self.explain(&error))?;
        folder::is_ours_or_unmapped(&meta)
            .map_err(|why| format!("`{}` is not started: {why}", path.display()))?;
        Ok(file)
    }

    /// Why it could not be started.
    pub fn explain(&self, error: &io::Error) -> String {
        let path = self.path();
        if path.exists() {
            format!("`{}` could not be started: {error}", path.display())
        } else {
            format!("`{}` is missing; install all programs of Switchboard side by side", path.display())
        }
    }
}

fn by_descriptor(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// A program that may be executed need not be readable.
#[cfg(target_os = "linux")]
fn open(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?.into())
}

#[cfg(not(target_os = "linux"))]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// A command that runs this binary. Not by its path, where another version may be by now, or none.
#[expect(clippy::disallowed_methods, reason = "processes of our own, which are no children")]
pub fn own_binary_command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    if cfg!(not(target_os = "linux")) {
        command = Command::new(own_binary());
    }
    command.arg0("switchboardd");
    command
}

/// The path of our own binary, even if an upgrade replaced it while we run.
pub fn own_binary() -> PathBuf {
    let path = std::env::current_exe().unwrap_or_default();
    // Linux appends this suffix to the path of a replaced binary.
    match path.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        Some(before) if !path.exists() => OsString::from_vec(before.to_owned()).into(),
        _ => path,
    }
}
