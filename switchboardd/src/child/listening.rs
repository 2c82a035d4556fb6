//! Subscribes to the change notifications of a modern child: one `subscriptions/listen` request stays open as
//! long as the child lives, and is replaced when other resources are subscribed.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use switchboard_mcp::era::ProtocolEra;
use switchboard_mcp::methods;
use switchboard_wire::backoff::Backoff;
use switchboard_wire::envelope::{Message, Outcome};

use super::calls::ChildResponse;
use super::{Child, ChildError, Limits, ServerInfo};

/// Pause between the end of one request and the next.
const RELISTEN_PAUSE: Duration = Duration::from_secs(1);

/// While connections break, the pause grows up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

pub(super) fn begin(child: &Arc<Child>) {
    if child.era() == ProtocolEra::Modern {
        tokio::spawn(listen(child.clone()));
    }
}

/// The notifications to subscribe to; `None` if the child offers none.
fn filter(server_info: &ServerInfo, followed: &[Box<str>]) -> Option<String> {
    let lists = [
        ("tools", "toolsListChanged"),
        ("prompts", "promptsListChanged"),
        ("resources", "resourcesListChanged"),
    ];
    let says = lists.into_iter().filter(|(name, _)| server_info.has_feature(name, "listChanged"));
    let mut wanted: serde_json::Map<_, _> = says.map(|(_, wish)| (wish.to_owned(), true.into())).collect();
    if !followed.is_empty() && server_info.has_feature("resources", "subscribe") {
        wanted.insert("resourceSubscriptions".to_owned(), json!(followed));
    }
    (!wanted.is_empty()).then(|| json!({ "notifications": wanted }).to_string())
}

type ListenFuture = Pin<Box<dyn Future<Output = Result<ChildResponse, ChildError>> + Send>>;

async fn listen(child: Arc<Child>) {
    // The previous request stays open until the next one is, so that no notification is missed.
    let mut before: Option<ListenFuture> = None;
    let mut backoff = Backoff::new(RELISTEN_PAUSE, LONGEST_PAUSE);
    while child.is_alive() {
        let Some(filter) = filter(child.server_info(), &child.subscribed()) else {
            before = None;
            tokio::select! {
                () = child.following.subscriptions_changed.notified() => continue,
                () = child.wait_ended() => return,
            }
        };
        let call = child.request(methods::LISTEN, filter.as_bytes());
        let call = match call {
            Ok(call) => call,
            Err(ChildError::Busy) => {
                tokio::time::sleep(RELISTEN_PAUSE).await;
                continue;
            }
            Err(_) => return,
        };
        child.calls().set_listen_call(call.id());
        let mut open: ListenFuture = Box::pin(call.answer(Limits { spawn: NEVER, rpc: NEVER, max: NEVER }));
        drop(before.take());
        tokio::select! {
            answer = &mut open => match answer {
                Ok(answer) => {
                    backoff.reset();
                    wait_for_more(&child, &answer).await;
                }
                // The connection broke, but the remote child is still there.
                Err(ChildError::Remote(_)) => {
                    tokio::time::sleep(backoff.next_pause()).await;
                }
                Err(_) => return,
            },
            () = child.following.subscriptions_changed.notified() => before = Some(open),
        }
    }
}

/// The child ended the request: pauses before the next one. If it refused the request, waits until the
/// subscriptions change.
async fn wait_for_more(child: &Arc<Child>, answer: &ChildResponse) {
    let ended =
        matches!(Message::parse(&answer.body), Ok(Message::Response { outcome: Outcome::Result(_), .. }));
    if ended {
        return tokio::time::sleep(RELISTEN_PAUSE).await;
    }
    tracing::debug!(target: "server", server = child.name(), "it says that something changes, but not when");
    tokio::select! {
        () = child.following.subscriptions_changed.notified() => {}
        () = child.wait_ended() => {}
    }
}

#[cfg(test)]
mod tests {
    use switchboard_wire::raw::Raw;

    use super::*;

    #[test]
    fn only_offered_notifications_are_subscribed() {
        let filter = |capabilities: &str, followed: &[&str]| {
            let said = format!(r#"{{"protocolVersion":"2026-07-28","capabilities":{capabilities}}}"#);
            let followed: Vec<Box<str>> = followed.iter().map(|uri| (*uri).into()).collect();
            filter(&ServerInfo::read(Raw::parse(said.as_bytes()).unwrap()).unwrap(), &followed)
        };
        let some = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":false},"resources":{}}"#;
        let tools = r#"{"notifications":{"toolsListChanged":true}}"#;
        assert_eq!(filter(some, &["a:1"]).as_deref(), Some(tools));
        assert_eq!(filter("{}", &["a:1"]), None);
        assert_eq!(
            filter(r#"{"resources":{"subscribe":true}}"#, &["a:1"]).as_deref(),
            Some(r#"{"notifications":{"resourceSubscriptions":["a:1"]}}"#)
        );
    }
}
