//! The main loop: host messages in, POSTs out, answers and mailbox messages back.
//!
//! This file has the loop and the host's side. `relay/sending.rs` posts messages, `relay/answers.rs` handles
//! what comes back, `relay/session.rs` follows the daemon's life. The relay never changes a message that
//! passes through.

mod answers;
mod calls;
mod posts;
mod sending;
mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use switchboard_wire::batch;
use switchboard_wire::envelope::Malformed;
use switchboard_wire::framing::{Frame, Framing, MAX_MESSAGE};
use switchboard_wire::oversize::{is_answerable, readable_id};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use crate::fault::{self, Fault};
use crate::first::{Either, first};
use crate::host::{Input, Output};
use crate::limits;
use crate::link::{OpenError, OpenedSession, SessionSpec};
use crate::mailbox;
use crate::methods::{self, HostMessage, HostMethod, OutgoingKind, OutgoingMessage};
use crate::notes::StderrNotes;
use crate::post::{Connection, DaemonAnswer, IdleConnections, PostError};
use crate::replay::Replay;
use crate::start::DaemonTarget;
use crate::waiting::WaitingMessages;

use self::answers::DelayedAnswer;
use self::calls::SentMessages;
use self::posts::Posts;
use self::session::Link;

/// How long to wait for outstanding answers after the host has closed stdin.
const ANSWER_TIMEOUT_AT_END: Duration = Duration::from_millis(1500);

/// How long the last bytes may take to reach a host that reads slowly.
const LAST_WRITE_TIMEOUT: Duration = Duration::from_millis(500);

/// Mailbox batches queued for the loop; further messages stay in the daemon.
const MAIL_QUEUE: usize = 1;

/// How many sources of events the loop has.
const SOURCES: u8 = 6;

pub(crate) struct Relay {
    target: Arc<DaemonTarget>,
    spec: SessionSpec,
    may_start: bool,
    /// Whether the host has sent something: until then, no daemon is started for it.
    is_wanted: bool,
    output: Output,
    notes: StderrNotes,
    /// How the host frames its messages, once it has sent one.
    framing: Option<Framing>,
    arrivals: u64,
    waiting: WaitingMessages,
    /// Messages that were posted and not answered.
    calls: SentMessages,
    posts: Posts<PostResult>,
    idle: IdleConnections,
    /// POSTs that found no descriptor for a connection, by sequence number. New messages wait behind them.
    unsent: BTreeMap<u64, PostPurpose>,
    /// When the first of them may be retried.
    retry_unsent_at: Instant,
    /// How many requests may be in flight at once.
    max_in_flight: usize,
    /// Answers that wait until earlier mailbox messages are written.
    delayed: Vec<DelayedAnswer>,
    replay: Replay,
    /// Whether the shim answered `initialize` without a daemon, so that the host knows no lists yet.
    greeted: bool,
    /// Whether the host and the daemon agreed on the revision that has batches.
    batches: bool,
    /// Raw ids of the daemon's questions that the host has not answered yet.
    questions: BTreeSet<Box<str>>,
    link: Link,
    mail: mpsc::Receiver<(u64, mailbox::MailEvent)>,
    /// For the mailbox poll of the next session.
    mail_sender: mpsc::Sender<(u64, mailbox::MailEvent)>,
    /// Set when the host has closed stdin: when to give up on what is still in flight.
    until: Option<Instant>,
    /// The source that is asked first, see [`Relay::next_event`].
    turn: u8,
}

/// What a POST is for.
enum PostPurpose {
    /// The host message with this arrival number.
    Message(u64),
    /// Fills a sequence number that the daemon may never have received. Its answer is ignored, but the daemon
    /// holds all later messages until it arrives.
    GapFiller { body: Bytes, tries: u8 },
}

/// What the loop waits for.
enum RelayEvent {
    /// The host sent a message, or closed its pipe.
    Frame(Option<Frame>),
    Posted(PostResult),
    Mail(u64, mailbox::MailEvent),
    Opened(Result<OpenedSession, OpenError>),
    /// The host took some of what waited for it.
    HostRead,
    Time,
}

/// How a POST ended.
struct PostResult {
    purpose: PostPurpose,
    epoch: u64,
    seq: u64,
    connection: Option<Connection>,
    outcome: Result<DaemonAnswer, PostError>,
}

