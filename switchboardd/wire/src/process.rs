//! Inspects processes that this one did not start.

use std::fs;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// What `/proc` says of a process at one moment. Not available where there is no `/proc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// The kernel's name for its program, non-UTF-8 bytes replaced.
    pub program: String,
    pub zombie: bool,
    /// Stopped by a signal or a debugger.
    pub stopped: bool,
    pub parent: u32,
    pub group: u32,
    pub session: u32,
    /// Distinguishes the process from another that got the same pid.
    pub start_time: u64,
}

impl Stat {
    /// `None` if the process is gone, or if `/proc` does not show it: with `hidepid`, a process sees only
    /// those that it could debug, and daemon and guards let nobody debug them.
    pub fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(stat: &[u8]) -> Option<Self> {
        // The name may contain any bytes, even `)`, so the fields are counted from its end.
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        let begin = stat.iter().position(|byte| *byte == b'(')?;
        let program = String::from_utf8_lossy(stat.get(begin + 1..end)?).into_owned();
        let rest = std::str::from_utf8(stat.get(end + 2..)?).ok()?;
        let mut fields = rest.split(' ');
        let state = fields.next()?;
        let (zombie, stopped) = (matches!(state, "Z" | "X"), matches!(state, "T" | "t"));
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let session = fields.next()?.parse().ok()?;
        let start_time = fields.nth(15)?.parse().ok()?;
        Some(Self { program, zombie, stopped, parent, group, session, start_time })
    }
}

/// Whether a process runs. A zombie does not.
pub fn is_running(pid: u32) -> bool {
    match Stat::of(pid) {
        Some(stat) => !stat.zombie,
        None => signalled(pid).is_some_and(|answer| answer != Err(Errno::SRCH)),
    }
}

/// Whether this pid is still the process that started at `start_time`. If `/proc` does not show it, the
/// process must exist and we must be allowed to signal it.
pub fn is_same(pid: u32, start_time: Option<u64>) -> bool {
    match Stat::of(pid) {
        Some(stat) => !stat.zombie && start_time == Some(stat.start_time),
        None => signalled(pid) == Some(Ok(())),
    }
}

/// The result of signal 0. `None` if the pid is invalid.
fn signalled(pid: u32) -> Option<Result<(), Errno>> {
    i32::try_from(pid).ok().and_then(Pid::from_raw).map(test_kill_process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_may_contain_anything() {
        let fields = "T 7 8 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 0";
        for name in ["sh", "a) b", "(x", "\u{fffd})"] {
            let stat = Stat::parse(format!("12 ({name}) {fields}").as_bytes()).unwrap();
            assert_eq!((stat.program.as_str(), stat.parent, stat.start_time), (name, 7, 4711));
            assert_eq!((stat.group, stat.session, stat.stopped, stat.zombie), (8, 9, true, false));
        }
        assert!(Stat::parse(b"12 (sh").is_none());
    }

    #[test]
    fn only_an_existing_process_runs() {
        assert!(is_running(std::process::id()));
        for nobody in [0, i32::MAX.cast_unsigned(), u32::MAX] {
            assert!(!is_running(nobody) && !is_same(nobody, None) && !is_same(nobody, Some(1)), "{nobody}");
        }
        if let Some(stat) = Stat::of(std::process::id()) {
            assert!(is_same(std::process::id(), Some(stat.start_time)));
            assert!(!is_same(std::process::id(), Some(stat.start_time + 1)));
            assert!(!is_same(std::process::id(), None));
        }
    }
}
