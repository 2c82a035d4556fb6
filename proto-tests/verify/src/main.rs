//! `cargo verify`: runs every test. It builds everything once, while packages from Debian, npm and PyPI are
//! installed in the background. Then it runs the test executables and the steps that need more than Rust, a
//! few at a time: secrets in a real keyring, metrics read by a real Prometheus, the status page in a real
//! browser, the daemon under a real systemd, the packages and channels that users install from, real clients
//! and servers, the permission rules of real hosts, and the official conformance suite. `cargo verify NAME…`
//! runs only the named ones.
//!
//! There are no retries: a flaky test is a bug, in the test or in the code under test.

#![expect(clippy::print_stdout, reason = "this program tells a person how far it is")]

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use verify::build;
use verify::job::{self, Job, Tally};

/// The jobs that take longest, longest first. They start first, so that none of them runs last and alone.
const LONG: [&str; 24] = [
    "interop",
    "conformance",
    "package",
    "channels",
    "matrix",
    "service",
    "page",
    "permissions",
    "budget",
    "starts",
    "soak",
    "orphans",
    "hosts",
    "breaker",
    "pools",
    "tidy",
    "activation",
    "live",
    "oauth",
    "remote_hostile",
    "callers",
    "questions",
    "storm",
    "edits",
];

fn main() -> ExitCode {
    let begin = Instant::now();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace is above");
    let only: Vec<String> = std::env::args().skip(1).collect();

    let needs_packages = only.is_empty() || steps(root, root).iter().any(|step| only.contains(&step.name));
    let install = needs_packages.then(|| job::start_install(root));
    println!("── building ──");
    let built = build::build(root);
    if let Ok(built) = &built {
        println!("── built after {} s: {} test executables ──", begin.elapsed().as_secs(), built.tests.len());
    }
    if let Some(install) = install {
        install.wait();
    }
    let built = match built {
        Ok(built) => built,
        Err(problem) => {
            println!("── {problem} ──");
            return ExitCode::FAILURE;
        }
    };

    let mut jobs = steps(root, &built.folder);
    jobs.extend(built.tests.iter().map(Job::test));
    // A name in the list that is none would be overlooked.
    for name in LONG.iter().filter(|name| jobs.iter().all(|job| job.name != **name)) {
        println!("── `{name}` is listed as long, and is not there ──");
    }
    if let Some(unknown) = only.iter().find(|name| jobs.iter().all(|job| job.name != **name)) {
        println!("── there is no test executable or step `{unknown}` ──");
        return ExitCode::FAILURE;
    }
    jobs.retain(|job| only.is_empty() || only.contains(&job.name));
    jobs.sort_by_key(|job| LONG.iter().position(|name| *name == job.name).unwrap_or(LONG.len()));

    let mut tally = Tally::default();
    job::run(jobs, &mut tally);
    println!("── after {} s ──", begin.elapsed().as_secs());
    println!("{tally}");
    if tally.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The steps that need more than Rust.
fn steps(root: &Path, bin: &Path) -> Vec<Job> {
    let script = |name: &str, file: &str| Job::script(name, root, file, bin);
    vec![
        Job::program("conformance", bin, "conformance", &[]),
        Job::program("conformance-client", bin, "conformance", &["client"]),
        script("service", "interop/service.sh"),
        script("interop", "interop/run.sh"),
        script("page", "page/run.sh"),
        script("permissions", "permissions/run.sh"),
        script("package", "interop/package.sh"),
        script("channels", "channels/run.sh"),
        script("keyring", "interop/keyring.sh"),
        script("prometheus", "interop/prometheus.sh"),
    ]
}
