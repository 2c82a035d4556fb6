//! The suites that sessions see: an immutable snapshot with a generation number.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::config::Config;
use crate::definition::Definition;
use crate::discover::Found;
use crate::document::{Problem, nearest};
use crate::pool::{Nursery, Pool, Settings};
use crate::suite::Suite;
use crate::suite_name;

#[derive(Debug)]
pub struct Catalog {
    pub generation: u64,
    pub config: Config,
    /// By name of their children.
    pub suites: Vec<Suite>,
    pub problems: Vec<Problem>,
    /// The result of `tools/list`, made once.
    pub tools_list: String,
    by_name: BTreeMap<String, usize>,
}

impl Catalog {
    /// Children whose launch did not change keep their pool from `before`.
    pub fn build(config: Config, found: Found, nursery: &Nursery, before: Option<&Self>) -> Self {
        let mut problems = found.problems;
        problems.extend(strangers(&config, &found.definitions));
        let mut suites: Vec<Suite> = Vec::new();
        let names =
            names(&config, &found.definitions.iter().map(|known| known.name.as_str()).collect::<Vec<_>>());
        for (definition, name) in found.definitions.into_iter().zip(names) {
            if let Err(why) = &definition.launch {
                problems.push(Problem {
                    file: definition.file.clone(),
                    at: None,
                    message: format!("`{}` is misconfigured: {why}", definition.name),
                });
            }
            let pool = definition.launch.as_ref().ok().map(|launch| {
                let settings = Settings::of(launch, config.suite(&definition.name).pool);
                let fits =
                    |pool: &Arc<Pool>| pool.launch() == launch && pool.settings().scope == settings.scope;
                let same = |suite: &Suite| suite.pool.clone().filter(fits);
                if let Some(twin) = suites.iter().find_map(same) {
                    return twin;
                }
                let Some(kept) = before.and_then(|before| before.suites.iter().find_map(same)) else {
                    return Pool::new(&definition.name, launch.clone(), settings, nursery.clone());
                };
                kept.reconfigure(settings);
                kept
            });
            suites.push(Suite::new(name, definition, &config, pool));
        }
        let tools: Vec<String> = suites.iter().map(Suite::tool).collect();
        let tools_list = format!(r#"{{"tools":[{}]}}"#, tools.join(","));
        let by_name = suites.iter().enumerate().map(|(at, suite)| (suite.name.clone(), at)).collect();
        let generation = before.map_or(1, |before| before.generation + 1);
        Self { generation, config, suites, problems, tools_list, by_name }
    }

    pub fn suite(&self, name: &str) -> Option<&Suite> {
        self.by_name.get(name).map(|at| &self.suites[*at])
    }

    /// A suite by its own name, or by its child's.
    pub fn named(&self, name: &str) -> Option<&Suite> {
        self.suite(name).or_else(|| self.child(name))
    }

    pub fn child(&self, name: &str) -> Option<&Suite> {
        self.suites.iter().find(|suite| suite.child_name() == name)
    }

    /// Whatever failed before may be mended now: it is tried again at once.
    pub fn forgive(&self) {
        self.suites.iter().filter_map(|suite| suite.pool.as_ref()).for_each(|pool| pool.forgive());
    }

    /// Starts the spares of children that have run before.
    pub fn keep_warm(&self) {
        for suite in &self.suites {
            if let Some(pool) = &suite.pool {
                pool.keep_warm(suite.limits);
            }
        }
    }

    /// The pools of this catalog that `other` no longer has.
    pub fn pools_gone_in(&self, other: &Self) -> Vec<Arc<Pool>> {
        let kept = |pool: &Arc<Pool>| {
            other.suites.iter().filter_map(|suite| suite.pool.as_ref()).any(|other| Arc::ptr_eq(other, pool))
        };
        self.suites.iter().filter_map(|suite| suite.pool.clone()).filter(|pool| !kept(pool)).collect()
    }
}

/// Settings for servers that do not exist: a mistyped name would leave its server without them.
fn strangers(config: &Config, definitions: &[Definition]) -> Vec<Problem> {
    let known = || definitions.iter().map(|definition| definition.name.as_str());
    let unknown = config.suites.keys().filter(|name| !known().any(|known| known == name.as_str()));
    unknown
        .map(|name| {
            let hint =
                nearest(name, known()).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            let message = format!("`suites.{name}` is for a server that was not found{hint}");
            Problem { file: config.file.clone(), at: None, message }
        })
        .collect()
}

/// One name per child: chosen ones first, then derived ones, with a stable mark where two would clash.
fn names(config: &Config, children: &[&str]) -> Vec<String> {
    let chosen = |child: &str| config.suites.get(child).and_then(|suite| suite.suite_name.clone());
    let mut taken: HashSet<String> = children.iter().filter_map(|child| chosen(child)).collect();
    children
        .iter()
        .map(|child| {
            chosen(child).unwrap_or_else(|| {
                let first = suite_name::derived(child);
                let free = if taken.contains(&first) { suite_name::marked(&first, child) } else { first };
                taken.insert(free.clone());
                free
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::SuiteConfig;

    #[test]
    fn chosen_names_win_and_clashes_stay_apart() {
        let mut config = Config::defaults(Path::new("/"));
        let chosen = SuiteConfig { suite_name: Some("b_suite".to_owned()), ..SuiteConfig::default() };
        config.suites.insert("a".to_owned(), chosen);
        let names = names(&config, &["a", "b", "c"]);
        assert_eq!(names[0], "b_suite");
        assert!(
            names[1].starts_with("b_") && names[1] != "b_suite" && suite_name::is_valid(&names[1]),
            "{names:?}"
        );
        assert_eq!(names[2], "c_suite");
    }
}
