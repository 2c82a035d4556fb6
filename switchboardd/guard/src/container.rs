//! Stops the container of a child: ending the program that started it (`docker run`) does not.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Size limit of a container id file: the id, and a line break or two.
const MAX_CONTAINER_ID: u64 = 128;

/// Stops the container of a note, with the program that started it. The error says why that program could not be run.
#[expect(clippy::disallowed_methods, reason = "a container is stopped by its own program")]
pub fn stop_container(note: &Path) -> Result<(), String> {
    let text = fs::read_to_string(note).unwrap_or_default();
    let Some((program, file)) = text.split_once('\n') else { return Ok(()) };
    let mut outcome = Ok(());
    if let Some(id) = container_id(Path::new(file)) {
        let stopped = std::process::Command::new(program)
            .args(["stop", "-t", "1", &id])
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status();
        outcome = stopped.map(drop).map_err(|error| format!("container {id} could not be stopped: {error}"));
    }
    remove_container_id(Path::new(file));
    let _ = fs::remove_file(note);
    outcome
}

/// Removes a file with a container id. A definition may name any file, so files with other content stay.
pub fn remove_container_id(file: &Path) {
    if container_id(file).is_some() {
        let _ = fs::remove_file(file);
    }
}

/// The id in a file that an engine wrote: a regular file of this user with 64 hexadecimal digits.
fn container_id(file: &Path) -> Option<String> {
    let meta = fs::symlink_metadata(file).ok()?;
    let is_ours = meta.is_file() && meta.uid() == rustix::process::geteuid().as_raw();
    if !is_ours || meta.len() > MAX_CONTAINER_ID {
        return None;
    }
    let text = fs::read_to_string(file).ok()?;
    let id = text.trim();
    (id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_container_id_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let id = "0123456789abcdef".repeat(4);
        let is_left = |name: &str| {
            let path = folder.path().join(name);
            remove_container_id(&path);
            fs::symlink_metadata(path).is_ok()
        };
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("id", &id);
        write("line", &format!("{id}\n"));
        write("keys", "ssh-ed25519 AAAA me@here\n");
        write("empty", "");
        write("short", &id[1..]);
        write("word", &format!("{}z", &id[1..]));
        write("long", &format!("{id}{}", " ".repeat(100)));
        write("behind", &id);
        std::os::unix::fs::symlink(folder.path().join("behind"), folder.path().join("link")).unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        assert!(!is_left("id") && !is_left("line"));
        for name in ["keys", "empty", "short", "word", "long", "link", "folder"] {
            assert!(is_left(name), "{name}");
        }
        assert!(folder.path().join("behind").exists());
    }
}
