//! A remote child, reached over HTTP. To the rest of the daemon it is a child like any other: its calls are
//! in the same table, and its messages are dispatched by the same code.
//!
//! One task owns the connection (`run`): it receives commands, gives each message a task of its own, and ends
//! them all when the child is told to stop. `post.rs` sends a request and handles its response,
//! `notification.rs` sends a message that needs no answer,
//! `handshake.rs` finds out which protocol the server speaks, `stream.rs` reads a legacy server's own stream,
//! `old_sse.rs` is the transport of 2024-11-05. `client.rs` handles HTTP, credentials and redirects;
//! `address.rs`, `headers.rs` and `sse.rs` are pure.

mod address;
pub mod auth;
mod client;
mod failure;
mod handshake;
mod headers;
pub(crate) mod http_clients;
mod inbound;
mod notification;
mod old_sse;
mod post;
pub mod sse;
mod stream;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderValue};
use reqwest::{Method, Response, Url};
use switchboard_wire::envelope::Malformed;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

pub use address::{address, is_loopback};
pub use failure::RemoteError;
pub use http_clients::{HttpClients, root_cause};

use switchboard_definitions::definition::{ResolvedRemote, Transport};

use super::cancel_notification::cancelled;
use super::end_guard::EndGuard;
use super::outbox::OutboxError;
use super::{
    BudgetSlot, Child, ChildError, ChildId, ChildStart, Protocol, ServerInfo, StartDeps, StartError,
};
use crate::caller::Caller;
use client::{RemoteClient, RemoteRequest};

/// Capacity of the command queue. The task that executes commands never blocks, so this only has to hold a
/// burst. Requests use at most half of it, which leaves room to cancel them and for notifications.
const COMMAND_QUEUE: usize = 1024;

/// How long a legacy server may take to end the response to a cancelled call.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// How long the daemon waits for a server to end the session.
const DELETE_SESSION_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug)]
enum RemoteCommand {
    Request {
        id: ChildId,
        body: Bytes,
    },
    /// A notification, or an answer to a question.
    Notify {
        body: Bytes,
    },
    Cancel {
        id: ChildId,
        notify_child: bool,
    },
}

/// Limit of notifications and answers in flight to one server; each uses a connection.
const MAX_NOTIFICATIONS: usize = 96;

pub(super) struct RemoteHandle {
    connection: Arc<RemoteConnection>,
    commands: mpsc::Sender<RemoteCommand>,
    closed: AtomicBool,
}

/// State that all messages of one child share.
#[derive(Debug)]
struct RemoteConnection {
    client: RemoteClient,
    transport: Transport,
    // A leaf lock: held to copy or change it.
    state: Mutex<RemoteState>,
    /// Held during a new handshake; all other requests wait for it.
    handshake_lock: tokio::sync::Mutex<()>,
    /// The task that reads the server's own stream: one at a time.
    // A leaf lock: held to replace the handle.
    listener: Mutex<Option<AbortHandle>>,
}

/// What the handshake has agreed on so far.
#[derive(Debug, Clone)]
struct RemoteState {
    protocol: Protocol,
    /// The negotiated revision of a legacy server.
    revision: Option<&'static str>,
    session: Option<HeaderValue>,
    /// The URL that messages are posted to, if it is not the definition's.
    endpoint: Option<Url>,
}

impl Default for RemoteState {
    fn default() -> Self {
        Self { protocol: Protocol::Legacy, revision: None, session: None, endpoint: None }
    }
}

