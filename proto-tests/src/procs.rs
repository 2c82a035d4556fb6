//! Inspects processes from the outside, through `/proc`.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// A snapshot of one process.
#[derive(Debug, Clone)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    pub zombie: bool,
    pub cmdline: String,
}

pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter_map(find).collect()
}

pub fn find(pid: i32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain anything, so parsing starts after the last `)`.
    let mut fields = stat.get(stat.rfind(')')? + 2..)?.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let cmdline = String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/cmdline")).ok()?).replace('\0', " ");
    Some(Process { pid, parent, zombie: matches!(state, "Z" | "X"), cmdline: cmdline.trim_end().to_owned() })
}

/// Whether it is running; a zombie is not.
pub fn alive(pid: i32) -> bool {
    find(pid).is_some_and(|process| !process.zombie)
}

/// Running processes that mention `mark` in their environment, arguments or working directory.
pub fn marked(mark: &str) -> Vec<Process> {
    let mentions = |pid: i32| {
        let holds = |file: &str| {
            fs::read(format!("/proc/{pid}/{file}"))
                .is_ok_and(|bytes| bytes.windows(mark.len()).any(|window| window == mark.as_bytes()))
        };
        let cwd = || {
            fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.to_string_lossy().contains(mark))
        };
        holds("environ") || holds("cmdline") || cwd()
    };
    let myself = i32::try_from(std::process::id()).unwrap();
    all()
        .into_iter()
        .filter(|process| !process.zombie && process.pid != myself && mentions(process.pid))
        .collect()
}

/// All descendants of `pid`, including zombies.
pub fn descendants(pid: i32) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in all() {
        children.entry(process.parent).or_default().push(process);
    }
    let (mut found, mut look_at) = (Vec::new(), vec![pid]);
    while let Some(pid) = look_at.pop() {
        for process in children.remove(&pid).unwrap_or_default() {
            look_at.push(process.pid);
            found.push(process);
        }
    }
    found
}

pub fn rss_kib(pid: i32) -> u64 {
    number(format!("/proc/{pid}/status"), "VmRSS:")
}

/// Proportional set size: private memory plus its share of shared memory.
pub fn pss_kib(pid: i32) -> u64 {
    number(format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

/// How often each thread of a process has waited for something so far, by its id.
pub fn wake_ups(pid: i32) -> BTreeMap<OsString, u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let count = |thread: &fs::DirEntry| number(thread.path().join("status"), "voluntary_ctxt_switches:");
    threads.map(|thread| (thread.file_name(), count(&thread))).collect()
}

pub fn threads(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

pub fn fds(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// The number after `name` in a file of `/proc`, without its unit.
fn number(file: impl AsRef<Path>, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_can_see_itself() {
        let myself = i32::try_from(std::process::id()).unwrap();
        assert!(alive(myself));
        assert!(rss_kib(myself) > 0 && pss_kib(myself) > 0 && threads(myself) > 0 && fds(myself) > 2);
        assert!(!alive(i32::MAX));
        let before = wake_ups(myself);
        std::thread::sleep(std::time::Duration::from_millis(1));
        // Threads of other tests may have ended meanwhile.
        assert!(
            wake_ups(myself).iter().any(|(thread, count)| before.get(thread).is_some_and(|was| count > was))
        );
    }
}
