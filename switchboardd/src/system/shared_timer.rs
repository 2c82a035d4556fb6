//! Timers of one length that share a single timer of the runtime. Setting a timer of the runtime costs a system
//! call, and most of what waits here ends long before its time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

#[derive(Debug)]
pub struct SharedTimer {
    length: Duration,
    // A leaf lock: held for an insert or a removal.
    waiting: Mutex<WaitingTimers>,
}

#[derive(Debug, Default)]
struct WaitingTimers {
    /// In the order they are due, because all have the same length. Dropped ones stay until it is their turn.
    timers: VecDeque<(Instant, oneshot::Sender<()>)>,
    /// Whether a task waits for the first of them.
    is_watched: bool,
}

impl SharedTimer {
    pub fn new(length: Duration) -> Arc<Self> {
        Arc::new(Self { length, waiting: Mutex::default() })
    }

    /// Resolves when the length of this timer has passed since the call.
    pub fn wait(self: &Arc<Self>) -> impl Future<Output = ()> + use<> {
        let (fire, fired) = oneshot::channel();
        let mut waiting = self.lock();
        waiting.timers.push_back((Instant::now() + self.length, fire));
        if !std::mem::replace(&mut waiting.is_watched, true) {
            tokio::spawn(self.clone().watch());
        }
        async move {
            let _ = fired.await;
        }
    }

    /// Fires every timer when it is due, until nobody waits any more.
    async fn watch(self: Arc<Self>) {
        while let Some(due) = self.fire(Instant::now()) {
            sleep_until(due).await;
        }
    }

    /// Fires the timers that are due. Returns when the next one is due that somebody waits for.
    fn fire(&self, now: Instant) -> Option<Instant> {
        let mut waiting = self.lock();
        while waiting.timers.front().is_some_and(|(due, fire)| *due <= now || fire.is_closed()) {
            if let Some((_, fire)) = waiting.timers.pop_front() {
                let _ = fire.send(());
            }
        }
        let next = waiting.timers.front().map(|(due, _)| *due);
        if next.is_none() {
            *waiting = WaitingTimers::default();
        }
        next
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, WaitingTimers> {
        self.waiting.lock().expect("BUG: bookkeeping panicked")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn every_timer_fires_at_its_own_time() {
        let timer = SharedTimer::new(Duration::from_millis(250));
        let begin = Instant::now();
        let first = timer.wait();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let (second, dropped) = (timer.wait(), timer.wait());
        drop(dropped);
        first.await;
        assert_eq!(begin.elapsed().as_millis(), 250);
        second.await;
        assert_eq!(begin.elapsed().as_millis(), 350);
        tokio::task::yield_now().await;
        assert!(!timer.lock().is_watched && timer.lock().timers.is_empty());
        timer.wait().await;
        assert_eq!(begin.elapsed().as_millis(), 600);
    }
}
