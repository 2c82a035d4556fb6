//! The programs that are installed beside this one: the guard of a child, and the commands, which also talk to
//! the keyring and count tokens.
//!
//! On Linux each is opened once and started through its descriptor, so that an upgrade on disk does not mix
//! versions: a daemon starts the files that were there when it started itself.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

/// A program of the same installation.
#[derive(Debug)]
pub struct InstalledProgram {
    name: &'static str,
    // A leaf lock: held to copy or to replace it.
    opened: Mutex<Option<Arc<OwnedFd>>>,
}

/// Starts a child and ends all its processes.
pub static GUARD: InstalledProgram = InstalledProgram { name: "switchboard-guard", opened: Mutex::new(None) };

/// The commands that users type.
pub static COMMANDS: InstalledProgram =
    InstalledProgram { name: "switchboard-ctl", opened: Mutex::new(None) };

impl InstalledProgram {
    /// Opens the program, or what has been installed in its place since. A missing one is reported when it is
    /// started.
    pub fn open(&self) {
        *self.opened.lock().expect("BUG: a copy panicked") = open(&self.path()).map(Arc::new);
    }

    /// Where it is installed.
    pub fn path(&self) -> PathBuf {
        own_binary().with_file_name(self.name)
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// A command that starts it.
    #[expect(clippy::disallowed_methods, reason = "processes of our own, which are no children")]
    pub fn command(&self) -> Command {
        let opened = self.opened.lock().expect("BUG: a copy panicked").clone();
        let program = match &opened {
            Some(descriptor) => PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd())),
            None => self.path(),
        };
        let mut command = Command::new(program);
        command.arg0(self.name);
        command
    }

    /// Why it could not be started.
    pub fn explain(&self, error: &std::io::Error) -> String {
        let path = self.path();
        if path.exists() {
            format!("`{}` could not be started: {error}", path.display())
        } else {
            format!("`{}` is missing; install all programs of Switchboard side by side", path.display())
        }
    }
}

#[cfg(target_os = "linux")]
fn open(path: &std::path::Path) -> Option<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Other systems cannot execute a program through its descriptor.
#[cfg(not(target_os = "linux"))]
fn open(_: &std::path::Path) -> Option<OwnedFd> {
    None
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
