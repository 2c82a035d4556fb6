//! Runs the official conformance suite against an address, and reads its results.
//!
//! The suite is a separate program in `proto-tests/conformance`, installed on first use. Its exit code covers
//! only the scored scenarios; here every check is read, so that two runs can be compared.
#![allow(clippy::disallowed_methods, reason = "runs the suite and what it needs, which are no children")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::bins::BUILT;
pub use outcome::{Check, Leg, Outcome, Scenario, Verdict};
pub use server::{FrontServer, adapter, forwarder};
pub use through::DaemonUnderTest;

pub mod host;
mod outcome;
mod server;
mod through;

/// The revisions that the suite has requirements for.
pub const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// Exit code of `install.sh` when a program that it needs is missing.
const SKIPPED: i32 = 77;

/// Milliseconds; enough for a scenario that starts a daemon while others do the same.
const CLIENT_TIMEOUT_MS: &str = "120000";

#[derive(Debug, Clone)]
pub struct Suite {
    cache: PathBuf,
}

impl Suite {
    /// Installs the pinned version, once. `None` if a program is missing (its name was printed) and this is
    /// not CI.
    pub fn install() -> Result<Option<Self>, String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance");
        let status = Command::new("bash")
            .arg(folder.join("install.sh"))
            .status()
            .map_err(|error| format!("bash could not be run: {error}"))?;
        match status.code() {
            Some(0) => Ok(Some(Self { cache: folder.join(".cache") })),
            Some(SKIPPED) if !in_ci() => Ok(None),
            _ => Err(format!("the conformance suite could not be installed ({status})")),
        }
    }

    /// Runs every scenario that `revision` requires of a server, scored or not.
    pub fn run(&self, url: &str, revision: &str) -> Result<Outcome, String> {
        self.carry_out(Leg::Server, &["--url", url], revision)
    }

    /// Runs every scenario that `revision` requires of a client. The suite starts `command` for each, with
    /// the address of the scenario's server as its last argument.
    pub fn run_client(&self, command: &Path, revision: &str) -> Result<Outcome, String> {
        let command = command.to_str().ok_or("the path to the client is not text")?;
        self.carry_out(Leg::Client, &["--command", command, "--timeout", CLIENT_TIMEOUT_MS], revision)
    }

    fn carry_out(&self, leg: Leg, args: &[&str], revision: &str) -> Result<Outcome, String> {
        let results = tempfile::tempdir().map_err(|error| format!("no room for results: {error}"))?;
        let package = self.cache.join("node_modules/@modelcontextprotocol/conformance");
        let output = Command::new(self.cache.join("node"))
            .arg(package.join("dist/index.js"))
            .arg(leg.as_str())
            .args(args)
            .args(["--requirements", revision, "--output-dir"])
            .arg(results.path())
            .env(BUILT, "yes")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("the suite could not be run: {error}"))?;
        let requirements = package.join(format!("requirements/{revision}.yaml"));
        let requirements = fs::read_to_string(&requirements)
            .map_err(|error| format!("{}: {error}", requirements.display()))?;
        let outcome = Outcome::read(leg, revision, output.status.success(), &requirements, results.path())?;
        if outcome.scenarios.iter().all(|scenario| scenario.checks.is_empty()) {
            return Err(format!("the suite did not run: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        Ok(outcome)
    }
}

fn in_ci() -> bool {
    !matches!(std::env::var("CI").as_deref(), Err(_) | Ok("" | "false" | "0"))
}
