//! The programs under test, built once per test process with the profile and target directory of the
//! test itself.
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

#[derive(Debug)]
pub struct Bins {
    pub switchboardd: PathBuf,
    pub switchboard: PathBuf,
    pub switchboard_ctl: PathBuf,
    pub switchboard_guard: PathBuf,
    pub mock_child: PathBuf,
    pub evil_child: PathBuf,
    pub era_child: PathBuf,
    pub replay_child: PathBuf,
    pub stdio_adapter: PathBuf,
    pub knock: PathBuf,
    pub bench_part: PathBuf,
    pub conformance_client: PathBuf,
}

impl Bins {
    /// The programs of an installation, which belong into one folder.
    pub fn installed(&self) -> [&PathBuf; 4] {
        [&self.switchboard, &self.switchboardd, &self.switchboard_ctl, &self.switchboard_guard]
    }

    /// The C library that they are linked to, by the loader that they name right behind their headers; a static
    /// program names none.
    pub fn c_library(&self) -> &'static str {
        let mut begin = Vec::new();
        std::fs::File::open(&self.switchboardd).unwrap().take(4096).read_to_end(&mut begin).unwrap();
        if memchr::memmem::find(&begin, b"/ld-linux").is_some() { "glibc" } else { "musl" }
    }

    /// Copies them into a folder that exists. Another process copies: while this one has a file open for writing, a
    /// process that another thread starts inherits the descriptor, and the file cannot be executed.
    pub fn copy_to(&self, folder: &Path) {
        let status = Command::new("cp").args(self.installed()).arg(folder).status().expect("cp");
        assert!(status.success(), "cp: {status}");
    }
}

/// Set in the environment of programs of ours that another program starts many times at once: everything is
/// already built.
pub const BUILT: &str = "PROTO_TESTS_BUILT";

/// Set in the environment: the folder with the four programs of an installation that is tested or measured, if it is
/// not this build's. `deploy/build-targets` makes such folders.
const PROGRAMS: &str = "PROTO_TESTS_PROGRAMS";

/// What is built together. The commands are built by themselves, as `deploy/build.sh` does: the features that
/// they need would make the measured programs larger.
const PACKAGES: [&[&str]; 2] = [
    &["switchboard-ctl"],
    &["switchboardd", "switchboard-guard", "switchboard-shim", "mock-child", "proto-tests"],
];

pub fn bins() -> &'static Bins {
    static BINS: OnceLock<Bins> = OnceLock::new();
    BINS.get_or_init(|| {
        let folder = profile_folder();
        if std::env::var_os(BUILT).is_none() {
            build(&folder);
        }
        let installed = std::env::var_os(PROGRAMS).map_or_else(|| folder.clone(), PathBuf::from);
        Bins {
            switchboardd: installed.join("switchboardd"),
            switchboard: installed.join("switchboard"),
            switchboard_ctl: installed.join("switchboard-ctl"),
            switchboard_guard: installed.join("switchboard-guard"),
            mock_child: folder.join("mock-child"),
            evil_child: folder.join("evil-child"),
            era_child: folder.join("era-child"),
            replay_child: folder.join("replay-child"),
            stdio_adapter: folder.join("stdio-adapter"),
            knock: folder.join("knock"),
            bench_part: folder.join("bench-part"),
            conformance_client: folder.join("conformance-client"),
        }
    })
}

/// `…/target/debug`, from `…/target/debug/deps/suites-0123`.
fn profile_folder() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    exe.ancestors()
        .find(|folder| folder.join("deps").is_dir())
        .unwrap_or_else(|| panic!("{} is not in a target directory", exe.display()))
        .to_owned()
}

fn build(folder: &Path) {
    // With the features of a test run, so that nothing is built twice.
    if folder.file_name().is_some_and(|name| name == "debug") {
        return build_packages(folder, &["--workspace", "--tests"]);
    }
    let profile = folder.file_name().and_then(|name| name.to_str()).expect("BUG: a profile has a name");
    for packages in PACKAGES {
        let packages = packages.iter().flat_map(|package| ["-p", package]);
        build_packages(folder, &["--profile", profile].into_iter().chain(packages).collect::<Vec<_>>());
    }
}

fn build_packages(folder: &Path, what: &[&str]) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let mut command = Command::new(cargo);
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).args(["build", "--quiet", "--bins"]);
    command.arg("--target-dir").arg(folder.parent().unwrap());
    command.args(what);
    // Variables that cargo sets for a test's own package would make build scripts run again.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST") || text == "LD_LIBRARY_PATH" {
            command.env_remove(&name);
        }
    }
    let status = command.status().expect("cargo");
    assert!(status.success(), "building the programs under test failed: {status}");
}
