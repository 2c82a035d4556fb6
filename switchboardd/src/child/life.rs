//! The life of a child process: one task owns the process and reads its output.

use std::sync::Arc;
use std::time::Duration;

use switchboard_definitions::definition::ResolvedCommand;
use switchboard_wire::event_loop::try_run_blocking;
use switchboard_wire::framing::Decoder;
use tokio::io::AsyncReadExt;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::end_guard::EndGuard;
use super::launcher::{ProgramOutput, ProgramProcess, StartedProgram};
use super::registry::{BudgetSlot, ChildRegistry};
use super::spawn::ChildExit;
use super::transport::ChildTransport;
use super::{Child, ChildError, ChildStart, StartDeps, orphans};

/// After a child closed its output or its input, how long it may take to exit before it is ended.
const CLOSED_GRACE: Duration = Duration::from_millis(250);
/// After its exit, how long the daemon keeps reading what it wrote before.
const DRAIN_GRACE: Duration = Duration::from_millis(250);
/// After its stdin was closed, how long a child may take to exit by itself.
const STOP_GRACE: Duration = Duration::from_millis(1500);

/// Frames that are handled before other tasks run: a child can write faster than anybody reads.
const FRAMES_IN_TURN: u32 = 64;

/// Bytes asked for in one read.
const READ_CHUNK: usize = 64 * 1024;

pub(super) async fn spawn_child(
    start: &ChildStart<'_>,
    filled: &ResolvedCommand,
    deps: &StartDeps<'_>,
    slot: BudgetSlot,
) -> Result<Arc<Child>, ChildError> {
    let started = deps.launcher.start(start.name, filled, deps).await?;
    let StartedProgram { pid, guard_pid, outbox, stdout, stderr, process } = started;
    let registry = deps.registry;
    let transport = ChildTransport::Stdio(outbox);
    let child = Arc::new(Child::new(start, deps, pid, guard_pid, transport));
    registry.add(&child, slot);
    tracing::info!(target: "server", server = start.name, pid, "started");
    tokio::spawn(run(child.clone(), stdout, stderr, process, registry.clone()));
    Ok(child)
}

async fn run(
    child: Arc<Child>,
    stdout: ProgramOutput,
    stderr: ProgramOutput,
    mut process: ProgramProcess,
    registry: Arc<ChildRegistry>,
) {
    let end_guard = EndGuard { child: child.clone(), registry };
    let ring = child.stderr.clone();
    let drain = tokio::spawn({
        let name = child.identity.name.clone();
        async move { ring.drain(stderr, &name).await }
    });
    let writer = tokio::spawn({
        let child = child.clone();
        async move {
            if let ChildTransport::Stdio(outbox) = &child.transport {
                outbox.write_backlog().await;
            }
        }
    });

    tokio::spawn({
        let child = child.clone();
        async move { child.run_timeouts().await }
    });

    let ending = wait_for_exit(&child, stdout, &mut process).await;
    if matches!(ending, ChildError::Exited { .. }) {
        // Its last stderr lines usually say why it exited: give them time to arrive.
        let _ = timeout(DRAIN_GRACE, drain).await;
    }
    let ending = with_stderr(ending, &child.stderr.last_lines());
    match &ending {
        ChildError::Stopped => {
            tracing::info!(target: "server", server = child.name(), pid = child.pid(), "stopped")
        }
        ending => tracing::warn!(target: "server", server = child.name(), pid = child.pid(), "{ending}"),
    }
    // Has no effect if `give_up` has already set the reason.
    child.lifecycle.set_reason(ending);
    child.end();
    let family = process.family();
    if !process.clear().await {
        // The guard ended without a report, so the daemon kills the processes that it guarded.
        let _ = try_run_blocking(|| orphans::kill_orphans(family)).await;
    }
    let _ = writer.await;
    drop(end_guard);
}

/// Runs until the child exits, closes its output or input, or was told to stop.
async fn wait_for_exit(
    child: &Arc<Child>,
    stdout: ProgramOutput,
    process: &mut ProgramProcess,
) -> ChildError {
    let exited = |exit| ChildError::Exited { exit, stderr: String::new() };
    let reader = read(child, stdout);
    tokio::pin!(reader);
    tokio::select! {
        () = &mut reader => match timeout(CLOSED_GRACE, process.exit()).await {
            Ok(exit) => exited(exit),
            Err(_) => ChildError::ClosedOutput { stderr: String::new() },
        },
        () = child.transport.broken() => {
            let exit = timeout(CLOSED_GRACE, async {
                tokio::select! {
                    exit = process.exit() => exit,
                    // Its output is still read; the end of the output does not end this wait.
                    () = async { reader.as_mut().await; std::future::pending().await } => ChildExit::Unknown,
                }
            })
            .await;
            match exit {
                Ok(exit) => exited(exit),
                Err(_) => ChildError::ClosedInput { stderr: String::new() },
            }
        }
        exit = process.exit() => {
            let _ = timeout(DRAIN_GRACE, &mut reader).await;
            exited(exit)
        }
        () = child.lifecycle.stop_requested() => {
            child.transport.close();
            let _ = timeout(STOP_GRACE, async {
                tokio::join!(&mut reader, process.exit());
            }).await;
            ChildError::Stopped
        }
    }
}

