//! What single hosts see. A host that reads a file of the project itself is not shown its servers, so that it has none
//! of them twice.

use std::sync::Arc;

use switchboard_definitions::discover::host_files::{HostSet, ProjectHost};
use switchboard_definitions::suite_name;

use super::Catalog;
use crate::suite::Suite;
use crate::suite::failure::Failure;

/// The catalogs of hosts that see less than all suites, each with its hosts.
#[derive(Debug)]
pub(super) struct HostCatalogs(Vec<(HostSet, Arc<Catalog>)>);

impl HostCatalogs {
    /// `None` if every host sees all suites. Hosts that see the same share one catalog.
    pub(super) fn of(all: &Catalog) -> Option<Box<Self>> {
        let hidden = |host: ProjectHost| -> Vec<bool> {
            all.suites.iter().map(|suite| suite.read_by.contains(host)).collect()
        };
        let hosts = all.suites.iter().fold(HostSet::default(), |hosts, suite| hosts.union(suite.read_by));
        let mut groups: Vec<(HostSet, Vec<bool>)> = Vec::new();
        for host in hosts.iter() {
            let (hidden, host) = (hidden(host), HostSet::of(&[host]));
            match groups.iter_mut().find(|(_, known)| *known == hidden) {
                Some((hosts, _)) => *hosts = hosts.union(host),
                None => groups.push((host, hidden)),
            }
        }
        let catalog = |(hosts, hidden): (HostSet, Vec<bool>)| {
            let shown = all.suites.iter().zip(hidden).filter(|(_, is_hidden)| !is_hidden);
            let suites: Vec<Suite> = shown.map(|(suite, _)| suite.clone()).collect();
            let layers = (all.personal.clone(), all.own.clone());
            let problems = all.problems.clone();
            (hosts, Arc::new(Catalog::of_suites(all.generation, layers, suites, all.find_tool, problems)))
        };
        let all: Vec<_> = groups.into_iter().map(catalog).collect();
        (!all.is_empty()).then(|| Box::new(Self(all)))
    }
}

impl Catalog {
    /// Whether every host sees all of it.
    pub fn is_for_all(&self) -> bool {
        self.of_hosts.is_none()
    }

    /// What this host sees; one that is not known sees all.
    pub fn for_host(self: Arc<Self>, host: Option<ProjectHost>) -> Arc<Self> {
        let known = self.of_hosts.as_ref().zip(host);
        let own = known.and_then(|(all, host)| all.0.iter().find(|(hosts, _)| hosts.contains(host)));
        own.map(|(_, catalog)| catalog.clone()).unwrap_or(self)
    }

    /// The catalogs of hosts that see less, each with its hosts.
    pub fn of_hosts(&self) -> impl Iterator<Item = (HostSet, &Arc<Self>)> {
        self.of_hosts.iter().flat_map(|all| all.0.iter().map(|(hosts, catalog)| (*hosts, catalog)))
    }

    /// Says that there is no such server here.
    pub fn no_such_child(&self, name: &str) -> String {
        let unknown = || Failure::NoSuchChild { child: name.to_owned() }.to_string();
        self.why_not_shown(name).unwrap_or_else(unknown)
    }

    /// Why a server of this name, which is defined, is not shown here. `name`: its own, or that of its suite. Models
    /// read it: it names no folder of another project.
    pub fn why_not_shown(&self, name: &str) -> Option<String> {
        let limited = self.personal.entries.iter().find_map(|entry| {
            let (child, settings) =
                (&entry.definition.name, self.personal.config.suite(&entry.definition.name));
            settings.workspaces.as_ref()?;
            let is_here = self.by_child.contains_key(child);
            (!is_here && is_named(name, child, settings.suite_name.as_deref())).then(|| {
                format!("server `{child}` is not shown in this project (`suites.{child}.workspaces`)")
            })
        });
        limited.or_else(|| {
            let own = self.own.as_ref()?;
            own.entries.iter().find_map(|entry| {
                let (child, file) = (&entry.definition.name, &entry.definition.file);
                let settings = own.config.suite(child);
                let is_here = entry.read_by.is_empty() || self.by_child.contains_key(child);
                (!is_here && is_named(name, child, settings.suite_name.as_deref()))
                    .then(|| format!("this host reads server `{child}` itself, from `{}`", file.display()))
            })
        })
    }
}

/// Whether a name is that of a server, of its suite, or of the suite's tool for what writes.
fn is_named(name: &str, child: &str, suite: Option<&str>) -> bool {
    let derived = suite_name::derived(child);
    let suite = suite.unwrap_or(&derived);
    name == child || name == suite || name == suite_name::of_writing(suite, |_| false)
}
