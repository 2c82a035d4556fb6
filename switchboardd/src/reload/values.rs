//! Whether what definitions ask for by `${…}` is set, looked at in the background: whoever lacks something is
//! shown as such, whoever runs with an old value is renewed. One look at a time; nobody's keyring is opened for
//! a child that does not run.

use std::collections::HashSet;
use std::future::Future;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

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

impl Checks {
    /// Has `look` look; it says whether it could. Told by a person, the look is over when this resolves; otherwise it
    /// goes on in the background, as it does when the person gives up: others may have left their look to it.
    async fn check<L, F>(self: &Arc<Self>, why: Why, look: L)
    where
        L: Fn(Why) -> F + Send + Sync + 'static,
        F: Future<Output = bool> + Send,
    {
        self.again.store(true, Ordering::SeqCst);
        let checks = self.clone();
        let (done, looked) = oneshot::channel();
        tokio::spawn(async move {
            if why == Why::Told {
                let _turn = checks.turn.lock().await;
                checks.again.store(false, Ordering::SeqCst);
                if !look(why).await {
                    checks.again.store(true, Ordering::SeqCst);
                }
            }
            // Nobody listens if the person gave up.
            let _ = done.send(());
            checks.look_while_changed(look).await;
        });
        if why == Why::Told {
            let _ = looked.await;
        }
    }

    /// Whoever looks now looks again for those who come meanwhile. A look that failed is left to the next change.
    async fn look_while_changed<L, F>(&self, look: L)
    where
        L: Fn(Why) -> F,
        F: Future<Output = bool>,
    {
        while let Ok(_turn) = self.turn.try_lock()
            && self.again.swap(false, Ordering::SeqCst)
        {
            if !look(Why::Changed).await {
                self.again.store(true, Ordering::SeqCst);
                return;
            }
        }
    }
}

impl Board {
    /// Told by a person, it is done when this resolves; otherwise it goes on in the background.
    pub(super) async fn check_values(self: &Arc<Self>, why: Why) {
        let board = self.clone();
        let look = move |why| {
            let board = board.clone();
            async move { board.look_at_values(why).await }
        };
        self.checks.check(why, look).await;
    }

    /// False if the files could not be looked at in time.
    async fn look_at_values(&self, why: Why) -> bool {
        let files: Vec<PathBuf> = self.nursery.sources.files().to_vec();
        let Some(stamps) = aside(move || files.iter().map(stamp).collect::<Vec<Stamp>>()).await else {
            return false;
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
        true
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use tokio::sync::Semaphore;
    use tokio::time::timeout;

    use super::*;

    /// Looks that each need a permit to end, and how many began.
    fn looks() -> (Arc<Semaphore>, Arc<AtomicUsize>) {
        (Arc::new(Semaphore::new(0)), Arc::default())
    }

    async fn check(
        checks: Arc<Checks>,
        why: Why,
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
    async fn a_change_during_a_look_is_looked_at_although_the_person_gave_up() {
        let (checks, looks) = (Arc::<Checks>::default(), looks());
        let told = tokio::spawn(check(checks.clone(), Why::Told, looks.clone(), true));
        settle().await;
        // It finds that somebody looks already.
        check(checks.clone(), Why::Changed, looks.clone(), true).await;
        settle().await;
        assert_eq!(looks.1.load(Ordering::SeqCst), 1);
        told.abort();
        looks.0.add_permits(1);
        settle().await;
        assert_eq!(looks.1.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_a_person_asked_for_is_over_before_the_next_one() {
        let (checks, looks) = (Arc::<Checks>::default(), looks());
        let told = tokio::spawn(check(checks.clone(), Why::Told, looks.clone(), true));
        settle().await;
        check(checks.clone(), Why::Changed, looks.clone(), true).await;
        looks.0.add_permits(1);
        timeout(Duration::from_secs(1), told).await.unwrap().unwrap();
        assert_eq!(looks.1.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_failed_is_made_once_more_and_then_left_to_the_next_change() {
        let (checks, looks) = (Arc::<Checks>::default(), looks());
        looks.0.add_permits(9);
        check(checks.clone(), Why::Told, looks.clone(), false).await;
        settle().await;
        assert_eq!(looks.1.load(Ordering::SeqCst), 2);
    }
}
