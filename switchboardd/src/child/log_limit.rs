//! How many log messages of one child reach hosts. A child that logs in a loop must not fill every host's screen:
//! what is over the limit is counted, and the host is told how many there were.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::Child;
use crate::caller::{Caller, LogLevel};
use crate::mailbox::Kind;
use crate::methods;

/// More than this in one second nobody reads.
const MOST: u32 = 200;
const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Flood {
    second: Option<Instant>,
    count: u32,
    dropped: u64,
}

/// What becomes of one message.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    Drop,
    /// The same, and it is the first of which nobody was told yet.
    DropFirst,
}

impl Flood {
    fn judge(&mut self, now: Instant) -> Verdict {
        if self.second.is_none_or(|second| now >= second + SECOND) {
            self.second = Some(now);
            self.count = 0;
        }
        if self.count < MOST {
            self.count += 1;
            return Verdict::Pass;
        }
        self.dropped += 1;
        if self.dropped == 1 { Verdict::DropFirst } else { Verdict::Drop }
    }
}

impl Child {
    /// Whether one more log message may go to this caller, who is told of those that may not.
    pub(super) fn may_log(self: &Arc<Self>, caller: &Arc<Caller>) -> bool {
        let verdict = self.flood.lock().expect("BUG: a count panicked").judge(Instant::now());
        if verdict == Verdict::DropFirst {
            let (child, caller) = (self.clone(), caller.clone());
            tokio::spawn(async move {
                tokio::time::sleep(SECOND).await;
                let dropped = std::mem::take(&mut child.flood.lock().expect("BUG: a count panicked").dropped);
                child.tell_dropped(&caller, dropped);
            });
        }
        verdict == Verdict::Pass
    }

    fn tell_dropped(&self, caller: &Arc<Caller>, dropped: u64) {
        let Some(mailbox) = caller.mailbox() else { return };
        mailbox.note_dropped(dropped);
        if !caller.hears(LogLevel::Warning) {
            return;
        }
        let data = format!(
            "{dropped} log messages of server `{}` were dropped: it sent more than {MOST} in a second",
            self.name
        );
        let told = json!({
            "jsonrpc": "2.0",
            "method": methods::LOG_MESSAGE,
            "params": { "level": LogLevel::Warning.word(), "logger": "switchboard", "data": data },
        });
        mailbox.push(Kind::Log, told.to_string().into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_pass_in_a_second() {
        let mut flood = Flood::default();
        let now = Instant::now();
        assert!((0..MOST).all(|_| flood.judge(now) == Verdict::Pass));
        assert_eq!(flood.judge(now), Verdict::DropFirst);
        assert_eq!(flood.judge(now + SECOND / 2), Verdict::Drop);
        assert_eq!(flood.judge(now + SECOND), Verdict::Pass);
        assert_eq!(flood.dropped, 2);
    }
}
