//! The serving daemon: takes bound listeners, serves until it is told to go, and leaves nothing behind.

mod collector;
mod listen;
mod lock_file;
mod notify;
mod successor;
mod token;

pub(crate) use listen::remove_dead_socket;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::hop::Draining;
use switchboard_wire::runtime_paths::RuntimePaths;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

use crate::args::Args;
use crate::child::RunLog;
use crate::config::{Extent, LastGood, Usable, personal_file};
use crate::daemon_info::DaemonInfo;
use crate::daemon_state::{Daemon, Phase};
use crate::document::Problem;
use crate::event_loop::{Serving, run_blocking};
use crate::http::{HttpServer, Listener};
use crate::layer::Locations;
use crate::reload::ReloadCause;
use crate::telemetry;
use collector::Telemetry;

/// How long clearing up waits for the first answers to be given.
const AFTER_FIRST_ANSWERS: Duration = Duration::from_millis(100);
/// Calls in flight may take this long to finish once the daemon is to go.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// So long a session may take to ask for mail again once it was told that the daemon goes. One that does
/// not hangs, or is held up by its host.
const DRAIN_ACK_TIMEOUT: Duration = Duration::from_secs(1);
/// Requests that were on their way when a session heard of it are answered that they did not start; a
/// connection that closed on them would leave their fate unknown.
const LATE_REQUEST_GRACE: Duration = Duration::from_millis(250);
/// How often the daemon looks whether its socket can still be found.
const SOCKET_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// A login that is being renewed may take this long to be written down.
const LOGIN_SAVE_TIMEOUT: Duration = Duration::from_secs(3);
/// Connections that do not close by themselves after that are cut.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Children get their end in stages, and this is more than all of them take.
const CHILD_STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// What keeps a daemon from starting. Nothing after the start ends it.
#[derive(Debug, thiserror::Error)]
pub enum Fatal {
    #[error("HOME is not set and the user database does not say where it is")]
    NoHome,
    #[error("the configuration cannot be used:\n{}", listed(.0))]
    Config(Vec<Problem>),
    #[error("{0}")]
    Listen(String),
    #[error("switchboardd already serves `{0}`; `switchboard status` shows it, `switchboard stop` ends it")]
    AlreadyServing(String),
    #[error("the state folder is not used: {0}")]
    State(std::io::Error),
    #[error("{what}: {error}")]
    Io { what: String, error: std::io::Error },
}

fn listed(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("  {problem}")).collect::<Vec<_>>().join("\n")
}

pub fn home() -> Result<PathBuf, Fatal> {
    std::env::home_dir().filter(|home| home.is_absolute()).ok_or(Fatal::NoHome)
}

/// Where token, logs and the like are kept.
pub fn state_folder(home: &Path) -> PathBuf {
    std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute()).map_or_else(
        || switchboard_wire::runtime_paths::state_directory(home),
        |folder| folder.join("switchboard"),
    )
}

/// The config file that was named, or the personal one.
pub fn config_file(args: &Args, home: &Path) -> PathBuf {
    let named = args.config.as_ref().and_then(|file| std::path::absolute(file).ok());
    named.unwrap_or_else(|| personal_file(home))
}

/// Where the files of a person's daemon are, for commands: those of the one that runs, which may have been started
/// with another environment than theirs; else those that one would use which is started like this.
pub fn files_in_use(args: &Args, home: &Path) -> (PathBuf, PathBuf) {
    let running = running(&runtime_paths(args, home));
    let of_daemon = |key: &str| running.as_ref().and_then(|told| told[key].as_str()).map(PathBuf::from);
    let config = match &args.config {
        Some(_) => config_file(args, home),
        None => of_daemon("config").unwrap_or_else(|| config_file(args, home)),
    };
    (config, of_daemon("state").unwrap_or_else(|| state_folder(home)))
}

