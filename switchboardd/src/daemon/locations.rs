//! Paths of a user's daemon, for the daemon and for commands: the config file, the state folder, the socket.

use std::path::{Path, PathBuf};

use switchboard_definitions::config::personal_file;
use switchboard_wire::runtime_paths::RuntimePaths;

use super::command_line::ServeArgs;
use super::fatal::Fatal;

pub fn home() -> Result<PathBuf, Fatal> {
    std::env::home_dir().filter(|home| home.is_absolute()).ok_or(Fatal::NoHome)
}

/// The folder for token, logs and other state.
pub fn state_folder(home: &Path) -> PathBuf {
    std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute()).map_or_else(
        || switchboard_wire::runtime_paths::state_directory(home),
        |folder| folder.join("switchboard"),
    )
}

/// The config file that was named, or the personal one.
pub fn config_file(args: &ServeArgs, home: &Path) -> PathBuf {
    let named = args.config.as_ref().and_then(|file| std::path::absolute(file).ok());
    named.unwrap_or_else(|| personal_file(home))
}

/// The folders for a user's definitions and our state, whatever a command line or a running daemon names.
pub fn usual_folders(home: &Path) -> (PathBuf, PathBuf) {
    let config = personal_file(home);
    (config.parent().map_or_else(|| home.join(".config/switchboard"), Path::to_owned), state_folder(home))
}

/// Config file and state folder, for commands: those of the running daemon, which may have been started in
/// another environment; else those that a daemon started from here would use.
pub fn files_in_use(args: &ServeArgs, home: &Path) -> (PathBuf, PathBuf) {
    let running = running(&runtime_paths(args, home));
    let of_daemon = |key: &str| running.as_ref().and_then(|told| told[key].as_str()).map(PathBuf::from);
    let config = match &args.config {
        Some(_) => config_file(args, home),
        None => of_daemon("config").unwrap_or_else(|| config_file(args, home)),
    };
    (config, of_daemon("state").unwrap_or_else(|| state_folder(home)))
}

/// The contents of the running daemon's file. Opens no connection, so that it cannot start a daemon.
pub fn running(paths: &RuntimePaths) -> Option<serde_json::Value> {
    let text = switchboard_wire::runtime_paths::read_own(&paths.daemon_file).ok()?;
    let told: serde_json::Value = serde_json::from_slice(&text).ok()?;
    let pid = told["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok())?;
    switchboard_wire::process::is_same(pid, told["startTime"].as_u64()).then_some(told)
}

/// The paths next to the named socket, else this user's.
pub fn runtime_paths(args: &ServeArgs, home: &Path) -> RuntimePaths {
    match &args.socket {
        Some(socket) => RuntimePaths::beside(&std::path::absolute(socket).unwrap_or_else(|_| socket.clone())),
        None => RuntimePaths::of_user(home),
    }
}

/// Like `runtime_paths`, but with the socket of the running daemon, if there is one: it may have been started
/// with another runtime directory.
pub fn runtime_paths_in_use(args: &ServeArgs, home: &Path) -> RuntimePaths {
    let mut paths = runtime_paths(args, home);
    paths.socket = paths.socket_in_use();
    paths
}

/// The directories trusted on the command line. One that does not exist is an error.
pub fn trust_roots(args: &ServeArgs) -> Result<Vec<PathBuf>, Fatal> {
    let real = |root: &PathBuf| {
        root.canonicalize()
            .map_err(|error| Fatal::Io { what: format!("`--trust-root {}`", root.display()), error })
    };
    args.trust_root.iter().map(real).collect()
}
