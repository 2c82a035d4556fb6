//! The process tree: on Linux from `/proc`, on macOS from `libproc` and `ps`.

use std::fs;

use rustix::process::{Pid, Signal};
use switchboard_wire::event_loop::may_block;
use switchboard_wire::process::Stat;

/// A process at one moment. Its start time distinguishes it from a later process with the same pid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub id: u32,
    pub parent: u32,
    pub start_time: u64,
    pub group: u32,
    pub session: u32,
    /// Its first thread has ended; other threads may still run.
    pub zombie: bool,
    /// It was stopped by a signal or a debugger.
    pub stopped: bool,
}

impl Process {
    /// `None` once it is gone.
    pub fn look_up(id: u32) -> Option<Self> {
        may_block();
        let Stat { zombie, stopped, parent, group, session, start_time, .. } = Stat::of(id)?;
        Some(Self { id, parent, start_time, group, session, zombie, stopped })
    }

    /// Signals this process. On Linux, never another one that got its pid since; on macOS, one that got it in the
    /// moment between the look and the signal.
    pub fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.id.cast_signed()) else { return };
        #[cfg(target_os = "linux")]
        {
            let Ok(fd) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) else {
                return;
            };
            if Self::look_up(self.id).is_some_and(|now| now.start_time == self.start_time) {
                let _ = rustix::process::pidfd_send_signal(fd, signal);
            }
        }
        #[cfg(not(target_os = "linux"))]
        if Self::look_up(self.id).is_some_and(|now| now.start_time == self.start_time) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

pub fn all() -> Vec<Process> {
    may_block();
    all_ids().into_iter().filter_map(Process::look_up).collect()
}

#[cfg(not(target_os = "macos"))]
fn all_ids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(target_os = "macos")]
use crate::ps::all_ids;

pub fn children_of(parent: u32) -> Vec<Process> {
    match child_ids_of(parent) {
        Some(ids) => ids.into_iter().filter_map(Process::look_up).collect(),
        None => all().into_iter().filter(|process| process.parent == parent).collect(),
    }
}

/// Only the pids. `None` if the kernel does not provide this list: then all processes have to be read.
pub fn child_ids_of(parent: u32) -> Option<Vec<u32>> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).ok()?;
    let mut ids = Vec::new();
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(list) => ids.extend(list.split_whitespace().filter_map(|id| id.parse::<u32>().ok())),
            // If the thread still exists, the kernel has no such lists; otherwise it has just ended.
            Err(_) if thread.path().exists() => return None,
            Err(_) => {}
        }
    }
    Some(ids)
}

