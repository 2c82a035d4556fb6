//! Records what a daemon would leave behind if it were killed, so that the next daemon can clear it up.
//!
//! Each run has a mark in the environment of its children, which their descendants inherit. The run log
//! holds the marks of the runs that did not end cleanly. Each guard has a note while it lives, with the
//! pids of guard and child, because a child may drop its environment and stop its guard. Each container
//! has a file with its id.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use switchboard_definitions::files::replace;
use switchboard_wire::event_loop::{may_block, run_blocking_detached};
use switchboard_wire::runtime_paths::private_folder;

use switchboard_guard::container::stop_container;
use switchboard_guard::kill_sequence::{KillSequence, real_now};
use switchboard_guard::process_tree::{Process, family_now};
use switchboard_guard::ps::GUARD_VARIABLE;

/// The environment variable that marks a child and its descendants.
pub(super) const RUN_VARIABLE: &str = "SWITCHBOARD_RUN";

/// How many runs are remembered.
const MAX_MARKS: usize = 16;

/// How long processes of an earlier run may take to end after TERM.
const GRACE: Duration = Duration::from_millis(500);

/// For this long, a guard of an earlier run that still works may clear up itself, which it does best.
const GUARD_GRACE: Duration = Duration::from_secs(15);

/// For this long, a guard that its child has stopped is continued.
const CONTINUE: Duration = Duration::from_secs(5);

/// A process that cannot be killed in this time is left for the next start.
const KILL_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub struct RunLog {
    /// `None` if nothing is recorded, as in a dry run.
    file: Option<PathBuf>,
    mark: String,
    notes: AtomicU64,
}

/// The note of one guard. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct GuardNote {
    file: PathBuf,
}

/// The role of a process in a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Guard,
    Child,
}

impl Role {
    fn as_str(self) -> &'static str {
        match self {
            Self::Guard => "guard",
            Self::Child => "child",
        }
    }
}

impl GuardNote {
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// The environment variable that marks the processes of this guard, where it cannot adopt them.
    pub(super) fn mark(&self) -> Option<(&'static str, OsString)> {
        let name = self.file.file_name().filter(|_| cfg!(target_os = "macos"))?;
        Some((GUARD_VARIABLE, name.to_owned()))
    }

    /// Adds a process to the note.
    pub(super) fn add(&self, role: Role, id: u32) {
        // Without its start time the process cannot be identified later, but the other line still counts.
        let start_time = Process::look_up(id).map_or(0, |process| process.start_time);
        let line = format!("{} {} {id} {start_time}\n", role.as_str(), boot());
        // No `sync`: if the machine goes down, no processes are left.
        let file = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&self.file);
        if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
            tracing::warn!(target: "ledger", "`{}` could not be written: {error}", self.file.display());
        }
    }
}

impl Drop for GuardNote {
    fn drop(&mut self) {
        let file = std::mem::take(&mut self.file);
        // A start that failed or was abandoned may drop this on the event loop.
        run_blocking_detached(move || {
            may_block();
            let _ = fs::remove_file(file);
        });
    }
}

/// Identifies the boot: pids and start times begin again with each. On macOS a start time is a time of the clock,
/// and needs no boot.
fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    if id.trim().is_empty() { "-".to_owned() } else { id.trim().to_owned() }
}

impl RunLog {
    /// Begins a new run in `file`, and returns what earlier runs left behind.
    pub fn open(file: PathBuf) -> (Self, StaleRuns) {
        let stale_runs = StaleRuns::of(&file);
        // Earlier marks stay until a run ends cleanly: the sweep may be interrupted.
        let keep: Vec<&str> = stale_runs.marks.iter().rev().take(MAX_MARKS).map(String::as_str).collect();
        let keep = keep.join("\n");
        let run_log = Self::new(Some(file));
        run_log.write(&format!("{keep}\n{}\n", run_log.mark));
        (run_log, stale_runs)
    }

    /// A run log without a file.
    pub fn unwritten() -> Self {
        Self::new(None)
    }

    fn new(file: Option<PathBuf>) -> Self {
        Self { file, mark: switchboard_wire::random::hex(16), notes: AtomicU64::new(0) }
    }

    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// Removes the log: all children are gone.
    pub fn close(&self) {
        if let Some(file) = &self.file {
            let _ = fs::remove_file(file);
        }
    }

    /// Notes a container of this run: the program that stops it, and the file with its id, which is `own` or
    /// one of ours. Returns the note and that file.
    pub(super) fn note_container(&self, program: &Path, own: Option<PathBuf>) -> Option<(PathBuf, PathBuf)> {
        let folder = container_folder(self.file.as_deref()?);
        private_folder(&folder).ok()?;
        let note = folder.join(self.next_name());
        let id = own.unwrap_or_else(|| note.with_extension("cid"));
        replace(&note, format!("{}\n{}", program.display(), id.display()).as_bytes()).ok()?;
        Some((note, id))
    }