pub(super) async fn connect(
    start: &ChildStart<'_>,
    to: &ResolvedRemote,
    deps: &StartDeps<'_>,
    slot: BudgetSlot,
) -> Result<Arc<Child>, ChildError> {
    let url = address(to).map_err(|why| ChildError::Unusable { why: format!("is misconfigured: {why}") })?;
    let http = deps.http_clients.client(&url, deps.variables).await?;
    let authorizer = deps.logins.of(start.name, &url, &to.shown);
    let client = RemoteClient::new(http, url, to, authorizer)?;
    let connection = Arc::new(RemoteConnection {
        client,
        transport: to.transport,
        state: Mutex::default(),
        handshake_lock: tokio::sync::Mutex::default(),
        listener: Mutex::default(),
    });
    let (commands, waiting) = mpsc::channel(COMMAND_QUEUE);
    let handle = RemoteHandle { connection: connection.clone(), commands, closed: AtomicBool::new(false) };
    let number = deps.http_clients.number();
    let child = Arc::new(Child::new(start, deps, number, None, handle.into()));
    deps.registry.add(&child, slot);
    let end_guard = EndGuard { child: child.clone(), registry: deps.registry.clone() };
    tokio::spawn(run(child.clone(), connection, waiting, end_guard));
    Ok(child)
}

/// Executes commands until the child is told to stop.
async fn run(
    child: Arc<Child>,
    connection: Arc<RemoteConnection>,
    mut commands: mpsc::Receiver<RemoteCommand>,
    end_guard: EndGuard,
) {
    tokio::spawn({
        let child = child.clone();
        async move { child.run_timeouts().await }
    });
    let notification_slots = Arc::new(Semaphore::new(MAX_NOTIFICATIONS));
    let mut posts = InFlightPosts {
        child: &child,
        connection: &connection,
        tasks: JoinSet::new(),
        open: HashMap::new(),
        notification_slots,
    };
    loop {
        tokio::select! {
            () = child.lifecycle.stop_requested() => break,
            command = commands.recv() => match command {
                Some(command) => posts.execute(command),
                None => break,
            },
            Some(ended) = posts.tasks.join_next() => posts.forget(ended.unwrap_or(None)),
        }
    }
    drop(posts);
    // Has no effect if `give_up` has already set the reason.
    child.lifecycle.set_reason(ChildError::Stopped);
    match child.why_ended() {
        ChildError::Stopped => tracing::info!(target: "server", server = child.name(), "left"),
        ending => tracing::warn!(target: "server", server = child.name(), "{ending}"),
    }
    child.end();
    let _ = timeout(DELETE_SESSION_TIMEOUT, connection.delete_session()).await;
    drop(end_guard);
}

/// Messages in flight. Dropping this aborts them.
struct InFlightPosts<'a> {
    child: &'a Arc<Child>,
    connection: &'a Arc<RemoteConnection>,
    tasks: JoinSet<Option<ChildId>>,
    open: HashMap<u64, AbortHandle>,
    notification_slots: Arc<Semaphore>,
}

impl InFlightPosts<'_> {
    fn execute(&mut self, command: RemoteCommand) {
        let (child, connection) = (self.child.clone(), self.connection.clone());
        match command {
            RemoteCommand::Request { id, body } => {
                let ask = async move {
                    post::send_request(&child, &connection, id, body).await;
                    Some(id)
                };
                let handle = self.tasks.spawn(ask);
                self.open.insert(id.0, handle);
            }
            RemoteCommand::Notify { body } => {
                let Ok(place) = self.notification_slots.clone().try_acquire_owned() else {
                    // It asks faster than it accepts the answers.
                    return child.count_noise(&Malformed::NotMessage("more questions than it takes answers"));
                };
                self.tasks.spawn(async move {
                    let _place = place;
                    notification::send_notification(&child, &connection, body).await;
                    None
                });
            }
            RemoteCommand::Cancel { id, notify_child } => self.cancel(id, notify_child),
        }
    }

    /// Cancels a request: for a modern server by closing the connection, for a legacy one by a notification.
    fn cancel(&mut self, id: ChildId, notify_child: bool) {
        let post = self.open.remove(&id.0);
        if self.connection.state().protocol == Protocol::Modern || !notify_child {
            return post.iter().for_each(AbortHandle::abort);
        }
        let (child, connection) = (self.child.clone(), self.connection.clone());
        self.tasks.spawn(async move {
            notification::send_notification(&child, &connection, cancelled(id).into()).await;
            tokio::time::sleep(CANCEL_GRACE).await;
            post.iter().for_each(AbortHandle::abort);
            None
        });
    }

    fn forget(&mut self, ended: Option<ChildId>) {
        if let Some(id) = ended {
            self.open.remove(&id.0);
        }
    }
}

