//! Asks the user before a call is sent, where `confirm` says so. Nothing reaches the child before the answer, and only
//! a clear yes counts.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use switchboard_definitions::digest;
use switchboard_mcp::methods;
use switchboard_wire::envelope::Message;
use switchboard_wire::envelope::quoted;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use switchboard_wire::visible::clipped;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{CallContext, Suite, SuiteReply, SuspendableCall, shown_arguments};
use crate::caller::Caller;
use crate::child::{Annotations, Tool};
use crate::suite::failure::{Failure, Unconfirmed};

const ONCE: &str = "once";
const SESSION: &str = "this session";
const NO: &str = "no";

/// How much of a name a user is shown, in bytes.
const MAX_NAME: usize = 200;
/// The longest name in a question that is not plain.
const MAX_ODD_NAME: usize = 60;

/// Identifies the subtool of exactly this server, as the server describes it now: another description asks again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfirmKey(Box<str>);

/// Whether a call needs the user's yes.
#[derive(Debug)]
pub(super) enum ConfirmNeed {
    Nothing,
    /// The user said yes to this.
    Confirmed(ConfirmKey),
    Ask(ConfirmKey),
}

impl ConfirmKey {
    pub(super) fn into_text(self) -> Box<str> {
        self.0
    }
}

/// What follows from the question.
#[derive(Debug)]
pub enum Confirmation {
    Given,
    /// A modern host gets the question as its result and retries with the answer.
    Asked(SuiteReply),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConfirmAnswer {
    Once,
    Session,
}

/// What the user is asked, and about what.
struct Question {
    request: String,
    /// What is remembered if the user answers for the whole session.
    key: ConfirmKey,
    child: Box<str>,
    subtool: Box<str>,
    timeout: Duration,
}

/// A name in a question. One that could be read as a part of the sentence is a JSON string, and short.
fn name_of(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':');
    if name.len() <= MAX_NAME && name.chars().all(is_plain) {
        return format!("`{}`", clipped(name, MAX_NAME));
    }
    quoted(&clipped(&name.replace('`', "'"), MAX_ODD_NAME))
}

impl Suite {
    /// Whether the user must say yes before this call is sent. `tool`: with what the user accepted of its annotations;
    /// `None` if the server does not list it.
    pub(super) fn must_confirm(
        &self,
        call: CallContext<'_>,
        subtool: &str,
        tool: Option<(&Tool, Annotations)>,
    ) -> ConfirmNeed {
        let is_harmless = || tool.is_some_and(|(_, accepted)| accepted.is_harmless());
        if !self.settings.confirm.asks_about(subtool, is_harmless) {
            return ConfirmNeed::Nothing;
        }
        let launch = self.pool.as_ref().map(|pool| pool.fingerprint());
        let definition = tool.map(|(tool, _)| digest::short(tool.raw.get().as_bytes()));
        let key = format!("{launch:?} {definition:?} {} {subtool}", self.child_name());
        let key = ConfirmKey(key.into());
        let is_confirmed = call.confirmed == Some(&key)
            || call.caller.has_confirmed(&key.0)
            || call.caller.as_stateless().is_some_and(|request| request.is_confirmed(&key.0));
        if is_confirmed { ConfirmNeed::Confirmed(key) } else { ConfirmNeed::Ask(key) }
    }

    /// Asks the user; fails if the answer is not a yes.
    pub async fn ask_user(
        &self,
        call: CallContext<'_>,
        subtool: &str,
        args: Option<Raw<'_>>,
        key: &ConfirmKey,
    ) -> Result<Confirmation, Failure> {
        let caller = call.caller;
        if !caller.profile().client_capabilities.elicitation_form {
            // The project's settings ask for it if those of the user alone do not.
            let of_workspace = self.of_workspace && self.judged.asks_of_project(subtool);
            let why = Unconfirmed::CannotAsk { of_workspace };
            let (child, subtool) = (self.child_name().into(), subtool.into());
            return Err(Failure::NotConfirmed { child, subtool, why });
        }
        call.notes.iter().for_each(|notes| notes.record_question());
        let question = self.question(caller, subtool, args, key.clone());
        if caller.as_stateless().is_none() {
            let since = Instant::now();
            let answer = question.ask(caller).await;
            call.notes.iter().for_each(|notes| notes.record_user_time(since.elapsed()));
            return answer.map(|()| Confirmation::Given);
        }
        let asked = caller.clone();
        let what = key.0.clone();
        let answer = async move { question.ask(&asked).await.map(|()| SuiteReply::Confirmed(what)) };
        match SuspendableCall::new(caller, self, None, answer).run_until_input().await? {
            SuiteReply::Confirmed(_) => Ok(Confirmation::Given),
            asks => Ok(Confirmation::Asked(asks)),
        }
    }

