//! The two eras of the protocol, and what turns messages of the one into messages of the other.
//!
//! Legacy revisions open with `initialize` and let a server ask its host whenever it likes. Modern ones have no
//! handshake: each request says in its `_meta` who asks and what they can take, and a question is a result
//! (`input_required`) that the host comes back from. Everything here is about bytes and says nothing of processes
//! or sockets, so that children behind a pipe and children behind a URL are spoken to alike. Pure but for the
//! clock that `request_state` is given.

pub mod envelope;
pub mod errors;
pub mod headers;
pub mod question;
pub mod request_meta;
pub mod request_params;
pub mod request_state;
pub mod results;
pub mod retry;
pub mod schema;
pub mod subscription;

use crate::methods;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolEra {
    Legacy,
    Modern,
}

impl ProtocolEra {
    pub fn word(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// Why a modern request cannot be taken as one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    #[error("{0}")]
    Params(String),
    #[error("Unsupported protocol version `{requested}`; supported: {}", methods::MODERN_REVISIONS.join(", "))]
    UnsupportedVersion { requested: String },
}

/// What a modern request says of itself in its `_meta`.
pub const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
pub const CLIENT_KEY: &str = "io.modelcontextprotocol/clientInfo";
pub const LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";
/// And what the answers say.
pub const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";
pub const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// Who we are to hosts.
pub fn server() -> serde_json::Value {
    serde_json::json!({
        "name": "switchboard",
        "title": "Switchboard",
        "version": env!("CARGO_PKG_VERSION"),
    })
}

/// The four that belong to one hop and are never passed on to the other era.
pub fn is_hop_key(key: &str) -> bool {
    matches!(key, VERSION_KEY | CAPABILITIES_KEY | CLIENT_KEY | LEVEL_KEY)
}
