//! The text of a file that somebody else may have put there.

use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::event_loop::may_block;

const MAX_BYTES: u64 = 1024 * 1024;

/// Why a file's text cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    Absent,
    Refused(String),
}

/// The text of a file that somebody else may have put there: a regular one, of a sane size, and none that
/// leads out of `within`. Never waits, whatever stands there under that name.
pub fn read_text(file: &Path, within: Option<&Path>) -> Result<String, Unreadable> {
    may_block();
    let refused = |why: String| Unreadable::Refused(why);
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound if file.is_symlink() => {
            refused("is a link that leads nowhere".to_owned())
        }
        std::io::ErrorKind::NotFound => Unreadable::Absent,
        _ => Unreadable::Refused(format!("cannot be read: {error}")),
    };
    let not_regular = || refused("is not a regular file".to_owned());
    // Before it is opened, since opening a device can do things; and after, since it may be another by then.
    if !std::fs::metadata(file).map_err(failed)?.is_file() {
        return Err(not_regular());
    }
    let no_wait =
        rustix::fs::OFlags::NONBLOCK.bits().cast_signed() | rustix::fs::OFlags::NOCTTY.bits().cast_signed();
    let opened = std::fs::OpenOptions::new().read(true).custom_flags(no_wait).open(file).map_err(failed)?;
    if !opened.metadata().map_err(failed)?.is_file() {
        return Err(not_regular());
    }
    if let Some(within) = within
        && !real_path(&opened, file).is_some_and(|real| real.starts_with(within))
    {
        return Err(refused(format!("leads out of `{}`", within.display())));
    }
    let mut body = Vec::new();
    opened.take(MAX_BYTES + 1).read_to_end(&mut body).map_err(failed)?;
    if body.len() as u64 > MAX_BYTES {
        return Err(refused(format!("is over {} MiB", MAX_BYTES >> 20)));
    }
    String::from_utf8(body).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.iter().filter(|&&byte| byte == b'\n').count() + 1;
        refused(format!("is not UTF-8 text, in line {line}"))
    })
}

/// Where an open file really is. Asked of the open file: its name may mean another one by now.
fn real_path(opened: &std::fs::File, name: &Path) -> Option<PathBuf> {
    use std::os::fd::AsRawFd;
    if cfg!(target_os = "linux") {
        std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd())).ok()
    } else {
        name.canonicalize().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_where_it_really_is() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (inside, outside) = (root.join("in"), root.join("out"));
        std::fs::create_dir(&inside).unwrap();
        std::fs::write(&outside, "secret").unwrap();
        std::fs::write(inside.join("own"), "own").unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("leaves")).unwrap();
        std::os::unix::fs::symlink(inside.join("own"), inside.join("stays")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            inside.join("pipe"),
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        let read = |name: &str| read_text(&inside.join(name), Some(&inside));
        assert_eq!(read("own").as_deref(), Ok("own"));
        assert_eq!(read("stays").as_deref(), Ok("own"));
        assert!(matches!(read("leaves"), Err(Unreadable::Refused(why)) if why.contains("leads out")));
        assert!(matches!(read("pipe"), Err(Unreadable::Refused(why)) if why.contains("regular")));
        assert_eq!(read("absent"), Err(Unreadable::Absent));
        std::os::unix::fs::symlink(inside.join("absent"), inside.join("dangles")).unwrap();
        assert!(matches!(read("dangles"), Err(Unreadable::Refused(why)) if why.contains("nowhere")));
        std::fs::write(inside.join("latin"), b"{\n \"gr\xfc\xdfe\"}").unwrap();
        assert!(matches!(read("latin"), Err(Unreadable::Refused(why)) if why.contains("line 2")));
        assert_eq!(read_text(&inside.join("leaves"), None).as_deref(), Ok("secret"));
    }
}
