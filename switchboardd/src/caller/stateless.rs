//! One modern request: what it says about its host, and the questions that a legacy child asks meanwhile. The
//! host cannot be asked directly; the questions are collected here and sent as the result of the request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use switchboard_mcp::era::question;
use switchboard_mcp::era::request_meta::RequestMeta;
use switchboard_mcp::methods;
use switchboard_wire::envelope::{Message, quoted, string};
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;
use tokio::sync::Notify;

use super::{Caller, OnAnswer, Profile};
use crate::savings::recorder::Fingerprint;

#[derive(Debug)]
pub struct StatelessRequest {
    pub(super) session: Arc<Caller>,
    // A leaf lock: held to copy or replace the handle.
    listener: Mutex<Arc<Caller>>,
    pub meta: RequestMeta,
    /// Set for a retry: how the request was sent before.
    pub(super) sent_as: Option<SentAs>,
    // A leaf lock: held for a lookup or a change.
    pending: Mutex<PendingInputs>,
    input_added: Notify,
    /// The host has the questions and has not retried yet.
    suspended: AtomicBool,
    /// What the user was asked about this request and said yes to.
    confirmed: OnceLock<Box<str>>,
}

/// How a request was sent to a modern child that asked back. Its retry goes to the same server, and needs no second yes
/// for the same tool.
#[derive(Debug, Clone, Default)]
pub struct SentAs {
    /// The process; 0 if the daemon itself asked.
    pub pid: u32,
    /// What it runs.
    pub launch: Option<Fingerprint>,
    /// What the user said yes to before it was sent.
    pub confirmed: Option<Box<str>>,
}

impl SentAs {
    /// Whether the retry has answers to questions of a server, and not of the daemon.
    pub fn has_answers(&self) -> bool {
        self.launch.is_some()
    }
}

#[derive(Debug, Default)]
struct PendingInputs {
    issued: u64,
    open: Vec<PendingInput>,
    /// The capability that the host lacks for a question that it cannot be asked.
    missing_capability: Option<&'static str>,
    /// The host will not retry any more.
    gone: bool,
}

struct PendingInput {
    ours: Box<str>,
    key: Box<str>,
    method: Box<str>,
    /// Its entry in `inputRequests`.
    entry: String,
    answer: OnAnswer,
}

impl std::fmt::Debug for PendingInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PendingInput({})", self.key)
    }
}

/// A question as it is sent to the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputEntry {
    pub key: Box<str>,
    pub entry: String,
}

impl StatelessRequest {
    pub(super) fn new(
        session: &Arc<Caller>,
        listener: &Arc<Caller>,
        meta: RequestMeta,
        sent_as: Option<SentAs>,
    ) -> Self {
        Self {
            session: session.clone(),
            listener: Mutex::new(listener.clone()),
            meta,
            sent_as,
            pending: Mutex::default(),
            input_added: Notify::new(),
            suspended: AtomicBool::new(false),
            confirmed: OnceLock::new(),
        }
    }

    pub(super) fn profile(&self) -> Profile {
        Profile {
            client: None,
            client_info: self.meta.client.clone(),
            revision: Some(methods::LATEST_MODERN),
            is_modern: true,
            client_capabilities: self.meta.client_capabilities,
            log_level: self.meta.level.unwrap_or_default(),
            set_level: self.meta.level.is_some(),
        }
    }

    pub(super) fn ask(
        &self,
        id: Raw<'_>,
        method: &str,
        params: Option<Raw<'_>>,
        answer: OnAnswer,
    ) -> Option<Box<str>> {
        let mut pending = self.lock();
        if pending.gone || self.session.is_closed() {
            return None;
        }
        if !self.meta.client_capabilities.allows(method, params) {
            pending.missing_capability = Some(question::required_capability(method, params));
            drop(pending);
            self.input_added.notify_one();
            return None;
        }
        pending.issued += 1;
        let ours: Box<str> = format!("input-{}", pending.issued).into();
        // The child's own request id, as text.
        let mut key = string(id).map_or_else(|| id.get().to_owned(), Into::into);
        while pending.open.iter().any(|asked| *asked.key == *key) {
            key.push('\'');
        }
        pending.open.push(PendingInput {
            ours: ours.clone(),
            key: key.into(),
            method: method.into(),
            entry: question::to_modern(method, params),
            answer,
        });
        drop(pending);
        self.input_added.notify_one();
        Some(ours)
    }

    pub(super) fn withdraw(&self, ours: &str) {
        self.lock().open.retain(|asked| &*asked.ours != ours);
    }

    /// Resolves when a question was asked or could not be asked.
    pub async fn wait_for_input(&self) {
        loop {
            let input_added = self.input_added.notified();
            {
                let pending = self.lock();
                if !pending.open.is_empty() || pending.missing_capability.is_some() {
                    return;
                }
            }
            input_added.await;
        }
    }

    /// The open questions.
    pub fn inputs(&self) -> Vec<InputEntry> {
        let pending = self.lock();
        let input = |asked: &PendingInput| InputEntry { key: asked.key.clone(), entry: asked.entry.clone() };
        pending.open.iter().map(input).collect()
    }

