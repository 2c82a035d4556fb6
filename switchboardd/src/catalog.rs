//! The suites that one workspace's sessions see: an immutable snapshot with a generation number.

pub mod layer;
mod list_fingerprints;
pub mod merged_items;
pub mod workspace;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use switchboard_wire::rpc;

pub use list_fingerprints::ListFingerprints;

use switchboard_definitions::config::{Config, Conflicts, DriftPolicy};
use switchboard_definitions::digest;
use switchboard_definitions::document::{Problem, nearest};
use switchboard_definitions::suite_name;
use switchboard_definitions::trust::{JudgedDefinition, TrustStatus};

use crate::catalog::layer::Layer;
use crate::catalog::merged_items::{ChildPart, MergeRules, MergedItems};
use crate::pool::manifest::Manifest;
use crate::pool::{ChildServices, Pool, PoolSettings, Pools};
use crate::suite::Suite;

#[derive(Debug)]
pub struct Catalog {
    pub generation: u64,
    /// The user's own definitions and settings.
    pub personal: Arc<Layer>,
    /// The workspace's definitions and settings.
    pub own: Option<Arc<Layer>>,
    /// The user's suites first; each group sorted by child name.
    pub suites: Vec<Suite>,
    pub problems: Vec<Problem>,
    /// The result of `tools/list`, formatted once.
    pub tools_list: String,
    /// Digest of the tool list.
    tools_digest: Arc<str>,
    by_name: BTreeMap<String, usize>,
    by_child: BTreeMap<String, usize>,
    /// The cached merge of the children's items.
    // A leaf lock: held to compare, build or copy it.
    offers: Mutex<MergeCache>,
}

#[derive(Debug, Default)]
struct MergeCache {
    /// The manifests it was built from, by suite.
    of: Vec<Option<Arc<Manifest>>>,
    merged: Arc<MergedItems>,
}

impl Catalog {
    /// Children whose launch has not changed keep their pool.
    pub fn build(
        personal: &Arc<Layer>,
        own: Option<&Arc<Layer>>,
        pools: &Pools,
        services: &ChildServices,
        generation: u64,
    ) -> Self {
        let mut problems = personal.problems.clone();
        problems.extend(unknown_suites(personal, None));
        let mut entries: Vec<(&Layer, &JudgedDefinition)> =
            personal.entries.iter().map(|entry| (&**personal, entry)).collect();
        if let Some(own) = own {
            problems.extend(own.problems.iter().cloned());
            problems.extend(unknown_suites(own, Some(personal)));
            let taken: HashSet<&str> =
                entries.iter().map(|(_, entry)| entry.definition.name.as_str()).collect();
            for entry in &own.entries {
                let definition = &entry.definition;
                if taken.contains(definition.name.as_str()) {
                    let message = format!("`{}` is also your own, which is used", definition.name);
                    problems.push(Problem { at: definition.at, ..Problem::of(&definition.file, message) });
                }
            }
            let free = own.entries.iter().filter(|entry| !taken.contains(entry.definition.name.as_str()));
            entries.extend(free.map(|entry| (&**own, entry)));
        }
        // A server that is not allowed yet takes no name from one that serves.
        let rank = |(layer, entry): &(&Layer, &JudgedDefinition)| {
            (!std::ptr::eq(*layer, &**personal), entry.trust_status == TrustStatus::Held)
        };
        entries.sort_by_key(rank);
        let (names, refused) = names(&entries);
        problems.extend(refused);
        services.manifests.baselines.set_holds(personal.config.trust.drift == DriftPolicy::Hold);
        let mut suites: Vec<Suite> = entries
            .into_iter()
            .zip(names)
            .map(|((layer, entry), name)| {
                let of_workspace = !std::ptr::eq(layer, &**personal);
                let pool = pool(layer, entry, !of_workspace, pools, services);
                let metrics = services.metrics.of_suite(&name, &entry.definition.file);
                let suite = Suite::new(name, entry, &layer.config, of_workspace, pool, metrics);
                suite.with_baseline(services.manifests.baselines.of(&entry.definition))
            })
            .collect();
        // The pools have taken them.
        for layer in own.into_iter().chain([personal]) {
            layer.manifests.lock().expect("BUG: a note panicked").clear();
        }
        // Hosts truncate long lists at the end, so a workspace cannot push out the user's own suites.
        suites.sort_by(|a, b| (a.of_workspace, a.child_name()).cmp(&(b.of_workspace, b.child_name())));
        let tools: Vec<String> = suites.iter().map(Suite::tool).collect();
        let tools_list = rpc::tools_result(&tools.join(","));
        let tools_digest = digest::hex(tools_list.as_bytes()).into();
        let by_name = suites.iter().enumerate().map(|(at, suite)| (suite.name.clone(), at)).collect();
        let by_child =
            suites.iter().enumerate().map(|(at, suite)| (suite.child_name().to_owned(), at)).collect();
        let (personal, own) = (personal.clone(), own.cloned());
        let offers = Mutex::default();
        Self {
            generation,
            personal,
            own,
            suites,
            problems,
            tools_list,
            tools_digest,
            by_name,
            by_child,
            offers,
        }
    }

