//! Who is subscribed to which resources of one server, and how often the server reported changed lists.
//! Outlives its children: a new child gets the subscriptions of the old one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use switchboard_mcp::methods;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::caller::Caller;

/// Limit of followed resources per server.
const MAX_RESOURCES: usize = 4096;

/// How long a list request waits for lists that the server reported as changed, from `Renewals::since` on.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(1);

/// The notifications for changed lists.
pub const LISTS: [&str; 3] = [methods::TOOLS_CHANGED, methods::PROMPTS_CHANGED, methods::RESOURCES_CHANGED];

#[derive(Debug, Default)]
pub struct Subscriptions {
    // A leaf lock: held for a lookup or a change.
    by_uri: Mutex<HashMap<Box<str>, Vec<Subscription>>>,
    change_counts: [AtomicU64; 3],
    renewals: watch::Sender<Renewals>,
    /// Signals that a list request waits for a renewal.
    wanted: Notify,
}

/// How many of the reported changes have been fetched.
#[derive(Debug, Default)]
struct Renewals {
    told: u64,
    known: u64,
    /// When the oldest change that is not fetched yet was reported, or when the last renewal ended, if that
    /// was later.
    since: Option<Instant>,
}

/// A fetch of changed lists. When it is dropped, all changes that were reported before it began count as
/// known.
#[derive(Debug)]
pub struct Renewal<'a> {
    of: &'a Subscriptions,
    told: u64,
}

impl Drop for Renewal<'_> {
    fn drop(&mut self) {
        self.of.renewals.send_modify(|renewals| {
            renewals.known = renewals.known.max(self.told);
            let is_behind = renewals.known < renewals.told;
            renewals.since = renewals.since.filter(|_| is_behind).map(|_| Instant::now());
        });
    }
}

/// How often a server reported that its tools, prompts and resources changed.
pub type ListChangeCounts = [u64; 3];

/// A subscriber to resources: a host, or one listen request of a host.
#[derive(Debug, Clone)]
pub struct Subscriber {
    caller: Weak<Caller>,
    /// The id of the listen request.
    listen: Option<Box<str>>,
}

impl Subscriber {
    pub fn host(caller: &Arc<Caller>) -> Self {
        Self { caller: Arc::downgrade(caller.owner()), listen: None }
    }

    pub fn listening(listener: &Arc<Caller>, id: &str) -> Self {
        Self { caller: Arc::downgrade(listener), listen: Some(id.into()) }
    }

    fn is(&self, other: &Self) -> bool {
        self.caller.ptr_eq(&other.caller) && self.listen == other.listen
    }

    fn is_there(&self) -> bool {
        self.caller.strong_count() > 0
    }

    fn is_of(&self, host: &Arc<Caller>) -> bool {
        self.caller.upgrade().is_some_and(|listener| Arc::ptr_eq(listener.owner(), host.owner()))
    }
}

#[derive(Debug)]
struct Subscription {
    subscriber: Subscriber,
    /// The URI that this host uses.
    shown: Box<str>,
}

/// A recipient of an update of a resource.
#[derive(Debug)]
pub struct Recipient {
    pub caller: Arc<Caller>,
    /// The URI that the recipient uses.
    pub shown: Box<str>,
    /// The id of the recipient's listen request, if it has one.
    pub listen: Option<Box<str>>,
}

impl Subscriptions {
    /// Counts a `list_changed` notification of a child.
    pub fn note_list_changed(&self, method: &str) {
        let at = LISTS.iter().position(|list| *list == method);
        if let Some(said) = at.and_then(|at| self.change_counts.get(at)) {
            said.fetch_add(1, Ordering::Relaxed);
            self.renewals.send_modify(|renewals| {
                renewals.told += 1;
                renewals.since.get_or_insert_with(Instant::now);
            });
        }
    }