    /// Takes the capability that the host lacks for a question that was not asked.
    pub fn take_missing_capability(&self) -> Option<&'static str> {
        self.lock().missing_capability.take()
    }

    /// The caller that receives the child's messages; `None` while the request is suspended.
    pub(super) fn listener(&self) -> Option<Arc<Caller>> {
        (!self.is_suspended()).then(|| self.listener.lock().expect("BUG: a copy panicked").clone())
    }

    /// The host's answer to a question; an unknown key is ignored.
    pub fn answer(&self, key: &str, result: Raw<'_>) {
        let asked = {
            let mut pending = self.lock();
            let at = pending.open.iter().position(|asked| &*asked.key == key);
            at.map(|at| pending.open.remove(at))
        };
        if let Some(asked) = asked {
            asked.respond(&format!(r#""result":{}"#, result.get()));
        }
    }

    /// The host will not retry: answers all open questions with a cancellation.
    pub fn abandon(&self) {
        let open = {
            let mut pending = self.lock();
            pending.gone = true;
            std::mem::take(&mut pending.open)
        };
        for asked in open {
            let outcome = match question::declined_result(&asked.method, "cancel") {
                Some(result) => format!(r#""result":{result}"#),
                None => r#""error":{"code":-1,"message":"the host did not come back"}"#.to_owned(),
            };
            asked.respond(&outcome);
        }
    }

    /// Whether the user has said yes to this request under this key.
    pub fn is_confirmed(&self, key: &str) -> bool {
        self.confirmed_key() == Some(key)
    }

    /// The key of what the user has said yes to.
    pub fn confirmed_key(&self) -> Option<&str> {
        let before = || self.sent_as.as_ref()?.confirmed.as_deref();
        self.confirmed.get().map(|key| &**key).or_else(before)
    }

    /// Counts once, before the request runs.
    pub fn set_confirmed(&self, key: Box<str>) {
        let _ = self.confirmed.set(key);
    }

    pub fn is_suspended(&self) -> bool {
        self.suspended.load(Ordering::Relaxed)
    }

    pub fn suspend(&self) {
        self.suspended.store(true, Ordering::Relaxed);
    }

    /// Continues for the host's retry, which receives messages from now on.
    pub fn resume(&self, listener: &Arc<Caller>) {
        *self.listener.lock().expect("BUG: a copy panicked") = listener.clone();
        self.suspended.store(false, Ordering::Relaxed);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, PendingInputs> {
        self.pending.lock().expect("BUG: a question panicked")
    }
}

impl PendingInput {
    fn respond(self, outcome: &str) {
        let response = rpc::response_with(&quoted(&self.ours), outcome);
        if let Ok(Message::Response { id, .. }) = Message::parse(&response) {
            (self.answer)(&response, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_mcp::client_capabilities::ClientCapabilities;
    use switchboard_mcp::log_level::LogLevel;

    fn stateless() -> Arc<Caller> {
        let client_capabilities =
            ClientCapabilities { elicitation_form: true, ..ClientCapabilities::default() };
        let meta = RequestMeta {
            client_capabilities,
            capabilities: "{}".into(),
            client: None,
            level: Some(LogLevel::Error),
        };
        let session = Caller::anonymous();
        Caller::stateless(&session, &session, meta, None)
    }

    fn raw(text: &str) -> Raw<'_> {
        Raw::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn questions_have_unique_keys_and_are_answered_once() {
        let caller = stateless();
        let heard = Arc::new(Mutex::new(Vec::new()));
        for id in [r#""name""#, "7", r#""7""#] {
            let heard = heard.clone();
            let answer = move |response: &[u8], _: Raw<'_>| {
                heard.lock().unwrap().push(String::from_utf8_lossy(response).into_owned());
            };
            assert!(caller.ask(b"", raw(id), methods::ELICITATION, None, answer).is_some());
        }
        let stateless = caller.as_stateless().unwrap();
        let keys: Vec<_> = stateless.inputs().into_iter().map(|input| input.key).collect();
        assert_eq!(keys, ["name".into(), "7".into(), Box::<str>::from("7'")]);
        stateless.answer("name", raw(r#"{"action": "accept"}"#));
        stateless.answer("name", raw("{}"));
        stateless.answer("nobody's", raw("{}"));
        assert_eq!(heard.lock().unwrap().len(), 1);
        assert!(heard.lock().unwrap()[0].ends_with(r#""result":{"action": "accept"}}"#));
        stateless.abandon();
        assert_eq!(heard.lock().unwrap().len(), 3);
        assert!(heard.lock().unwrap()[2].contains("cancel"));
        assert!(caller.ask(b"", raw("8"), methods::ELICITATION, None, |_, _| {}).is_none());
    }

    #[test]
    fn the_missing_capability_is_reported() {
        let caller = stateless();
        assert!(caller.ask(b"", raw("1"), methods::SAMPLING, None, |_, _| {}).is_none());
        let stateless = caller.as_stateless().unwrap();
        assert_eq!(stateless.take_missing_capability(), Some(r#"{"sampling":{}}"#));
        assert_eq!(stateless.take_missing_capability(), None);
        assert!(stateless.inputs().is_empty());
        assert!(caller.wants_level(LogLevel::Alert) && !caller.wants_level(LogLevel::Info));
    }
}
