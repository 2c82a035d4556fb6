//! The link to the daemon as one state: a session is up, one is being opened, or the link is down until the
//! next retry.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::backoff::Backoff;
use switchboard_wire::envelope;
use switchboard_wire::hop::Draining;
use switchboard_wire::raw::Raw;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

use super::Relay;
use super::calls::SentMessage;
use crate::fault::{self, Fault};
use crate::greeting;
use crate::link::{self, OpenError, OpenedSession};
use crate::mailbox;
use crate::methods::{self, HostMethod, OutgoingKind, OutgoingMessage};
use crate::start::LaunchError;

/// The pause after the first failure; it doubles up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Until the host sends something, nobody needs a daemon.
const UNWANTED_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a request waits for a daemon when there is none and none can be started.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// How long calls of a lost daemon may take to end by themselves: their answers may still arrive.
const OLD_CALLS_TIMEOUT: Duration = Duration::from_millis(500);

pub(super) struct Link {
    state: LinkState,
    epoch: u64,
    backoff: Backoff,
    /// Since when there is no session.
    since: Instant,
    /// Why there is none, if that is known.
    why: Option<DownReason>,
    /// A user stopped the daemon.
    stopped: bool,
    /// When the last attempt at a session failed.
    tried: Instant,
    /// Whether the current attempt does all that this shim may do. If it fails, it is repeated.
    tries_to_start: bool,
}

enum LinkState {
    Up(RelaySession),
    Opening(JoinHandle<Result<OpenedSession, OpenError>>),
    Down { retry: Instant },
}

/// Why there is no session.
#[derive(Debug, Clone)]
enum DownReason {
    /// The daemon may be reachable soon.
    Unreachable(String),
    /// A retry will not help.
    Versions(String),
}

/// An open session with a daemon.
pub(super) struct RelaySession {
    pub(super) id: Arc<str>,
    /// The socket of its daemon.
    pub(super) socket: Arc<Path>,
    /// Distinguishes this session's calls from those of earlier sessions.
    pub(super) epoch: u64,
    /// The number of the last message sent.
    pub(super) seq: u64,
    /// The number of the last mailbox message written to the host.
    pub(super) mail: u64,
    pub(super) draining: Option<Draining>,
    /// When to give up on a draining daemon.
    pub(super) drain_ends: Option<Instant>,
    boot: String,
    mailbox: AbortHandle,
}

impl RelaySession {
    /// Whether the question with this raw id came from this daemon.
    pub(super) fn is_open_question(&self, id: &str) -> bool {
        let id = Raw::parse(id.as_bytes()).and_then(envelope::string);
        id.and_then(|id| Some(id.strip_prefix(&self.boot)?.starts_with('-'))).unwrap_or(false)
    }
}

impl Drop for RelaySession {
    fn drop(&mut self) {
        self.mailbox.abort();
    }
}

impl Link {
    pub(super) fn new() -> Self {
        let since = Instant::now();
        Self {
            state: LinkState::Down { retry: since },
            epoch: 0,
            backoff: Backoff::new(FIRST_PAUSE, MAX_PAUSE),
            since,
            why: None,
            stopped: false,
            tried: since,
            tries_to_start: false,
        }
    }

    pub(super) fn session(&self) -> Option<&RelaySession> {
        match &self.state {
            LinkState::Up(session) => Some(session),
            LinkState::Opening(_) | LinkState::Down { .. } => None,
        }
    }

    pub(super) fn session_mut(&mut self) -> Option<&mut RelaySession> {
        match &mut self.state {
            LinkState::Up(session) => Some(session),
            LinkState::Opening(_) | LinkState::Down { .. } => None,
        }
    }

    /// If waiting is pointless: the fault for every request that arrived up to the returned time.
    pub(super) fn refusal(&self) -> Option<(Fault, Instant)> {
        match (&self.state, &self.why) {
            (LinkState::Up(session), _) if self.stopped && session.draining.is_some() => {
                Some((Fault::Stopped, Instant::now()))
            }
            // A user may have started the daemon since the last attempt.
            (LinkState::Down { .. }, _) if self.stopped => Some((Fault::Stopped, self.tried)),
            (LinkState::Down { .. }, Some(DownReason::Versions(why))) => {
                Some((Fault::Versions(why.clone()), Instant::now()))
            }
            _ => None,
        }
    }

