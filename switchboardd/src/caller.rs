//! Who a call is made for, as far as a child is concerned: where its progress, logs and questions go.

mod once;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::json;
use switchboard_wire::envelope::{Message, place_of, splice};
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

use crate::era::terms::Terms;
use crate::era::{Era, envelope};
use crate::mailbox::{Kind, Mailbox};
use crate::methods;
use crate::thrift::Account;

pub use once::{Input, Once};

/// The random name of one daemon run. It is part of every id that we send to a host, so that an
/// answer to a question of an earlier run is recognised and dropped.
#[derive(Debug)]
pub struct Boot {
    name: Box<str>,
    questions: AtomicU64,
}

impl Boot {
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
    sort: Sort,
}

#[derive(Debug)]
enum Sort {
    /// One host's conversation.
    Host(Listening),
    /// One call of a host that has a stream of its own.
    Streamed(Streamed),
    /// A modern request of one.
    Once(Once),
    /// A host that has no session, and is known by what it calls itself.
    Named(Mutex<Account>),
    /// A single request that came without any of these.
    Deaf,
}

/// A call whose messages go to its own stream; everything else is its host's.
#[derive(Debug)]
struct Streamed {
    host: Arc<Caller>,
    mailbox: Arc<Mailbox>,
}

#[derive(Debug)]
struct Listening {
    boot: Arc<Boot>,
    mailbox: Arc<Mailbox>,
    // Leaf locks: held for a look or an insert, never across an await.
    profile: Mutex<Profile>,
    questions: Mutex<HashMap<Box<str>, Question>>,
    lanes: Mutex<HashMap<Box<str>, Lane>>,
    account: Mutex<Account>,
    /// The directory that its session belongs to.
    folder: Mutex<Option<PathBuf>>,
    closed: AtomicBool,
}

/// Whoever holds it may write to one child; the others queue in the order they came.
type Lane = Arc<tokio::sync::Mutex<()>>;

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
    pub takes: Takes,
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

