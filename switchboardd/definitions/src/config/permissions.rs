//! What a host and its user can decide about the tools of a server, beyond `expose`.

use globset::GlobSet;

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
        }
    }
}
