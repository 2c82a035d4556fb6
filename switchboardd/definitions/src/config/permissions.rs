//! What a host and its user can decide about the tools of a server, beyond `expose`.

use std::collections::BTreeSet;
use std::sync::Arc;

use globset::GlobSet;
use serde::{Deserialize, Serialize};

use super::{Expose, SuiteConfig, glob_set};
use crate::own_limits::OwnLimits;

/// Whether a server is shown as a read-only tool and a writing one. What keeps them apart more is greater.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Split {
    Never,
    /// If the server marks some of its exposed tools as read-only and some not.
    #[default]
    Auto,
    Always,
}

impl Split {
    /// As it stands in a configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never => "false",
            Self::Auto => "\"auto\"",
            Self::Always => "true",
        }
    }
}

/// The tools whose calls are sent only after the user was asked.
#[derive(Debug, Clone, Default)]
pub struct Confirm {
    /// Those with matching names.
    pub(super) named: Option<GlobSet>,
    /// Those that do not say that they are harmless.
    pub(super) destructive: bool,
    /// Those that the definition's own file says.
    pub(super) of_file: Option<GlobSet>,
}

impl Confirm {
    /// Whether any call may need a question.
    pub fn is_set(&self) -> bool {
        self.destructive || self.named.is_some()
    }

    /// `is_harmless`: whether the tool says that it destroys nothing.
    pub fn asks_about(&self, tool: &str, is_harmless: impl FnOnce() -> bool) -> bool {
        let is_named = |names: &Option<GlobSet>| names.as_ref().is_some_and(|names| names.is_match(tool));
        is_named(&self.named) || is_named(&self.of_file) || (self.destructive && !is_harmless())
    }
}

impl SuiteConfig {
    /// Adds what the definition's own file says of its tools.
    pub fn limit(&mut self, limits: &OwnLimits) {
        if limits.is_open() {
            return;
        }
        let set = |globs: &BTreeSet<String>| glob_set(&globs.iter().cloned().collect::<Vec<_>>());
        let expose = || -> Result<Expose, globset::Error> {
            let allow = limits.allow.as_ref().map(set).transpose()?.into_iter().collect();
            Ok(Expose { allow, deny: Some(set(&limits.deny)?), of_file: None })
        };
        // What cannot be compiled permits nothing.
        let closed = || Expose { allow: vec![GlobSet::empty()], ..Expose::default() };
        let confirm = set(&limits.confirm);
        let expose = if confirm.is_ok() { expose().unwrap_or_else(|_| closed()) } else { closed() };
        self.expose.of_file = Some(Arc::new(expose));
        self.confirm.of_file = confirm.ok().filter(|names| !names.is_empty());
    }
}
