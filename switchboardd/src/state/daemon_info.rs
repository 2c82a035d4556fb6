//! Where a daemon can be reached and where it writes, for users.

use std::path::PathBuf;

use serde::Serialize;

use crate::system::logging::Destination;

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonInfo {
    pub socket: PathBuf,
    /// The TCP address that is served.
    pub tcp: Option<String>,
    /// Why there is no TCP address.
    pub no_tcp: Option<String>,
    /// Whether the reason is a missing token; then another port does not help.
    pub no_token: bool,
    pub token_file: PathBuf,
    pub state: PathBuf,
    /// The path of its program at its start.
    pub program: Option<PathBuf>,
    pub log: Option<&'static Destination>,
}
