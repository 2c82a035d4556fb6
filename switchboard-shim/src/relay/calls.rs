//! Messages sent to the daemon and not answered yet, by arrival. Pure: no clock, no I/O.
//!
//! The loop asks with every message whether there is room, whether calls of an earlier session are left and
//! whether one is lost. These are counted as calls come and go, never searched for.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::posts::Ticket;
use crate::methods::{HostMethod, OutgoingKind, OutgoingMessage};

/// A message sent to the daemon.
pub(super) struct SentMessage {
    pub(super) message: OutgoingMessage,
    /// The session it was sent on.
    pub(super) epoch: u64,
    pub(super) seq: u64,
    pub(super) ticket: Ticket,
    /// Set when its connection is gone although the daemon seems to be running.
    lost: Option<LostConnection>,
}

/// A call without a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct LostConnection {
    /// When to conclude that the daemon is still running; `None` while the call is queued to be sent again.
    pub(super) at: Option<Instant>,
    /// The daemon may have acted on it.
    pub(super) sent: bool,
}

impl SentMessage {
    pub(super) fn new(message: OutgoingMessage, epoch: u64, seq: u64, ticket: Ticket) -> Self {
        Self { message, epoch, seq, ticket, lost: None }
    }

    pub(super) fn is_listen(&self) -> bool {
        matches!(self.message.kind, OutgoingKind::Request { method: HostMethod::Listen, .. })
    }

    /// Whether the daemon cannot have acted on it.
    pub(super) fn is_unsent(&self) -> bool {
        self.lost.is_some_and(|lost| !lost.sent)
    }
}

#[derive(Default)]
pub(super) struct SentMessages {
    by_arrival: BTreeMap<u64, SentMessage>,
    requests: usize,
    notifications: usize,
    lost: usize,
    /// The newest session that anything was sent on, and the number of its calls here.
    epoch: u64,
    of_epoch: usize,
}

impl SentMessages {
    pub(super) fn insert(&mut self, call: SentMessage) {
        if call.epoch > self.epoch {
            (self.epoch, self.of_epoch) = (call.epoch, 0);
        }
        self.count(&call, 1);
        self.by_arrival.insert(call.message.arrival, call);
    }

    pub(super) fn remove(&mut self, arrival: u64) -> Option<SentMessage> {
        let call = self.by_arrival.remove(&arrival)?;
        self.count(&call, -1);
        Some(call)
    }

    pub(super) fn get(&self, arrival: u64) -> Option<&SentMessage> {
        self.by_arrival.get(&arrival)
    }

    /// The request with this host id.
    pub(super) fn find(&self, id: &str) -> Option<&SentMessage> {
        self.by_arrival.values().find(|call| call.message.request_id() == Some(id))
    }

    /// Marks a call as having lost its connection. False if there is no such call.
    pub(super) fn lose(&mut self, arrival: u64, lost: LostConnection) -> bool {
        self.change(arrival, |call| call.lost = Some(lost))
    }

    /// Marks a call as sent again.
    pub(super) fn resume(&mut self, arrival: u64, ticket: Ticket) -> bool {
        self.change(arrival, |call| (call.ticket, call.lost) = (ticket, None))
    }

    fn change(&mut self, arrival: u64, change: impl FnOnce(&mut SentMessage)) -> bool {
        let Some(mut call) = self.remove(arrival) else { return false };
        change(&mut call);
        self.insert(call);
        true
    }

    /// Removes and returns all matching calls, in order.
    pub(super) fn take_if(&mut self, mut wanted: impl FnMut(&SentMessage) -> bool) -> Vec<SentMessage> {
        let found: Vec<u64> =
            self.by_arrival.iter().filter(|(_, call)| wanted(call)).map(|(arrival, _)| *arrival).collect();
        found.into_iter().filter_map(|arrival| self.remove(arrival)).collect()
    }

    /// Removes and returns the calls without a connection.
    pub(super) fn take_lost(&mut self) -> Vec<SentMessage> {
        if self.lost == 0 {
            return Vec::new();
        }
        self.take_if(|call| call.lost.is_some())
    }

