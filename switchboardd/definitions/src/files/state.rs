//! The state folder, which holds everything that outlives a daemon, consent, secrets and logins included. No
//! other user may be able to tamper with it or with the folders below.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use switchboard_wire::folder::{self, private_folder};

use switchboard_wire::event_loop::may_block;

/// Subfolders that only the daemon and its commands use.
pub const FOLDERS: [&str; 9] = [
    "trust",
    "logs",
    "configs",
    "manifests",
    "secrets",
    "logins",
    "hosts",
    "daemon.containers",
    "daemon.guards",
];

/// Subfolders that only children use: an unsafe one keeps the children that need it from starting, and
/// affects nothing else.
pub const CHILD_FOLDERS: [&str; 2] = ["runners", "data"];

/// Creates the folder, and refuses it if others could tamper with it or with what is below. A folder that
/// cannot be created is no danger; writing to it fails later.
pub fn prepare(state: &Path) -> io::Result<()> {
    match private_folder(state) {
        Err(error) if is_refusal(&error) => Err(error),
        _ => check(state),
    }
}

/// Closes a folder that an earlier version created with the modes of the umask, so that others or the user's
/// own group could read or write it; nobody else could enter the folder above. A folder that another group or
/// everybody can write is not trusted and stays as it is.
fn close(folder: &Path) {
    let Ok(meta) = std::fs::symlink_metadata(folder) else { return };
    let is_ours = meta.is_dir() && meta.uid() == rustix::process::getuid().as_raw();
    let is_open = meta.mode() & 0o077 != 0;
    // A sticky folder that everybody can write is acceptable above one of ours, but not here.
    if is_ours && is_open && meta.mode() & 0o002 == 0 && folder::is_ours_alone(&meta).is_ok() {
        let _ = std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700));
    }
}

/// Like [`prepare`], without creating the folder. A missing folder holds nothing that others could have put
/// there.
pub fn check(state: &Path) -> io::Result<()> {
    refusal(folder::check(state))?;
    CHILD_FOLDERS.iter().for_each(|name| close(&state.join(name)));
    FOLDERS.iter().try_for_each(|name| {
        let folder = state.join(name);
        close(&folder);
        refusal(folder::check_itself(&folder))
    })
}

/// Refuses one of [`CHILD_FOLDERS`] if others could tamper with it. A missing one is fine.
pub fn check_child_folder(folder: &Path) -> io::Result<()> {
    may_block();
    refusal(folder::check_itself(folder))
}

fn refusal(checked: io::Result<()>) -> io::Result<()> {
    checked.or_else(|error| if is_refusal(&error) { Err(error) } else { Ok(()) })
}

/// Whether the error is our own refusal, not one of the system.
fn is_refusal(error: &io::Error) -> bool {
    error.raw_os_error().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_an_earlier_version_left_open_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("s");
        prepare(&state).unwrap();
        let owner = folder.path().metadata().unwrap();
        let has_own_group = owner.uid() == owner.gid();
        for name in FOLDERS.iter().chain(&CHILD_FOLDERS) {
            let below = state.join(name);
            std::fs::create_dir(&below).unwrap();
            let is_own = FOLDERS.contains(name);
            for (mode, is_closed) in [
                (0o755, true),
                (0o775, has_own_group),
                (0o770, has_own_group),
                (0o777, false),
                (0o1777, false),
            ] {
                std::fs::set_permissions(&below, std::fs::Permissions::from_mode(mode)).unwrap();
                assert_eq!(prepare(&state).is_ok(), is_closed || !is_own, "{name} {mode:o}");
                let left = below.metadata().unwrap().mode() & 0o7777;
                assert_eq!(left, if is_closed { 0o700 } else { mode }, "{name} {mode:o}");
                assert_eq!(check_child_folder(&below).is_ok(), is_closed, "{name} {mode:o}");
            }
            std::fs::remove_dir(below).unwrap();
        }
    }

    #[test]
    fn links_in_place_of_state_folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("s");
        check(&state).unwrap();
        prepare(&state).unwrap();
        for name in FOLDERS {
            std::os::unix::fs::symlink(folder.path(), state.join(name)).unwrap();
            for why in [prepare(&state).unwrap_err(), check(&state).unwrap_err()] {
                assert!(why.to_string().contains(&format!("{name}` is a link")), "{why}");
            }
            std::fs::remove_file(state.join(name)).unwrap();
        }
        for name in CHILD_FOLDERS {
            check_child_folder(&state.join(name)).unwrap();
            std::os::unix::fs::symlink(folder.path(), state.join(name)).unwrap();
            prepare(&state).unwrap();
            let why = check_child_folder(&state.join(name)).unwrap_err().to_string();
            assert!(why.contains(&format!("{name}` is a link")), "{why}");
        }
    }
}
