//! What commands write: results to standard output, colour only where a person looks.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

/// Commands may print; a reader that went away (`| head`) is no error.
pub(super) fn print(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// What a word means to whoever reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Good,
    Warning,
    Bad,
    Quiet,
    Strong,
}

/// Whether standard output is a terminal that wants colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Paint(bool);

impl Paint {
    pub(super) fn for_stdout() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self(io::stdout().is_terminal() && !refused && !dumb)
    }

    pub(super) fn on(self, tone: Tone, text: impl Display) -> String {
        if !self.0 {
            return text.to_string();
        }
        let code = match tone {
            Tone::Good => "32",
            Tone::Warning => "33",
            Tone::Bad => "31",
            Tone::Quiet => "2",
            Tone::Strong => "1",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colour_words_are_left_alone() {
        assert_eq!(Paint(false).on(Tone::Bad, "failed"), "failed");
        assert_eq!(Paint(true).on(Tone::Bad, "failed"), "\x1b[31mfailed\x1b[0m");
    }
}
