//! Runs one slice of a run: a test executable with the size and the seed in its environment.
#![allow(clippy::disallowed_methods, reason = "runs tests and programs, which are no children")]

use std::process::{Command, Stdio};

use verify::build::{TestExecutable, without_own_package};
use verify::job::with_output;

use super::rows::{Executable, Run, Seeds};
use crate::proof::Figure;

/// What came of a slice.
#[derive(Debug)]
pub struct SliceResult {
    pub succeeded: bool,
    pub figures: Vec<Figure>,
    pub output: String,
}

/// `cargo build` arguments for everything that these runs need.
pub fn build_arguments(runs: &[Run], profile: &str) -> Vec<Vec<String>> {
    let of = |package: &str, what: Vec<[&str; 2]>| {
        let mut arguments: Vec<String> = ["--profile", profile, "-p", package].map(str::to_owned).into();
        arguments.extend(what.concat().into_iter().filter(|word| !word.is_empty()).map(str::to_owned));
        arguments
    };
    let (mut proto, mut daemon, mut shim) = (Vec::new(), Vec::new(), Vec::new());
    for run in runs {
        let (list, what) = match run.from {
            Executable::Proto(name) => (&mut proto, ["--test", name]),
            Executable::Program(..) => continue,
            Executable::Daemon(name) => (&mut daemon, ["--test", name]),
            Executable::DaemonUnits => (&mut daemon, ["--lib", ""]),
            Executable::Shim => (&mut shim, ["--test", "shim"]),
        };
        if !list.contains(&what) {
            list.push(what);
        }
    }
    let packages = [("proto-tests", proto), ("switchboardd", daemon), ("switchboard-shim", shim)];
    let mut commands = Vec::new();
    for (package, what) in packages {
        // `--lib` builds the library and not its tests, unless all test targets are built.
        let (units, others): (Vec<_>, Vec<_>) = what.into_iter().partition(|what| what[0] == "--lib");
        if !units.is_empty() {
            commands.push(of(package, vec![["--lib", ""], ["--tests", ""]]));
        } else if !others.is_empty() {
            commands.push(of(package, others));
        }
    }
    commands
}

/// Runs `size` of it, with this seed.
pub fn run(run: &Run, built: &[TestExecutable], size: u64, seed: u64) -> SliceResult {
    let name = match run.from {
        Executable::Proto(name) | Executable::Daemon(name) => name,
        Executable::DaemonUnits => "switchboardd",
        Executable::Shim => "shim",
        Executable::Program(name, arguments) => {
            // It measures what is shipped, and builds it.
            let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            command
                .args(["run", "--quiet", "--release", "-p", "proto-tests", "--bin", name, "--"])
                .args(arguments);
            command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
            return finish(command);
        }
    };
    let package = match run.from {
        Executable::Proto(_) => "proto-tests",
        Executable::Shim => "switchboard-shim",
        _ => "switchboardd",
    };
    let found = built.iter().find(|test| test.name == name && test.package.ends_with(package));
    let Some(test) = found else {
        let output = format!("there is no test executable `{name}` of {package}");
        return SliceResult { succeeded: false, figures: Vec::new(), output };
    };
    let mut command = Command::new(&test.file);
    command.env(crate::bins::BUILT, "1");
    command.current_dir(&test.package).args(["--nocapture", "--test-threads=1"]);
    if !run.test.is_empty() {
        command.arg(run.test);
        if !run.test.ends_with("::") {
            command.arg("--exact");
        }
    }
    if let Some(limits) = run.size {
        command.env(limits.variable, size.to_string());
        for (name, each) in limits.others {
            command.env(name, (size / each).max(1).to_string());
        }
        match limits.seeds {
            Seeds::None => {}
            Seeds::Each(name) | Seeds::Slice(name) => {
                command.env(name, seed.to_string());
            }
        }
    }
    finish(command)
}

fn finish(mut command: Command) -> SliceResult {
    without_own_package(&mut command);
    command.stdin(Stdio::null());
    match with_output(&mut command) {
        Ok((status, output)) => {
            let figures = output.lines().filter_map(Figure::read).collect();
            // A name that no test has runs nothing, and succeeds.
            let ran = !output.contains("test result: ok. 0 passed");
            SliceResult { succeeded: status.success() && ran, figures, output }
        }
        Err(error) => SliceResult {
            succeeded: false,
            figures: Vec::new(),
            output: format!("it could not be run: {error}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::ROWS;
    use super::*;

    #[test]
    fn each_package_is_built_once_with_what_is_needed() {
        let runs: Vec<Run> = ROWS
            .iter()
            .filter(|row| ["R1", "R2", "R11"].contains(&row.id))
            .flat_map(|row| row.runs)
            .copied()
            .collect();
        let commands: Vec<String> =
            build_arguments(&runs, "long").iter().map(|words| words.join(" ")).collect();
        assert_eq!(
            commands,
            ["--profile long -p proto-tests --test breaker", "--profile long -p switchboardd --lib --tests"]
        );
    }
}
