//! Output of commands: results on standard output, colour only on a terminal, aligned columns.
//!
//! The only place that writes to a terminal. Text gets there as a `Printable`, or as JSON without hidden
//! characters.
#![allow(clippy::disallowed_methods, reason = "the one place that knows standard output and standard error")]

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use switchboard_wire::printable;
use switchboard_wire::visible::{Colour, Printable, visible_json};
use unicode_width::UnicodeWidthStr as _;

use super::CliExit;

/// Narrower terminals are treated as this wide.
const MIN_WIDTH: usize = 40;

/// Whether this command has printed something.
static ANSWERED: AtomicBool = AtomicBool::new(false);
/// Errors so far, for `close` to print as JSON.
static PRINTED_ERRORS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// One line on standard output, from a format string.
macro_rules! say {
    ($($arg:tt)*) => { $crate::output::print(&switchboard_wire::printable!($($arg)*)) };
}

/// One line on standard error, from a format string.
macro_rules! remark {
    ($($arg:tt)*) => { $crate::output::print_remark(&switchboard_wire::printable!($($arg)*)) };
}

pub(super) use {remark, say};

/// Prints a line. A reader that went away (`| head`) is no error.
pub(super) fn print(text: &Printable) {
    let _ = try_print(text);
}

/// Like `print`, but reports that the reader went away.
pub(super) fn try_print(text: &Printable) -> io::Result<()> {
    write_out(&format!("{}\n", text.as_str()))
}

/// Prints a server's text: unchanged into a pipe, without hidden characters on a terminal.
pub(super) fn print_exact(text: &str) {
    if is_terminal() {
        print(&Printable::text(text));
    } else {
        let _ = write_out(&format!("{text}\n"));
    }
}

/// Prints text generated from our own constants: help, completions, manual pages.
pub(super) fn print_generated(text: &[u8]) {
    ANSWERED.store(true, Ordering::Relaxed);
    let _ = io::stdout().write_all(text);
}

pub(super) fn print_json(value: &Value) {
    let _ = write_out(&format!("{}\n", visible_json(&format!("{value:#}"))));
}

/// Prints one of several objects on one line. An error means that the reader went away.
pub(super) fn print_json_line(value: &Value) -> io::Result<()> {
    write_out(&format!("{}\n", visible_json(&value.to_string())))
}

/// Prints a text in the place of everything on the screen; into a pipe, after what was printed before. Longer than the
/// screen, its end is cut off. An error means that the reader went away.
pub(super) fn print_screen(text: &Printable) -> io::Result<()> {
    let Ok(size) = rustix::termios::tcgetwinsize(io::stdout()) else {
        return write_out(&format!("{}\n\n", text.as_str()));
    };
    // A terminal that does not know its size says 0.
    let rows = match size.ws_row {
        0 => usize::MAX,
        rows => usize::from(rows).saturating_sub(1).max(1),
    };
    let lines: Vec<&str> = text.as_str().lines().take(rows).collect();
    // Each line ends with an order to erase the rest of it, so that the screen does not flicker.
    write_out(&format!("\x1b[H{}\x1b[K\n\x1b[J", lines.join("\x1b[K\n")))
}

/// Whether nothing is printed: a command with one JSON answer runs others, which would print theirs.
static QUIET: AtomicBool = AtomicBool::new(false);

pub(super) fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

