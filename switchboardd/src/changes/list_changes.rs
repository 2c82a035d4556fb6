//! Notifies hosts of changed lists: each host learns of the lists that it sees, and of each change once.
//!
//! Code that may have changed a list calls `notify`: a reload, a child, a session that changes its workspace.
//! Fingerprints show which lists did change, so no host is notified of an unchanged list.

use std::sync::Arc;
use std::time::Duration;

use switchboard_mcp::methods;
use switchboard_wire::event_loop::try_run_blocking;
use switchboard_wire::rpc;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::caller::mailbox::MessageKind;
use crate::catalog::workspace::Workspaces;
use crate::catalog::{Catalog, ListFingerprints};
use crate::changes::listen_requests::ListenRequests;
use crate::session::{Session, Sessions};

/// Changes come in bursts; hosts are notified once.
const DEBOUNCE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct ListChanges {
    /// The open listen requests.
    pub listen_requests: ListenRequests,
    /// Notified when a list may have changed, by children too.
    changed: Arc<Notify>,
}

impl ListChanges {
    pub fn new(changed: Arc<Notify>) -> Self {
        Self { listen_requests: ListenRequests::default(), changed }
    }

    /// Call this when a list may have changed.
    pub fn notify(&self) {
        self.changed.notify_one();
    }