    /// A note for a guard that is about to start. `None` if nothing is recorded.
    pub(super) fn note_guard(&self) -> Option<GuardNote> {
        let folder = guard_folder(self.file.as_deref()?);
        private_folder(&folder).ok()?;
        Some(GuardNote { file: folder.join(self.next_name()) })
    }

    fn next_name(&self) -> String {
        format!("{}-{}", self.mark, self.notes.fetch_add(1, Ordering::Relaxed))
    }

    fn write(&self, body: &str) {
        if let Some(file) = &self.file
            && let Err(error) = replace(file, body.as_bytes())
        {
            tracing::warn!(target: "ledger", "`{}` could not be written: {error}", file.display());
        }
    }
}

fn container_folder(run_log: &Path) -> PathBuf {
    run_log.with_extension("containers")
}

fn guard_folder(run_log: &Path) -> PathBuf {
    run_log.with_extension("guards")
}

/// What earlier runs may have left behind.
#[derive(Debug)]
pub struct StaleRuns {
    marks: Vec<String>,
    containers: PathBuf,
    guards: PathBuf,
}

/// Processes that earlier runs left behind.
#[derive(Debug, Default)]
struct StaleProcesses {
    /// Guards with their descendants: which processes a guard adopted is known only while it exists.
    guards: Vec<(Process, Vec<Process>)>,
    /// All other processes that are to end.
    others: Vec<Process>,
}

impl StaleRuns {
    pub fn of(run_log: &Path) -> Self {
        let text = fs::read_to_string(run_log).unwrap_or_default();
        Self {
            marks: text.lines().filter(|mark| !mark.is_empty()).map(ToOwned::to_owned).collect(),
            containers: container_folder(run_log),
            guards: guard_folder(run_log),
        }
    }

    /// All processes that earlier runs left behind.
    pub fn processes(&self) -> Vec<Process> {
        let StaleProcesses { guards, others } = self.find_processes();
        guards.into_iter().map(|(guard, _)| guard).chain(others).filter(|process| !process.zombie).collect()
    }

    /// Ends all processes that earlier runs left behind, and stops their containers.
    pub fn sweep(&self) {
        may_block();
        if self.marks.is_empty() {
            return;
        }
        for note in self.notes_in(&self.containers) {
            if let Err(why) = stop_container(&note) {
                tracing::warn!(target: "ledger", "{why}");
            }
        }
        if self.clear() {
            for note in self.notes_in(&self.guards) {
                let _ = fs::remove_file(note);
            }
        }
    }

    /// `false` if some processes could not be ended.
    fn clear(&self) -> bool {
        let begin = real_now();
        let mut clearing = KillSequence::with_grace(GRACE);
        let mut told = false;
        let mut before: HashMap<u32, Vec<u32>> = HashMap::new();
        loop {
            let StaleProcesses { guards, others } = self.find_processes();
            if guards.is_empty() && others.iter().all(|process| process.zombie) {
                return true;
            }
            if begin.elapsed() > KILL_TIMEOUT {
                let pids: Vec<u32> = others.iter().map(|process| process.id).collect();
                tracing::warn!(target: "ledger", ?pids, "processes of an earlier run cannot be ended");
                return false;
            }
            if !std::mem::replace(&mut told, true) {
                let processes = guards.len() + others.len();
                tracing::warn!(target: "ledger", processes, "clearing up after an earlier run");
            }
            let is_over = |process: &Process| process.zombie && clearing.has_killed(process);
            for (guard, family) in &guards {
                if guard.stopped && begin.elapsed() < CONTINUE {
                    guard.signal(Signal::CONT);
                    continue;
                }
                let ids: Vec<u32> = family.iter().map(|process| process.id).collect();
                // A stopped guard reaps nothing, so a process that it adopted since the
                // last pass would show up.
                let nobody_is_left =
                    family.iter().all(is_over) && before.get(&guard.id).is_some_and(|before| *before == ids);
                let has_failed = begin.elapsed() > GUARD_GRACE;
                if (guard.stopped && nobody_is_left) || has_failed {
                    guard.signal(Signal::KILL);
                }
                before.insert(guard.id, ids);
            }
            let spared: HashSet<u32> = guards.iter().map(|(guard, _)| guard.group).collect();
            std::thread::sleep(clearing.pass(&others, |group| spared.contains(&group)));
        }
    }

