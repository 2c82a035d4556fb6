//! A problem in a file, with its position.

use std::fmt;
use std::path::{Path, PathBuf};

use switchboard_wire::visible::visible;

/// How many characters of a line are shown.
pub(super) const MAX_LINE: usize = 160;

/// Something in a file that its author should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub file: PathBuf,
    /// Line and column, counted from 1; `None` for the file as a whole.
    pub at: Option<(usize, usize)>,
    pub message: String,
    /// The line itself, for the user's own terminal only: a glob may have matched a private file by accident.
    pub line: Option<Box<str>>,
}

impl Problem {
    /// A problem of the file as a whole.
    pub fn of(file: &Path, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), at: None, message: message.into(), line: None }
    }

    /// With the line and a mark under the position, for a terminal.
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

/// Hidden characters are escaped, since names and values come from the file.
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
