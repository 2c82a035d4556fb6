//! The suites that one workspace's sessions see: an immutable snapshot with a generation number.

mod host_catalogs;
pub mod layer;
mod list_fingerprints;
mod listed_tools;
pub mod merged_items;
mod shown_tools;
mod suite_names;
mod tool_names;
pub mod workspace;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::time::Instant;

pub use list_fingerprints::ListFingerprints;
pub use shown_tools::{ShownTarget, ShownTools};

use switchboard_definitions::config::{Config, Conflicts, DriftPolicy};
use switchboard_definitions::definition::SharedLaunch;
use switchboard_definitions::document::{Problem, nearest};
use switchboard_definitions::trust::{JudgedDefinition, TrustStatus};
use switchboard_mcp::era::ProtocolEra;

use crate::catalog::host_catalogs::HostCatalogs;
use crate::catalog::layer::Layer;
use crate::catalog::listed_tools::{ListedTools, ToolPrints};
use crate::catalog::merged_items::{ChildPart, MergeRules, MergedItems};
use crate::pool::manifest::Manifest;
use crate::pool::{ChildServices, Pool, PoolSettings, Pools};
use crate::suite::{CallTarget, ListedName, ShownForm, Suite, SuitePart};

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
    listed_tools: ListedTools,
    /// The name of the tool that searches all suites, if the user wants it.
    find_tool: Option<&'static str>,
    by_name: BTreeMap<String, usize>,
    /// By the names of the tools for what writes.
    by_writing_name: BTreeMap<String, usize>,
    by_child: BTreeMap<String, usize>,
    /// The cached merge of the children's items.
    // A leaf lock: held to compare, build or copy it.
    offers: Mutex<MergeCache>,
    /// `None` if every host sees all suites.
    of_hosts: Option<Box<HostCatalogs>>,
}

/// What a tool that a host calls stands for.
#[derive(Debug)]
pub struct CalledTool<'c> {
    pub suite: &'c Suite,
    /// What of the suite may be reached.
    pub part: SuitePart,
    /// The server's own tool that it is, if it is no suite's.
    pub own: Option<Box<str>>,
    /// What calls the subtool in the list that the host was shown, if it writes.
    pub instead: Option<ListedName>,
}