/// What the daemon of this place says of itself in its file, if it runs. Nobody is asked, so none is started by it.
pub fn running(paths: &RuntimePaths) -> Option<serde_json::Value> {
    let text = switchboard_wire::runtime_paths::read_own(&paths.daemon_file).ok()?;
    let told: serde_json::Value = serde_json::from_slice(&text).ok()?;
    let pid = told["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok())?;
    switchboard_wire::process::is_same(pid, told["startTime"].as_u64()).then_some(told)
}

/// As long as it is held, nobody else starts a daemon at this place.
pub async fn start_lock(paths: &RuntimePaths) -> Result<std::fs::File, Fatal> {
    let io = |error| Fatal::Io { what: format!("`{}` cannot be used", paths.start_lock.display()), error };
    paths.prepare().map_err(io)?;
    lock_file::start_lock(paths).await
}

/// The paths that was named, or this user's.
pub fn runtime_paths(args: &Args, home: &Path) -> RuntimePaths {
    match &args.socket {
        Some(socket) => RuntimePaths::beside(&std::path::absolute(socket).unwrap_or_else(|_| socket.clone())),
        None => RuntimePaths::of_user(home),
    }
}

/// The same with the socket of the daemon that runs, if one does: it may have been started when the place for
/// sockets was another.
pub fn runtime_paths_in_use(args: &Args, home: &Path) -> RuntimePaths {
    let mut paths = runtime_paths(args, home);
    paths.socket = paths.socket_in_use();
    paths
}

/// The directories that the command line trusts. One that is not there is a mistake, not a wish.
pub fn trust_roots(args: &Args) -> Result<Vec<PathBuf>, Fatal> {
    let real = |root: &PathBuf| {
        root.canonicalize()
            .map_err(|error| Fatal::Io { what: format!("`--trust-root {}`", root.display()), error })
    };
    args.trust_root.iter().map(real).collect()
}

/// Leaves why there is no daemon where the shim that started it looks: it has no standard error to say it on.
pub fn write_failure_file(args: &Args, fatal: &Fatal) {
    let Ok(home) = home() else { return };
    let words = format!("{}\n{fatal}", std::process::id());
    // Without the folder there is no shim that waits for us.
    let _ = crate::files::replace(&runtime_paths(args, &home).failure, words.as_bytes());
}

/// From the command line to the end of the daemon.
pub async fn serve(args: &Args) -> Result<(), Fatal> {
    crate::unreadable::close();
    crate::files::raise_limit();
    let home = home()?;
    let file = config_file(args, &home);
    if args.config.is_some() && !file.exists() {
        return Err(Fatal::Listen(format!("there is no config file `{}`", file.display())));
    }
    let mut paths = runtime_paths(args, &home);
    let io = |what: String| move |error| Fatal::Io { what, error };
    paths.prepare().map_err(io(format!("`{}` cannot be served on", paths.socket.display())))?;
    let state = state_folder(&home);
    crate::files::state::prepare(&state).map_err(Fatal::State)?;
    let sd_notify = notify::SdNotify::from_env();
    let binary = successor::Binary::of_this_process();
    let bound = listen::BoundSockets::obtain(&paths).await?;
    // A socket that was handed over may have been bound when the place for sockets was another.
    if let Some(socket) = bound.path() {
        paths.socket = socket;
    }
    let identity = listen::identity(&paths.socket);
    let lock = lock_file::lock(&paths).await?;
    let last_good = LastGood::new(&state);
    // A mistake in it costs nobody their tools.
    let Usable { config, problems } = last_good.usable(&file, Extent::Personal);
    last_good.keep(&config);
    let token_file = state.join("token");
    let listen = args.listen.clone().unwrap_or_else(|| config.http.listen.clone());
    let token = token::obtain(&token_file);
    let no_token = token.is_err();
    let (token, bound) = match token {
        Ok(token) => (token, bound.with_tcp(&listen)?),
        // Nobody could read the token, so nobody could use the port.
        Err(error) => {
            let why = format!("`{}` cannot be written: {error}", token_file.display());
            tracing::warn!(target: "daemon", "no TCP: {why}");
            (crate::random::hex(token::BYTES), bound.without_tcp(why))
        }
    };
    let address = bound.address();
    let no_tcp = bound.no_tcp();
    if let Err(error) = lock_file::write_daemon_file(&paths, address, &token_file, &file) {
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
    let (run_log, swept) = take_over(&paths);
    let locations = Locations::new(&home, &state, &trust_roots(args)?);
    let env_file = config.folder.join("env");
    let daemon = Daemon::new(file, config, locations, token, run_log);
    daemon.note_broken(problems);
    let telemetry = telemetry::settings(&env_file).map(|wanted| Telemetry::begin(&daemon, wanted));
    // Whatever it leads to ended with the daemon that gave it out.
    crate::page_access::remove_link_file(&state, Duration::ZERO);
    address.into_iter().for_each(|address| daemon.services.value_resolver.set_own_port(address.port()));
    daemon.page_access.set_address(address.ok_or_else(|| match &no_tcp {
        Some(why) if no_token => {
            format!("the status page needs TCP: {why}; mend that, then `switchboard restart`")
        }
        _ => no_page(&listen, &daemon.config_file),
    }));
    let _ = daemon.info.set(DaemonInfo {
        socket: paths.socket.clone(),
        tcp: address.map(|address| address.to_string()),
        no_tcp,
        no_token,
        token_file,
        state,
        program: std::env::current_exe().ok(),
        log: crate::logging::destination(),
    });
    daemon.catalog().keep_warm();
    let kept = bound.handover_sockets().map_err(io("the sockets cannot be kept".to_owned()))?;
    let listeners = bound.open().map_err(io("the sockets cannot be served".to_owned()))?;
    // From here on nobody ends us without a word: whoever hears that we are ready may say at once that we are to go.
    let signals = Signals::catch();
    let parts = DaemonParts { daemon: daemon.clone(), listeners, handover_sockets: kept, sd_notify, binary };
    let idle = args.idle_exit.map(Duration::from_secs);
    let displaced = async {
        until_displaced(&paths, identity).await;
        tracing::warn!(target: "daemon", "`{}` is no longer ours", paths.socket.display());
    };
    let successor = run(parts, signals, displaced, idle).await;
    // Whatever is left of an earlier run is for the next one to find, if we had no time for it.
    if daemon.services.registry.all().is_empty() && swept.is_finished() {
        daemon.services.run_log.close();
    }
    daemon.services.savings_recorder.flush();
    lock_file::remove_daemon_file(&paths);
    drop(lock);
    // Nobody but this process waits for a collector.
    if let Some(telemetry) = telemetry {
        telemetry.close().await;
    }
    let Some((binary, kept)) = successor else {
        tracing::info!(target: "daemon", "gone");
        return Ok(());
    };
    tracing::info!(target: "daemon", "the new version takes over");
    crate::logging::flush();
    let error = successor::take_over(&binary, &kept);
    Err(Fatal::Io { what: "the new version could not take over".to_owned(), error })
}

/// Everything that a daemon serves with.
struct DaemonParts {
    daemon: Arc<Daemon>,
    listeners: Vec<Listener>,
    /// The same sockets once more, for a successor.
    handover_sockets: Vec<listen::HandoverSocket>,
    sd_notify: notify::SdNotify,
    binary: Option<successor::Binary>,
}

/// Why browsers do not find us, and what to do about it.
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

/// Adopts what falls to us from now on, and clears up in the background what an earlier daemon and its
/// guards, killed together, left behind.
fn take_over(paths: &RuntimePaths) -> (RunLog, JoinHandle<()>) {
    crate::child::adopt_orphans();
    let (run_log, stale_runs) = RunLog::open(paths.daemon_file.with_extension("ledger"));
    let swept = tokio::spawn(async move {
        // Whoever started us waits for its first answer: looking at every process comes after that.
        tokio::time::sleep(AFTER_FIRST_ANSWERS).await;
        let _ = tokio::task::spawn_blocking(move || stale_runs.sweep()).await;
    });
    (run_log, swept)
}

/// Serves until somebody orders its end, nobody finds it, or nobody needs it any more. Gives what takes its place in this
/// very process, if something is to.
async fn run(
    mut parts: DaemonParts,
    mut signals: Signals,
    displaced: impl Future<Output = ()>,
    idle: Option<Duration>,
) -> Option<(successor::Binary, Vec<listen::HandoverSocket>)> {
    let _serving = Serving::begin();
    let server = HttpServer::new(parts.daemon.clone());
    parts.listeners.drain(..).for_each(|listener| server.serve_listener(listener));
    parts.sd_notify.ready(&parts.daemon).await;
    let due = tokio::select! {
        due = until_end(&parts, &mut signals, displaced, idle) => due,
        () = parts.sd_notify.run_watchdog() => false,
    };
    if !due {
        // Nobody follows in this process: who connects once the server is closed is to find that out at once.
        parts.handover_sockets.clear();
        parts.sd_notify.stopping().await;
    }
    let left = tokio::select! {
        () = shut_down(&parts.daemon, &server) => true,
        () = signals.next() => {
            tracing::warn!(target: "daemon", "a second signal: leaving at once");
            false
        }
        () = parts.sd_notify.run_watchdog() => false,
    };
    // Somebody may have stopped it meanwhile.
    let due = due && left && parts.daemon.draining() == Some(Draining::Restart);
    parts.binary.filter(|_| due).map(|binary| (binary, parts.handover_sockets))
}

/// Resolves when the daemon is to go; true if a successor takes over.
async fn until_end(
    parts: &DaemonParts,
    signals: &mut Signals,
    displaced: impl Future<Output = ()>,
    idle: Option<Duration>,
) -> bool {
    let daemon = &parts.daemon;
    let mut phase = daemon.phase();
    tokio::select! {
        () = reload_on_hangup(daemon) => {}
        () = daemon.run_reload_loop() => {}
        () = daemon.run_list_change_notifier() => {}
        () = daemon.services.budget.watch_memory() => {}
        () = parts.sd_notify.run_status_updates(daemon) => {}
        () = signals.next() => daemon.drain(Draining::Restart),
        () = displaced => daemon.drain(Draining::Restart),
        () = daemon.services.savings_recorder.run_flush_loop() => {}
        _ = phase.wait_for(|phase| *phase != Phase::Serving) => {}
        () = until_idle(daemon, idle) => {
            tracing::info!(target: "daemon", "nobody here for a while");
            daemon.drain(Draining::Restart);
        }
        () = successor::is_due(daemon, parts.binary.as_ref()) => {
            daemon.drain(Draining::Restart);
            return true;
        }
    }
    false
}

/// The order of leaving: calls in flight finish or fault, connections close, children stop.
async fn shut_down(daemon: &Arc<Daemon>, server: &HttpServer) {
    tracing::info!(target: "daemon", "draining");
    tokio::join!(finish_requests(daemon), announce_drain(daemon));
    // What an authorization server has given out is written down, or the login is lost.
    let _ = tokio::time::timeout(LOGIN_SAVE_TIMEOUT, daemon.services.logins.settled()).await;
    daemon.leave();
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, server.close()).await;
    let _ = tokio::time::timeout(CHILD_STOP_TIMEOUT, daemon.services.registry.stop_all()).await;
}

/// What is under way comes to its end, by itself or by a fault.
async fn finish_requests(daemon: &Daemon) {
    if tokio::time::timeout(DRAIN_TIMEOUT, daemon.wait_idle()).await.is_err() {
        daemon.abort_all();
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, daemon.wait_idle()).await;
    }
}

