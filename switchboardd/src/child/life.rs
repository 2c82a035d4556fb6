//! A child's life, from its process to its end: the one task that owns the process and its output.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use switchboard_wire::framing::Decoder;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use super::calls::Calls;
use super::outbox::Outbox;
use super::roster::{Place, Roster};
use super::spawn::{Exit, Guard, Spawned, spawn};
use super::way::Way;
use super::{Child, ChildError, Ground, Stage, StderrRing, Tie, lists, strays, tools};
use crate::definition::Filled;

/// After its output closed, how long a child may take to exit before it counts as deaf and dumb.
const CLOSED_GRACE: Duration = Duration::from_millis(250);
/// After its exit, how long what it wrote before may take to be read.
const DRAIN_GRACE: Duration = Duration::from_millis(250);
/// After its input was closed, how long a child may take to end by itself.
const STOP_GRACE: Duration = Duration::from_millis(1500);

/// Bytes asked for in one read.
const READ: usize = 64 * 1024;

pub(super) async fn bring_up(
    name: &str,
    filled: &Filled,
    ground: &Ground<'_>,
    tie: Tie,
    place: Place,
    ring: Arc<StderrRing>,
) -> Result<Arc<Child>, ChildError> {
    let Spawned { pid, stdin, stdout, stderr, guard } = spawn(filled, ground).await?;
    let roster = ground.roster;
    let outbox = Outbox::new(stdin)
        .map_err(|error| ChildError::Spawn { why: format!("cannot watch its input: {error}") })?;
    let way = Way::Pipe(outbox);
    let child = Arc::new(Child::new(name, pid, Some(guard.pid()), way, ground, tie, ring));
    roster.enter(&child, place);
    tracing::info!(target: "child", child = name, pid, "started");
    tokio::spawn(live(child.clone(), stdout, stderr, guard, roster.clone()));
    Ok(child)
}

async fn live(
    child: Arc<Child>,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
    mut guard: Guard,
    roster: Arc<Roster>,
) {
    let mourner = Mourner { child: child.clone(), roster };
    let ring = child.stderr.clone();
    let drain = tokio::spawn({
        let name = child.name.clone();
        async move { ring.drain(stderr, &name).await }
    });
    let writer = tokio::spawn({
        let child = child.clone();
        async move {
            if let Way::Pipe(outbox) = &child.way {
                outbox.write_backlog().await;
            }
        }
    });

    tokio::spawn({
        let child = child.clone();
        async move { child.watch_clock().await }
    });

    let ending = until_end(&child, stdout, &mut guard).await;
    if matches!(ending, ChildError::Exited { .. }) {
        // The reason usually stands in its last words: let them arrive.
        let _ = timeout(DRAIN_GRACE, drain).await;
    }
    let ending = with_last_words(ending, &child.stderr.last_words());
    match &ending {
        ChildError::Stopped => {
            tracing::info!(target: "child", child = &*child.name, pid = child.pid, "stopped")
        }
        ending => tracing::warn!(target: "child", child = &*child.name, pid = child.pid, "{ending}"),
    }
    // It may have been given up for a reason of its own.
    let _ = child.ending.set(ending);
    child.end();
    if guard.clear().await == Exit::Unknown {
        // The guard is gone without a word, so what it guarded is ours now.
        let _ = tokio::task::spawn_blocking(strays::clear).await;
    }
    let _ = writer.await;
    drop(mourner);
}

/// Runs until the child exits, closes its output, or is to stop and has.
async fn until_end(child: &Arc<Child>, stdout: pipe::Receiver, guard: &mut Guard) -> ChildError {
    let exited = |exit| ChildError::Exited { exit, stderr: String::new() };
    let reader = read(child, stdout);
    tokio::pin!(reader);
    tokio::select! {
        () = &mut reader => match timeout(CLOSED_GRACE, guard.exit()).await {
            Ok(exit) => exited(exit),
            Err(_) => ChildError::ClosedOutput { stderr: String::new() },
        },
        () = child.way.broken() => {
            let exit = timeout(CLOSED_GRACE, async {
                tokio::select! {
                    exit = guard.exit() => exit,
                    // What it still says is taken in; its silence is not its end.
                    () = async { reader.as_mut().await; std::future::pending().await } => Exit::Unknown,
                }
            })
            .await;
            match exit {
                Ok(exit) => exited(exit),
                Err(_) => ChildError::ClosedInput { stderr: String::new() },
            }
        }
        exit = guard.exit() => {
            let _ = timeout(DRAIN_GRACE, &mut reader).await;
            exited(exit)
        }
        () = child.stopped() => {
            child.way.close();
            let _ = timeout(STOP_GRACE, async {
                tokio::join!(&mut reader, guard.exit());
            }).await;
            ChildError::Stopped
        }
    }
}

