//! How a pool shares its children.

use std::time::Duration;

use switchboard_definitions::config::{PoolConfig, Scope};
use switchboard_definitions::definition::Launch;

use super::stateful::{follows_roots, is_stateful, names_folders};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSettings {
    pub scope: Scope,
    /// How many initialised children are kept ready.
    pub warm: usize,
    pub max: usize,
    /// A child that was not used for this long is stopped.
    pub idle: Duration,
}

/// Which roots the children of a pool get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootsOf {
    /// Those of the session that owns the child; its workspace if the host has no roots.
    Session,
    /// Like `Session`, but if the host has no roots, the server keeps the folders of its arguments.
    SessionOrArguments,
    /// The workspace that the children are for.
    Workspace,
    /// None, because sessions share the children. `missed`: the server is known to use roots.
    Nobody { missed: bool },
}

impl RootsOf {
    pub fn children(launch: &Launch, config: PoolConfig) -> Self {
        match PoolSettings::of(launch, config).scope {
            Scope::Session if names_folders(launch) => Self::SessionOrArguments,
            Scope::Session => Self::Session,
            Scope::Workspace => Self::Workspace,
            Scope::Shared | Scope::Call => Self::Nobody { missed: follows_roots(launch) },
        }
    }
}

impl PoolSettings {
    pub fn of(launch: &Launch, config: PoolConfig) -> Self {
        let usual = if is_stateful(launch) { Scope::Session } else { Scope::Shared };
        let scope = config.scope.unwrap_or(usual);
        let max = config.max.unwrap_or(match scope {
            Scope::Shared | Scope::Workspace => 1,
            Scope::Session | Scope::Call => 8,
        });
        Self {
            scope,
            // It is not known in which workspace a spare will be used.
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
