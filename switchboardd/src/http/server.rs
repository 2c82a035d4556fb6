//! Accepts connections, limits their number, and serves the requests of each.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use http_body_util::Either;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tower::ServiceExt;

use super::connection::AcceptedConnection;
use super::fast_path::FastPath;
use super::listener::{Listener, Peer, PeerAddress, Stream};
use super::tcp_connections::{ConnectionSlot, TcpConnections};
use crate::reload::Reloader;
use crate::state::Daemon;

/// Any local user can connect over TCP, so request heads must be short and arrive soon.
const TCP_HEAD_TIME: Duration = Duration::from_secs(5);
const HEAD_BYTES: usize = 16 * 1024;
/// Only the owner can connect to the unix socket; there may be many shims with many calls each.
const SOCKET_CONNECTIONS: usize = 2048;

/// Pause after a failed accept, e.g. when no descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// All listeners and their connections.
pub struct HttpServer {
    daemon: Arc<Daemon>,
    reloader: Arc<Reloader>,
    /// Built for the first request that the fast path does not handle.
    app: OnceLock<Router>,
    close: watch::Sender<bool>,
    tasks: Mutex<JoinSet<()>>,
}

impl HttpServer {
    pub fn new(daemon: Arc<Daemon>, reloader: Arc<Reloader>) -> Arc<Self> {
        Arc::new(Self {
            daemon,
            reloader,
            app: OnceLock::new(),
            close: watch::Sender::new(false),
            tasks: Mutex::default(),
        })
    }

    fn app(&self) -> Router {
        self.app.get_or_init(|| super::app(&self.daemon, &self.reloader)).clone()
    }

    /// Accepts until the server closes.
    pub fn serve_listener(self: &Arc<Self>, listener: Listener) {
        let server = self.clone();
        self.spawn(async move {
            let mut closed = server.close.subscribe();
            tokio::select! {
                () = server.clone().accept(listener) => {}
                _ = closed.wait_for(|closed| *closed) => {}
            }
        });
    }

    /// Stops accepting connections and requests; resolves when all connections are closed.
    pub async fn close(&self) {
        self.close.send_replace(true);
        let mut tasks = std::mem::take(&mut *self.tasks.lock().expect("BUG: a spawn panicked"));
        while tasks.join_next().await.is_some() {}
    }

    async fn accept(self: Arc<Self>, mut listener: Listener) {
        let sockets = Arc::new(Semaphore::new(SOCKET_CONNECTIONS));
        let tcp_connections = TcpConnections::new();
        let own_uid = rustix::process::geteuid().as_raw();
        loop {
            let mut place = None;
            if listener.is_socket() {
                let Ok(free) = sockets.clone().acquire_owned().await else { return };
                place = Some(free);
            }
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(target: "http", "a connection could not be accepted: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let slot = match peer.address {
                // The socket's file mode keeps other users out. This check holds even if the mode was
                // changed.
                PeerAddress::Unix if peer.uid != Some(own_uid) => {
                    tracing::warn!(target: "http", "another user's connection to the socket was refused");
                    continue;
                }
                PeerAddress::Unix => None,
                PeerAddress::Tcp(_) => Some(tcp_connections.take().await),
            };
            let connection = self.connection(peer, slot);
            self.spawn_serving(stream, connection, place);
        }
    }

    fn connection(&self, peer: Peer, slot: Option<ConnectionSlot>) -> Arc<AcceptedConnection> {
        Arc::new(AcceptedConnection::new(peer, slot, self.daemon.clone()))
    }

    /// Holds `place` as long as the connection lives.
    fn spawn_serving(
        self: &Arc<Self>,
        stream: Stream,
        connection: Arc<AcceptedConnection>,
        place: Option<OwnedSemaphorePermit>,
    ) {
        let server = self.clone();
        self.spawn(async move {
            let _place = place;
            server.serve(stream, connection).await;
        });
    }

    async fn serve(self: Arc<Self>, stream: Stream, connection: Arc<AcceptedConnection>) {
        let mut http = http1::Builder::new();
        // Shims do not need a `Date` header.
        http.max_buf_size(HEAD_BYTES)
            .auto_date_header(!matches!(connection.peer_address(), PeerAddress::Unix));
        if let PeerAddress::Tcp(_) = connection.peer_address() {
            // This also closes idle connections, which on the unix socket would race with a shim's next call,
            // so there is no such limit there.
            http.timer(TokioTimer::new()).header_read_timeout(TCP_HEAD_TIME);
        }
        let (server, own) = (self.clone(), connection.clone());
        let answer = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
            let (server, connection) = (server.clone(), connection.clone());
            async move {
                if let Some(short) = FastPath::of(&request) {
                    return Ok(short.answer(&server.daemon, &connection, request).await);
                }
                let mut request: Request = request.map(axum::body::Body::new);
                request.extensions_mut().insert(connection);
                // Boxed, so that it does not enlarge the state of every other request.
                let answer: Result<_, Infallible> = Box::pin(server.app().oneshot(request)).await;
                answer.map(|answer| answer.map(Either::Right))
            }
        });
        let connection = http.serve_connection(TokioIo::new(stream), answer);
        tokio::pin!(connection);
        let mut closed = self.close.subscribe();
        tokio::select! {
            _ = connection.as_mut() => return,
            () = own.wait_until_over() => return,
            _ = closed.wait_for(|closed| *closed) => connection.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            _ = connection => {}
            () = own.wait_until_over() => {}
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().expect("BUG: a spawn panicked");
        // Reap finished tasks, so that the set does not grow.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}
