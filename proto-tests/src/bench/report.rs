//! Measured figures and their bounds: a table for readers, JSON for programs, a verdict for CI.

use serde_json::{Value, json};

use super::bounds::{Bound, Measurer, Promise, promise_of};
use super::machine::Machine;

#[derive(Debug, Clone)]
pub struct Row {
    pub what: String,
    pub unit: &'static str,
    pub ours: f64,
    pub direct: Option<f64>,
    pub floor: Option<f64>,
    /// Ratios; where measured, the median of the ratios per round, else the ratio of the figures.
    pub to_direct: Option<f64>,
    pub to_floor: Option<f64>,
}

impl Row {
    pub fn new(what: impl Into<String>, unit: &'static str, ours: f64) -> Self {
        Self { what: what.into(), unit, ours, direct: None, floor: None, to_direct: None, to_floor: None }
    }

    /// Adds the figures of direct use and the floor, and their ratios.
    pub fn beside(mut self, direct: Option<f64>, floor: Option<f64>) -> Self {
        (self.direct, self.floor) = (direct, floor);
        self.to_direct = direct.map(|direct| self.ours / direct);
        self.to_floor = floor.map(|floor| self.ours / floor);
        self
    }

    pub fn to_floor(mut self, ratio: f64) -> Self {
        self.to_floor = Some(ratio);
        self
    }

    pub fn promise(&self) -> Option<&'static Promise> {
        promise_of(&self.what)
    }

    /// The figure that is promised and recorded: the ratio to the floor where the bound is one.
    pub fn key_figure(&self) -> Option<f64> {
        match self.promise()?.bound {
            Bound::AtMost(_) | Bound::AtMostAnywhere(_) => Some(self.ours),
            Bound::Floor(_) | Bound::FloorAnywhere(_) | Bound::Share { .. } => self.to_floor,
        }
    }

    /// The figure as a share of its bound: more than 1 is beyond it. `None` without a bound.
    fn share_of_bound(&self) -> Option<f64> {
        let promise = self.promise()?;
        // A ratio that was not measured is not kept.
        let ratio = |ratio: Option<f64>| ratio.unwrap_or(f64::NAN);
        Some(match promise.bound {
            Bound::AtMost(most) | Bound::AtMostAnywhere(most) => self.ours / most,
            Bound::Floor(most) | Bound::FloorAnywhere(most) => ratio(self.to_floor) / most,
            Bound::Share { floor, direct } => {
                let (of_floor, of_direct) = (floor / ratio(self.to_floor), direct / ratio(self.to_direct));
                if of_floor.is_nan() || of_floor > of_direct { of_floor } else { of_direct }
            }
        })
    }

    /// Whether the bound is kept; `None` if there is none.
    pub fn is_kept(&self) -> Option<bool> {
        self.share_of_bound().map(|share| share <= 1.0)
    }

    /// Whether CI should pass: the figure may be a little beyond its bound, and times more so on a slow machine.
    fn passes_gate(&self, machine: Machine) -> bool {
        match (self.promise(), self.share_of_bound()) {
            (Some(promise), Some(share)) => share <= machine.slack(promise, self.unit),
            _ => true,
        }
    }

    fn is_better_than(&self, other: &Self) -> bool {
        match (self.share_of_bound(), other.share_of_bound()) {
            (Some(one), Some(other)) => one < other || other.is_nan(),
            _ => false,
        }
    }

    fn bound_text(&self) -> String {
        match self.promise().map(|promise| promise.bound) {
            None => String::new(),
            Some(Bound::Floor(most) | Bound::FloorAnywhere(most)) => format!("<= {most} x floor"),
            Some(Bound::Share { floor, direct }) => format!(">= {floor} of floor, {direct} of D"),
            Some(Bound::AtMost(value) | Bound::AtMostAnywhere(value)) => {
                format!("<= {} {}", short(value), self.unit).trim_end().to_owned()
            }
        }
    }
}

