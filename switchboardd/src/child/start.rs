//! The start of a child: its process or connection, then the handshake.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};

use switchboard_definitions::definition::ResolvedLaunch;
use tokio::time::{Instant, timeout_at};

use super::cancels::CancelWatch;
use super::following::SubscriptionState;
use super::lifecycle::Lifecycle;
use super::remote::HttpClients;
use super::remote::auth::Authorizers;
use super::timeouts::CallTable;
use super::transport::ChildTransport;
use super::{
    BudgetSlot, Child, ChildError, ChildIdentity, ChildRegistry, Launcher, Limits, Ownership, Protocol,
    RunLog, Runners, StartError, StderrRing, handshake, life, listening, lists, millis, remote, roots, tools,
};
use crate::caller::subscriptions::Subscriptions;
use crate::observe::metrics::child_metrics::ChildMetrics;
use crate::savings::recorder::Fingerprint;
use crate::system::environment::ChildEnvironment;

/// Dependencies that [`Child::start`] borrows.
#[derive(Debug, Clone, Copy)]
pub struct StartDeps<'a> {
    pub subscriptions: &'a Arc<Subscriptions>,
    pub variables: &'a ChildEnvironment,
    pub registry: &'a Arc<ChildRegistry>,
    /// Whether the child gets the workspace as a root if its host has no roots.
    pub lends_workspace: bool,
    pub run_log: &'a Arc<RunLog>,
    pub runners: &'a Arc<Runners>,
    pub launcher: &'a Launcher,
    pub http_clients: &'a Arc<HttpClients>,
    /// Credentials of remote children.
    pub logins: &'a dyn Authorizers,
    /// Metrics of the children with this name.
    pub metrics: &'a Arc<ChildMetrics>,
}

/// Which child is started, and its time limits.
#[derive(Debug, Clone)]
pub struct ChildStart<'a> {
    pub name: &'a str,
    /// What it runs, or connects to, with all values filled in.
    pub launch: Fingerprint,
    pub limits: Limits,
    pub ownership: Ownership,
    /// Receives the child's standard error.
    pub stderr: Arc<StderrRing>,
    /// The protocol that an earlier child of this server used, if known.
    pub remembered: Option<Protocol>,
}

impl Child {
    /// Starts a child, and probes for its protocol unless that is remembered.
    pub async fn start(
        start: &ChildStart<'_>,
        target: &ResolvedLaunch,
        deps: &StartDeps<'_>,
        slot: BudgetSlot,
    ) -> Result<Arc<Self>, StartError> {
        let late = |stderr| ChildError::SpawnTimeout { ms: millis(start.limits.spawn), stderr };
        let deadline = Instant::now() + start.limits.spawn;
        let child = async {
            match target {
                ResolvedLaunch::Process(filled) => life::spawn_child(start, filled, deps, slot).await,
                ResolvedLaunch::Remote(to) => remote::connect(start, to, deps, slot).await,
            }
        };
        let child = timeout_at(deadline, child).await.map_err(|_| late(String::new()))?;
        let child = child.map_err(|error| error.without_values(start.stderr.hidden()))?;
        let result = match &child.transport {
            ChildTransport::Stdio(_) => {
                let legacy = start.remembered == Some(Protocol::Legacy);
                // The probe gets at most a quarter of the start timeout, which leaves time for
                // the handshake after it.
                let probing = handshake::PROBE.min(start.limits.spawn / 4);
                timeout_at(deadline, handshake::run(&child, legacy, probing)).await
            }
            ChildTransport::Http(remote) => {
                timeout_at(deadline, remote.handshake(&child, start.remembered)).await
            }
        };
        let error = match result {
            Ok(Ok(server_info)) => {
                let _ = child.server_info.set(server_info);
                listening::begin(&child);
                if let ChildTransport::Http(remote) = &child.transport {
                    remote.listen(&child);
                }
                return Ok(child);
            }
            Ok(Err(error)) => error,
            Err(_) => late(child.stderr.last_lines()).into(),
        };
        child.stop();
        Err(error.without_values(start.stderr.hidden()))
    }

    /// A child before its handshake. `guard_pid`: the process that guards it, if it is local.
    pub(super) fn new(
        start: &ChildStart<'_>,
        deps: &StartDeps<'_>,
        pid: u32,
        guard_pid: Option<u32>,
        transport: ChildTransport,
    ) -> Self {
        Self {
            identity: ChildIdentity {
                name: start.name.into(),
                pid,
                guard_pid,
                launch: start.launch,
                born: Instant::now(),
            },
            transport,
            call_table: CallTable::default(),
            lifecycle: Lifecycle::default(),
            server_info: OnceLock::new(),
            tool_cache: tools::ToolCache::default(),
            offer_cache: lists::OfferCache::default(),
            following: SubscriptionState::new(deps.subscriptions.clone()),
            ownership: Mutex::new(start.ownership.clone()),
            roots: roots::Roots::new(deps.lends_workspace),
            cancels: CancelWatch::default(),
            probing: AtomicBool::new(false),
            asks: AtomicBool::new(false),
            stderr: start.stderr.clone(),
            noise: AtomicU64::new(0),
            log_rate_limit: Mutex::default(),
            metrics: deps.metrics.clone(),
        }
    }
}