/// The children of the first thread, including the orphans that the process has adopted.
pub fn child_ids_of_first_thread(parent: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// All descendants, by one list of all processes.
#[cfg(target_os = "macos")]
pub fn family_now(root: u32) -> Vec<Process> {
    family_of(root, &all())
}

/// All descendants, by the kernel's lists of children: fast, but may miss processes that move meanwhile.
#[cfg(not(target_os = "macos"))]
pub fn family_now(root: u32) -> Vec<Process> {
    let mut found = children_of(root);
    let mut next = 0;
    while next < found.len() {
        let parent = found[next].id;
        next += 1;
        for process in children_of(parent) {
            if process.id != root && found.iter().all(|known| known.id != process.id) {
                found.push(process);
            }
        }
    }
    found
}

fn family_of(root: u32, everyone: &[Process]) -> Vec<Process> {
    let mut family = vec![root];
    let mut found: Vec<Process> = Vec::new();
    let mut next = 0;
    while next < family.len() {
        let parent = family[next];
        next += 1;
        for process in everyone.iter().filter(|process| process.parent == parent) {
            if !family.contains(&process.id) {
                family.push(process.id);
                found.push(process.clone());
            }
        }
    }
    found
}

/// Memory of a process and all its descendants in bytes. Shared pages are counted proportionally (PSS), on macOS
/// in full.
pub fn memory_of(root: u32) -> u64 {
    memory_of_each(&[root]).first().map_or(0, |(_, bytes)| *bytes)
}

/// Like [`memory_of`] for several processes, with one scan of all processes.
pub fn memory_of_each(roots: &[u32]) -> Vec<(u32, u64)> {
    if roots.is_empty() {
        return Vec::new();
    }
    let everyone = all();
    let weigh = |root: u32| {
        let family = family_of(root, &everyone);
        let pids = std::iter::once(root).chain(family.iter().map(|process| process.id));
        (root, pids.filter_map(proportional).sum())
    };
    roots.iter().copied().map(weigh).collect()
}

/// Resident memory of this process in bytes; `None` if the system does not report it.
#[cfg(target_os = "macos")]
pub fn own_memory() -> Option<u64> {
    resident(std::process::id())
}

/// Resident memory of this process in bytes; `None` if the system does not report it.
#[cfg(not(target_os = "macos"))]
pub fn own_memory() -> Option<u64> {
    may_block();
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// What another copy of a process and its descendants would take: their private dirty pages. Pages of
/// files would be shared.
pub fn memory_of_copy(root: u32) -> u64 {
    let everyone = all();
    let family = family_of(root, &everyone);
    std::iter::once(root).chain(family.iter().map(|process| process.id)).filter_map(private).sum()
}

/// macOS tells nothing of private pages without `unsafe`: what is resident is more.
#[cfg(target_os = "macos")]
fn private(pid: u32) -> Option<u64> {
    resident(pid)
}

#[cfg(target_os = "macos")]
pub fn proportional(pid: u32) -> Option<u64> {
    resident(pid)
}

/// What the process has in memory, shared pages included.
#[cfg(target_os = "macos")]
fn resident(pid: u32) -> Option<u64> {
    task_info(pid).map(|info| info.pti_resident_size)
}

#[cfg(target_os = "macos")]
pub fn virtual_memory(pid: u32) -> Option<u64> {
    task_info(pid).map(|info| info.pti_virtual_size)
}

#[cfg(target_os = "macos")]
fn task_info(pid: u32) -> Option<proc_pidinfo::ProcTaskInfo> {
    may_block();
    proc_pidinfo::proc_pidinfo(proc_pidinfo::Pid(pid)).ok().flatten()
}

#[cfg(not(target_os = "macos"))]
fn private(pid: u32) -> Option<u64> {
    of_rollup(pid, "Private_Dirty:").or_else(|| in_file(pid, "status", "RssAnon:"))
}

/// Memory of one process, including its share of shared pages. Of a process that is not readable, as our
/// guards, only its anonymous memory is known.
#[cfg(not(target_os = "macos"))]
pub fn proportional(pid: u32) -> Option<u64> {
    of_rollup(pid, "Pss:").or_else(|| in_file(pid, "status", "RssAnon:"))
}

#[cfg(not(target_os = "macos"))]
fn of_rollup(pid: u32, what: &str) -> Option<u64> {
    in_file(pid, "smaps_rollup", what)
}

/// The value of a line in a file below `/proc/<pid>`, in bytes.
#[cfg(not(target_os = "macos"))]
fn in_file(pid: u32, file: &str, what: &str) -> Option<u64> {
    may_block();
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(what))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test's own parent is not looked up: in a container it may be outside, and its pid is then 0.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a process to look up")]
    fn a_process_is_found_with_its_parent() {
        let me = Process::look_up(std::process::id()).unwrap();
        assert_eq!(me.parent, std::os::unix::process::parent_id());
        assert!(!me.zombie && !me.stopped && me.start_time > 0);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let is_child = |process: &Process| process.id == child.id();
        let (found, now) = (Process::look_up(child.id()), family_now(me.id));
        let (is_in_now, is_in_all) =
            (now.iter().any(is_child), family_of(me.id, &all()).iter().any(is_child));
        child.kill().unwrap();
        child.wait().unwrap();
        let found = found.unwrap();
        assert_eq!((found.parent, found.session, found.group), (me.id, me.session, me.group));
        assert!(is_in_now && is_in_all);
    }
}
