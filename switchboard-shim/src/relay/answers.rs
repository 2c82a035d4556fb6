//! Handles answers to POSTs and mailbox batches, and writes them to the host in the order that the daemon's
//! numbers require.

use std::io::{self, ErrorKind};
use std::time::Duration;

use bytes::Bytes;
use switchboard_wire::envelope::{Message, Outcome};
use switchboard_wire::hop::Draining;
use switchboard_wire::members::Members;
use tokio::time::Instant;

use super::calls::{LostConnection, SentMessage};
use super::{PostPurpose, PostResult, Relay};
use crate::fault::{self, Fault, MAX_TO_HOST};
use crate::mailbox::{Batch, MailEvent};
use crate::methods::{self, HostMethod, Mail, OutgoingKind, OutgoingMessage};
use crate::post::{AnswerBody, DaemonAnswer, PostError};
use crate::replay::Replay;

/// The longest an answer waits for the mailbox messages that come before it.
const MAX_DELAY: Duration = Duration::from_secs(2);

/// When a call's connection ends, how long it may take until the end of the daemon itself is noticed.
const DAEMON_EXIT_WAIT: Duration = Duration::from_millis(100);

/// A daemon drains for at most 10 s; one that still runs after this is given up.
const MAX_DRAIN: Duration = Duration::from_secs(20);

/// A message that comes back unread this often is given up.
const MAX_TRIES: u8 = 5;

/// An id that no request has: the filler for a notification has no other effect.
const FILLER_ID: &str = "\"switchboard-gap\"";

/// An answer that must wait until earlier mailbox messages are written.
pub(super) struct DelayedAnswer {
    pub(super) id: Box<str>,
    after: u64,
    pub(super) until: Instant,
    body: Bytes,
}

impl Relay {
    pub(super) fn on_posted(&mut self, posted: PostResult) {
        let PostResult { purpose, epoch, seq, connection, outcome } = posted;
        let current = self.link.session().is_some_and(|session| session.epoch == epoch);
        // A draining daemon gets nothing new, and it exits sooner the fewer connections are open.
        if let Some(connection) = connection.filter(|_| current && !self.link.is_draining()) {
            self.idle.put(connection);
        }
        if current && outcome.as_ref().is_err_and(PostError::is_shortage) {
            return self.requeue_unsent(purpose, seq);
        }
        let arrival = match purpose {
            PostPurpose::Message(arrival) => arrival,
            PostPurpose::GapFiller { body, tries } if current => {
                return self.on_filled(seq, body, tries, outcome);
            }
            PostPurpose::GapFiller { .. } => return,
        };
        let Some(call) = self.calls.remove(arrival) else {
            return;
        };
        match outcome {
            Ok(DaemonAnswer { draining: Some(kind), status: 503, .. }) => {
                if current {
                    self.drain(kind);
                }
                self.send_again(call.message, &never_taken());
            }
            Ok(DaemonAnswer { status: 404, .. }) => {
                // The daemon does not know the session, so it did nothing with the message.
                self.send_again(call.message, &Fault::Refused { status: 404 });
                if current {
                    self.on_session_lost("switchboardd does not know this session");
                }
            }
            Ok(answer) => self.on_answer(call, answer, current),
            Err(PostError::NoConnection(error)) if current && is_gone(&error) && !self.link.is_draining() => {
                self.send_again(call.message, &never_taken());
                self.on_session_lost(&error.to_string());
            }
            Err(error) => {
                let sent = matches!(error, PostError::Lost(_));
                self.calls.insert(call);
                self.calls
                    .lose(arrival, LostConnection { at: Some(Instant::now() + DAEMON_EXIT_WAIT), sent });
                if !current {
                    let call = self.calls.remove(arrival).expect("BUG: it was put there a moment ago");
                    self.lose(call, &Fault::DaemonGone);
                }
            }
        }
    }

    /// Every sequence number must arrive: the daemon holds all later messages until then.
    fn on_filled(&mut self, seq: u64, body: Bytes, tries: u8, outcome: Result<DaemonAnswer, PostError>) {
        match outcome {
            Ok(DaemonAnswer { draining: Some(kind), status: 503, .. }) => self.drain(kind),
            Ok(DaemonAnswer { status: 404, .. }) => {
                self.on_session_lost("switchboardd does not know this session")
            }
            Ok(_) => {}
            // The mailbox poll notices the end of a draining daemon.
            Err(_) if self.link.is_draining() => {}
            Err(PostError::NoConnection(error)) if is_gone(&error) => {
                self.on_session_lost(&error.to_string())
            }
            Err(_) if tries < MAX_TRIES => {
                self.requeue_unsent(PostPurpose::GapFiller { body, tries: tries + 1 }, seq)
            }
            Err(error) => {
                self.on_session_lost(&format!("a gap in the order of messages stays open: {error}"))
            }
        }
    }

