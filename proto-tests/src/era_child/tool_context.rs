//! What a running call can do: report progress, log and sleep.

use std::time::Duration;

use serde_json::{Value, json};

use super::Child;
use super::calls::{CallState, Cancelled};

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The severity of a log message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Level(usize);

impl Level {
    pub(super) const DEBUG: Self = Self(0);
    pub(super) const INFO: Self = Self(1);
    pub(super) const WARNING: Self = Self(3);

    pub(super) fn parse(level: &Value) -> Option<Self> {
        LEVELS.iter().position(|name| level == name).map(Self)
    }
}

pub(crate) struct ToolContext<'a> {
    pub(super) child: &'a Child,
    pub(super) turn: &'a CallState,
    pub(super) progress_token: Option<&'a Value>,
    /// The minimum level of log messages; `None` for no log messages.
    pub(super) floor: Option<Level>,
    /// Whether progress notifications may carry a message.
    pub(super) progress_speaks: bool,
}

impl ToolContext<'_> {
    pub(super) fn sleep(&self, milliseconds: u64) -> Result<(), Cancelled> {
        self.turn.sleep(Duration::from_millis(milliseconds))
    }

    pub(super) fn log(&self, level: Level, data: &str) {
        if self.floor.is_some_and(|floor| level >= floor) {
            let params = json!({"level": LEVELS[level.0], "logger": "era-child", "data": data});
            self.child.outbox.notify("notifications/message", &params);
        }
    }

    pub(super) fn progress(&self, progress: u32, total: u32, message: &str) {
        if let Some(token) = self.progress_token {
            let mut params = json!({"progressToken": token, "progress": progress, "total": total});
            if self.progress_speaks {
                params["message"] = message.into();
            }
            self.child.outbox.notify("notifications/progress", &params);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered_and_known() {
        assert_eq!(Level::parse(&json!("debug")), Some(Level::DEBUG));
        assert_eq!(Level::parse(&json!("info")), Some(Level::INFO));
        assert_eq!(Level::parse(&json!("warning")), Some(Level::WARNING));
        assert!(Level::parse(&json!("emergency")) > Level::parse(&json!("error")));
        assert_eq!(Level::parse(&json!("loud")), None);
    }
}
