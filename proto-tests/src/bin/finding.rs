//! Measures what a model reads until it has found and called the right subtool of 16 real servers, and prints it.
//! `--gate` fails if a bound is not kept; `--markdown` prints the tables of `FINDING.md` only; `--descriptions`
//! prints how the suites describe themselves.
//!
//! Run it with `cargo run -p proto-tests --bin finding`.
#![allow(clippy::print_stdout, reason = "a program that measures, for people and for CI")]

use std::process::ExitCode;

use proto_tests::finding::measure;

const USAGE: &str = "usage: finding [--gate] [--markdown] [--descriptions]";

fn main() -> ExitCode {
    let (mut gate, mut markdown, mut descriptions) = (false, false, false);
    for arg in std::env::args().skip(1) {
        match &*arg {
            "--gate" => gate = true,
            "--markdown" => markdown = true,
            "--descriptions" => descriptions = true,
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    if descriptions {
        for (suite, description) in measure::descriptions() {
            println!("{suite} ({} characters):\n{description}\n", description.chars().count());
        }
        return ExitCode::SUCCESS;
    }
    let finding = measure::measure();
    println!("{}", finding.markdown());
    if !markdown {
        println!("{}", finding.details());
    }
    let beyond = finding.beyond_bounds();
    if !markdown || gate {
        println!("{}", if beyond.is_empty() { "every bound is kept" } else { "beyond its bound:" });
        beyond.iter().for_each(|sentence| println!("  {sentence}"));
    }
    if !gate || beyond.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
