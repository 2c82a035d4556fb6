//! From the command line to the end of the process: takes locks and sockets, reads the config, makes the
//! daemon's state, and serves until a signal, the service manager or an upgrade stops it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use switchboard_definitions::config::{Config, ConfigOwner, LastGood, UsableConfig};
use switchboard_definitions::document::Problem;
use switchboard_guard::memory::protect_memory;
use switchboard_wire::event_loop::try_run_blocking;
use switchboard_wire::hop::Draining;
use switchboard_wire::runtime_paths::RuntimePaths;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::collector::Telemetry;
use super::command_line::ServeArgs;
use super::fatal::Fatal;
use super::file_checks::{CHECK_INTERVAL, FileChecks};
use super::listen::{self, BoundSockets, HandoverSocket, ListenWish};
use super::locations::{config_file, home, runtime_paths, state_folder, trust_roots};
use super::notify::SdNotify;
use super::signals::{Signals, reload_on_hangup};
use super::{Stop, lock_file, run, successor, token};
use crate::catalog::layer::Locations;
use crate::child::RunLog;
use crate::observe::telemetry;
use crate::reload::Reloader;
use crate::state::daemon_info::DaemonInfo;
use crate::state::{Daemon, Phase};
use crate::system::logging;

/// How long clearing up waits, so that the first answers go out before it.
const SWEEP_DELAY: Duration = Duration::from_millis(100);

/// How long aborted calls may take to end.
const ABORT_TIMEOUT: Duration = Duration::from_millis(100);

/// While it is held, no other process starts a daemon at these paths.
pub async fn start_lock(paths: &RuntimePaths) -> Result<std::fs::File, Fatal> {
    let io = |error| Fatal::Io { what: format!("`{}` cannot be used", paths.start_lock.display()), error };
    paths.prepare().map_err(io)?;
    lock_file::start_lock(paths).await
}

/// Writes why the daemon failed to where the shim that started it looks: the daemon has no standard error.
fn write_failure_file(args: &ServeArgs, fatal: &Fatal) {
    let Ok(home) = home() else { return };
    let words = format!("{}\n{fatal}", std::process::id());
    // Without the folder, no shim is waiting.
    let _ = switchboard_definitions::files::replace(&runtime_paths(args, &home).failure, words.as_bytes());
}

/// Runs the daemon as a process, with its log.
pub async fn main(args: &ServeArgs) -> ExitCode {
    let state = home().map(|home| state_folder(&home)).unwrap_or_default();
    logging::init(args.log_format, &state);
    let exit = match serve(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(fatal) => {
            tracing::error!(target: "daemon", "{fatal}");
            write_failure_file(args, &fatal);
            ExitCode::FAILURE
        }
    };
    logging::flush();
    exit
}

async fn serve(args: &ServeArgs) -> Result<(), Fatal> {
    if let Err(error) = protect_memory() {
        tracing::warn!(target: "daemon", "others of this user can read the memory of this process: {error}");
    }
    switchboard_definitions::files::raise_limit();
    let (sd_notify, binary) = (SdNotify::from_env(), successor::Binary::of_this_process());
    let Claim { home, config_file, state, paths, bound, identity, lock } = Claim::obtain(args).await?;
    let (config, problems) = usable_config(&config_file, &state);
    let listen = args.listen.clone().unwrap_or_else(|| config.http.listen.clone());
    let is_any_port = args.listen.is_none() && config.http.is_any_port;
    let (token, bound) = TcpToken::obtain(&state, bound, ListenWish { listen: &listen, is_any_port })?;
    write_daemon_file(&paths, &bound, &token.file, &config_file);
    let (run_log, swept) = adopt_and_sweep(&paths);
    let locations = Locations::new(&home, &state, &trust_roots(args)?);
    let env_file = config.folder.join("env");
    let daemon = Daemon::new(config_file, config, locations, token.secret.clone(), run_log);
    let reloader = Reloader::new(&daemon);
    reloader.note_broken(problems);
    let telemetry = telemetry::settings(&env_file).map(|wanted| Telemetry::begin(&daemon, wanted));
    // Its code is invalid: the daemon that issued it has ended.
    crate::state::page_access::remove_link_file(&state, Duration::ZERO);
    daemon.page_access.restore(&state);
    publish_addresses(&daemon, &paths, &bound, token, state, &listen);
    daemon.catalog().keep_warm();
    let handover_sockets = bound.handover_sockets().map_err(io("the sockets cannot be kept".to_owned()))?;
    let listeners = bound.open().map_err(io("the sockets cannot be served".to_owned()))?;
    // Signals are caught before readiness is reported: the manager may send one right after it.
    let signals = Signals::catch();
    let checks = FileChecks::every(CHECK_INTERVAL);
    let displaced = wait_displaced(&paths, identity, &checks);
    let idle = args.idle_exit.map(Duration::from_secs);
    let checks = checks.clone();
    let service = ServiceProcess {
        daemon: daemon.clone(),
        reloader,
        handover_sockets,
        sd_notify,
        binary,
        checks,
        idle,
    };
    let successor = service.run(listeners, signals, displaced).await;
    // Otherwise the run log stays, and the next daemon clears what is left.
    if daemon.services.registry.all().is_empty() && swept.is_finished() {
        daemon.services.run_log.close();
    }
    daemon.services.savings_recorder.flush();
    // After a second signal, calls are still in flight: they end here, so that they are recorded.
    daemon.abort_all();
    let _ = tokio::time::timeout(ABORT_TIMEOUT, daemon.shutdown.wait_idle()).await;
    daemon.call_recorder.flush();
    lock_file::remove_daemon_file(&paths);
    drop(lock);
    // After the lock is released: only this process waits for the collector.
    if let Some(telemetry) = telemetry {
        telemetry.close().await;
    }
    hand_over(successor)
}