    fn find_processes(&self) -> StaleProcesses {
        let mut left = StaleProcesses { guards: Vec::new(), others: processes_with_marks(&self.marks) };
        let boot = boot();
        for note in self.notes_in(&self.guards) {
            let text = fs::read_to_string(note).unwrap_or_default();
            for (role, process) in text.lines().filter_map(|line| parse_note_line(line, &boot)) {
                let family = family_now(process.id);
                left.others.extend(family.iter().cloned());
                match role {
                    Role::Guard => left.guards.push((process, family)),
                    Role::Child => left.others.push(process),
                }
            }
        }
        let mut seen: HashSet<u32> = left.guards.iter().map(|(guard, _)| guard.id).collect();
        left.others.retain(|process| seen.insert(process.id));
        left
    }

    /// The notes of earlier runs in one of the folders.
    fn notes_in(&self, folder: &Path) -> Vec<PathBuf> {
        let is_of_a_run = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            path.extension().is_none() && self.marks.iter().any(|mark| name.starts_with(mark.as_str()))
        };
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(is_of_a_run).collect()
    }
}

/// The process in a line of a note, if it still runs.
fn parse_note_line(line: &str, boot: &str) -> Option<(Role, Process)> {
    let (word, rest) = line.split_once(' ')?;
    let role = [Role::Guard, Role::Child].into_iter().find(|role| role.as_str() == word)?;
    let (when, numbers) = rest.split_once(' ')?;
    let (id, start_time) = numbers.split_once(' ')?;
    let (id, start_time) = (id.parse().ok()?, start_time.parse::<u64>().ok()?);
    let process = Process::look_up(id).filter(|process| process.start_time == start_time)?;
    (when == boot && !process.zombie).then_some((role, process))
}

/// Processes that carry the mark of one of these runs, if macOS shows their environment: it does not for programs
/// of its own.
#[cfg(target_os = "macos")]
fn processes_with_marks(marks: &[String]) -> Vec<Process> {
    let me = std::process::id();
    let ids = switchboard_guard::ps::ids_with_variable(RUN_VARIABLE, marks);
    let processes = ids.into_iter().filter(|id| *id != me).filter_map(Process::look_up);
    processes.filter(|process| !process.zombie).collect()
}

/// Processes that carry the mark of one of these runs.
#[cfg(not(target_os = "macos"))]
fn processes_with_marks(marks: &[String]) -> Vec<Process> {
    use std::os::unix::fs::MetadataExt;

    use switchboard_guard::process_tree::all;
    let uid = rustix::process::geteuid().as_raw();
    let me = std::process::id();
    let carries = |process: &Process| {
        let proc = PathBuf::from(format!("/proc/{}", process.id));
        let ours = fs::metadata(&proc).is_ok_and(|meta| meta.uid() == uid);
        ours && fs::read(proc.join("environ")).is_ok_and(|environ| {
            environ.split(|byte| *byte == 0).any(|entry| {
                let entry =
                    entry.strip_prefix(RUN_VARIABLE.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
                entry.is_some_and(|mark| marks.iter().any(|known| known.as_bytes() == mark))
            })
        })
    };
    all().into_iter().filter(|process| !process.zombie && process.id != me && carries(process)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_identifies_one_process_of_one_boot() {
        let folder = tempfile::tempdir().unwrap();
        let (run_log, _) = RunLog::open(folder.path().join("ledger"));
        let note = run_log.note_guard().unwrap();
        note.add(Role::Child, std::process::id());
        let line = fs::read_to_string(note.file()).unwrap();
        let found = |line: &str| parse_note_line(line, &boot()).map(|(role, process)| (role, process.id));
        assert_eq!(found(line.trim()), Some((Role::Child, std::process::id())));
        assert_eq!(found(&format!("{}0", line.trim())), None, "another process has the number");
        let earlier = line.trim().replace(&boot(), "x");
        assert_eq!(found(&earlier), None, "the machine was started since");
        let file = note.file().to_owned();
        drop(note);
        assert!(!file.exists());
    }

    /// As with `hidepid`, or after a failed read of `/proc`.
    #[test]
    fn a_child_is_not_mistaken_for_its_invisible_guard() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ledger");
        let (run_log, _) = RunLog::open(file.clone());
        let note = run_log.note_guard().unwrap();
        note.add(Role::Guard, i32::MAX.cast_unsigned());
        note.add(Role::Child, std::process::id());
        let StaleProcesses { guards, others } = StaleRuns::of(&file).find_processes();
        assert!(guards.is_empty(), "{guards:?}");
        assert!(others.iter().any(|process| process.id == std::process::id()), "{others:?}");
        assert_eq!(fs::read_to_string(note.file()).unwrap().lines().count(), 2);
    }
}