    fn question(
        &self,
        caller: &Arc<Caller>,
        subtool: &str,
        args: Option<Raw<'_>>,
        key: ConfirmKey,
    ) -> Question {
        let arguments = shown_arguments::lines(args, &self.settings.redact);
        let mut message = format!(
            "Switchboard: may {} of the server {} be called?\n\nArguments:\n{arguments}",
            name_of(subtool),
            name_of(self.child_name())
        );
        let choices: &[&str] = if caller.has_session() { &[ONCE, SESSION, NO] } else { &[ONCE, NO] };
        if caller.has_session() {
            message.push_str("\n\n\"this session\" also allows its later calls, with any arguments.");
        }
        let params = json!({
            "message": message,
            "requestedSchema": {
                "type": "object",
                "properties": { "decision": { "type": "string", "title": "Call it?", "enum": choices } },
                "required": ["decision"],
            },
        });
        let request =
            json!({ "jsonrpc": "2.0", "id": "confirm", "method": methods::ELICITATION, "params": params });
        Question {
            request: request.to_string(),
            key,
            child: self.child_name().into(),
            subtool: subtool.into(),
            timeout: self.limits.max,
        }
    }
}

impl Question {
    /// Succeeds if the user says yes. Dropping the future withdraws the question.
    async fn ask(self, caller: &Arc<Caller>) -> Result<(), Failure> {
        let decision = self.put(caller).await;
        match decision {
            Some(ConfirmAnswer::Once) => return Ok(()),
            Some(ConfirmAnswer::Session) if caller.confirm_for_session(&self.key.0) => return Ok(()),
            _ => {}
        }
        let Self { child, subtool, .. } = self;
        Err(Failure::NotConfirmed { child, subtool, why: Unconfirmed::Declined })
    }

    async fn put(&self, caller: &Arc<Caller>) -> Option<ConfirmAnswer> {
        let Ok(Message::Request { id, params, .. }) = Message::parse(self.request.as_bytes()) else {
            return None;
        };
        let (tell, told) = oneshot::channel();
        let heard = move |response: &[u8], _: Raw<'_>| {
            let _ = tell.send(decision(response));
        };
        let id = caller.ask(self.request.as_bytes(), id, methods::ELICITATION, params, heard)?;
        let _open = OpenQuestion { caller, id };
        tokio::time::timeout(self.timeout, told).await.ok()?.ok()?
    }
}

/// The user's yes; `None` for everything else.
fn decision(response: &[u8]) -> Option<ConfirmAnswer> {
    let response: Members<'_> = Raw::parse(response).and_then(Members::of)?;
    let result = response.get("result").and_then(Members::of)?;
    if result.text("action").as_deref() != Some("accept") {
        return None;
    }
    match &*result.get("content").and_then(Members::of)?.text("decision")? {
        ONCE => Some(ConfirmAnswer::Once),
        SESSION => Some(ConfirmAnswer::Session),
        _ => None,
    }
}

/// A question to withdraw if the call ends before it is answered.
struct OpenQuestion<'a> {
    caller: &'a Arc<Caller>,
    id: Box<str>,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.caller.withdraw(&self.id, "the call that asked has ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_be_read_as_a_part_of_the_question() {
        assert_eq!(name_of("delete_page"), "`delete_page`");
        let odd = name_of("go` of the server `time` be called?\nx");
        assert_eq!(odd, r#""go' of the server 'time' be called?\\u{a}x""#);
        assert!(name_of(&"x".repeat(500)).len() < 100);
    }
}