/// What only one daemon per user or socket may hold: its folders, sockets and lock.
struct Claim {
    home: PathBuf,
    config_file: PathBuf,
    state: PathBuf,
    paths: RuntimePaths,
    bound: BoundSockets,
    /// Identifies the socket file at the daemon's path.
    identity: Option<listen::SocketId>,
    lock: lock_file::DaemonLock,
}

impl Claim {
    async fn obtain(args: &ServeArgs) -> Result<Self, Fatal> {
        let home = home()?;
        let config_file = config_file(args, &home);
        if args.config.is_some() && !config_file.exists() {
            return Err(Fatal::Listen(format!("there is no config file `{}`", config_file.display())));
        }
        let mut paths = runtime_paths(args, &home);
        paths.prepare().map_err(io(format!("`{}` cannot be served on", paths.socket.display())))?;
        let state = state_folder(&home);
        switchboard_definitions::files::state::prepare(&state).map_err(Fatal::State)?;
        let bound = BoundSockets::obtain(&paths).await?;
        // A socket that was handed over may be bound to another path.
        if let Some(socket) = bound.path() {
            paths.socket = socket;
        }
        let identity = listen::identity(&paths.socket);
        let lock = lock_file::lock(&paths).await?;
        Ok(Self { home, config_file, state, paths, bound, identity, lock })
    }
}

/// Replaces this process with the successor's binary, if there is one. Returns if there is none, or if that
/// fails.
fn hand_over(successor: Option<(successor::Binary, Vec<HandoverSocket>)>) -> Result<(), Fatal> {
    let Some((binary, handover_sockets)) = successor else {
        tracing::info!(target: "daemon", "gone");
        return Ok(());
    };
    tracing::info!(target: "daemon", "the new version takes over");
    crate::system::logging::flush();
    let error = successor::exec_successor(&binary, &handover_sockets);
    Err(Fatal::Io { what: "the new version could not take over".to_owned(), error })
}

fn io(what: String) -> impl FnOnce(std::io::Error) -> Fatal {
    move |error| Fatal::Io { what, error }
}

/// The usable part of the config. A mistake in the config must not cost the user any tools.
fn usable_config(file: &Path, state: &Path) -> (Config, Vec<Problem>) {
    let last_good = LastGood::new(state);
    let UsableConfig { config, problems } = last_good.usable(file, ConfigOwner::Personal);
    last_good.save(&config);
    (config, problems)
}

/// The token that TCP clients must send.
struct TcpToken {
    secret: String,
    file: PathBuf,
    /// The token file could not be written.
    is_missing: bool,
}

impl TcpToken {
    /// Reads or creates the token in the state folder, and binds the TCP address. Without a token file there
    /// is no TCP.
    fn obtain(
        state: &Path,
        bound: BoundSockets,
        wish: ListenWish<'_>,
    ) -> Result<(Self, BoundSockets), Fatal> {
        let file = state.join("token");
        match token::obtain(&file) {
            Ok(secret) => Ok((Self { secret, file, is_missing: false }, bound.with_tcp(wish)?)),
            // Without a token file no client could use the port.
            Err(error) => {
                let why = format!("`{}` cannot be written: {error}", file.display());
                tracing::warn!(target: "daemon", "no TCP: {why}");
                let secret = switchboard_wire::random::hex(token::TOKEN_BYTES);
                Ok((Self { secret, file, is_missing: true }, bound.without_tcp(why)))
            }
        }
    }
}

