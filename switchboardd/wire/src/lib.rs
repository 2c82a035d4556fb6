//! What the shim and the daemon both need to know of the wire: how messages are framed on a pipe,
//! the JSON-RPC envelope around them, the words of the hop between the two, and where to meet.
//!
//! A leaf: it knows JSON-RPC but no MCP method. Only `quiet`, the connection between the two, does I/O.

pub mod envelope;
pub mod framing;
pub mod hop;
pub mod members;
pub mod oversize;
pub mod place;
pub mod quiet;
pub mod raw;
