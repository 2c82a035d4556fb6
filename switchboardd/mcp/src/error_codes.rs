//! The JSON-RPC error codes that MCP adds. The codes of JSON-RPC itself are in `switchboard_wire::envelope`.
//!
//! A code that is added here gets a label in `observe/metrics/outcome.rs` of the daemon, or it is counted as another.

/// Legacy revisions: there is no such resource.
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// Legacy revisions: the user must open the listed URLs first.
pub const URL_ELICITATION_REQUIRED: i64 = -32042;

/// Modern revisions: the headers of a request contradict its body.
pub const HEADER_MISMATCH: i64 = -32020;
/// Modern revisions: the host lacks a capability that the request needs.
pub const LACKS_CAPABILITY: i64 = -32021;
/// Modern revisions: the server does not speak the revision of the request.
pub const UNSUPPORTED_VERSION: i64 = -32022;

/// Whether only a server of the modern era answers with this code.
pub fn is_modern(code: i64) -> bool {
    matches!(code, HEADER_MISMATCH | LACKS_CAPABILITY | UNSUPPORTED_VERSION)
}