    fn on_answer(&mut self, call: SentMessage, answer: DaemonAnswer, current: bool) {
        // A call that the host cancelled is not among the calls any more: this one needs an answer, and a
        // cancellation may have met it that was meant for its first try.
        if matches!(answer.status, 202 | 204) && call.message.request_id().is_some() {
            return self.lose(call, &Fault::Refused { status: answer.status });
        }
        let SentMessage { message, .. } = call;
        let Some(id) = message.request_id() else {
            match answer.body {
                _ if (200..300).contains(&answer.status) => self.replay.note(&message.kind, &message.body),
                // It was not a valid message, so the error carries no request id.
                AnswerBody::Whole(body) if answer.status == 400 && is_answer(&body) => self.write(body),
                _ => {}
            }
            return;
        };
        if answer.shown.is_some() {
            self.replay.shown = answer.shown;
        }
        let body = match (answer.status, answer.body) {
            (_, AnswerBody::TooLong { bytes }) => failure_answer(&Fault::AnswerTooLong { bytes }, &message),
            (200, AnswerBody::Whole(body)) => {
                if Replay::concerns(&message.kind) && is_result(&body) {
                    self.replay.note(&message.kind, &message.body);
                    if matches!(message.kind, OutgoingKind::Request { method: HostMethod::Initialize, .. }) {
                        self.batches = methods::agrees_on_batches(&body);
                    }
                }
                body
            }
            (status, AnswerBody::Whole(body)) => addressed(&message, id, status, body),
        };
        let written = self.link.session().map_or(u64::MAX, |session| session.mail);
        if current && answer.mailbox > written {
            let until = Instant::now() + MAX_DELAY;
            self.delayed.push(DelayedAnswer { id: id.into(), after: answer.mailbox, until, body });
            return;
        }
        self.write(body);
    }

    /// Requeues a message that the daemon cannot have acted on, at its place in the order.
    fn send_again(&mut self, message: OutgoingMessage, otherwise: &Fault) {
        let listens = matches!(message.kind, OutgoingKind::Request { method: HostMethod::Listen, .. });
        if message.tries >= MAX_TRIES && !listens {
            return self.fail(&message, otherwise);
        }
        self.hold(message);
    }

    /// Handles a message that the daemon may have acted on: only what is safe to repeat is sent again.
    pub(super) fn lose(&mut self, call: SentMessage, fault: &Fault) {
        self.posts.abort(&call.ticket);
        if call.is_unsent() {
            self.send_again(call.message, &never_taken());
        } else if call.message.may_repeat() {
            self.send_again(call.message, fault);
        } else {
            self.fail(&call.message, fault);
        }
    }

    /// Gives up calls whose connection ended although the daemon is still running.
    pub(super) fn give_up_lost(&mut self, now: Instant) {
        for call in self.calls.take_given_up(now) {
            let id = call.message.request_id().unwrap_or(FILLER_ID);
            let filler = fault::cancelled(id, "its connection was lost");
            self.fill_gap(call.epoch, call.seq, filler.into());
            self.lose(call, &Fault::ConnectionLost);
        }
    }

    pub(super) fn on_mail(&mut self, epoch: u64, mail: MailEvent) {
        if self.link.session().is_none_or(|session| session.epoch != epoch) {
            return;
        }
        match mail {
            MailEvent::Batch(batch) => self.on_batch(batch),
            MailEvent::Ended(why) => self.on_session_lost(&why),
        }
    }

    fn on_batch(&mut self, Batch { messages, next, draining }: Batch) {
        for message in &messages {
            self.on_mail_message(message);
        }
        if let Some(session) = self.link.session_mut() {
            session.mail = session.mail.max(next);
        }
        self.release_delayed(Instant::now());
        if let Some(kind) = draining {
            self.drain(kind);
        }
    }

    fn on_mail_message(&mut self, message: &Bytes) {
        let mail = methods::read_mail(message);
        if message.len() > MAX_TO_HOST {
            let bytes = message.len() as u64;
            self.notes.say(&format!(
                "dropped a message of {bytes} bytes to the editor; the limit is {MAX_TO_HOST}"
            ));
            if let Mail::Question(id) = mail {
                // Without an answer, the child would wait for ever.
                let body = Fault::AnswerTooLong { bytes }.to_question(&id).into();
                self.questions.insert(id.clone());
                self.arrivals += 1;
                let (arrival, arrived) = (self.arrivals, Instant::now());
                self.hold(OutgoingMessage {
                    arrival,
                    arrived,
                    body,
                    kind: OutgoingKind::Response { id },
                    tries: 0,
                });
            }
            return;
        }
        match mail {
            Mail::Question(id) => {
                self.questions.insert(id);
            }
            Mail::Withdrawn(id) => {
                self.questions.remove(&id);
            }
            Mail::Other => {}
        }
        self.write(message.clone());
    }

