//! One running child: a handle that many callers share, and a private task that owns the process.
//!
//! Calls are registered, then written, then awaited; dropping the wait cancels the call in the child.
//! When the child ends, closing its table of calls answers every caller. Knows nothing of suites,
//! sessions or pools.

mod calls;
mod clearing;
mod failure;
pub mod guard;
mod handshake;
mod in_flight;
mod inbound;
mod launcher;
mod life;
mod listening;
mod lists;
mod log_limit;
mod malformed;
mod memory_pipe;
mod orphans;
mod outbox;
pub mod process_tree;
mod questions;
mod registry;
pub mod remote;
mod roots;
mod run_log;
mod runner;
mod sharing;
mod spawn;
mod stderr;
mod timeouts;
mod tools;
mod transport;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use switchboard_wire::envelope::Malformed;
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

pub use crate::config::Limits;
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
pub use registry::{BudgetSlot, ChildRegistry};
pub use run_log::{RunLog, StaleRuns};
pub use runner::Runners;
pub use sharing::Debt;
pub use spawn::{Exit, program};
pub use stderr::{StderrLine, StderrRing, written};
pub use tools::{Names, Tool, ToolList};

use crate::caller::Caller;
use crate::definition::ResolvedLaunch;
use crate::environment::Variables;
use crate::era::{self, ProtocolEra, envelope};
use crate::log_level::LogLevel;
use crate::methods;
use crate::metrics;
use crate::metrics::child_metrics::ChildMetrics;
use crate::subscriptions::Subscriptions;
use crate::telemetry::trace::Context;
use calls::Calls;
use failure::clip;
use in_flight::CallTiming;
use outbox::Unsent;
use remote::HttpClients;
use remote::auth::Authorizers;
use transport::ChildTransport;

/// A child that was silent on a call and does not answer a `ping` within this is not coming back.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// From so many calls in flight on, messages wait for each other for a moment and are written together: it saves
/// most of the writes of a busy child, and a call that is not alone does not notice.
const COALESCE_ABOVE_CALLS: usize = 4;

/// What every child stands on.
#[derive(Debug, Clone, Copy)]
pub struct StartDeps<'a> {
    pub subscriptions: &'a Arc<Subscriptions>,
    pub variables: &'a Variables,
    pub registry: &'a Arc<ChildRegistry>,
    /// Whether a host without roots lends its workspace as a root.
    pub lends_workspace: bool,
    pub run_log: &'a Arc<RunLog>,
    pub runners: &'a Arc<Runners>,
    pub launcher: &'a Launcher,
    pub http_clients: &'a Arc<HttpClients>,
    /// Who knows the credentials of children that run elsewhere.
    pub logins: &'a dyn Authorizers,
    /// What is counted of children of this name.
    pub metrics: &'a Arc<ChildMetrics>,
}

/// How a child is spoken with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Modern,
    Legacy,
    /// By the transport of 2024-11-05: a stream for what it says, and another address for what it hears.
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