/// Reads whole frames until the output ends. Nothing else may poll this pipe.
async fn read(child: &Arc<Child>, mut stdout: ProgramOutput) {
    let mut decoder = Decoder::default();
    let mut frames = 0;
    loop {
        let buffer = decoder.buffer();
        if buffer.capacity() - buffer.len() < READ_CHUNK / 4 {
            buffer.reserve(READ_CHUNK);
        }
        match stdout.read_buf(buffer).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        while let Some(frame) = decoder.next_frame() {
            child.on_frame(frame);
            frames += 1;
            if frames >= FRAMES_IN_TURN {
                frames = 0;
                yield_now().await;
            }
        }
    }
    if let Some(frame) = decoder.finish() {
        child.on_last_frame(frame);
    }
}

fn with_stderr(ending: ChildError, tail: &str) -> ChildError {
    match ending {
        ChildError::Exited { exit, .. } => ChildError::Exited { exit, stderr: tail.to_owned() },
        ChildError::ClosedOutput { .. } => ChildError::ClosedOutput { stderr: tail.to_owned() },
        ChildError::ClosedInput { .. } => ChildError::ClosedInput { stderr: tail.to_owned() },
        other => other,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use tokio::net::unix::pipe;

    use super::super::outbox::Outbox;
    use super::super::remote::auth::{Authorizer, Authorizers};
    use super::super::{ChildRequest, InFlight, Launcher, Limits, Ownership, Runners, ServerInfo};
    use super::*;
    use crate::caller::Caller;
    use switchboard_definitions::definition::DisplayUrl;

    #[derive(Debug)]
    struct NoLogins;

    impl Authorizers for NoLogins {
        fn of(&self, _: &str, _: &url::Url, _: &DisplayUrl) -> Arc<dyn Authorizer> {
            unreachable!("a server of this machine needs no login")
        }
    }

    /// A shared legacy child without a process. What it is sent can be read from the pipe.
    pub(crate) fn child() -> (Arc<Child>, pipe::Receiver) {
        let (sender, receiver) = pipe::pipe().unwrap();
        let deps = StartDeps {
            subscriptions: &Arc::default(),
            variables: &crate::system::environment::ChildEnvironment::default(),
            registry: &Arc::default(),
            lends_workspace: false,
            run_log: &Arc::new(super::super::RunLog::unwritten()),
            runners: &Arc::new(Runners::new(std::path::Path::new("/s"), std::path::Path::new("/c"))),
            launcher: &Launcher::Processes,
            http_clients: &Arc::default(),
            logins: &NoLogins,
            metrics: &crate::observe::metrics::Metrics::default().of_child("k"),
        };
        let transport = ChildTransport::Stdio(Outbox::new(sender).unwrap());
        let start = ChildStart {
            name: "k",
            launch: crate::savings::recorder::Fingerprint::AGGREGATE,
            limits: Limits { spawn: STOP_GRACE, rpc: STOP_GRACE, max: STOP_GRACE },
            ownership: Ownership::Shared,
            stderr: Arc::default(),
            remembered: None,
        };
        let child = Child::new(&start, &deps, 1, Some(1), transport);
        let empty = || serde_json::value::RawValue::from_string("{}".to_owned()).unwrap();
        let hello =
            ServerInfo { revision: "2025-06-18", capabilities: empty(), server: empty(), instructions: None };
        child.server_info.set(hello).unwrap();
        (Arc::new(child), receiver)
    }

    impl Child {
        /// Opens a call of this caller and sends it to the child.
        pub(crate) fn open_call_of(self: &Arc<Self>, caller: &Arc<Caller>) -> InFlight {
            let request = ChildRequest {
                caller: Some(caller),
                method: "tools/call",
                tool: None,
                token: None,
                span: None,
            };
            self.open_request(request).and_then(|opened| opened.send()).unwrap()
        }
    }
}
