//! The folder that everything is kept in which outlives a daemon, and those below it: nobody else may have a hand in
//! them. Consent, secrets and logins are in there.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use switchboard_wire::folder::{self, private_folder};

use crate::event_loop::may_block;

/// Those below it that only we make.
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

/// Those that only children use: one that is not safe keeps the children that need it from being started, and nobody
/// else from anything.
pub const CHILD_FOLDERS: [&str; 2] = ["runners", "data"];

/// Makes the folder, and refuses to use it if others could tamper with it or with what is below. One that cannot be
/// made is no danger; whoever wants to write there finds out.
pub fn prepare(state: &Path) -> io::Result<()> {
    match private_folder(state) {
        Err(error) if is_refusal(&error) => Err(error),
        _ => check(state),
    }
}

/// Earlier versions made some of these with the modes that the umask left, so that others, or the group of the user's
/// own, could read or write them; nobody else could come through the folder above. One that another group or everybody
/// can write is not ours to trust and stays as it is.
fn close(folder: &Path) {
    let Ok(meta) = std::fs::symlink_metadata(folder) else { return };
    let is_ours = meta.is_dir() && meta.uid() == rustix::process::getuid().as_raw();
    let is_open = meta.mode() & 0o077 != 0;
    // A sticky folder that everybody can write counts as ours alone where it is above one of ours, but not here.
    if is_ours && is_open && meta.mode() & 0o002 == 0 && folder::is_ours_alone(&meta).is_ok() {
        let _ = std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700));
    }
}

/// The same without making it: what is not there holds nothing that somebody could have put there.
pub fn check(state: &Path) -> io::Result<()> {
    refusal(folder::check(state))?;
    CHILD_FOLDERS.iter().for_each(|name| close(&state.join(name)));
    FOLDERS.iter().try_for_each(|name| {
        let folder = state.join(name);
        close(&folder);
        refusal(folder::check_itself(&folder))
    })
}

/// Refuses one of [`CHILD_FOLDERS`] if others could tamper with it. One that is not there yet is fine.
pub fn check_child_folder(folder: &Path) -> io::Result<()> {
    may_block();
    refusal(folder::check_itself(folder))
}

fn refusal(checked: io::Result<()>) -> io::Result<()> {
    checked.or_else(|error| if is_refusal(&error) { Err(error) } else { Ok(()) })
}

/// What is ours to say, and not the system's.
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
    fn what_leads_out_of_the_folder_is_refused() {
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
