//! Folders that no other user may read or tamper with: those of the socket and of all state.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

/// Creates a folder, and those above it, for its owner alone. Refuses one that another user could tamper
/// with, and says how to fix that.
pub fn private_folder(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    check(folder)
}

/// Checks that an existing folder is a real one of ours, closed to others, and that nobody can replace it.
pub fn check(folder: &Path) -> io::Result<()> {
    check_itself(folder)?;
    check_above(folder)
}

/// Like [`check`], without the folders above it.
pub fn check_itself(folder: &Path) -> io::Result<()> {
    let meta = std::fs::symlink_metadata(folder)?;
    match find_problem(&meta, rustix::process::getuid().as_raw()) {
        None => Ok(()),
        Some(flaw) => Err(refused(flaw.advice(folder, &meta))),
    }
}

/// Whether this is a real directory of `uid` that nobody else may enter or change.
pub fn is_private(folder: &Path, uid: u32) -> bool {
    std::fs::symlink_metadata(folder).is_ok_and(|meta| find_problem(&meta, uid).is_none())
}

fn check_above(folder: &Path) -> io::Result<()> {
    let Some(parent) = folder.parent() else { return Ok(()) };
    // Links are resolved first: it is the real folders that others must not be able to change.
    let real = parent.canonicalize()?;
    for above in real.ancestors() {
        let meta = std::fs::metadata(above)?;
        if let Err(why) = is_ours_or_unmapped(&meta) {
            let (folder, above) = (folder.display(), above.display());
            return Err(refused(format!(
                "`{folder}` is not safe from others, who could put another in its place: `{above}`: {why}"
            )));
        }
    }
    Ok(())
}

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FolderProblem {
    Link,
    NoFolder,
    OtherOwner,
    Open,
}

fn find_problem(meta: &Metadata, uid: u32) -> Option<FolderProblem> {
    if meta.is_symlink() {
        return Some(FolderProblem::Link);
    }
    if !meta.is_dir() {
        return Some(FolderProblem::NoFolder);
    }
    if meta.uid() != uid {
        return Some(FolderProblem::OtherOwner);
    }
    (meta.mode() & 0o077 != 0).then_some(FolderProblem::Open)
}

impl FolderProblem {
    /// How to get a suitable folder: close one's own, but never one that is shared with others.
    fn advice(self, folder: &Path, meta: &Metadata) -> String {
        let is_shared = meta.mode() & 0o1000 != 0;
        let folder = folder.display();
        match self {
            Self::Link => format!("`{folder}` is a link; put a folder of your own there (mode 700)"),
            Self::NoFolder => format!("`{folder}` is not a directory; move it away"),
            Self::OtherOwner if meta.mode() & 0o077 != 0 || is_shared => {
                format!(
                    "`{folder}` is open to others; choose a folder of your own that is closed to them (mode 700)"
                )
            }
            Self::OtherOwner => {
                let uid = meta.uid();
                format!(
                    "`{folder}` belongs to another user (uid {uid}); choose a folder of your own (mode 700)"
                )
            }
            Self::Open if is_shared => {
                format!(
                    "`{folder}` is open to others; choose a folder of your own that is closed to them (mode 700)"
                )
            }
            Self::Open => format!("`{folder}` must be closed to others; run: chmod 700 '{folder}'"),
        }
    }
}

/// The group `admin` of macOS, whose members can become root. Homebrew lets it write its folders.
const ADMINS: Option<u32> = if cfg!(target_os = "macos") { Some(80) } else { None };

/// Checks that nobody but its owner, who is us or root, can write it; else why not. The user's own group,
/// which has no other members, counts as us, and a group of administrators as root.
pub fn is_ours_alone(meta: &Metadata) -> Result<(), String> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let is_sticky = meta.is_dir() && meta.mode() & 0o1000 != 0;
    find_other_writer((meta.uid(), meta.gid(), meta.mode()), is_sticky, (uid, gid), ADMINS)
}

