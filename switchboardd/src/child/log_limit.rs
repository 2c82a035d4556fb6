//! Rate limit for the log messages that one child sends to hosts, so that a child that logs in a loop does
//! not flood every host. Messages over the limit are counted, and the host is told how many were dropped.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use switchboard_mcp::log_level::LogLevel;
use switchboard_mcp::methods;
use switchboard_wire::rpc;
use tokio::time::Instant;

use super::Child;
use crate::caller::Caller;
use crate::caller::mailbox::MessageKind;

/// More than a user could read.
const MAX_PER_SECOND: u32 = 200;
const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct LogRateLimit {
    second: Option<Instant>,
    count: u32,
    dropped: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum LogDecision {
    Pass,
    Drop,
    /// Drop, and report the number of dropped messages to the host in a second.
    DropFirst,
}

impl LogRateLimit {
    fn check(&mut self, now: Instant) -> LogDecision {
        if self.second.is_none_or(|second| now >= second + SECOND) {
            self.second = Some(now);
            self.count = 0;
        }
        if self.count < MAX_PER_SECOND {
            self.count += 1;
            return LogDecision::Pass;
        }
        self.dropped += 1;
        if self.dropped == 1 { LogDecision::DropFirst } else { LogDecision::Drop }
    }
}

impl Child {
    /// Whether one more log message may go to this caller. Schedules a report of the dropped ones.
    pub(super) fn may_log(self: &Arc<Self>, caller: &Arc<Caller>) -> bool {
        let verdict = self.log_rate_limit.lock().expect("BUG: a count panicked").check(Instant::now());
        if verdict == LogDecision::DropFirst {
            let (child, caller) = (self.clone(), caller.clone());
            tokio::spawn(async move {
                tokio::time::sleep(SECOND).await;
                let dropped =
                    std::mem::take(&mut child.log_rate_limit.lock().expect("BUG: a count panicked").dropped);
                child.tell_dropped(&caller, dropped);
            });
        }
        verdict == LogDecision::Pass
    }

    fn tell_dropped(&self, caller: &Arc<Caller>, dropped: u64) {
        let Some(mailbox) = caller.mailbox() else { return };
        mailbox.note_dropped(dropped);
        if !caller.wants_level(LogLevel::Warning) {
            return;
        }
        let data = format!(
            "{dropped} log messages of server `{}` were dropped: it sent more than {MAX_PER_SECOND} in a second",
            self.name()
        );
        let params = json!({ "level": LogLevel::Warning.as_str(), "logger": "switchboard", "data": data });
        let body = rpc::notification(methods::LOG_MESSAGE, Some(&params.to_string()));
        mailbox.push(MessageKind::Log, body.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_over_the_limit_of_a_second_are_dropped() {
        let mut flood = LogRateLimit::default();
        let now = Instant::now();
        assert!((0..MAX_PER_SECOND).all(|_| flood.check(now) == LogDecision::Pass));
        assert_eq!(flood.check(now), LogDecision::DropFirst);
        assert_eq!(flood.check(now + SECOND / 2), LogDecision::Drop);
        assert_eq!(flood.check(now + SECOND), LogDecision::Pass);
        assert_eq!(flood.dropped, 2);
    }
}
