//! `.ci/long [--short] [--minutes N] [--no-record] [NAME…]`: runs the proofs of these promises, or of all.
#![allow(clippy::print_stdout, reason = "this program tells a person how far it is")]

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use proto_tests::bench::history;
use proto_tests::bins;
use proto_tests::proofs::page::{self, Entry};
use proto_tests::proofs::progress::{ProgressFile, figures_text};
use proto_tests::proofs::rows::{ROWS, Row, Run, Seeds, name_of};
use proto_tests::proofs::slice::{self, SliceResult};
use verify::build::{TestExecutable, build_tests};

const PROFILE: &str = "long";

struct Options {
    is_short: bool,
    records: bool,
    end: Option<Instant>,
    rows: Vec<&'static Row>,
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => {
            println!("{problem}");
            return ExitCode::FAILURE;
        }
    };
    match prove(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            println!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn options(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { is_short: false, records: true, end: None, rows: Vec::new() };
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        match &*argument {
            "--short" => options.is_short = true,
            "--no-record" => options.records = false,
            "--minutes" => {
                let minutes = arguments.next().and_then(|text| text.parse::<u64>().ok());
                let minutes = minutes.ok_or("`--minutes` needs a number")?;
                options.end = Some(Instant::now() + Duration::from_secs(60 * minutes));
            }
            name => {
                let row = ROWS.iter().find(|row| row.id.eq_ignore_ascii_case(name));
                let known = || ROWS.iter().map(|row| row.id).collect::<Vec<_>>().join(" ");
                options
                    .rows
                    .push(row.ok_or_else(|| format!("there is no row `{name}`; there are {}", known()))?);
            }
        }
    }
    if options.rows.is_empty() {
        options.rows = ROWS.iter().collect();
    }
    Ok(options)
}

/// What all rows need.
struct Prover<'a> {
    options: &'a Options,
    built: Vec<TestExecutable>,
    progress: ProgressFile,
    /// `[date, commit, machine]`
    about: [String; 3],
    failed: Vec<String>,
}

fn prove(options: &Options) -> Result<bool, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above");
    let runs: Vec<Run> = options.rows.iter().flat_map(|row| row.runs).copied().collect();
    println!("── building ──");
    let programs = bins().switchboardd.parent().expect("BUG: programs are in a folder").to_owned();
    let mut built = Vec::new();
    for arguments in slice::build_arguments(&runs, PROFILE) {
        built.extend(build_tests(root, &arguments.iter().map(String::as_str).collect::<Vec<_>>())?);
    }
    let about = [history::today(), history::code_commit(), history::machine()];
    let state = programs.join("../proofs").join(if options.is_short { "short.json" } else { "state.json" });
    let progress = ProgressFile::open(&state, &about[1]);
    let mut prover = Prover { options, built, progress, about, failed: Vec::new() };
    for row in &options.rows {
        if prover.is_over() {
            println!("── the time is over; the same command goes on from here ──");
            break;
        }
        prover.row(row).map_err(|error| format!("the state cannot be written: {error}"))?;
    }
    if prover.failed.is_empty() {
        println!("── nothing failed ──");
    } else {
        println!("── failed: ──\n{}", prover.failed.join("\n"));
    }
    Ok(prover.failed.is_empty())
}

impl Prover<'_> {
    fn is_over(&self) -> bool {
        self.options.end.is_some_and(|end| end <= Instant::now())
    }

    fn row(&mut self, row: &'static Row) -> std::io::Result<()> {
        println!("── {}: {} ──\n   promised: {}", row.id, row.promise, row.bound);
        if row.runs.is_empty() {
            println!("   not measured here: {}", row.missing);
            return Ok(());
        }
        let (mut sizes, mut figures, mut bad) = (Vec::new(), Vec::new(), Vec::new());
        for run in row.runs {
            let key = format!("{} {}", row.id, name_of(run));
            let whole = run.size.map_or(1, |size| {
                if self.options.is_short { size.short } else { whole(size.variable, size.whole) }
            });
            self.run(run, &key, whole)?;
            let progress = self.progress.of(&key);
            if let Some(size) = run.size {
                let of = if progress.done < whole { format!(" of {whole}") } else { String::new() };
                sizes.push(format!("{}{of} {}", progress.done, size.unit));
            }
            figures.extend(progress.figures.iter().filter(|figure| figure.row == row.id).cloned());
            bad.extend(progress.failed.iter().map(|seed| match run.size.map(|size| size.seeds) {
                Some(Seeds::Each(name) | Seeds::Slice(name)) => {
                    format!("{} with {name}={seed}", name_of(run))
                }
                _ => name_of(run),
            }));
            if progress.done >= whole {
                self.progress.finish(&key)?;
            }
        }
        let measured = if figures.is_empty() { "no figure".to_owned() } else { figures_text(&figures) };
        println!("   measured: {measured}");
        if !row.missing.is_empty() {
            println!("   not measured here: {}", row.missing);
        }
        let result = if bad.is_empty() { "passed".to_owned() } else { format!("FAILED: {}", bad.join(", ")) };
        println!("   {result}");
        self.failed.extend(bad.iter().map(|what| format!("{} {what}", row.id)));
        if self.options.records {
            let [date, commit, machine] = self.about.clone();
            let size = if sizes.is_empty() { "once".to_owned() } else { sizes.join("; ") };
            page::record(&Entry { date, commit, machine, row: row.id, size, measured, result })?;
        }
        Ok(())
    }

    /// Runs the slices that are left, until the time is over.
    fn run(&mut self, run: &Run, key: &str, whole: u64) -> std::io::Result<()> {
        loop {
            let mut progress = self.progress.of(key);
            if progress.done >= whole || self.is_over() {
                return Ok(());
            }
            let most = run.size.map_or(1, |size| if self.options.is_short { size.short } else { size.slice });
            let (size, seed) = (most.min(whole - progress.done), progress.next_seed);
            let begin = Instant::now();
            let SliceResult { succeeded, figures, output } = slice::run(run, &self.built, size, seed);
            progress.done += size;
            progress.next_seed += match run.size.map(|size| size.seeds) {
                Some(Seeds::Each(_)) => size,
                _ => 1,
            };
            progress.add(figures);
            if !succeeded {
                progress.failed.push(seed);
                let lines: Vec<&str> = output.trim_end().lines().collect();
                println!("{}", lines[lines.len().saturating_sub(120)..].join("\n"));
            }
            let how = if succeeded { "passed" } else { "FAILED" };
            println!(
                "   {key}: {}/{whole}, seed {seed}: {how} after {:.1} s",
                progress.done,
                begin.elapsed().as_secs_f64()
            );
            self.progress.set(key, progress)?;
        }
    }
}

/// The size from the environment, or the promised one.
fn whole(variable: &str, promised: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(promised)
}
