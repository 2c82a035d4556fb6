//! `conformance` runs the official suite against the era child itself, as the baseline, and then through a
//! daemon, over HTTP and over stdio, with children of either era. `conformance URL REVISION` runs it against
//! an address. `conformance client` runs its client scenarios, with Switchboard as the client.

#![expect(clippy::print_stdout, reason = "this program tells a person what came of it")]

use std::process::ExitCode;
use std::thread;

use proto_tests::bins::bins;
use proto_tests::conformance::{DaemonUnderTest, Outcome, REVISIONS, Suite, adapter};

/// The host's revision and the child's era: each within one era, and each across the eras.
const RUNS: [(&str, &str); 4] =
    [(REVISIONS[0], "legacy"), (REVISIONS[0], "modern"), (REVISIONS[1], "modern"), (REVISIONS[1], "legacy")];

/// Sets up a way from a host to the child; takes the child's arguments.
type Start = fn(&[&str]) -> Result<DaemonUnderTest, String>;
const WAYS: [(&str, Start); 2] =
    [("/mcp/{child}", DaemonUnderTest::registry), ("shim", DaemonUnderTest::shim)];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let good = match (Suite::install(), args.as_slice()) {
        (Ok(None), _) => return ExitCode::SUCCESS,
        (Ok(Some(suite)), []) => all(&suite),
        (Ok(Some(suite)), ["client"]) => client(&suite),
        (Ok(Some(suite)), [url, revision]) => suite.run(url, revision).map(|outcome| {
            println!("{outcome}");
            outcome.conforms()
        }),
        (Ok(Some(_)), _) => Err("usage: conformance [client | URL REVISION]".into()),
        (Err(error), _) => Err(error),
    };
    match good {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether Switchboard is a conforming client of the suite's servers.
fn client(suite: &Suite) -> Result<bool, String> {
    let mut good = true;
    for revision in REVISIONS {
        let outcome = suite.run_client(&bins().conformance_client, revision)?;
        println!("client, {outcome}");
        good &= outcome.conforms();
    }
    Ok(good)
}

/// True if nothing fails through Switchboard that does not fail without it.
fn all(suite: &Suite) -> Result<bool, String> {
    let mut direct = Vec::new();
    for (revision, era) in [RUNS[0], RUNS[2]] {
        let child = bins().era_child.to_str().ok_or("the path to the child is not text")?;
        let served = adapter(&bins().stdio_adapter, &[child, "--era", era])?;
        let outcome = suite.run(&served.url("/mcp"), revision)?;
        println!("no Switchboard, {era} child, {outcome}");
        direct.push((era, outcome));
    }
    // Run in parallel: they mostly wait.
    let runs = RUNS.map(|(revision, era)| {
        WAYS.map(|(_, start)| {
            let suite = suite.clone();
            thread::spawn(move || suite.run(&start(&["--era", era])?.url(), revision))
        })
    });
    let mut good = true;
    for ((revision, era), ways) in RUNS.into_iter().zip(runs) {
        let straight = direct.iter().find(|(of, there)| *of == era && there.revision == revision);
        for ((way, _), run) in WAYS.into_iter().zip(ways) {
            let outcome = run.join().map_err(|_| format!("the run by {way} panicked"))??;
            println!("{way}, {era} child, {outcome}");
            good &= is_acceptable(&outcome, straight.map(|(_, there)| there));
        }
    }
    Ok(good)
}

/// Every scored scenario passes; within one era nothing fails that does not fail in the direct run `there`.
/// Across the eras the Tasks extension is not available; it is not scored either.
fn is_acceptable(outcome: &Outcome, there: Option<&Outcome>) -> bool {
    let worse = there.map(|there| outcome.regressions_from(there)).unwrap_or_default();
    for worse in &worse {
        println!("  only with Switchboard: {worse}");
    }
    outcome.conforms() && worse.is_empty()
}
