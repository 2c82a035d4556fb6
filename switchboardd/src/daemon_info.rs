//! Where a daemon can be found and what it writes to, for people who look for it.

use std::path::PathBuf;

use serde::Serialize;

use crate::logging::Destination;

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonInfo {
    pub socket: PathBuf,
    /// The TCP address that is served.
    pub tcp: Option<String>,
    /// Why none is.
    pub no_tcp: Option<String>,
    /// Whether it is for want of a token, which another port does not help.
    pub no_token: bool,
    pub token_file: PathBuf,
    pub state: PathBuf,
    /// The program that it runs, as it was called at its start.
    pub program: Option<PathBuf>,
    pub log: Option<&'static Destination>,
}