    /// Whether to attempt a session before the retry time: the last attempt found the daemon stopped, and a
    /// request has arrived since.
    pub(super) fn is_asked_for(&self, oldest: Option<Instant>) -> bool {
        let is_down = matches!(self.state, LinkState::Down { .. });
        is_down && self.stopped && oldest.is_some_and(|arrived| arrived > self.tried)
    }

    pub(super) fn is_draining(&self) -> bool {
        self.session().is_some_and(|session| session.draining.is_some())
    }

    pub(super) fn why(&self) -> Option<String> {
        self.why.as_ref().map(|(DownReason::Unreachable(why) | DownReason::Versions(why))| why.clone())
    }

    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    /// The outcome of the current attempt.
    pub(super) async fn opened(&mut self) -> Result<OpenedSession, OpenError> {
        let LinkState::Opening(task) = &mut self.state else {
            return std::future::pending().await;
        };
        match task.await {
            Ok(opened) => opened,
            Err(error) => Err(OpenError::Died(error.to_string())),
        }
    }

    /// The next deadline: a retry, the end of a wait or drain, or giving up old calls.
    pub(super) fn deadline(&self, oldest: Option<Instant>, old_calls: bool) -> Option<Instant> {
        let settled = old_calls.then_some(self.since + OLD_CALLS_TIMEOUT);
        let other = match &self.state {
            LinkState::Up(session) => session.drain_ends,
            LinkState::Opening(_) => None,
            LinkState::Down { retry } => {
                let expired = oldest.map(|arrived| arrived.max(self.since) + MAX_WAIT);
                expired.into_iter().chain([*retry]).min()
            }
        };
        settled.into_iter().chain(other).min()
    }

    fn down(&mut self, retry: Instant) {
        self.state = LinkState::Down { retry };
    }
}

impl Relay {
    /// Starts an attempt to open a session.
    pub(super) fn open_session(&mut self) {
        let open = link::open(
            Arc::clone(&self.target),
            self.may_start && self.is_wanted && !self.link.stopped,
            self.spec.clone(),
            self.replay.messages(),
            self.replay.shown.clone(),
        );
        self.link.tries_to_start = self.is_wanted || !self.may_start;
        self.link.state = LinkState::Opening(tokio::spawn(open));
    }

    /// The host has sent something. A process that only opens and closes its pipe leaves no daemon behind.
    pub(super) fn want_daemon(&mut self) {
        if !std::mem::replace(&mut self.is_wanted, true) && matches!(self.link.state, LinkState::Down { .. })
        {
            self.open_session();
        }
    }

    pub(super) fn on_opened(&mut self, opened: Result<OpenedSession, OpenError>) {
        let now = Instant::now();
        let error = match opened {
            Ok(opened) => return self.on_session_opened(opened),
            Err(_) if !self.link.tries_to_start && self.is_wanted => return self.open_session(),
            Err(_) if !self.link.tries_to_start => return self.link.down(now + UNWANTED_PAUSE),
            Err(error) => error,
        };
        self.link.tried = now;
        let text = error.to_string();
        if self.link.why().as_deref() != Some(&text) {
            self.notes.say(&text);
        }
        if matches!(error, OpenError::Start(LaunchError::Stopped)) {
            self.link.stop();
        }
        self.link.why = Some(match error {
            OpenError::Versions(_) => DownReason::Versions(text),
            _ => DownReason::Unreachable(text),
        });
        let next = self.link.backoff.next_pause();
        let pause = if self.link.stopped { MAX_PAUSE } else { next };
        self.link.down(now + pause);
        self.link_due(now);
    }

