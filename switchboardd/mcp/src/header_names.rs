//! The HTTP headers of MCP, in one place; lower-case, as `HeaderName::from_static` wants them.

pub const SESSION_ID: &str = "mcp-session-id";
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// Modern requests repeat their method and name in headers, so that intermediaries need not read the body.
pub const METHOD: &str = "mcp-method";
pub const NAME: &str = "mcp-name";
/// Prefix of headers for arguments that a tool's schema wants in a header.
pub const PARAM_PREFIX: &str = "mcp-param-";
/// The id of the last server-sent event that the host received.
pub const LAST_EVENT_ID: &str = "last-event-id";
