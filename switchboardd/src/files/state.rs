//! The folder that everything is kept in which outlives a daemon, and those below it: nobody else may have a hand in
//! them. Consent, secrets and logins are in there.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use switchboard_wire::folder::{self, private_folder};

/// Those below it that only we make.
pub const FOLDERS: [&str; 11] = [
    "trust",
    "logs",
    "configs",
    "manifests",
    "secrets",
    "logins",
    "hosts",
    "daemon.containers",
    "daemon.guards",
    "runners",
    "data",
];

/// Makes the folder, and refuses to use it if others could tamper with it or with what is below. One that cannot be
/// made is no danger; whoever wants to write there finds out.
pub fn prepare(state: &Path) -> io::Result<()> {
    match private_folder(state) {
        Err(error) if is_refusal(&error) => Err(error),
        _ => check(state),
    }
}

/// Earlier versions left some of these readable; nobody else could come through the folder above. One that others can
/// write is not ours to trust and stays as it is.
fn close(folder: &Path) {
    let Ok(meta) = std::fs::symlink_metadata(folder) else { return };
    let is_ours = meta.is_dir() && meta.uid() == rustix::process::getuid().as_raw();
    if is_ours && meta.mode() & 0o077 != 0 && meta.mode() & 0o022 == 0 {
        let _ = std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700));
    }
}

/// The same without making it: what is not there holds nothing that somebody could have put there.
pub fn check(state: &Path) -> io::Result<()> {
    let below = FOLDERS.iter().map(|name| {
        let folder = state.join(name);
        close(&folder);
        folder::check_itself(&folder)
    });
    let mut all = std::iter::once_with(|| folder::check(state)).chain(below);
    all.find_map(|checked| checked.err().filter(is_refusal)).map_or(Ok(()), Err)
}

/// What is ours to say, and not the system's.
fn is_refusal(error: &io::Error) -> bool {
    error.raw_os_error().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_version_left_readable_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("s");
        prepare(&state).unwrap();
        let data = state.join("data");
        for (mode, is_used) in [(0o755, true), (0o777, false)] {
            std::fs::create_dir_all(&data).unwrap();
            std::fs::set_permissions(&data, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(prepare(&state).is_ok(), is_used, "{mode:o}");
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
        prepare(&state).unwrap();
    }
}
