//! Finds the daemon and starts one if none runs. A lock ensures that two shims start only one daemon. The
//! shim binds the socket itself, so that it can connect without waiting for the daemon.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, OFlags};
use switchboard_wire::peer::is_absence;
use switchboard_wire::process;
use switchboard_wire::runtime_paths::RuntimePaths;
use tokio::sync::oneshot;

use crate::args::LAUNCH;
use crate::post::Connection;
use crate::{binary, limits};

/// How often to retry a start lock that another shim holds. That shim's socket accepts connections long
/// before it releases the lock.
const LOCK_RETRY: Duration = Duration::from_millis(20);

/// After its connection ended, how long a daemon may take to exit and leave its reason.
const EXIT_REASON_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Where the daemon is and how to start it.
#[derive(Debug)]
pub(crate) struct DaemonTarget {
    pub(crate) paths: RuntimePaths,
    /// Whether a daemon that we start gets `--socket`.
    pub(crate) socket_named: bool,
    pub(crate) config: Option<PathBuf>,
    /// The directory that the host works in: no daemon binary is run from there.
    pub(crate) workspace: Option<PathBuf>,
    /// When this shim was started: a later stop applies to it.
    pub(crate) since: SystemTime,
}

#[derive(Debug)]
pub(crate) enum LaunchError {
    /// No daemon listens, and this shim may not start one.
    NoDaemon(PathBuf),
    /// A user stopped the daemon while this shim was running.
    Stopped,
    Connect(PathBuf, io::Error),
    /// A step of the start failed: which one, and why.
    Step(&'static str, io::Error),
    NotSocket(PathBuf),
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDaemon(socket) => {
                write!(f, "no switchboardd listens on `{}`; run `switchboard start`", socket.display())
            }
            Self::Stopped => write!(f, "switchboardd was stopped; run `switchboard start`"),
            Self::Connect(socket, error) => {
                write!(f, "cannot connect to switchboardd on `{}`: {error}", socket.display())
            }
            Self::Step(step, error) => write!(f, "cannot start switchboardd: {step}: {error}"),
            Self::NotSocket(path) => {
                write!(
                    f,
                    "cannot start switchboardd: `{}` exists and is not a socket; move it away",
                    path.display()
                )
            }
        }
    }
}

/// A daemon that we started and that has not answered yet. Holds the start lock.
#[derive(Debug)]
pub(crate) struct StartingDaemon {
    _lock: File,
    paths: RuntimePaths,
    launched: LaunchState,
}

/// The outcome of the launch.
#[derive(Debug)]
enum LaunchState {
    Pending(oneshot::Receiver<Result<u32, String>>),
    /// The pid of the daemon, or why there is none.
    Known(Result<u32, String>),
}

impl LaunchState {
    async fn outcome(&mut self) -> Result<u32, String> {
        let outcome = match self {
            Self::Known(outcome) => return outcome.clone(),
            Self::Pending(receiver) => {
                receiver.await.unwrap_or_else(|_| Err("its launcher was lost".to_owned()))
            }
        };
        *self = Self::Known(outcome.clone());
        outcome
    }
}

impl StartingDaemon {
    /// Resolves with the reason if the daemon could not be launched; otherwise never.
    pub(crate) async fn failed_launch(&mut self) -> String {
        match self.launched.outcome().await {
            Err(why) => why,
            Ok(_) => std::future::pending().await,
        }
    }

