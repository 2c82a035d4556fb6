//! The action `call`: checks what a model asks for against the child's own list, sends it, and passes the
//! child's answer on untouched.

use std::sync::Arc;

use switchboard_wire::envelope::quoted;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use tokio::time::Instant;

use super::{ChildRequest, Suite, SuiteReply, arguments, outgoing, tool_error};
use crate::caller::Caller;
use crate::child::{ChildError, ChildId, ChildResponse, InFlight, Limits};
use crate::config::{Mode, Scope};
use crate::error::Failure;
use crate::methods;
use crate::metrics::OperationNotes;
use crate::pool::{Lease, PoolError};
use crate::telemetry::trace::Context;

/// A request on its way to a child that is held for it.
pub struct SentCall {
    pub(super) call: InFlight,
    pub(super) lease: Lease,
}

impl SentCall {
    pub async fn answer(self, limits: Limits) -> Result<ChildResponse, ChildError> {
        self.answer_and_lease(limits).await.0
    }

    /// The same, for those who have more to say to the child.
    pub(super) async fn answer_and_lease(self, limits: Limits) -> (Result<ChildResponse, ChildError>, Lease) {
        let answer = self.call.answer(limits).await;
        match &answer {
            Ok(_) => self.lease.note_served(),
            Err(ChildError::Silent { .. }) => self.lease.probe(),
            Err(_) => {}
        }
        (answer, self.lease)
    }
}

/// Why a call is not sent, with the sentence that says so.
enum Rejection {
    /// There is no such subtool.
    Unknown(SuiteReply),
    Arguments(SuiteReply),
}

impl Suite {
    pub(super) async fn call(
        &self,
        caller: &Arc<Caller>,
        params: &Members<'_>,
        arguments: &Members<'_>,
        subtool: Option<&str>,
        token: Option<&str>,
        note: Option<&OperationNotes>,
    ) -> Result<SuiteReply, Failure> {
        let Some(subtool) = subtool.filter(|subtool| !subtool.is_empty()) else {
            return Ok(tool_error(&format!(
                "missing `subtool`; use {{\"action\":\"introspect\"}} to see what `{}` can do",
                self.name
            )));
        };
        if !self.settings.expose.permits(subtool) {
            return Ok(self.not_allowed(subtool));
        }
        let args = arguments.get("args").filter(|args| args.get() != "null");
        if args.is_some_and(|args| !args.get().starts_with('{')) {
            return Ok(tool_error("`args` must be an object with the arguments of the subtool"));
        }
        let failed = |error| self.failed(Some(subtool), error);

        let asked = Instant::now();
        // Calls of one session reach one child in the order they came, also while it starts. Where each
        // call has a process of its own there is no order to keep.
        let own_process = self.pool.as_ref().is_some_and(|pool| pool.settings().scope == Scope::Call);
        let send_right = if own_process { None } else { caller.send_queue(self.child_name()).await };
        let mut lease = self.lease_since(caller, Some(subtool), token, asked).await?;
        if self.settings.validate != Some(false) {
            let mut checked = self.check(&lease, subtool, args, asked).await;
            if is_unsent(&checked) {
                // It ended while nobody used it, and the question for its list did not reach it: the
                // next one is asked.
                lease = self
                    .next_lease(lease, caller)
                    .await
                    .map_err(|error| self.unavailable(Some(subtool), error))?;
                checked = self.check(&lease, subtool, args, asked).await;
            }
            if is_unsent(&checked) {
                return Err(failed(lease.ending().await));
            }
            match checked? {
                Some(Rejection::Unknown(said)) => return Ok(said),
                Some(Rejection::Arguments(said)) => {
                    note.iter().for_each(|note| note.tool_exists());
                    return Ok(said);
                }
                None => note.iter().for_each(|note| note.tool_exists()),
            }
        }
        self.trace_arguments(subtool, args);
        let span = note.and_then(|note| note.span);
        let params = |id, out: &mut Vec<u8>| outgoing::call_params(params, subtool, args, id, out);
        let call = self
            .send(lease, caller, methods::TOOLS_CALL, Some(subtool), token, span, params)
            .await
            .map_err(|error| self.unavailable(Some(subtool), error))?;
        drop(send_right);
        let request =
            ChildRequest { method: methods::TOOLS_CALL, subtool: Some(subtool), token, span, params };
        self.await_response(call, caller, request).await
    }