    /// Changes come in bursts and are fetched once: waits for more of them, unless a list request is already
    /// waiting.
    pub async fn wait_for_more_changes(&self, time: Duration) {
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            () = self.wanted.notified() => {}
        }
    }

    /// Begins to fetch the changed lists.
    pub fn renewal(&self) -> Renewal<'_> {
        Renewal { of: self, told: self.renewals.borrow().told }
    }

    /// Resolves when all changes reported so far are fetched, or after `RENEWAL_TIMEOUT`.
    pub async fn wait_until_renewed(&self) {
        let (told, since) = {
            let renewals = self.renewals.borrow();
            match renewals.since {
                Some(since) if renewals.known < renewals.told => (renewals.told, since),
                _ => return,
            }
        };
        self.wanted.notify_one();
        let mut renewals = self.renewals.subscribe();
        let known = renewals.wait_for(|renewals| renewals.known >= told);
        let _ = tokio::time::timeout_at(since + RENEWAL_TIMEOUT, known).await;
    }

    pub fn list_change_counts(&self) -> ListChangeCounts {
        [0, 1, 2].map(|at| self.change_counts[at].load(Ordering::Relaxed))
    }

    /// False if too many resources are followed.
    pub fn add(&self, uri: &str, shown: &str, follower: &Subscriber) -> bool {
        let mut all = self.lock();
        if all.len() >= MAX_RESOURCES && !all.contains_key(uri) {
            return false;
        }
        let subscribers = all.entry(uri.into()).or_default();
        subscribers.retain(|known| known.subscriber.is_there() && !known.subscriber.is(follower));
        subscribers.push(Subscription { subscriber: follower.clone(), shown: shown.into() });
        true
    }

    /// True if the resource has no subscriber any more.
    pub fn remove(&self, uri: &str, follower: &Subscriber) -> bool {
        let mut all = self.lock();
        let Some(subscribers) = all.get_mut(uri) else { return true };
        subscribers.retain(|known| known.subscriber.is_there() && !known.subscriber.is(follower));
        if subscribers.is_empty() {
            all.remove(uri);
            return true;
        }
        false
    }

    /// Removes a host that has left; returns the resources without any subscriber.
    pub fn remove_caller(&self, caller: &Arc<Caller>) -> Vec<Box<str>> {
        let mut all = self.lock();
        let left = all.extract_if(|_, subscribers| {
            let before = subscribers.len();
            subscribers.retain(|known| known.subscriber.is_there() && !known.subscriber.is_of(caller));
            subscribers.is_empty() && before > 0
        });
        left.map(|(uri, _)| uri).collect()
    }

    /// The recipients of an update of this resource.
    pub fn recipients(&self, uri: &str) -> Vec<Recipient> {
        let heard = |known: &Subscription| {
            let by = known.subscriber.caller.upgrade()?;
            Some(Recipient {
                caller: by,
                shown: known.shown.clone(),
                listen: known.subscriber.listen.clone(),
            })
        };
        let all = self.lock();
        all.get(uri).map(Vec::as_slice).unwrap_or_default().iter().filter_map(heard).collect()
    }

    /// The followed resources: those of this host, or all.
    pub fn subscribed_uris(&self, by: Option<&Arc<Caller>>) -> Vec<Box<str>> {
        let follows = |subscribers: &[Subscription]| match by {
            Some(host) => subscribers.iter().any(|known| known.subscriber.is_of(host)),
            None => subscribers.iter().any(|known| known.subscriber.is_there()),
        };
        let all = self.lock();
        let mut uris: Vec<_> =
            all.iter().filter(|(_, known)| follows(known)).map(|(uri, _)| uri.clone()).collect();
        uris.sort_unstable();
        uris
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Box<str>, Vec<Subscription>>> {
        self.by_uri.lock().expect("BUG: bookkeeping panicked")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_followed_until_its_last_subscriber_leaves() {
        let (subscriptions, one, other) =
            (Subscriptions::default(), Caller::anonymous(), Caller::anonymous());
        let (first, second) = (Subscriber::host(&one), Subscriber::host(&other));
        subscriptions.add("a:1", "a:1", &first);
        subscriptions.add("a:1", "a:1", &first);
        subscriptions.add("a:1", "x:a:1", &second);
        assert_eq!(subscriptions.recipients("a:1").len(), 2);
        assert!(!subscriptions.remove("a:1", &first));
        assert_eq!(&*subscriptions.recipients("a:1")[0].shown, "x:a:1");
        assert!(subscriptions.remove("a:1", &second));
        assert!(subscriptions.subscribed_uris(None).is_empty());
    }

    #[test]
    fn each_listen_request_subscribes_separately() {
        let (subscriptions, host) = (Subscriptions::default(), Caller::anonymous());
        let (first, second) = (Subscriber::listening(&host, "1"), Subscriber::listening(&host, "\"1\""));
        subscriptions.add("a:1", "a:1", &first);
        subscriptions.add("a:1", "a:1", &second);
        assert!(!subscriptions.remove("a:1", &first));
        assert_eq!(subscriptions.recipients("a:1")[0].listen.as_deref(), Some("\"1\""));
        assert_eq!(subscriptions.remove_caller(&host).len(), 1);
    }

    #[test]
    fn a_host_that_leaves_is_unsubscribed() {
        let (subscriptions, one, other) =
            (Subscriptions::default(), Caller::anonymous(), Caller::anonymous());
        for uri in ["a:1", "a:2"] {
            subscriptions.add(uri, uri, &Subscriber::host(&one));
        }
        subscriptions.add("a:2", "a:2", &Subscriber::host(&other));
        let uri = |text: &str| vec![Box::<str>::from(text)];
        assert_eq!(subscriptions.subscribed_uris(Some(&other)), uri("a:2"));
        assert_eq!(subscriptions.remove_caller(&one), uri("a:1"));
        drop(other);
        assert!(subscriptions.recipients("a:2").is_empty() && subscriptions.subscribed_uris(None).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_waits_a_moment_for_what_has_changed() {
        let subscriptions = Subscriptions::default();
        let waited = async || {
            let begin = Instant::now();
            subscriptions.wait_until_renewed().await;
            begin.elapsed()
        };
        assert_eq!(waited().await, Duration::ZERO);
        subscriptions.note_list_changed(methods::RESOURCES_CHANGED);
        let renewal = subscriptions.renewal();
        let renew = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            // This change belongs to the next renewal.
            subscriptions.note_list_changed(methods::PROMPTS_CHANGED);
            drop(renewal);
        };
        let (waits, ()) = tokio::join!(waited(), renew);
        assert_eq!(waits, Duration::from_millis(300));
        // Nothing renews it: a list request waits for the rest of the second, and later ones do not wait.
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert_eq!(waited().await, RENEWAL_TIMEOUT - Duration::from_millis(400));
        assert_eq!(waited().await, Duration::ZERO);
        drop(subscriptions.renewal());
        assert!(subscriptions.renewals.borrow().since.is_none());
    }
}
