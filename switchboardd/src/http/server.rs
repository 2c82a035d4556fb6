//! Connections: where they come in, how many there may be, and which session they keep alive.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use http_body_util::Either;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use switchboard_wire::lazy_stream::LazyUnixStream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tower::ServiceExt;

use super::fast_path::FastPath;
use super::tcp_connections::{ConnectionSlot, TcpConnections};
use crate::daemon_state::Daemon;
use crate::reload::Reloader;
use crate::session::Session;

/// On TCP anybody on the machine can connect: heads must come soon and be short.
const TCP_HEAD_TIME: Duration = Duration::from_secs(5);
const HEAD_BYTES: usize = 16 * 1024;
/// On the unix socket only the owner can: many shims with many calls each.
const SOCKET_CONNECTIONS: usize = 2048;
/// Of these, as many as one session may have: more than any shim needs, and few enough that others find a place.
const SESSION_CONNECTIONS: usize = 256;

/// After a failed accept (no descriptors left, say), how long to leave it.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where a connection came from.
#[derive(Debug, Clone)]
pub(super) enum PeerAddress {
    Unix,
    Tcp(SocketAddr),
}

/// One connection, as the routes see it.
#[derive(Debug)]
pub(super) struct AcceptedConnection {
    peer_address: PeerAddress,
    /// The process at the other end, if it is on the socket.
    peer_pid: Option<u32>,
    /// On TCP.
    slot: Option<ConnectionSlot>,
    daemon: Arc<Daemon>,
    session: OnceLock<Arc<Session>>,
}

impl AcceptedConnection {
    pub(super) fn peer_address(&self) -> &PeerAddress {
        &self.peer_address
    }

    /// The process at the other end.
    pub(super) fn peer_pid(&self) -> Option<u32> {
        self.peer_pid
    }

    /// The session that this connection keeps alive.
    pub(super) fn session(&self) -> Option<&Arc<Session>> {
        self.session.get()
    }

    /// From now on this connection keeps `session` alive. False if that has more connections than one may have.
    pub(super) fn attach_session(&self, session: &Arc<Session>) -> bool {
        if self.session.get().is_none() && self.session.set(session.clone()).is_ok() {
            session.connected();
        }
        session.connections() <= SESSION_CONNECTIONS
    }

    /// A request on it carried a token.
    pub(super) fn token_accepted(&self) {
        if let Some(place) = &self.slot {
            place.token_accepted();
        }
    }

    /// Resolves when a connection has to go that anybody can hold.
    async fn wait_until_over(&self) {
        match &self.slot {
            Some(place) => place.wait_until_over().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for AcceptedConnection {
    fn drop(&mut self) {
        if let Some(session) = self.session.get() {
            self.daemon.disconnected(session);
        }
    }
}

pub enum Listener {
    Socket(UnixListener),
    Tcp(TcpListener),
}

/// All listeners and the connections that came through them.
pub struct HttpServer {
    daemon: Arc<Daemon>,
    reloader: Arc<Reloader>,
    /// Made when somebody first asks for a route that is not the shim's.
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
                () = server.clone().accept(&listener) => {}
                _ = closed.wait_for(|closed| *closed) => {}
            }
        });
    }

    /// Takes no new connections and no further requests on old ones; resolves when all are gone.
    pub async fn close(&self) {
        self.close.send_replace(true);
        let mut tasks = std::mem::take(&mut *self.tasks.lock().expect("BUG: a spawn panicked"));
        while tasks.join_next().await.is_some() {}
    }

    async fn accept(self: Arc<Self>, listener: &Listener) {
        let sockets = Arc::new(Semaphore::new(SOCKET_CONNECTIONS));
        let tcp_connections = TcpConnections::new();
        let own_uid = rustix::process::geteuid().as_raw();
        loop {
            let accepted = match listener {
                Listener::Socket(listener) => {
                    let Ok(place) = sockets.clone().acquire_owned().await else { return };
                    match listener.accept().await {
                        // Modes keep others out; this holds even where somebody changed them.
                        Ok((stream, _)) => match stream.peer_cred().ok().filter(|peer| peer.uid() == own_uid)
                        {
                            Some(peer) => {
                                let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
                                let connection = self.connection(PeerAddress::Unix, pid, None);
                                LazyUnixStream::new(stream)
                                    .map(|stream| self.spawn_serving(stream, connection, place))
                            }
                            None => {
                                tracing::warn!(target: "http", "another user's connection to the socket was refused");
                                Ok(())
                            }
                        },
                        Err(error) => Err(error),
                    }
                }
                Listener::Tcp(listener) => match (listener.accept().await, listener.local_addr()) {
                    (Ok((stream, _)), Ok(address)) => {
                        let _ = stream.set_nodelay(true);
                        let connection = self.connection(
                            PeerAddress::Tcp(address),
                            None,
                            Some(tcp_connections.take().await),
                        );
                        self.spawn_serving(stream, connection, ());
                        Ok(())
                    }
                    (Err(error), _) | (_, Err(error)) => Err(error),
                },
            };
            if let Err(error) = accepted {
                tracing::warn!(target: "http", "a connection could not be accepted: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }

    fn connection(
        &self,
        peer_address: PeerAddress,
        peer_pid: Option<u32>,
        slot: Option<ConnectionSlot>,
    ) -> Arc<AcceptedConnection> {
        Arc::new(AcceptedConnection {
            peer_address,
            peer_pid,
            slot,
            daemon: self.daemon.clone(),
            session: OnceLock::new(),
        })
    }

    /// `place`: held for as long as the connection is.
    fn spawn_serving(
        self: &Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        connection: Arc<AcceptedConnection>,
        place: impl Send + 'static,
    ) {
        let server = self.clone();
        self.spawn(async move {
            let _place = place;
            server.serve(stream, connection).await;
        });
    }

    async fn serve(
        self: Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        connection: Arc<AcceptedConnection>,
    ) {
        let mut http = http1::Builder::new();
        // On the socket nobody needs to be told the time.
        http.max_buf_size(HEAD_BYTES).auto_date_header(!matches!(connection.peer_address, PeerAddress::Unix));
        if let PeerAddress::Tcp(_) = connection.peer_address {
            // Also closes idle connections after that time, which on the unix socket would race with
            // a shim's next call: there is no such limit there.
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
                let answer: Result<_, Infallible> = server.app().oneshot(request).await;
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
        // Ended ones are let go as new ones come, so that the set does not grow.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}
