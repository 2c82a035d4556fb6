//! Who listens for changes, the modern way, and for what: each is a request of a host's that stays open, and
//! everything that it hears carries that request's id.

use std::sync::{Arc, Mutex};

use switchboard_wire::envelope::quoted;
use switchboard_wire::members::{Members, insert_members, remove_members};
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;

use crate::caller::Caller;
use crate::era::SUBSCRIPTION_KEY;
use crate::list_changes::ListFingerprints;
use crate::mailbox::MessageKind;
use crate::methods;
use crate::session::Session;

#[derive(Debug, Default)]
pub struct ListenRequests {
    // A leaf lock: held for a look, an insert or a removal.
    open: Mutex<Vec<Arc<ListenRequest>>>,
}

#[derive(Debug)]
pub struct ListenRequest {
    pub caller: Arc<Caller>,
    /// The id of its request as the host wrote it, which names the subscription.
    pub id: Box<str>,
    /// The notifications that it wants.
    pub wanted: Vec<&'static str>,
    session: Arc<Session>,
    /// The child whose face it listens at; `None` for the aggregate.
    child: Option<Box<str>>,
    // A leaf lock: held to replace it.
    fingerprints: Mutex<ListFingerprints>,
}

impl ListenRequest {
    pub fn new(
        session: &Arc<Session>,
        hears: &Arc<Caller>,
        child: Option<&str>,
        id: &str,
        wanted: Vec<&'static str>,
    ) -> Self {
        Self {
            caller: hears.clone(),
            id: id.into(),
            wanted,
            session: session.clone(),
            child: child.map(Into::into),
            fingerprints: Mutex::new(ListFingerprints::of_face(&session.workspace().catalog(), child)),
        }
    }

    /// Says what changed since it last heard of it.
    fn notify_changes(&self) {
        let now = ListFingerprints::of_face(&self.session.workspace().catalog(), self.child.as_deref());
        let before =
            std::mem::replace(&mut *self.fingerprints.lock().expect("BUG: a copy panicked"), now.clone());
        for method in now.changed_lists(&before) {
            if self.wanted.contains(&method) {
                self.caller.push(MessageKind::Changed(method), notification(method, "", &self.id));
            }
        }
    }
}

/// Listens for as long as it is kept.
#[derive(Debug)]
pub struct ListenGuard<'a> {
    requests: &'a ListenRequests,
    request: Arc<ListenRequest>,
}

impl ListenRequests {
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub fn open(&self, listen: ListenRequest) -> ListenGuard<'_> {
        let listen = Arc::new(listen);
        self.lock().push(listen.clone());
        ListenGuard { requests: self, request: listen }
    }

    /// Lists may have changed: tells those who see other ones than before.
    pub fn notify_changes(&self) {
        let open = self.lock().clone();
        open.iter().for_each(|listen| listen.notify_changes());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<ListenRequest>>> {
        self.open.lock().expect("BUG: bookkeeping panicked")
    }
}

impl Drop for ListenGuard<'_> {
    fn drop(&mut self) {
        self.requests.lock().retain(|open| !Arc::ptr_eq(open, &self.request));
    }
}

/// A notification of the subscription `id`; `members` stand before its `_meta`, each with a comma behind it.
pub fn notification(method: &str, members: &str, id: &str) -> Vec<u8> {
    let meta = format!(r#""_meta":{{"{SUBSCRIPTION_KEY}":{id}}}"#);
    rpc::notification(method, Some(&format!("{{{members}{meta}}}")))
}

/// The end of the subscription `id`, as the answer to its request.
pub fn ended(id: &str) -> Vec<u8> {
    let meta = format!(r#""_meta":{{"{SUBSCRIPTION_KEY}":{id}}}"#);
    rpc::result(id, &format!(r#"{{"resultType":"complete",{meta}}}"#))
}

/// A child's word that a resource changed, for somebody who knows it as `shown` and hears of it by the request
/// `listen`, or without one. What else the child says stays as it is.
pub fn updated(params: Raw<'_>, shown: &str, listen: Option<&str>) -> Vec<u8> {
    let members = Members::of(params).unwrap_or_default();
    let rest = remove_members(params, |key| matches!(key, "uri" | "_meta"));
    let given = members.get("_meta").map(|meta| remove_members(meta, |key| key == SUBSCRIPTION_KEY));
    let meta = match (given, listen) {
        (given, Some(id)) => {
            insert_members(given.as_deref().unwrap_or("{}"), &format!(r#""{SUBSCRIPTION_KEY}":{id}"#))
        }
        (given, None) => given.unwrap_or_else(|| "{}".to_owned()),
    };
    let is_empty = Raw::parse(meta.as_bytes()).and_then(Members::of).is_none_or(|meta| meta.0.is_empty());
    let meta = if is_empty { String::new() } else { format!(r#","_meta":{meta}"#) };
    let params = insert_members(&rest, &format!(r#""uri":{}{meta}"#, quoted(shown)));
    rpc::notification(methods::RESOURCE_UPDATED, Some(&params))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(params: &str, listen: Option<&str>, expect: &str) {
        let told = updated(Raw::parse(params.as_bytes()).unwrap(), "s:1", listen);
        let told = String::from_utf8(told).unwrap();
        let prefix = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":"#;
        assert_eq!(told.strip_prefix(prefix), Some(&*format!("{expect}}}")));
    }

    #[test]
    fn an_update_carries_the_id_of_who_listens_and_of_nobody_else() {
        let modern = r#"{"uri":"a:1","x": 1.0,"_meta":{"io.modelcontextprotocol/subscriptionId":7,"k":[ ]}}"#;
        check(modern, None, r#"{"x": 1.0,"uri":"s:1","_meta":{"k":[ ]}}"#);
        check(
            modern,
            Some("\"1\""),
            r#"{"x": 1.0,"uri":"s:1","_meta":{"k":[ ],"io.modelcontextprotocol/subscriptionId":"1"}}"#,
        );
        let alone = r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"uri":"a:1"}"#;
        check(alone, None, r#"{"uri":"s:1"}"#);
        check(
            r#"{"uri":"a:1"}"#,
            Some("4"),
            r#"{"uri":"s:1","_meta":{"io.modelcontextprotocol/subscriptionId":4}}"#,
        );
    }

    #[test]
    fn the_end_names_the_subscription_too() {
        let ended: serde_json::Value = serde_json::from_slice(&ended("\"1\"")).unwrap();
        assert_eq!(ended["result"]["_meta"][SUBSCRIPTION_KEY], "1");
        assert_eq!(ended["id"], "1");
    }
}
