//! Reads the end of a log file and follows it across rotations.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::json;
use switchboard_wire::visible::Printable;

use crate::local_time::with_local_time;
use crate::output::{print_json_line, try_print};
use switchboardd::Folder;

/// How much of a file's end is read at most.
const MAX_READ: u64 = 4 * 1024 * 1024;

pub(super) struct FileTail {
    pub(super) lines: Vec<String>,
    /// The file, read to its end.
    pub(super) end: File,
}

/// The last `count` lines, partly from the rotated file if the current one is too short.
pub(super) fn last(path: &Path, count: usize) -> io::Result<FileTail> {
    let mut file = File::open(path)?;
    let mut lines = ending(&mut file)?;
    if lines.len() < count
        && let Ok(mut before) = File::open(earlier(path))
    {
        let mut all = ending(&mut before)?;
        all.append(&mut lines);
        lines = all;
    }
    lines.drain(..lines.len().saturating_sub(count));
    Ok(FileTail { lines, end: file })
}

fn earlier(path: &Path) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(".1");
    name.into()
}

/// The lines in the last `MAX_READ` bytes; leaves the file at its end.
fn ending(file: &mut File) -> io::Result<Vec<String>> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_READ)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let cut = usize::from(length > MAX_READ);
    Ok(text.lines().skip(cut).map(ToOwned::to_owned).collect())
}

/// Prints lines as they are written, until the reader goes away. Sleeps while nothing is written.
pub(super) async fn follow(path: &Path, mut file: File, as_json: bool) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut changes = Folder::watch(folder)?;
    let mut begun = Vec::new();
    let mut copy = |file: &mut File| {
        copy_lines(file, &mut begun, &mut |line| match as_json {
            true => print_json_line(&json!({ "text": line })),
            false => try_print(&Printable::text(with_local_time(line))),
        })
    };
    loop {
        if copy(&mut file).is_err() {
            return Ok(());
        }
        // After a rotation: copies the rest of the old file, then switches.
        let same = |one: &std::fs::Metadata, other: &std::fs::Metadata| {
            one.ino() == other.ino() && one.dev() == other.dev()
        };
        if let (Ok(named), Ok(ours)) = (std::fs::metadata(path), file.metadata())
            && !same(&named, &ours)
            && let Ok(next) = File::open(path)
        {
            let _ = copy(&mut file);
            file = next;
            continue;
        }
        changes.next().await;
    }
}

/// Shows each complete line written since; `begun` buffers the incomplete one. An error means that the reader
/// went away.
fn copy_lines(
    file: &mut File,
    begun: &mut Vec<u8>,
    show: &mut dyn FnMut(&str) -> io::Result<()>,
) -> io::Result<()> {
    file.read_to_end(begun)?;
    while let Some(end) = begun.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = begun.drain(..=end).collect();
        show(&String::from_utf8_lossy(&line[..end]))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_are_copied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.log");
        std::fs::write(&path, "one\ntw").unwrap();
        let (mut file, mut begun, mut out) = (File::open(&path).unwrap(), Vec::new(), Vec::new());
        let mut show = |line: &str| {
            out.push(line.to_owned());
            Ok(())
        };
        copy_lines(&mut file, &mut begun, &mut show).unwrap();
        std::fs::write(&path, "one\ntwo\n").unwrap();
        copy_lines(&mut file, &mut begun, &mut show).unwrap();
        assert_eq!(out, ["one", "two"]);
    }

    #[test]
    fn the_last_lines_may_be_in_the_file_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.log");
        std::fs::write(earlier(&path), "1\n2\n3\n").unwrap();
        std::fs::write(&path, "4\n5\n").unwrap();
        let of = |count| last(&path, count).unwrap().lines;
        assert_eq!(of(3), ["3", "4", "5"]);
        assert_eq!(of(1), ["5"]);
        assert_eq!(of(100).len(), 5);
        assert!(of(0).is_empty());
    }
}
