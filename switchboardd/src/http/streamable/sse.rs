//! The format of messages on an event stream.

use switchboard_wire::single_line::push_single_line;

use crate::session::EventId;

/// Comment line for an idle stream, so that no proxy closes it as dead.
pub(super) const KEEP_ALIVE_COMMENT: &[u8] = b": \n\n";

/// How long a host waits before it reconnects to a stream.
const RETRY_MS: u32 = 1000;

/// An event without a message: gives the host an event id to resume from before the first message.
pub(super) fn priming(event_id: EventId) -> Vec<u8> {
    format!("id: {event_id}\nretry: {RETRY_MS}\ndata: \n\n").into_bytes()
}

/// Writes one message as an event, with an event id if the host can resume. Line breaks between its tokens
/// are removed, so that it fits one `data:` line.
pub(super) fn push_message(event_id: Option<EventId>, body: &[u8], out: &mut Vec<u8>) {
    if let Some(event_id) = event_id {
        out.extend_from_slice(format!("id: {event_id}\n").as_bytes());
    }
    out.extend_from_slice(b"event: message\ndata: ");
    push_single_line(body, out);
    out.extend_from_slice(b"\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: EventId = EventId { stream: 2, message: 7 };

    #[test]
    fn a_message_is_one_event() {
        let mut out = Vec::new();
        push_message(Some(MARK), b"{\"a\":\r\n 1.0}", &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "id: 2.7\nevent: message\ndata: {\"a\": 1.0}\n\n");
    }

    #[test]
    fn priming_event_has_an_id_and_no_message() {
        assert_eq!(priming(MARK), b"id: 2.7\nretry: 1000\ndata: \n\n");
    }
}
