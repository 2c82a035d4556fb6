//! What is to be said of a file, with its place.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::visible::visible;

/// As much of a line as a terminal shows.
pub(super) const MAX_LINE: usize = 160;

/// Something in a file that its writer should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub file: PathBuf,
    /// Line and column, counted from 1; `None` for the file as a whole.
    pub at: Option<(usize, usize)>,
    pub message: String,
    /// The line itself. For a person's terminal only: what a glob hit by accident is nobody else's to read.
    pub line: Option<Box<str>>,
}

impl Problem {
    /// Something about the file as a whole.
    pub fn of(file: &Path, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), at: None, message: message.into(), line: None }
    }

    /// With the line and a mark under the place, for a terminal.
    pub fn pictured(&self) -> String {
        let (Some((number, column)), Some(line)) = (self.at, &self.line) else { return self.to_string() };
        let shown: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let (margin, mark) = (number.to_string(), " ".repeat(column - 1));
        let gutter = " ".repeat(margin.len());
        if column > MAX_LINE {
            return self.to_string();
        }
        let shown: String = shown.chars().take(MAX_LINE).collect();
        format!("{self}\n {margin} | {}\n {gutter} | {mark}^", visible(&shown))
    }
}

/// Nothing hides in it: names and values in it are somebody else's.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&visible(&self.file.display().to_string()))?;
        if let Some((line, column)) = self.at {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", visible(&self.message))
    }
}

impl std::error::Error for Problem {}
