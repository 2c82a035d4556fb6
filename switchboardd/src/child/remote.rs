//! A child that runs elsewhere, reached by HTTP. For everybody else it is a child like any other: calls are
//! registered in the same table, what it says is sorted by the same code.
//!
//! One task owns the connection (`live`): it is told what to send, gives each message a task of its own, and ends
//! them all when the child is to stop. `post.rs` is one message and what comes of it, `shake.rs` finds out how the
//! server is spoken with, `stream.rs` listens to what it says unasked, `old_sse.rs` is the transport of 2024-11-05.
//! `client.rs` knows HTTP, credentials and redirects; `address.rs`, `headers.rs` and `sse.rs` are pure.

mod address;
pub mod auth;
mod client;
pub(crate) mod dialer;
mod failure;
mod headers;
mod inbound;
mod old_sse;
mod post;
mod shake;
mod sse;
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
pub use dialer::{Dialer, root_cause};
pub use failure::RemoteError;

use super::life::Mourner;
use super::outbox::Unsent;
use super::way::{Way, cancelled};
use super::{Child, ChildError, ChildId, Ground, Hello, Manner, Place, StartError, StderrRing, Tie};
use crate::caller::Caller;
use crate::definition::{Destination, Transport};
use client::{Client, Outgoing};

/// Orders that may wait for the task that carries them out. It never waits itself, so they are those of one moment:
/// half of it for messages, the other half so that what was sent can always be taken back.
const ORDERS: usize = 1024;

/// How long a legacy server may take to end the answer to a call that was taken back.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// How long a server may take to hear that we are going.
const GOODBYE: Duration = Duration::from_secs(1);

/// What the one task is told.
#[derive(Debug)]
enum Order {
    Ask {
        id: ChildId,
        body: Bytes,
    },
    /// A notification, or an answer to a question.
    Tell {
        body: Bytes,
    },
    Cancel {
        id: ChildId,
        tell: bool,
    },
}

/// Notifications and answers to one server that are on their way at a time, each on a connection.
const TELLS: usize = 96;

/// The handle to a connection.
pub(super) struct Line {
    link: Arc<Link>,
    orders: mpsc::Sender<Order>,
    closed: AtomicBool,
}

/// What all messages of one child share.
#[derive(Debug)]
struct Link {
    client: Client,
    transport: Transport,
    // A leaf lock: held to copy or change it.
    talk: Mutex<Talk>,
    /// Held by whoever shakes hands anew; all others wait for it.
    turn: tokio::sync::Mutex<()>,
    /// Who reads what the server says unasked: one at a time.
    // A leaf lock: held to replace the handle.
    listener: Mutex<Option<AbortHandle>>,
}

/// How far the conversation is.
#[derive(Debug, Clone)]
struct Talk {
    manner: Manner,
    /// What was agreed on, with a legacy server.
    revision: Option<&'static str>,
    session: Option<HeaderValue>,
    /// Where messages go, if that is another address.
    endpoint: Option<Url>,
}

impl Default for Talk {
    fn default() -> Self {
        Self { manner: Manner::Legacy, revision: None, session: None, endpoint: None }
    }
}

pub(super) async fn bring_up(
    name: &str,
    to: &Destination,
    ground: &Ground<'_>,
    tie: Tie,
    place: Place,
    ring: Arc<StderrRing>,
) -> Result<Arc<Child>, ChildError> {
    let url = address(to).map_err(|why| ChildError::Unusable { why: format!("is misconfigured: {why}") })?;
    let http = ground.dialer.client(&url, ground.variables).await?;
    let authorizer = ground.logins.of(name, &url, &to.shown);
    let client = Client::new(http, url, to, authorizer)?;
    let link = Arc::new(Link {
        client,
        transport: to.transport,
        talk: Mutex::default(),
        turn: tokio::sync::Mutex::default(),
        listener: Mutex::default(),
    });
    let (orders, waiting) = mpsc::channel(ORDERS);
    let line = Line { link: link.clone(), orders, closed: AtomicBool::new(false) };
    let number = ground.dialer.number();
    let child = Arc::new(Child::new(name, number, None, Way::Remote(line), ground, tie, ring));
    ground.roster.enter(&child, place);
    let mourner = Mourner { child: child.clone(), roster: ground.roster.clone() };
    tokio::spawn(live(child.clone(), link, waiting, mourner));
    Ok(child)
}

/// Carries out orders until the child is to stop.
async fn live(child: Arc<Child>, link: Arc<Link>, mut orders: mpsc::Receiver<Order>, mourner: Mourner) {
    tokio::spawn({
        let child = child.clone();
        async move { child.watch_clock().await }
    });
    let tells = Arc::new(Semaphore::new(TELLS));
    let mut posts = Posts { child: &child, link: &link, tasks: JoinSet::new(), open: HashMap::new(), tells };
    loop {
        tokio::select! {
            () = child.stopped() => break,
            order = orders.recv() => match order {
                Some(order) => posts.carry_out(order),
                None => break,
            },
            Some(ended) = posts.tasks.join_next() => posts.forget(ended.unwrap_or(None)),
        }
    }
    drop(posts);
    // It may have been given up for a reason of its own.
    let _ = child.ending.set(ChildError::Stopped);
    match child.why_ended() {
        ChildError::Stopped => tracing::info!(target: "child", child = &*child.name, "left"),
        ending => tracing::warn!(target: "child", child = &*child.name, "{ending}"),
    }
    child.end();
    let _ = timeout(GOODBYE, link.say_goodbye()).await;
    drop(mourner);
}

