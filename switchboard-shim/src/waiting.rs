//! Host messages that cannot be sent to the daemon yet, in order of arrival. Pure: no clock, no I/O.
//!
//! Two lanes: notifications and answers may overtake requests that wait for one of the
//! [`MAX_IN_FLIGHT`](switchboard_wire::hop::MAX_IN_FLIGHT) slots, but otherwise keep their order. Answers to
//! questions also overtake notifications, because a child waits for them.

use std::collections::VecDeque;

use tokio::time::Instant;

use crate::methods::OutgoingMessage;

/// Requests beyond this are refused: no host has this many open on purpose.
const MAX_WAITING: usize = 4096;

/// When this many notifications wait, the host is not read until the daemon has taken some of them.
const CROWDED_ABOVE: usize = MAX_WAITING / 2;

/// The limit for the bytes of all waiting messages. A single message may always wait.
const MAX_WAITING_BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug, Default)]
pub(crate) struct WaitingMessages {
    bytes: usize,
    requests: VecDeque<OutgoingMessage>,
    others: VecDeque<OutgoingMessage>,
    /// How many of `others` are answers.
    responses: usize,
}

/// Which kinds of message may be sent now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendCapacity {
    pub(crate) request: bool,
    pub(crate) notification: bool,
}

/// A message that was refused because the queue is full.
#[derive(Debug)]
pub(crate) struct QueueFull {
    pub(crate) refused: OutgoingMessage,
    pub(crate) waiting: usize,
}

impl WaitingMessages {
    /// Adds a message at its place in the host's order. `owed`: it answers an open question, of which there
    /// are few, so it is never refused.
    pub(crate) fn add(&mut self, message: OutgoingMessage, owed: bool) -> Result<(), QueueFull> {
        let lane = match message.request_id() {
            Some(_) => &mut self.requests,
            None => &mut self.others,
        };
        let heavy = self.bytes > 0 && self.bytes + message.body.len() > MAX_WAITING_BYTES;
        // A message that was sent before and came back has already been accepted.
        if (lane.len() >= MAX_WAITING || heavy) && message.tries == 0 && !owed {
            return Err(QueueFull { refused: message, waiting: lane.len() });
        }
        let at = lane.partition_point(|other| other.arrival < message.arrival);
        self.bytes += message.body.len();
        self.responses += usize::from(message.is_response());
        lane.insert(at, message);
        Ok(())
    }

    /// The next message that may be sent. No request overtakes an earlier notification.
    pub(crate) fn next(&mut self, room: SendCapacity) -> Option<OutgoingMessage> {
        let next = match (self.requests.front(), self.others.front()) {
            (Some(first), Some(other)) if room.request && first.arrival < other.arrival => {
                self.requests.pop_front()
            }
            (_, Some(other)) if room.notification || other.is_response() => self.others.pop_front(),
            (_, Some(_)) => return self.next_response(),
            (Some(_), None) if room.request => self.requests.pop_front(),
            _ => None,
        };
        self.account_removed(next)
    }

    /// Whether so many notifications wait that the host should not be read.
    pub(crate) fn is_crowded(&self) -> bool {
        self.others.len() - self.responses >= CROWDED_ABOVE
    }

    /// Removes and returns the next answer to a question from the daemon, ahead of everything else.
    pub(crate) fn next_response(&mut self) -> Option<OutgoingMessage> {
        if self.responses == 0 {
            return None;
        }
        let at = self.others.iter().position(OutgoingMessage::is_response)?;
        let response = self.others.remove(at);
        self.account_removed(response)
    }

    /// Removes and returns the request with this id.
    pub(crate) fn withdraw(&mut self, id: &str) -> Option<OutgoingMessage> {
        let at = self.requests.iter().position(|message| message.request_id() == Some(id))?;
        let withdrawn = self.requests.remove(at);
        self.account_removed(withdrawn)
    }

    /// Removes and returns the oldest request, if it arrived no later than `until`.
    pub(crate) fn overdue(&mut self, until: Instant) -> Option<OutgoingMessage> {
        self.oldest().filter(|arrived| *arrived <= until)?;
        let overdue = self.requests.pop_front();
        self.account_removed(overdue)
    }

    fn account_removed(&mut self, message: Option<OutgoingMessage>) -> Option<OutgoingMessage> {
        self.bytes -= message.as_ref().map_or(0, |message| message.body.len());
        self.responses -= usize::from(message.as_ref().is_some_and(OutgoingMessage::is_response));
        message
    }