impl RemoteHandle {
    /// Sends one message, which ends with a line break.
    pub(super) fn send(&self, id: Option<ChildId>, mut line: Vec<u8>) -> Result<(), OutboxError> {
        if !self.is_open() {
            return Err(OutboxError::Closed);
        }
        line.pop();
        let body = Bytes::from(line);
        let command = match id {
            Some(id) if self.commands.capacity() > COMMAND_QUEUE / 2 => RemoteCommand::Request { id, body },
            Some(_) => return Err(OutboxError::Full),
            None => RemoteCommand::Notify { body },
        };
        self.commands.try_send(command).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => OutboxError::Full,
            mpsc::error::TrySendError::Closed(_) => OutboxError::Closed,
        })
    }

    pub(super) fn cancel(&self, id: ChildId, notify_child: bool) {
        let _ = self.commands.try_send(RemoteCommand::Cancel { id, notify_child });
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Relaxed) && !self.commands.is_closed()
    }

    pub(super) fn protocol(&self) -> Protocol {
        self.connection.state().protocol
    }

    pub(super) async fn handshake(
        &self,
        child: &Arc<Child>,
        remembered: Option<Protocol>,
    ) -> Result<ServerInfo, StartError> {
        let result = handshake::run(child, &self.connection, remembered).await;
        Ok(result.map_err(|error| self.connection.without_values(error))?)
    }

    /// Starts to read the server's own stream.
    pub(super) fn listen(&self, child: &Arc<Child>) {
        stream::begin(child, &self.connection);
    }
}

impl RemoteConnection {
    /// Redacts the values that were filled into the URL or the headers.
    fn without_values(&self, error: ChildError) -> ChildError {
        match error {
            ChildError::Remote(error) => error.without_values(&self.client.shown).into(),
            ChildError::Unusable { why } => {
                ChildError::Unusable { why: self.client.shown.redact(&why).into_owned() }
            }
            other => other,
        }
    }

    fn state(&self) -> RemoteState {
        self.state.lock().expect("BUG: a copy panicked").clone()
    }

    fn change(&self, change: impl FnOnce(&mut RemoteState)) {
        change(&mut self.state.lock().expect("BUG: a change panicked"));
    }

    /// Posts a message to the server's endpoint.
    async fn post(
        &self,
        state: &RemoteState,
        headers: HeaderMap,
        body: Bytes,
        caller: Option<Arc<Caller>>,
    ) -> Result<Response, RemoteError> {
        let url = state.endpoint.as_ref().unwrap_or(&self.client.url).clone();
        self.client.send(RemoteRequest { method: Method::POST, url, headers, body, caller }).await
    }

    /// Opens a stream of the server.
    async fn get(&self, headers: HeaderMap) -> Result<Response, RemoteError> {
        let (url, body) = (self.client.url.clone(), Bytes::new());
        self.client.send(RemoteRequest { method: Method::GET, url, headers, body, caller: None }).await
    }

    /// Ends the session at a legacy server.
    async fn delete_session(&self) {
        let state = self.state();
        if state.session.is_none() {
            return;
        }
        let mut headers = HeaderMap::new();
        headers::of_session(&state, &mut headers);
        let (url, body) = (self.client.url.clone(), Bytes::new());
        let request = RemoteRequest { method: Method::DELETE, url, headers, body, caller: None };
        let _ = self.client.send(request).await;
    }
}
