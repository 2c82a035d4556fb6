//! Signals that something shown in the status has changed, but not what: subscribers read the whole status
//! again.

use tokio::sync::watch;

/// Without subscribers, `notify` costs one load.
#[derive(Debug, Default)]
pub struct StatusChanged(watch::Sender<()>);

impl StatusChanged {
    pub fn notify(&self) {
        if self.0.receiver_count() > 0 {
            self.0.send_replace(());
        }
    }

    /// The receiver sees every change from now on.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_reported_from_the_subscription_on() {
        let status_changed = StatusChanged::default();
        status_changed.notify();
        let felt = status_changed.subscribe();
        assert!(!felt.has_changed().unwrap());
        status_changed.notify();
        status_changed.notify();
        assert!(felt.has_changed().unwrap());
    }
}
