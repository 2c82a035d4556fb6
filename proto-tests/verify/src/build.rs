//! Builds all programs and tests with one cargo command, and finds the test executables in what cargo prints.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What cargo built.
#[derive(Debug)]
pub struct Built {
    /// Where the programs are: `…/target/debug`.
    pub folder: PathBuf,
    pub tests: Vec<TestExecutable>,
}

#[derive(Debug)]
pub struct TestExecutable {
    /// The name of the test file; for unit tests the name of their crate.
    pub name: String,
    pub file: PathBuf,
    /// The directory of its package, where cargo would run it.
    pub package: PathBuf,
}

pub fn build(root: &Path) -> Result<Built, String> {
    // This program is in the directory that cargo builds into.
    let folder = std::env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.parent()?.to_owned()))
        .ok_or("the directory of this program is unknown")?;
    let tests = build_tests(root, &["--workspace", "--bins", "--tests"])?;
    Ok(Built { folder, tests })
}

/// Builds what these arguments of `cargo build` say, and returns the test executables among it.
pub fn build_tests(root: &Path, what: &[&str]) -> Result<Vec<TestExecutable>, String> {
    let mut cargo = cargo(root);
    cargo.args(["build", "--message-format=json-render-diagnostics"]).args(what);
    let mut cargo =
        cargo.stdout(Stdio::piped()).spawn().map_err(|error| format!("cargo could not be run: {error}"))?;
    let lines = BufReader::new(cargo.stdout.take().ok_or("cargo has no output")?).lines();
    let tests = lines.map_while(Result::ok).filter_map(|line| test_executable(&line)).collect();
    match cargo.wait() {
        Ok(status) if status.success() => Ok(tests),
        Ok(status) => Err(format!("the build failed ({status})")),
        Err(error) => Err(format!("cargo was lost: {error}")),
    }
}

#[expect(clippy::disallowed_methods, reason = "runs cargo, which is no child")]
fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root);
    without_own_package(&mut cargo);
    cargo
}

/// Removes the variables that `cargo run` sets for the package of this program. Build scripts depend on some
/// of them, and would run again.
pub fn without_own_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let own = ["CARGO_PKG_", "CARGO_MANIFEST", "CARGO_BIN_", "CARGO_CRATE_"];
        if own.iter().any(|prefix| text.starts_with(prefix)) || text == "LD_LIBRARY_PATH" {
            command.env_remove(&name);
        }
    }
}

/// Reads one message of cargo; `None` unless it is about a test executable.
fn test_executable(message: &str) -> Option<TestExecutable> {
    let profile = &message[message.find(r#""profile":{"#)?..];
    if !profile.split('}').next()?.contains(r#""test":true"#) {
        return None;
    }
    let file = PathBuf::from(text(message, "executable")?);
    let package = Path::new(text(message, "manifest_path")?).parent()?.to_owned();
    let target = &message[message.find(r#""target":{"#)?..];
    Some(TestExecutable { name: text(target, "name")?.to_owned(), file, package })
}

/// The first member `name` of a message that is a string without escapes.
fn text<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    let start = format!(r#""{name}":""#);
    let rest = &message[message.find(&start)? + start.len()..];
    rest.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of cargo 1.95, shortened.
    const MESSAGE: &str = r#"{"reason":"compiler-artifact","package_id":"path+file:///w/proto-tests#0.1.0","manifest_path":"/w/proto-tests/Cargo.toml","target":{"kind":["test"],"crate_types":["bin"],"name":"storm","src_path":"/w/proto-tests/tests/storm.rs","edition":"2024","doc":false,"doctest":false,"test":true},"profile":{"opt_level":"0","debuginfo":1,"debug_assertions":true,"overflow_checks":true,"test":true},"features":[],"filenames":["/t/debug/deps/storm-1"],"executable":"/t/debug/deps/storm-1","fresh":true}"#;

    #[test]
    fn a_test_executable_is_found() {
        let found = test_executable(MESSAGE).unwrap();
        assert_eq!(found.name, "storm");
        assert_eq!(found.file, Path::new("/t/debug/deps/storm-1"));
        assert_eq!(found.package, Path::new("/w/proto-tests"));
    }

    #[test]
    fn programs_and_libraries_are_no_tests() {
        let program = MESSAGE
            .replace(r#""overflow_checks":true,"test":true"#, r#""overflow_checks":true,"test":false"#);
        assert!(test_executable(&program).is_none());
        let library = MESSAGE.replace(r#""executable":"/t/debug/deps/storm-1""#, r#""executable":null"#);
        assert!(test_executable(&library).is_none());
    }
}
