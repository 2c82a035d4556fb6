//! The MCP method names and protocol revisions that the daemon knows.

use switchboard_wire::batch;

pub const INITIALIZE: &str = "initialize";
pub const INITIALIZED: &str = "notifications/initialized";
pub const PING: &str = "ping";
pub const CANCELLED: &str = "notifications/cancelled";
pub const PROGRESS: &str = "notifications/progress";
pub const LOG_MESSAGE: &str = "notifications/message";
pub const SET_LEVEL: &str = "logging/setLevel";
pub const TOOLS_LIST: &str = "tools/list";
pub const TOOLS_CALL: &str = "tools/call";
pub const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
pub const PROMPTS_LIST: &str = "prompts/list";
pub const PROMPTS_GET: &str = "prompts/get";
pub const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
pub const RESOURCES_LIST: &str = "resources/list";
pub const TEMPLATES_LIST: &str = "resources/templates/list";
pub const RESOURCES_READ: &str = "resources/read";
pub const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
pub const RESOURCE_UPDATED: &str = "notifications/resources/updated";
pub const SUBSCRIBE: &str = "resources/subscribe";
pub const UNSUBSCRIBE: &str = "resources/unsubscribe";
pub const COMPLETE: &str = "completion/complete";
pub const DISCOVER: &str = "server/discover";
pub const LISTEN: &str = "subscriptions/listen";
pub const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
pub const ROOTS_LIST: &str = "roots/list";
pub const ROOTS_CHANGED: &str = "notifications/roots/list_changed";
pub const SAMPLING: &str = "sampling/createMessage";
pub const ELICITATION: &str = "elicitation/create";
pub const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";

/// Revisions with an `initialize` handshake, newest first. The last one is a pre-release that old servers
/// still answer with; it is treated like its successor.
pub const LEGACY_REVISIONS: [&str; 5] =
    ["2025-11-25", "2025-06-18", batch::REVISION, "2024-11-05", "2024-10-07"];
pub const LATEST_LEGACY: &str = LEGACY_REVISIONS[0];

/// Revisions without a handshake, newest first: each request carries its own metadata.
pub const MODERN_REVISIONS: [&str; 1] = ["2026-07-28"];
pub const LATEST_MODERN: &str = MODERN_REVISIONS[0];
