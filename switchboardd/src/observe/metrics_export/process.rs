//! What the operating system reports about this process.

use std::fs;

#[cfg(not(target_os = "macos"))]
use rustix::param::clock_ticks_per_second;
use rustix::process::{Resource, getrlimit};

use switchboard_wire::event_loop::may_block;

#[derive(Debug, Default)]
pub(super) struct ProcessStats {
    pub(super) cpu_seconds: Option<f64>,
    pub(super) virtual_memory: Option<u64>,
    pub(super) open_files: Option<u64>,
    pub(super) most_files: Option<u64>,
    /// In seconds since the epoch.
    pub(super) start_time: Option<f64>,
}

#[cfg(target_os = "macos")]
impl ProcessStats {
    pub(super) fn read() -> Self {
        use rustix::time::{ClockId, clock_gettime};
        use switchboard_guard::process_tree::{Process, virtual_memory};
        may_block();
        let own = std::process::id();
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let used = std::time::Duration::try_from(used).ok();
        let began = Process::look_up(own).map(|own| std::time::Duration::from_micros(own.start_time));
        Self {
            cpu_seconds: used.map(|used| used.as_secs_f64()),
            virtual_memory: virtual_memory(own),
            open_files: fs::read_dir("/dev/fd").ok().map(|all| all.count() as u64),
            most_files: getrlimit(Resource::Nofile).current,
            start_time: began.map(|began| began.as_secs_f64()),
        }
    }
}

#[cfg(not(target_os = "macos"))]
impl ProcessStats {
    pub(super) fn read() -> Self {
        may_block();
        let most_files = getrlimit(Resource::Nofile).current;
        let open_files = fs::read_dir("/proc/self/fd").ok().map(|all| all.count() as u64);
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let Some((_, stat)) = stat.rsplit_once(") ") else {
            return Self { most_files, open_files, ..Self::default() };
        };
        // `stat` begins at the state, which is field 3.
        let field = |at: usize| stat.split(' ').nth(at - 3)?.trim().parse::<u64>().ok();
        #[expect(
            clippy::cast_precision_loss,
            reason = "ticks of a process that runs for less than 2^52 of them"
        )]
        let seconds = |ticks: u64| ticks as f64 / clock_ticks_per_second() as f64;
        let (user, system) = (field(14), field(15));
        Self {
            cpu_seconds: user.zip(system).map(|(user, system)| seconds(user + system)),
            virtual_memory: field(23),
            open_files,
            most_files,
            start_time: field(22).zip(boot_time()).map(|(since, boot)| boot + seconds(since)),
        }
    }
}

/// When the machine booted, in seconds since the epoch.
#[cfg(not(target_os = "macos"))]
fn boot_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_of_this_process_are_read() {
        let own = ProcessStats::read();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        let started = own.start_time.unwrap();
        assert!(started <= now + 1.0 && now - started < 86_400.0, "{own:?}");
        assert!(own.open_files.unwrap() > 2 && own.most_files > own.open_files, "{own:?}");
        assert!(own.cpu_seconds.is_some() && own.virtual_memory.unwrap() > 1 << 20, "{own:?}");
    }
}
