//! The results of a run of the suite, check by check.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

#[derive(Debug, Clone)]
pub struct Outcome {
    pub revision: String,
    /// The suite's own verdict, which counts scored scenarios only.
    pub success: bool,
    /// In the order of the requirements.
    pub scenarios: Vec<Scenario>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    pub name: String,
    pub scored: bool,
    /// Empty if the scenario left no results.
    pub checks: Vec<Check>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    pub id: String,
    pub name: String,
    pub verdict: Verdict,
    pub says: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    Failed,
    Warned,
    /// Skipped, or for information.
    Other,
}

impl Scenario {
    pub fn count(&self, verdict: Verdict) -> usize {
        self.checks.iter().filter(|check| check.verdict == verdict).count()
    }

    /// Nothing failed, and something ran.
    pub fn passed(&self) -> bool {
        !self.checks.is_empty() && self.count(Verdict::Failed) == 0
    }
}

impl Outcome {
    pub(super) fn read(
        leg: Leg,
        revision: &str,
        success: bool,
        requirements: &str,
        results: &Path,
    ) -> Result<Self, String> {
        let mut scenarios = Vec::new();
        for (name, scored) in required(leg, requirements) {
            let checks = match leg.folder(results, &name) {
                Some(folder) => checks(&folder.join("checks.json"))?,
                None => Vec::new(),
            };
            scenarios.push(Scenario { name, scored, checks });
        }
        Ok(Self { revision: revision.to_owned(), success, scenarios })
    }

    pub fn count(&self, verdict: Verdict) -> usize {
        self.scenarios.iter().map(|scenario| scenario.count(verdict)).sum()
    }

    /// Scored scenarios, and how many of them passed.
    pub fn scored(&self) -> (usize, usize) {
        let scored: Vec<_> = self.scenarios.iter().filter(|scenario| scenario.scored).collect();
        (scored.len(), scored.iter().filter(|scenario| scenario.passed()).count())
    }

    /// Every scored scenario ran and passed, by the suite's count and by ours.
    pub fn conforms(&self) -> bool {
        let (scored, passed) = self.scored();
        self.success && scored > 0 && scored == passed
    }

    /// Checks that fail here but not `there`, and scenarios that ran only `there`.
    pub fn regressions_from(&self, there: &Self) -> Vec<String> {
        let failed = |outcome: &Self| -> BTreeSet<(String, String, String)> {
            let of = |scenario: &Scenario| {
                let key = |check: &Check| (scenario.name.clone(), check.id.clone(), check.name.clone());
                scenario
                    .checks
                    .iter()
                    .filter(|check| check.verdict == Verdict::Failed)
                    .map(key)
                    .collect::<Vec<_>>()
            };
            outcome.scenarios.iter().flat_map(of).collect()
        };
        let ran = |outcome: &Self| -> BTreeSet<String> {
            outcome
                .scenarios
                .iter()
                .filter(|scenario| !scenario.checks.is_empty())
                .map(|scenario| scenario.name.clone())
                .collect()
        };
        let failed_here = failed(self);
        let failed_there = failed(there);
        let missing =
            ran(there).difference(&ran(self)).map(|name| format!("{name}: did not run")).collect::<Vec<_>>();
        let worse = failed_here
            .difference(&failed_there)
            .map(|(scenario, id, name)| format!("{scenario}: {id} ({name})"));
        worse.chain(missing).collect()
    }
}

/// One line with the counts, then a line for each failure, warning and scenario that did not run.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scored, passed) = self.scored();
        write!(
            f,
            "{}: {passed} of {scored} scored scenarios, {} checks passed, {} failed, {} warnings",
            self.revision,
            self.count(Verdict::Passed),
            self.count(Verdict::Failed),
            self.count(Verdict::Warned),
        )?;
        for scenario in &self.scenarios {
            let mark = if scenario.scored { "" } else { " (not scored)" };
            if scenario.checks.is_empty() {
                write!(f, "\n  {}{mark}: did not run", scenario.name)?;
            }
            for check in &scenario.checks {
                let word = match check.verdict {
                    Verdict::Failed => "failed",
                    Verdict::Warned => "warning",
                    Verdict::Passed | Verdict::Other => continue,
                };
                write!(f, "\n  {}{mark}: {word}: {}: {}", scenario.name, check.id, check.says)?;
            }
        }
        Ok(())
    }
}

/// The side under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leg {
    Server,
    Client,
}

impl Leg {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }

    /// The directory with a scenario's results: `server-SCENARIO-TIME`, or `SCENARIO-TIME` for a client
    /// scenario, whose name may contain slashes.
    fn folder(self, results: &Path, scenario: &str) -> Option<PathBuf> {
        let (folder, name) = match (self, scenario.rsplit_once('/')) {
            (Self::Server, _) => (results.to_owned(), format!("server-{scenario}")),
            (Self::Client, Some((folder, name))) => (results.join(folder), name.to_owned()),
            (Self::Client, None) => (results.to_owned(), scenario.to_owned()),
        };
        let mut found = fs::read_dir(folder).ok()?.flatten();
        found.find(|entry| is_of(&entry.file_name().to_string_lossy(), &name)).map(|entry| entry.path())
    }
}

