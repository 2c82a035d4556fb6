//! Why a daemon did not start.

use switchboard_definitions::document::Problem;

/// Why a daemon cannot start, or cannot hand over to its successor.
#[derive(Debug, thiserror::Error)]
pub enum Fatal {
    #[error("HOME is not set and the user database does not say where it is")]
    NoHome,
    #[error("the configuration cannot be used:\n{}", listed(.0))]
    Config(Vec<Problem>),
    #[error("{0}")]
    Listen(String),
    #[error("switchboardd already serves `{0}`; `switchboard status` shows it, `switchboard stop` ends it")]
    AlreadyServing(String),
    #[error("the state folder is not used: {0}")]
    State(std::io::Error),
    #[error("{what}: {error}")]
    Io { what: String, error: std::io::Error },
}

fn listed(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("  {problem}")).collect::<Vec<_>>().join("\n")
}
