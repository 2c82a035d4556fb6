//! Reads the files of the record, and what is added to them, across rotations.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;

use switchboardd::RecordFiles;

/// The newest file, read up to a place.
#[derive(Default)]
pub(super) struct Follower {
    file: Option<File>,
    /// The beginning of a line whose end was not written yet.
    begun: Vec<u8>,
}

/// All lines, oldest first, and the place for reading on. Files before a line that `is_too_old` are not read.
/// `None` if there is no file.
pub(super) fn read_all(
    files: &RecordFiles,
    is_too_old: impl Fn(&str) -> bool,
) -> Option<(Vec<String>, Follower)> {
    let mut all: Vec<Vec<String>> = Vec::new();
    let mut follower = None;
    for mut file in files.open_all() {
        let mut begun = Vec::new();
        let lines = read_on(&mut file, &mut begun);
        let is_last = lines.first().is_some_and(|line| is_too_old(line));
        all.push(lines);
        follower.get_or_insert(Follower { file: Some(file), begun });
        if is_last {
            break;
        }
    }
    Some((all.into_iter().rev().flatten().collect(), follower?))
}

impl Follower {
    /// The lines that were added since.
    pub(super) fn next(&mut self, files: &RecordFiles) -> Vec<String> {
        let mut lines = match &mut self.file {
            Some(file) => read_on(file, &mut self.begun),
            None => Vec::new(),
        };
        let mut all = files.open_all();
        let ours = self.file.as_ref().and_then(identity);
        let newer = match all.iter().position(|file| ours.is_some() && identity(file) == ours) {
            Some(at) => at,
            // It was deleted. Files that were rotated before are known, unless there was none.
            None if self.file.is_some() => all.len().min(1),
            None => all.len(),
        };
        if newer == 0 {
            return lines;
        }
        // What was written between the last look and the rotation.
        if let Some(file) = &mut self.file {
            lines.append(&mut read_on(file, &mut self.begun));
        }
        all.truncate(newer);
        for mut file in all.into_iter().rev() {
            self.begun.clear();
            lines.append(&mut read_on(&mut file, &mut self.begun));
            self.file = Some(file);
        }
        lines
    }
}

fn identity(file: &File) -> Option<(u64, u64)> {
    file.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Reads the whole lines that follow; `begun` buffers the incomplete one.
fn read_on(file: &mut File, begun: &mut Vec<u8>) -> Vec<String> {
    let _ = file.read_to_end(begun);
    let Some(end) = begun.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
    let rest = begun.split_off(end + 1);
    let whole = std::mem::replace(begun, rest);
    String::from_utf8_lossy(&whole).lines().map(ToOwned::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[test]
    fn a_follower_sees_each_line_once_across_rotations() {
        let folder = tempfile::tempdir().unwrap();
        let files = RecordFiles::new(folder.path());
        files.create_folder().unwrap();
        let newest = files.newest();
        let numbered = |number: usize| files.folder().join(format!("calls.jsonl.{number}"));
        let add = |text: &str| {
            let mut file = fs::OpenOptions::new().create(true).append(true).open(&newest).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        let rotate = || {
            for number in (1..4).rev() {
                let _ = fs::rename(numbered(number), numbered(number + 1));
            }
            fs::rename(&newest, numbered(1)).unwrap();
        };
        assert!(read_all(&files, |_| false).is_none());
        let mut early = Follower::default();
        add("1\n2\nha");
        assert_eq!(early.next(&files), ["1", "2"]);
        let (lines, mut follower) = read_all(&files, |_| false).unwrap();
        assert_eq!(lines, ["1", "2"]);
        add("lf\n");
        rotate();
        add("3\n");
        rotate();
        add("4\n");
        for follower in [&mut follower, &mut early] {
            assert_eq!(follower.next(&files), ["half", "3", "4"]);
            assert!(follower.next(&files).is_empty());
        }
        // Somebody deletes the record.
        fs::remove_file(&newest).unwrap();
        assert!(follower.next(&files).is_empty() || follower.next(&files).is_empty());
        add("5\n");
        assert_eq!(follower.next(&files), ["5"]);
        assert_eq!(read_all(&files, |line| line == "3").unwrap().0, ["3", "5"]);
    }
}
