//! What an introspection shows.

use switchboard_definitions::config::Mode;

use super::split::Marks;

/// What to include.
#[derive(Debug, Clone, Copy)]
pub struct IntrospectOptions<'a> {
    pub mode: Mode,
    pub summary_max_chars: usize,
    /// How long the text without a query may be, in bytes, before it becomes compact.
    pub max_bytes: usize,
    pub query: Option<&'a str>,
    /// Whether the model asked for whole definitions.
    pub wants_schemas: bool,
    pub marks: Option<&'a Marks>,
}

impl<'a> IntrospectOptions<'a> {
    /// For all tools.
    pub fn new(mode: Mode, summary_max_chars: usize, max_bytes: usize, marks: &'a Marks) -> Self {
        Self { mode, summary_max_chars, max_bytes, query: None, wants_schemas: false, marks: Some(marks) }
    }
}
