//! The folder that everything is kept in which outlives a daemon, and those below it: nobody else may have a hand in
//! them. Consent, secrets and logins are in there.

use std::io;
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

/// The same without making it: what is not there holds nothing that somebody could have put there.
pub fn check(state: &Path) -> io::Result<()> {
    let below = FOLDERS.iter().map(|name| folder::check_itself(&state.join(name)));
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
