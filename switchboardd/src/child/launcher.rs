//! Starts the program of a child: as a process under a guard, or, in a simulation, as a task of this runtime
//! that acts as a process.
//!
//! Everything above a [`StartedProgram`] is the same for both: the daemon writes to its input, reads its two outputs,
//! waits for its exit, and ends it by TERM and then KILL.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use switchboard_definitions::definition::ResolvedCommand;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::memory_pipe::{PipeReader, PipeWriter, memory_pipe};
use super::orphans::GuardedFamily;
use super::outbox::Outbox;
use super::spawn::{ChildExit, Guard, SpawnedChild, spawn};
use super::{ChildError, StartDeps};

/// How long an in-memory child may take to end after TERM; a guard gives a process as long.
const TERM_GRACE: Duration = Duration::from_secs(1);

/// Above all process ids that Linux assigns.
const FIRST_IN_MEMORY_PID: u32 = (1 << 22) + 1;

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// Starts the programs of children.
#[derive(Debug, Clone, Default)]
pub enum Launcher {
    #[default]
    Processes,
    InMemory(InMemoryPrograms),
}

/// What an in-memory child does from its start to its exit. Its pipes close when this is dropped.
pub type InMemoryRun = Pin<Box<dyn Future<Output = ChildExit> + Send>>;

type Program = dyn Fn(InMemoryStart) -> Result<InMemoryRun, String> + Send + Sync;

/// Replaces every program that a definition names.
#[derive(Clone)]
pub struct InMemoryPrograms {
    program: Arc<Program>,
    pids: Arc<AtomicU32>,
}

/// One start of an in-memory child: what a process finds when it starts.
#[derive(Debug)]
pub struct InMemoryStart {
    /// The name of the server.
    pub name: String,
    pub command: String,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
    pub pid: u32,
    pub stdin: PipeReader,
    pub stdout: PipeWriter,
    pub stderr: PipeWriter,
    pub term: TermSignal,
}

/// The TERM signal of an in-memory child: it ends the child, unless the child catches it.
#[derive(Debug, Clone)]
pub struct TermSignal {
    is_sent: watch::Receiver<bool>,
    is_caught: Arc<AtomicBool>,
}

impl TermSignal {
    /// From now on TERM does not end the child; resolves when it is sent.
    pub async fn catch(mut self) {
        self.is_caught.store(true, Ordering::Relaxed);
        let _ = self.is_sent.wait_for(|sent| *sent).await;
    }

    /// Resolves when TERM is sent to a child that does not catch it.
    async fn ends(mut self) {
        let _ = self.is_sent.wait_for(|sent| *sent).await;
        if self.is_caught.load(Ordering::Relaxed) {
            std::future::pending().await
        }
    }
}

impl InMemoryPrograms {
    /// `program` is called at each start; its error is the reason why the start failed.
    pub fn new(
        program: impl Fn(InMemoryStart) -> Result<InMemoryRun, String> + Send + Sync + 'static,
    ) -> Self {
        Self { program: Arc::new(program), pids: Arc::new(AtomicU32::new(FIRST_IN_MEMORY_PID)) }
    }

    fn start(
        &self,
        name: &str,
        filled: &ResolvedCommand,
        deps: &StartDeps<'_>,
    ) -> Result<StartedProgram, ChildError> {
        let mut env: BTreeMap<String, String> =
            deps.variables.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        for (name, value) in &filled.env {
            match value {
                Some(value) => drop(env.insert(name.clone(), value.clone())),
                None => drop(env.remove(name)),
            }
        }
        let (stdin, their_stdin) = memory_pipe();
        let (their_stdout, stdout) = memory_pipe();
        let (their_stderr, stderr) = memory_pipe();
        let (term, is_sent) = watch::channel(false);
        let signal = TermSignal { is_sent, is_caught: Arc::default() };
        let pid = self.pids.fetch_add(1, Ordering::Relaxed);
        let run = (self.program)(InMemoryStart {
            name: name.to_owned(),
            command: filled.cmd.clone(),
            args: filled.args.clone(),
            env,
            cwd: filled.working_dir().to_owned(),
            pid,
            stdin: their_stdin,
            stdout: their_stdout,
            stderr: their_stderr,
            term: signal.clone(),
        })
        .map_err(|why| ChildError::Spawn { why })?;
        let (exits, exit) = watch::channel(None);
        let task = tokio::spawn(async move {
            let ended = async move {
                tokio::select! {
                    exit = run => exit,
                    () = signal.ends() => ChildExit::Signal(SIGTERM),
                }
            }
            .await;
            // The pipes have closed by now, as those of a process have when its exit is seen.
            exits.send_replace(Some(ended));
        });
        let process = InMemoryProcess { exit, term, task: task.abort_handle() };
        Ok(StartedProgram {
            pid,
            guard_pid: None,
            outbox: Outbox::in_memory(stdin),
            stdout: ProgramOutput::InMemory(stdout),
            stderr: ProgramOutput::InMemory(stderr),
            process: ProgramProcess::InMemory(process),
        })
    }
}