/// Writes the daemon's addresses to its file and to the log.
fn write_daemon_file(paths: &RuntimePaths, bound: &BoundSockets, token_file: &Path, config_file: &Path) {
    let address = bound.address();
    if let Err(error) = lock_file::write_daemon_file(paths, address, token_file, config_file) {
        tracing::warn!(target: "daemon", "`{}` cannot be written: {error}", paths.daemon_file.display());
    }
    tracing::info!(
        target: "daemon",
        version = env!("CARGO_PKG_VERSION"),
        pid = std::process::id(),
        socket = %paths.socket.display(),
        tcp = %address.map_or_else(|| "off".to_owned(), |address| address.to_string()),
        "serving"
    );
}

/// Passes the daemon's addresses to the parts that need them.
fn publish_addresses(
    daemon: &Daemon,
    paths: &RuntimePaths,
    bound: &BoundSockets,
    token: TcpToken,
    state: PathBuf,
    listen: &str,
) {
    let (address, no_tcp) = (bound.address(), bound.no_tcp());
    address.into_iter().for_each(|address| daemon.services.value_resolver.set_own_port(address.port()));
    daemon.page_access.set_address(address.ok_or_else(|| match &no_tcp {
        Some(why) if token.is_missing => {
            format!("the status page needs TCP: {why}; fix that, then `switchboard restart`")
        }
        _ => no_page(listen, &daemon.config_file),
    }));
    let _ = daemon.info.set(DaemonInfo {
        socket: paths.socket.clone(),
        tcp: address.map(|address| address.to_string()),
        no_tcp,
        no_token: token.is_missing,
        token_file: token.file,
        state,
        program: std::env::current_exe().ok(),
        log: logging::destination(),
    });
}

/// Why browsers cannot reach us, and how to fix it.
fn no_page(listen: &str, config: &Path) -> String {
    let mend = format!("in `{}`, then `switchboard restart`", config.display());
    if listen == "off" {
        return format!(
            "the status page needs TCP, which is off; set `http.listen` to `127.0.0.1:7420` {mend} without `--listen off`"
        );
    }
    format!(
        "the status page needs TCP, and `{listen}` could not be listened on when the daemon started (another program has it?); \
         set `http.listen` to another one {mend}"
    )
}

/// Adopts orphans from now on, and clears in the background what an earlier daemon left behind when it was
/// killed together with its guards.
fn adopt_and_sweep(paths: &RuntimePaths) -> (RunLog, JoinHandle<()>) {
    crate::child::adopt_orphans();
    let (run_log, stale_runs) = RunLog::open(paths.daemon_file.with_extension("ledger"));
    let swept = tokio::spawn(async move {
        // The process that started us waits for its first answer: scanning all processes comes after that.
        tokio::time::sleep(SWEEP_DELAY).await;
        let _ = try_run_blocking(move || stale_runs.sweep()).await;
    });
    (run_log, swept)
}

/// A daemon as a process, which others start, signal and replace.
struct ServiceProcess {
    daemon: Arc<Daemon>,
    reloader: Arc<Reloader>,
    /// Duplicates of the sockets, for a successor.
    handover_sockets: Vec<HandoverSocket>,
    sd_notify: SdNotify,
    binary: Option<successor::Binary>,
    checks: FileChecks,
    /// The daemon stops after it was idle for this time.
    idle: Option<Duration>,
}

impl ServiceProcess {
    /// Serves until the daemon is stopped, loses its socket, or is idle for too long. Returns the successor
    /// that takes over this process, if any.
    async fn run(
        mut self,
        listeners: Vec<crate::http::Listener>,
        mut signals: Signals,
        displaced: impl Future<Output = ()>,
    ) -> Option<(successor::Binary, Vec<HandoverSocket>)> {
        let daemon = self.daemon.clone();
        let (order, stop) = oneshot::channel();
        let reloader = self.reloader.clone();
        let serving = run(&reloader, listeners, async { stop.await.unwrap_or(Stop::AtOnce) });
        let mut is_due = false;
        let mut handover_sockets = std::mem::take(&mut self.handover_sockets);
        let orders = async {
            self.sd_notify.ready(&daemon).await;
            is_due = self.wait_for_end(&mut signals, displaced).await;
            if !is_due {
                // No successor: a client that connects after the server has closed must fail at once.
                handover_sockets.clear();
                self.sd_notify.stopping().await;
            }
            let _ = order.send(Stop::Drain(Draining::Restart));
            signals.next().await;
        };
        let left = tokio::select! {
            biased;
            () = serving => true,
            () = orders => {
                tracing::warn!(target: "daemon", "a second signal: stopping immediately");
                false
            }
            () = self.sd_notify.run_watchdog() => false,
        };
        // The user may have stopped it meanwhile.
        let is_due = is_due && left && daemon.draining() == Some(Draining::Restart);
        self.binary.filter(|_| is_due).map(|binary| (binary, handover_sockets))
    }

