//! The caller of a request: where the child sends its progress, logs and questions.

mod confirmed;
pub mod mailbox;
mod stateless;
pub mod subscriptions;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use switchboard_mcp::client_capabilities::ClientCapabilities;
use switchboard_mcp::era::request_meta::RequestMeta;
use switchboard_mcp::era::{ProtocolEra, envelope};
use switchboard_mcp::log_level::LogLevel;
use switchboard_mcp::methods;
use switchboard_wire::envelope::{Message, range_of, splice};
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;

use crate::caller::mailbox::{Mailbox, MessageKind};
use crate::savings::recorder::SessionUsage;

use confirmed::Confirmed;
pub use stateless::{InputEntry, SentAs, StatelessRequest};

/// The random id of one daemon run. It is part of the id of every question to a host, so that answers to
/// questions of an earlier run are recognised and dropped.
#[derive(Debug)]
pub struct RunId {
    name: Box<str>,
    questions: AtomicU64,
}

impl RunId {
    pub fn new() -> Arc<Self> {
        let name = switchboard_wire::random::hex(4).into();
        Arc::new(Self { name, questions: AtomicU64::new(1) })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    fn next_question(&self) -> Box<str> {
        format!("{}-{}", self.name, self.questions.fetch_add(1, Ordering::Relaxed)).into()
    }
}

#[derive(Debug)]
pub struct Caller {
    kind: CallerKind,
}

#[derive(Debug)]
enum CallerKind {
    /// A session of one host.
    Session(Box<SessionCaller>),
    /// One call of a host, with its own event stream.
    Stream(StreamCaller),
    /// One modern request of a host.
    Stateless(StatelessRequest),
    /// A host without a session, known by the name that it gives.
    Named(Mutex<SessionUsage>),
    /// A single request without any of these.
    Anonymous,
}

/// A call whose messages go to its own stream; everything else belongs to its host.
#[derive(Debug)]
struct StreamCaller {
    host: Arc<Caller>,
    mailbox: Arc<Mailbox>,
}

#[derive(Debug)]
struct SessionCaller {
    run_id: Arc<RunId>,
    mailbox: Arc<Mailbox>,
    // Leaf locks: held for a lookup or an insert, never across an await.
    profile: Mutex<Profile>,
    questions: Mutex<HashMap<Box<str>, HostQuestion>>,
    send_queues: Mutex<HashMap<Box<str>, SendQueue>>,
    usage: Mutex<SessionUsage>,
    confirmed: Confirmed,
    /// The directory that its session belongs to.
    folder: Mutex<Option<PathBuf>>,
    closed: AtomicBool,
}

/// Its holder may write to one child; the others wait in the order they arrived.
type SendQueue = Arc<tokio::sync::Mutex<()>>;

/// What the host said about itself.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    pub client: Option<Box<str>>,
    /// `clientInfo` as the host wrote it.
    pub client_info: Option<Box<str>>,
    /// The revision that `initialize` negotiated.
    pub revision: Option<&'static str>,
    /// Whether it has made a modern request.
    pub is_modern: bool,
    pub client_capabilities: ClientCapabilities,
    pub log_level: LogLevel,
    /// Whether the host set that level itself.
    pub set_level: bool,
}

/// The client names of our own commands.
pub const CALL: &str = "switchboard call";
pub const START: &str = "switchboard start";
const COMMAND_LINE: [&str; 2] = [CALL, START];

impl Profile {
    /// Whether the host uses `_meta` of tools: Claude Code searches by it. For others it is a waste.
    pub fn reads_tool_meta(&self) -> bool {
        self.client_name().is_some_and(|name| name.to_ascii_lowercase().starts_with("claude"))
    }

    /// The name that the host gives.
    pub fn client_name(&self) -> Option<String> {
        self.client.as_deref().map(str::to_owned).or_else(|| client_name(self.client_info.as_deref()?))
    }
}

/// The name in `clientInfo`.
pub fn client_name(info: &str) -> Option<String> {
    Raw::parse(info.as_bytes()).and_then(Members::of)?.text("name").map(Into::into)
}

/// Receives the host's whole response and the id within it.
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

