//! Reads files that must be private: owned by us, closed to others, and regular.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::regular::{self, Links, OpenFileError};

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
pub enum UnsafeFile {
    #[error("`{}` cannot be read: {error}", file.display())]
    Unreadable { file: PathBuf, error: io::Error },
    #[error("`{}` is not a regular file; put one there, not a link or a device", .0.display())]
    Irregular(PathBuf),
    #[error("`{}` belongs to another user (uid {owner}); move it away or have its owner changed", file.display())]
    OtherOwner { file: PathBuf, owner: u32 },
    #[error("`{file}` must be closed to others; run: chmod 600 '{file}'", file = .0.display())]
    Open(PathBuf),
    #[error("`{}` is longer than {limit} bytes", file.display())]
    TooLong { file: PathBuf, limit: u64 },
}

/// Reads a whole private file; `None` if there is none. The checks apply to the opened file, not to its name.
pub fn read(file: &Path, limit: u64) -> Result<Option<Vec<u8>>, UnsafeFile> {
    let unreadable = |error| UnsafeFile::Unreadable { file: file.to_owned(), error };
    let (opened, meta) = match regular::open(file, Links::Refuse) {
        Ok(opened) => opened,
        Err(OpenFileError::Absent) => return Ok(None),
        Err(OpenFileError::Irregular | OpenFileError::DanglingLink) => {
            return Err(UnsafeFile::Irregular(file.to_owned()));
        }
        Err(OpenFileError::Failed(error)) => return Err(unreadable(error)),
    };
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(UnsafeFile::OtherOwner { file: file.to_owned(), owner: meta.uid() });
    }
    if meta.mode() & 0o077 != 0 {
        return Err(UnsafeFile::Open(file.to_owned()));
    }
    match regular::read_up_to(limit, opened).map_err(unreadable)? {
        Some(body) => Ok(Some(body)),
        None => Err(UnsafeFile::TooLong { file: file.to_owned(), limit }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_a_closed_regular_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert!(read(&at("missing"), 10).unwrap().is_none());
        super::super::replace(&at("good"), b"0123456789").unwrap();
        assert_eq!(read(&at("good"), 10).unwrap().unwrap(), b"0123456789");
        assert!(matches!(read(&at("good"), 9), Err(UnsafeFile::TooLong { .. })));
        for mode in [0o604, 0o640, 0o602, 0o620, 0o644] {
            std::fs::set_permissions(at("good"), std::fs::Permissions::from_mode(mode)).unwrap();
            let why = read(&at("good"), 10).unwrap_err().to_string();
            assert!(why.contains(&format!("chmod 600 '{}'", at("good").display())), "{why}");
        }
        std::os::unix::fs::symlink(at("good"), at("link")).unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        make_pipe(&at("pipe"));
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for name in ["link", "folder", "pipe", "socket"] {
            assert!(matches!(read(&at(name), 10), Err(UnsafeFile::Irregular(_))), "{name}");
        }
    }

    #[expect(clippy::disallowed_methods, reason = "mkfifo(1) is everywhere, the system call is not")]
    fn make_pipe(path: &Path) {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    }
}
