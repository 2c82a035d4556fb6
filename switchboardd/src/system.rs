//! What the daemon needs from the operating system: the login shell's environment, the keyring, the log, its
//! own processes and the programs beside it. It knows nothing of MCP.

pub mod environment;
pub mod logging;
#[cfg(test)]
pub(crate) mod model;
pub mod processes;
pub mod programs;
pub mod secrets;
pub mod shared_timer;
