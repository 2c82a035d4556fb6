//! The HTTP headers of MCP, in one place; lower-case, as `HeaderName::from_static` wants them.

pub const SESSION_ID: &str = "mcp-session-id";
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// What a modern request says of itself, so that nobody on its way has to read its body.
pub const METHOD: &str = "mcp-method";
pub const NAME: &str = "mcp-name";
/// Before the name of an argument that a tool's schema wants in a header.
pub const PARAM_PREFIX: &str = "mcp-param-";
/// Of server-sent events: the last one that the host has seen of a stream.
pub const LAST_EVENT_ID: &str = "last-event-id";
