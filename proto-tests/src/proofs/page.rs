//! `docs/proofs.md`: the promises, and a line for each row of each run, the newest last.

use std::io;
use std::path::Path;

use super::rows::{Executable, ROWS, Row, Run};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/proofs.md");

const RUNS: &str = "## Runs\n\n| date | commit | machine | row | size | measured | result |\n|---|---|---|---|---|---|---|\n";

/// A line of the table of runs.
#[derive(Debug)]
pub struct Entry {
    pub date: String,
    pub commit: String,
    pub machine: String,
    pub row: &'static str,
    pub size: String,
    pub measured: String,
    pub result: String,
}

impl Entry {
    fn line(&self) -> String {
        let Self { date, commit, machine, row, size, measured, result } = self;
        let cells = [date, commit, machine, &(*row).to_owned(), size, measured, result];
        let cells = cells.map(|cell| cell.replace('|', "/").replace('\n', " "));
        format!("| {} |\n", cells.join(" | "))
    }
}

/// Adds a line to the page.
pub fn record(entry: &Entry) -> io::Result<()> {
    let old = std::fs::read_to_string(FILE).unwrap_or_default();
    std::fs::write(FILE, page(&old, &entry.line()))
}

/// The page with the runs of `old`, and another line of one.
pub fn page(old: &str, line: &str) -> String {
    let runs = old.split_once(RUNS).map_or("", |(_, runs)| runs);
    let mut page = String::from(
        "# Proofs

What Switchboard promises when something fails, is overloaded or is attacked, and what was measured. Promises on speed and memory are on
[Performance](performance.md). Every row has a short form that runs with all tests; the full size runs only when it is named:

```sh install
.ci/long              # everything, for hours
.ci/long R1 S3        # these rows
.ci/long --minutes 30 # as far as it comes; the next call continues from there
.ci/long --short      # the small sizes
```

A run that fails prints the seed to repeat it with, continues with the next, and ends with exit code 1.

## Promises

| row | promise | bound | run by | not measured |
|---|---|---|---|---|
",
    );
    for Row { id, promise, bound, runs, missing } in ROWS {
        let runs: Vec<String> = runs.iter().map(what).collect();
        let runs = if runs.is_empty() { "–".to_owned() } else { runs.join("; ") };
        let missing = if missing.is_empty() { "" } else { missing };
        page.push_str(&format!("| {id} | {promise} | {bound} | {runs} | {missing} |\n"));
    }
    page.push('\n');
    page.push_str(RUNS);
    page.push_str(runs);
    page.push_str(line);
    page
}

/// What a run is, and its size.
fn what(run: &Run) -> String {
    let from = match run.from {
        Executable::Proto(name) | Executable::Daemon(name) | Executable::Program(name, _) => name,
        Executable::DaemonUnits => "units",
        Executable::Shim => "shim",
    };
    let test = run.test.rsplit("::").find(|part| !part.is_empty()).unwrap_or_default();
    let name = if test.is_empty() { format!("`{from}`") } else { format!("`{from}` `{test}`") };
    match run.size {
        Some(size) => format!("{name}, {} {}", size.whole, size.unit),
        None => name,
    }
}

pub fn file() -> &'static Path {
    Path::new(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_every_promise_and_keeps_its_runs() {
        let old = std::fs::read_to_string(FILE).unwrap_or_default();
        let expected = page(&old, "");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(FILE, &expected).unwrap();
        } else {
            assert!(old == expected, "run it again with UPDATE_DOCS=1");
        }
        let entry = Entry {
            date: "today".into(),
            commit: "abc".into(),
            machine: "2 × a".into(),
            row: "R1",
            size: "100 kills".into(),
            measured: "a|b".into(),
            result: "passed".into(),
        };
        let with_one = page("", &entry.line());
        let with_two = page(&with_one, &entry.line());
        assert!(with_two.starts_with(&with_one));
        assert!(
            with_two.ends_with("| today | abc | 2 × a | R1 | 100 kills | a/b | passed |\n"),
            "{with_two}"
        );
    }
}
