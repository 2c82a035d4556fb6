//! What a host and its user can decide about the tools of a server, beyond `expose`.

use globset::GlobSet;
use serde::{Deserialize, Serialize};

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
}

impl Confirm {
    /// Whether any call may need a question.
    pub fn is_set(&self) -> bool {
        self.destructive || self.named.is_some()
    }

    /// `is_harmless`: whether the tool says that it destroys nothing.
    pub fn asks_about(&self, tool: &str, is_harmless: impl FnOnce() -> bool) -> bool {
        self.named.as_ref().is_some_and(|named| named.is_match(tool)) || (self.destructive && !is_harmless())
    }
}