/// `file` is owner, group and mode; `own` is our user and group.
fn find_other_writer(
    file: (u32, u32, u32),
    is_sticky: bool,
    own: (u32, u32),
    admins: Option<u32>,
) -> Result<(), String> {
    let ((owner, group, mode), (uid, gid)) = (file, own);
    if owner != uid && owner != 0 {
        return Err(format!("it belongs to another user (uid {owner})"));
    }
    // In a sticky folder like /tmp, others may add files but not touch existing ones.
    if mode & 0o002 != 0 && !is_sticky {
        return Err("everybody can write it; `chmod o-w` fixes that".to_owned());
    }
    // A user's own group has the number of the user. With an access list, its mask shows as the group's mode.
    let is_trusted = (group == gid && gid == uid) || Some(group) == admins;
    if mode & 0o020 != 0 && !is_trusted && !is_sticky {
        return Err(format!("a group can write it (gid {group}); `chmod g-w` fixes that"));
    }
    Ok(())
}

/// Like [`is_ours_alone`]. In a sandbox, where root has no number of its own, it may also belong to an unmapped user
/// if only its owner can write it.
pub fn is_ours_or_unmapped(meta: &Metadata) -> Result<(), String> {
    is_ours_alone(meta)
        .or_else(|why| if meta.mode() & 0o022 == 0 && is_unmapped(meta.uid()) { Ok(()) } else { Err(why) })
}

/// Whether this uid stands for all users that our user namespace does not map: in a sandbox, root is one of
/// them.
fn is_unmapped(uid: u32) -> bool {
    let Ok(map) = std::fs::read_to_string("/proc/self/uid_map") else { return false };
    !map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map_while(|number| number.parse::<u64>().ok());
        let (Some(first), Some(_), Some(count)) = (numbers.next(), numbers.next(), numbers.next()) else {
            return false;
        };
        (first..first.saturating_add(count)).contains(&u64::from(uid))
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_group_of_administrators_counts_as_root() {
        // A user of macOS: number 501, group `staff`. Homebrew's folders are the user's and of `admin`.
        let is_ours = |owner, group, mode, admins| {
            find_other_writer((owner, group, mode), false, (501, 20), admins).is_ok()
        };
        assert!(is_ours(501, 80, 0o775, Some(80)) && is_ours(0, 80, 0o775, Some(80)));
        assert!(!is_ours(501, 80, 0o775, None));
        assert!(!is_ours(501, 20, 0o775, Some(80)) && !is_ours(501, 80, 0o777, Some(80)));
        assert!(!is_ours(502, 80, 0o755, Some(80)));
    }

    #[test]
    fn only_a_real_private_folder_is_accepted() {
        let root = std::env::temp_dir().join(format!("switchboard-folder-{}", std::process::id()));
        let folder = root.join("above/state");
        private_folder(&folder).unwrap();
        assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o700);
        let why = |folder: &Path| private_folder(folder).unwrap_err().to_string();
        for mode in [0o750, 0o701, 0o770] {
            set_mode(&folder, mode);
            assert!(why(&folder).contains(&format!("chmod 700 '{}'", folder.display())));
        }
        set_mode(&folder, 0o700);
        for mode in [0o777, 0o702] {
            set_mode(&root.join("above"), mode);
            assert!(why(&folder).contains("everybody can write it"), "{}", why(&folder));
        }
        // Like /tmp: others may add files.
        set_mode(&root.join("above"), 0o1777);
        private_folder(&folder).unwrap();
        let link = root.join("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        assert!(why(&link).contains("is a link"));
        // A folder above may be a link.
        std::os::unix::fs::symlink(root.join("above"), root.join("way")).unwrap();
        private_folder(&root.join("way/state")).unwrap();
        std::fs::write(root.join("file"), "").unwrap();
        assert!(private_folder(&root.join("file")).is_err());
        std::fs::remove_dir_all(&root).unwrap();
    }
}
