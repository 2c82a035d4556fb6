//! How a pool shares its children.

use std::time::Duration;

use super::stateful::{follows_roots, is_stateful, names_folders};
use crate::config::{PoolConfig, Scope};
use crate::definition::Launch;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    pub scope: Scope,
    /// Children kept initialised and waiting.
    pub warm: usize,
    pub max: usize,
    /// A child that nobody used for this long goes.
    pub idle: Duration,
}

/// Which roots the children of a pool are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootsOf {
    /// Those of the session that owns the child; of a host without roots its workspace.
    Session,
    /// The same, but a host without roots leaves the server the folders of its arguments.
    SessionOrArguments,
    /// None: sessions share the children. `missed` if the server is known to follow roots.
    Nobody { missed: bool },
}

impl RootsOf {
    pub fn children(launch: &Launch, config: PoolConfig) -> Self {
        match Settings::of(launch, config).scope {
            Scope::Session if names_folders(launch) => Self::SessionOrArguments,
            Scope::Session => Self::Session,
            Scope::Shared | Scope::Call => Self::Nobody { missed: follows_roots(launch) },
        }
    }
}

impl Settings {
    pub fn of(launch: &Launch, config: PoolConfig) -> Self {
        let usual = if is_stateful(launch) { Scope::Session } else { Scope::Shared };
        let scope = config.scope.unwrap_or(usual);
        let max = config.max.unwrap_or(if scope == Scope::Shared { 1 } else { 8 });
        Self {
            scope,
            // Nobody knows in which workspace a spare will be used.
            warm: if launch.runs_in_workspace() && scope == Scope::Session {
                0
            } else {
                config.warm.unwrap_or(0).min(max)
            },
            max,
            idle: Duration::from_millis(config.idle_ms.unwrap_or(10 * 60 * 1000)),
        }
    }
}