/// Every session hears of it, and what it sent before it did is answered.
async fn announce_drain(daemon: &Daemon) {
    if daemon.sessions.all().is_empty() {
        return;
    }
    let _ = tokio::time::timeout(DRAIN_ACK_TIMEOUT, daemon.wait_for_drain_acks()).await;
    tokio::time::sleep(LATE_REQUEST_GRACE).await;
}

/// Resolves when those who look for the daemon no longer find this one, because its socket was removed or
/// replaced. Never, if it was not to be found there in the first place (somebody handed over another).
async fn until_displaced(paths: &RuntimePaths, identity: Option<listen::Identity>) {
    if identity.is_none() {
        return std::future::pending().await;
    }
    let socket = || {
        let socket = paths.socket.clone();
        run_blocking(move || listen::identity(&socket))
    };
    while socket().await == identity {
        tokio::time::sleep(SOCKET_CHECK_INTERVAL).await;
    }
}

/// Reads everything again at each SIGHUP; never resolves.
async fn reload_on_hangup(daemon: &Arc<Daemon>) {
    let Ok(mut hangup) = signal(SignalKind::hangup()) else { return std::future::pending().await };
    while hangup.recv().await.is_some() {
        // What is wrong was said where it was found.
        daemon.reload(ReloadCause::Requested).await;
    }
    std::future::pending().await
}

