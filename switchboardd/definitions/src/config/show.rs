//! How a server stands in the list of tools.

/// What hosts see of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Show {
    /// One suite tool, or two.
    #[default]
    Suite,
    /// Its own tools, once they are known.
    Tools,
    /// Whichever costs a session fewer tokens.
    Auto,
}

impl Show {
    pub const ALL: [Self; 3] = [Self::Suite, Self::Tools, Self::Auto];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Suite => "suite",
            Self::Tools => "tools",
            Self::Auto => "auto",
        }
    }
}
