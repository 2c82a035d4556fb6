//! Measured figures and their bounds: a table for readers, JSON for programs, a verdict for CI.

use serde_json::{Value, json};

/// The bound that a figure has to keep.
#[derive(Debug, Clone, Copy)]
pub enum Bound {
    /// At most this many times the floor of the same run.
    Floor(f64),
    /// At least this fraction of the floor, and at least that fraction of direct use.
    Share {
        floor: f64,
        direct: f64,
    },
    /// At most this, in the figure's unit; `exact` if it does not depend on the machine.
    AtMost {
        value: f64,
        exact: bool,
    },
    None,
}

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
    pub bound: Bound,
}

impl Row {
    pub fn new(what: impl Into<String>, unit: &'static str, ours: f64, bound: Bound) -> Self {
        Self {
            what: what.into(),
            unit,
            ours,
            direct: None,
            floor: None,
            to_direct: None,
            to_floor: None,
            bound,
        }
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

    /// Whether CI should pass: its runs are short and its machines noisy. Ratios within one run get less
    /// slack than times and sizes, which depend on the machine.
    pub fn is_tolerable(&self) -> bool {
        let slack = if matches!(self.bound, Bound::AtMost { .. }) { 5.0 } else { 1.6 };
        self.keeps(slack) != Some(false)
    }

    /// Whether the bound is kept when it is relaxed by the factor `slack`; `None` if there is no bound.
    fn keeps(&self, slack: f64) -> Option<bool> {
        match self.bound {
            Bound::None => None,
            Bound::Floor(most) => self.to_floor.map(|ratio| ratio <= most * slack),
            Bound::Share { floor, direct } => Some(
                self.to_floor.is_some_and(|ratio| ratio >= floor / slack)
                    && self.to_direct.is_some_and(|ratio| ratio >= direct / slack),
            ),
            Bound::AtMost { value, exact } => Some(self.ours <= value * if exact { 1.0 } else { slack }),
        }
    }

    fn bound_text(&self) -> String {
        match self.bound {
            Bound::None => String::new(),
            Bound::Floor(most) => format!("<= {most} x floor"),
            Bound::Share { floor, direct } => format!(">= {floor} of floor, {direct} of D"),
            Bound::AtMost { value, .. } => format!("<= {} {}", short(value), self.unit),
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
}

impl Report {
    pub fn add(&mut self, row: Row) {
        eprintln!("  {}: {} {}", row.what, short(row.ours), row.unit);
        self.rows.push(row);
    }

    pub fn find(&self, what: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.what == what)
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
            let verdict = match row.keeps(1.0) {
                None => "",
                Some(true) => "ok",
                Some(false) => "missed",
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
                    "bound": row.bound_text(), "kept": row.keeps(1.0),
                })
            })
            .collect();
        json!({ "rows": rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_kept_or_not() {
        let row = |ours, bound| Row::new("x", "us", ours, bound).beside(Some(100.0), Some(10.0));
        assert_eq!(row(12.0, Bound::Floor(1.2)).keeps(1.0), Some(true));
        assert_eq!(row(12.1, Bound::Floor(1.2)).keeps(1.0), Some(false));
        assert_eq!(row(12.1, Bound::Floor(1.2)).keeps(1.5), Some(true));
        assert_eq!(row(8.0, Bound::Share { floor: 0.8, direct: 0.05 }).keeps(1.0), Some(true));
        assert_eq!(row(4.0, Bound::Share { floor: 0.3, direct: 0.05 }).keeps(1.0), Some(false));
        assert_eq!(row(11.0, Bound::AtMost { value: 10.0, exact: true }).keeps(2.0), Some(false));
        assert_eq!(row(11.0, Bound::AtMost { value: 10.0, exact: false }).keeps(2.0), Some(true));
        assert_eq!(row(11.0, Bound::None).keeps(1.0), None);
    }

    #[test]
    fn figures_have_three_significant_digits() {
        assert_eq!(short(1234567.8), "1,234,568");
        assert_eq!(short(123.45), "123");
        assert_eq!(short(12.345), "12.3");
        assert_eq!(short(1.2345), "1.23");
    }
}
