//! `switchboard doctor --fix`: does what cannot do harm, on files of our own only.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::output::tilde;
use switchboardd::daemon;

/// What `--fix` does about a finding.
#[derive(Debug, Clone)]
pub(super) enum Repair {
    /// Close a file or folder of the user to others.
    Close { path: PathBuf, mode: u32 },
    /// Delete the file and the socket of a daemon that is gone.
    ForgetDaemon { file: PathBuf, socket: PathBuf },
}

impl Repair {
    /// Returns what was done.
    pub(super) fn run(&self) -> Result<String, String> {
        let shown = |path: &PathBuf| tilde(&path.display().to_string());
        match self {
            Self::Close { path, mode } => {
                let closed = std::fs::set_permissions(path, std::fs::Permissions::from_mode(*mode));
                closed.map_err(|error| format!("{} cannot be closed to others: {error}", shown(path)))?;
                Ok(format!("closed {} to others (mode {mode:o})", shown(path)))
            }
            Self::ForgetDaemon { file, socket } => {
                std::fs::remove_file(file)
                    .map_err(|error| format!("{} cannot be deleted: {error}", shown(file)))?;
                let _ = daemon::remove_dead_socket(socket);
                Ok(format!("deleted {}, left behind by a daemon that no longer runs", shown(file)))
            }
        }
    }
}
