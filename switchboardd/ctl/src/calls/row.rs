//! One call as a line of aligned columns.

use switchboard_wire::printable;
use switchboard_wire::visible::Printable;
use switchboardd::{CallRecord, RecordEntry};

use crate::local_time::local;
use crate::output::{Paint, Tone, columns_of, tilde, width};

const HEADING: [&str; 7] = ["WHEN", "EDITOR", "PROJECT", "SERVER", "TOOL", "TOOK", "OUTCOME"];
const PROJECT: usize = 2;
/// A narrower terminal has no room for the project and the year.
const WIDE: usize = 100;
const YEAR: &str = "2026-";
/// A longer word moves the columns of its own line only.
const MAX_WIDTH: usize = 32;

/// The widths of the columns; they grow as lines come.
pub(super) struct Columns {
    widths: [usize; 7],
    paint: Paint,
    is_narrow: bool,
}

impl Default for Columns {
    fn default() -> Self {
        Self { widths: HEADING.map(columns_of), paint: Paint::for_stdout(), is_narrow: width() < WIDE }
    }
}

impl Columns {
    /// Makes room for this line.
    pub(super) fn widen(&mut self, entry: &RecordEntry<'_>) {
        if let RecordEntry::Call(call) = entry {
            for (width, word) in self.widths.iter_mut().zip(words(call, self.is_narrow)) {
                *width = (*width).max(columns_of(&word).min(MAX_WIDTH));
            }
        }
    }

    pub(super) fn heading(&self) -> Printable {
        self.aligned(&HEADING.map(|word| (Tone::Quiet, Printable::line(word))))
    }

    pub(super) fn line(&mut self, entry: &RecordEntry<'_>) -> Printable {
        match entry {
            RecordEntry::Call(call) => {
                self.widen(entry);
                let last = tone(&call.outcome);
                let mut at = 0;
                let cells = words(call, self.is_narrow).map(|word| {
                    at += 1;
                    (if at == HEADING.len() { last } else { Tone::Plain }, Printable::line(word))
                });
                self.aligned(&cells)
            }
            RecordEntry::Lost { at, count } => {
                printable!("  {}  {}", when(*at), self.paint.on(Tone::Bad, super::lost_words(*count)))
            }
        }
    }

    fn aligned(&self, cells: &[(Tone, Printable); 7]) -> Printable {
        let mut line = printable!(" ");
        for (at, ((tone, text), width)) in cells.iter().zip(self.widths).enumerate() {
            if self.is_narrow && at == PROJECT {
                continue;
            }
            let pad = width.saturating_sub(columns_of(text.as_str()));
            line = printable!("{line} {}{:pad$} ", self.paint.on(*tone, text), "");
        }
        line.trim_end()
    }
}

/// What stands in each column, without hidden characters.
fn words(call: &CallRecord<'_>, is_narrow: bool) -> [String; 7] {
    let or_none = |text: Option<&str>| text.unwrap_or("-").to_owned();
    let tool = match (&call.tool, &*call.what) {
        (Some(tool), "call") => tool.to_string(),
        (None, "call") => "-".to_owned(),
        (_, what) => format!("({what})"),
    };
    [
        when(call.at).split_off(if is_narrow { YEAR.len() } else { 0 }),
        or_none(call.host.as_deref()),
        call.workspace.as_deref().map_or_else(|| "-".to_owned(), tilde),
        or_none(call.server.as_deref().or(call.suite.as_deref())),
        tool,
        took(call.ms),
        outcome(call),
    ]
    .map(|word| Printable::line(word).as_str().to_owned())
}

fn when(unix_ms: u64) -> String {
    local(super::time_of(unix_ms))
}

fn outcome(call: &CallRecord<'_>) -> String {
    let mut text = call.outcome.to_string();
    if let Some(kind) = call.kind.as_deref().filter(|kind| *kind != call.outcome) {
        text = format!("{text} ({kind})");
    }
    if call.asked && call.outcome != "asked" {
        text.push_str(", user was asked");
    }
    if call.retry {
        text.push_str(", after an answer");
    }
    if let Some(arguments) = &call.arguments {
        text = format!("{text}  {}", arguments.get());
    }
    text
}

fn tone(outcome: &str) -> Tone {
    match outcome {
        "ok" => Tone::Good,
        "refused" | "held" | "asked" | "declined" | "unavailable" | "stopped" => Tone::Warning,
        "cancelled" => Tone::Quiet,
        _ => Tone::Bad,
    }
}

/// `0.42 ms`, `12 ms`, `1.5 s`, `3 m 20 s`.
fn took(ms: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "calls end within a day")]
    let seconds = (ms / 1e3) as u64;
    match ms {
        ..1.0 => format!("{ms:.2} ms"),
        ..10.0 => format!("{ms:.1} ms"),
        ..1e3 => format!("{ms:.0} ms"),
        ..1e5 => format!("{:.1} s", ms / 1e3),
        _ => format!("{} m {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_all_of_a_call() {
        let line = r#"{"at":1794787200123,"ms":1520.4,"host":"Claude\u001b Code","workspace":null,"via":"shim","suite":"gh_suite","server":"gh","what":"call","tool":"search","outcome":"refused","kind":"not_allowed"}"#;
        let when = local(crate::calls::time_of(1_794_787_200_123));
        let mut columns = Columns::default();
        let shown = columns.line(&RecordEntry::parse(line).unwrap());
        assert_eq!(
            shown.as_str(),
            format!("  {when}  Claude\\u{{1b}} Code  -        gh      search  1.5 s  refused (not_allowed)")
        );
        let read = line.replace("\"call\"", "\"resources/read\"").replace("\"search\"", "null");
        assert!(columns.line(&RecordEntry::parse(&read).unwrap()).as_str().contains("(resources/read)"));
        let lost = columns.line(&RecordEntry::parse(r#"{"at":1794787200123,"lost":2}"#).unwrap());
        assert_eq!(lost.as_str(), format!("  {when}  2 calls could not be recorded"));
        let mut narrow = Columns { is_narrow: true, ..Columns::default() };
        let shown = narrow.line(&RecordEntry::parse(line).unwrap());
        let expected =
            format!("  {}  Claude\\u{{1b}} Code  gh      search  1.5 s  refused (not_allowed)", &when[5..]);
        assert_eq!(shown.as_str(), expected);
        for (ms, shown) in [
            (0.421, "0.42 ms"),
            (9.96, "10.0 ms"),
            (12.3, "12 ms"),
            (1500.0, "1.5 s"),
            (200_000.0, "3 m 20 s"),
        ] {
            assert_eq!(took(ms), shown);
        }
    }
}