    /// Prompts, resources and templates of all children, as far as known without starting any.
    pub fn offers(&self) -> Arc<MergedItems> {
        let known: Vec<_> = self.suites.iter().map(Suite::manifest).collect();
        let mut offers = self.offers.lock().expect("BUG: a merge panicked");
        let same = |(one, other): (&Option<Arc<Manifest>>, &Option<Arc<Manifest>>)| match (one, other) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        if offers.of.len() != known.len() || !offers.of.iter().zip(&known).all(same) {
            let parts: Vec<_> = self
                .suites
                .iter()
                .zip(&known)
                .filter_map(|(suite, manifest)| Some((suite, manifest.as_ref()?.offers.clone())))
                .collect();
            let parts: Vec<ChildPart<'_>> = parts
                .iter()
                .map(|(suite, offers)| {
                    let (child, of_workspace) = (suite.child_name(), suite.of_workspace);
                    ChildPart { child, offers, of_workspace }
                })
                .collect();
            *offers = MergeCache { of: known, merged: Arc::new(self.merged(&parts)) };
        }
        offers.merged.clone()
    }

    /// A workspace's rules apply to its own children; without any, the user's rules apply there too.
    fn merged(&self, parts: &[ChildPart<'_>]) -> MergedItems {
        let none = Conflicts::default();
        let personal = self.personal.config.conflicts.as_ref().unwrap_or(&none);
        let own = self.own.as_ref().and_then(|own| own.config.conflicts.as_ref());
        MergedItems::of(parts, MergeRules { personal, workspace: own.unwrap_or(personal) })
    }

    /// Logs what hosts are now shown, and the problems that were not logged before.
    pub fn log_loaded(&self, before: Option<&Self>) {
        let known = before.map_or(&[][..], |before| &before.problems);
        for problem in self.problems.iter().filter(|problem| !known.contains(problem)) {
            tracing::warn!(target: "discover", "{problem}");
        }
        let folder = self.own.as_ref().unwrap_or(&self.personal).config.folder.display();
        tracing::info!(
            target: "catalog",
            generation = self.generation,
            suites = self.suites.len(),
            "loaded from {folder}",
        );
    }

    /// The daemon-wide settings.
    pub fn config(&self) -> &Config {
        &self.personal.config
    }

    pub fn suite(&self, name: &str) -> Option<&Suite> {
        self.by_name.get(name).map(|at| &self.suites[*at])
    }

    /// Finds a suite by its own name or its child's.
    pub fn find_suite(&self, name: &str) -> Option<&Suite> {
        self.suite(name).or_else(|| self.child(name))
    }

    pub fn child(&self, name: &str) -> Option<&Suite> {
        self.by_child.get(name).map(|at| &self.suites[*at])
    }

    pub fn pools(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.suites.iter().filter_map(|suite| suite.pool.as_ref())
    }

    /// Whether one of its pools is retired, which would stop its child after each call. Then the catalog must
    /// be rebuilt even if its files are unchanged.
    pub fn has_retired_pool(&self) -> bool {
        self.pools().any(|pool| pool.is_retired())
    }

    /// Lets everything that failed start again at once, because its cause may be fixed.
    pub fn reset_breakers(&self) {
        self.pools().for_each(|pool| pool.reset_breaker());
    }

    /// Starts spares of the user's own children that have run before. A workspace's children wait for a call:
    /// a write to its files must not start anything.
    pub fn keep_warm(&self) {
        for suite in self.suites.iter().filter(|suite| suite.settings.pool.warm.is_some_and(|warm| warm > 0))
        {
            if let Some(pool) = suite.pool.as_ref().filter(|_| !suite.of_workspace) {
                pool.keep_warm(suite.limits);
            }
        }
    }
}

/// The pool of a definition; `None` if it is held or cannot be started.
fn pool(
    layer: &Layer,
    entry: &JudgedDefinition,
    is_personal: bool,
    pools: &Pools,
    services: &ChildServices,
) -> Option<Arc<Pool>> {
    let definition = &entry.definition;
    if entry.trust_status == TrustStatus::Held {
        return None;
    }
    let Ok(launch) = &definition.launch else { return None };
    let settings = PoolSettings::of(launch, layer.config.suite(&definition.name).pool);
    let owner = (!is_personal).then_some(layer.config.folder.as_path());
    Some(pools.get(&definition.name, launch, settings, owner, services))
}

/// Settings for servers that do not exist: probably a mistyped name, whose server then lacks them.
fn unknown_suites(layer: &Layer, personal: Option<&Layer>) -> Vec<Problem> {
    let entries = layer.entries.iter().map(|entry| entry.definition.name.as_str());
    let known: Vec<&str> = entries.chain(layer.denied.iter().map(|denied| denied.name.as_str())).collect();
    let unknown = layer.config.suites.keys().filter(|name| !known.contains(&name.as_str()));
    unknown
        .map(|name| {
            let near = nearest(name, known.iter().copied());
            let hint = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            let message = match personal
                .filter(|own| own.entries.iter().any(|entry| entry.definition.name == *name))
            {
                Some(_) => format!(
                    "`suites.{name}`: `{name}` is your own; a workspace's settings touch its own servers only"
                ),
                None => format!("`suites.{name}` is for a server that was not found{hint}"),
            };
            Problem::of(&layer.config.file, message)
        })
        .collect()
}

/// One name per suite: configured names first, then derived ones, with a stable suffix on a clash. The user's
/// suites come before a workspace's. A configured name that is taken is reported.
fn names(entries: &[(&Layer, &JudgedDefinition)]) -> (Vec<String>, Vec<Problem>) {
    let mut taken = HashSet::new();
    let (mut names, mut problems) = (Vec::with_capacity(entries.len()), Vec::new());
    let alike = |(one, a): &(&Layer, &JudgedDefinition), (other, b): &(&Layer, &JudgedDefinition)| {
        std::ptr::eq(*one, *other)
            && (a.trust_status == TrustStatus::Held) == (b.trust_status == TrustStatus::Held)
    };
    for entries in entries.chunk_by(alike) {
        let chosen = entries.iter().map(|(layer, entry)| {
            let child = &entry.definition.name;
            let name = layer.config.suites.get(child)?.suite_name.clone()?;
            if taken.insert(name.clone()) {
                return Some(name);
            }
            let message = format!("`suites.{child}.suiteName`: another suite is named `{name}`");
            problems.push(Problem::of(&layer.config.file, message));
            None
        });
        let chosen: Vec<Option<String>> = chosen.collect();
        names.extend(chosen.into_iter().zip(entries).map(|(chosen, (_, entry))| {
            chosen.unwrap_or_else(|| {
                let child = &entry.definition.name;
                let first = suite_name::derived(child);
                let free = if taken.contains(&first) { suite_name::marked(&first, child) } else { first };
                taken.insert(free.clone());
                free
            })
        }));
    }
    (names, problems)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use switchboard_definitions::config::SuiteConfig;
    use switchboard_definitions::definition::Definition;
    use switchboard_definitions::discover::WatchedPaths;

    fn layer(children: &[&str], chosen: &[(&str, &str)]) -> Layer {
        let mut config = Config::defaults(Path::new("/"));
        for (child, name) in chosen {
            let suite = SuiteConfig { suite_name: Some((*name).to_owned()), ..SuiteConfig::default() };
            config.suites.insert((*child).to_owned(), suite);
        }
        let entry = |name: &&str| JudgedDefinition {
            definition: Arc::new(Definition {
                name: (*name).to_owned(),
                description: None,
                launch: Err("no command".to_owned()),
                timeout: None,
                file: "/f".into(),
                at: None,
                unclear_in: None,
            }),
            trust_status: TrustStatus::Allowed,
            why_held: None,
        };
        Layer {
            config,
            entries: children.iter().map(entry).collect(),
            denied: Vec::new(),
            problems: Vec::new(),
            watched: WatchedPaths::default(),
            manifests: Mutex::default(),
        }
    }

    fn named(layers: &[&Layer]) -> (Vec<String>, Vec<Problem>) {
        let entries: Vec<_> =
            layers.iter().flat_map(|layer| layer.entries.iter().map(|entry| (*layer, entry))).collect();
        names(&entries)
    }

    #[test]
    fn configured_names_win_and_clashes_get_a_suffix() {
        let (names, problems) = named(&[&layer(&["a", "b", "c"], &[("a", "b_suite")])]);
        assert!(problems.is_empty());
        assert_eq!(names[0], "b_suite");
        assert!(
            names[1].starts_with("b_") && names[1] != "b_suite" && suite_name::is_valid(&names[1]),
            "{names:?}"
        );
        assert_eq!(names[2], "c_suite");
    }

    #[test]
    fn a_workspace_cannot_take_a_name_of_the_users_servers() {
        let personal = layer(&["a", "b"], &[("a", "mine")]);
        let (names, problems) = named(&[&personal, &layer(&["x", "y"], &[("x", "mine"), ("y", "b_suite")])]);
        assert_eq!(names[..3], ["mine", "b_suite", "x_suite"]);
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), 4, "{names:?}");
        assert_eq!(problems.len(), 2, "{problems:?}");
    }
}
