//! `subscriptions/listen`: a modern host hears that something changed only while a request of its own says that it
//! listens. The first thing it hears is what it will hear of.

use std::sync::Arc;

use serde_json::json;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

use super::{Face, Request};
use crate::caller::Caller;
use crate::error::Failure;
use crate::listens::{Listen, notification};
use crate::mailbox::Kind;
use crate::methods;
use crate::session::Session;
use crate::suite::Said;

/// What can be listened for, by the word for it and by the notification.
const KINDS: [(&str, &str); 3] = [
    ("toolsListChanged", methods::TOOLS_CHANGED),
    ("promptsListChanged", methods::PROMPTS_CHANGED),
    ("resourcesListChanged", methods::RESOURCES_CHANGED),
];

/// Never answers: the request ends when its host cancels it or leaves.
pub(super) async fn answer(
    face: &Face,
    session: &Arc<Session>,
    hears: &Arc<Caller>,
    request: Request<'_>,
) -> Result<Said, Failure> {
    if hears.mailbox().is_none() {
        // An answer that is JSON and finite cannot carry what comes later.
        return Err(Failure::UnknownMethod { method: request.method.to_owned() });
    }
    let wanted = wanted(face, request.params)?;
    let listen = Listen { hears: hears.clone(), id: request.id.get().into(), wanted };
    let honoured: serde_json::Map<_, _> = KINDS
        .iter()
        .filter(|(_, method)| listen.wanted.contains(method))
        .map(|(word, _)| ((*word).to_owned(), true.into()))
        .collect();
    let honoured = format!(r#""notifications":{},"#, json!(honoured));
    hears.push(Kind::Question, notification(methods::ACKNOWLEDGED, &honoured, &listen.id));
    let _ear = session.listens.open(listen);
    std::future::pending().await
}

/// What of its wishes can be kept.
fn wanted(face: &Face, params: Option<Raw<'_>>) -> Result<Vec<&'static str>, Failure> {
    let filter = params.and_then(Members::of).and_then(|params| params.get("notifications"));
    let filter = filter
        .and_then(Members::of)
        .ok_or_else(|| Failure::InvalidParams("`params.notifications` must be an object".to_owned()))?;
    let is_wanted = |word: &str| filter.get(word).is_some_and(|wish| wish.get() == "true");
    // The aggregate has nothing but its suites that could change.
    let kept = |method: &str| *face == Face::Aggregate && method == methods::TOOLS_CHANGED;
    Ok(KINDS
        .iter()
        .filter(|(word, method)| is_wanted(word) && kept(method))
        .map(|(_, method)| *method)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_asked_for_and_can_be_kept_is_honoured() {
        let all = Raw::parse(br#"{"notifications":{"toolsListChanged":true,"promptsListChanged":true}}"#);
        assert_eq!(wanted(&Face::Aggregate, all).unwrap(), [methods::TOOLS_CHANGED]);
        let none = Raw::parse(br#"{"notifications":{"toolsListChanged":false}}"#);
        assert!(wanted(&Face::Aggregate, none).unwrap().is_empty());
        assert!(wanted(&Face::Aggregate, Raw::parse(b"{}")).is_err());
    }
}
