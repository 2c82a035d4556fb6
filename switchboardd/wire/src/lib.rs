//! What the shim and the daemon both need to know of the wire: how messages are framed on a pipe,
//! the JSON-RPC envelope around them (read by `envelope`, written by `rpc`), the words of the hop between the two, and where to meet.
//!
//! A leaf: it knows JSON-RPC but no MCP method. I/O is done by `quiet`, the connection between the two, and by
//! `place`, `folder`, `process` and `peer`, which find out whether there is another end and whose it is.

pub mod backoff;
pub mod batch;
pub mod envelope;
pub mod folder;
pub mod framing;
pub mod hop;
pub mod lazy_stream;
pub mod members;
pub mod open_files;
pub mod oversize;
pub mod peer;
pub mod process;
pub mod random;
pub mod raw;
pub mod rpc;
pub mod runtime_paths;
pub mod secret;
pub mod single_line;
pub mod visible;
