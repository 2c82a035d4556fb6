//! Reads regular files that another user may have written. Refuses pipes, devices, endless files, files that
//! are not text and, with [`Links::Refuse`], links. No call here blocks on another process.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use switchboard_wire::event_loop::may_block;

/// Whether the name of a file may be a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    Follow,
    Refuse,
}

/// Why a file was not opened.
#[derive(Debug)]
pub enum OpenFileError {
    Absent,
    /// A symbolic link to nothing.
    DanglingLink,
    /// A pipe, a device or a folder; with [`Links::Refuse`] also a link.
    Irregular,
    Failed(io::Error),
}

/// Why a file's text is not available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadTextError {
    Absent,
    /// The reason, worded to follow the name of the file.
    Refused(String),
}

/// Opens a regular file for reading. The metadata are those of the open file.
pub fn open(file: &Path, links: Links) -> Result<(File, Metadata), OpenFileError> {
    may_block();
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound if file.is_symlink() => OpenFileError::DanglingLink,
        io::ErrorKind::NotFound => OpenFileError::Absent,
        _ => OpenFileError::Failed(error),
    };
    // Checked before opening, because opening a device can have effects, and again after, because the file
    // may have been replaced.
    let before = match links {
        Links::Follow => std::fs::metadata(file),
        Links::Refuse => file.symlink_metadata(),
    };
    if !before.map_err(failed)?.is_file() {
        return Err(OpenFileError::Irregular);
    }
    let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    if links == Links::Refuse {
        flags |= OFlags::NOFOLLOW;
    }
    let opened =
        OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(file).map_err(failed)?;
    let metadata = opened.metadata().map_err(OpenFileError::Failed)?;
    if metadata.is_file() { Ok((opened, metadata)) } else { Err(OpenFileError::Irregular) }
}

/// The rest of an open file; `None` if it is longer than `limit` bytes.
pub fn read_up_to(limit: u64, opened: File) -> io::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    opened.take(limit + 1).read_to_end(&mut body)?;
    Ok((body.len() as u64 <= limit).then_some(body))
}

/// Reads the text of a regular file of at most `limit` bytes. Refuses a file that resolves outside `within`.
pub fn read_text(file: &Path, limit: u64, within: Option<&Path>) -> Result<String, ReadTextError> {
    let refused = |why: String| ReadTextError::Refused(why);
    let failed = |error: io::Error| refused(format!("cannot be read: {error}"));
    let (opened, _) = open(file, Links::Follow).map_err(|why| match why {
        OpenFileError::Absent => ReadTextError::Absent,
        OpenFileError::DanglingLink => refused("is a link that leads nowhere".to_owned()),
        OpenFileError::Irregular => refused("is not a regular file".to_owned()),
        OpenFileError::Failed(error) => failed(error),
    })?;
    if let Some(within) = within
        && !real_path(&opened).is_some_and(|real| real.starts_with(within))
    {
        return Err(refused(format!("leads out of `{}`", within.display())));
    }
    let body = read_up_to(limit, opened).map_err(failed)?;
    let body = body.ok_or_else(|| refused(format!("is over {} MiB", limit >> 20)))?;
    String::from_utf8(body).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.iter().filter(|&&byte| byte == b'\n').count() + 1;
        refused(format!("is not UTF-8 text, in line {line}"))
    })
}

/// The real path of an open file. Taken from the descriptor, since the name may refer to another file now.
#[cfg(not(target_os = "macos"))]
fn real_path(opened: &File) -> Option<PathBuf> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd())).ok()
}

/// The real path of an open file, in the spelling of its folder.
#[cfg(target_os = "macos")]
fn real_path(opened: &File) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let path = rustix::fs::getpath(opened).ok()?;
    Some(std::ffi::OsString::from_vec(path.into_bytes()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_only_if_its_real_path_is_inside() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (inside, outside) = (root.join("in"), root.join("out"));
        std::fs::create_dir(&inside).unwrap();
        std::fs::write(&outside, "secret").unwrap();
        std::fs::write(inside.join("own"), "own").unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("leaves")).unwrap();
        std::os::unix::fs::symlink(inside.join("own"), inside.join("stays")).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a pipe to refuse; macOS has no `mknodat`")]
        let made = std::process::Command::new("mkfifo").arg(inside.join("pipe")).status().unwrap();
        assert!(made.success());
        let read = |name: &str| read_text(&inside.join(name), 1024, Some(&inside));
        assert_eq!(read("own").as_deref(), Ok("own"));
        assert_eq!(read("stays").as_deref(), Ok("own"));
        assert!(matches!(read("leaves"), Err(ReadTextError::Refused(why)) if why.contains("leads out")));
        assert!(matches!(read("pipe"), Err(ReadTextError::Refused(why)) if why.contains("regular")));
        assert_eq!(read("absent"), Err(ReadTextError::Absent));
        std::os::unix::fs::symlink(inside.join("absent"), inside.join("dangles")).unwrap();
        assert!(matches!(read("dangles"), Err(ReadTextError::Refused(why)) if why.contains("nowhere")));
        std::fs::write(inside.join("latin"), b"{\n \"gr\xfc\xdfe\"}").unwrap();
        assert!(matches!(read("latin"), Err(ReadTextError::Refused(why)) if why.contains("line 2")));
        assert_eq!(read_text(&inside.join("leaves"), 1024, None).as_deref(), Ok("secret"));
    }

    #[test]
    fn what_is_no_regular_file_is_refused_before_it_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "0123456789").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("device")).unwrap();
        let opens = |name: &str, links| open(&at(name), links).is_ok();
        assert!(opens("file", Links::Refuse) && opens("link", Links::Follow));
        assert!(matches!(open(&at("link"), Links::Refuse), Err(OpenFileError::Irregular)));
        for links in [Links::Follow, Links::Refuse] {
            assert!(matches!(open(&at("device"), links), Err(OpenFileError::Irregular)));
            assert!(matches!(open(folder.path(), links), Err(OpenFileError::Irregular)));
            assert!(matches!(open(&at("absent"), links), Err(OpenFileError::Absent)));
        }
        let read = |limit| read_up_to(limit, open(&at("file"), Links::Refuse).unwrap().0).unwrap();
        assert_eq!((read(9), read(10).as_deref()), (None, Some(b"0123456789".as_slice())));
        assert!(
            matches!(read_text(&at("file"), 9, None), Err(ReadTextError::Refused(why)) if why.contains("over"))
        );
    }
}
