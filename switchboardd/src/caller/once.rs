//! One modern request: what it says of its host, and what a legacy child asks while it works on it. There is no
//! way to ask that host anything; the questions wait here until the request is answered with them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use switchboard_wire::envelope::{Message, quoted, string};
use switchboard_wire::raw::Raw;
use tokio::sync::Notify;

use super::{Caller, OnAnswer, Profile};
use crate::era::question;
use crate::era::terms::Terms;
use crate::methods;

#[derive(Debug)]
pub struct Once {
    pub(super) session: Arc<Caller>,
    // A leaf lock: held to copy or replace the handle.
    hears: Mutex<Arc<Caller>>,
    pub terms: Terms,
    pub(super) pinned: Option<u32>,
    // A leaf lock: held for a look or a change.
    basket: Mutex<Basket>,
    rung: Notify,
    /// Its host has the questions and has not come back.
    parked: AtomicBool,
}

#[derive(Debug, Default)]
struct Basket {
    issued: u64,
    open: Vec<Asked>,
    /// What the host would have to declare for a question that it cannot be asked.
    lacking: Option<&'static str>,
    /// Nobody comes for the questions any more.
    gone: bool,
}

struct Asked {
    ours: Box<str>,
    key: Box<str>,
    method: Box<str>,
    /// Its entry of `inputRequests`.
    entry: String,
    answer: OnAnswer,
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Asked({})", self.key)
    }
}

/// A question as the host gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    pub key: Box<str>,
    pub entry: String,
}

impl Once {
    pub(super) fn new(session: &Arc<Caller>, hears: &Arc<Caller>, terms: Terms, pinned: Option<u32>) -> Self {
        Self {
            session: session.clone(),
            hears: Mutex::new(hears.clone()),
            terms,
            pinned,
            basket: Mutex::default(),
            rung: Notify::new(),
            parked: AtomicBool::new(false),
        }
    }

    pub(super) fn profile(&self) -> Profile {
        Profile {
            client: None,
            client_info: self.terms.client.clone(),
            revision: Some(methods::LATEST_MODERN),
            is_modern: true,
            takes: self.terms.takes,
            log_level: self.terms.level.unwrap_or_default(),
            set_level: self.terms.level.is_some(),
        }
    }

    pub(super) fn ask(
        &self,
        id: Raw<'_>,
        method: &str,
        params: Option<Raw<'_>>,
        answer: OnAnswer,
    ) -> Option<Box<str>> {
        let mut basket = self.lock();
        if basket.gone || self.session.is_closed() {
            return None;
        }
        if !self.terms.takes.question(method, params) {
            basket.lacking = Some(question::needs(method, params));
            drop(basket);
            self.rung.notify_one();
            return None;
        }
        basket.issued += 1;
        let ours: Box<str> = format!("input-{}", basket.issued).into();
        // The child's own word for it, where it is one.
        let mut key = string(id).map_or_else(|| id.get().to_owned(), Into::into);
        while basket.open.iter().any(|asked| *asked.key == *key) {
            key.push('\'');
        }
        basket.open.push(Asked {
            ours: ours.clone(),
            key: key.into(),
            method: method.into(),
            entry: question::to_modern(method, params),
            answer,
        });
        drop(basket);
        self.rung.notify_one();
        Some(ours)
    }

    pub(super) fn withdraw(&self, ours: &str) {
        self.lock().open.retain(|asked| &*asked.ours != ours);
    }

    /// Resolves when something was asked.
    pub async fn asked(&self) {
        loop {
            let rung = self.rung.notified();
            {
                let basket = self.lock();
                if !basket.open.is_empty() || basket.lacking.is_some() {
                    return;
                }
            }
            rung.await;
        }
    }

    /// The questions that are open.
    pub fn inputs(&self) -> Vec<Input> {
        let basket = self.lock();
        let input = |asked: &Asked| Input { key: asked.key.clone(), entry: asked.entry.clone() };
        basket.open.iter().map(input).collect()
    }

