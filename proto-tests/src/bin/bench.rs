//! Measures what a call costs through Switchboard beside direct use and beside the floor; see `BENCHMARKS.md`.
//!
//! Run it with `cargo run --release -p proto-tests --bin bench`.
#![allow(clippy::print_stdout, reason = "a program that measures, for people and for CI")]

use std::path::PathBuf;
use std::process::ExitCode;

use proto_tests::bench::report::Report;
use proto_tests::bench::{Effort, MEASURES, chart};

const USAGE: &str = "usage: bench [--quick] [--gate] [--json FILE] [--chart FILE] [MEASURE]…";

/// How many times its bound a figure may be before `--gate` fails: runs in CI are short and machines noisy.
const SLACK: f64 = 1.6;

#[derive(Default)]
struct Options {
    quick: bool,
    gate: bool,
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
    let mut report = Report::default();
    for (name, measure) in MEASURES {
        if options.only.is_empty() || options.only.iter().any(|only| only == name) {
            eprintln!("{name}:");
            measure(effort, &mut report);
        }
    }
    println!("{}", report.table());
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
    if !options.gate {
        return ExitCode::SUCCESS;
    }
    let beyond = report.beyond(SLACK);
    for row in &beyond {
        println!("beyond its bound by more than {SLACK} times: {}", row.what);
    }
    if beyond.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read(mut args: impl Iterator<Item = String>) -> Option<Options> {
    let mut options = Options::default();
    while let Some(arg) = args.next() {
        match &*arg {
            "--quick" => options.quick = true,
            "--gate" => options.gate = true,
            "--json" => options.json = Some(args.next()?.into()),
            "--chart" => options.chart = Some(args.next()?.into()),
            name if MEASURES.iter().any(|(known, _)| *known == name) => options.only.push(arg),
            _ => return None,
        }
    }
    Some(options)
}