/// Formats to three significant digits; from 1,000 on to a whole number.
pub fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => {
            let digits = format!("{value:.0}");
            let mut out = String::new();
            for (at, digit) in digits.chars().enumerate() {
                if at > 0 && (digits.len() - at) % 3 == 0 {
                    out.push(',');
                }
                out.push(digit);
            }
            out
        }
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[derive(Debug, Default)]
pub struct Report {
    pub rows: Vec<Row>,
    /// The machine that the gates are for, if it was looked at.
    machine: Option<Machine>,
}

impl Report {
    /// A report whose gates are those for this machine.
    pub fn for_this_machine() -> Self {
        let machine = Machine::measure();
        eprintln!("{machine}");
        Self { rows: Vec::new(), machine: Some(machine) }
    }

    fn machine(&self) -> Machine {
        self.machine.unwrap_or_default()
    }

    pub fn add(&mut self, row: Row) {
        eprintln!("  {}: {} {}", row.what, short(row.ours), row.unit);
        self.rows.push(row);
    }

    pub fn find(&self, what: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.what == what)
    }

    /// Adds the rows of `measure`. If one of them does not pass the gate, measures again, up to `tries` times
    /// in all; the best of each row counts. A machine may be busy for a moment, but a regression shows every
    /// time.
    pub fn measure(&mut self, tries: usize, mut measure: impl FnMut(&mut Self)) {
        let mut best = Self { machine: self.machine, ..Self::default() };
        measure(&mut best);
        for again in 1..tries {
            let failed = best.failed();
            if failed.is_empty() {
                break;
            }
            eprintln!("  beyond the gate, measured again ({again}): {}", names(&failed));
            best.look_again();
            let mut next = Self::default();
            measure(&mut next);
            best.keep_better_of(next);
        }
        self.rows.append(&mut best.rows);
        self.machine = best.machine;
    }

    /// A machine that was quiet at the start may be disturbed now.
    fn look_again(&mut self) {
        if let Some(machine) = &mut self.machine {
            *machine = machine.worse(Machine::measure());
            eprintln!("  {machine}");
        }
    }

    fn keep_better_of(&mut self, other: Self) {
        for row in other.rows {
            match self.rows.iter_mut().find(|old| old.what == row.what) {
                Some(old) if row.is_better_than(old) => *old = row,
                Some(_) => {}
                None => self.rows.push(row),
            }
        }
    }

    /// The rows that do not pass the gate.
    pub fn failed(&self) -> Vec<&Row> {
        self.rows.iter().filter(|row| !row.passes_gate(self.machine())).collect()
    }

    /// Prints what does not pass the gate; true if there is nothing.
    #[expect(clippy::print_stdout, reason = "for programs that measure")]
    pub fn gate(&self) -> bool {
        let failed = self.failed();
        for row in &failed {
            println!("beyond its gate: {}, bound {}", row.what, row.bound_text());
        }
        failed.is_empty()
    }

    /// Prints the promises of this program that no row is measured for, because either was renamed; true if there
    /// is none. Only for a report of everything that the program measures.
    #[expect(clippy::print_stdout, reason = "for programs that measure")]
    pub fn is_complete(&self, measurer: Measurer) -> bool {
        let is_measured = |promise: &&Promise| self.rows.iter().any(|row| row.what == promise.what);
        let missing: Vec<&Promise> = measurer.promises().iter().filter(|it| !is_measured(it)).collect();
        for promise in &missing {
            println!("promised and not measured: {}", promise.what);
        }
        missing.is_empty()
    }

    /// A table, valid as Markdown.
    pub fn table(&self) -> String {
        let some = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), short);
        let times = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"));
        let mut cells = vec![
            ["measure", "unit", "direct", "floor", "ours", "/ D", "/ floor", "bound", ""]
                .map(str::to_owned)
                .to_vec(),
        ];
        for row in &self.rows {
            let verdict = match (row.is_kept(), row.passes_gate(self.machine())) {
                (None, _) => "",
                (Some(true), _) => "ok",
                (Some(false), true) => "missed",
                (Some(false), false) => "FAILED",
            };
            cells.push(vec![
                row.what.clone(),
                row.unit.to_owned(),
                some(row.direct),
                some(row.floor),
                short(row.ours),
                times(row.to_direct),
                times(row.to_floor),
                row.bound_text(),
                verdict.to_owned(),
            ]);
        }
        let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..cells[0].len()).map(width).collect();
        let left = |column: usize| matches!(column, 0 | 1 | 7 | 8);
        let mut out = String::new();
        for (at, row) in cells.iter().enumerate() {
            for (column, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[column] - cell.chars().count());
                let (before, after) = if left(column) { ("", &*pad) } else { (&*pad, "") };
                out.push_str(&format!("| {before}{cell}{after} "));
            }
            out.push_str("|\n");
            if at == 0 {
                for (column, width) in widths.iter().enumerate() {
                    let line = "-".repeat(width + 1);
                    let (first, last) = if left(column) { ("-", "") } else { ("", ":") };
                    out.push_str(&format!("|{first}{line}{last}"));
                }
                out.push_str("|\n");
            }
        }
        out
    }

    pub fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "what": row.what, "unit": row.unit, "ours": row.ours, "direct": row.direct,
                    "floor": row.floor, "toDirect": row.to_direct, "toFloor": row.to_floor,
                    "bound": row.bound_text(), "kept": row.is_kept(),
                })
            })
            .collect();
        json!({ "rows": rows })
    }
}

