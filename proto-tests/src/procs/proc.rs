//! Linux: from `/proc`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::Process;

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

/// The time of a core that a process has used.
pub fn cpu_time(pid: i32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is a name in parentheses; times in user and system mode are the 14th and 15th.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ');
    let ticks: u64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

/// The number after `name` in a file of `/proc`, without its unit.
fn number(file: impl AsRef<Path>, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}
