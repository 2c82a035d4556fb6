//! The limit of a child's own text in messages.

use switchboard_wire::visible::clipped_lines;

/// Limits a child's own text in our messages.
pub(super) fn clip(text: &str) -> String {
    clipped_lines(text, 1024)
}