    /// Writes the delayed answers that are due, in the order they arrived.
    pub(super) fn release_delayed(&mut self, now: Instant) {
        let written = self.link.session().map_or(u64::MAX, |session| session.mail);
        let delayed = std::mem::take(&mut self.delayed);
        for answer in delayed {
            if answer.after <= written || answer.until <= now {
                self.write(answer.body);
            } else {
                self.delayed.push(answer);
            }
        }
    }

    /// The host has closed stdin: fails every outstanding request and writes the delayed answers.
    pub(super) fn give_up_all(&mut self) {
        let fault = Fault::InputClosed { why: self.link.why() };
        while let Some(message) = self.waiting.overdue(Instant::now()) {
            self.fail(&message, &fault);
        }
        let fault = Fault::InputClosed { why: None };
        for call in self.calls.take_if(|call| !call.is_listen()) {
            self.fail(&call.message, &fault);
        }
        for answer in std::mem::take(&mut self.delayed) {
            self.write(answer.body);
        }
    }

    /// The daemon is draining: new messages wait for the next one, or fail if the daemon is being stopped.
    pub(super) fn drain(&mut self, kind: Draining) {
        if let Some(session) = self.link.session_mut()
            && session.draining.is_none_or(|before| before == Draining::Restart)
        {
            session.draining = Some(kind);
            session.drain_ends.get_or_insert(Instant::now() + MAX_DRAIN);
        }
        self.idle.clear();
        if kind == Draining::Stop {
            self.link.stop();
        }
    }
}

/// For a message that certainly had no effect and is given up.
fn never_taken() -> Fault {
    Fault::NoDaemon(format!("switchboardd went away {MAX_TRIES} times before it took this message"))
}

/// Nothing listens on the socket, as opposed to: this process cannot connect.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
}

fn is_answer(body: &[u8]) -> bool {
    matches!(Message::parse(body), Ok(Message::Response { .. }))
}

fn is_result(body: &[u8]) -> bool {
    matches!(Message::parse(body), Ok(Message::Response { outcome: Outcome::Result(_), .. }))
}

/// The answer to a request that failed.
fn failure_answer(fault: &Fault, message: &OutgoingMessage) -> Bytes {
    fault.answer(message).expect("BUG: only a request is answered").into()
}

/// Turns the body of a non-200 answer into an answer to this message, whose id is `id`.
fn addressed(message: &OutgoingMessage, id: &str, status: u16, body: Bytes) -> Bytes {
    match Message::parse(&body) {
        Ok(Message::Response { id: own, outcome: Outcome::Error(error), .. }) if own.get() == "null" => {
            match (&message.kind, status) {
                // Too long, too many at once, or sent twice. Hosts show the model the text of a result.
                (OutgoingKind::Request { method: HostMethod::Call, .. }, 409 | 413 | 429) => {
                    let why = Members::of(error).and_then(|error| error.text("message"));
                    let why = why.map_or_else(|| error.get().to_owned(), Into::into);
                    failure_answer(&Fault::NotTaken { status, why }, message)
                }
                _ => fault::with_id(id, error.get()).into(),
            }
        }
        Ok(Message::Response { id: own, .. }) if own.get() == id => body,
        _ => failure_answer(&Fault::Refused { status }, message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::tests::request;

    #[test]
    fn an_error_without_an_id_gets_the_request_id() {
        let message = request("\"a\"", "tools/list", "{}");
        let check = |body: &'static str, expect: &str| {
            let out = addressed(&message, "\"a\"", 413, Bytes::from_static(body.as_bytes()));
            assert_eq!(std::str::from_utf8(&out).unwrap(), expect);
        };
        check(
            r#"{"jsonrpc":"2.0","error":{"code":-32600,"x":1.0},"id":null}"#,
            r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32600,"x":1.0}}"#,
        );
        check(r#"{"jsonrpc":"2.0","error":{},"id":"a"}"#, r#"{"jsonrpc":"2.0","error":{},"id":"a"}"#);
        let refused = String::from_utf8(Fault::Refused { status: 413 }.answer(&message).unwrap()).unwrap();
        check("<html>", &refused);
        let call = request("\"a\"", "tools/call", "{}");
        let body =
            Bytes::from_static(br#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"over"},"id":null}"#);
        for (status, about) in
            [(413, r#"{"kind":"too_long","retryable":false}"#), (429, r#"{"kind":"busy","retryable":true}"#)]
        {
            let out = addressed(&call, "\"a\"", status, body.clone());
            let expect = format!(
                r#"{{"jsonrpc":"2.0","id":"a","result":{{"content":[{{"type":"text","text":"over"}}],"isError":true,"_meta":{{"switchboard":{about}}}}}}}"#
            );
            assert_eq!(std::str::from_utf8(&out).unwrap(), expect);
        }
        assert!(addressed(&call, "\"a\"", 400, body).starts_with(br#"{"jsonrpc":"2.0","id":"a","error""#));
        check(r#"{"jsonrpc":"2.0","error":{},"id":"somebody else's"}"#, &refused);
    }
}
