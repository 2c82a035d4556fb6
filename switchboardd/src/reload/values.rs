//! Checks in the background whether the values that definitions need for `${…}` are set. A server that lacks
//! one is reported as misconfigured; children with outdated values are replaced. One check at a time; no
//! keyring is opened for a child that is not running.

use std::collections::HashSet;
use std::future::Future;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use switchboard_wire::event_loop::may_block;
use tokio::sync::oneshot;

use super::{ReloadCause, run_blocking_with_timeout};
use crate::pool::Pool;
use crate::state::Daemon;

/// The state of the background checks.
#[derive(Debug, Default)]
pub(super) struct ValueChecks {
    // Held during a check: one at a time.
    turn: tokio::sync::Mutex<()>,
    /// Something may have changed since the last check began.
    again: AtomicBool,
    // A leaf lock: held to compare or replace.
    last: Mutex<LastCheck>,
}

#[derive(Debug, Default)]
struct LastCheck {
    files: Vec<FileStamp>,
    /// Whether the login shell had answered.
    has_shell: bool,
    pools: HashSet<usize>,
}

/// The file's inode and the time of its last change (ctime); `None` if it does not exist.
type FileStamp = Option<(u64, i64, i64)>;

impl ValueChecks {
    /// Runs `look`, which returns whether it succeeded. If the user requested it, waits for the result;
    /// otherwise it runs in the background. It also continues if the user gives up, because other changes may
    /// rely on this check.
    async fn check<L, F>(self: &Arc<Self>, why: ReloadCause, look: L)
    where
        L: Fn(ReloadCause) -> F + Send + Sync + 'static,
        F: Future<Output = bool> + Send,
    {
        self.again.store(true, Ordering::SeqCst);
        let checks = self.clone();
        let (done, looked) = oneshot::channel();
        tokio::spawn(async move {
            if why == ReloadCause::Requested {
                let _turn = checks.turn.lock().await;
                checks.again.store(false, Ordering::SeqCst);
                if !look(why).await {
                    checks.again.store(true, Ordering::SeqCst);
                }
            }
            // Nobody receives it if the user gave up.
            let _ = done.send(());
            checks.check_while_changed(look).await;
        });
        if why == ReloadCause::Requested {
            let _ = looked.await;
        }
    }

    /// Repeats the check for changes that arrived during it. A failed check is left to the next change.
    async fn check_while_changed<L, F>(&self, look: L)
    where
        L: Fn(ReloadCause) -> F,
        F: Future<Output = bool>,
    {
        while let Ok(_turn) = self.turn.try_lock()
            && self.again.swap(false, Ordering::SeqCst)
        {
            if !look(ReloadCause::FileEvent).await {
                self.again.store(true, Ordering::SeqCst);
                return;
            }
        }
    }
}

impl ValueChecks {
    /// Checks the values that the daemon's pools need. Waits for the result if the user requested the reload;
    /// otherwise the check continues in the background.
    pub(super) async fn run(self: &Arc<Self>, daemon: &Arc<Daemon>, why: ReloadCause) {
        let (checks, daemon) = (self.clone(), daemon.clone());
        let look = move |why| {
            let (checks, daemon) = (checks.clone(), daemon.clone());
            async move { checks.check_once(&daemon, why).await }
        };
        self.check(why, look).await;
    }

    /// False if the files could not be read in time.
    async fn check_once(&self, daemon: &Daemon, why: ReloadCause) -> bool {
        let files: Vec<PathBuf> = daemon.services.value_resolver.files().to_vec();
        let Some(stamps) =
            run_blocking_with_timeout(move || files.iter().map(stamp).collect::<Vec<FileStamp>>()).await
        else {
            return false;
        };
        let needs = |pool: &Arc<Pool>| {
            !pool.launch().placeholders().is_empty() || pool.launch().allowed_program().is_some()
        };
        let pools: Vec<Arc<Pool>> = daemon.workspace_loader.pools.all().into_iter().filter(needs).collect();
        let due: Vec<Arc<Pool>> = {
            let mut last = self.last.lock().expect("BUG: a note panicked");
            let has_shell = daemon.services.value_resolver.has_shell();
            let all_over =
                why == ReloadCause::Requested || last.files != stamps || last.has_shell != has_shell;
            let is_due = |pool: &&Arc<Pool>| all_over || !last.pools.contains(&pool_id(pool));
            let due = pools.iter().filter(is_due).cloned().collect();
            *last = LastCheck { files: stamps, has_shell, pools: pools.iter().map(pool_id).collect() };
            due
        };
        for pool in due {
            pool.check_values().await;
        }
        true
    }
}

fn stamp(file: &PathBuf) -> FileStamp {
    may_block();
    let meta = std::fs::metadata(file).ok()?;
    Some((meta.ino(), meta.ctime(), meta.ctime_nsec()))
}

/// Identifies a pool among all current ones.
fn pool_id(pool: &Arc<Pool>) -> usize {
    Arc::as_ptr(pool).addr()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use tokio::sync::Semaphore;
    use tokio::time::timeout;

    use super::*;

    /// Checks that each need a permit to finish, and how many have begun.
    fn looks() -> (Arc<Semaphore>, Arc<AtomicUsize>) {
        (Arc::new(Semaphore::new(0)), Arc::default())
    }

    async fn check(
        checks: Arc<ValueChecks>,
        why: ReloadCause,
        (may_end, begun): (Arc<Semaphore>, Arc<AtomicUsize>),
        works: bool,
    ) {
        let look = move |_| {
            let (may_end, begun) = (may_end.clone(), begun.clone());
            async move {
                begun.fetch_add(1, Ordering::SeqCst);
                may_end.acquire().await.unwrap().forget();
                works
            }
        };
        checks.check(why, look).await;
    }

    async fn settle() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_during_a_check_is_checked_although_the_user_gave_up() {
        let (checks, looks) = (Arc::<ValueChecks>::default(), looks());
        let told = tokio::spawn(check(checks.clone(), ReloadCause::Requested, looks.clone(), true));
        settle().await;
        // It finds that a check is already running.
        check(checks.clone(), ReloadCause::FileEvent, looks.clone(), true).await;
        settle().await;
        assert_eq!(looks.1.load(Ordering::SeqCst), 1);
        told.abort();
        looks.0.add_permits(1);
        settle().await;
        assert_eq!(looks.1.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_requested_check_finishes_before_the_next_one() {
        let (checks, looks) = (Arc::<ValueChecks>::default(), looks());
        let told = tokio::spawn(check(checks.clone(), ReloadCause::Requested, looks.clone(), true));
        settle().await;
        check(checks.clone(), ReloadCause::FileEvent, looks.clone(), true).await;
        looks.0.add_permits(1);
        timeout(Duration::from_secs(1), told).await.unwrap().unwrap();
        assert_eq!(looks.1.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_check_is_repeated_once() {
        let (checks, looks) = (Arc::<ValueChecks>::default(), looks());
        looks.0.add_permits(9);
        check(checks.clone(), ReloadCause::Requested, looks.clone(), false).await;
        settle().await;
        assert_eq!(looks.1.load(Ordering::SeqCst), 2);
    }
}