    /// When the oldest waiting request arrived.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.requests.front().map(|message| message.arrived)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.others.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::methods::{HostMethod, NotificationKind, OutgoingKind};

    fn message(arrival: u64, kind: OutgoingKind) -> OutgoingMessage {
        OutgoingMessage { arrival, arrived: Instant::now(), body: Bytes::new(), kind, tries: 0 }
    }

    fn request(arrival: u64) -> OutgoingMessage {
        message(arrival, OutgoingKind::Request { id: arrival.to_string().into(), method: HostMethod::Once })
    }

    fn note(arrival: u64) -> OutgoingMessage {
        message(arrival, OutgoingKind::Notification(NotificationKind::Other))
    }

    fn response(arrival: u64) -> OutgoingMessage {
        message(arrival, OutgoingKind::Response { id: arrival.to_string().into() })
    }

    const ROOM: SendCapacity = SendCapacity { request: true, notification: true };
    const NO_REQUEST: SendCapacity = SendCapacity { request: false, notification: true };
    const NO_NOTE: SendCapacity = SendCapacity { request: true, notification: false };

    #[test]
    fn only_answers_overtake_waiting_notifications() {
        let mut waiting = WaitingMessages::default();
        for message in [request(1), note(2), request(3), note(4), response(5)] {
            waiting.add(message, false).unwrap();
        }
        let mut next = |room| waiting.next(room).map(|message| message.arrival);
        assert_eq!((next(NO_NOTE), next(NO_NOTE), next(NO_NOTE)), (Some(1), Some(5), None));
        assert_eq!((next(ROOM), next(ROOM), next(ROOM), next(ROOM)), (Some(2), Some(3), Some(4), None));
    }

    #[test]
    fn an_answer_that_is_owed_is_never_refused() {
        let mut waiting = WaitingMessages::default();
        for arrival in 0..MAX_WAITING as u64 {
            assert_eq!(waiting.is_crowded(), arrival >= CROWDED_ABOVE as u64);
            waiting.add(note(arrival), false).unwrap();
        }
        assert!(waiting.add(note(9998), false).is_err() && waiting.add(response(9998), false).is_err());
        waiting.add(response(9999), true).unwrap();
        assert_eq!(waiting.next(NO_NOTE).map(|message| message.arrival), Some(9999));
        assert!(waiting.next(NO_NOTE).is_none());
    }

    #[test]
    fn messages_leave_in_the_order_of_the_host() {
        let mut waiting = WaitingMessages::default();
        for message in [request(4), note(3), request(1), note(2), request(5)] {
            waiting.add(message, false).unwrap();
        }
        let mut order = Vec::new();
        while let Some(message) = waiting.next(ROOM) {
            order.push(message.arrival);
        }
        assert_eq!(order, [1, 2, 3, 4, 5]);
        assert!(waiting.is_empty());
    }

    #[test]
    fn notifications_overtake_waiting_requests() {
        let mut waiting = WaitingMessages::default();
        for message in [request(1), note(2), request(3)] {
            waiting.add(message, false).unwrap();
        }
        assert_eq!(waiting.next(NO_REQUEST).map(|message| message.arrival), Some(2));
        assert!(waiting.next(NO_REQUEST).is_none());
        assert_eq!(waiting.withdraw("3").map(|message| message.arrival), Some(3));
        assert!(waiting.withdraw("3").is_none());
        assert_eq!(waiting.next(ROOM).map(|message| message.arrival), Some(1));
    }

    #[test]
    fn too_many_requests_are_refused() {
        let mut waiting = WaitingMessages::default();
        for arrival in 0..MAX_WAITING as u64 {
            waiting.add(request(arrival), false).unwrap();
        }
        let full = waiting.add(request(9999), false).unwrap_err();
        assert_eq!((full.waiting, full.refused.arrival), (MAX_WAITING, 9999));
        waiting.add(note(10_000), false).unwrap();
    }

    #[test]
    fn too_many_bytes_are_refused() {
        let huge = |arrival, bytes, tries| OutgoingMessage {
            body: vec![b'x'; bytes].into(),
            tries,
            ..note(arrival)
        };
        let mut waiting = WaitingMessages::default();
        waiting.add(huge(1, MAX_WAITING_BYTES + 1, 0), false).unwrap();
        assert!(waiting.add(huge(2, 1, 0), false).is_err());
        waiting.add(huge(3, 1, 1), false).unwrap();
        assert!(waiting.next(ROOM).is_some() && waiting.next(ROOM).is_some());
        waiting.add(huge(4, MAX_WAITING_BYTES, 0), false).unwrap();
    }
}