/// SIGTERM and SIGINT, caught from when this is made.
struct Signals(Option<(Signal, Signal)>);

impl Signals {
    fn catch() -> Self {
        Self(signal(SignalKind::terminate()).ok().zip(signal(SignalKind::interrupt()).ok()))
    }

    /// Resolves at the next one.
    async fn next(&mut self) {
        let Some((term, int)) = &mut self.0 else { return std::future::pending().await };
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    }
}

async fn until_idle(daemon: &Daemon, idle: Option<Duration>) {
    let Some(idle) = idle else { return std::future::pending().await };
    loop {
        daemon.wait_idle().await;
        let (quiet_since, total) = (tokio::time::Instant::now(), daemon.total_requests());
        loop {
            tokio::time::sleep(idle.min(Duration::from_secs(1))).await;
            let is_needed = !daemon.sessions.all().is_empty()
                || !daemon.listen_requests.is_empty()
                || daemon.services.logins.any_open();
            if is_needed || daemon.total_requests() != total {
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
    use crate::config::Config;

    #[tokio::test(start_paused = true)]
    async fn short_calls_keep_an_idle_daemon_up() {
        let folder = Path::new("/nonexistent");
        let (config, locations) = (Config::defaults(folder), Locations::new(folder, folder, &[]));
        let daemon = Daemon::new(folder.join("x"), config, locations, String::new(), RunLog::unwritten());
        let idle = tokio::spawn({
            let daemon = daemon.clone();
            async move { until_idle(&daemon, Some(Duration::from_secs(3))).await }
        });
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(1300)).await;
            daemon.begin_request(true);
            daemon.end_request();
        }
        assert!(!idle.is_finished());
        tokio::time::timeout(Duration::from_secs(6), idle).await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_replaced_socket_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let paths = RuntimePaths::beside(&folder.path().join("s"));
        let _first = std::os::unix::net::UnixListener::bind(&paths.socket).unwrap();
        let identity = listen::identity(&paths.socket);
        let displaced = until_displaced(&paths, identity);
        tokio::pin!(displaced);
        assert!(tokio::time::timeout(SOCKET_CHECK_INTERVAL * 3, &mut displaced).await.is_err());
        std::fs::remove_file(&paths.socket).unwrap();
        let _second = std::os::unix::net::UnixListener::bind(&paths.socket).unwrap();
        tokio::time::timeout(SOCKET_CHECK_INTERVAL * 2, displaced).await.unwrap();
        // Nothing there to begin with: somebody handed over a socket from elsewhere.
        let never = until_displaced(&paths, None);
        assert!(tokio::time::timeout(SOCKET_CHECK_INTERVAL * 3, never).await.is_err());
    }
}