impl CalledTool<'_> {
    /// `search`: the name of the tool that searches all suites.
    pub fn target<'t>(&'t self, search: Option<&'t str>) -> CallTarget<'t> {
        let search = search.filter(|_| self.part == SuitePart::Found);
        CallTarget { part: self.part, own: self.own.as_deref(), search, instead: self.instead.as_ref() }
    }
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
        problems.extend(unknown_suites(personal, None, own.map(|own| &**own)));
        let root = own.map(|own| own.config.folder.as_path());
        let is_shown = |entry: &JudgedDefinition| {
            let settings = personal.config.suites.get(&entry.definition.name);
            settings.is_none_or(|settings| settings.is_shown_in(root))
        };
        // Of those that are not shown here, only the names count: no project takes them.
        let mut entries: Vec<(&Layer, &JudgedDefinition)> =
            personal.entries.iter().map(|entry| (&**personal, entry)).collect();
        if let Some(own) = own {
            problems.extend(own.problems.iter().cloned());
            problems.extend(unknown_suites(own, Some(personal), None));
            let shown = personal.entries.iter().filter(|entry| is_shown(entry));
            let taken: HashSet<&str> = shown.map(|entry| entry.definition.name.as_str()).collect();
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
        let (names, find_tool, refused) = suite_names::names(&entries, personal);
        problems.extend(refused);
        services.manifests.baselines.set_holds(personal.config.trust.drift == DriftPolicy::Hold);
        let suites: Vec<Suite> = entries
            .into_iter()
            .zip(names)
            .filter(|((layer, entry), _)| !std::ptr::eq(*layer, &**personal) || is_shown(entry))
            .map(|((layer, entry), name)| {
                let of_workspace = !std::ptr::eq(layer, &**personal);
                let pool = pool(layer, entry, !of_workspace, root, pools, services);
                let metrics =
                    services.metrics.of_suite(&name[0], &entry.definition.name, &entry.definition.file);
                let suite = Suite::new(name, entry, &layer.config, of_workspace, pool, metrics);
                suite.with_baseline(services.manifests.baselines.of(&entry.definition))
            })
            .collect();
        // The pools have taken them.
        for layer in own.into_iter().chain([personal]) {
            layer.manifests.lock().expect("BUG: a note panicked").clear();
        }
        let layers = (personal.clone(), own.cloned());
        let mut all = Self::of_suites(generation, layers, suites, find_tool, problems);
        all.of_hosts = HostCatalogs::of(&all);
        all
    }

    fn of_suites(
        generation: u64,
        (personal, own): (Arc<Layer>, Option<Arc<Layer>>),
        mut suites: Vec<Suite>,
        find_tool: Option<&'static str>,
        problems: Vec<Problem>,
    ) -> Self {
        // Hosts truncate long lists at the end, so a workspace cannot push out the user's own suites.
        suites.sort_by(|a, b| (a.of_workspace, a.child_name()).cmp(&(b.of_workspace, b.child_name())));
        let by_name: BTreeMap<_, _> =
            suites.iter().enumerate().map(|(at, suite)| (suite.name.clone(), at)).collect();
        let by_writing_name: BTreeMap<_, _> =
            suites.iter().enumerate().map(|(at, suite)| (suite.writing_name.clone(), at)).collect();
        let is_reserved = |name: &str| {
            by_name.contains_key(name) || by_writing_name.contains_key(name) || find_tool == Some(name)
        };
        let listed_tools = ListedTools::new(&suites, find_tool, is_reserved);
        let by_child =
            suites.iter().enumerate().map(|(at, suite)| (suite.child_name().to_owned(), at)).collect();
        let offers = Mutex::default();
        Self {
            generation,
            personal,
            own,
            suites,
            problems,
            listed_tools,
            find_tool,
            by_name,
            by_writing_name,
            by_child,
            offers,
            of_hosts: None,
        }
    }

    /// The result of `tools/list`; `with_meta`: for a host that uses `_meta` of tools.
    pub fn tools_result(&self, era: ProtocolEra, with_meta: bool) -> String {
        self.listed_tools.result(era, with_meta)
    }

    /// What the tools of the list stand for, to judge the calls of a host that was shown it.
    pub fn shown_tools(&self) -> Arc<ShownTools> {
        self.listed_tools.shown(&self.suites)
    }

    /// A suite's entries in `tools/list`, by its place in `suites`.
    pub fn listed_entries(&self, at: usize) -> Vec<String> {
        self.listed_tools.entries(at)
    }

    /// The instructions for the host's model.
    pub fn instructions(&self) -> String {
        self.listed_tools.instructions()
    }

    /// What every host reads beside the suites: the instructions, and the tool that searches all suites.
    pub fn read_by_every_host(&self) -> String {
        self.instructions() + &self.listed_tools.find_tool()
    }

    /// Formats what is now known about the servers, for the next `renew_tools`; not for the event loop.
    pub fn prepare_tools(&self) {
        self.listed_tools.prepare(&self.suites);
    }

    /// Adopts what is now known about the servers. Returns when to call this again, if a change has to wait.
    pub fn renew_tools(&self, now: Instant) -> Option<Instant> {
        self.listed_tools.renew(&self.suites, |name| self.is_reserved(name), now)
    }

    /// How hosts see a server, and why not as its own tools if the user prefers those.
    pub fn shown_form(&self, suite: &Suite) -> (ShownForm, Option<String>) {
        self.by_name.get(&suite.name).map(|at| self.listed_tools.form(*at)).unwrap_or_default()
    }

    /// Whether a suite, or the tool that searches all suites, has this name.
    fn is_reserved(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
            || self.by_writing_name.contains_key(name)
            || self.find_tool == Some(name)
    }

    /// Keeps the descriptions of servers that `before` knew, if only their variables or their directory
    /// changed: nothing is known of the new version until it has run. Keeps the form in which hosts see them, too.
    pub fn keep_descriptions(&self, before: &Self) {
        let earlier = |suite: &Suite| {
            let place = *before.by_child.get(suite.child_name())?;
            let is_same = !suite.is_held() && suite.is_same_server(&before.suites[place]);
            before.listed_tools.known(place).filter(|_| is_same)
        };
        self.listed_tools.keep(&self.suites, earlier, |name| self.is_reserved(name));
        self.of_hosts().for_each(|(_, catalog)| catalog.keep_descriptions(before));
    }

    fn tool_prints(&self) -> ToolPrints {
        self.listed_tools.prints()
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

    /// What a tool stands for. A caller that was shown a list is judged by it, also if the list is another one now.
    pub fn tool(&self, name: &str, shown: Option<&ShownTools>) -> Option<CalledTool<'_>> {
        let listed = shown.and_then(|shown| shown.get(name));
        if let Some(tool) = listed.and_then(|target| self.called(target)) {
            return Some(tool);
        }
        let mut called = self.listed_tool(name)?;
        let earlier = shown
            .and_then(|shown| shown.earlier_part(name, called.suite.child_name(), called.own.as_deref()));
        called.part = earlier.unwrap_or(called.part);
        Some(called)
    }

    /// What a tool of the list stands for as it is now.
    fn listed_tool(&self, name: &str) -> Option<CalledTool<'_>> {
        let suite =
            |at: &usize, part| CalledTool { suite: &self.suites[*at], part, own: None, instead: None };
        if let Some(at) = self.by_name.get(name) {
            return Some(suite(at, self.listed_tools.part(*at)));
        }
        if let Some(at) = self.by_writing_name.get(name) {
            return Some(suite(at, SuitePart::Writing));
        }
        self.shown_tools().get(name).and_then(|target| self.called(target))
    }

    fn called(&self, target: &ShownTarget) -> Option<CalledTool<'_>> {
        let suite = self.child(&target.child)?;
        Some(CalledTool { suite, part: target.part, own: target.own.clone(), instead: None })
    }

    pub fn suite(&self, name: &str) -> Option<&Suite> {
        self.by_name.get(name).map(|at| &self.suites[*at])
    }

    /// The name of the tool that searches all suites, if there is one.
    pub fn find_tool(&self) -> Option<&'static str> {
        self.find_tool
    }

    /// Finds a suite by its own name or its child's.
    pub fn find_suite(&self, name: &str) -> Option<&Suite> {
        self.suite(name).or_else(|| self.child(name))
    }

    /// The suite that `name` means: its own name, its child's, or that of the tool for what writes. With the name of that
    /// tool.
    pub fn suite_of_tool(&self, name: &str) -> Option<(&str, &Suite)> {
        let writing = || {
            let suite = self.by_writing_name.get(name).map(|at| &self.suites[*at])?;
            Some((&*suite.writing_name, suite))
        };
        self.find_suite(name).map(|suite| (&*suite.name, suite)).or_else(writing)
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
        self.keep_warm_of(|_| true);
    }

    /// The same for those that are not shown everywhere, when a workspace that shows them is loaded.
    pub fn keep_warm_here(&self) {
        self.keep_warm_of(|suite| suite.settings.workspaces.is_some());
    }

    fn keep_warm_of(&self, is_meant: impl Fn(&Suite) -> bool) {
        let is_warm = |suite: &&Suite| suite.settings.pool.warm.is_some_and(|warm| warm > 0);
        for suite in self.suites.iter().filter(is_warm).filter(|suite| is_meant(suite)) {
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
    workspace: Option<&Path>,
    pools: &Pools,
    services: &ChildServices,
) -> Option<Arc<Pool>> {
    let definition = &entry.definition;
    if entry.trust_status == TrustStatus::Held {
        return None;
    }
    let launch = SharedLaunch::of(definition)?;
    let suite = layer.config.suite(&definition.name);
    // A server that is not shown everywhere has no pool that kept its manifest.
    let limited = suite.workspaces.is_some().then_some(&*launch);
    let _manifests = services.manifests.preload(limited.into_iter());
    let settings = PoolSettings::of(&launch, suite.pool);
    let owner = (!is_personal).then_some(layer.config.folder.as_path());
    Some(pools.get(&definition.name, &launch, settings, owner, workspace, services))
}

/// Settings for servers that do not exist: probably a mistyped name, whose server then lacks them.
/// `project`: the servers of a project may be meant, too.
fn unknown_suites(layer: &Layer, personal: Option<&Layer>, project: Option<&Layer>) -> Vec<Problem> {
    let entries = layer.entries.iter().map(|entry| entry.definition.name.as_str());
    let known: Vec<&str> = entries.chain(layer.denied.iter().map(|denied| denied.name.as_str())).collect();
    let is_of_project = |name: &str| {
        project.is_some_and(|project| project.entries.iter().any(|entry| entry.definition.name == name))
    };
    let unknown = layer
        .config
        .suites
        .keys()
        .filter(|name| !known.contains(&name.as_str()) && !is_of_project(name.as_str()));
    let elsewhere = match personal {
        None => " (for one of a project, only `split`, `expose` and `confirm` hold)",
        Some(_) => "",
    };
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
                None => format!("`suites.{name}` is for a server that was not found{hint}{elsewhere}"),
            };
            Problem::of(&layer.config.file, message)
        })
        .collect()
}