/// Reads whole frames until the output ends. Nothing else may poll this pipe.
async fn read(child: &Arc<Child>, mut stdout: pipe::Receiver) {
    let mut decoder = Decoder::default();
    loop {
        let buffer = decoder.buffer();
        if buffer.capacity() - buffer.len() < READ / 4 {
            buffer.reserve(READ);
        }
        match stdout.read_buf(buffer).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        while let Some(frame) = decoder.next_frame() {
            child.take_in(frame);
        }
    }
    if let Some(frame) = decoder.finish() {
        child.take_last(frame);
    }
}

fn with_last_words(ending: ChildError, tail: &str) -> ChildError {
    match ending {
        ChildError::Exited { exit, .. } => ChildError::Exited { exit, stderr: tail.to_owned() },
        ChildError::ClosedOutput { .. } => ChildError::ClosedOutput { stderr: tail.to_owned() },
        ChildError::ClosedInput { .. } => ChildError::ClosedInput { stderr: tail.to_owned() },
        other => other,
    }
}

impl Child {
    /// One that has not said anything yet.
    pub(super) fn new(
        name: &str,
        pid: u32,
        guard_pid: Option<u32>,
        way: Way,
        ground: &Ground<'_>,
        tie: Tie,
        ring: Arc<StderrRing>,
    ) -> Self {
        Self {
            name: name.into(),
            pid,
            born: Instant::now(),
            way,
            calls: Mutex::new(Calls::default()),
            clock: Notify::new(),
            ending: OnceLock::new(),
            stage: watch::Sender::new(Stage::Alive),
            stop: watch::Sender::new(false),
            outgoing: watch::Sender::new(false),
            stderr: ring,
            hello: OnceLock::new(),
            tools: tools::Shelf::default(),
            stall: lists::Stall::default(),
            refollow: Notify::new(),
            acknowledged: Notify::new(),
            subscriptions: ground.subscriptions.clone(),
            roots: super::roots::Roots::default(),
            lends_workspace: ground.lends_workspace,
            watches_cancels: AtomicBool::new(false),
            noise: AtomicU64::new(0),
            flood: Mutex::default(),
            leases: AtomicI64::new(0),
            parked: AtomicI64::new(0),
            dropped: AtomicU64::new(0),
            forgiven: AtomicU64::new(0),
            asks: AtomicBool::new(false),
            evicted: AtomicBool::new(false),
            free: Notify::new(),
            tie: Mutex::new(tie),
            used: Mutex::new(Instant::now()),
            level: Mutex::default(),
            guard_pid,
            probing: AtomicBool::new(false),
            served: AtomicBool::new(false),
            tally: ground.tally.clone(),
        }
    }

    /// Resolves when it is to stop.
    pub(super) async fn stopped(&self) {
        let mut stop = self.stop.subscribe();
        let _ = stop.wait_for(|stop| *stop).await;
    }

    /// No more answers will come: everybody who waits is told.
    pub(super) fn end(&self) {
        self.stage.send_if_modified(|stage| {
            let changed = *stage == Stage::Alive;
            if changed {
                *stage = Stage::Ended;
            }
            changed
        });
        self.way.close();
        let open = self.calls().close();
        self.wind_clock();
        self.withdraw_questions(open);
    }
}

/// However a life ends, by a panic too, its callers are answered and the roster is told.
pub(super) struct Mourner {
    pub(super) child: Arc<Child>,
    pub(super) roster: Arc<Roster>,
}

impl Drop for Mourner {
    fn drop(&mut self) {
        self.child.end();
        self.child.stage.send_replace(Stage::Cleared);
        self.roster.leave(&self.child);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::remote::auth::{Authorizer, Authorizers};
    use super::super::{Hello, Runners};
    use super::*;
    use crate::definition::Shown;

    #[derive(Debug)]
    struct NoLogins;

    impl Authorizers for NoLogins {
        fn of(&self, _: &str, _: &url::Url, _: &Shown) -> Arc<dyn Authorizer> {
            unreachable!("a child of this machine needs no login")
        }
    }

    /// A legacy child without a process, that sessions share. What it is sent can be read from the pipe.
    pub(crate) fn child() -> (Arc<Child>, pipe::Receiver) {
        let (sender, receiver) = pipe::pipe().unwrap();
        let ground = Ground {
            subscriptions: &Arc::default(),
            variables: &crate::environment::Variables::default(),
            roster: &Arc::default(),
            lends_workspace: false,
            ledger: &Arc::new(super::super::Ledger::unwritten()),
            runners: &Arc::new(Runners::new(std::path::Path::new("/s"), std::path::Path::new("/c"))),
            dialer: &Arc::default(),
            logins: &NoLogins,
            tally: &crate::measures::Measures::default().of_child("k"),
        };
        let way = Way::Pipe(Outbox::new(sender).unwrap());
        let child = Child::new("k", 1, Some(1), way, &ground, Tie::Nobody, Arc::default());
        let empty = || serde_json::value::RawValue::from_string("{}".to_owned()).unwrap();
        let hello =
            Hello { revision: "2025-06-18", capabilities: empty(), server: empty(), instructions: None };
        child.hello.set(hello).unwrap();
        (Arc::new(child), receiver)
    }
}
