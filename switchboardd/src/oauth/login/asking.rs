//! Sends a host's person to the page of a login, where the host can do that.

use std::sync::Arc;

use serde_json::json;
use switchboard_wire::envelope::Message;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use tokio::sync::oneshot;

use super::Attempt;
use crate::caller::Caller;
use crate::era::Era;
use crate::mailbox::Kind;
use crate::methods;

pub(super) fn can_be_asked(caller: &Caller) -> bool {
    caller.profile().takes.elicitation_url
}

/// Returns when the login is done, whichever way the person got to it; or says why it will not be.
pub(super) async fn ask(caller: &Arc<Caller>, child: &str, attempt: &Attempt) -> Result<(), String> {
    let id = crate::random::hex(8);
    let request = json!({
        "jsonrpc": "2.0",
        "id": "login",
        "method": methods::ELICITATION,
        "params": {
            "mode": "url",
            "elicitationId": id,
            "url": attempt.url.as_str(),
            "message": format!(
                "Switchboard: `{child}` asks you to log in at {}. The call goes on when you have.", attempt.issuer
            ),
        },
    })
    .to_string();
    let (tell, told) = oneshot::channel();
    let heard = move |response: &[u8], _: Raw<'_>| {
        let _ = tell.send(action(response));
    };
    let Ok(Message::Request { id: raw, params, .. }) = Message::parse(request.as_bytes()) else {
        return Err("it could not be asked for".to_owned());
    };
    let asked = caller.ask(request.as_bytes(), raw, methods::ELICITATION, params, heard);
    let Some(asked) = asked else { return Err("its host could not be asked".to_owned()) };
    let open = Open { caller, id: asked };
    let outcome = tokio::select! {
        done = attempt.done() => done,
        refused = refusal(told) => Err(refused),
    };
    drop(open);
    if outcome.is_ok() && caller.era() == Era::Legacy {
        let params = json!({ "elicitationId": id });
        let complete = json!({ "jsonrpc": "2.0", "method": methods::ELICITATION_COMPLETE, "params": params });
        caller.push(Kind::Question, complete.to_string().into_bytes());
    }
    outcome
}

/// A question that is taken back when nobody waits for its answer any more.
struct Open<'c> {
    caller: &'c Arc<Caller>,
    id: Box<str>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.caller.withdraw(&self.id, "the login is over");
    }
}

/// Resolves only if the person does not want to: who agrees has yet to log in.
async fn refusal(told: oneshot::Receiver<Option<String>>) -> String {
    match told.await.ok().flatten().as_deref() {
        Some("accept") => std::future::pending().await,
        Some("decline") => "the login was declined".to_owned(),
        _ => "the login was not begun".to_owned(),
    }
}

fn action(response: &[u8]) -> Option<String> {
    let response: Members<'_> = Raw::parse(response).and_then(Members::of)?;
    let result = response.get("result").and_then(Members::of)?;
    Some(result.text("action")?.into_owned())
}
