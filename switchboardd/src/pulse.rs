//! Word that something happened that a status shows. Nobody is told what: whoever looks on looks again.

use tokio::sync::watch;

/// While nobody looks on, a beat costs one load.
#[derive(Debug, Default)]
pub struct Pulse(watch::Sender<()>);

impl Pulse {
    /// Something changed.
    pub fn beat(&self) {
        if self.0.receiver_count() > 0 {
            self.0.send_replace(());
        }
    }

    /// Hears of every change from now on.
    pub fn feel(&self) -> watch::Receiver<()> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_are_felt_from_the_moment_somebody_feels() {
        let pulse = Pulse::default();
        pulse.beat();
        let felt = pulse.feel();
        assert!(!felt.has_changed().unwrap());
        pulse.beat();
        pulse.beat();
        assert!(felt.has_changed().unwrap());
    }
}