    /// Why the daemon ended after its connection did; `None` if it is still running. It is not our child, so
    /// we cannot read its exit status; it leaves its reason in a file.
    pub(crate) async fn exit_reason(&mut self) -> Option<String> {
        let pid = match tokio::time::timeout(EXIT_REASON_TIMEOUT, self.launched.outcome()).await.ok()? {
            Ok(pid) => pid,
            Err(why) => return Some(why),
        };
        let until = tokio::time::Instant::now() + EXIT_REASON_TIMEOUT;
        loop {
            let runs = process::is_running(pid);
            if let Some(words) = self.paths.failure_of(pid) {
                return Some(format!("switchboardd could not start: {words}"));
            }
            if !runs {
                return Some(
                    "switchboardd ended before it answered; run `switchboardd` to see why".to_owned(),
                );
            }
            if tokio::time::Instant::now() >= until {
                return None;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// A connection to a daemon.
#[derive(Debug)]
pub(crate) struct DaemonLink {
    pub(crate) connection: Connection,
    /// The socket it is connected to.
    pub(crate) socket: Arc<Path>,
    /// Set if we started this daemon.
    pub(crate) starting: Option<StartingDaemon>,
}

/// Connects to the daemon; starts it first if there is none and `may_start`.
pub(crate) async fn connect_or_start(
    target: &DaemonTarget,
    may_start: bool,
) -> Result<DaemonLink, LaunchError> {
    let paths = &target.paths;
    match find(paths).await? {
        Some(met) => return Ok(met),
        None if !may_start => return Err(LaunchError::NoDaemon(paths.socket.clone())),
        None if paths.was_stopped_since(target.since) => return Err(LaunchError::Stopped),
        None => {}
    }
    paths.prepare().map_err(|error| LaunchError::Step("preparing its folder", error))?;
    let lock =
        open_lock(&paths.start_lock).map_err(|error| LaunchError::Step("opening the start lock", error))?;
    loop {
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(rustix::io::Errno::WOULDBLOCK) => tokio::time::sleep(LOCK_RETRY).await,
            Err(error) => return Err(LaunchError::Step("taking the start lock", error.into())),
        }
        // The lock holder may have bound the socket in the meantime.
        if let Some(met) = find(paths).await? {
            return Ok(met);
        }
    }
    if let Some(met) = find(paths).await? {
        return Ok(met);
    }
    if paths.was_stopped_since(target.since) {
        return Err(LaunchError::Stopped);
    }
    // Any recorded stop is older than this shim.
    paths.forget_stop();
    let program = binary::find(binary::DAEMON, target.workspace.as_deref())
        .map_err(|why| LaunchError::Step("finding its program", io::Error::other(why)))?;
    let listener = bind(&paths.socket)?;
    let child =
        launch(target, &program, listener).map_err(|error| LaunchError::Step("running ourselves", error))?;
    let outcome = watch_launcher(child).map_err(|error| LaunchError::Step("starting a thread", error))?;
    let starting =
        StartingDaemon { _lock: lock, paths: paths.clone(), launched: LaunchState::Pending(outcome) };
    // The socket's backlog accepts the connection before the daemon is up.
    match Connection::open(&paths.socket).await {
        Ok(connection) => {
            Ok(DaemonLink { connection, socket: paths.socket.as_path().into(), starting: Some(starting) })
        }
        Err(error) => Err(connect_error(starting, error, &paths.socket).await),
    }
}

/// The daemon or its launcher ended before we could connect: prefers its own reason to the connection error.
async fn connect_error(mut starting: StartingDaemon, error: io::Error, socket: &Path) -> LaunchError {
    match starting.exit_reason().await {
        Some(why) => LaunchError::Step("launching it", io::Error::other(why)),
        None => LaunchError::Connect(socket.to_owned(), error),
    }
}

/// Connects to the running daemon's socket, else to the one that a new daemon would use. `None` if nothing
/// listens.
async fn find(paths: &RuntimePaths) -> Result<Option<DaemonLink>, LaunchError> {
    let in_use = paths.socket_in_use();
    if in_use != paths.socket
        && let Ok(connection) = Connection::open(&in_use).await
    {
        return Ok(Some(DaemonLink { connection, socket: in_use.into(), starting: None }));
    }
    match Connection::open(&paths.socket).await {
        Ok(connection) => {
            Ok(Some(DaemonLink { connection, socket: paths.socket.as_path().into(), starting: None }))
        }
        Err(error) if is_absence(&error) => Ok(None),
        Err(error) => Err(LaunchError::Connect(paths.socket.clone(), error)),
    }
}

fn open_lock(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).custom_flags(flags).open(path)
}

fn bind(socket: &Path) -> Result<UnixListener, LaunchError> {
    match fs::symlink_metadata(socket) {
        Ok(meta) if !meta.file_type().is_socket() => return Err(LaunchError::NotSocket(socket.to_owned())),
        // Nothing listens on it and we hold the lock, so a dead daemon left it.
        Ok(_) => {
            fs::remove_file(socket).map_err(|error| LaunchError::Step("removing the old socket", error))?
        }
        Err(_) => {}
    }
    let listener =
        UnixListener::bind(socket).map_err(|error| LaunchError::Step("binding its socket", error))?;
    fs::set_permissions(socket, fs::Permissions::from_mode(0o600))
        .map_err(|error| LaunchError::Step("closing its socket to others", error))?;
    Ok(listener)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one process the shim ever starts: itself, to launch the daemon"
)]
fn launch(target: &DaemonTarget, program: &Path, listener: UnixListener) -> io::Result<Child> {
    let mut command = Command::new(binary::own_binary()?);
    command.arg(LAUNCH).arg(program);
    if target.socket_named {
        command.arg("--socket").arg(&target.paths.socket);
    }
    if let Some(config) = &target.config {
        command.arg("--config").arg(config);
    }
    if let Some(limit) = limits::limit_before() {
        command.env(limits::VARIABLE, limit.to_string());
    }
    command.stdin(Stdio::from(OwnedFd::from(listener))).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// Waits for the launcher in a thread. The launcher prints the daemon's pid on stdout. The daemon inherits
/// its stderr until the exec, so anything there says why the launch failed.
fn watch_launcher(mut launcher: Child) -> io::Result<oneshot::Receiver<Result<u32, String>>> {
    let (sender, outcome) = oneshot::channel();
    std::thread::Builder::new().name("launch".to_owned()).stack_size(128 * 1024).spawn(move || {
        let (mut pid, mut why) = (String::new(), String::new());
        if let Some(stdout) = launcher.stdout.take() {
            let _ = stdout.take(64).read_to_string(&mut pid);
        }
        if let Some(stderr) = launcher.stderr.take() {
            let _ = stderr.take(4096).read_to_string(&mut why);
        }
        let status = launcher.wait();
        let _ = sender.send(match pid.trim().parse() {
            Ok(pid) if why.is_empty() => Ok(pid),
            _ if !why.is_empty() => Err(why),
            _ => {
                let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                Err(format!("its launcher ended without saying why ({how})"))
            }
        });
    })?;
    Ok(outcome)
}