/// A `roots/list` result with this folder as the only root.
pub fn folder_as_roots(folder: &Path) -> Option<String> {
    let uri = url::Url::from_directory_path(folder).ok()?;
    let uri = uri.as_str().trim_end_matches('/');
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    Some(json!({ "roots": [{ "uri": uri, "name": name }] }).to_string())
}

impl Caller {
    /// The caller of a session, with a mailbox.
    pub fn for_session(run_id: Arc<RunId>) -> Arc<Self> {
        let session = SessionCaller {
            run_id,
            mailbox: Arc::default(),
            profile: Mutex::default(),
            questions: Mutex::default(),
            send_queues: Mutex::default(),
            usage: Mutex::default(),
            confirmed: Confirmed::default(),
            folder: Mutex::default(),
            closed: AtomicBool::new(false),
        };
        Self::of(CallerKind::Session(Box::new(session)))
    }

    /// One call of this host, with its own event stream.
    pub fn on_stream(self: &Arc<Self>, mailbox: Arc<Mailbox>) -> Arc<Self> {
        Self::of(CallerKind::Stream(StreamCaller { host: self.owner().clone(), mailbox }))
    }

    /// A caller that only gets answers: the daemon itself, or a bare HTTP request.
    pub fn anonymous() -> Arc<Self> {
        Self::of(CallerKind::Anonymous)
    }

    /// A host that only gets answers but is distinguished from others.
    pub fn named() -> Arc<Self> {
        Self::of(CallerKind::Named(Mutex::default()))
    }

    /// A modern request of `session`: it carries its own profile, and questions are sent as its result. Other
    /// messages of the child go to `listener`.
    pub fn stateless(
        session: &Arc<Self>,
        listener: &Arc<Self>,
        meta: RequestMeta,
        sent_as: Option<SentAs>,
    ) -> Arc<Self> {
        Self::of(CallerKind::Stateless(StatelessRequest::new(session, listener, meta, sent_as)))
    }

    fn of(kind: CallerKind) -> Arc<Self> {
        Arc::new(Self { kind })
    }

    /// The modern request, if this is one.
    pub fn as_stateless(&self) -> Option<&StatelessRequest> {
        match &self.kind {
            CallerKind::Stateless(stateless) => Some(stateless),
            _ => None,
        }
    }

    pub fn era(&self) -> ProtocolEra {
        if self.as_stateless().is_some() { ProtocolEra::Modern } else { ProtocolEra::Legacy }
    }

    /// The caller that owns the request. A child with session scope belongs to this owner.
    pub fn owner(self: &Arc<Self>) -> &Arc<Self> {
        match &self.kind {
            CallerKind::Stream(call) => &call.host,
            CallerKind::Stateless(stateless) => &stateless.session,
            CallerKind::Session(_) | CallerKind::Named(_) | CallerKind::Anonymous => self,
        }
    }

    /// Whether both belong to the same host. Unknown, and so false, for two anonymous callers.
    pub fn is_same_host(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        let (one, another) = (self.owner(), other.owner());
        Arc::ptr_eq(self, other) || (Arc::ptr_eq(one, another) && !matches!(one.kind, CallerKind::Anonymous))
    }

    /// Whether both share a mailbox. Two stateless requests never do, even from the same host, because a
    /// question is sent as the result of one specific request.
    pub fn shares_mailbox_with(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        let is_request = |caller: &Self| caller.as_stateless().is_some();
        Arc::ptr_eq(self, other) || (!is_request(self) && !is_request(other) && self.is_same_host(other))
    }

    /// Whether its host is unknown: it has neither a session nor a name.
    pub fn is_anonymous(self: &Arc<Self>) -> bool {
        matches!(self.owner().kind, CallerKind::Anonymous)
    }

    /// Whether it is one of our own commands. The savings report ignores them: no host would have started a
    /// child for them.
    pub fn is_command_line(self: &Arc<Self>) -> bool {
        let Some(session) = self.owner().session_state() else { return false };
        let profile = session.profile.lock().expect("BUG: a profile update panicked");
        profile.client.as_deref().is_some_and(|client| COMMAND_LINE.contains(&client))
    }