    fn on_session_opened(&mut self, opened: OpenedSession) {
        let OpenedSession { session, boot, connection, socket, started } = opened;
        if self.link.epoch == 0 && !started && self.target.config.is_some() {
            self.notes.say(
                "switchboardd is running already, so `--config` has no effect; run `switchboard stop`, then start again",
            );
        }
        self.link.epoch += 1;
        let epoch = self.link.epoch;
        let poll = mailbox::poll(Arc::clone(&socket), Arc::clone(&session), epoch, self.mail_sender.clone());
        let mailbox = tokio::spawn(poll).abort_handle();
        self.idle.clear();
        if let Some(connection) = connection {
            self.idle.put(connection);
        }
        self.link.state = LinkState::Up(RelaySession {
            id: session,
            socket,
            epoch,
            seq: 0,
            mail: 0,
            draining: None,
            drain_ends: None,
            boot,
            mailbox,
        });
        self.link.backoff.reset();
        self.link.why = None;
        self.link.stopped = false;
        if std::mem::take(&mut self.greeted) {
            greeting::list_changed_notifications().for_each(|change| self.write(change));
        }
    }

    /// Answers without a daemon, to keep a host that would give up its connection. False if that needs a
    /// daemon.
    fn answer_alone(&mut self, message: &OutgoingMessage, why: &str) -> bool {
        // With `--child`, only the child itself can answer.
        if self.spec.child.is_some() {
            return false;
        }
        let Some(answer) = greeting::answer(message, self.greeted, why) else { return false };
        if let OutgoingKind::Request { id, method: HostMethod::Initialize } = &message.kind {
            // No daemon has parsed it in full, and it would be replayed to the next one.
            if envelope::Message::parse(&message.body).is_err() {
                self.write(fault::parse_error_of(id));
                return true;
            }
            self.greeted = true;
            // Replayed to the next daemon.
            self.replay.note(&message.kind, &message.body);
            self.batches = methods::agrees_on_batches(&answer);
        }
        self.write(answer);
        true
    }

    /// The daemon, or our session there, is gone.
    pub(super) fn on_session_lost(&mut self, why: &str) {
        let draining = self.link.session().and_then(|session| session.draining);
        if draining.is_none() {
            self.notes.say(&format!("lost switchboardd: {why}"));
        }
        let now = Instant::now();
        self.link.since = now;
        self.link.down(now);
        self.idle.clear();
        // Messages among them are also in `calls`, marked as unsent.
        self.unsent.clear();
        self.release_delayed(now);
        for id in std::mem::take(&mut self.questions) {
            self.write(fault::cancelled(&id, "switchboardd restarted"));
        }
        let lost = self.calls.take_lost();
        self.lose_all(lost);
        if draining == Some(Draining::Stop) {
            // A user just stopped it; leave it to others to start it again.
            self.link.down(now + MAX_PAUSE);
        } else {
            self.open_session();
        }
    }

    /// Gives up calls of an earlier daemon whose connections did not end by themselves.
    fn settle_old_calls(&mut self) {
        let epoch = self.link.session().map(|session| session.epoch);
        let old = self.calls.take_if(|call| Some(call.epoch) != epoch);
        self.lose_all(old);
    }

    fn lose_all(&mut self, calls: Vec<SentMessage>) {
        for call in calls {
            self.lose(call, &Fault::DaemonGone);
        }
    }

    /// Handles what is due while the daemon changes.
    pub(super) fn link_due(&mut self, now: Instant) {
        if self.link.since + OLD_CALLS_TIMEOUT <= now {
            self.settle_old_calls();
        }
        if self.link.session().and_then(|session| session.drain_ends).is_some_and(|end| end <= now) {
            self.on_session_lost("it was asked to stop and did not end in time");
        }
        let LinkState::Down { retry } = self.link.state else {
            return;
        };
        if self.link.since + MAX_WAIT <= now {
            let why = self.link.why().unwrap_or_else(|| "switchboardd cannot be reached".to_owned());
            while let Some(message) = self.waiting.overdue(now - MAX_WAIT) {
                if !self.answer_alone(&message, &why) {
                    self.fail(&message, &Fault::NoDaemon(why.clone()));
                }
            }
        }
        if retry <= now {
            self.open_session();
        }
    }
}
