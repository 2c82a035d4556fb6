//! `HISTORY.md`: the key figures of the last recorded runs, so that a slow loss is seen. `--record` adds a
//! row; CI does not.
#![allow(clippy::disallowed_methods, reason = "asks git and the system for commit and date")]

use std::io;
use std::path::Path;
use std::process::Command;

use super::bounds::promises;
use super::report::{Report, short};
use crate::bins::bins;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/HISTORY.md");

/// How many runs of each program are kept.
const KEPT: usize = 30;

const FIRST_COLUMNS: [&str; 3] = ["date", "commit", "machine"];
const UNKNOWN: &str = "–";

const INTRODUCTION: &str = "# History of the figures

One row for each recorded run, the newest last: `bench --record` and `figures --record`, as release builds on an otherwise idle
machine. Ratios are to the floor of the same run; the rest is in the unit that the column names, or in milliseconds.
`src/bench/bounds.rs` has the bound of each column.
";

/// The recorded runs of one program.
#[derive(Debug, Default, PartialEq)]
struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Adds the run to the history of `program`.
pub fn record(program: &str, report: &Report) -> io::Result<()> {
    let text = std::fs::read_to_string(FILE).unwrap_or_default();
    let about = [today(), commit(), machine()];
    std::fs::write(FILE, with_run(&text, program, &about, &key_figures(report)))
}

/// How the key figures differ from those of the last recorded run of `program`; empty if there is none.
pub fn changes(program: &str, report: &Report) -> String {
    let text = std::fs::read_to_string(FILE).unwrap_or_default();
    changes_since(&text, program, &key_figures(report))
}

/// Columns and figures of the rows that are recorded.
fn key_figures(report: &Report) -> Vec<(&'static str, f64)> {
    let recorded = promises().filter(|promise| !promise.column.is_empty());
    recorded.filter_map(|promise| Some((promise.column, report.find(promise.what)?.key_figure()?))).collect()
}

fn with_run(text: &str, program: &str, about: &[String; 3], figures: &[(&str, f64)]) -> String {
    let mut tables: Vec<(String, Table)> = sections(text);
    if tables.iter().all(|(name, _)| name != program) {
        tables.push((program.to_owned(), Table::default()));
    }
    let mut out = INTRODUCTION.to_owned();
    for (name, mut table) in tables {
        if name == program {
            table.add(about, figures);
        }
        out.push_str(&format!("\n## {name}\n\n{}", table.text()));
    }
    out
}

fn changes_since(text: &str, program: &str, figures: &[(&str, f64)]) -> String {
    let table = sections(text).into_iter().find(|(name, _)| name == program).map(|(_, table)| table);
    let Some((table, last)) = table.as_ref().and_then(|table| Some((table, table.rows.last()?))) else {
        return String::new();
    };
    let of = |column: &str| {
        let at = table.columns.iter().position(|name| name == column)?;
        last.get(at)
    };
    let about = FIRST_COLUMNS.map(|column| of(column).map_or("?", String::as_str));
    let mut out = format!("since {}, commit {} ({}):\n", about[0], about[1], about[2]);
    for (column, now) in figures {
        let Some(before) = of(column).and_then(|text| text.replace(',', "").parse::<f64>().ok()) else {
            continue;
        };
        let change = (now / before - 1.0) * 100.0;
        out.push_str(&format!(
            "  {column:<18} {:>8} → {:>8}  {change:>+6.0} %\n",
            short(before),
            short(*now)
        ));
    }
    out
}

impl Table {
    /// Adds a run. Columns that are new are empty in older runs; columns that are gone stay.
    fn add(&mut self, about: &[String; 3], figures: &[(&str, f64)]) {
        let about = FIRST_COLUMNS.into_iter().zip(about.iter().cloned());
        let figures = figures.iter().map(|(column, figure)| (*column, short(*figure)));
        let cells: Vec<(&str, String)> = about.chain(figures).collect();
        for (column, _) in &cells {
            if !self.columns.iter().any(|known| known == column) {
                self.columns.push((*column).to_owned());
            }
        }
        let cell =
            |column: &String| cells.iter().find(|(name, _)| name == column).map(|(_, cell)| cell.clone());
        self.rows.push(self.columns.iter().map(|column| cell(column).unwrap_or(UNKNOWN.into())).collect());
        self.rows.drain(..self.rows.len().saturating_sub(KEPT));
        for row in &mut self.rows {
            row.resize(self.columns.len(), UNKNOWN.to_owned());
        }
    }

    fn text(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = format!("|{}\n", "---|".repeat(self.columns.len()));
        self.rows.iter().map(|row| line(row)).fold(line(&self.columns) + &rule, |out, row| out + &row)
    }
}