impl std::fmt::Debug for InMemoryPrograms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InMemoryPrograms")
    }
}

/// A program that was just started; nothing was sent to it yet.
pub(super) struct StartedProgram {
    pub(super) pid: u32,
    pub(super) guard_pid: Option<u32>,
    pub(super) outbox: Outbox,
    pub(super) stdout: ProgramOutput,
    pub(super) stderr: ProgramOutput,
    pub(super) process: ProgramProcess,
}

impl Launcher {
    pub(super) async fn start(
        &self,
        name: &str,
        filled: &ResolvedCommand,
        deps: &StartDeps<'_>,
    ) -> Result<StartedProgram, ChildError> {
        match self {
            Self::Processes => {
                let SpawnedChild { pid, stdin, stdout, stderr, guard } = spawn(filled, deps).await?;
                let outbox = Outbox::new(stdin)
                    .map_err(|error| ChildError::Spawn { why: format!("cannot watch its input: {error}") })?;
                Ok(StartedProgram {
                    pid,
                    guard_pid: Some(guard.pid()),
                    outbox,
                    stdout: ProgramOutput::Pipe(stdout),
                    stderr: ProgramOutput::Pipe(stderr),
                    process: ProgramProcess::Guarded(Box::new(guard)),
                })
            }
            Self::InMemory(programs) => programs.start(name, filled, deps),
        }
    }
}

/// An output stream of a child.
pub(super) enum ProgramOutput {
    Pipe(pipe::Receiver),
    InMemory(PipeReader),
}

impl AsyncRead for ProgramOutput {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_read(cx, buffer),
            Self::InMemory(pipe) => Pin::new(pipe).poll_read(cx, buffer),
        }
    }
}

/// The daemon's handle of a running program. Dropping it ends the program.
pub(super) enum ProgramProcess {
    Guarded(Box<Guard>),
    InMemory(InMemoryProcess),
}

impl ProgramProcess {
    /// Resolves when the program has ended.
    pub(super) async fn exit(&mut self) -> ChildExit {
        match self {
            Self::Guarded(guard) => guard.exit().await,
            Self::InMemory(process) => process.exit().await,
        }
    }

    /// What the processes of a guarded program are known by.
    pub(super) fn family(&self) -> Option<GuardedFamily> {
        match self {
            Self::Guarded(guard) => Some(guard.family()),
            Self::InMemory(_) => None,
        }
    }

    /// Ends the rest of the program. False if the guard's exit is unknown: then the daemon has to clear what
    /// it guarded.
    pub(super) async fn clear(self) -> bool {
        match self {
            Self::Guarded(guard) => guard.clear().await != ChildExit::Unknown,
            Self::InMemory(process) => {
                process.clear().await;
                true
            }
        }
    }
}

pub(super) struct InMemoryProcess {
    exit: watch::Receiver<Option<ChildExit>>,
    term: watch::Sender<bool>,
    task: AbortHandle,
}

impl InMemoryProcess {
    async fn exit(&mut self) -> ChildExit {
        // An aborted or panicked task sends no exit.
        let exit = self.exit.wait_for(Option::is_some).await;
        exit.ok().and_then(|exit| *exit).unwrap_or(ChildExit::Signal(SIGKILL))
    }

    async fn clear(mut self) {
        self.term.send_replace(true);
        if timeout(TERM_GRACE, self.exit()).await.is_err() {
            self.task.abort();
            self.exit().await;
        }
    }
}

impl Drop for InMemoryProcess {
    fn drop(&mut self) {
        self.task.abort();
    }
}
