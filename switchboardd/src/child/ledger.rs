//! What a daemon would leave behind if it and a guard were killed together, written down so that the
//! next daemon can clear it up.
//!
//! Each run has a mark that all its children carry in their environment, and their descendants with
//! them. The ledger holds the marks of runs that did not end well; containers have a file each with
//! their id.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use switchboard_wire::place::private_folder;

use super::descent::{Process, all};
use crate::event_loop::may_block;
use crate::files::replace;

/// The variable that marks a child and everything it starts.
pub(super) const MARK: &str = "SWITCHBOARD_RUN";

/// Runs that are remembered.
const MAX_MARKS: usize = 16;

/// How long what is swept may take to end after TERM.
const GRACE: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct Ledger {
    /// `None` where nothing is to be kept, as in a dry run.
    file: Option<PathBuf>,
    mark: String,
    containers: AtomicU64,
}

impl Ledger {
    /// Takes over what an earlier run left in `file`, and gives it to be swept.
    pub fn open(file: PathBuf) -> (Self, Leftovers) {
        let before = fs::read_to_string(&file).unwrap_or_default();
        let leftovers = Leftovers {
            marks: before.lines().filter(|mark| !mark.is_empty()).map(ToOwned::to_owned).collect(),
            containers: container_folder(&file),
        };
        let ledger = Self::new(Some(file));
        // Earlier marks stay until a run ends well: what is swept now may be interrupted.
        let keep: Vec<&str> = before.lines().rev().take(MAX_MARKS).collect();
        ledger.write(&format!("{}\n{}\n", keep.join("\n"), ledger.mark));
        (ledger, leftovers)
    }

    /// A ledger that nobody will read.
    pub fn unwritten() -> Self {
        Self::new(None)
    }

    fn new(file: Option<PathBuf>) -> Self {
        Self { file, mark: crate::random::hex(16), containers: AtomicU64::new(0) }
    }

    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// All our children are gone.
    pub fn close(&self) {
        if let Some(file) = &self.file {
            let _ = fs::remove_file(file);
        }
    }

    /// Notes a container of this run: which program stops it and which file has its id, its own or one
    /// of ours. Gives the note and that file.
    pub(super) fn note_container(&self, program: &Path, own: Option<PathBuf>) -> Option<(PathBuf, PathBuf)> {
        let folder = container_folder(self.file.as_deref()?);
        private_folder(&folder).ok()?;
        let number = self.containers.fetch_add(1, Ordering::Relaxed);
        let note = folder.join(format!("{}-{number}", self.mark));
        let id = own.unwrap_or_else(|| note.with_extension("cid"));
        replace(&note, format!("{}\n{}", program.display(), id.display()).as_bytes()).ok()?;
        Some((note, id))
    }

    fn write(&self, body: &str) {
        if let Some(file) = &self.file
            && let Err(error) = replace(file, body.as_bytes())
        {
            tracing::warn!(target: "ledger", "`{}` could not be written: {error}", file.display());
        }
    }
}

fn container_folder(ledger: &Path) -> PathBuf {
    ledger.with_extension("containers")
}

/// What an earlier run may have left.
#[derive(Debug)]
pub struct Leftovers {
    marks: Vec<String>,
    containers: PathBuf,
}

impl Leftovers {
    /// Ends every process that carries an earlier run's mark, and every container with a file.
    pub fn sweep(&self) {
        may_block();
        if self.marks.is_empty() {
            return;
        }
        for entry in fs::read_dir(&self.containers).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let ours = |mark: &String| name.starts_with(mark.as_str());
            if path.extension().is_none() && self.marks.iter().any(ours) {
                stop_container(&path);
            }
        }
        let kill_from = Instant::now() + GRACE;
        let mut told = false;
        loop {
            let left = marked(&self.marks);
            if left.is_empty() {
                return;
            }
            if !told {
                tracing::warn!(target: "ledger", processes = left.len(), "clearing up after an earlier run");
                left.iter().for_each(|process| process.signal(Signal::TERM));
                told = true;
            } else if Instant::now() > kill_from {
                left.iter().for_each(|process| process.signal(Signal::KILL));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Processes that carry the mark of one of these runs.
pub fn marked(marks: &[impl AsRef<str>]) -> Vec<Process> {
    let uid = rustix::process::geteuid().as_raw();
    let me = std::process::id();
    let carries = |process: &Process| {
        let proc = PathBuf::from(format!("/proc/{}", process.id));
        let ours = fs::metadata(&proc).is_ok_and(|meta| meta.uid() == uid);
        ours && fs::read(proc.join("environ")).is_ok_and(|environ| {
            environ.split(|byte| *byte == 0).any(|entry| {
                let entry = entry.strip_prefix(MARK.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
                entry.is_some_and(|mark| marks.iter().any(|known| known.as_ref().as_bytes() == mark))
            })
        })
    };
    all().into_iter().filter(|process| !process.zombie && process.id != me && carries(process)).collect()
}

/// Stops the container that a note is about, with the program that started it.
#[expect(clippy::disallowed_methods, reason = "a container is stopped by its own program")]
pub(super) fn stop_container(note: &Path) {
    let text = fs::read_to_string(note).unwrap_or_default();
    let Some((program, file)) = text.split_once('\n') else { return };
    let id = fs::read_to_string(file).unwrap_or_default();
    if !id.trim().is_empty() {
        let stopped = std::process::Command::new(program)
            .args(["stop", "-t", "1", id.trim()])
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status();
        if let Err(error) = stopped {
            tracing::warn!(target: "ledger", "container {} could not be stopped: {error}", id.trim());
        }
    }
    let _ = fs::remove_file(file);
    let _ = fs::remove_file(note);
}
