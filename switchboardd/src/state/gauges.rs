//! Current values of the daemon, for the metrics export.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Daemon;
use crate::catalog::Catalog;
use crate::catalog::layer::Layer;
use crate::catalog::workspace::Workspace;
use crate::observe::metrics::series::EntryPoint;
use crate::observe::metrics_export::{Gauges, PoolCounts};
use crate::pool::budget::MemoryUsage;
use crate::suite::Suite;

pub fn collect_gauges(daemon: &Daemon, memory_usage: &MemoryUsage) -> Gauges {
    let metrics = &daemon.services.metrics;
    let mut pools: BTreeMap<Arc<str>, PoolCounts> = BTreeMap::new();
    for pool in daemon.workspace_loader.pools.all() {
        *pools.entry(metrics.label(pool.name())).or_default() += pool.counts();
    }
    let mut memory: BTreeMap<Arc<str>, u64> = BTreeMap::new();
    for child in daemon.services.registry.all() {
        if let Some(bytes) = memory_usage.of_child(child.guard_pid()) {
            *memory.entry(metrics.label(child.name())).or_default() += bytes;
        }
    }
    let all = daemon.sessions.all();
    let over_http = all.iter().filter(|session| session.streams.is_some()).count();
    let workspaces = daemon.workspaces.all();
    let in_workspace = |known: &Arc<Workspace>| {
        let catalog = known.catalog();
        catalog.own.as_ref().map_or(0, |own| pending(&catalog, own))
    };
    let personal = daemon.catalog();
    Gauges {
        pools,
        memory,
        sessions: [(EntryPoint::Shim, all.len() - over_http), (EntryPoint::Streamable, over_http)],
        pending: pending(&personal, &personal.personal) + workspaces.iter().map(in_workspace).sum::<usize>(),
        mail_dropped: all.iter().map(|session| session.mail_dropped()).sum(),
        own: memory_usage.own,
    }
}

/// Number of definitions in this layer that await the user's approval.
fn pending(catalog: &Catalog, layer: &Layer) -> usize {
    let is_own =
        |suite: &&Suite| layer.entries.iter().any(|entry| entry.definition.file == suite.definition.file);
    catalog.suites.iter().filter(is_own).filter(|suite| suite.pending().is_some()).count()
}
