//! Inspects processes from the outside: on Linux through `/proc`, on macOS with `ps`.

#[cfg(not(target_os = "macos"))]
mod proc;
#[cfg(any(target_os = "macos", test))]
mod ps;

use std::collections::HashMap;

#[cfg(not(target_os = "macos"))]
pub use proc::{all, cpu_time, fds, find, marked, pss_kib, rss_kib, threads, wake_ups};
#[cfg(target_os = "macos")]
pub use ps::{all, cpu_time, fds, find, marked, pss_kib, rss_kib, threads, wake_ups};

/// A snapshot of one process.
#[derive(Debug, Clone)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    pub zombie: bool,
    pub cmdline: String,
}

/// Whether it is running; a zombie is not.
pub fn alive(pid: i32) -> bool {
    find(pid).is_some_and(|process| !process.zombie)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_can_see_itself() {
        let myself = i32::try_from(std::process::id()).unwrap();
        assert!(alive(myself));
        assert!(rss_kib(myself) > 0 && pss_kib(myself) > 0 && threads(myself) > 0 && fds(myself) > 2);
        assert!(!alive(i32::MAX));
        let used = cpu_time(myself);
        crate::wait::until_true("a core to work", crate::TEST_TIMEOUT, || {
            (0..1_000_000_u64).map(std::hint::black_box).sum::<u64>();
            cpu_time(myself) > used
        });
        let before = wake_ups(myself);
        std::thread::sleep(std::time::Duration::from_millis(1));
        // Threads of other tests may have ended meanwhile.
        let has_waited =
            wake_ups(myself).iter().any(|(thread, count)| before.get(thread).is_some_and(|was| count > was));
        assert_eq!(has_waited, cfg!(target_os = "linux"));
    }
}