    /// Resolves when the daemon must stop; true if a successor takes over.
    async fn wait_for_end(&self, signals: &mut Signals, displaced: impl Future<Output = ()>) -> bool {
        let daemon = &self.daemon;
        let mut phase = daemon.phase();
        tokio::select! {
            () = reload_on_hangup(&self.reloader) => {}
            () = self.sd_notify.run_status_updates(daemon) => {}
            () = signals.next() => daemon.shutdown.drain(Draining::Restart),
            () = displaced => daemon.shutdown.drain(Draining::Restart),
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => {}
            () = wait_until_idle(daemon, self.idle) => {
                tracing::info!(target: "daemon", "no session and no call for a while");
                daemon.shutdown.drain(Draining::Restart);
            }
            () = successor::is_due(daemon, self.binary.as_ref(), &self.checks) => {
                daemon.shutdown.drain(Draining::Restart);
                return true;
            }
        }
        false
    }
}

/// Resolves when clients no longer find this daemon, because its socket was removed or replaced. Never, if
/// the socket was not at this path at start (another one was handed over).
async fn wait_displaced(paths: &RuntimePaths, identity: Option<listen::SocketId>, checks: &FileChecks) {
    if identity.is_none() {
        return std::future::pending().await;
    }
    let socket = paths.socket.clone();
    checks.until(move || listen::identity(&socket) != identity).await;
    tracing::warn!(target: "daemon", "`{}` is no longer ours", paths.socket.display());
}

async fn wait_until_idle(daemon: &Daemon, idle: Option<Duration>) {
    let Some(idle) = idle else { return std::future::pending().await };
    loop {
        daemon.shutdown.wait_idle().await;
        let (quiet_since, total) = (tokio::time::Instant::now(), daemon.shutdown.total_requests());
        loop {
            tokio::time::sleep(idle.min(Duration::from_secs(1))).await;
            let is_needed = !daemon.sessions.all().is_empty()
                || !daemon.list_changes.listen_requests.is_empty()
                || daemon.services.logins.is_any_open();
            if is_needed || daemon.shutdown.total_requests() != total {
                break;
            }
            if quiet_since.elapsed() >= idle {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn short_calls_keep_an_idle_daemon_up() {
        let folder = Path::new("/nonexistent");
        let (config, locations) = (Config::defaults(folder), Locations::new(folder, folder, &[]));
        let daemon = Daemon::new(folder.join("x"), config, locations, String::new(), RunLog::unwritten());
        let idle = tokio::spawn({
            let daemon = daemon.clone();
            async move { wait_until_idle(&daemon, Some(Duration::from_secs(3))).await }
        });
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(1300)).await;
            daemon.begin_request(true);
            daemon.end_request();
        }
        assert!(!idle.is_finished());
        tokio::time::timeout(Duration::from_secs(6), idle).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_replaced_socket_is_noticed() {
        let checks = FileChecks::every(Duration::from_millis(5));
        let a_while = Duration::from_millis(100);
        let folder = tempfile::tempdir().unwrap();
        let paths = RuntimePaths::beside(&folder.path().join("s"));
        let _first = std::os::unix::net::UnixListener::bind(&paths.socket).unwrap();
        let identity = listen::identity(&paths.socket);
        let displaced = wait_displaced(&paths, identity, &checks);
        tokio::pin!(displaced);
        assert!(tokio::time::timeout(a_while, &mut displaced).await.is_err());
        std::fs::remove_file(&paths.socket).unwrap();
        let _second = std::os::unix::net::UnixListener::bind(&paths.socket).unwrap();
        tokio::time::timeout(Duration::from_secs(10), displaced).await.unwrap();
        // No socket at this path from the start: another one was handed over.
        let never = wait_displaced(&paths, None, &checks);
        assert!(tokio::time::timeout(a_while, never).await.is_err());
    }
}