    /// Removes and returns the calls that have been without a connection for long enough.
    pub(super) fn take_given_up(&mut self, now: Instant) -> Vec<SentMessage> {
        if self.lost == 0 {
            return Vec::new();
        }
        self.take_if(|call| call.lost.and_then(|lost| lost.at).is_some_and(|at| at <= now))
    }

    /// When the next call is due for [`Calls::take_given_up`].
    pub(super) fn given_up_at(&self) -> Option<Instant> {
        if self.lost == 0 {
            return None;
        }
        self.by_arrival.values().filter_map(|call| call.lost?.at).min()
    }

    /// Whether calls of an earlier session are left; with `None`, whether any calls are left.
    pub(super) fn any_before(&self, epoch: Option<u64>) -> bool {
        let current = if epoch == Some(self.epoch) { self.of_epoch } else { 0 };
        self.by_arrival.len() > current
    }

    /// Messages that await an answer.
    pub(super) fn requests(&self) -> usize {
        self.requests
    }

    pub(super) fn notifications(&self) -> usize {
        self.notifications
    }

    /// Whether only `subscriptions/listen` requests are left.
    pub(super) fn only_listens(&self) -> bool {
        self.by_arrival.values().all(SentMessage::is_listen)
    }

    pub(super) fn len(&self) -> usize {
        self.by_arrival.len()
    }

    fn count(&mut self, call: &SentMessage, change: isize) {
        let add = |count: &mut usize, counts: bool| {
            if counts {
                *count = count.checked_add_signed(change).expect("BUG: more went than came");
            }
        };
        add(&mut self.requests, call.message.request_id().is_some());
        add(&mut self.notifications, matches!(call.message.kind, OutgoingKind::Notification(_)));
        add(&mut self.lost, call.lost.is_some());
        add(&mut self.of_epoch, call.epoch == self.epoch);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::methods::{HostMethod, NotificationKind, OutgoingKind};

    fn call(arrival: u64, epoch: u64, request: bool) -> SentMessage {
        let kind = if request {
            OutgoingKind::Request { id: arrival.to_string().into(), method: HostMethod::Once }
        } else {
            OutgoingKind::Notification(NotificationKind::Other)
        };
        let message =
            OutgoingMessage { arrival, arrived: Instant::now(), body: Bytes::new(), kind, tries: 1 };
        SentMessage::new(message, epoch, arrival, Ticket::Single(arrival))
    }

    #[test]
    fn counts_match_the_calls() {
        let mut calls = SentMessages::default();
        for (arrival, epoch, request) in [(1, 1, true), (2, 1, false), (3, 2, true), (4, 2, true)] {
            calls.insert(call(arrival, epoch, request));
        }
        assert_eq!((calls.requests(), calls.notifications()), (3, 1));
        assert!(calls.any_before(Some(2)) && calls.any_before(Some(3)) && calls.any_before(None));
        let old = calls.take_if(|call| call.epoch == 1);
        assert_eq!(old.iter().map(|call| call.message.arrival).collect::<Vec<_>>(), [1, 2]);
        assert!(!calls.any_before(Some(2)));
        assert_eq!(calls.requests(), 2);
        assert_eq!(calls.find("3").map(|call| call.seq), Some(3));
        assert!(calls.remove(3).is_some() && calls.remove(3).is_none());
        assert_eq!(calls.requests(), 1);
    }

    #[test]
    fn lost_calls_are_given_up_after_their_deadline() {
        let mut calls = SentMessages::default();
        let now = Instant::now();
        let later = now + std::time::Duration::from_secs(1);
        for arrival in 1..=3 {
            calls.insert(call(arrival, 1, true));
        }
        assert_eq!(calls.given_up_at(), None);
        assert!(calls.lose(1, LostConnection { at: Some(later), sent: true }));
        assert!(calls.lose(2, LostConnection { at: None, sent: false }));
        assert!(!calls.lose(9, LostConnection { at: None, sent: false }));
        assert_eq!(calls.given_up_at(), Some(later));
        assert!(calls.take_given_up(now).is_empty());
        assert_eq!(calls.take_given_up(later).len(), 1);
        assert!(calls.resume(2, Ticket::Single(9)));
        assert!(calls.take_lost().is_empty());
        assert_eq!(calls.requests(), 2);
    }
}
