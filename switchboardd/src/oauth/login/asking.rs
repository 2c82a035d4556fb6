//! Sends a host's user to the login page, where the host supports that.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_mcp::methods;
use switchboard_wire::envelope::Message;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;
use switchboard_wire::visible::visible;
use tokio::sync::oneshot;

use super::Attempt;
use crate::caller::Caller;
use crate::caller::mailbox::MessageKind;

impl Attempt {
    /// What the host should show.
    pub fn invitation(&self, child: &str) -> Value {
        let issuer = visible(&self.issuer);
        let message = format!(
            "Switchboard: `{child}` asks you to log in at {issuer}. The call continues when you have."
        );
        json!({ "mode": "url", "url": self.url.as_str(), "message": message })
    }

    /// Asks a host that has a session. Returns when the login is done, however the user got to the page; or
    /// says why it will not be.
    pub async fn ask(&self, caller: &Arc<Caller>, child: &str) -> Result<(), String> {
        let id = switchboard_wire::random::hex(8);
        let mut params = self.invitation(child);
        params["elicitationId"] = id.clone().into();
        let request = json!({ "jsonrpc": "2.0", "id": 0, "method": methods::ELICITATION, "params": params });
        let (tell, told) = oneshot::channel();
        let asked = put(caller, &request.to_string(), tell).ok_or("the editor could not be asked")?;
        let open = OpenInvitation { caller, id: asked };
        tokio::select! {
            done = self.wait_done() => done?,
            refused = refusal(told) => return Err(refused),
        }
        drop(open);
        let params = json!({ "elicitationId": id }).to_string();
        let complete = rpc::notification(methods::ELICITATION_COMPLETE, Some(&params));
        caller.push(MessageKind::Question, complete);
        Ok(())
    }
}

fn put(caller: &Caller, request: &str, tell: oneshot::Sender<Option<String>>) -> Option<Box<str>> {
    let Ok(Message::Request { id, params, .. }) = Message::parse(request.as_bytes()) else { return None };
    let heard = move |response: &[u8], _: Raw<'_>| {
        let _ = tell.send(action(response));
    };
    caller.ask(request.as_bytes(), id, methods::ELICITATION, params, heard)
}

/// Withdraws the question on drop.
struct OpenInvitation<'c> {
    caller: &'c Arc<Caller>,
    id: Box<str>,
}

impl Drop for OpenInvitation<'_> {
    fn drop(&mut self) {
        self.caller.withdraw(&self.id, "the login is over");
    }
}

/// Resolves only on a refusal: a user who accepts has yet to log in.
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