fn write_out(text: &str) -> io::Result<()> {
    if QUIET.load(Ordering::Relaxed) {
        return Ok(());
    }
    ANSWERED.store(true, Ordering::Relaxed);
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Prints a message for the user, apart from the result.
pub(super) fn print_remark(text: &Printable) {
    let _ = writeln!(io::stderr(), "{}", text.as_str());
}

/// Prints a question, without a line break, where the user sees it.
pub(super) fn question(text: &Printable) {
    if person_reads_errors() || !is_terminal() {
        let _ = write!(io::stderr(), "{}", text.as_str()).and_then(|()| io::stderr().flush());
    } else {
        let _ = write!(io::stdout(), "{}", text.as_str()).and_then(|()| io::stdout().flush());
    }
}

/// Replaces the line that the cursor is on.
pub(super) fn progress(text: &Printable) {
    let _ = write!(io::stderr(), "\r\x1b[2K{}", text.as_str());
    let _ = io::stderr().flush();
}

/// Whether a user sees standard output.
pub(super) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether a user sees standard error.
pub(super) fn person_reads_errors() -> bool {
    io::stderr().is_terminal()
}

/// Indents all lines but the first, so that none of them looks like a line of ours.
pub(super) fn indented(text: impl Display) -> Printable {
    let text = Printable::text(text);
    let below = |(at, line): (usize, &str)| match at {
        0 => Printable::line(line),
        _ => printable!("    {line}"),
    };
    // Tracebacks contain tabs.
    Printable::lines(text.as_str().replace('\t', "    ").trim_end().lines().enumerate().map(below))
}

/// Prints an error for the user and remembers it for `close`.
pub(super) fn complain(error: &dyn Display) {
    let error = Printable::text(error);
    print_remark(&printable!("switchboard: {error}"));
    PRINTED_ERRORS.lock().expect("BUG: a push panicked").push(error.as_str().to_owned());
}

/// Ends a command: one that failed without output prints its errors as JSON if JSON was asked for.
pub(super) fn close(as_json: bool, exit: CliExit) -> CliExit {
    if as_json && !matches!(exit, CliExit::Ok) && !ANSWERED.load(Ordering::Relaxed) {
        let said = PRINTED_ERRORS.lock().expect("BUG: a push panicked").join("\n");
        let said = if said.is_empty() { "it failed; standard error says why".to_owned() } else { said };
        let _ = print_json_line(&json!({ "error": said }));
    }
    exit
}

/// Reports an error and returns its exit code.
pub(super) fn failed(error: &dyn Display) -> CliExit {
    complain(error);
    CliExit::Error
}

/// What a piece of text signals to the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Good,
    Warning,
    Bad,
    Quiet,
    Strong,
}

/// Whether standard output gets colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Paint(bool);

impl Paint {
    pub(super) fn for_stdout() -> Self {
        Self::decide(io::stdout().is_terminal(), |name| std::env::var(name).ok())
    }

    /// `NO_COLOR` refuses colour and `CLICOLOR_FORCE` asks for it wherever the output goes; without either,
    /// a terminal gets it, unless it is a dumb one or `CLICOLOR=0` refuses it.
    fn decide(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> Self {
        let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
        if is_set("NO_COLOR") {
            return Self(false);
        }
        if is_set("CLICOLOR_FORCE") && variable("CLICOLOR_FORCE").as_deref() != Some("0") {
            return Self(true);
        }
        let refused = variable("CLICOLOR").as_deref() == Some("0");
        Self(is_terminal && !refused && variable("TERM").as_deref() != Some("dumb"))
    }

    pub(super) fn on(self, tone: Tone, text: impl Display) -> Printable {
        let text = Printable::line(text);
        let colour = match tone {
            Tone::Plain => return text,
            _ if !self.0 => return text,
            Tone::Good => Colour::Green,
            Tone::Warning => Colour::Yellow,
            Tone::Bad => Colour::Red,
            Tone::Quiet => Colour::Dim,
            Tone::Strong => Colour::Bold,
        };
        text.coloured(colour)
    }
}

/// Width of the terminal; unlimited if standard output is none.
pub(super) fn width() -> usize {
    if !io::stdout().is_terminal() {
        return usize::MAX;
    }
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80).max(MIN_WIDTH)
}

/// Width of the terminal that standard error goes to.
pub(super) fn error_width() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80).max(MIN_WIDTH)
}

