//! What a host and its user can decide about the tools of a server, beyond `expose`.

use std::collections::BTreeSet;
use std::sync::Arc;

use globset::GlobSet;

use super::{Expose, SuiteConfig, glob_set};
use crate::own_limits::OwnLimits;

/// Whether a server is shown as a read-only tool and a writing one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Split {
    /// If the server marks some of its exposed tools as read-only and some not.
    #[default]
    Auto,
    Always,
    Never,
}

/// The tools whose calls are sent only after the user was asked.
#[derive(Debug, Clone, Default)]
pub enum Confirm {
    #[default]
    Nothing,
    /// Those with matching names.
    Named(GlobSet),
    /// Those that do not say that they are harmless.
    Destructive,
    /// Those with matching names, and others.
    NamedAnd(GlobSet, Box<Confirm>),
}

impl Confirm {
    /// Whether any call may need a question.
    pub fn is_set(&self) -> bool {
        !matches!(self, Self::Nothing)
    }

    /// `is_harmless`: whether the tool says that it destroys nothing.
    pub fn asks_about(&self, tool: &str, is_harmless: impl FnOnce() -> bool) -> bool {
        match self {
            Self::Nothing => false,
            Self::Named(names) => names.is_match(tool),
            Self::Destructive => !is_harmless(),
            Self::NamedAnd(names, others) => names.is_match(tool) || others.asks_about(tool, is_harmless),
        }
    }
}

impl SuiteConfig {
    /// Adds what the definition's own file says of its tools.
    pub fn restrict(&mut self, limits: &OwnLimits) {
        if limits.is_open() {
            return;
        }
        let set = |globs: &BTreeSet<String>| glob_set(&globs.iter().cloned().collect::<Vec<_>>());
        let expose = || -> Result<Expose, globset::Error> {
            let allow = limits.allow.as_ref().map(set).transpose()?;
            Ok(Expose { allow, deny: Some(set(&limits.deny)?), of_file: None })
        };
        // What cannot be compiled permits nothing.
        let closed = || Expose { allow: Some(GlobSet::empty()), ..Expose::default() };
        let confirm = set(&limits.confirm);
        let expose = if confirm.is_ok() { expose().unwrap_or_else(|_| closed()) } else { closed() };
        self.expose.of_file = Some(Arc::new(expose));
        if let Some(names) = confirm.ok().filter(|names| !names.is_empty()) {
            let others = std::mem::take(&mut self.confirm);
            self.confirm = Confirm::NamedAnd(names, Box::new(others));
        }
    }
}
