//! Who listens in a session, the modern way, and for what: each is a request of the host's that stays open, and
//! everything that it hears carries that request's id.

use std::sync::{Arc, Mutex};

use crate::caller::Caller;
use crate::era::SUBSCRIPTION_KEY;
use crate::mailbox::Kind;

#[derive(Debug, Default)]
pub struct Listens {
    // A leaf lock: held for a look, an insert or a removal.
    open: Mutex<Vec<Arc<Listen>>>,
}

#[derive(Debug)]
pub struct Listen {
    pub hears: Arc<Caller>,
    /// The id of its request as the host wrote it, which names the subscription.
    pub id: Box<str>,
    /// The notifications that it wants.
    pub wanted: Vec<&'static str>,
}

/// Listens for as long as it is kept.
#[derive(Debug)]
pub struct Ear<'a> {
    listens: &'a Listens,
    listen: Arc<Listen>,
}

impl Listens {
    pub fn open(&self, listen: Listen) -> Ear<'_> {
        let listen = Arc::new(listen);
        self.lock().push(listen.clone());
        Ear { listens: self, listen }
    }

    /// Tells those who listen for it.
    pub fn tell(&self, method: &'static str) {
        let open = self.lock().clone();
        for listen in open.iter().filter(|listen| listen.wanted.contains(&method)) {
            listen.hears.push(Kind::Changed(method), notification(method, "", &listen.id));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Listen>>> {
        self.open.lock().expect("BUG: bookkeeping panicked")
    }
}

impl Drop for Ear<'_> {
    fn drop(&mut self) {
        self.listens.lock().retain(|open| !Arc::ptr_eq(open, &self.listen));
    }
}

/// A notification of the subscription `id`; `members` stand before its `_meta`, each with a comma behind it.
pub fn notification(method: &str, members: &str, id: &str) -> Vec<u8> {
    let meta = format!(r#""_meta":{{"{SUBSCRIPTION_KEY}":{id}}}"#);
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{{members}{meta}}}}}"#).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Boot;
    use crate::methods;

    #[test]
    fn a_subscription_is_named_by_the_id_as_it_was_written() {
        let hears = Caller::listening(Boot::new());
        let listens = Listens::default();
        let listen =
            Listen { hears: hears.clone(), id: "\"1\"".into(), wanted: vec![methods::TOOLS_CHANGED] };
        let ear = listens.open(listen);
        listens.tell(methods::PROMPTS_CHANGED);
        listens.tell(methods::TOOLS_CHANGED);
        drop(ear);
        listens.tell(methods::TOOLS_CHANGED);
        let heard = hears.mailbox().unwrap().take(0).unwrap().messages;
        assert_eq!(heard.len(), 1);
        let said: serde_json::Value = serde_json::from_slice(&heard[0]).unwrap();
        assert_eq!(said["params"]["_meta"][SUBSCRIPTION_KEY], "1");
    }
}
