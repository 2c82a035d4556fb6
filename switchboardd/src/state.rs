//! The daemon's state, shared by all routes. `reload.rs` keeps it current.

pub mod daemon_info;
mod gauges;
pub mod page_access;
mod page_bearers;
mod reload_requests;
mod shutdown;
mod workspace_loader;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use switchboard_wire::hop::Draining;
use tokio::sync::watch;
use tokio::time::Instant;

pub use gauges::collect_gauges;
pub use reload_requests::{Reload, ReloadRequests};
pub use shutdown::{Phase, Shutdown, Successor};
pub use workspace_loader::WorkspaceLoader;

use switchboard_definitions::config::Config;
use switchboard_mcp::log_level::LogLevel;

use crate::caller::{Caller, RunId};
use crate::catalog::Catalog;
use crate::catalog::layer::Locations;
use crate::catalog::workspace::{Workspace, Workspaces};
use crate::changes::list_changes::ListChanges;
use crate::child::value_resolver::ValueResolver;
use crate::child::{ChildRegistry, Launcher, RunLog, Runners};
use crate::oauth::Logins;
use crate::observe::metrics::series::EntryPoint;
use crate::pool::budget::Budget;
use crate::pool::manifest::Manifests;
use crate::pool::{ChildServices, Member, MemberRegistry};
use crate::record::CallRecorder;
use crate::savings::recorder::SavingsRecorder;
use crate::session::suspended_calls::SuspendedCalls;
use crate::session::{AbortReason, Disconnects, Session, Sessions};
use crate::state::daemon_info::DaemonInfo;
use crate::state::page_access::PageAccess;
use crate::system::shared_timer::SharedTimer;

/// How long a shim's session outlives its last connection.
const SESSION_LINGER: Duration = Duration::from_secs(2);

/// Over Streamable HTTP, a lone answer that is ready within this time is sent as JSON instead of a stream.
const JSON_WINDOW: Duration = Duration::from_millis(250);

/// How long a session over HTTP outlives its host's last contact.
const HTTP_SESSION: Duration = Duration::from_secs(90);

#[derive(Debug)]
pub struct Daemon {
    pub run_id: Arc<RunId>,
    pub shutdown: Shutdown,
    pub sessions: Arc<Sessions>,
    pub disconnects: Disconnects,
    pub services: ChildServices,
    /// What hosts called.
    pub call_recorder: Arc<CallRecorder>,
    /// Calls that wait for input from their hosts.
    pub suspended_calls: Arc<SuspendedCalls>,
    /// Notifies hosts of changed lists.
    pub list_changes: ListChanges,
    pub workspaces: Arc<Workspaces>,
    /// Loads workspaces and evicts them, with their pools.
    pub workspace_loader: Arc<WorkspaceLoader>,
    pub reload_requests: Arc<ReloadRequests>,
    pub token: String,
    /// Access for status pages in browsers.
    pub page_access: Arc<PageAccess>,
    pub started: Instant,
    pub config_file: PathBuf,
    /// How long answers over Streamable HTTP may take to be sent as JSON.
    pub json_window: Arc<SharedTimer>,
    /// Set once the daemon serves.
    pub info: OnceLock<DaemonInfo>,
}

impl Daemon {
    /// `config`: the parsed `config_file`.
    pub fn new(
        config_file: PathBuf,
        config: Config,
        locations: Locations,
        token: String,
        run_log: RunLog,
    ) -> Arc<Self> {
        Self::with_launcher(config_file, config, locations, token, run_log, Launcher::Processes)
    }

    /// Like `new`, but `launcher` starts the children.
    pub fn with_launcher(
        config_file: PathBuf,
        config: Config,
        locations: Locations,
        token: String,
        run_log: RunLog,
        launcher: Launcher,
    ) -> Arc<Self> {
        let registry = Arc::new(ChildRegistry::default());
        let members = Arc::new(MemberRegistry::default());
        let resolver = Arc::new(ValueResolver::new(&config.folder, &locations.state));
        let services = ChildServices {
            logins: Arc::new(Logins::new(&locations.state, &resolver)),
            value_resolver: resolver,
            budget: Arc::new(Budget::new(registry.clone(), members.clone())),
            registry,
            members,
            manifests: Manifests::new(&locations.state),
            run_log: Arc::new(run_log),
            runners: Arc::new(Runners::new(&locations.state, &config.folder)),
            launcher,
            lists_changed: Arc::default(),
            status_changed: Arc::default(),
            level: Arc::default(),
            http_clients: Arc::default(),
            metrics: Arc::default(),
            savings_recorder: SavingsRecorder::new(&locations.state),
        };
        services.budget.set(config.budget);
        services.logins.set(config.oauth.clone());
        let call_recorder = CallRecorder::new(&locations.state, &services.metrics, &services.status_changed);
        call_recorder.set_mode(config.record);
        let (sessions, reload_requests) = (Arc::default(), Arc::default());
        let (workspace_loader, workspaces) =
            WorkspaceLoader::new(config, locations, &services, &sessions, &reload_requests);
        let run_id = RunId::new();
        Arc::new(Self {
            suspended_calls: SuspendedCalls::new(run_id.name()),
            run_id,
            shutdown: Shutdown::default(),
            sessions,
            disconnects: Disconnects::default(),
            list_changes: ListChanges::new(services.lists_changed.clone()),
            services,
            call_recorder,
            workspaces,
            workspace_loader,
            reload_requests,
            token,
            page_access: Arc::default(),
            started: Instant::now(),
            config_file,
            json_window: SharedTimer::new(JSON_WINDOW),
            info: OnceLock::new(),
        })
    }

