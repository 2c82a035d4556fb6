//! The files of the record: one line per call, the newest file and some older ones. Several daemons may write
//! to them, and commands read them at any time.

use std::fs::{File, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use switchboard_definitions::files::open_own;
use switchboard_wire::event_loop::may_block;
use switchboard_wire::runtime_paths::private_folder;

/// Five files of ten mebibytes: about 250,000 calls.
const MAX_BYTES: u64 = 10 * 1024 * 1024;
const MAX_FILES: usize = 5;

/// How often another daemon that writes is waited for, and how long each time.
const LOCK_TRIES: usize = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(25);

#[derive(Debug)]
pub struct RecordFiles {
    folder: PathBuf,
    max_bytes: u64,
}

impl RecordFiles {
    pub fn new(state: &Path) -> Self {
        Self { folder: state.join("calls"), max_bytes: MAX_BYTES }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file that is written to.
    pub fn newest(&self) -> PathBuf {
        self.numbered(0)
    }

    fn numbered(&self, number: usize) -> PathBuf {
        let name = if number == 0 { "calls.jsonl".to_owned() } else { format!("calls.jsonl.{number}") };
        self.folder.join(name)
    }

    /// Creates the folder, for a command that waits for the first call.
    pub fn create_folder(&self) -> io::Result<()> {
        may_block();
        private_folder(&self.folder)
    }

    /// Appends whole lines: all of them, or none.
    pub(super) fn append(&self, lines: &[u8]) -> io::Result<()> {
        may_block();
        private_folder(&self.folder)?;
        let _lock = self.lock()?;
        let mut file = open_own(&self.newest(), true)?;
        let mut metadata = file.metadata()?;
        if metadata.len() > 0 && metadata.len() + lines.len() as u64 > self.max_bytes {
            self.rotate();
            file = open_own(&self.newest(), true)?;
            metadata = file.metadata()?;
        }
        if metadata.mode() & 0o077 != 0 {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        let length = metadata.len();
        let mut write = || {
            // A daemon that was killed may have left half a line.
            if !ends_with_newline(&self.newest(), length)? {
                file.write_all(b"\n")?;
            }
            file.write_all(lines)
        };
        let written = write();
        if written.is_err() {
            // The disk is full, perhaps in the middle of a line. The lines are written again later.
            let _ = file.set_len(length);
        }
        written
    }

    /// While it is held, no other daemon writes. Does not wait long: the holder may be stopped.
    fn lock(&self) -> io::Result<File> {
        let lock = open_own(&self.folder.join("lock"), false)?;
        for _ in 0..LOCK_TRIES {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(lock),
                Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(LOCK_PAUSE),
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other("another daemon holds its lock"))
    }

    /// Keeps the older files and removes the oldest.
    fn rotate(&self) {
        for number in (0..MAX_FILES - 1).rev() {
            let _ = std::fs::rename(self.numbered(number), self.numbered(number + 1));
        }
    }

    /// All files, the newest first. A rotation in the meantime hides none: a file only moves to a place that is
    /// looked at later.
    pub fn open_all(&self) -> Vec<File> {
        may_block();
        let mut files: Vec<(File, u64)> = Vec::new();
        for number in 0..MAX_FILES {
            let Ok(file) = File::open(self.numbered(number)) else { continue };
            let Ok(metadata) = file.metadata() else { continue };
            if metadata.is_file() && !files.iter().any(|(_, known)| *known == metadata.ino()) {
                files.push((file, metadata.ino()));
            }
        }
        files.into_iter().map(|(file, _)| file).collect()
    }

    /// The last lines, oldest first; at most `count`, and not more than fit `max_bytes`.
    pub(super) fn tail(&self, count: usize, max_bytes: u64) -> Vec<String> {
        let mut lines = Vec::new();
        for mut file in self.open_all() {
            let mut older = last_lines(&mut file, max_bytes).unwrap_or_default();
            older.append(&mut lines);
            lines = older;
            if lines.len() >= count {
                break;
            }
        }
        lines.drain(..lines.len().saturating_sub(count));
        lines
    }
}

fn last_lines(file: &mut File, max_bytes: u64) -> io::Result<Vec<String>> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(max_bytes)))?;
    let mut bytes = Vec::new();
    file.take(max_bytes).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().skip(usize::from(length > max_bytes)).map(ToOwned::to_owned).collect())
}

/// Whether nothing, or a whole line, is before `length`.
fn ends_with_newline(path: &Path, length: u64) -> io::Result<bool> {
    let Some(last) = length.checked_sub(1) else { return Ok(true) };
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(last))?;
    let mut byte = [0];
    file.read_exact(&mut byte)?;
    Ok(byte == *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &tempfile::TempDir, max_bytes: u64) -> RecordFiles {
        RecordFiles { max_bytes, ..RecordFiles::new(folder.path()) }
    }

    fn all(files: &RecordFiles) -> String {
        files.tail(usize::MAX, u64::MAX).join(" ")
    }

    #[test]
    fn rotation_keeps_five_files_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(&folder, 8);
        for number in 10..40 {
            files.append(format!("{number}\n").as_bytes()).unwrap();
        }
        // Two lines fit a file.
        assert_eq!(all(&files), "30 31 32 33 34 35 36 37 38 39");
        let names = std::fs::read_dir(files.folder()).unwrap().count();
        assert_eq!(names, MAX_FILES + 1, "and the lock");
        assert_eq!(files.tail(3, u64::MAX), ["37", "38", "39"]);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&files.newest()), mode(files.folder())), (0o600, 0o700));
    }

    #[test]
    fn half_a_line_spoils_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(&folder, 100);
        files.append(b"1\n").unwrap();
        std::fs::OpenOptions::new().append(true).open(files.newest()).unwrap().write_all(b"ha").unwrap();
        std::fs::set_permissions(files.newest(), Permissions::from_mode(0o644)).unwrap();
        files.append(b"2\n").unwrap();
        assert_eq!(all(&files), "1 ha 2");
        assert_eq!(std::fs::metadata(files.newest()).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn two_daemons_write_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        std::thread::scope(|scope| {
            for name in ["a", "b"] {
                scope.spawn(move || {
                    let files = RecordFiles { max_bytes: 4000, ..RecordFiles::new(path) };
                    for number in 0..100 {
                        let line = format!("{name}{number:03} {}\n", "x".repeat(20));
                        files.append(line.repeat(3).as_bytes()).unwrap();
                    }
                });
            }
        });
        let lines = files(&folder, 4000).tail(usize::MAX, u64::MAX);
        for name in ["a", "b"] {
            let own: Vec<_> = lines.iter().filter(|line| line.starts_with(name)).collect();
            assert!(own.is_sorted() && own.len() > 100, "{own:?}");
            assert!(own.chunks(3).all(|three| three[0] == three[2]));
        }
        assert!(lines.iter().all(|line| line.len() == 25));
    }

    #[test]
    fn a_lock_that_stays_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(&folder, 100);
        files.append(b"1\n").unwrap();
        let lock = files.lock().unwrap();
        assert!(files.append(b"2\n").is_err());
        drop(lock);
        files.append(b"3\n").unwrap();
        assert_eq!(all(&files), "1 3");
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(&folder, 100);
        files.create_folder().unwrap();
        std::os::unix::fs::symlink("/dev/full", files.newest()).unwrap();
        assert!(files.append(b"1\n").is_err());
    }
}
