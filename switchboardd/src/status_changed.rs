//! Word that something happened that a status shows. Nobody is told what: whoever looks on looks again.

use tokio::sync::watch;

/// While nobody looks on, a beat costs one load.
#[derive(Debug, Default)]
pub struct StatusChanged(watch::Sender<()>);

impl StatusChanged {
    /// Something changed.
    pub fn notify(&self) {
        if self.0.receiver_count() > 0 {
            self.0.send_replace(());
        }
    }

    /// Hears of every change from now on.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_are_felt_from_the_moment_somebody_feels() {
        let status_changed = StatusChanged::default();
        status_changed.notify();
        let felt = status_changed.subscribe();
        assert!(!felt.has_changed().unwrap());
        status_changed.notify();
        status_changed.notify();
        assert!(felt.has_changed().unwrap());
    }
}
