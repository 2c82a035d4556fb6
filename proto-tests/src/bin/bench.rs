//! Measures what a call costs through Switchboard, compared with direct use and the floor; see
//! `BENCHMARKS.md`.
//!
//! Run it with `cargo run --release -p proto-tests --bin bench`.
#![allow(clippy::print_stdout, reason = "a program that measures, for people and for CI")]

use std::path::PathBuf;
use std::process::ExitCode;

use proto_tests::bench::bounds::Measurer;
use proto_tests::bench::report::Report;
use proto_tests::bench::{Effort, MEASURES, chart, history};

const USAGE: &str = "usage: bench [--quick] [--gate] [--record] [--json FILE] [--chart FILE] [MEASURE]…";

/// How often `--gate` measures a figure that is beyond its gate.
const TRIES: usize = 3;

#[derive(Default)]
struct Options {
    quick: bool,
    gate: bool,
    record: bool,
    json: Option<PathBuf>,
    chart: Option<PathBuf>,
    only: Vec<String>,
}

fn main() -> ExitCode {
    let Some(options) = read(std::env::args().skip(1)) else {
        eprintln!("{USAGE}\nmeasures: {}", MEASURES.map(|(name, _)| name).join(" "));
        return ExitCode::from(2);
    };
    let effort = if options.quick { Effort::Quick } else { Effort::Full };
    let mut report = if options.gate { Report::for_this_machine() } else { Report::default() };
    for (name, measure) in MEASURES {
        if options.only.is_empty() || options.only.iter().any(|only| only == name) {
            eprintln!("{name}:");
            report.measure(if options.gate { TRIES } else { 1 }, |report| measure(effort, report));
        }
    }
    println!("{}\n{}", report.table(), history::changes("bench", &report));
    let files = [
        options.json.map(|file| (file, format!("{:#}\n", report.json()))),
        options.chart.map(|file| (file, chart::svg(&report))),
    ];
    for (file, text) in files.into_iter().flatten() {
        if let Err(error) = std::fs::write(&file, text) {
            eprintln!("cannot write `{}`: {error}", file.display());
            return ExitCode::FAILURE;
        }
    }
    if options.record
        && let Err(error) = history::record("bench", &report)
    {
        eprintln!("cannot write `{}`: {error}", history::file().display());
        return ExitCode::FAILURE;
    }
    // A run of some measures lacks the rows of the others.
    let is_complete = !options.only.is_empty() || report.is_complete(Measurer::Bench);
    if !options.gate || (report.gate() && is_complete) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read(mut args: impl Iterator<Item = String>) -> Option<Options> {
    let mut options = Options::default();
    while let Some(arg) = args.next() {
        match &*arg {
            "--quick" => options.quick = true,
            "--gate" => options.gate = true,
            "--record" => options.record = true,
            "--json" => options.json = Some(args.next()?.into()),
            "--chart" => options.chart = Some(args.next()?.into()),
            name if MEASURES.iter().any(|(known, _)| *known == name) => options.only.push(arg),
            _ => return None,
        }
    }
    // Quick runs are too noisy to be compared for weeks.
    (!(options.quick && options.record)).then_some(options)
}
