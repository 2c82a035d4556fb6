//! What a test measured for a promise: one line, which `proofs` reads from its output and prints beside the promise.
//! Tests of other packages print the same lines.

use std::fmt;
use std::time::Duration;

/// How the figures of several runs become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureKind {
    /// The largest counts.
    Largest,
    Total,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    pub row: String,
    pub kind: FigureKind,
    pub what: String,
    pub value: f64,
}

/// A figure whose largest value counts. `what` ends with its unit.
pub fn measured(row: &str, what: &str, value: f64) {
    say(row, FigureKind::Largest, what, value);
}

pub fn measured_ms(row: &str, what: &str, time: Duration) {
    measured(row, &format!("{what}, ms"), time.as_secs_f64() * 1000.0);
}

/// What a run did: the sum of all runs counts.
#[expect(clippy::cast_precision_loss, reason = "no run counts beyond 2⁵³")]
pub fn counted(row: &str, what: &str, many: u64) {
    say(row, FigureKind::Total, what, many as f64);
}

fn say(row: &str, kind: FigureKind, what: &str, value: f64) {
    let (row, what) = (row.to_owned(), what.to_owned());
    eprintln!("{}", Figure { row, kind, what, value });
}

impl fmt::Display for Figure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { row, kind, what, value } = self;
        let kind = match kind {
            FigureKind::Largest => "largest",
            FigureKind::Total => "total",
        };
        write!(out, "proof {row} {kind} {what} = {value:.3}")
    }
}

impl Figure {
    /// Reads a line of a test's output.
    pub fn read(line: &str) -> Option<Self> {
        // The test runner may have begun the line with the name of the test.
        let (_, figure) =
            line.split_once("proof ").filter(|(before, _)| before.is_empty() || before.ends_with("... "))?;
        let (about, value) = figure.rsplit_once(" = ")?;
        let mut words = about.splitn(3, ' ');
        let (row, kind, what) = (words.next()?, words.next()?, words.next()?);
        let kind = match kind {
            "largest" => FigureKind::Largest,
            "total" => FigureKind::Total,
            _ => return None,
        };
        Some(Self { row: row.to_owned(), kind, what: what.to_owned(), value: value.trim().parse().ok()? })
    }

    /// Adds the figure of a later run.
    pub fn add(&mut self, later: f64) {
        self.value = match self.kind {
            FigureKind::Largest => self.value.max(later),
            FigureKind::Total => self.value + later,
        };
    }

    /// `0.03 largest delay, ms`, without needless digits.
    pub fn text(&self) -> String {
        let value = self.value;
        let number = if value.fract() == 0.0 || value.abs() >= 1000.0 {
            grouped(value.round())
        } else if value.abs() >= 10.0 {
            format!("{value:.1}")
        } else {
            format!("{value:.2}")
        };
        format!("{}: {number}", self.what)
    }
}

/// `1,234,567`.
fn grouped(whole: f64) -> String {
    let digits = format!("{:.0}", whole.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if whole < 0.0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_read_as_it_was_printed() {
        let figure = Figure {
            row: "R1".into(),
            kind: FigureKind::Largest,
            what: "last caller knows, ms".into(),
            value: 3.4,
        };
        assert_eq!(figure.to_string(), "proof R1 largest last caller knows, ms = 3.400");
        assert_eq!(Figure::read(&figure.to_string()).unwrap(), figure);
        assert_eq!(Figure::read(&format!("test a ... {figure}")).unwrap(), figure);
        for line in ["a proof R1 largest x = 1", "proof R1 x = 1", "proof R1 largest x", "proofs = 1"] {
            assert_eq!(Figure::read(line), None, "{line}");
        }
    }

    #[test]
    fn figures_of_runs_become_one() {
        let mut calls =
            Figure { row: "R9".into(), kind: FigureKind::Total, what: "calls".into(), value: 999_000.0 };
        calls.add(500_000.0);
        assert_eq!(calls.text(), "calls: 1,499,000");
        let mut late = Figure { kind: FigureKind::Largest, value: 12.34, ..calls };
        late.add(2.0);
        assert_eq!(late.text(), "calls: 12.3");
    }
}