fn names(rows: &[&Row]) -> String {
    rows.iter().map(|row| &*row.what).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: &str = "sequential call through the shim, p50, pinned";
    const MEMORY: &str = "each further shim";

    fn row(what: &str, ours: f64) -> Row {
        Row::new(what, "us", ours).beside(Some(100.0), Some(100.0))
    }

    #[test]
    fn bounds_are_kept_or_not() {
        let judge = |what, ours| (row(what, ours).is_kept(), row(what, ours).passes_gate(Machine::default()));
        assert_eq!(judge(CALL, 115.0), (Some(true), true));
        assert_eq!(judge(CALL, 116.0), (Some(false), true));
        assert_eq!(judge(CALL, 144.0), (Some(false), false));
        assert_eq!(judge(MEMORY, 0.5), (Some(true), true));
        assert_eq!(judge(MEMORY, 0.62), (Some(false), true));
        assert_eq!(judge(MEMORY, 0.63), (Some(false), false));
        assert_eq!(judge("shim: resident after a call", 4.1), (Some(false), false));
        assert_eq!(judge("calls per second, 64 in flight, through the shim", 95.0), (Some(true), true));
        assert_eq!(judge("calls per second, 64 in flight, through the shim", 75.0), (Some(false), false));
        assert_eq!(judge("without a bound", 1e9), (None, true));
        assert_eq!(Row::new(CALL, "us", 1.0).is_kept(), Some(false), "no floor was measured");
    }

    #[test]
    fn a_missed_figure_is_measured_again_and_the_best_counts() {
        let run = |figures: &[f64]| {
            let mut left = figures.iter();
            let mut report = Report::default();
            report.measure(3, |report| report.add(row(MEMORY, *left.next().unwrap())));
            (report.rows.iter().map(|row| row.ours).collect::<Vec<_>>(), left.count(), report.gate())
        };
        assert_eq!(run(&[0.4, 9.0]), (vec![0.4], 1, true));
        assert_eq!(run(&[0.9, 0.6, 9.0]), (vec![0.6], 1, true));
        assert_eq!(run(&[0.9, 0.8, 1.1, 0.1]), (vec![0.8], 1, false));
    }

    #[test]
    fn a_promise_without_a_row_is_reported() {
        let mut report = Report::default();
        Measurer::Figures.promises().iter().for_each(|promise| report.add(row(promise.what, 1.0)));
        assert!(report.is_complete(Measurer::Figures) && !report.is_complete(Measurer::Bench));
        report.rows[0].what.push_str(", renamed");
        assert!(!report.is_complete(Measurer::Figures));
    }

    #[test]
    fn figures_have_three_significant_digits() {
        assert_eq!(short(1234567.8), "1,234,568");
        assert_eq!(short(123.45), "123");
        assert_eq!(short(12.345), "12.3");
        assert_eq!(short(1.2345), "1.23");
    }
}
