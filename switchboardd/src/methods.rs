//! The MCP method names the daemon knows, in one place.

pub const INITIALIZE: &str = "initialize";
pub const PING: &str = "ping";
pub const CANCELLED: &str = "notifications/cancelled";
pub const PROGRESS: &str = "notifications/progress";
pub const LOG_MESSAGE: &str = "notifications/message";
pub const SET_LEVEL: &str = "logging/setLevel";
pub const TOOLS_LIST: &str = "tools/list";
pub const TOOLS_CALL: &str = "tools/call";
pub const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
pub const ROOTS_LIST: &str = "roots/list";
pub const ROOTS_CHANGED: &str = "notifications/roots/list_changed";
pub const SAMPLING: &str = "sampling/createMessage";
pub const ELICITATION: &str = "elicitation/create";

/// Revisions that open with `initialize`, newest first. The last one is a pre-release that old
/// servers still answer with; it reads like its successor.
pub const LEGACY_REVISIONS: [&str; 5] =
    ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];
pub const LATEST_LEGACY: &str = LEGACY_REVISIONS[0];
