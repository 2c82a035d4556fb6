//! `cargo verify`: runs every test. First the Rust tests, which need nothing but Rust. Then tests with Debian
//! packages: secrets in a real keyring, metrics read by a real Prometheus, the status page in a real browser.
//! Then the daemon under a real systemd, and the packages that users install. Then the interop run, which
//! installs pinned npm and PyPI packages into its own directory. Last, the official conformance suite through
//! a daemon.

#![expect(clippy::print_stdout, reason = "this program tells a person how far it is")]

use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace is above");
    // The interop run uses the binaries that the test run built.
    let bin = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
    let Some(bin) = bin else { return ExitCode::FAILURE };

    // No retries: a flaky test is a bug, in the test or in the code under test.
    let tests = step("the Rust tests", cargo(root).args(["test", "--workspace", "--no-fail-fast"]));
    let built =
        tests && step("the binaries", cargo(root).args(["build", "--workspace", "--bins", "--tests"]));
    let keyring = built && step("a real keyring", script(root, "interop/keyring.sh").arg(&bin));
    let metrics =
        keyring && step("metrics, as Prometheus reads them", script(root, "interop/prometheus.sh").arg(&bin));
    let page = metrics && step("the status page in a browser", script(root, "page/run.sh").arg(&bin));
    let service = page && step("a real systemd", script(root, "interop/service.sh").arg(&bin));
    let package = service && step("what people install", script(root, "interop/package.sh").arg(&bin));
    let interop = package && step("real clients and children", script(root, "interop/run.sh").arg(&bin));
    // The suite prints how many scenarios and checks passed.
    let suite = interop && step("the official conformance suite", &mut program(&bin, "conformance"));
    let client = suite && step("the same, the other way round", program(&bin, "conformance").arg("client"));
    if client { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn step(what: &str, command: &mut Command) -> bool {
    println!("── {what} ──");
    match command.status() {
        Ok(status) if status.success() => true,
        Ok(status) => {
            println!("── {what}: failed ({status}) ──");
            false
        }
        Err(error) => {
            println!("── {what}: could not be run: {error} ──");
            false
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "runs cargo, which is no child")]
fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root);
    cargo
}

#[expect(clippy::disallowed_methods, reason = "runs a program of the tests, which is no child")]
fn program(bin: &Path, name: &str) -> Command {
    Command::new(bin.join(name))
}

#[expect(clippy::disallowed_methods, reason = "runs scripts of the tests, which are no children")]
fn script(root: &Path, name: &str) -> Command {
    let mut script = Command::new("bash");
    script.arg(root.join("proto-tests").join(name)).current_dir(root);
    script
}
