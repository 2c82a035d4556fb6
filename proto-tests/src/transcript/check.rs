//! Runs one transcript through a real shim, a real daemon and the script child.

use std::fs;
use std::path::Path;

use super::{Names, REPORT, Step, read};
use crate::home::Home;
use crate::wait::{TEST_TIMEOUT, until};

/// The child of every transcript; its suite is `gh_suite`.
const CHILD: &str = "gh";

/// Plays `vectors/NAME` and compares every byte.
#[track_caller]
pub fn check(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors").join(name);
    let steps = read(&path);
    let home = Home::new();
    let report = home.path().join("report");
    home.child_with(CHILD, &["script", path.to_str().unwrap()], &[(REPORT, report.to_str().unwrap())]);
    let _daemon = home.daemon();
    let opens = matches!(steps.first(), Some(Step::HostSends(line)) if line.contains("\"initialize\""));
    let mut shim = if opens { home.raw_shim() } else { home.shim() };
    let told = || fs::read_to_string(&report).unwrap_or_default();
    let mut names = Names::default();
    for step in &steps {
        match step {
            Step::HostSends(line) => shim.send(&names.fill(line)),
            Step::HostReceives(line) => {
                if let Err(difference) = names.learn(line, &shim.receive()) {
                    panic!("{name}: {difference}\nthe child said: {}\n{}", told(), shim.stderr());
                }
            }
            Step::ChildReceives(_) | Step::ChildSends(_) => {}
        }
    }
    let part = |step: &Step| matches!(step, Step::ChildReceives(_) | Step::ChildSends(_));
    if steps.iter().any(part) {
        let told = until("the child's report", TEST_TIMEOUT, || Some(told()).filter(|told| !told.is_empty()));
        assert_eq!(told, "done", "{name}");
    }
}
