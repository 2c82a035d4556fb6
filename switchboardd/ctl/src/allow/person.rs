//! Whether a person sits at the terminal, and what is noted about their decision.

use std::io::IsTerminal;
use std::time::SystemTime;

use switchboard_definitions::config::Restrictions;
use switchboard_definitions::own_limits::OwnLimits;
use switchboard_definitions::trust::{Decision, TrustRecord};

use crate::output::is_terminal;

/// Variables that agents set for the commands they run. A speed bump, not a lock.
const AGENTS: [&str; 14] = [
    "AI_AGENT",
    "AMP_CURRENT_THREAD_ID",
    "ANTIGRAVITY_AGENT",
    "AUGMENT_AGENT",
    "CLAUDECODE",
    "CLINE_ACTIVE",
    "COPILOT_CLI",
    "GEMINI_CLI",
    "GOOSE_TERMINAL",
    "IFLOW_CLI",
    "OPENCODE",
    "QWEN_CODE",
    "ROO_ACTIVE",
    "TRAE_AI_SHELL_ID",
];
const AGENT_PREFIXES: [&str; 3] = ["CODEX_", "COPILOT_AGENT_", "CURSOR_"];

/// Why no user can be asked here.
pub(crate) fn why_not_interactive() -> Option<String> {
    let agent = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).find(|name| {
        AGENTS.contains(&name.as_str()) || AGENT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    });
    if let Some(agent) = agent {
        return Some(format!(
            "only you can allow servers, and `{agent}` says that a program runs this command; use a terminal of your own"
        ));
    }
    let terminal = std::io::stdin().is_terminal() && is_terminal();
    (!terminal).then(|| "only you can allow servers: run this on a terminal".to_owned())
}

/// Who decides, for the record.
pub(crate) fn who() -> String {
    let terminal = rustix::termios::ttyname(std::io::stdin(), Vec::new()).ok();
    let terminal =
        terminal.and_then(|name| name.into_string().ok()).unwrap_or_else(|| "no terminal".to_owned());
    format!("uid {} on {terminal}", rustix::process::getuid().as_raw())
}

pub(crate) fn record(verdict: Decision, restrictions: Restrictions, limits: OwnLimits) -> TrustRecord {
    TrustRecord { verdict, restrictions, at: now(), by: who(), limits }
}

pub(crate) fn now() -> String {
    switchboard_definitions::time::utc(SystemTime::now())
}