/// Which questions the host can be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Takes {
    pub sampling: bool,
    pub elicitation_form: bool,
    pub elicitation_url: bool,
    pub roots: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    Debug,
    #[default]
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl LogLevel {
    pub fn word(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

/// Gets the host's whole response and the id within it.
type OnAnswer = Box<dyn FnOnce(&[u8], Raw<'_>) + Send>;

struct Question {
    method: Box<str>,
    answer: OnAnswer,
}

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Question")
    }
}

impl Takes {
    /// Reads the `capabilities` of an `initialize`.
    pub fn declared(capabilities: Raw<'_>) -> Self {
        let Some(capabilities) = Members::of(capabilities) else { return Self::default() };
        let elicitation = capabilities.get("elicitation").and_then(Members::of);
        let mode = |name| elicitation.as_ref().is_some_and(|modes| modes.get(name).is_some());
        Self {
            sampling: capabilities.get("sampling").is_some(),
            // A host of a revision without modes declares an empty object and means forms.
            elicitation_form: elicitation.as_ref().is_some_and(|modes| modes.0.is_empty()) || mode("form"),
            elicitation_url: mode("url"),
            roots: capabilities.get("roots").is_some(),
        }
    }

    pub fn question(self, method: &str, params: Option<Raw<'_>>) -> bool {
        match method {
            methods::SAMPLING => self.sampling,
            methods::ROOTS_LIST => self.roots,
            methods::ELICITATION => {
                let mode = params.and_then(Members::of).and_then(|params| params.text("mode"));
                if mode.as_deref() == Some("url") { self.elicitation_url } else { self.elicitation_form }
            }
            _ => false,
        }
    }
}

impl Caller {
    /// Somebody whose shim fetches a mailbox.
    pub fn listening(boot: Arc<Boot>) -> Arc<Self> {
        let listening = Listening {
            boot,
            mailbox: Arc::default(),
            profile: Mutex::default(),
            questions: Mutex::default(),
            lanes: Mutex::default(),
            account: Mutex::default(),
            folder: Mutex::default(),
            closed: AtomicBool::new(false),
        };
        Self::of(Sort::Host(listening))
    }

    /// One call of this host, with a stream of its own.
    pub fn on_stream(self: &Arc<Self>, mailbox: Arc<Mailbox>) -> Arc<Self> {
        Self::of(Sort::Streamed(Streamed { host: self.owner().clone(), mailbox }))
    }

    /// Somebody who only hears the answer: the daemon itself, or a bare HTTP request.
    pub fn deaf() -> Arc<Self> {
        Self::of(Sort::Deaf)
    }

    /// A host that only hears answers, and is told apart from others.
    pub fn named() -> Arc<Self> {
        Self::of(Sort::Named(Mutex::default()))
    }

    /// A modern request of `session`: it says itself who asks, and a question to it is its answer. What a child
    /// says meanwhile goes to `hears`.
    pub fn once(session: &Arc<Self>, hears: &Arc<Self>, terms: Terms, pinned: Option<u32>) -> Arc<Self> {
        Self::of(Sort::Once(Once::new(session, hears, terms, pinned)))
    }

    fn of(sort: Sort) -> Arc<Self> {
        Arc::new(Self { sort })
    }

    /// The modern request that this is, if it is one.
    pub fn as_once(&self) -> Option<&Once> {
        match &self.sort {
            Sort::Once(once) => Some(once),
            _ => None,
        }
    }

    pub fn era(&self) -> Era {
        if self.as_once().is_some() { Era::Modern } else { Era::Legacy }
    }

    /// Whose the request is: a child that is a session's own is this one's.
    pub fn owner(self: &Arc<Self>) -> &Arc<Self> {
        match &self.sort {
            Sort::Streamed(call) => &call.host,
            Sort::Once(once) => &once.session,
            Sort::Host(_) | Sort::Named(_) | Sort::Deaf => self,
        }
    }

    /// Whether both are one host's. Of those who have neither a session nor a name nobody knows that.
    pub fn is_same_host(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        let (one, another) = (self.owner(), other.owner());
        Arc::ptr_eq(self, other) || (Arc::ptr_eq(one, another) && !matches!(one.sort, Sort::Deaf))
    }

    /// Whether what is said to the one may as well be said to the other: a question is the answer to one modern
    /// request, and to no other, also of the same host.
    pub fn hears_for(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        let is_request = |caller: &Self| caller.as_once().is_some();
        Arc::ptr_eq(self, other) || (!is_request(self) && !is_request(other) && self.is_same_host(other))
    }

    /// Whether nobody knows whose it is: there is no session.
    pub fn is_stranger(self: &Arc<Self>) -> bool {
        matches!(self.owner().sort, Sort::Deaf)
    }

    /// Whether it is one of our own commands, which no host would have started a child for.
    pub fn is_command_line(self: &Arc<Self>) -> bool {
        self.owner().profile().client.as_deref().is_some_and(|client| COMMAND_LINE.contains(&client))
    }

    /// What its host was shown, used and fetched so far; `None` for a stranger, of whom nobody knows that, and for
    /// our own commands, which are no host.
    pub fn account(self: &Arc<Self>) -> Option<std::sync::MutexGuard<'_, Account>> {
        if self.is_command_line() {
            return None;
        }
        let account = match &self.owner().sort {
            Sort::Host(listening) => &listening.account,
            Sort::Named(account) => account,
            Sort::Streamed(_) | Sort::Once(_) | Sort::Deaf => return None,
        };
        Some(account.lock().expect("BUG: a note panicked"))
    }

    /// The directory that its session belongs to.
    pub fn works_in(&self, folder: &Path) {
        if let Sort::Host(listening) = &self.sort {
            *listening.folder.lock().expect("BUG: a copy panicked") = Some(folder.to_owned());
        }
    }

    pub fn folder(self: &Arc<Self>) -> Option<PathBuf> {
        let Sort::Host(listening) = &self.owner().sort else { return None };
        listening.folder.lock().expect("BUG: a copy panicked").clone()
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
        matches!(self.owner().sort, Sort::Host(_))
    }

    /// The process that a retry has to come back to.
    pub fn pinned(&self) -> Option<u32> {
        self.as_once().and_then(|once| once.pinned)
    }

    /// The conversation that this is, or is a call of.
    fn ears(&self) -> Option<&Listening> {
        match &self.sort {
            Sort::Host(listening) => Some(listening),
            Sort::Streamed(call) => call.host.ears(),
            // It is asked by its own answer, and has said itself what it is.
            Sort::Once(_) | Sort::Named(_) | Sort::Deaf => None,
        }
    }

    /// Where messages to it wait. What comes when its call was answered is its host's.
    pub fn mailbox(&self) -> Option<Arc<Mailbox>> {
        match &self.sort {
            Sort::Host(listening) => Some(listening.mailbox.clone()),
            Sort::Streamed(call) if !call.mailbox.is_closed() => Some(call.mailbox.clone()),
            Sort::Streamed(call) => call.host.mailbox(),
            Sort::Once(once) => once.hears()?.mailbox(),
            Sort::Named(_) | Sort::Deaf => None,
        }
    }

    /// Whether a log message of this level is wanted. A modern request wants none that it did not ask for.
    pub fn hears(&self, level: LogLevel) -> bool {
        match &self.sort {
            Sort::Once(once) => once.terms.level.is_some_and(|floor| level >= floor),
            _ => level >= self.profile().log_level,
        }
    }

    /// What a modern child is told of whoever asks.
    pub fn envelope(&self) -> envelope::Envelope {
        let profile = self.profile();
        envelope::Envelope {
            capabilities: envelope::capabilities(profile.takes),
            client: profile.client_info,
            level: profile.set_level.then_some(profile.log_level),
        }
    }

    pub fn profile(&self) -> Profile {
        if let Some(once) = self.as_once() {
            return once.profile();
        }
        self.ears().map_or_else(Profile::default, |listening| {
            listening.profile.lock().expect("BUG: a profile update panicked").clone()
        })
    }

    pub fn update(&self, change: impl FnOnce(&mut Profile)) {
        if let Some(listening) = self.ears() {
            change(&mut listening.profile.lock().expect("BUG: a profile update panicked"));
        }
    }

    /// The right to send to `child` next. The place in the queue is taken at the first poll, so the
    /// order in which calls are dispatched is the order in which the child sees them.
    pub async fn lane(&self, child: &str) -> Option<tokio::sync::OwnedMutexGuard<()>> {
        if let Some(once) = self.as_once() {
            return Box::pin(once.session.lane(child)).await;
        }
        let lane = {
            let mut lanes = self.ears()?.lanes.lock().expect("BUG: a lane panicked");
            match lanes.get(child) {
                Some(lane) => lane.clone(),
                None => lanes.entry(child.into()).or_default().clone(),
            }
        };
        // Unconstrained: a used-up budget must not make a call lose its place.
        Some(tokio::task::coop::unconstrained(lane.lock_owned()).await)
    }

    pub fn push(&self, kind: Kind, body: Vec<u8>) {
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
        if let Some(once) = self.as_once() {
            return once.ask(id, method, params, Box::new(answer));
        }
        let listening = self.ears()?;
        // Nobody reads the mailbox of a session that has ended.
        if self.is_closed() || !self.profile().takes.question(method, params) {
            return None;
        }
        let ours = listening.boot.next_question();
        let body = splice(request, place_of(request, id.get()), format!("\"{ours}\"").as_bytes());
        listening.lock().insert(ours.clone(), Question { method: method.into(), answer: Box::new(answer) });
        if !self.mailbox()?.push(Kind::Question, body.into()) {
            listening.lock().remove(&ours);
            return None;
        }
        Some(ours)
    }

    /// The host's answer to one of our questions; false if it is not, or no longer, open.
    pub fn answered(&self, id: &str, response: &[u8], raw_id: Raw<'_>) -> bool {
        let question = self.ears().and_then(|listening| listening.lock().remove(id));
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
        let Some(listening) = self.ears() else { return };
        listening.closed.store(true, Ordering::Relaxed);
        let open = std::mem::take(&mut *listening.lock());
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
        self.ears().is_some_and(|listening| listening.closed.load(Ordering::Relaxed))
    }

    /// The child no longer wants to know: tells the host so.
    pub fn withdraw(&self, id: &str, reason: &str) {
        if let Some(once) = self.as_once() {
            once.withdraw(id);
        }
        let Some(listening) = self.ears() else { return };
        if listening.lock().remove(id).is_some() {
            let body = json!({
                "jsonrpc": "2.0",
                "method": methods::CANCELLED,
                "params": { "requestId": id, "reason": reason },
            });
            self.push(Kind::Question, body.to_string().into_bytes());
        }
    }
}

impl Listening {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Box<str>, Question>> {
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
        let takes = |text| Takes::declared(raw(text));
        assert_eq!(takes("{}"), Takes::default());
        assert!(takes(r#"{"sampling":{}}"#).sampling);
        let plain = takes(r#"{"elicitation":{}}"#);
        assert!(plain.elicitation_form && !plain.elicitation_url);
        let url = takes(r#"{"elicitation":{"url":{}}}"#);
        assert!(!url.elicitation_form && url.elicitation_url);
        assert!(url.question(methods::ELICITATION, Some(raw(r#"{"mode":"url"}"#))));
        assert!(!url.question(methods::ELICITATION, None));
        assert!(!url.question(methods::ROOTS_LIST, None));
    }
}