/// Whether a child is one session's own; only then may it know that host's roots.
#[derive(Debug, Clone)]
pub enum Ownership {
    /// Sessions share it.
    Shared,
    /// It waits for the session whose own it will be.
    Spare,
    Session(Arc<Caller>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Alive,
    /// It answers no more; its processes may still be ending.
    Ended,
    /// Nothing of it is left.
    Cleared,
}

pub struct Child {
    name: Box<str>,
    /// Its process; of a child that runs elsewhere a number that no process has.
    pid: u32,
    born: Instant,
    transport: ChildTransport,
    // A leaf lock: held to look up or change entries, never across an await or a write.
    calls: Mutex<Calls>,
    /// A call may be due sooner than was thought.
    timeouts_changed: Notify,
    ending: OnceLock<ChildError>,
    stage: watch::Sender<Stage>,
    stop: watch::Sender<bool>,
    retiring: watch::Sender<bool>,
    stderr: Arc<StderrRing>,
    server_info: OnceLock<ServerInfo>,
    tool_cache: tools::ToolCache,
    offer_cache: lists::OfferCache,
    subscriptions: Arc<Subscriptions>,
    /// Other resources are followed than before.
    refollow: Notify,
    /// A modern child said what it will tell of.
    acknowledged: Notify,
    roots: roots::Roots,
    lends_workspace: bool,
    /// It is found out whether the child has read that calls were cancelled.
    watches_cancels: AtomicBool,
    noise: AtomicU64,
    // A leaf lock: held to count one message.
    log_rate_limit: Mutex<log_limit::LogRateLimit>,
    leases: AtomicI64,
    /// Calls that wait until their hosts come back with answers.
    suspended_calls: AtomicI64,
    /// Calls up to this one that were given up on: it has answered something later, or has had time for it.
    dropped: AtomicU64,
    forgiven: AtomicU64,
    /// It has asked a host something.
    asks: AtomicBool,
    /// It was stopped because children take too much memory.
    evicted: AtomicBool,
    /// The last lease was given back.
    free: Notify,
    // Leaf locks: held for a look or a change of one value.
    ownership: Mutex<Ownership>,
    used: Mutex<Instant>,
    /// The level that it was last told to log from.
    level: Mutex<Option<LogLevel>>,
    /// `None` for a child that runs elsewhere.
    guard_pid: Option<u32>,
    probing: AtomicBool,
    served: AtomicBool,
    metrics: Arc<ChildMetrics>,
}

impl Child {
    /// Starts a child and finds out how it is spoken with, unless that is `remembered`.
    #[allow(clippy::too_many_arguments, reason = "all that a child is made of")]
    pub async fn start(
        name: &str,
        target: &ResolvedLaunch,
        deps: &StartDeps<'_>,
        limits: Limits,
        ownership: Ownership,
        slot: BudgetSlot,
        ring: &Arc<StderrRing>,
        remembered: Option<Protocol>,
    ) -> Result<Arc<Self>, StartError> {
        let late = |stderr| ChildError::SpawnTimeout { ms: millis(limits.spawn), stderr };
        let deadline = Instant::now() + limits.spawn;
        let child = async {
            match target {
                ResolvedLaunch::Process(filled) => {
                    life::spawn_child(name, filled, deps, ownership, slot, ring.clone()).await
                }
                ResolvedLaunch::Remote(to) => {
                    remote::connect(name, to, deps, ownership, slot, ring.clone()).await
                }
            }
        };
        let child = timeout_at(deadline, child).await.map_err(|_| late(String::new()))?;
        let child = child.map_err(|error| error.without_values(ring.hidden()))?;
        let result = match &child.transport {
            ChildTransport::Stdio(_) => {
                let legacy = remembered == Some(Protocol::Legacy);
                // The probe is part of the start: it leaves most of the time for the handshake that follows.
                let probing = handshake::PROBE.min(limits.spawn / 4);
                timeout_at(deadline, handshake::run(&child, legacy, probing)).await
            }
            ChildTransport::Http(remote) => timeout_at(deadline, remote.handshake(&child, remembered)).await,
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
        Err(error.without_values(ring.hidden()))
    }

    /// Sends a request, of `caller` or our own; the answer is awaited on what this returns. `params` is what stands behind
    /// `"params":`, made for the id the call gets (which is also its progress token).
    pub fn call(
        self: &Arc<Self>,
        caller: Option<&Arc<Caller>>,
        method: &str,
        token: Option<&str>,
        params: impl FnOnce(ChildId, &mut Vec<u8>),
    ) -> Result<InFlight, ChildError> {
        self.call_within(None, caller, method, token, params)
    }

    /// The same, as part of what `parent` is the span of.
    pub fn call_within(
        self: &Arc<Self>,
        parent: Option<Context>,
        caller: Option<&Arc<Caller>>,
        method: &str,
        token: Option<&str>,
        params: impl FnOnce(ChildId, &mut Vec<u8>),
    ) -> Result<InFlight, ChildError> {
        let era = self.era();
        let span = self.metrics.span_below(parent);
        let begun = Instant::now();
        let (opened, coalesce) = {
            let mut calls = self.calls();
            let opened = calls.open(caller.cloned(), token.map(Into::into), begun);
            (opened, calls.in_flight() > COALESCE_ABOVE_CALLS)
        };
        let Some((id, reply)) = opened else { return Err(ChildError::Unsent) };
        let mut line = Vec::with_capacity(256);
        // The probe's id is a string: there are servers that answer nothing else properly before their handshake.
        let probes = method == methods::DISCOVER;
        let id_text = if probes { format!("\"{}\"", id.0) } else { id.0.to_string() };
        rpc::push_request_start(&id_text, method, &mut line);
        let before = line.len();
        line.extend_from_slice(br#","params":"#);
        let empty = line.len();
        params(id, &mut line);
        if era == ProtocolEra::Modern || caller.is_some_and(|caller| caller.as_stateless().is_some()) {
            translate(era, caller.map(|caller| &**caller), &mut line, empty);
        }
        if let Some((span, _)) = span {
            let written = line.split_off(empty);
            span.push_into(Raw::parse(&written), &mut line);
        }
        if line.len() == empty {
            line.truncate(before);
        }
        line.extend_from_slice(b"}\n");
        // What must not be cancelled, or not before the handshake.
        let cancellable = method != methods::INITIALIZE && !probes;
        match self.transport.send(Some(id), line, coalesce, caller.is_some()) {
            Ok(()) => {
                let timed = CallTiming {
                    begun,
                    method: metrics::known_method(method),
                    tool: None,
                    ended: None,
                    span,
                };
                Ok(InFlight { child: self.clone(), id, reply, open: true, cancellable, timed })
            }
            Err(unsent) => {
                self.calls().retract(id);
                Err(match unsent {
                    Unsent::Full => ChildError::Busy,
                    Unsent::Closed => ChildError::Unsent,
                })
            }
        }
    }

    /// The same for a host: with too much waiting for the child already, as soon as it has read some of that.
    pub async fn call_with_room(
        self: &Arc<Self>,
        limits: Limits,
        parent: Option<Context>,
        caller: &Arc<Caller>,
        method: &str,
        token: Option<&str>,
        params: impl Fn(ChildId, &mut Vec<u8>),
    ) -> Result<InFlight, ChildError> {
        let mut due = None;
        loop {
            match self.call_within(parent, Some(caller), method, token, &params) {
                Err(ChildError::Busy) => {}
                sent => return sent,
            }
            let due = *due.get_or_insert_with(|| Instant::now() + limits.rpc);
            self.transport.room(limits.rpc, due).await.map_err(|_| ChildError::Busy)?;
        }
    }

    /// Sends a notification, or an answer to a question. A child that leaves too much of it unread is ended.
    pub fn notify(&self, body: &[u8]) {
        let mut line = Vec::with_capacity(body.len() + 1);
        line.extend_from_slice(body);
        line.push(b'\n');
        if self.transport.send(None, line, false, false) == Err(Unsent::Full) && !self.is_remote() {
            self.give_up(ChildError::Busy);
        }
    }

    /// Its tools, asked for once and again when it says that they changed.
    ///
    /// A question that failed since `asked` is not put again for the same caller.
    pub async fn tools(
        self: &Arc<Self>,
        limits: Limits,
        asked: Instant,
    ) -> Result<Arc<ToolList>, ChildError> {
        self.tool_cache.get(self, limits, asked).await
    }

    /// Its tools, asked for now.
    pub async fn renew_tools(self: &Arc<Self>, limits: Limits) -> Result<Arc<ToolList>, ChildError> {
        self.tool_cache.refresh(self, limits).await
    }

    /// Its tools if it was ever asked.
    pub fn known_tools(&self) -> Option<Arc<ToolList>> {
        self.tool_cache.cached()
    }

    /// Asks the child to end: its input is closed, then come TERM and KILL.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// The same, to save memory.
    pub fn evict(&self) {
        self.evicted.store(true, Ordering::Relaxed);
        self.stop();
    }

    pub fn is_evicted(&self) -> bool {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Somebody took the right to use it, or gave it back.
    pub fn change_leases(&self, change: i64) {
        *self.used.lock().expect("BUG: a copy panicked") = Instant::now();
        if self.leases.fetch_add(change, Ordering::Relaxed) + change == 0 {
            self.free.notify_waiters();
        }
    }

    /// A call here began to wait until its host comes back, or no longer does.
    pub fn change_suspended_calls(&self, change: i64) {
        self.suspended_calls.fetch_add(change, Ordering::Relaxed);
    }

    pub fn has_suspended_calls(&self) -> bool {
        self.suspended_calls.load(Ordering::Relaxed) > 0
    }

    /// The host goes on with a call by another request, with this token for progress.
    pub fn retoken(&self, id: ChildId, token: Option<&str>) {
        self.calls().retoken(id, token.map(Into::into));
    }

    pub fn leases(&self) -> i64 {
        self.leases.load(Ordering::Relaxed)
    }

    /// When it was last given out or back. Probes and lists are not use.
    pub fn last_used(&self) -> Instant {
        *self.used.lock().expect("BUG: a copy panicked")
    }

    /// Nobody has a right to it and it owes nobody an answer.
    pub fn is_idle(&self) -> bool {
        self.leases() == 0 && self.in_flight() == 0
    }

    /// It has calls, and all of them wait for an answer of their hosts.
    pub fn is_asking(&self) -> bool {
        self.calls().all_asking()
    }

    pub fn ownership(&self) -> Ownership {
        self.ownership.lock().expect("BUG: a copy panicked").clone()
    }

    /// A spare becomes a session's own, and learns that there may be roots now.
    pub fn assign_to(self: &Arc<Self>, caller: &Arc<Caller>) {
        *self.ownership.lock().expect("BUG: a copy panicked") = Ownership::Session(caller.clone());
        self.roots_changed();
        self.follow(&self.followed(), true);
    }

    /// Whether calls of this caller may come to it.
    pub fn serves(&self, caller: &Arc<Caller>) -> bool {
        match self.ownership() {
            Ownership::Shared => true,
            Ownership::Session(owner) => Arc::ptr_eq(&owner, caller.owner()),
            Ownership::Spare => false,
        }
    }

    /// It answered a call of a host.
    pub fn note_served(&self) {
        self.served.store(true, Ordering::Relaxed);
    }

    pub fn has_served(&self) -> bool {
        self.served.load(Ordering::Relaxed)
    }

    /// It has been silent on a call: busy, or gone? One `ping` at a time finds out, and ends it if it is gone.
    pub fn probe(self: &Arc<Self>) {
        if self.probing.swap(true, Ordering::Relaxed) {
            return;
        }
        let child = self.clone();
        tokio::spawn(async move {
            if !child.answers(PING_TIMEOUT).await {
                child.give_up(ChildError::Unresponsive { ms: millis(PING_TIMEOUT) });
            }
            child.probing.store(false, Ordering::Relaxed);
        });
    }

    /// Whether it answers a `ping` in time. A child that has been silent on a call may be busy, or gone.
    pub async fn answers(self: &Arc<Self>, within: Duration) -> bool {
        let limits = Limits { spawn: within, rpc: within, max: within };
        // There is no `ping` in the modern era.
        let method = if self.era() == ProtocolEra::Modern { methods::DISCOVER } else { methods::PING };
        match self.call(None, method, None, |_, _| {}) {
            Ok(call) => call.answer(limits).await.is_ok(),
            Err(_) => false,
        }
    }

    /// Resolves when nobody holds a lease on it.
    pub async fn idle(&self) {
        loop {
            let free = self.free.notified();
            if self.leases() == 0 {
                return;
            }
            free.await;
        }
    }

    /// Resolves when nothing of the child is left.
    pub async fn cleared(&self) {
        let mut stage = self.stage.subscribe();
        let _ = stage.wait_for(|stage| *stage == Stage::Cleared).await;
    }

    /// Has it serve who has it and nobody else: the next callers get another one.
    pub fn retire(&self) {
        self.retiring.send_replace(true);
    }

    pub fn is_retiring(&self) -> bool {
        *self.retiring.borrow()
    }

    /// Resolves when it is to be replaced.
    pub async fn wait_retiring(&self) {
        let mut retiring = self.retiring.subscribe();
        let _ = retiring.wait_for(|retiring| *retiring).await;
    }

    pub fn is_alive(&self) -> bool {
        *self.stage.borrow() == Stage::Alive && !*self.stop.borrow() && self.transport.is_open()
    }

    /// Whether it is gone and nobody told it to go.
    pub fn ended_by_itself(&self) -> bool {
        let told =
            || self.ending.get().map_or_else(|| *self.stop.borrow(), |why| *why == ChildError::Stopped);
        !self.is_alive() && !told()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its process, if it is one of this machine.
    pub fn process(&self) -> Option<u32> {
        self.guard_pid.map(|_| self.pid)
    }

    pub fn is_remote(&self) -> bool {
        matches!(self.transport, ChildTransport::Http(_))
    }

    pub fn guard_pid(&self) -> Option<u32> {
        self.guard_pid
    }

    pub fn born(&self) -> Instant {
        self.born
    }

    pub fn in_flight(&self) -> usize {
        self.calls().in_flight()
    }

    /// Lines and messages it wrote that were no protocol.
    pub fn noise(&self) -> u64 {
        self.noise.load(Ordering::Relaxed)
    }

    pub fn stderr(&self) -> &Arc<StderrRing> {
        &self.stderr
    }

    pub fn server_info(&self) -> &ServerInfo {
        self.server_info.get().expect("BUG: only children that shook hands are handed out")
    }

    /// Which era it speaks; legacy until it is known.
    pub fn era(&self) -> ProtocolEra {
        self.server_info.get().map_or(ProtocolEra::Legacy, ServerInfo::era)
    }

    /// How it is spoken with.
    pub fn protocol(&self) -> Protocol {
        match &self.transport {
            ChildTransport::Stdio(_) => Protocol::of(self.era()),
            ChildTransport::Http(remote) => remote.protocol(),
        }
    }

    /// Resolves when it answers no more.
    pub async fn ended(&self) {
        let mut stage = self.stage.subscribe();
        let _ = stage.wait_for(|stage| *stage != Stage::Alive).await;
    }

    /// Waits for its end and tells why.
    pub async fn ending(&self) -> ChildError {
        self.ended().await;
        self.why_ended()
    }

    /// Ends it for a reason that its callers and its pool are told.
    pub fn give_up(&self, why: ChildError) {
        let _ = self.ending.set(why);
        self.stop();
    }

    /// Resolves when it said that one of its lists changed.
    pub async fn lists_changed(&self) {
        tokio::select! {
            () = self.tool_cache.changed() => {}
            () = self.offer_cache.changed() => {}
        }
    }

    /// Why it ended, for callers who come or wait at the end.
    pub fn why_ended(&self) -> ChildError {
        self.ending.get().cloned().unwrap_or(ChildError::Stopped)
    }

    fn count_noise(&self, what: &Malformed) {
        self.noise.fetch_add(1, Ordering::Relaxed);
        self.metrics.noise();
        tracing::debug!(target: "child", child = &*self.name, "skipped: {what}");
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, Calls> {
        self.calls.lock().expect("BUG: bookkeeping panicked")
    }
}

impl std::fmt::Debug for Child {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Child({}, pid {})", self.name, self.pid)
    }
}

/// Makes the `params` at the end of a line those of the child's era.
fn translate(era: ProtocolEra, caller: Option<&Caller>, line: &mut Vec<u8>, from: usize) {
    let written = line.split_off(from);
    let params = Raw::parse(&written);
    let stateless = caller.and_then(Caller::as_stateless);
    match (era, params) {
        (ProtocolEra::Legacy, Some(params)) if stateless.is_some() => {
            envelope::without_envelope(params, line)
        }
        // A modern host has said it all itself.
        (ProtocolEra::Modern, Some(params))
            if stateless.is_some() && params.get().contains(era::VERSION_KEY) =>
        {
            line.extend_from_slice(&written);
        }
        (ProtocolEra::Modern, params) => {
            let envelope = caller.map_or_else(envelope::Envelope::ours, Caller::envelope);
            envelope::with_envelope(params, &envelope, line);
        }
        (ProtocolEra::Legacy, _) => line.extend_from_slice(&written),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