    /// Sends a request to a leased child. One that ended while nobody used it is replaced once: not a
    /// byte of the request reached it, so this is no second try.
    #[expect(clippy::too_many_arguments, reason = "a request, and whom it is from and for")]
    pub async fn send(
        &self,
        lease: Lease,
        caller: &Arc<Caller>,
        method: &str,
        tool: Option<&str>,
        token: Option<&str>,
        span: Option<Context>,
        params: impl Fn(ChildId, &mut Vec<u8>),
    ) -> Result<SentCall, PoolError> {
        match lease.call_with_room(self.limits, span, caller, method, token, &params).await {
            Ok(call) => return Ok(SentCall { call: call.about(tool), lease }),
            Err(ChildError::Unsent) => {}
            Err(error) => return Err(error.into()),
        }
        let lease = self.next_lease(lease, caller).await?;
        match lease.call_with_room(self.limits, span, caller, method, token, &params).await {
            Ok(call) => Ok(SentCall { call: call.about(tool), lease }),
            Err(ChildError::Unsent) => Err(lease.ending().await.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Another child in place of one that ended unused. If there is none, that is why the call fails: how the one before
    /// ended is for those whose calls it had.
    async fn next_lease(&self, ended: Lease, caller: &Arc<Caller>) -> Result<Lease, PoolError> {
        drop(ended);
        match &self.pool {
            Some(pool) => pool.lease(caller, self.limits).await,
            None => Err(ChildError::Unsent.into()),
        }
    }

    /// Checks subtool and arguments against the running child's own list; a sentence if they do not fit.
    async fn check(
        &self,
        lease: &Lease,
        subtool: &str,
        args: Option<Raw<'_>>,
        asked: Instant,
    ) -> Result<Option<Rejection>, Failure> {
        let failed = |error| self.failed(Some(subtool), error);
        let mut list = lease.tools(self.limits, asked).await.map_err(failed)?;
        if list.find(subtool).is_none() {
            list = lease.renew_tools(self.limits).await.map_err(failed)?;
        }
        let Some(tool) = list.find(subtool) else {
            return Ok(Some(Rejection::Unknown(self.unknown_subtool(subtool, &list))));
        };
        // What is wrong with arguments cannot be said without saying what its schema has.
        if self.mode == Mode::Redacted {
            return Ok(None);
        }
        Ok(arguments::complaint(&tool.names, args).map(|complaint| {
            Rejection::Arguments(tool_error(&format!(
                "{complaint} of subtool `{subtool}` (suite `{0}`); {{\"action\":\"introspect\",\"subtool\":{1}}} shows its schema",
                self.name,
                quoted(subtool)
            )))
        }))
    }

    /// Only at the most detailed level, and never what `redact` names.
    fn trace_arguments(&self, subtool: &str, args: Option<Raw<'_>>) {
        if tracing::enabled!(target: "suite", tracing::Level::TRACE) {
            let args = args.map_or_else(|| "{}".to_owned(), |args| redacted(args, &self.settings.redact));
            tracing::trace!(target: "suite", suite = self.name, subtool, args, "call");
        }
    }
}

/// Whether a request found its child ended before a byte of it was written.
fn is_unsent<T>(outcome: &Result<T, Failure>) -> bool {
    matches!(outcome, Err(Failure::Child { error: ChildError::Unsent, .. }))
}

fn redacted(args: Raw<'_>, fields: &[String]) -> String {
    fn mask(value: &mut serde_json::Value, fields: &[String]) {
        match value {
            serde_json::Value::Object(members) => {
                for (name, value) in members.iter_mut() {
                    if fields.contains(name) {
                        *value = "[redacted]".into();
                    } else {
                        mask(value, fields);
                    }
                }
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(|item| mask(item, fields)),
            _ => {}
        }
    }
    let Ok(mut value) = serde_json::from_str(args.get()) else { return "[unreadable]".to_owned() };
    mask(&mut value, fields);
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redaction_reaches_every_depth() {
        let args = Raw::parse(br#"{"token":"s3","deep":[{"token":{"x":1}}],"keep":1}"#).unwrap();
        let shown = redacted(args, &["token".to_owned()]);
        assert_eq!(shown, r#"{"deep":[{"token":"[redacted]"}],"keep":1,"token":"[redacted]"}"#);
    }
}
