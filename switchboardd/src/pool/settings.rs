//! How a pool shares its children.

use std::time::Duration;

use super::stateful::is_stateful;
use crate::config::{PoolConfig, Scope};
use crate::definition::Reach;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    pub scope: Scope,
    /// Children kept initialised and waiting.
    pub warm: usize,
    pub max: usize,
    /// A child that nobody used for this long goes.
    pub idle: Duration,
}

impl Settings {
    pub fn of(reach: &Reach, config: PoolConfig) -> Self {
        let usual = if is_stateful(reach) { Scope::Session } else { Scope::Shared };
        let scope = config.scope.unwrap_or(usual);
        let max = config.max.unwrap_or(if scope == Scope::Shared { 1 } else { 8 });
        Self {
            scope,
            // Nobody knows in which workspace a spare will be used.
            warm: if reach.runs_in_workspace() && scope == Scope::Session {
                0
            } else {
                config.warm.unwrap_or(0).min(max)
            },
            max,
            idle: Duration::from_millis(config.idle_ms.unwrap_or(10 * 60 * 1000)),
        }
    }
}
