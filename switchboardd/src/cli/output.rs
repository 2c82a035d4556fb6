//! What commands write: results to standard output, colour only where a person looks, columns that line up.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::Exit;

/// Below this nothing can be laid out.
const NARROWEST: usize = 40;

/// Whether this command has printed something.
static ANSWERED: AtomicBool = AtomicBool::new(false);
/// What went wrong, for those who want to read it in JSON.
static COMPLAINTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Commands may print; a reader that went away (`| head`) is no error.
pub(super) fn print(text: &str) {
    ANSWERED.store(true, Ordering::Relaxed);
    let _ = writeln!(io::stdout(), "{text}");
}

pub(super) fn print_json(value: &Value) {
    print(&format!("{value:#}"));
}

/// One object on one line, of many.
pub(super) fn print_json_line(value: &Value) {
    print(&value.to_string());
}

/// Says to a person what went wrong, and keeps it for `close`.
pub(super) fn complain(error: &dyn Display) {
    eprintln!("switchboard: {error}");
    COMPLAINTS.lock().expect("BUG: a push panicked").push(error.to_string());
}

/// The end of a command: one that had nothing to print but was to answer in JSON prints what went wrong.
pub(super) fn close(as_json: bool, exit: Exit) -> Exit {
    if as_json && !matches!(exit, Exit::Ok) && !ANSWERED.load(Ordering::Relaxed) {
        let said = COMPLAINTS.lock().expect("BUG: a push panicked").join("\n");
        let said = if said.is_empty() { "it failed; standard error says why".to_owned() } else { said };
        print_json_line(&json!({ "error": said }));
    }
    exit
}

/// Says what went wrong.
pub(super) fn failed(error: &dyn Display) -> Exit {
    complain(error);
    Exit::Error
}

/// What a word means to whoever reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
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
        let code = match tone {
            Tone::Plain => return text.to_string(),
            _ if !self.0 => return text.to_string(),
            Tone::Good => "32",
            Tone::Warning => "33",
            Tone::Bad => "31",
            Tone::Quiet => "2",
            Tone::Strong => "1",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// How many characters fit on a line; no limit where no terminal is.
pub(super) fn width() -> usize {
    if !io::stdout().is_terminal() {
        return usize::MAX;
    }
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80).max(NARROWEST)
}

/// `3 m`, `2 h`: as exact as somebody wants it who looks at it.
pub(super) fn age(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} m", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// `1 suite`, `2 suites`.
pub(super) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

pub(super) fn memory(kib: u64) -> String {
    match kib >> 10 {
        0 => format!("{kib} KiB"),
        mib => format!("{mib} MiB"),
    }
}

/// A path as a person would write it.
pub(super) fn tilde(path: &str) -> String {
    let home = crate::daemon::home().ok().and_then(|home| home.into_os_string().into_string().ok());
    match home.as_deref().and_then(|home| path.strip_prefix(home)) {
        Some("") => "~".to_owned(),
        Some(rest) if rest.starts_with('/') => format!("~{rest}"),
        _ => path.to_owned(),
    }
}

#[derive(Debug, Clone)]
pub(super) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

pub(super) fn cell(text: impl Into<String>) -> Cell {
    Cell { text: text.into(), tone: Tone::Plain }
}

pub(super) fn toned(tone: Tone, text: impl Into<String>) -> Cell {
    Cell { text: text.into(), tone }
}

/// Rows whose columns line up. What does not fit on a line goes on below it.
#[derive(Debug, Default)]
pub(super) struct Table {
    heading: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(super) fn new(heading: &[&'static str]) -> Self {
        Self { heading: heading.to_vec(), rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn lines(&self, paint: Paint, width: usize) -> Vec<String> {
        let heading: Vec<Cell> = self.heading.iter().map(|word| toned(Tone::Quiet, *word)).collect();
        let rows = || std::iter::once(&heading).filter(|row| !row.is_empty()).chain(&self.rows);
        let columns = rows().map(Vec::len).max().unwrap_or(0);
        let length = |cell: &Cell| cell.text.chars().count();
        let widths: Vec<usize> = (0..columns)
            .map(|at| rows().filter_map(|row| row.get(at)).map(length).max().unwrap_or(0))
            .collect();
        // The last column is the one that holds sentences: it may go on below.
        let fixed: usize =
            widths.iter().take(columns.saturating_sub(1)).map(|width| width + 2).sum::<usize>() + 2;
        let mut lines = Vec::new();
        for row in rows() {
            let mut line = String::from(" ");
            let mut below = None;
            for (at, cell) in row.iter().enumerate() {
                let is_last = at + 1 == columns;
                if is_last && fixed + length(cell) > width {
                    below = Some(cell);
                    continue;
                }
                let pad = widths[at] - length(cell);
                let pad = if at + 1 == row.len() { 0 } else { pad };
                line.push_str(&format!(" {}{:pad$} ", paint.on(cell.tone, &cell.text), ""));
            }
            lines.push(line.trim_end().to_owned());
            if let Some(cell) = below {
                let wrapped = wrap(&cell.text, width.saturating_sub(6));
                lines.extend(wrapped.iter().map(|part| format!("      {}", paint.on(cell.tone, part))));
            }
        }
        lines
    }
}

/// Lines of at most so many characters, broken between words; a word that is longer stays whole, so that it can be
/// copied.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            let longer = line.chars().count() + 1 + word.chars().count();
            if !line.is_empty() && longer > width {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colour_words_are_left_alone() {
        assert_eq!(Paint(false).on(Tone::Bad, "failed"), "failed");
        assert_eq!(Paint(true).on(Tone::Bad, "failed"), "\x1b[31mfailed\x1b[0m");
        assert_eq!(Paint(true).on(Tone::Plain, "cold"), "cold");
    }

    #[test]
    fn ages_are_short() {
        for (ms, shown) in [
            (0, "0 s"),
            (59_999, "59 s"),
            (60_000, "1 m"),
            (7_200_000, "2 h"),
            (90_000_000, "25 h"),
            (259_200_000, "3 d"),
        ] {
            assert_eq!(age(ms), shown);
        }
    }

    #[test]
    fn columns_line_up_and_sentences_go_on_below() {
        let mut table = Table::new(&["SUITE", "STATE", "NOTE"]);
        table.row(vec![cell("a_suite"), toned(Tone::Good, "ready"), cell("")]);
        table.row(vec![cell("long_suite"), cell("failed"), cell("exited with status 1 before answering")]);
        let wide = table.lines(Paint(false), usize::MAX);
        assert_eq!(wide[0], "  SUITE       STATE   NOTE");
        assert_eq!(wide[1], "  a_suite     ready");
        assert_eq!(wide[2], "  long_suite  failed  exited with status 1 before answering");
        let narrow = table.lines(Paint(false), 40);
        assert_eq!(
            narrow[2..],
            ["  long_suite  failed", "      exited with status 1 before", "      answering"]
        );
        assert!(narrow.iter().all(|line| line.chars().count() <= 40), "{narrow:#?}");
        assert!(table.lines(Paint(true), 40)[1].contains("\x1b[32mready\x1b[0m"));
    }
}
