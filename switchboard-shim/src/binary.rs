//! Finds `switchboardd` and turns this process into it.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

const DAEMON: &str = "switchboardd";

/// Where our own binary is now, also when an upgrade replaced it while we ran.
pub(crate) fn ourselves() -> io::Result<PathBuf> {
    let path = env::current_exe()?;
    // Linux marks the path of a binary that was replaced.
    match path.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        Some(before) if !path.exists() => Ok(OsString::from_vec(before.to_owned()).into()),
        _ => Ok(path),
    }
}

/// The `switchboardd` beside us, else the name alone, for PATH to resolve.
pub(crate) fn daemon() -> PathBuf {
    let beside = |path: PathBuf| Some(path.parent()?.join(DAEMON)).filter(|path| path.is_file());
    let Ok(ourselves) = ourselves() else {
        return DAEMON.into();
    };
    // Not every system resolves the link we may have been started by.
    let resolved = ourselves.canonicalize().ok().and_then(beside);
    resolved.or_else(|| beside(ourselves)).unwrap_or_else(|| DAEMON.into())
}

/// Hands over to `switchboardd`. Returns only if that fails.
#[expect(
    clippy::disallowed_methods,
    reason = "an exec: a command is the daemon's binary, not a child of ours"
)]
pub(crate) fn become_daemon_binary(args: &[OsString]) -> String {
    let program = daemon();
    let error = Command::new(&program).args(args).exec();
    no_exec(&program, &error)
}

/// Why a program could not be run, in words that say where it was looked for.
pub(crate) fn no_exec(program: &std::path::Path, error: &io::Error) -> String {
    if program.is_absolute() {
        return format!("cannot run `{}`: {error}", program.display());
    }
    let here = ourselves().ok().and_then(|path| path.parent().map(|folder| folder.display().to_string()));
    let here = here.unwrap_or_else(|| "the folder of this binary".to_owned());
    format!("cannot run `{DAEMON}`: {error}; it is neither in `{here}` nor on PATH")
}
