//! Subscribers to changes: the legacy session, and every open `subscriptions/listen`.

use std::collections::BTreeSet;
use std::sync::Mutex;

use serde_json::{Map, Value, json};

use super::Child;
use super::wire::{Fault, Outbox};

#[derive(Debug, Clone, Copy)]
pub(crate) enum Change<'a> {
    Tools,
    Prompts,
    Resources,
    Resource(&'a str),
}

#[derive(Default)]
pub(crate) struct Watchers {
    /// Held while listeners are notified, so that no notification precedes the acknowledgement.
    listeners: Mutex<Vec<Listener>>,
    /// URIs that the legacy session subscribed to.
    subscribed: Mutex<BTreeSet<String>>,
}

struct Listener {
    id: Value,
    wants: Map<String, Value>,
}

impl Change<'_> {
    fn method(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
            Self::Resource(_) => "notifications/resources/updated",
        }
    }

    fn params(self) -> Value {
        match self {
            Self::Resource(uri) => json!({"uri": uri}),
            _ => json!({}),
        }
    }

    fn is_wanted(self, wants: &Map<String, Value>) -> bool {
        let flag = |name: &str| wants.get(name) == Some(&Value::Bool(true));
        match self {
            Self::Tools => flag("toolsListChanged"),
            Self::Prompts => flag("promptsListChanged"),
            Self::Resources => flag("resourcesListChanged"),
            Self::Resource(uri) => wants
                .get("resourceSubscriptions")
                .and_then(Value::as_array)
                .is_some_and(|uris| uris.iter().any(|wanted| wanted == uri)),
        }
    }
}

impl Watchers {
    pub(super) fn subscribe(&self, uri: &str) {
        self.subscribed.lock().unwrap().insert(uri.to_owned());
    }

    pub(super) fn unsubscribe(&self, uri: &str) {
        self.subscribed.lock().unwrap().remove(uri);
    }

    /// Opens a listen stream and acknowledges the supported part of the filter.
    pub(super) fn open(&self, outbox: &Outbox, id: &Value, filter: &Value) -> Result<(), Fault> {
        let wants = honoured(filter)?;
        let mut listeners = self.listeners.lock().unwrap();
        outbox.notify(
            "notifications/subscriptions/acknowledged",
            &json!({"notifications": wants, "_meta": subscription(id)}),
        );
        listeners.push(Listener { id: id.clone(), wants });
        Ok(())
    }

    /// The number of subscribed resources.
    pub(super) fn subscribed_count(&self) -> usize {
        let listeners = self.listeners.lock().unwrap();
        let uris =
            listeners.iter().filter_map(|listener| listener.wants.get("resourceSubscriptions")?.as_array());
        let all: BTreeSet<_> = uris.flatten().map(Value::to_string).collect();
        all.len() + self.subscribed.lock().unwrap().len()
    }

    pub(super) fn close(&self, id: &Value) {
        self.listeners.lock().unwrap().retain(|listener| listener.id != *id);
    }
}

impl Child {
    pub(super) fn tell(&self, change: Change<'_>) {
        let subscribed = match change {
            Change::Resource(uri) => self.watchers.subscribed.lock().unwrap().contains(uri),
            _ => true,
        };
        if subscribed && self.session.is_open() {
            self.outbox.notify(change.method(), &change.params());
        }
        for listener in self.watchers.listeners.lock().unwrap().iter() {
            if change.is_wanted(&listener.wants) {
                let mut params = change.params();
                params["_meta"] = subscription(&listener.id);
                self.outbox.notify(change.method(), &params);
            }
        }
    }
}

fn subscription(id: &Value) -> Value {
    json!({"io.modelcontextprotocol/subscriptionId": id})
}

fn honoured(filter: &Value) -> Result<Map<String, Value>, Fault> {
    let filter = filter.as_object().ok_or_else(|| Fault::invalid("`notifications` must be an object"))?;
    let known = |(name, value): &(&String, &Value)| match name.as_str() {
        "toolsListChanged" | "promptsListChanged" | "resourcesListChanged" => **value == Value::Bool(true),
        "resourceSubscriptions" => value.is_array(),
        _ => false,
    };
    Ok(filter.iter().filter(known).map(|(name, value)| (name.clone(), value.clone())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_and_requested_changes_are_honoured() {
        let filter = json!({"toolsListChanged": true, "promptsListChanged": false, "weather": true,
            "resourceSubscriptions": ["test://a"]});
        let wants = honoured(&filter).unwrap();
        assert_eq!(
            Value::Object(wants.clone()),
            json!({"toolsListChanged": true, "resourceSubscriptions": ["test://a"]})
        );
        assert!(Change::Tools.is_wanted(&wants));
        assert!(!Change::Prompts.is_wanted(&wants));
        assert!(Change::Resource("test://a").is_wanted(&wants));
        assert!(!Change::Resource("test://b").is_wanted(&wants));
        assert!(honoured(&Value::Null).is_err());
    }
}
