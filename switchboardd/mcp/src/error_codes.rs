//! The JSON-RPC error codes that the modern revisions of MCP add.

/// The headers of a request contradict its body.
pub const HEADER_MISMATCH: i64 = -32020;
/// The host lacks a capability that the request needs.
pub const LACKS_CAPABILITY: i64 = -32021;
pub const UNSUPPORTED_VERSION: i64 = -32022;
