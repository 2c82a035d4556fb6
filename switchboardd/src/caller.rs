//! Who a call is made for, as far as a child is concerned: where its progress, logs and questions go.

mod stateless;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use switchboard_wire::envelope::{Message, range_of, splice};
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;

use crate::client_capabilities::ClientCapabilities;
use crate::era::request_meta::RequestMeta;
use crate::era::{ProtocolEra, envelope};
use crate::log_level::LogLevel;
use crate::mailbox::{Mailbox, MessageKind};
use crate::methods;
use crate::savings_recorder::SessionUsage;

pub use stateless::{InputEntry, StatelessRequest};

/// The random name of one daemon run. It is part of every id that we send to a host, so that an
/// answer to a question of an earlier run is recognised and dropped.
#[derive(Debug)]
pub struct RunId {
    name: Box<str>,
    questions: AtomicU64,
}

impl RunId {
    pub fn new() -> Arc<Self> {
        let name = crate::random::hex(4).into();
        Arc::new(Self { name, questions: AtomicU64::new(1) })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    fn next_question(&self) -> Box<str> {
        format!("{}-{}", self.name, self.questions.fetch_add(1, Ordering::Relaxed)).into()
    }
}

/// Who asks.
#[derive(Debug)]
pub struct Caller {
    kind: CallerKind,
}

#[derive(Debug)]
enum CallerKind {
    /// One host's conversation.
    Session(SessionCaller),
    /// One call of a host that has a stream of its own.
    Stream(StreamCaller),
    /// A modern request of one.
    Stateless(StatelessRequest),
    /// A host that has no session, and is known by what it calls itself.
    Named(Mutex<SessionUsage>),
    /// A single request that came without any of these.
    Anonymous,
}

/// A call whose messages go to its own stream; everything else is its host's.
#[derive(Debug)]
struct StreamCaller {
    host: Arc<Caller>,
    mailbox: Arc<Mailbox>,
}

#[derive(Debug)]
struct SessionCaller {
    run_id: Arc<RunId>,
    mailbox: Arc<Mailbox>,
    // Leaf locks: held for a look or an insert, never across an await.
    profile: Mutex<Profile>,
    questions: Mutex<HashMap<Box<str>, HostQuestion>>,
    send_queues: Mutex<HashMap<Box<str>, SendQueue>>,
    usage: Mutex<SessionUsage>,
    /// The directory that its session belongs to.
    folder: Mutex<Option<PathBuf>>,
    closed: AtomicBool,
}

/// Whoever holds it may write to one child; the others queue in the order they came.
type SendQueue = Arc<tokio::sync::Mutex<()>>;

/// What the host said of itself.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    pub client: Option<Box<str>>,
    /// `clientInfo` as the host wrote it.
    pub client_info: Option<Box<str>>,
    /// What was agreed on with `initialize`.
    pub revision: Option<&'static str>,
    /// It has made a modern request.
    pub is_modern: bool,
    pub client_capabilities: ClientCapabilities,
    pub log_level: LogLevel,
    /// Whether the host itself asked for that level.
    pub set_level: bool,
}

/// What our own commands call themselves when they open a session.
pub const CALL: &str = "switchboard call";
pub const START: &str = "switchboard start";
const COMMAND_LINE: [&str; 2] = [CALL, START];

impl Profile {
    /// What the host calls itself.
    pub fn client_name(&self) -> Option<String> {
        let info = || Raw::parse(self.client_info.as_deref()?.as_bytes()).and_then(Members::of);
        self.client.as_deref().map(str::to_owned).or_else(|| info()?.text("name").map(Into::into))
    }
}

/// Gets the host's whole response and the id within it.
type OnAnswer = Box<dyn FnOnce(&[u8], Raw<'_>) + Send>;

struct HostQuestion {
    method: Box<str>,
    answer: OnAnswer,
}

impl std::fmt::Debug for HostQuestion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Question")
    }
}

