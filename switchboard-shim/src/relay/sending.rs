//! Sends waiting messages: chooses, numbers and posts them, each on its own connection.

use std::sync::Arc;

use bytes::Bytes;
use switchboard_wire::hop;
use tokio::time::Instant;

use super::calls::{LostConnection, SentMessage};
use super::posts::Ticket;
use super::{PostPurpose, PostResult, Relay};
use crate::fault::{Fault, MAX_TO_HOST};
use crate::mailbox::NO_DESCRIPTOR_PAUSE;
use crate::methods::{OutgoingKind, OutgoingMessage};
use crate::post::{DaemonRequest, post};
use crate::waiting::SendCapacity;

/// How many notifications may be in flight at once. Each takes a connection and is answered at once, in
/// order: more would only wait at the daemon, on connections that other messages need.
const NOTIFICATIONS: usize = 8;

impl Relay {
    /// Queues a message for [`Relay::pump`].
    pub(super) fn hold(&mut self, message: OutgoingMessage) {
        let owed = match &message.kind {
            OutgoingKind::Response { id } => self.questions.remove(id),
            OutgoingKind::Request { .. } | OutgoingKind::Notification(_) => false,
        };
        if let Err(full) = self.waiting.add(message, owed) {
            match (Fault::Busy { waiting: full.waiting }).answer(&full.refused) {
                Some(answer) => self.write(answer),
                None => self.notes.say("too many notifications are waiting; one was dropped"),
            }
        }
    }

    /// Sends every message that may be sent now.
    pub(super) fn pump(&mut self) {
        self.send_requeued();
        if self.waiting.is_empty() {
            return;
        }
        if let Some((fault, until)) = self.link.refusal() {
            while let Some(message) = self.waiting.overdue(until) {
                self.fail(&message, &fault);
            }
        }
        if self.link.is_asked_for(self.waiting.oldest()) {
            self.open_session();
        }
        while let Some(message) = self.next_to_send() {
            self.send(message);
        }
    }

    fn next_to_send(&mut self) -> Option<OutgoingMessage> {
        if !self.unsent.is_empty() {
            return None;
        }
        let session = self.link.session()?;
        loop {
            let message = if session.draining.is_some() {
                self.waiting.next_response()?
            } else if self.has_old_calls() {
                // Some of the old daemon's calls may have to be sent again, before these.
                return None;
            } else {
                let room = SendCapacity {
                    request: self.calls.requests() < self.max_in_flight,
                    notification: self.calls.notifications() < NOTIFICATIONS,
                };
                self.waiting.next(room)?
            };
            match &message.kind {
                OutgoingKind::Response { id } => {
                    if session.is_open_question(id) {
                        return Some(message);
                    }
                }
                OutgoingKind::Request { .. } | OutgoingKind::Notification(_) => return Some(message),
            }
        }
    }

    /// Whether calls are left that were sent on an earlier session.
    pub(super) fn has_old_calls(&self) -> bool {
        self.calls.any_before(self.link.session().map(|session| session.epoch))
    }

    fn send(&mut self, mut message: OutgoingMessage) {
        let session = self.link.session_mut().expect("BUG: a message was chosen without a session");
        session.seq += 1;
        let (epoch, seq) = (session.epoch, session.seq);
        message.tries = message.tries.saturating_add(1);
        let ticket = self.post(PostPurpose::Message(message.arrival), seq, message.body.clone());
        if let Some(ticket) = ticket {
            self.calls.insert(SentMessage::new(message, epoch, seq, ticket));
        }
    }

    /// Starts a POST on the current session.
    fn post(&mut self, purpose: PostPurpose, seq: u64, body: Bytes) -> Option<Ticket> {
        let session = self.link.session()?;
        let epoch = session.epoch;
        let request = DaemonRequest {
            path: hop::PROXY,
            session: Some(Arc::clone(&session.id)),
            seq: Some(seq),
            body,
            limit: MAX_TO_HOST,
        };
        let socket = Arc::clone(&session.socket);
        let idle = self.idle.take();
        Some(self.posts.start(async move {
            let (connection, outcome) = post(idle, &socket, &request).await;
            PostResult { purpose, epoch, seq, connection, outcome }
        }))
    }

    /// Sends a filler for this sequence number: the daemon takes a session's messages in order and may never
    /// have received this one.
    pub(super) fn fill_gap(&mut self, epoch: u64, seq: u64, body: Bytes) {
        if self.link.session().is_some_and(|session| session.epoch == epoch) {
            self.unsent.remove(&seq);
            self.post(PostPurpose::GapFiller { body: body.clone(), tries: 1 }, seq, body);
        }
    }

    /// Keeps an unsent POST and its sequence number until a connection is free or [`NO_DESCRIPTOR_PAUSE`] has
    /// passed.
    pub(super) fn requeue_unsent(&mut self, purpose: PostPurpose, seq: u64) {
        if let PostPurpose::Message(arrival) = purpose {
            // Cancelled in the meantime: its filler has been sent.
            if !self.calls.lose(arrival, LostConnection { at: None, sent: false }) {
                return;
            }
        }
        self.unsent.insert(seq, purpose);
        self.retry_unsent_at = Instant::now() + NO_DESCRIPTOR_PAUSE;
    }

    /// Retries unsent POSTs, lowest sequence number first: the daemon needs that one before all others.
    fn send_requeued(&mut self) {
        while !self.unsent.is_empty() {
            if self.idle.is_empty() {
                let now = Instant::now();
                if now < self.retry_unsent_at {
                    return;
                }
                self.retry_unsent_at = now + NO_DESCRIPTOR_PAUSE;
            }
            let (seq, purpose) = self.unsent.pop_first().expect("BUG: it was not empty");
            match purpose {
                PostPurpose::GapFiller { body, tries } => {
                    self.post(PostPurpose::GapFiller { body: body.clone(), tries }, seq, body);
                }
                PostPurpose::Message(arrival) => {
                    let Some(body) = self.calls.get(arrival).map(|call| call.message.body.clone()) else {
                        continue;
                    };
                    if let Some(ticket) = self.post(purpose, seq, body) {
                        self.calls.resume(arrival, ticket);
                    }
                }
            }
        }
    }
}