    /// Notifies hosts of changed lists, while it is polled.
    pub async fn run(&self, sessions: &Sessions, workspaces: &Workspaces) {
        let mut again = None;
        loop {
            let delayed = async {
                match again {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.changed.notified() => tokio::time::sleep(DEBOUNCE).await,
                () = delayed => {}
            }
            prepare_tools(workspaces).await;
            // Lists and fingerprints change in one turn of the event loop: no host sees a list that it is
            // notified of later.
            again = renew_tools(workspaces);
            self.listen_requests.notify_changes();
            for session in sessions.all() {
                notify_changes(&session);
                // Looking at thousands of servers for each of many sessions takes a while.
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Lets another thread format what is now known about the servers of all workspaces.
async fn prepare_tools(workspaces: &Workspaces) {
    let all: Vec<Arc<Catalog>> = catalogs(workspaces).collect();
    // What was not formatted, the event loop formats.
    let _ = try_run_blocking(move || all.iter().for_each(|catalog| catalog.prepare_tools())).await;
}

/// Adopts what is now known about the servers of all workspaces. Returns when to do it again.
fn renew_tools(workspaces: &Workspaces) -> Option<Instant> {
    catalogs(workspaces).filter_map(|catalog| catalog.renew_tools(Instant::now())).min()
}

fn catalogs(workspaces: &Workspaces) -> impl Iterator<Item = Arc<Catalog>> {
    let all = workspaces.all().into_iter().chain([workspaces.personal.clone()]);
    let all = all.map(|workspace| workspace.catalog());
    all.flat_map(|catalog| {
        let of_hosts: Vec<_> = catalog.of_hosts().map(|(_, of_host)| of_host.clone()).collect();
        std::iter::once(catalog).chain(of_hosts)
    })
}

/// Notifies a session's host of the lists that changed since it was last shown or notified of them.
fn notify_changes(session: &Session) {
    let Some(before) = session.fingerprints() else { return };
    let now = before.refreshed(&session.catalog(), session.face.child());
    let changed = now.changed_lists(&before, session.caller.profile().reads_tool_meta());
    session.set_fingerprints(now);
    if !changed.is_empty() && gets_unrequested_changes(session) {
        changed.into_iter().for_each(|method| push_changed(session, method));
    }
}

/// Call this when a session's host said who it is: it may see other suites than were assumed.
pub fn note_host(session: &Session) {
    if session.face.child().is_none()
        && session.fingerprints().is_some()
        && !session.workspace().catalog().is_for_all()
    {
        session.set_fingerprints(ListFingerprints::of_tools(&session.catalog()));
    }
}

/// Call this when the host was shown prompts, resources or a child's lists: from the first time on, it is
/// notified of their changes.
pub fn note_shown(session: &Session) {
    let before = session.fingerprints();
    if session.caller.mailbox().is_none() || before.as_ref().is_some_and(ListFingerprints::has_offers) {
        return;
    }
    let now = ListFingerprints::of_face(&session.catalog(), session.face.child());
    session.set_fingerprints(match before {
        Some(before) => before.with_offers_of(now),
        None => now,
    });
}

/// Notifies a session that all its lists have changed.
pub fn notify_all_lists_changed(session: &Session) {
    if gets_unrequested_changes(session) {
        push_changed(session, methods::TOOLS_CHANGED);
    }
    if session.caller.profile().revision.is_some() {
        push_changed(session, methods::PROMPTS_CHANGED);
        push_changed(session, methods::RESOURCES_CHANGED);
    }
}

/// A modern host gets only the notifications that it subscribed to.
fn gets_unrequested_changes(session: &Session) -> bool {
    let host = session.caller.profile();
    !host.is_modern || host.revision.is_some()
}

fn push_changed(session: &Session, method: &'static str) {
    session.caller.push(MessageKind::Changed(method), rpc::notification(method, None));
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::catalog::layer::Locations;
    use crate::child::RunLog;
    use crate::face::Face;
    use crate::reload::{ReloadCause, Reloader};
    use crate::state::Daemon;
    use switchboard_definitions::config::Config;

    fn define(work: &Path, name: &str) {
        std::fs::create_dir_all(work.join("mcps").join(name)).unwrap();
        let text = format!(r#"{{"name": "{name}", "command": {{"cmd": "true"}}}}"#);
        std::fs::write(work.join("mcps").join(name).join(".mcp.json"), text).unwrap();
    }

    /// The messages that this session's host gets within a short time; `after` is the number of the last
    /// message that it read.
    async fn hears(daemon: &Daemon, session: &Session, after: &mut u64) -> Vec<String> {
        let changes = daemon.list_changes.run(&daemon.sessions, &daemon.workspaces);
        let _ = tokio::time::timeout(DEBOUNCE * 4, changes).await;
        let Some(batch) = session.caller.mailbox().unwrap().take(*after) else { return Vec::new() };
        *after = batch.next;
        batch.messages.iter().map(|message| String::from_utf8_lossy(message).into_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_hears_once_of_tools_that_a_reload_changed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (home, work) = (root.join("home"), root.join("work"));
        std::fs::create_dir_all(&home).unwrap();
        define(&work, "a");
        let locations = Locations::new(&home, &root.join("state"), std::slice::from_ref(&work));
        let (config, run_log) = (Config::defaults(&home), RunLog::unwritten());
        let daemon = Daemon::new(home.join("c"), config, locations, String::new(), run_log);
        let reloader = Reloader::new(&daemon);
        let workspace = daemon.workspace_loader.workspace(Some(&work)).await;
        let open = || Session::open(&daemon.run_id, &workspace, None, Face::Aggregate);
        let (legacy, modern) = (open(), open());
        modern.caller.update(|host| host.is_modern = true);
        [&legacy, &modern].into_iter().for_each(|session| daemon.sessions.insert(session));
        reloader.reload(ReloadCause::Requested).await;
        let (mut taken, mut taken_by_modern) = (0, 0);
        assert!(hears(&daemon, &legacy, &mut taken).await.is_empty(), "its list is as it was");
        define(&work, "b");
        reloader.reload(ReloadCause::FileEvent).await;
        // The host is first shown prompts before it is notified of the tools.
        note_shown(&legacy);
        let heard = hears(&daemon, &legacy, &mut taken).await;
        assert_eq!(heard, [r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#]);
        daemon.list_changes.notify();
        assert!(hears(&daemon, &legacy, &mut taken).await.is_empty());
        assert!(hears(&daemon, &modern, &mut taken_by_modern).await.is_empty(), "it does not listen");
    }
}