impl Relay {
    pub(crate) fn new(target: DaemonTarget, may_start: bool, about: SessionSpec, notes: StderrNotes) -> Self {
        let (mail_sender, mail) = mpsc::channel(MAIL_QUEUE);
        Self {
            target: Arc::new(target),
            spec: about,
            may_start,
            is_wanted: false,
            output: Output::default(),
            notes,
            framing: None,
            arrivals: 0,
            waiting: WaitingMessages::default(),
            calls: SentMessages::default(),
            posts: Posts::new(),
            idle: IdleConnections::default(),
            unsent: BTreeMap::new(),
            retry_unsent_at: Instant::now(),
            max_in_flight: limits::in_flight(),
            delayed: Vec::new(),
            replay: Replay::default(),
            greeted: false,
            batches: false,
            questions: BTreeSet::new(),
            link: Link::new(),
            mail,
            mail_sender,
            until: None,
            turn: 0,
        }
    }

    /// Runs until the host closes its pipes or a signal arrives; both are a normal end.
    pub(crate) async fn run(mut self, mut input: Input) -> io::Result<()> {
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(end(signals()?, self.output.wait_closed(), stop));
        // A stop takes precedence over everything in the loop.
        if let Either::First(_) = first(stopped, self.relay(&mut input)).await {
            return Ok(());
        }
        let _ = timeout(LAST_WRITE_TIMEOUT, self.output.finish()).await;
        Ok(())
    }

    /// The loop. Ends when stdin is closed and every message read from it is answered or overdue.
    async fn relay(&mut self, input: &mut Input) {
        self.open_session();
        loop {
            self.pump();
            self.output.flush();
            if self.until.is_some() && self.is_settled() {
                return;
            }
            let deadline = self.deadline();
            // While the host does not read, no new work is accepted from it.
            let full = self.output.is_full();
            let reads = self.until.is_none() && !full && !self.is_crowded();
            match self.next_event(input, reads, full, deadline).await {
                RelayEvent::Frame(Some(frame)) => {
                    self.on_frame(frame);
                    while !self.is_crowded()
                        && let Some(frame) = input.read_before()
                    {
                        self.on_frame(frame);
                    }
                }
                RelayEvent::Frame(None) => self.until = Some(Instant::now() + ANSWER_TIMEOUT_AT_END),
                RelayEvent::Posted(posted) => {
                    self.on_posted(posted);
                    while let Some(posted) = self.posts.take_finished() {
                        self.on_posted(posted);
                    }
                }
                RelayEvent::Mail(epoch, mail) => self.on_mail(epoch, mail),
                RelayEvent::Opened(opened) => self.on_opened(opened),
                RelayEvent::HostRead => {}
                RelayEvent::Time => {
                    if self.on_time(Instant::now()) {
                        return;
                    }
                }
            }
        }
    }

    /// Waits for the next event. `reads`: the host may send; `full`: it takes nothing. Each turn begins with
    /// another source, so that none starves the others.
    async fn next_event(
        &mut self,
        input: &mut Input,
        reads: bool,
        full: bool,
        deadline: Option<Instant>,
    ) -> RelayEvent {
        self.turn = (self.turn + 1) % SOURCES;
        let turn = self.turn;
        let Self { posts, mail, link, output, .. } = self;
        let mut frame = pin!(input.next());
        let mut posted = pin!(posts.next(!full));
        let mut opened = pin!(link.opened());
        let mut host_read = pin!(output.wait_for_read());
        let mut time = pin!(at(deadline));
        poll_fn(|context| {
            let mut source = turn;
            for _ in 0..SOURCES {
                let event = match source {
                    0 if reads => frame.as_mut().poll(context).map(RelayEvent::Frame),
                    1 => posted.as_mut().poll(context).map(RelayEvent::Posted),
                    2 if !full => match mail.poll_recv(context) {
                        Poll::Ready(Some((epoch, mail))) => Poll::Ready(RelayEvent::Mail(epoch, mail)),
                        _ => Poll::Pending,
                    },
                    3 => opened.as_mut().poll(context).map(RelayEvent::Opened),
                    4 if full => host_read.as_mut().poll(context).map(|()| RelayEvent::HostRead),
                    5 => time.as_mut().poll(context).map(|()| RelayEvent::Time),
                    _ => Poll::Pending,
                };
                if event.is_ready() {
                    return event;
                }
                source = if source + 1 == SOURCES { 0 } else { source + 1 };
            }
            Poll::Pending
        })
        .await
    }

    /// Whether so many notifications wait that the host should not be read: its pipe can hold the rest. Only
    /// while a daemon takes messages; without one, excess notifications are dropped.
    fn is_crowded(&self) -> bool {
        self.waiting.is_crowded() && self.link.session().is_some() && !self.link.is_draining()
    }

    /// Whether every message read from the host has been dealt with.
    fn is_settled(&self) -> bool {
        let nothing_waits = self.waiting.is_empty() && self.delayed.is_empty() && self.unsent.is_empty();
        nothing_waits && self.calls.only_listens() && self.posts.len() <= self.calls.len()
    }

