//! The command line, and the size of the dependency tree.

use std::process::{Command, Output, Stdio};

use crate::host::binary;

#[expect(clippy::disallowed_methods, reason = "tests run commands")]
fn run(program: &std::path::Path, args: &[&str]) -> Output {
    Command::new(program).args(args).stdin(Stdio::null()).output().unwrap()
}

/// A copy of the shim. Another process copies: while this one has a file open for writing, a process that another
/// test starts inherits the descriptor, and the file cannot be executed.
pub(crate) fn copy_to(folder: &std::path::Path) -> std::path::PathBuf {
    let copy = folder.join("switchboard");
    let arguments = [binary(), &copy].map(|path| path.to_str().unwrap());
    assert!(run(std::path::Path::new("cp"), &arguments).status.success());
    copy
}

/// A copy of the shim next to a fake `switchboard-ctl` that prints its arguments.
fn with_printer() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = crate::host::private_folder();
    let copy = copy_to(folder.path());
    crate::start::write_script(
        &folder.path().join("switchboard-ctl"),
        "#!/bin/sh\nprintf '%s|' \"$@\"\nexit 7\n",
    );
    (folder, copy)
}

#[test]
fn commands_exec_another_program_with_the_same_arguments() {
    let (_folder, shim) = with_printer();
    for (args, expect) in [
        (&["status", "--json", "a b"][..], "status|--json|a b|"),
        (&["--help"], "--help|"),
        (&["--version", "--json"], "--version|--json|"),
        (&["--dry-run"], "--dry-run|"),
        (&["--socket", "/x", "stop"], "--socket|/x|stop|"),
    ] {
        let output = run(&shim, args);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expect);
        assert_eq!(output.status.code(), Some(7));
    }
}

#[test]
fn the_version_needs_no_other_program() {
    let folder = crate::host::private_folder();
    let copy = copy_to(folder.path());
    let output = run(&copy, &["--version"]);
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        format!("switchboard {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn a_missing_program_is_named() {
    let folder = crate::host::private_folder();
    let copy = copy_to(folder.path());
    #[expect(clippy::disallowed_methods, reason = "tests run commands")]
    let output = Command::new(&copy).arg("status").env("PATH", folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("cannot run `switchboard-ctl`"), "{text}");
}

#[test]
fn an_unknown_flag_is_refused_with_the_usage() {
    let output = run(binary(), &["--sockets=/x"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("unknown flag `--sockets`") && text.contains("usage: switchboard"), "{text}");
}

#[test]
fn the_shim_has_no_heavy_dependencies() {
    let args = ["tree", "--offline", "-p", "switchboard-shim", "-e", "normal", "--prefix", "none"];
    #[expect(clippy::disallowed_methods, reason = "tests run commands")]
    let output =
        Command::new(env!("CARGO")).args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    for heavy in ["axum", "hyper", "notify", "globset", "rustls", "native-tls", "clap", "tracing", "regex"] {
        let found = tree.lines().find(|line| line.split(['-', ' ']).next() == Some(heavy));
        assert_eq!(found, None, "{heavy} is in the shim's tree");
    }
}