    /// What its host was shown, used and fetched so far. `None` for anonymous callers, which are not tracked,
    /// and for our own commands, which are not hosts.
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

    /// Sets the directory that its session belongs to.
    pub fn set_folder(&self, folder: &Path) {
        if let CallerKind::Session(session) = &self.kind {
            *session.folder.lock().expect("BUG: a copy panicked") = Some(folder.to_owned());
        }
    }

    pub fn folder(self: &Arc<Self>) -> Option<PathBuf> {
        let CallerKind::Session(session) = &self.owner().kind else { return None };
        session.folder.lock().expect("BUG: a copy panicked").clone()
    }

    /// A `roots/list` result for a host without roots: the directory of its session as the only root. `None`
    /// without a directory.
    pub fn workspace_as_roots(self: &Arc<Self>) -> Option<String> {
        folder_as_roots(&self.folder()?)
    }

    /// Whether it belongs to a session.
    pub fn has_session(self: &Arc<Self>) -> bool {
        matches!(self.owner().kind, CallerKind::Session(_))
    }

    /// How the request was sent before, if it is a retry.
    pub fn sent_as(&self) -> Option<&SentAs> {
        self.as_stateless().and_then(|stateless| stateless.sent_as.as_ref())
    }

    /// The session that this is, or is a call of.
    fn session_state(&self) -> Option<&SessionCaller> {
        match &self.kind {
            CallerKind::Session(session) => Some(session),
            CallerKind::Stream(call) => call.host.session_state(),
            // A stateless request carries its own profile and is asked through its result.
            CallerKind::Stateless(_) | CallerKind::Named(_) | CallerKind::Anonymous => None,
        }
    }

    /// The mailbox for messages to this caller. After its call was answered, that is the host's mailbox.
    pub fn mailbox(&self) -> Option<Arc<Mailbox>> {
        match &self.kind {
            CallerKind::Session(session) => Some(session.mailbox.clone()),
            CallerKind::Stream(call) if !call.mailbox.is_closed() => Some(call.mailbox.clone()),
            CallerKind::Stream(call) => call.host.mailbox(),
            CallerKind::Stateless(stateless) => stateless.listener()?.mailbox(),
            CallerKind::Named(_) | CallerKind::Anonymous => None,
        }
    }

    /// Whether a log message of this level is wanted. A modern request must name a level to get any.
    pub fn wants_level(&self, level: LogLevel) -> bool {
        match &self.kind {
            CallerKind::Stateless(stateless) => stateless.meta.level.is_some_and(|floor| level >= floor),
            _ => level >= self.profile().log_level,
        }
    }

    /// What a modern child is told about the caller.
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

    /// Waits for the right to send to `child`. The place in the queue is taken at the first poll, so the
    /// child sees the calls in the order of their dispatch.
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
        // Unconstrained: otherwise an exhausted coop budget would make the call lose its place.
        Some(tokio::task::coop::unconstrained(queue.lock_owned()).await)
    }

    pub fn push(&self, kind: MessageKind, body: Vec<u8>) {
        if let Some(mailbox) = self.mailbox() {
            mailbox.push(kind, body.into());
        }
    }

    /// Sends a child's request to the host under an id of ours, which is returned. `answer` receives the
    /// host's whole response and the id within it. `None` if the host cannot be asked.
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

    /// Handles the host's answer to a question; false if the question is not open.
    pub fn deliver_answer(&self, id: &str, response: &[u8], raw_id: Raw<'_>) -> bool {
        let question = self.session_state().and_then(|session| session.lock().remove(id));
        match question {
            Some(question) => {
                (question.answer)(response, raw_id);
                true
            }
            None => false,
        }
    }

    /// Closes the caller when its host has left. Open questions are answered with a cancellation, so that no
    /// child waits forever.
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
                    json!({ "jsonrpc": "2.0", "id": &*id, "error": { "code": -1, "message": "the editor has left" } })
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

    /// Withdraws a question whose answer is no longer needed, and tells the host.
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
    fn a_host_allows_only_declared_capabilities() {
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
