//! What the shim and the daemon share: the framing of messages on a pipe, the JSON-RPC envelope (read by
//! `envelope`, written by `rpc`), the headers and paths of the HTTP connection between the two (`hop`), and
//! the paths by which they find each other (`runtime_paths`).
//!
//! A leaf crate: it knows JSON-RPC but no MCP method. I/O is done by `lazy_stream` (the connection between
//! the two) and by `runtime_paths`, `folder`, `process` and `peer`, which check whether the other side exists
//! and which user runs it.

#[cfg(windows)]
compile_error!(
    "native Windows is not supported; build and run Switchboard inside WSL, where it works as on Linux"
);

pub mod backoff;
pub mod batch;
mod check;
pub mod envelope;
pub mod event_loop;
pub mod folder;
pub mod framing;
pub mod hex;
pub mod hop;
pub mod id_map;
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