    /// The catalog without a workspace. Its config also holds the daemon-wide settings.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.workspaces.personal.catalog()
    }

    /// The session for sessionless requests about this workspace.
    pub fn anonymous_session(&self, workspace: &Arc<Workspace>) -> Arc<Session> {
        let is_loaded = || workspace.root.is_none() || self.workspaces.has(workspace);
        self.sessions.anonymous(workspace, is_loaded)
    }

    /// Notifies the children that a session owns that its host's roots changed.
    pub fn roots_changed(&self, caller: &Arc<Caller>) {
        for child in self.services.registry.all() {
            if child.is_owned_by(caller) {
                child.roots_changed();
            }
        }
    }

    /// True if a successor can take over without loss: no calls in flight or suspended in a child, no
    /// session-owned children, only shim sessions (they reconnect), no open login, and no outstanding request
    /// state that leads to a child.
    pub fn can_hand_over(&self) -> bool {
        let is_free = |child: &Arc<crate::child::Child>| child.in_flight() == 0 && !child.is_owned();
        let is_unused = |member: &Arc<Member>| member.leases() == 0 && !member.has_suspended_calls();
        self.shutdown.is_idle()
            && self.services.registry.all().iter().all(is_free)
            && self.services.members.all().iter().all(is_unused)
            && self.sessions.all().iter().all(|session| session.is_shims)
            && !self.services.logins.is_any_open()
            && !self.suspended_calls.may_be_retried()
    }

    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.shutdown.phase()
    }

    /// What shims must do when the daemon leaves; `None` while it serves.
    pub fn draining(&self) -> Option<Draining> {
        self.shutdown.draining()
    }

    /// Resolves when draining begins.
    pub async fn wait_for_drain(&self) -> Draining {
        self.shutdown.wait_for_drain().await
    }

    /// Counts a request. If `is_awaited`, it counts as in flight until [`Daemon::end_request`]. A draining
    /// daemon does not wait for the others, which stay open until their host ends them.
    pub fn begin_request(&self, is_awaited: bool) {
        if is_awaited {
            self.shutdown.request_began();
        } else {
            self.shutdown.count_request();
        }
        self.services.status_changed.notify();
    }

    /// An awaited request has ended.
    pub fn end_request(&self) {
        self.shutdown.request_ended();
        self.services.status_changed.notify();
    }

    /// Fails all requests that are still in flight.
    pub fn abort_all(&self) {
        let abort = |session: &Arc<Session>| session.abort_all(AbortReason::ShuttingDown);
        self.sessions.all_anonymous().iter().for_each(abort);
        self.sessions.all().iter().for_each(abort);
    }

    /// A connection of this session closed. If it was the last one, the session ends after `SESSION_LINGER`.
    pub fn on_disconnected(self: &Arc<Self>, session: &Arc<Session>) {
        if !session.remove_connection() {
            return;
        }
        let left = Instant::now();
        self.disconnects.note(session, left);
        let (daemon, session) = (self.clone(), session.clone());
        tokio::spawn(async move {
            tokio::time::sleep_until(left + SESSION_LINGER).await;
            // If the session reconnected and disconnected again, the later timer decides.
            if daemon.disconnects.is_latest(&session, left) && !session.is_connected() {
                daemon.disconnects.forget(&session);
                daemon.end(&session);
            }
        });
    }

    /// Ends a session and everything that it owns.
    pub fn end(&self, session: &Session) {
        tracing::debug!(target: "session", session = &session.id[..8], "ended");
        if self.sessions.remove(&session.id) {
            let via = if session.is_shims { EntryPoint::Shim } else { EntryPoint::Streamable };
            self.services.metrics.session_ended(via, session.opened.elapsed(), session.mail_dropped());
        }
        self.services.status_changed.notify();
        session.caller.close();
        let wanted = session.caller.usage().map_or(0, |usage| usage.processes());
        self.services.savings_recorder.remove_wanted_processes(wanted);
        self.suspended_calls.session_ended(&session.id);
        self.lower_log_level();
        session.workspace().touch();
        self.workspace_loader.pools.all().iter().for_each(|pool| pool.session_ended(&session.caller));
    }

    /// Ends a session over HTTP when its host has been silent for too long.
    pub async fn end_when_silent(self: Arc<Self>, session: Arc<Session>) {
        let Some(streams) = &session.streams else { return };
        let mut look = Instant::now() + HTTP_SESSION;
        loop {
            tokio::time::sleep_until(look).await;
            if self.sessions.get(&session.id).is_none() {
                return;
            }
            let now = Instant::now();
            // A call in flight counts as contact.
            let heard = streams.silent_since().filter(|_| session.in_flight() == 0).unwrap_or(now);
            look = heard + HTTP_SESSION;
            if look <= now {
                self.end(&session);
                streams.close();
                return;
            }
        }
    }

    /// A host set its log level: children log at the lowest level that any host wants, and each host gets
    /// what it asked for.
    pub fn apply_log_level(&self, caller: &Arc<Caller>) {
        self.set_log_level(Some(caller.profile().log_level));
    }

    /// A host has left: children may log less.
    fn lower_log_level(&self) {
        if self.services.level.lock().expect("BUG: a copy panicked").is_some() {
            self.set_log_level(None);
        }
    }

    fn set_log_level(&self, wanted: Option<LogLevel>) {
        let sessions = self.sessions.all();
        let levels = sessions.iter().map(|session| session.caller.profile().log_level);
        let level = levels.chain(wanted).min().unwrap_or_default();
        let before = self.services.level.lock().expect("BUG: a copy panicked").replace(level);
        if before != Some(level) {
            self.services.registry.all().iter().for_each(|child| child.set_level(level));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::face::Face;

    /// A daemon without servers.
    fn daemon() -> Arc<Daemon> {
        let folder = Path::new("/nonexistent");
        let locations = Locations::new(folder, folder, &[]);
        Daemon::new(folder.join("x"), Config::defaults(folder), locations, String::new(), RunLog::unwritten())
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_outlives_its_last_connection() {
        let daemon = daemon();
        let session = Session::open(&daemon.run_id, &daemon.workspaces.personal, None, Face::Aggregate);
        daemon.sessions.insert(&session);
        let come_and_go = || {
            session.add_connection();
            daemon.on_disconnected(&session);
        };
        let there = || daemon.sessions.get(&session.id).is_some();
        come_and_go();
        tokio::time::sleep(SESSION_LINGER * 3 / 4).await;
        come_and_go();
        tokio::time::sleep(SESSION_LINGER * 3 / 4).await;
        assert!(there());
        tokio::time::sleep(SESSION_LINGER / 2).await;
        assert!(!there());
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_over_http_ends_when_its_host_is_silent() {
        let daemon = daemon();
        let session = Session::over_http(&daemon.run_id, &daemon.workspaces.personal, Face::Aggregate);
        daemon.sessions.insert(&session);
        tokio::spawn(daemon.clone().end_when_silent(session.clone()));
        let there = || daemon.sessions.get(&session.id).is_some();
        let streams = session.streams.as_ref().unwrap();
        tokio::time::sleep(HTTP_SESSION * 3 / 4).await;
        streams.touch();
        let reading = streams.read(streams.own());
        tokio::time::sleep(HTTP_SESSION * 3).await;
        drop(reading);
        tokio::time::sleep(HTTP_SESSION * 3 / 4).await;
        assert!(there());
        tokio::time::sleep(HTTP_SESSION * 2).await;
        assert!(!there() && streams.own().mailbox.is_closed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_draining_daemon_waits_for_sessions_to_acknowledge() {
        let daemon = daemon();
        let (one, other) = (
            Session::open(&daemon.run_id, &daemon.workspaces.personal, None, Face::Aggregate),
            Session::open(&daemon.run_id, &daemon.workspaces.personal, None, Face::Aggregate),
        );
        for session in [&one, &other] {
            daemon.sessions.insert(session);
            session.add_connection();
        }
        let heard = tokio::spawn({
            let daemon = daemon.clone();
            async move { daemon.disconnects.wait_for_drain_acks(&daemon.sessions).await }
        });
        daemon.disconnects.ack_drain(&one);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!heard.is_finished());
        daemon.on_disconnected(&other);
        heard.await.unwrap();
    }
}
