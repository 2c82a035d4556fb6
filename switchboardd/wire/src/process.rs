//! Inspects processes that this one did not start.

#[cfg(target_os = "macos")]
mod libproc;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// What the kernel says of a process at one moment: on Linux by `/proc`, on macOS by `libproc`.
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
    /// Distinguishes the process from another that got the same pid: on Linux ticks since the machine was
    /// started, on macOS microseconds since 1970.
    pub start_time: u64,
}

/// What macOS says of a process (`struct proc_bsdinfo`), as far as it is used.
#[cfg(any(target_os = "macos", test))]
struct BsdInfo<'a> {
    status: u32,
    parent: u32,
    group: u32,
    session: u32,
    seconds: u64,
    microseconds: u64,
    /// Up to its first zero byte.
    name: &'a [u8],
}

impl Stat {
    /// `None` if the process is gone, or if `/proc` does not show it: with `hidepid`, a process sees only
    /// those that it could debug, and daemon and guards let nobody debug them.
    #[cfg(not(target_os = "macos"))]
    pub fn of(pid: u32) -> Option<Self> {
        Self::parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// `None` if the process is gone, has ended and was not reaped, or is another user's.
    #[cfg(target_os = "macos")]
    pub fn of(pid: u32) -> Option<Self> {
        libproc::stat_of(pid)
    }

    #[cfg(any(target_os = "macos", test))]
    fn of_bsd_info(info: &BsdInfo<'_>) -> Self {
        // `SSTOP` and `SZOMB` of `sys/proc.h`.
        let (stopped, zombie) = (info.status == 4, info.status == 5);
        let length = info.name.iter().position(|byte| *byte == 0).unwrap_or(info.name.len());
        Self {
            program: String::from_utf8_lossy(&info.name[..length]).into_owned(),
            zombie,
            stopped,
            parent: info.parent,
            group: info.group,
            session: info.session,
            start_time: info.seconds * 1_000_000 + info.microseconds,
        }
    }

    #[cfg(any(not(target_os = "macos"), test))]
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
        None => signalled(pid).is_some_and(|answer| runs_unseen(answer, SHOWS_OUR_OWN)),
    }
}

/// Whether [`Stat::of`] shows every process of ours that runs. Linux may hide some, macOS none.
const SHOWS_OUR_OWN: bool = cfg!(target_os = "macos");

/// Whether a process runs that [`Stat::of`] does not show, by the answer to signal 0. macOS accepts a signal to
/// a zombie.
fn runs_unseen(answer: Result<(), Errno>, shows_our_own: bool) -> bool {
    match answer {
        Ok(()) => !shows_our_own,
        Err(error) => error != Errno::SRCH,
    }
}

/// Whether this pid is still the process that started at `start_time`. If `/proc` does not show it, the
/// process must exist and we must be allowed to signal it.
pub fn is_same(pid: u32, start_time: Option<u64>) -> bool {
    match Stat::of(pid) {
        Some(stat) => !stat.zombie && start_time == Some(stat.start_time),
        None => signalled(pid) == Some(Ok(())) && !SHOWS_OUR_OWN,
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
    fn what_macos_says_of_a_process_is_read() {
        let mut name = [0; 16];
        name[..2].copy_from_slice(b"sh");
        let info = |status| BsdInfo {
            status,
            parent: 7,
            group: 8,
            session: 9,
            seconds: 1_700_000_000,
            microseconds: 42,
            name: &name,
        };
        let stat = Stat::of_bsd_info(&info(2));
        assert_eq!((stat.program.as_str(), stat.parent, stat.group, stat.session), ("sh", 7, 8, 9));
        assert_eq!(stat.start_time, 1_700_000_000_000_042);
        for (status, stopped, zombie) in
            [(1, false, false), (2, false, false), (4, true, false), (5, false, true)]
        {
            let stat = Stat::of_bsd_info(&info(status));
            assert_eq!((stat.stopped, stat.zombie), (stopped, zombie), "{status}");
        }
        // A name that fills its field has no zero byte.
        let long = BsdInfo { name: &[b'x'; 16], ..info(2) };
        assert_eq!(Stat::of_bsd_info(&long).program, "x".repeat(16));
    }

    #[test]
    fn a_process_that_is_not_shown_runs_only_if_it_may_be_hidden() {
        for (answer, shows_our_own, runs) in [
            (Ok(()), false, true),
            // A zombie of macOS.
            (Ok(()), true, false),
            (Err(Errno::PERM), false, true),
            (Err(Errno::PERM), true, true),
            (Err(Errno::SRCH), false, false),
            (Err(Errno::SRCH), true, false),
        ] {
            assert_eq!(runs_unseen(answer, shows_our_own), runs, "{answer:?} {shows_our_own}");
        }
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