/// The scenarios of a requirements file for one side, and whether each is scored.
fn required(leg: Leg, requirements: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let (mut section, mut unscored) = ("", "");
    for line in requirements.lines() {
        if !line.starts_with([' ', '#']) {
            section = line.trim_end().trim_end_matches(':');
        } else if section == leg.as_str() {
            found.extend(line.trim().strip_prefix("- ").map(|name| (name.to_owned(), true)));
        } else if section == "not_scored" {
            if let Some(name) = line.trim().strip_prefix("- scenario: ") {
                unscored = name;
            } else if line.trim() == format!("leg: {}", leg.as_str()) {
                found.push((unscored.to_owned(), false));
            }
        }
    }
    found
}

/// Whether a directory belongs to exactly this scenario: one name may be a prefix of another.
fn is_of(folder: &str, name: &str) -> bool {
    let time = folder.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
    time.is_some_and(|time| time.len() == "2026-07-28T00-00-00-000Z".len() && time.ends_with('Z'))
}

fn checks(file: &Path) -> Result<Vec<Check>, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let checks: Vec<Value> =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(checks.iter().map(check).collect())
}

fn check(check: &Value) -> Check {
    let text = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let verdict = match check["status"].as_str() {
        Some("SUCCESS") => Verdict::Passed,
        Some("FAILURE") => Verdict::Failed,
        Some("WARNING") => Verdict::Warned,
        _ => Verdict::Other,
    };
    let says = if check["errorMessage"].is_string() { text("errorMessage") } else { text("description") };
    Check { id: text("id"), name: text("name"), verdict, says }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUIREMENTS: &str = "# words\nserver:\n  - ping\n  - tools-list\n\nclient:\n  - initialize\n\n\
        not_scored:\n  - scenario: auth/dpop\n    leg: client\n    reason: extension\n  - scenario: tasks\n    \
        leg: server\n    reason: extension\n    note: >-\n      words\n";

    #[test]
    fn requirements_are_read_for_one_side() {
        let check = |leg, wanted: &[(&str, bool)]| {
            let found = required(leg, REQUIREMENTS);
            let found: Vec<_> = found.iter().map(|(name, scored)| (name.as_str(), *scored)).collect();
            assert_eq!(found, wanted);
        };
        check(Leg::Server, &[("ping", true), ("tools-list", true), ("tasks", false)]);
        check(Leg::Client, &[("initialize", true), ("auth/dpop", false)]);
    }

    #[test]
    fn a_folder_belongs_to_one_scenario() {
        assert!(is_of("server-tools-list-2026-11-16T10-38-29-995Z", "server-tools-list"));
        assert!(!is_of("server-tools-list-2026-11-16T10-38-29-995Z", "server-tools"));
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("auth/dpop-2026-11-16T10-38-29-995Z");
        fs::create_dir_all(&inner).unwrap();
        assert_eq!(Leg::Client.folder(folder.path(), "auth/dpop"), Some(inner));
        assert_eq!(Leg::Client.folder(folder.path(), "auth/dpop-nonce"), None);
    }

    fn outcome(results: &[(&str, &str)]) -> Outcome {
        let folder = tempfile::tempdir().unwrap();
        for (scenario, status) in results {
            let folder = folder.path().join(format!("server-{scenario}-2026-11-16T10-38-29-995Z"));
            fs::create_dir(&folder).unwrap();
            let checks = format!(r#"[{{"id":"a","name":"A","description":"d","status":"{status}"}}]"#);
            fs::write(folder.join("checks.json"), checks).unwrap();
        }
        Outcome::read(Leg::Server, "2026-07-28", true, REQUIREMENTS, folder.path()).unwrap()
    }

    #[test]
    fn a_run_conforms_if_every_scored_scenario_ran_and_passed() {
        let good = outcome(&[("ping", "SUCCESS"), ("tools-list", "WARNING"), ("tasks", "FAILURE")]);
        assert!(good.conforms());
        assert_eq!(good.scored(), (2, 2));
        assert!(!outcome(&[("ping", "SUCCESS")]).conforms(), "one did not run");
        assert!(!outcome(&[("ping", "FAILURE"), ("tools-list", "SUCCESS")]).conforms());
    }

    #[test]
    fn only_additional_failures_make_a_run_worse() {
        let there = outcome(&[("ping", "SUCCESS"), ("tools-list", "SUCCESS"), ("tasks", "FAILURE")]);
        let here = outcome(&[("ping", "FAILURE"), ("tasks", "FAILURE")]);
        assert_eq!(here.regressions_from(&there), ["ping: a (A)", "tools-list: did not run"]);
        assert!(there.regressions_from(&there).is_empty());
    }
}
