//! One accepted connection: who is at the other end, and the session that it keeps alive.

use std::sync::{Arc, OnceLock};

use super::listener::{Peer, PeerAddress};
use super::tcp_connections::ConnectionSlot;
use crate::session::Session;
use crate::state::Daemon;

/// Connections of one session: more than a shim needs, and few enough to leave room for others.
const SESSION_CONNECTIONS: usize = 256;

/// One connection, as the routes see it.
#[derive(Debug)]
pub(super) struct AcceptedConnection {
    peer: Peer,
    /// Only on TCP.
    slot: Option<ConnectionSlot>,
    daemon: Arc<Daemon>,
    session: OnceLock<Arc<Session>>,
}

impl AcceptedConnection {
    pub(super) fn new(peer: Peer, slot: Option<ConnectionSlot>, daemon: Arc<Daemon>) -> Self {
        Self { peer, slot, daemon, session: OnceLock::new() }
    }

    pub(super) fn peer_address(&self) -> &PeerAddress {
        &self.peer.address
    }

    pub(super) fn peer_pid(&self) -> Option<u32> {
        self.peer.pid
    }

    /// The session that this connection keeps alive.
    pub(super) fn session(&self) -> Option<&Arc<Session>> {
        self.session.get()
    }

    /// Makes this connection keep `session` alive. False if the session has too many connections.
    pub(super) fn attach_session(&self, session: &Arc<Session>) -> bool {
        if self.session.get().is_none() && self.session.set(session.clone()).is_ok() {
            session.add_connection();
        }
        session.connections() <= SESSION_CONNECTIONS
    }

    /// Notes that a request on this connection carried a token.
    pub(super) fn token_accepted(&self) {
        if let Some(place) = &self.slot {
            place.token_accepted();
        }
    }

    /// Resolves when a tokenless TCP connection must be closed; never on the unix socket.
    pub(super) async fn wait_until_over(&self) {
        match &self.slot {
            Some(place) => place.wait_until_over().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for AcceptedConnection {
    fn drop(&mut self) {
        if let Some(session) = self.session.get() {
            self.daemon.on_disconnected(session);
        }
    }
}