impl Caller {
    /// Somebody whose shim fetches a mailbox.
    pub fn for_session(run_id: Arc<RunId>) -> Arc<Self> {
        let session = SessionCaller {
            run_id,
            mailbox: Arc::default(),
            profile: Mutex::default(),
            questions: Mutex::default(),
            send_queues: Mutex::default(),
            usage: Mutex::default(),
            folder: Mutex::default(),
            closed: AtomicBool::new(false),
        };
        Self::of(CallerKind::Session(session))
    }

    /// One call of this host, with a stream of its own.
    pub fn on_stream(self: &Arc<Self>, mailbox: Arc<Mailbox>) -> Arc<Self> {
        Self::of(CallerKind::Stream(StreamCaller { host: self.owner().clone(), mailbox }))
    }

    /// Somebody who only hears the answer: the daemon itself, or a bare HTTP request.
    pub fn anonymous() -> Arc<Self> {
        Self::of(CallerKind::Anonymous)
    }

    /// A host that only hears answers, and is told apart from others.
    pub fn named() -> Arc<Self> {
        Self::of(CallerKind::Named(Mutex::default()))
    }

    /// A modern request of `session`: it says itself who asks, and a question to it is its answer. What a child
    /// says meanwhile goes to `hears`.
    pub fn stateless(
        session: &Arc<Self>,
        listener: &Arc<Self>,
        meta: RequestMeta,
        pinned: Option<u32>,
    ) -> Arc<Self> {
        Self::of(CallerKind::Stateless(StatelessRequest::new(session, listener, meta, pinned)))
    }

    fn of(kind: CallerKind) -> Arc<Self> {
        Arc::new(Self { kind })
    }

    /// The modern request that this is, if it is one.
    pub fn as_stateless(&self) -> Option<&StatelessRequest> {
        match &self.kind {
            CallerKind::Stateless(stateless) => Some(stateless),
            _ => None,
        }
    }

    pub fn era(&self) -> ProtocolEra {
        if self.as_stateless().is_some() { ProtocolEra::Modern } else { ProtocolEra::Legacy }
    }

    /// Whose the request is: a child that is a session's own is this one's.
    pub fn owner(self: &Arc<Self>) -> &Arc<Self> {
        match &self.kind {
            CallerKind::Stream(call) => &call.host,
            CallerKind::Stateless(stateless) => &stateless.session,
            CallerKind::Session(_) | CallerKind::Named(_) | CallerKind::Anonymous => self,
        }
    }

    /// Whether both are one host's. Of those who have neither a session nor a name nobody knows that.
    pub fn is_same_host(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        let (one, another) = (self.owner(), other.owner());
        Arc::ptr_eq(self, other) || (Arc::ptr_eq(one, another) && !matches!(one.kind, CallerKind::Anonymous))
    }

    /// Whether what is said to the one may as well be said to the other: a question is the answer to one modern
    /// request, and to no other, also of the same host.
    pub fn shares_mailbox_with(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        let is_request = |caller: &Self| caller.as_stateless().is_some();
        Arc::ptr_eq(self, other) || (!is_request(self) && !is_request(other) && self.is_same_host(other))
    }

    /// Whether nobody knows whose it is: there is no session.
    pub fn is_anonymous(self: &Arc<Self>) -> bool {
        matches!(self.owner().kind, CallerKind::Anonymous)
    }

    /// Whether it is one of our own commands, which no host would have started a child for.
    pub fn is_command_line(self: &Arc<Self>) -> bool {
        self.owner().profile().client.as_deref().is_some_and(|client| COMMAND_LINE.contains(&client))
    }