    /// What the host would have to declare for a question that it was not asked, once.
    pub fn take_lacking(&self) -> Option<&'static str> {
        self.lock().lacking.take()
    }

    /// Who hears what a child says meanwhile; nobody while the host has questions and has not come back.
    pub(super) fn hears(&self) -> Option<Arc<Caller>> {
        (!self.is_parked()).then(|| self.hears.lock().expect("BUG: a copy panicked").clone())
    }

    /// The host's answer to a question; one that nobody asked is nobody's.
    pub fn answer(&self, key: &str, result: Raw<'_>) {
        let asked = {
            let mut basket = self.lock();
            let at = basket.open.iter().position(|asked| &*asked.key == key);
            at.map(|at| basket.open.remove(at))
        };
        if let Some(asked) = asked {
            asked.hears(&format!(r#""result":{}"#, result.get()));
        }
    }

    /// Nobody comes back: what is open is answered as a person would who walks away.
    pub fn walk_away(&self) {
        let open = {
            let mut basket = self.lock();
            basket.gone = true;
            std::mem::take(&mut basket.open)
        };
        for asked in open {
            let outcome = match question::unwilling(&asked.method, "cancel") {
                Some(result) => format!(r#""result":{result}"#),
                None => r#""error":{"code":-1,"message":"the host did not come back"}"#.to_owned(),
            };
            asked.hears(&outcome);
        }
    }

    pub fn is_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed)
    }

    pub fn park(&self) {
        self.parked.store(true, Ordering::Relaxed);
    }

    /// The host came back by another request, which hears from now on.
    pub fn unpark(&self, hears: &Arc<Caller>) {
        *self.hears.lock().expect("BUG: a copy panicked") = hears.clone();
        self.parked.store(false, Ordering::Relaxed);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Basket> {
        self.basket.lock().expect("BUG: a question panicked")
    }
}

impl Asked {
    fn hears(self, outcome: &str) {
        let response = format!(r#"{{"jsonrpc":"2.0","id":{},{outcome}}}"#, quoted(&self.ours));
        if let Ok(Message::Response { id, .. }) = Message::parse(response.as_bytes()) {
            (self.answer)(response.as_bytes(), id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::{LogLevel, Takes};

    fn once() -> Arc<Caller> {
        let takes = Takes { elicitation_form: true, ..Takes::default() };
        let terms = Terms { takes, capabilities: "{}".into(), client: None, level: Some(LogLevel::Error) };
        let session = Caller::deaf();
        Caller::once(&session, &session, terms, None)
    }

    fn raw(text: &str) -> Raw<'_> {
        Raw::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn questions_wait_under_their_own_names_and_are_answered_once() {
        let caller = once();
        let heard = Arc::new(Mutex::new(Vec::new()));
        for id in [r#""name""#, "7", r#""7""#] {
            let heard = heard.clone();
            let answer = move |response: &[u8], _: Raw<'_>| {
                heard.lock().unwrap().push(String::from_utf8_lossy(response).into_owned());
            };
            assert!(caller.ask(b"", raw(id), methods::ELICITATION, None, answer).is_some());
        }
        let once = caller.as_once().unwrap();
        let keys: Vec<_> = once.inputs().into_iter().map(|input| input.key).collect();
        assert_eq!(keys, ["name".into(), "7".into(), Box::<str>::from("7'")]);
        once.answer("name", raw(r#"{"action": "accept"}"#));
        once.answer("name", raw("{}"));
        once.answer("nobody's", raw("{}"));
        assert_eq!(heard.lock().unwrap().len(), 1);
        assert!(heard.lock().unwrap()[0].ends_with(r#""result":{"action": "accept"}}"#));
        once.walk_away();
        assert_eq!(heard.lock().unwrap().len(), 3);
        assert!(heard.lock().unwrap()[2].contains("cancel"));
        assert!(caller.ask(b"", raw("8"), methods::ELICITATION, None, |_, _| {}).is_none());
    }

    #[test]
    fn what_the_host_cannot_be_asked_is_named() {
        let caller = once();
        assert!(caller.ask(b"", raw("1"), methods::SAMPLING, None, |_, _| {}).is_none());
        let once = caller.as_once().unwrap();
        assert_eq!(once.take_lacking(), Some(r#"{"sampling":{}}"#));
        assert_eq!(once.take_lacking(), None);
        assert!(once.inputs().is_empty());
        assert!(caller.hears(LogLevel::Alert) && !caller.hears(LogLevel::Info));
    }
}