/// The tables of the file by their headings.
fn sections(text: &str) -> Vec<(String, Table)> {
    let parse = |section: &str| {
        let mut lines = section.lines();
        let name = lines.next().unwrap_or_default().trim().to_owned();
        let mut rows = lines.filter(|line| line.starts_with('|') && !line.starts_with("|-")).map(cells);
        (name, Table { columns: rows.next().unwrap_or_default(), rows: rows.collect() })
    };
    text.split("\n## ").skip(1).map(parse).collect()
}

fn cells(line: &str) -> Vec<String> {
    line.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}

/// The commit of the sources, with a `+` if they were changed since.
pub fn commit() -> String {
    let folder = env!("CARGO_MANIFEST_DIR");
    let dirty = said("git", &["-C", folder, "status", "--porcelain", "--untracked-files=no", ":!HISTORY.md"]);
    let hash = said("git", &["-C", folder, "rev-parse", "--short", "HEAD"]);
    if dirty.is_empty() || dirty == UNKNOWN { hash } else { format!("{hash}+") }
}

/// The last commit that changed more than documentation, with a `+` if more was changed since: runs of the same code
/// belong together, although each adds a line to a page.
pub fn code_commit() -> String {
    code_commit_of(Path::new(env!("CARGO_MANIFEST_DIR")))
}

fn code_commit_of(folder: &Path) -> String {
    let git = |args: &[&str]| {
        let folder = folder.to_str().unwrap_or(".");
        said("git", &[&["-C", folder], args, &["--", ":/", ":(top,exclude)*.md"]].concat())
    };
    let dirty = git(&["status", "--porcelain", "--untracked-files=no"]);
    let hash = git(&["log", "-1", "--format=%h"]);
    if dirty.is_empty() || dirty == UNKNOWN { hash } else { format!("{hash}+") }
}

pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, model)| model.trim().to_owned());
    format!("{cores} × {}, {}", model.replace('|', " "), bins().c_library())
}

pub fn today() -> String {
    said("date", &["-u", "+%F"])
}

/// What a program prints, or [`UNKNOWN`].
fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().ok().filter(|output| output.status.success());
    output.map_or(UNKNOWN.into(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The file, for messages.
pub fn file() -> &'static Path {
    Path::new(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_do_not_change_which_code_was_run() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| std::fs::write(folder.path().join(file), text).unwrap();
        let git = |args: &[&str]| {
            let own = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"];
            let output =
                Command::new("git").current_dir(folder.path()).args(own).args(args).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        };
        git(&["init", "--quiet"]);
        write("code.rs", "1");
        write("page.md", "1");
        git(&["add", "."]);
        git(&["commit", "--quiet", "-m", "first"]);
        let first = code_commit_of(folder.path());
        assert!(!first.ends_with('+') && first != UNKNOWN, "{first}");
        write("page.md", "2");
        assert_eq!(code_commit_of(folder.path()), first);
        git(&["commit", "--quiet", "-a", "-m", "page"]);
        assert_eq!(code_commit_of(folder.path()), first);
        write("code.rs", "2");
        assert_eq!(code_commit_of(folder.path()), format!("{first}+"));
        git(&["commit", "--quiet", "-a", "-m", "code"]);
        let second = code_commit_of(folder.path());
        assert!(second != first && !second.ends_with('+'), "{second}");
    }

    fn about(date: &str) -> [String; 3] {
        [date, "abc", "2 × a machine"].map(str::to_owned)
    }

    #[test]
    fn runs_are_added_trimmed_and_compared() {
        let mut text = String::new();
        for run in 0..40 {
            text = with_run(
                &text,
                "bench",
                &about(&format!("day {run}")),
                &[("call", 1.0 + f64::from(run) / 100.0)],
            );
        }
        text = with_run(&text, "figures", &about("day 1"), &[("guard", 0.25)]);
        let tables = sections(&text);
        assert_eq!(tables.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["bench", "figures"]);
        assert_eq!(tables[0].1.rows.len(), KEPT);
        assert_eq!(tables[0].1.rows[KEPT - 1], ["day 39", "abc", "2 × a machine", "1.39"]);
        let changes = changes_since(&text, "bench", &[("call", 1.53), ("new", 1.0)]);
        assert_eq!(
            changes,
            "since day 39, commit abc (2 × a machine):\n  call                   1.39 →     1.53     +10 %\n"
        );
        assert_eq!(changes_since(&text, "other", &[("call", 1.0)]), "");
    }

    #[test]
    fn a_new_column_is_empty_in_older_runs() {
        let text = with_run("", "bench", &about("one"), &[("call", 1234.5)]);
        let text = with_run(&text, "bench", &about("two"), &[("memory", 6.5)]);
        let (_, table) = &sections(&text)[0];
        assert_eq!(table.columns[3..], ["call", "memory"]);
        assert_eq!(table.rows[0][3..], ["1,234", UNKNOWN]);
        assert_eq!(table.rows[1][3..], [UNKNOWN, "6.50"]);
    }
}