    /// What its host was shown, used and fetched so far; `None` for a stranger, of whom nobody knows that, and for
    /// our own commands, which are no host.
    pub fn usage(self: &Arc<Self>) -> Option<std::sync::MutexGuard<'_, SessionUsage>> {
        if self.is_command_line() {
            return None;
        }
        let usage = match &self.owner().kind {
            CallerKind::Session(session) => &session.usage,
            CallerKind::Named(usage) => usage,
            CallerKind::Stream(_) | CallerKind::Stateless(_) | CallerKind::Anonymous => return None,
        };
        Some(usage.lock().expect("BUG: a note panicked"))
    }

    /// The directory that its session belongs to.
    pub fn set_folder(&self, folder: &Path) {
        if let CallerKind::Session(session) = &self.kind {
            *session.folder.lock().expect("BUG: a copy panicked") = Some(folder.to_owned());
        }
    }

    pub fn folder(self: &Arc<Self>) -> Option<PathBuf> {
        let CallerKind::Session(session) = &self.owner().kind else { return None };
        session.folder.lock().expect("BUG: a copy panicked").clone()
    }

    /// The result of `roots/list` for a host that has no roots: the directory of its session, as a root. `None` if it
    /// belongs to no directory.
    pub fn workspace_as_roots(self: &Arc<Self>) -> Option<String> {
        let folder = self.folder()?;
        let uri = url::Url::from_directory_path(&folder).ok()?;
        let uri = uri.as_str().trim_end_matches('/');
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        Some(json!({ "roots": [{ "uri": uri, "name": name }] }).to_string())
    }

    /// Whether it is a session's, which ends.
    pub fn has_session(self: &Arc<Self>) -> bool {
        matches!(self.owner().kind, CallerKind::Session(_))
    }

    /// The process that a retry has to come back to.
    pub fn pinned(&self) -> Option<u32> {
        self.as_stateless().and_then(|stateless| stateless.pinned)
    }

    /// The conversation that this is, or is a call of.
    fn session_state(&self) -> Option<&SessionCaller> {
        match &self.kind {
            CallerKind::Session(session) => Some(session),
            CallerKind::Stream(call) => call.host.session_state(),
            // It is asked by its own answer, and has said itself what it is.
            CallerKind::Stateless(_) | CallerKind::Named(_) | CallerKind::Anonymous => None,
        }
    }

    /// Where messages to it wait. What comes when its call was answered is its host's.
    pub fn mailbox(&self) -> Option<Arc<Mailbox>> {
        match &self.kind {
            CallerKind::Session(session) => Some(session.mailbox.clone()),
            CallerKind::Stream(call) if !call.mailbox.is_closed() => Some(call.mailbox.clone()),
            CallerKind::Stream(call) => call.host.mailbox(),
            CallerKind::Stateless(stateless) => stateless.listener()?.mailbox(),
            CallerKind::Named(_) | CallerKind::Anonymous => None,
        }
    }

    /// Whether a log message of this level is wanted. A modern request wants none that it did not ask for.
    pub fn wants_level(&self, level: LogLevel) -> bool {
        match &self.kind {
            CallerKind::Stateless(stateless) => stateless.meta.level.is_some_and(|floor| level >= floor),
            _ => level >= self.profile().log_level,
        }
    }

    /// What a modern child is told of whoever asks.
    pub fn envelope(&self) -> envelope::Envelope {
        let profile = self.profile();
        envelope::Envelope {
            capabilities: envelope::capabilities(profile.client_capabilities),
            client: profile.client_info,
            level: profile.set_level.then_some(profile.log_level),
        }
    }

    pub fn profile(&self) -> Profile {
        if let Some(stateless) = self.as_stateless() {
            return stateless.profile();
        }
        self.session_state().map_or_else(Profile::default, |session| {
            session.profile.lock().expect("BUG: a profile update panicked").clone()
        })
    }

    pub fn update(&self, change: impl FnOnce(&mut Profile)) {
        if let Some(session) = self.session_state() {
            change(&mut session.profile.lock().expect("BUG: a profile update panicked"));
        }
    }

    /// The right to send to `child` next. The place in the queue is taken at the first poll, so the
    /// order in which calls are dispatched is the order in which the child sees them.
    pub async fn send_queue(&self, child: &str) -> Option<tokio::sync::OwnedMutexGuard<()>> {
        if let Some(stateless) = self.as_stateless() {
            return Box::pin(stateless.session.send_queue(child)).await;
        }
        let queue = {
            let mut queues = self.session_state()?.send_queues.lock().expect("BUG: a send queue panicked");
            match queues.get(child) {
                Some(queue) => queue.clone(),
                None => queues.entry(child.into()).or_default().clone(),
            }
        };
        // Unconstrained: a used-up budget must not make a call lose its place.
        Some(tokio::task::coop::unconstrained(queue.lock_owned()).await)
    }

    pub fn push(&self, kind: MessageKind, body: Vec<u8>) {
        if let Some(mailbox) = self.mailbox() {
            mailbox.push(kind, body.into());
        }
    }

    /// Puts a child's request to the host under an id of ours, which it returns. `answer` gets the
    /// host's whole response and its id within. `None` if the host cannot be asked this.
    pub fn ask(
        &self,
        request: &[u8],
        id: Raw<'_>,
        method: &str,
        params: Option<Raw<'_>>,
        answer: impl FnOnce(&[u8], Raw<'_>) + Send + 'static,
    ) -> Option<Box<str>> {
        if let Some(stateless) = self.as_stateless() {
            return stateless.ask(id, method, params, Box::new(answer));
        }
        let session = self.session_state()?;
        // Nobody reads the mailbox of a session that has ended.
        if self.is_closed() || !self.profile().client_capabilities.allows(method, params) {
            return None;
        }
        let ours = session.run_id.next_question();
        let body = splice(request, range_of(request, id.get()), format!("\"{ours}\"").as_bytes());
        session.lock().insert(ours.clone(), HostQuestion { method: method.into(), answer: Box::new(answer) });
        if !self.mailbox()?.push(MessageKind::Question, body.into()) {
            session.lock().remove(&ours);
            return None;
        }
        Some(ours)
    }

    /// The host's answer to one of our questions; false if it is not, or no longer, open.
    pub fn answered(&self, id: &str, response: &[u8], raw_id: Raw<'_>) -> bool {
        let question = self.session_state().and_then(|session| session.lock().remove(id));
        match question {
            Some(question) => {
                (question.answer)(response, raw_id);
                true
            }
            None => false,
        }
    }

    /// The host is gone: what it was asked is answered for it, so that no child waits for ever.
    pub fn close(&self) {
        let Some(session) = self.session_state() else { return };
        session.closed.store(true, Ordering::Relaxed);
        let open = std::mem::take(&mut *session.lock());
        for (id, question) in open {
            let outcome = match &*question.method {
                methods::ELICITATION => {
                    json!({ "jsonrpc": "2.0", "id": &*id, "result": { "action": "cancel" } })
                }
                methods::ROOTS_LIST => json!({ "jsonrpc": "2.0", "id": &*id, "result": { "roots": [] } }),
                _ => {
                    json!({ "jsonrpc": "2.0", "id": &*id, "error": { "code": -1, "message": "the host has left" } })
                }
            };
            let response = outcome.to_string();
            if let Ok(Message::Response { id, .. }) = Message::parse(response.as_bytes()) {
                (question.answer)(response.as_bytes(), id);
            }
        }
    }

    pub fn is_closed(&self) -> bool {
        self.session_state().is_some_and(|session| session.closed.load(Ordering::Relaxed))
    }

    /// The child no longer wants to know: tells the host so.
    pub fn withdraw(&self, id: &str, reason: &str) {
        if let Some(stateless) = self.as_stateless() {
            stateless.withdraw(id);
        }
        let Some(session) = self.session_state() else { return };
        if session.lock().remove(id).is_some() {
            let params = json!({ "requestId": id, "reason": reason }).to_string();
            self.push(MessageKind::Question, rpc::notification(methods::CANCELLED, Some(&params)));
        }
    }
}

impl SessionCaller {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Box<str>, HostQuestion>> {
        self.questions.lock().expect("BUG: a question panicked")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw<'_> {
        Raw::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn what_a_host_takes_is_what_it_declared() {
        let parse = |text| ClientCapabilities::parse(raw(text));
        assert_eq!(parse("{}"), ClientCapabilities::default());
        assert!(parse(r#"{"sampling":{}}"#).sampling);
        let plain = parse(r#"{"elicitation":{}}"#);
        assert!(plain.elicitation_form && !plain.elicitation_url);
        let url = parse(r#"{"elicitation":{"url":{}}}"#);
        assert!(!url.elicitation_form && url.elicitation_url);
        assert!(url.allows(methods::ELICITATION, Some(raw(r#"{"mode":"url"}"#))));
        assert!(!url.allows(methods::ELICITATION, None));
        assert!(!url.allows(methods::ROOTS_LIST, None));
    }
}
