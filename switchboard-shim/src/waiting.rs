//! Messages of the host that cannot go to the daemon yet, in the order they came. Pure: no clock, no I/O.
//!
//! Two lanes, because notifications and answers pass requests that wait for one of the
//! [`MAX_IN_FLIGHT`](switchboard_wire::hop::MAX_IN_FLIGHT) places, but keep their order otherwise.

use std::collections::VecDeque;

use tokio::time::Instant;

use crate::methods::{Kind, Outgoing};

/// Requests beyond this are refused instead of being kept: no host has so many open on purpose.
const MAX_WAITING: usize = 4096;

/// The same for their bytes, whatever they are. A single message may always wait.
const MAX_WAITING_BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Waiting {
    bytes: usize,
    requests: VecDeque<Outgoing>,
    others: VecDeque<Outgoing>,
}

/// More is waiting than anybody will want answered.
#[derive(Debug)]
pub(crate) struct Full {
    pub(crate) refused: Outgoing,
    pub(crate) waiting: usize,
}

impl Waiting {
    /// Adds a message at its place in the host's order.
    pub(crate) fn add(&mut self, message: Outgoing) -> Result<(), Full> {
        let lane = match message.request_id() {
            Some(_) => &mut self.requests,
            None => &mut self.others,
        };
        // What was sent before and comes back has been taken on already.
        let heavy =
            self.bytes > 0 && self.bytes + message.body.len() > MAX_WAITING_BYTES && message.tries == 0;
        if lane.len() >= MAX_WAITING || heavy {
            return Err(Full { refused: message, waiting: lane.len() });
        }
        let at = lane.partition_point(|other| other.arrival < message.arrival);
        self.bytes += message.body.len();
        lane.insert(at, message);
        Ok(())
    }

    /// The next message to send; `request` says whether it may be one that has to be answered.
    pub(crate) fn next(&mut self, request: bool) -> Option<Outgoing> {
        let next = match (self.requests.front(), self.others.front()) {
            (Some(first), Some(other)) if request && first.arrival < other.arrival => {
                self.requests.pop_front()
            }
            (_, Some(_)) => self.others.pop_front(),
            (Some(_), None) if request => self.requests.pop_front(),
            _ => None,
        };
        self.taken(next)
    }

    /// Takes the next answer to a question of the daemon's, past everything else.
    pub(crate) fn next_response(&mut self) -> Option<Outgoing> {
        let at = self.others.iter().position(|message| matches!(message.kind, Kind::Response { .. }))?;
        let response = self.others.remove(at);
        self.taken(response)
    }

    /// Takes the request with this id out.
    pub(crate) fn withdraw(&mut self, id: &str) -> Option<Outgoing> {
        let at = self.requests.iter().position(|message| message.request_id() == Some(id))?;
        let withdrawn = self.requests.remove(at);
        self.taken(withdrawn)
    }

    /// Takes a request out that came no later than `until`.
    pub(crate) fn overdue(&mut self, until: Instant) -> Option<Outgoing> {
        self.oldest().filter(|arrived| *arrived <= until)?;
        let overdue = self.requests.pop_front();
        self.taken(overdue)
    }

    fn taken(&mut self, message: Option<Outgoing>) -> Option<Outgoing> {
        self.bytes -= message.as_ref().map_or(0, |message| message.body.len());
        message
    }

    /// When the oldest waiting request came.
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
    use crate::methods::{Method, Note};

    fn message(arrival: u64, kind: Kind) -> Outgoing {
        Outgoing { arrival, arrived: Instant::now(), body: Bytes::new(), kind, tries: 0 }
    }

    fn request(arrival: u64) -> Outgoing {
        message(arrival, Kind::Request { id: arrival.to_string().into(), method: Method::Once })
    }

    fn note(arrival: u64) -> Outgoing {
        message(arrival, Kind::Notification(Note::Other))
    }

    #[test]
    fn order_is_the_hosts_whatever_the_order_of_adding() {
        let mut waiting = Waiting::default();
        for message in [request(4), note(3), request(1), note(2), request(5)] {
            waiting.add(message).unwrap();
        }
        let mut order = Vec::new();
        while let Some(message) = waiting.next(true) {
            order.push(message.arrival);
        }
        assert_eq!(order, [1, 2, 3, 4, 5]);
        assert!(waiting.is_empty());
    }

    #[test]
    fn notifications_pass_requests_that_have_no_place() {
        let mut waiting = Waiting::default();
        for message in [request(1), note(2), request(3)] {
            waiting.add(message).unwrap();
        }
        assert_eq!(waiting.next(false).map(|message| message.arrival), Some(2));
        assert!(waiting.next(false).is_none());
        assert_eq!(waiting.withdraw("3").map(|message| message.arrival), Some(3));
        assert!(waiting.withdraw("3").is_none());
        assert_eq!(waiting.next(true).map(|message| message.arrival), Some(1));
    }

    #[test]
    fn a_flood_is_refused() {
        let mut waiting = Waiting::default();
        for arrival in 0..MAX_WAITING as u64 {
            waiting.add(request(arrival)).unwrap();
        }
        let full = waiting.add(request(9999)).unwrap_err();
        assert_eq!((full.waiting, full.refused.arrival), (MAX_WAITING, 9999));
        waiting.add(note(10_000)).unwrap();
    }

    #[test]
    fn a_few_huge_messages_are_a_flood_too() {
        let huge =
            |arrival, bytes, tries| Outgoing { body: vec![b'x'; bytes].into(), tries, ..note(arrival) };
        let mut waiting = Waiting::default();
        waiting.add(huge(1, MAX_WAITING_BYTES + 1, 0)).unwrap();
        assert!(waiting.add(huge(2, 1, 0)).is_err());
        waiting.add(huge(3, 1, 1)).unwrap();
        assert!(waiting.next(true).is_some() && waiting.next(true).is_some());
        waiting.add(huge(4, MAX_WAITING_BYTES, 0)).unwrap();
    }
}
