//! Whether what definitions ask for by `${…}` is set, looked at in the background: whoever lacks something is
//! shown as such, whoever runs with an old value is renewed. One look at a time; nobody's keyring is opened for
//! a child that does not run.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::{Board, Why, aside};
use crate::event_loop::may_block;
use crate::pool::Pool;

/// What the last look was made of.
#[derive(Debug, Default)]
pub struct Checks {
    // Held over a look: one at a time.
    turn: tokio::sync::Mutex<()>,
    /// Something may have changed since the last look began.
    again: AtomicBool,
    // A leaf lock: held to compare or replace.
    last: Mutex<Look>,
}

#[derive(Debug, Default)]
struct Look {
    files: Vec<Stamp>,
    /// Whether the login shell had answered.
    has_shell: bool,
    pools: HashSet<usize>,
}

/// Which file it is, and when it or its mode was changed; `None` if it is not there.
type Stamp = Option<(u64, i64, i64)>;

impl Board {
    /// Told by a person, it is done when this resolves; otherwise it goes on in the background.
    pub(super) async fn check_values(self: &Arc<Self>, why: Why) {
        self.checks.again.store(true, Ordering::SeqCst);
        if why == Why::Told {
            let board = self.clone();
            let look = tokio::spawn(async move {
                let _turn = board.checks.turn.lock().await;
                board.checks.again.store(false, Ordering::SeqCst);
                board.look_at_values(why).await;
            });
            let _ = look.await;
        }
        tokio::spawn(self.clone().look_while_changed());
    }

    /// Whoever looks now looks again for those who come meanwhile.
    async fn look_while_changed(self: Arc<Self>) {
        while let Ok(_turn) = self.checks.turn.try_lock()
            && self.checks.again.swap(false, Ordering::SeqCst)
        {
            self.look_at_values(Why::Changed).await;
        }
    }

    async fn look_at_values(&self, why: Why) {
        let files: Vec<PathBuf> = self.nursery.sources.files().to_vec();
        let Some(stamps) = aside(move || files.iter().map(stamp).collect::<Vec<Stamp>>()).await else {
            return;
        };
        let needs =
            |pool: &Arc<Pool>| !pool.reach().gaps().is_empty() || pool.reach().allowed_program().is_some();
        let pools: Vec<Arc<Pool>> = self.pools.all().into_iter().filter(needs).collect();
        let due: Vec<Arc<Pool>> = {
            let mut last = self.checks.last.lock().expect("BUG: a note panicked");
            let has_shell = self.nursery.sources.has_shell();
            let all_over = why == Why::Told || last.files != stamps || last.has_shell != has_shell;
            let is_due = |pool: &&Arc<Pool>| all_over || !last.pools.contains(&name(pool));
            let due = pools.iter().filter(is_due).cloned().collect();
            *last = Look { files: stamps, has_shell, pools: pools.iter().map(name).collect() };
            due
        };
        for pool in due {
            pool.check_values().await;
        }
    }
}

fn stamp(file: &PathBuf) -> Stamp {
    may_block();
    let meta = std::fs::metadata(file).ok()?;
    Some((meta.ino(), meta.ctime(), meta.ctime_nsec()))
}

/// A pool, apart from all others that there are at one time.
fn name(pool: &Arc<Pool>) -> usize {
    Arc::as_ptr(pool).addr()
}
