//! Looks at files again and again, on a thread of its own: the event loop wakes up only when something has changed,
//! and never waits for a disk.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

/// How often files are looked at.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(3);

/// What is waited for. The thread ends when the last of them is dropped.
#[derive(Clone)]
pub(super) struct FileChecks(Arc<Mutex<Vec<Condition>>>);

struct Condition {
    is_met: Box<dyn Fn() -> bool + Send>,
    tell: oneshot::Sender<()>,
}

impl FileChecks {
    pub(super) fn every(interval: Duration) -> Self {
        let conditions = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::downgrade(&conditions);
        let thread = std::thread::Builder::new().name("file checks".to_owned());
        if let Err(error) = thread.spawn(move || run(&shared, interval)) {
            tracing::warn!(target: "daemon", "a new version or a lost socket will not be noticed: {error}");
        }
        Self(conditions)
    }

    /// Resolves when the condition is met.
    pub(super) async fn until(&self, is_met: impl Fn() -> bool + Send + 'static) {
        let (tell, told) = oneshot::channel();
        let condition = Condition { is_met: Box::new(is_met), tell };
        self.0.lock().expect("BUG: a push panicked").push(condition);
        if told.await.is_err() {
            std::future::pending().await
        }
    }
}

fn run(shared: &Weak<Mutex<Vec<Condition>>>, interval: Duration) {
    loop {
        std::thread::sleep(interval);
        let Some(conditions) = shared.upgrade() else { return };
        // Not under the lock: a folder that does not respond would block the event loop.
        let taken = std::mem::take(&mut *conditions.lock().expect("BUG: a push panicked"));
        let mut rest = Vec::with_capacity(taken.len());
        for condition in taken.into_iter().filter(|condition| !condition.tell.is_closed()) {
            if (condition.is_met)() {
                let _ = condition.tell.send(());
            } else {
                rest.push(condition);
            }
        }
        conditions.lock().expect("BUG: a push panicked").append(&mut rest);
    }
}
