//! Who wants to hear of changes of which resources of one server. Outlives its children: a new one is told
//! what the one before it was.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use crate::caller::Caller;

/// Resources of one server that are followed at a time.
const MAX: usize = 4096;

#[derive(Debug, Default)]
pub struct Subscriptions {
    // A leaf lock: held for a look or a change.
    by_uri: Mutex<HashMap<Box<str>, Vec<Subscriber>>>,
}

#[derive(Debug)]
struct Subscriber {
    host: Weak<Caller>,
    /// The resource as this host knows it.
    shown: Box<str>,
}

impl Subscriber {
    fn is(&self, host: &Arc<Caller>) -> bool {
        self.host.as_ptr() == Arc::as_ptr(host)
    }
}

impl Subscriptions {
    /// False if there are too many.
    pub fn add(&self, uri: &str, shown: &str, caller: &Arc<Caller>) -> bool {
        let mut all = self.lock();
        if all.len() >= MAX && !all.contains_key(uri) {
            return false;
        }
        let host = caller.owner();
        let subscribers = all.entry(uri.into()).or_default();
        subscribers.retain(|known| known.host.strong_count() > 0 && !known.is(host));
        subscribers.push(Subscriber { host: Arc::downgrade(host), shown: shown.into() });
        true
    }

    /// True if nobody follows it any more.
    pub fn remove(&self, uri: &str, caller: &Arc<Caller>) -> bool {
        let mut all = self.lock();
        let Some(subscribers) = all.get_mut(uri) else { return true };
        subscribers.retain(|known| known.host.strong_count() > 0 && !known.is(caller.owner()));
        if subscribers.is_empty() {
            all.remove(uri);
            return true;
        }
        false
    }

    /// A host has left; gives what nobody follows any more.
    pub fn leave(&self, caller: &Arc<Caller>) -> Vec<Box<str>> {
        let mut all = self.lock();
        let left = all.extract_if(|_, subscribers| {
            let before = subscribers.len();
            subscribers.retain(|known| known.host.strong_count() > 0 && !known.is(caller.owner()));
            subscribers.is_empty() && before > 0
        });
        left.map(|(uri, _)| uri).collect()
    }

    /// Who is to hear that it changed, and what they know it by.
    pub fn followers(&self, uri: &str) -> Vec<(Arc<Caller>, Box<str>)> {
        let all = self.lock();
        let subscribers = all.get(uri).map(Vec::as_slice).unwrap_or_default();
        subscribers.iter().filter_map(|known| Some((known.host.upgrade()?, known.shown.clone()))).collect()
    }

    /// What is followed, by this host or by anybody.
    pub fn followed(&self, by: Option<&Arc<Caller>>) -> Vec<Box<str>> {
        let follows = |subscribers: &[Subscriber]| match by {
            Some(host) => subscribers.iter().any(|known| known.is(host.owner())),
            None => subscribers.iter().any(|known| known.host.strong_count() > 0),
        };
        let all = self.lock();
        let mut uris: Vec<_> =
            all.iter().filter(|(_, known)| follows(known)).map(|(uri, _)| uri.clone()).collect();
        uris.sort_unstable();
        uris
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Box<str>, Vec<Subscriber>>> {
        self.by_uri.lock().expect("BUG: bookkeeping panicked")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_followed_as_long_as_somebody_does() {
        let (subscriptions, one, other) = (Subscriptions::default(), Caller::deaf(), Caller::deaf());
        subscriptions.add("a:1", "a:1", &one);
        subscriptions.add("a:1", "a:1", &one);
        subscriptions.add("a:1", "x:a:1", &other);
        assert_eq!(subscriptions.followers("a:1").len(), 2);
        assert!(!subscriptions.remove("a:1", &one));
        assert_eq!(&*subscriptions.followers("a:1")[0].1, "x:a:1");
        assert!(subscriptions.remove("a:1", &other));
        assert!(subscriptions.followed(None).is_empty());
    }

    #[test]
    fn who_leaves_follows_nothing() {
        let (subscriptions, one, other) = (Subscriptions::default(), Caller::deaf(), Caller::deaf());
        for uri in ["a:1", "a:2"] {
            subscriptions.add(uri, uri, &one);
        }
        subscriptions.add("a:2", "a:2", &other);
        let uri = |text: &str| vec![Box::<str>::from(text)];
        assert_eq!(subscriptions.followed(Some(&other)), uri("a:2"));
        assert_eq!(subscriptions.leave(&one), uri("a:1"));
        drop(other);
        assert!(subscriptions.followers("a:2").is_empty() && subscriptions.followed(None).is_empty());
    }
}
