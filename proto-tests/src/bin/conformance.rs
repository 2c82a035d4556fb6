//! `conformance direct` runs the official suite against the era child itself, behind the adapter: what nobody in
//! the middle can be better than. `conformance through` runs it against a daemon with that child behind it, and
//! `conformance URL REVISION` against an address.

#![expect(clippy::print_stdout, reason = "this program tells a person what came of it")]

use std::path::Path;
use std::process::ExitCode;

use proto_tests::bins;
use proto_tests::conformance::{Outcome, REVISIONS, Suite, Through, adapter};

/// Which child is asked about which revision.
const DIRECT: [(&str, &str); 4] =
    [("legacy", REVISIONS[0]), ("both", REVISIONS[0]), ("modern", REVISIONS[1]), ("both", REVISIONS[1])];

/// The same with Switchboard in the middle.
const THROUGH: [(&str, &str); 1] = [("legacy", REVISIONS[0])];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcomes = match (Suite::install(), args.as_slice()) {
        (Ok(None), _) => return ExitCode::SUCCESS,
        (Ok(Some(suite)), ["direct"]) => direct(&suite),
        (Ok(Some(suite)), ["through"]) => through(&suite),
        (Ok(Some(suite)), ["client"]) => client(&suite),
        (Ok(Some(suite)), [url, revision]) => suite.run(url, revision).map(|outcome| vec![(*url, outcome)]),
        (Ok(Some(_)), _) => Err("usage: conformance direct | through | client | URL REVISION".into()),
        (Err(error), _) => Err(error),
    };
    match outcomes {
        Ok(outcomes) => {
            for (what, outcome) in &outcomes {
                println!("{what}, {outcome}");
            }
            let all = outcomes.iter().all(|(_, outcome)| outcome.conforms());
            if all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The other side: Switchboard as the client of the suite's servers.
fn client(suite: &Suite) -> Result<Vec<(&'static str, Outcome)>, String> {
    let client = &bins().conformance_client;
    REVISIONS.iter().map(|revision| Ok(("client", suite.run_client(client, revision)?))).collect()
}

fn direct(suite: &Suite) -> Result<Vec<(&'static str, Outcome)>, String> {
    let exe = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = exe.parent().unwrap_or(Path::new("."));
    let child = folder.join("era-child");
    let child = child.to_str().ok_or("the path to the child is not text")?;
    let mut outcomes = Vec::new();
    for (era, revision) in DIRECT {
        let served = adapter(&folder.join("stdio-adapter"), &[child, "--era", era])?;
        outcomes.push((era, suite.run(&served.url("/mcp"), revision)?));
    }
    Ok(outcomes)
}

fn through(suite: &Suite) -> Result<Vec<(&'static str, Outcome)>, String> {
    let mut outcomes = Vec::new();
    for (era, revision) in THROUGH {
        let daemon = Through::start(&["--era", era])?;
        outcomes.push((era, suite.run(&daemon.url(), revision)?));
    }
    Ok(outcomes)
}
