//! The two eras of the protocol, and the translation of messages between them.
//!
//! Legacy revisions open with `initialize` and let a server ask its host at any time. Modern ones have no
//! handshake: each request says in its `_meta` who sends it and what the client can do, and a question is a
//! result (`input_required`) after which the host retries. These modules work on bytes and know nothing of
//! processes or sockets, so that local and remote children are treated alike. They do no I/O; the caller
//! passes the time to `request_state`.

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
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// Why a modern request is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    #[error("{0}")]
    Params(String),
    #[error("Unsupported protocol version `{requested}`; supported: {}", methods::MODERN_REVISIONS.join(", "))]
    UnsupportedVersion { requested: String },
}

/// Keys in the `_meta` of a modern request.
pub const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
pub const CLIENT_KEY: &str = "io.modelcontextprotocol/clientInfo";
pub const LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";
/// Keys in the `_meta` of results and notifications.
pub const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";
pub const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// Our `serverInfo` for hosts, as JSON.
pub const SERVER: &str =
    concat!(r#"{"name":"switchboard","title":"Switchboard","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// [`SERVER`] as a value.
pub fn server() -> serde_json::Value {
    serde_json::from_str(SERVER).expect("BUG: our `serverInfo` is JSON")
}

/// The four request keys, which belong to one hop and are never passed on to the other era.
pub fn is_hop_key(key: &str) -> bool {
    matches!(key, VERSION_KEY | CAPABILITIES_KEY | CLIENT_KEY | LEVEL_KEY)
}