    /// The next moment at which something is due.
    fn deadline(&self) -> Option<Instant> {
        let delayed = self.delayed.iter().map(|delayed| delayed.until);
        let stranded = (!self.unsent.is_empty()).then_some(self.retry_unsent_at);
        let link = self.link.deadline(self.waiting.oldest(), self.has_old_calls());
        let others = stranded.into_iter().chain(link).chain(self.until).chain(self.idle.due());
        delayed.chain(self.calls.given_up_at()).chain(others).min()
    }

    /// Handles everything that is due; true when the relay should end.
    fn on_time(&mut self, now: Instant) -> bool {
        self.release_delayed(now);
        self.give_up_lost(now);
        self.link_due(now);
        self.idle.trim(now);
        if self.until.is_none_or(|until| until > now) {
            return false;
        }
        self.give_up_all();
        true
    }

    fn on_frame(&mut self, frame: Frame) {
        match frame {
            Frame::Message { body, framing } => {
                self.framing.get_or_insert(framing);
                self.want_daemon();
                self.on_message(body);
            }
            Frame::Noise(_) => self.write(fault::parse_error()),
            Frame::Oversize { id, is_call, bytes, .. } => {
                let why = format!("message of {bytes} bytes is over the limit of {MAX_MESSAGE} bytes");
                let id = id.filter(|id| is_answerable(id));
                self.write(match id {
                    // The message's era is unknown; only legacy hosts send `initialize`.
                    Some(id) if is_call => {
                        Fault::NotTaken { status: 413, why }.to_call(&id, !self.replay.is_initialized())
                    }
                    id => fault::invalid_request(id.as_deref(), &why),
                });
            }
        }
    }

    fn on_message(&mut self, body: Bytes) {
        match methods::read(&body) {
            Ok(HostMessage::Ping { id }) => self.write(fault::empty_result(&id)),
            Ok(HostMessage::Cancel { request, body }) => self.cancel(&request, body),
            Ok(HostMessage::Forward(kind)) => {
                self.arrivals += 1;
                let arrived = Instant::now();
                self.hold(OutgoingMessage { arrival: self.arrivals, arrived, body, kind, tries: 0 });
            }
            Err(Malformed::NotJson) => self.write(fault::parse_error()),
            Err(malformed @ Malformed::NotMessage(_)) => {
                if self.batches && batch::is_array(&body) {
                    return self.on_batch_of_host(&body);
                }
                let id = readable_id(&body);
                self.write(fault::invalid_request(id.as_deref(), &malformed.to_string()));
            }
        }
    }

    /// Handles each message of a batch by itself; answers are not batched.
    fn on_batch_of_host(&mut self, body: &Bytes) {
        let messages = match batch::split(body) {
            Ok(messages) => messages,
            Err(Malformed::NotJson) => return self.write(fault::parse_error()),
            Err(malformed) => return self.write(fault::invalid_request(None, &malformed.to_string())),
        };
        for message in messages {
            let message = body.slice_ref(message.get().as_bytes());
            let refused = batch::read(&message, methods::is_excluded_from_batches).err();
            match refused {
                Some(answer) => self.write(answer),
                None => self.on_message(message),
            }
        }
    }

    /// Drops a request that the host cancelled. Closing its connection tells the daemon.
    fn cancel(&mut self, id: &str, body: Bytes) {
        if self.waiting.withdraw(id).is_some() {
            return;
        }
        self.delayed.retain(|delayed| &*delayed.id != id);
        let Some(found) = self.calls.find(id) else {
            return;
        };
        if matches!(found.message.kind, OutgoingKind::Request { method: HostMethod::Initialize, .. }) {
            return;
        }
        let arrival = found.message.arrival;
        let call = self.calls.remove(arrival).expect("BUG: it was found a moment ago");
        self.posts.abort(&call.ticket);
        self.fill_gap(call.epoch, call.seq, body);
    }

    fn fail(&mut self, message: &OutgoingMessage, fault: &Fault) {
        if let Some(answer) = fault.answer(message) {
            self.write(answer);
        }
    }

    /// Queues one whole message for the host; the loop flushes once per turn.
    fn write(&mut self, body: impl Into<Bytes>) {
        self.output.push(self.framing.unwrap_or(Framing::Line), body.into());
    }
}

/// Signals `stop` when a signal arrives or nothing reads our output any more.
async fn end(mut signals: [Signal; 3], closed: impl Future<Output = ()>, stop: oneshot::Sender<()>) {
    let signal = poll_fn(|context| {
        let came = signals.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
        if came { Poll::Ready(()) } else { Poll::Pending }
    });
    first(signal, closed).await;
    let _ = stop.send(());
}

fn signals() -> io::Result<[Signal; 3]> {
    let [interrupt, terminate, hangup] =
        [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
    Ok([interrupt?, terminate?, hangup?])
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
