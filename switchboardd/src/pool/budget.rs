//! The limit on all children together: their number, and the memory of their process trees.
//!
//! At the limit, the least recently used idle child is stopped first. A start waits for room for a while, but
//! not if only the waiting host itself could free some.

mod memory_probe;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use switchboard_definitions::config::BudgetConfig;
use tokio::time::Instant;

use crate::child::{BudgetSlot, Child, ChildRegistry};
use crate::pool::{Member, MemberRegistry};
use memory_probe::MemoryProbe;
pub use memory_probe::MemoryUsage;

const ROOM_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// How often memory is checked while it is limited.
const MEMORY_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Why there is no room. The text continues the words "child `name` …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    #[error(
        "was not started: {running} servers run already and `budget.children` is {most}; none is idle. Call again when one is, or raise the limit"
    )]
    Children { running: usize, most: usize },
    #[error(
        "was not started: servers use {used_mb} MiB and `budget.memoryMb` is {most_mb}; none is idle. Call again when one is, or raise the limit"
    )]
    Memory { used_mb: u64, most_mb: u64 },
}

impl NoRoom {
    /// Whether stopping this child frees what is short.
    fn is_eased_by(&self, child: &Child) -> bool {
        match self {
            Self::Children { .. } => true,
            Self::Memory { .. } => child.process().is_some(),
        }
    }
}

#[derive(Debug)]
pub struct Budget {
    registry: Arc<ChildRegistry>,
    members: Arc<MemberRegistry>,
    // A leaf lock: held to copy or replace two numbers.
    ceiling: Mutex<BudgetConfig>,
    memory_probe: MemoryProbe,
}

impl Budget {
    pub fn new(registry: Arc<ChildRegistry>, members: Arc<MemberRegistry>) -> Self {
        Self { registry, members, ceiling: Mutex::default(), memory_probe: MemoryProbe::default() }
    }

    pub fn set(&self, ceiling: BudgetConfig) {
        *self.ceiling.lock().expect("BUG: a copy panicked") = ceiling;
        self.registry.recheck_limit();
    }

    pub fn ceiling(&self) -> BudgetConfig {
        *self.ceiling.lock().expect("BUG: a copy panicked")
    }

    /// Reserves a slot for one more child, waiting for it if necessary. Without `until`, as for spares, it
    /// does not wait and evicts no other child. A connection to a remote server takes no memory here: only a
    /// `process` is refused for lack of it.
    pub async fn admit(&self, until: Option<Instant>, process: bool) -> Result<BudgetSlot, NoRoom> {
        loop {
            let left = self.registry.slot_freed();
            tokio::pin!(left);
            left.as_mut().enable();
            let full = match self.reserve_slot(process).await {
                Ok(slot) => return Ok(slot),
                Err(full) => full,
            };
            let Some(until) = until else { return Err(full) };
            if let Some(idle) = self.least_recently_used(|child| full.is_eased_by(child)) {
                tracing::info!(target: "budget", server = idle.name(), pid = idle.pid(), "stopped to make room");
                match full {
                    NoRoom::Children { .. } => idle.stop(),
                    NoRoom::Memory { .. } => idle.evict(),
                }
                idle.wait_cleared().await;
                continue;
            }
            if self.nothing_can_become_free(&full) || Instant::now() >= until {
                return Err(full);
            }
            // No event reports that a child became idle or began to ask its host: check again soon.
            let _ = tokio::time::timeout(ROOM_CHECK_INTERVAL, left).await;
        }
    }

    /// Whether every child that could make room waits for its host, or is kept by a host that subscribes to
    /// its resources. These hosts may be the ones that wait for this start.
    fn nothing_can_become_free(&self, full: &NoRoom) -> bool {
        let children = self.registry.all();
        // A child that is starting or ending is no member; it does not count as staying.
        let stays = |child: &Arc<Child>| {
            let member = self.members.of_child(child);
            child.is_asking() || member.is_some_and(|member| member.is_idle() && child.is_subscribed())
        };
        children.len() == self.registry.slots_in_use()
            && children.iter().filter(|child| full.is_eased_by(child)).all(stays)
    }

    async fn reserve_slot(&self, process: bool) -> Result<BudgetSlot, NoRoom> {
        let ceiling = self.ceiling();
        // Measured before the children are counted: there must be no await between the count
        // and the reservation.
        let memory = match ceiling.memory_mb.filter(|_| process) {
            Some(most_mb) => Some((self.used_mb().await, most_mb)),
            None => None,
        };
        let running = self.registry.slots_in_use();
        if running >= ceiling.children {
            return Err(NoRoom::Children { running, most: ceiling.children });
        }
        if let Some((used_mb, most_mb)) = memory.filter(|(used_mb, most_mb)| used_mb >= most_mb) {
            return Err(NoRoom::Memory { used_mb, most_mb });
        }
        Ok(self.registry.reserve())
    }

    /// Memory of each child and of the daemon, at most a second old.
    pub async fn measure_memory(&self) -> Arc<MemoryUsage> {
        self.memory_probe.measure(self.guards()).await
    }

    /// Memory of the running children and all their descendants, at most a second old.
    async fn used_mb(&self) -> u64 {
        let memory_usage = self.measure_memory().await;
        // Children that ended since the measurement no longer count.
        self.guards().into_iter().filter_map(|guard| memory_usage.of_child(Some(guard))).sum::<u64>() >> 20
    }

    fn guards(&self) -> Vec<u32> {
        self.registry.all().iter().filter_map(|child| child.guard_pid()).collect()
    }

    fn least_recently_used(&self, helps: impl Fn(&Child) -> bool) -> Option<Arc<Member>> {
        let is_idle = |member: &Arc<Member>| member.is_alive() && member.is_idle() && !member.is_subscribed();
        let idle = self.members.all().into_iter().filter(is_idle);
        idle.filter(|member| helps(member)).min_by_key(|member| member.last_used())
    }

    /// Keeps memory below its limit while children grow. Never resolves.
    pub async fn watch_memory(&self) {
        loop {
            tokio::time::sleep(MEMORY_CHECK_INTERVAL).await;
            let Some(most_mb) = self.ceiling().memory_mb else { continue };
            while self.used_mb().await > most_mb {
                let Some(idle) = self.least_recently_used(|child| child.process().is_some()) else { break };
                tracing::info!(target: "budget", server = idle.name(), pid = idle.pid(), most_mb, "stopped to save memory");
                idle.evict();
                idle.wait_cleared().await;
            }
        }
    }
}
