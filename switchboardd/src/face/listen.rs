//! `subscriptions/listen`: a modern host gets change notifications only while such a request is open. The
//! first message acknowledges which of them it will get.

use std::sync::Arc;

use serde_json::json;
use switchboard_mcp::era::subscription::notification;
use switchboard_mcp::methods;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

use super::{HostRequest, RequestContext};
use crate::caller::Caller;
use crate::caller::mailbox::MessageKind;
use crate::caller::subscriptions::Subscriber;
use crate::catalog::Catalog;
use crate::changes::listen_requests::ListenRequest;
use crate::child::ServerInfo;
use crate::pool::Pool;
use crate::suite::failure::Failure;
use crate::suite::{CallContext, Suite, SuiteReply};

/// For each kind: the member of the filter, the notification, and the capability that the child must have.
const KINDS: [(&str, &str, &str); 3] = [
    ("toolsListChanged", methods::TOOLS_CHANGED, "tools"),
    ("promptsListChanged", methods::PROMPTS_CHANGED, "prompts"),
    ("resourcesListChanged", methods::RESOURCES_CHANGED, "resources"),
];

/// Limit of resources that one request may follow.
const MAX_SUBSCRIPTIONS: usize = 1024;

/// Returns only on failure: the request stays open until its host cancels it or disconnects.
pub(super) async fn answer(
    context: RequestContext<'_>,
    catalog: &Catalog,
    request: HostRequest<'_>,
) -> Result<SuiteReply, Failure> {
    let RequestContext { daemon, session, face, caller: listener, .. } = context;
    if listener.mailbox().is_none() {
        // A finite JSON answer cannot carry later notifications.
        return Err(Failure::UnknownMethod { method: request.method.to_owned() });
    }
    let filter = ListenFilter::read(request.params.raw)?;
    let child = face.child();
    let suite = match child {
        None => None,
        Some(name) => {
            let suite = catalog.child(name);
            Some(suite.ok_or_else(|| Failure::NoSuchChild { child: name.to_owned() })?)
        }
    };
    let kept: Vec<_> = match suite {
        None => filter.kinds,
        Some(suite) => {
            let server_info = server_info(suite, listener).await?;
            filter.kinds.into_iter().filter(|(_, _, of)| server_info.has_feature(of, "listChanged")).collect()
        }
    };
    let id = request.id.get();
    let following = subscribe(catalog, suite, listener, id, &filter.uris).await;
    let mut honoured: serde_json::Map<_, _> =
        kept.iter().map(|(word, _, _)| ((*word).to_owned(), true.into())).collect();
    if !following.is_empty() {
        let uris: Vec<_> = following.iter().map(|following| &*following.shown).collect();
        honoured.insert("resourceSubscriptions".to_owned(), json!(uris));
    }
    let wanted = kept.iter().map(|(_, method, _)| *method).collect();
    let _ear =
        daemon.list_changes.listen_requests.open(ListenRequest::new(session, listener, child, id, wanted));
    let honoured = format!(r#""notifications":{},"#, json!(honoured));
    listener.push(MessageKind::Question, notification(methods::ACKNOWLEDGED, &honoured, id));
    for following in &following {
        following.begin(catalog, listener);
    }
    std::future::pending().await
}

struct ListenFilter {
    kinds: Vec<(&'static str, &'static str, &'static str)>,
    uris: Vec<String>,
}

impl ListenFilter {
    fn read(params: Option<Raw<'_>>) -> Result<Self, Failure> {
        let filter = params.and_then(Members::of).and_then(|params| params.get("notifications"));
        let filter = filter
            .and_then(Members::of)
            .ok_or_else(|| Failure::InvalidParams("`params.notifications` must be an object".to_owned()))?;
        let is_wanted = |word: &str| filter.get(word).is_some_and(|wish| wish.get() == "true");
        let uris = match filter.get("resourceSubscriptions") {
            None => Vec::new(),
            Some(uris) => serde_json::from_str::<Vec<String>>(uris.get()).map_err(|_| {
                Failure::InvalidParams("`resourceSubscriptions` must be an array of URIs".to_owned())
            })?,
        };
        if uris.len() > MAX_SUBSCRIPTIONS {
            let why = format!("`resourceSubscriptions` has more than {MAX_SUBSCRIPTIONS} URIs");
            return Err(Failure::InvalidParams(why));
        }
        Ok(Self { kinds: KINDS.into_iter().filter(|(word, _, _)| is_wanted(word)).collect(), uris })
    }
}

/// The child's server info; starts a child that has never run.
async fn server_info(suite: &Suite, caller: &Arc<Caller>) -> Result<ServerInfo, Failure> {
    if let Some(server_info) = suite.server_info() {
        return Ok(server_info);
    }
    let lease = suite.lease(CallContext::new(caller, None)).await?;
    Ok(lease.server_info().clone())
}

/// Subscribes to those resources that can be followed.
async fn subscribe(
    catalog: &Catalog,
    single: Option<&Suite>,
    listener: &Arc<Caller>,
    id: &str,
    uris: &[String],
) -> Vec<SubscriptionGuard> {
    let mut kept: Vec<SubscriptionGuard> = Vec::new();
    for shown in uris {
        let found = match single {
            Some(suite) => Some((suite, shown.as_str().into())),
            None => super::offers::owner(catalog, shown).await.ok(),
        };
        let Some((suite, own)) = found else { continue };
        let says = server_info(suite, listener)
            .await
            .is_ok_and(|server_info| server_info.has_feature("resources", "subscribe"));
        let Some(pool) = suite.pool.as_ref().filter(|_| says) else { continue };
        let follower = Subscriber::listening(listener, id);
        let is_new = !kept.iter().any(|known| *known.shown == **shown);
        if is_new && pool.subscriptions().add(&own, shown, &follower) {
            let child = suite.child_name().into();
            kept.push(SubscriptionGuard {
                pool: pool.clone(),
                child,
                own,
                shown: shown.as_str().into(),
                subscriber: follower,
            });
        }
    }
    kept
}

/// A resource subscription; dropping it unsubscribes.
struct SubscriptionGuard {
    pool: Arc<Pool>,
    child: Box<str>,
    own: Box<str>,
    shown: Box<str>,
    subscriber: Subscriber,
}

impl SubscriptionGuard {
    /// Subscribes all running children that serve the caller, or starts one, which then reads the
    /// subscriptions.
    fn begin(&self, catalog: &Catalog, listener: &Arc<Caller>) {
        let running = self.pool.running();
        let uri = [self.own.clone()];
        running
            .iter()
            .filter(|child| child.may_serve(listener))
            .for_each(|child| child.set_subscribed(&uri, true));
        if let Some(suite) = catalog.child(&self.child).filter(|_| running.is_empty()) {
            let (pool, listener, limits) = (self.pool.clone(), listener.clone(), suite.limits);
            tokio::spawn(async move { pool.lease(&listener, limits).await.map(drop) });
        }
    }
}

impl Drop for SubscriptionGuard {
    fn drop(&mut self) {
        if self.pool.subscriptions().remove(&self.own, &self.subscriber) {
            let uri = [self.own.clone()];
            self.pool.running().iter().for_each(|child| child.set_subscribed(&uri, false));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requested_kinds_are_selected() {
        let read = |text: &str| ListenFilter::read(Raw::parse(text.as_bytes()));
        let filter = read(
            r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["a:1"]}}"#,
        )
        .unwrap();
        assert_eq!(filter.kinds.len(), 1);
        assert_eq!(filter.uris, ["a:1"]);
        assert!(read("{}").is_err());
        assert!(read(r#"{"notifications":{"resourceSubscriptions":"a:1"}}"#).is_err());
    }
}
