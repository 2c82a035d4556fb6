//! macOS: from the output of `ps` and `lsof`.
#![allow(clippy::disallowed_methods, reason = "asks the system for its processes")]
#![cfg_attr(
    not(target_os = "macos"),
    allow(dead_code, unreachable_pub, reason = "its tests run on every system")
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

use super::Process;

/// The columns of [`parse`]. A comma would be a part of the heading in some versions of `ps`.
const COLUMNS: [&str; 8] = ["-o", "pid=", "-o", "ppid=", "-o", "stat=", "-o", "command="];

pub fn all() -> Vec<Process> {
    parse(&output("ps", &[&["-A", "-w", "-w"], &COLUMNS[..]].concat()))
}

pub fn find(pid: i32) -> Option<Process> {
    parse(&output("ps", &[&["-w", "-w"], &COLUMNS[..], &["-p", &pid.to_string()]].concat())).pop()
}

/// Running processes that mention `mark` in their environment or arguments. macOS does not show the environment of
/// its own programs.
pub fn marked(mark: &str) -> Vec<Process> {
    let myself = i32::try_from(std::process::id()).unwrap();
    let everyone = parse(&output("ps", &[&["-A", "-E", "-w", "-w"], &COLUMNS[..]].concat()));
    everyone
        .into_iter()
        .filter(|process| !process.zombie && process.pid != myself && process.cmdline.contains(mark))
        .filter_map(|process| find(process.pid))
        .collect()
}

pub fn rss_kib(pid: i32) -> u64 {
    output("ps", &["-o", "rss=", "-p", &pid.to_string()]).trim().parse().unwrap_or(0)
}

/// Resident memory: macOS reports no shares of shared memory.
pub fn pss_kib(pid: i32) -> u64 {
    rss_kib(pid)
}

/// macOS does not report them.
pub fn wake_ups(_: i32) -> BTreeMap<OsString, u64> {
    BTreeMap::new()
}

pub fn threads(pid: i32) -> usize {
    output("ps", &["-M", "-p", &pid.to_string()]).lines().count().saturating_sub(1)
}

pub fn fds(pid: i32) -> usize {
    count_descriptors(&output("lsof", &["-n", "-P", "-p", &pid.to_string(), "-F", "f"]))
}

/// The time of a core that a process has used.
pub fn cpu_time(pid: i32) -> Duration {
    seconds(output("ps", &["-o", "cputime=", "-p", &pid.to_string()]).trim())
}

/// `12:34.56`, or with hours in front.
fn seconds(time: &str) -> Duration {
    let parts = time.split(':').filter_map(|part| part.parse::<f64>().ok());
    Duration::from_secs_f64(parts.fold(0.0, |whole, part| whole * 60.0 + part))
}

fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).env("LC_ALL", "C").output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// Pid, parent, state and arguments on each line.
fn parse(text: &str) -> Vec<Process> {
    let process = |line: &str| {
        let (pid, rest) = line.trim_start().split_once(' ')?;
        let (parent, rest) = rest.trim_start().split_once(' ')?;
        let (state, cmdline) = rest.trim_start().split_once(' ').unwrap_or((rest.trim(), ""));
        Some(Process {
            pid: pid.parse().ok()?,
            parent: parent.parse().ok()?,
            zombie: state.starts_with('Z'),
            cmdline: cmdline.trim().to_owned(),
        })
    };
    text.lines().filter_map(process).collect()
}

/// `lsof -F f` prints `f` and the number of each descriptor, and `fcwd` and the like for other files.
fn count_descriptors(text: &str) -> usize {
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    text.lines().filter(|line| line.strip_prefix('f').is_some_and(is_number)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_read_from_a_list() {
        let text = "    1     0 Ss   /sbin/launchd\n  510     1 S+   node a.js --port 1\n  511   510 Z    (sh)\n  PID  PPID STAT COMMAND\n";
        let found: Vec<_> =
            parse(text).into_iter().map(|one| (one.pid, one.parent, one.zombie, one.cmdline)).collect();
        let expected =
            [(1, 0, false, "/sbin/launchd"), (510, 1, false, "node a.js --port 1"), (511, 510, true, "(sh)")];
        assert_eq!(
            found,
            expected.map(|(pid, parent, zombie, words)| (pid, parent, zombie, words.to_owned()))
        );
    }

    /// The columns are known to every `ps`.
    #[test]
    fn the_list_of_this_system_holds_this_process() {
        let myself = i32::try_from(std::process::id()).unwrap();
        let found = find(myself).unwrap();
        assert!(!found.zombie && found.parent == i32::try_from(std::os::unix::process::parent_id()).unwrap());
        assert!(all().iter().any(|process| process.pid == myself));
        assert!(find(i32::MAX).is_none() && rss_kib(myself) > 0);
    }

    #[test]
    fn times_are_minutes_and_seconds() {
        assert_eq!(seconds("0:01.50"), Duration::from_millis(1500));
        assert_eq!(seconds("1:02:03"), Duration::from_secs(3723));
        assert_eq!(seconds(""), Duration::ZERO);
    }

    #[test]
    fn only_numbers_are_descriptors() {
        assert_eq!(count_descriptors("p77\nfcwd\nftxt\nf0\nf1\nf12\n"), 3);
    }
}
