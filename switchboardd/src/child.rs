//! One running child: a handle that many callers share, and a private task that owns the process.
//!
//! Calls are registered, then written, then awaited; dropping the wait cancels the call in the child.
//! When the child ends, closing its table of calls answers every caller. This module knows nothing of
//! suites, sessions or pools.

mod annotations;
mod calls;
mod cancel_notification;
mod cancels;
mod clip;
mod end_guard;
mod failure;
mod following;
mod handshake;
mod in_flight;
mod inbound;
mod launcher;
mod life;
mod lifecycle;
mod listening;
mod lists;
mod log_limit;
mod malformed;
mod memory_pipe;
mod message_id;
mod orphans;
mod outbox;
mod ownership;
mod ping;
mod questions;
mod registry;
pub mod remote;
mod request;
mod roots;
mod run_log;
mod runner;
mod sharing;
mod spawn;
mod start;
mod stderr;
mod timeouts;
mod tools;
mod transport;
pub mod value_resolver;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use switchboard_wire::envelope::Malformed;
use tokio::time::Instant;

pub use annotations::Annotations;
pub use calls::{ChildId, ChildResponse};
pub use failure::ChildError;
pub use handshake::{ServerInfo, StartError};
pub use in_flight::InFlight;
pub use launcher::{InMemoryPrograms, InMemoryRun, InMemoryStart, Launcher, TermSignal};
#[cfg(test)]
pub(crate) use life::tests::child as without_process;
pub use lists::{ChildItems, ListItem, ListKind, offers};
pub use memory_pipe::{PipeReader, PipeWriter};
pub(crate) use orphans::become_subreaper as adopt_orphans;
pub use ownership::Ownership;
pub use registry::{BudgetSlot, ChildRegistry};
pub use request::{ChildRequest, OpenedRequest};
pub use run_log::{RunLog, StaleRuns};
pub use runner::Runners;
pub use spawn::{ChildExit, program};
pub use start::{ChildStart, StartDeps};
pub use stderr::{LAST_STDERR, StderrLine, StderrRing, is_detail, written};
pub use switchboard_definitions::config::Limits;
pub use tools::{ArgumentNames, Tool, ToolList};

use crate::observe::metrics::child_metrics::ChildMetrics;
use crate::savings::recorder::Fingerprint;
use calls::Calls;
use cancels::CancelWatch;
use clip::clip;
use following::SubscriptionState;
use lifecycle::Lifecycle;
use switchboard_mcp::era::ProtocolEra;
use timeouts::CallTable;
use transport::ChildTransport;

/// The protocol that the daemon speaks with a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Modern,
    Legacy,
    /// The HTTP+SSE transport of 2024-11-05: the server sends on an SSE stream and receives
    /// POSTs at another URL.
    LegacySse,
}

impl Protocol {
    pub fn of(era: ProtocolEra) -> Self {
        match era {
            ProtocolEra::Modern => Self::Modern,
            ProtocolEra::Legacy => Self::Legacy,
        }
    }
}

pub struct Child {
    identity: ChildIdentity,
    transport: ChildTransport,
    call_table: CallTable,
    lifecycle: Lifecycle,
    /// The server info from the child's handshake.
    server_info: OnceLock<ServerInfo>,
    tool_cache: tools::ToolCache,
    offer_cache: lists::OfferCache,
    following: SubscriptionState,
    // A leaf lock: held to read or replace the value.
    ownership: Mutex<Ownership>,
    roots: roots::Roots,
    cancels: CancelWatch,
    /// A `ping` that checks whether the child still answers is in flight.
    probing: AtomicBool,
    /// The child has asked a host for sampling or elicitation.
    asks: AtomicBool,
    stderr: Arc<StderrRing>,
    noise: AtomicU64,
    // A leaf lock: held to count one message.
    log_rate_limit: Mutex<log_limit::LogRateLimit>,
    metrics: Arc<ChildMetrics>,
}

struct ChildIdentity {
    name: Box<str>,
    /// Process id. Remote children get a synthetic id that no process has.
    pid: u32,
    /// `None` for a remote child.
    guard_pid: Option<u32>,
    /// What it runs, or connects to, with all values filled in.
    launch: Fingerprint,
    born: Instant,
}

impl Child {
    /// Its tools: cached, and fetched again after the child said that they changed.
    ///
    /// If a fetch has failed at or after `asked`, returns that error instead of fetching again.
    pub async fn tools(
        self: &Arc<Self>,
        limits: Limits,
        asked: Instant,
    ) -> Result<Arc<ToolList>, ChildError> {
        self.tool_cache.get(self, limits, asked).await
    }

    /// Fetches its tools even if they are cached.
    pub async fn renew_tools(self: &Arc<Self>, limits: Limits) -> Result<Arc<ToolList>, ChildError> {
        self.tool_cache.refresh(self, limits).await
    }

    /// Its cached tools, if any.
    pub fn known_tools(&self) -> Option<Arc<ToolList>> {
        self.tool_cache.cached()
    }

    /// The host continues a call with another request: progress now carries that request's token.
    pub fn set_progress_token(&self, id: ChildId, token: Option<&str>) {
        self.calls().retoken(id, token.map(Into::into));
    }

    /// Whether it has calls in flight and all of them wait for an answer of their hosts.
    pub fn is_asking(&self) -> bool {
        self.calls().all_asking()
    }

    pub fn name(&self) -> &str {
        &self.identity.name
    }

    pub fn pid(&self) -> u32 {
        self.identity.pid
    }

    /// Its process id, unless it is remote.
    pub fn process(&self) -> Option<u32> {
        self.identity.guard_pid.map(|_| self.identity.pid)
    }

    pub fn is_remote(&self) -> bool {
        matches!(self.transport, ChildTransport::Http(_))
    }

    pub fn guard_pid(&self) -> Option<u32> {
        self.identity.guard_pid
    }

    pub fn started_at(&self) -> Instant {
        self.identity.born
    }

    /// What it runs, or connects to, with all values filled in.
    pub fn launch(&self) -> Fingerprint {
        self.identity.launch
    }

    pub fn in_flight(&self) -> usize {
        self.calls().in_flight()
    }

    /// How many lines and messages it wrote that are not valid JSON-RPC.
    pub fn noise_count(&self) -> u64 {
        self.noise.load(Ordering::Relaxed)
    }

    pub fn stderr(&self) -> &Arc<StderrRing> {
        &self.stderr
    }

    pub fn server_info(&self) -> &ServerInfo {
        self.server_info.get().expect("BUG: only children that shook hands are handed out")
    }

    /// The era it speaks; legacy until the handshake has shown it.
    pub fn era(&self) -> ProtocolEra {
        self.server_info.get().map_or(ProtocolEra::Legacy, ServerInfo::era)
    }

    pub fn protocol(&self) -> Protocol {
        match &self.transport {
            ChildTransport::Stdio(_) => Protocol::of(self.era()),
            ChildTransport::Http(remote) => remote.protocol(),
        }
    }

    /// Resolves when the child has said that one of its lists changed.
    pub async fn lists_changed(&self) {
        tokio::select! {
            () = self.tool_cache.changed() => {}
            () = self.offer_cache.changed() => {}
        }
    }

    fn count_noise(&self, what: &Malformed) {
        self.noise.fetch_add(1, Ordering::Relaxed);
        self.metrics.record_noise();
        tracing::debug!(target: "server", server = self.name(), "skipped: {what}");
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, Calls> {
        self.call_table.calls.lock().expect("BUG: bookkeeping panicked")
    }
}

impl std::fmt::Debug for Child {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Child({}, pid {})", self.identity.name, self.identity.pid)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