/// `3 min`, `2 h`: in one unit, rounded down.
pub(super) fn age(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
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

/// Shortens the home directory to `~`.
pub(super) fn tilde(path: &str) -> String {
    let home = switchboardd::daemon::home().ok().and_then(|home| home.into_os_string().into_string().ok());
    match home.as_deref().and_then(|home| path.strip_prefix(home)) {
        Some("") => "~".to_owned(),
        Some(rest) if rest.starts_with('/') => format!("~{rest}"),
        _ => path.to_owned(),
    }
}

#[derive(Debug, Clone)]
pub(super) struct Cell {
    text: Printable,
    tone: Tone,
}

impl Cell {
    pub(super) fn text(&self) -> &Printable {
        &self.text
    }
}

pub(super) fn cell(text: impl Display) -> Cell {
    toned(Tone::Plain, text)
}

pub(super) fn toned(tone: Tone, text: impl Display) -> Cell {
    Cell { text: Printable::line(text), tone }
}

/// Aligned columns. A last cell that is too long is wrapped below its row.
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

    pub(super) fn lines(&self, paint: Paint, width: usize) -> Vec<Printable> {
        let heading: Vec<Cell> = self.heading.iter().map(|word| toned(Tone::Quiet, *word)).collect();
        let rows = || std::iter::once(&heading).filter(|row| !row.is_empty()).chain(&self.rows);
        let columns = rows().map(Vec::len).max().unwrap_or(0);
        let length = |cell: &Cell| columns_of(cell.text.as_str());
        let widths: Vec<usize> = (0..columns)
            .map(|at| rows().filter_map(|row| row.get(at)).map(length).max().unwrap_or(0))
            .collect();
        // The last column holds sentences and may wrap.
        let fixed: usize =
            widths.iter().take(columns.saturating_sub(1)).map(|width| width + 2).sum::<usize>() + 2;
        let mut lines = Vec::new();
        for row in rows() {
            let mut line = printable!(" ");
            let mut below = None;
            for (at, cell) in row.iter().enumerate() {
                let is_last = at + 1 == columns;
                if is_last && fixed + length(cell) > width {
                    below = Some(cell);
                    continue;
                }
                let pad = widths[at] - length(cell);
                let pad = if at + 1 == row.len() { 0 } else { pad };
                line = printable!("{line} {}{:pad$} ", paint.on(cell.tone, &cell.text), "");
            }
            lines.push(line.trim_end());
            if let Some(cell) = below {
                let wrapped = wrap(cell.text.as_str(), width.saturating_sub(6));
                lines.extend(wrapped.iter().map(|part| printable!("      {}", paint.on(cell.tone, part))));
            }
        }
        lines
    }
}

/// How many columns of a terminal a text takes: none for a combining mark, two for an ideograph or an emoji.
pub(super) fn columns_of(text: &str) -> usize {
    text.width()
}

/// Breaks text between words, at `width` columns. A longer word stays whole, so that it can be copied.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            let longer = columns_of(&line) + 1 + columns_of(word);
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
    fn variables_decide_about_colour() {
        let decide = |is_terminal: bool, variables: &[(&str, &str)]| {
            let value = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            Paint::decide(is_terminal, value).0
        };
        for (variables, on_terminal, in_pipe) in [
            (&[][..], true, false),
            (&[("NO_COLOR", "1")], false, false),
            (&[("NO_COLOR", "")], true, false),
            (&[("TERM", "dumb")], false, false),
            (&[("CLICOLOR", "0")], false, false),
            (&[("CLICOLOR_FORCE", "1")], true, true),
            (&[("CLICOLOR_FORCE", "1"), ("TERM", "dumb"), ("CLICOLOR", "0")], true, true),
            (&[("CLICOLOR_FORCE", "0")], true, false),
            (&[("CLICOLOR_FORCE", "")], true, false),
            (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false, false),
        ] {
            assert_eq!(
                (decide(true, variables), decide(false, variables)),
                (on_terminal, in_pipe),
                "{variables:?}"
            );
        }
    }

    #[test]
    fn wide_and_combining_characters_line_up() {
        let mut table = Table::new(&[]);
        let names = ["plain_name", "日本語", "🦀🚀", "cafe\u{301}", "한국어_x"];
        for name in names {
            table.row(vec![cell(name), cell("|")]);
        }
        let lines = table.lines(Paint(false), usize::MAX);
        for (line, spaces) in lines.iter().zip([2, 6, 8, 8, 4]) {
            let before = line.as_str().strip_suffix('|').unwrap();
            assert_eq!(before.len() - before.trim_end().len(), spaces, "{before}");
        }
        assert_eq!(wrap("日本 語日 本語", 9), ["日本 語日", "本語"]);
    }

    #[test]
    fn lines_below_the_first_are_indented() {
        let text = indented("exited: Traceback\r\n\tin x\x1b\n");
        assert_eq!(printable!("  {text}"), "  exited: Traceback\n        in x\\u{1b}");
        assert_eq!(indented(""), "");
    }

    #[test]
    fn ages_are_short() {
        for (ms, shown) in [
            (0, "0 s"),
            (59_999, "59 s"),
            (60_000, "1 min"),
            (7_200_000, "2 h"),
            (90_000_000, "25 h"),
            (259_200_000, "3 d"),
        ] {
            assert_eq!(age(ms), shown);
        }
    }

    #[test]
    fn columns_line_up_and_long_cells_wrap() {
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
        assert!(narrow.iter().all(|line| line.as_str().chars().count() <= 40), "{narrow:#?}");
        assert!(table.lines(Paint(true), 40)[1].as_str().contains("\x1b[32mready\x1b[0m"));
    }
}