/// Messages on their way. Dropping this ends them.
struct Posts<'a> {
    child: &'a Arc<Child>,
    link: &'a Arc<Link>,
    tasks: JoinSet<Option<ChildId>>,
    open: HashMap<u64, AbortHandle>,
    tells: Arc<Semaphore>,
}

impl Posts<'_> {
    fn carry_out(&mut self, order: Order) {
        let (child, link) = (self.child.clone(), self.link.clone());
        match order {
            Order::Ask { id, body } => {
                let ask = async move {
                    post::ask(&child, &link, id, body).await;
                    Some(id)
                };
                let handle = self.tasks.spawn(ask);
                self.open.insert(id.0, handle);
            }
            Order::Tell { body } => {
                let Ok(place) = self.tells.clone().try_acquire_owned() else {
                    // It asks faster than it hears the answers.
                    return child.count_noise(&Malformed::NotMessage("more questions than it takes answers"));
                };
                self.tasks.spawn(async move {
                    let _place = place;
                    post::tell(&child, &link, body).await;
                    None
                });
            }
            Order::Cancel { id, tell } => self.cancel(id, tell),
        }
    }

    /// A modern server hears of it by the end of the connection, a legacy one in words.
    fn cancel(&mut self, id: ChildId, tell: bool) {
        let post = self.open.remove(&id.0);
        if self.link.talk().manner == Manner::Modern || !tell {
            return post.iter().for_each(AbortHandle::abort);
        }
        let (child, link) = (self.child.clone(), self.link.clone());
        self.tasks.spawn(async move {
            post::tell(&child, &link, cancelled(id).into_bytes().into()).await;
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

impl Line {
    /// Sends one message, which ends with a line break.
    pub(super) fn send(&self, id: Option<ChildId>, mut line: Vec<u8>) -> Result<(), Unsent> {
        if !self.is_open() {
            return Err(Unsent::Closed);
        }
        line.pop();
        let body = Bytes::from(line);
        let order = match id {
            Some(id) if self.orders.capacity() > ORDERS / 2 => Order::Ask { id, body },
            Some(_) => return Err(Unsent::Full),
            None => Order::Tell { body },
        };
        self.orders.try_send(order).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => Unsent::Full,
            mpsc::error::TrySendError::Closed(_) => Unsent::Closed,
        })
    }

    pub(super) fn cancel(&self, id: ChildId, tell: bool) {
        let _ = self.orders.try_send(Order::Cancel { id, tell });
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Relaxed) && !self.orders.is_closed()
    }

    pub(super) fn manner(&self) -> Manner {
        self.link.talk().manner
    }

    /// The first words with the server.
    pub(super) async fn shake(
        &self,
        child: &Arc<Child>,
        remembered: Option<Manner>,
    ) -> Result<Hello, StartError> {
        let shaken = shake::shake(child, &self.link, remembered).await;
        Ok(shaken.map_err(|error| self.link.told(error))?)
    }

    /// Listens to what it says without being asked.
    pub(super) fn listen(&self, child: &Arc<Child>) {
        stream::begin(child, &self.link);
    }
}

impl Link {
    /// An error without what was filled into the URL or the headers.
    fn told(&self, error: ChildError) -> ChildError {
        match error {
            ChildError::Remote(error) => error.without_values(&self.client.shown).into(),
            ChildError::Unusable { why } => {
                ChildError::Unusable { why: self.client.shown.hide(&why).into_owned() }
            }
            other => other,
        }
    }

    fn talk(&self) -> Talk {
        self.talk.lock().expect("BUG: a copy panicked").clone()
    }

    fn change(&self, change: impl FnOnce(&mut Talk)) {
        change(&mut self.talk.lock().expect("BUG: a change panicked"));
    }

    /// Posts a message to where this conversation has its messages go.
    async fn post(
        &self,
        talk: &Talk,
        headers: HeaderMap,
        body: Bytes,
        caller: Option<Arc<Caller>>,
    ) -> Result<Response, RemoteError> {
        let url = talk.endpoint.as_ref().unwrap_or(&self.client.url).clone();
        self.client.send(Outgoing { method: Method::POST, url, headers, body, caller }).await
    }

    /// Opens a stream of the server.
    async fn get(&self, headers: HeaderMap) -> Result<Response, RemoteError> {
        let (url, body) = (self.client.url.clone(), Bytes::new());
        self.client.send(Outgoing { method: Method::GET, url, headers, body, caller: None }).await
    }

    /// A legacy server may forget the session.
    async fn say_goodbye(&self) {
        let talk = self.talk();
        if talk.session.is_none() {
            return;
        }
        let mut headers = HeaderMap::new();
        headers::of_session(&talk, &mut headers);
        let (url, body) = (self.client.url.clone(), Bytes::new());
        let farewell = Outgoing { method: Method::DELETE, url, headers, body, caller: None };
        let _ = self.client.send(farewell).await;
    }
}
