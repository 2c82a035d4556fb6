//! The action `call`: checks the request against the child's own tool list, has it sent (`judged_call.rs`), and passes
//! the child's response on unchanged.

use std::sync::Arc;

use switchboard_definitions::config::Mode;
use switchboard_wire::event_loop::run_blocking;
use switchboard_wire::raw::Raw;
use tokio::time::Instant;

use super::judged_call::CallArguments;
use super::outgoing::OutgoingParams;
use super::sent_call::SentCall;
use super::{CallContext, HostParams, Suite, SuiteReply, arguments, drift, lenient, refusal, tool_error};
use crate::caller::Caller;
use crate::child::{ChildError, ChildId, ChildRequest, InFlight, Tool, ToolList};
use crate::pool::{Lease, PoolError};
use crate::suite::failure::Failure;

impl Suite {
    pub(super) async fn call(
        &self,
        call: CallContext<'_>,
        params: HostParams<'_>,
    ) -> Result<SuiteReply, Failure> {
        let Some(subtool) = call.tool.filter(|subtool| !subtool.is_empty()) else {
            return Ok(tool_error(&format!(
                "missing `subtool`; use {{\"action\":\"introspect\"}} to see what `{}` can do",
                self.name
            )));
        };
        if !self.settings.expose.permits(subtool) {
            return Ok(self.not_allowed(subtool));
        }
        let mut args = params.arguments.get("args").filter(|args| args.get() != "null");
        let (rewritten, with_query);
        let mut arguments = CallArguments::default();
        if args.is_none() && !call.by_own_name && lenient::has_query(params.arguments) {
            with_query = lenient::arguments(params.arguments, None, true).ok().flatten();
            arguments.with_query = with_query.as_deref().and_then(|args| Raw::parse(args.as_bytes()));
        }
        if args.is_none_or(|args| !args.get().starts_with('{')) {
            rewritten = match lenient::arguments(params.arguments, args, false) {
                Ok(rewritten) => rewritten,
                Err(_) if call.by_own_name => return Ok(tool_error("`arguments` must be an object")),
                Err(sentence) => return Ok(tool_error(sentence)),
            };
            args = rewritten.as_deref().and_then(|args| Raw::parse(args.as_bytes()));
        }
        arguments.given = args;
        let outgoing = OutgoingParams::Call { params: params.members, token: params.token, subtool, args };
        self.run_judged(call, arguments, outgoing).await
    }

    /// Sends a request to a leased child. A child that ended while idle is replaced once. This is no retry:
    /// not a byte of the request was written.
    pub async fn send(
        &self,
        lease: Lease,
        call: CallContext<'_>,
        method: &str,
        params: &OutgoingParams<'_>,
    ) -> Result<SentCall, PoolError> {
        let request = call.to_child(method);
        let write = |id, out: &mut Vec<u8>| params.write(id, out);
        match self.send_when_room(&lease, request, write).await {
            Ok(call) => return Ok(SentCall::new(call, lease)),
            Err(ChildError::Unsent) => {}
            Err(error) => return Err(error.into()),
        }
        let lease = self.next_lease(lease, call.caller).await?;
        match self.send_when_room(&lease, request, write).await {
            Ok(call) => Ok(SentCall::new(call, lease)),
            Err(ChildError::Unsent) => Err(lease.wait_end_reason().await.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a request. If the child's queue is full, waits until the child has read some of it.
    async fn send_when_room(
        &self,
        lease: &Lease,
        request: ChildRequest<'_>,
        write_params: impl Fn(ChildId, &mut Vec<u8>),
    ) -> Result<InFlight, ChildError> {
        let mut due = None;
        loop {
            if let Some(sent) = self.send_or_wait(lease, request, &mut due, &write_params).await? {
                return Ok(sent);
            }
        }
    }

    /// Sends a request, unless the child's queue is full: then waits, and sends nothing. What was judged before the wait
    /// is judged again. `due`: when waiting ends; set by the first wait.
    pub(super) async fn send_or_wait(
        &self,
        lease: &Lease,
        request: ChildRequest<'_>,
        due: &mut Option<Instant>,
        write_params: impl Fn(ChildId, &mut Vec<u8>),
    ) -> Result<Option<InFlight>, ChildError> {
        let mut opened = lease.open_request(request)?;
        write_params(opened.id(), opened.params());
        match opened.send() {
            Err(ChildError::Busy) => {}
            sent => return sent.map(Some),
        }
        let due = *due.get_or_insert_with(|| Instant::now() + self.limits.rpc);
        lease.wait_for_room(self.limits.rpc, due).await?;
        Ok(None)
    }

    /// Leases another child instead of one that ended while idle. If that fails, the call fails with this
    /// error; how the first child ended does not concern this call.
    pub(super) async fn next_lease(&self, ended: Lease, caller: &Arc<Caller>) -> Result<Lease, PoolError> {
        drop(ended);
        match &self.pool {
            Some(pool) => pool.lease(caller, self.limits).await,
            None => Err(ChildError::Unsent.into()),
        }
    }

    /// Checks the subtool against the child's tool list; the reply explains what is wrong.
    pub(super) async fn check_tool(
        &self,
        list: &Arc<ToolList>,
        call: CallContext<'_>,
        subtool: &str,
    ) -> Result<Option<SuiteReply>, Failure> {
        let drift = self.held_drift(list).await;
        if drift.as_ref().is_some_and(|drift| drift.unaccepted.contains(subtool)) {
            return Err(self.held_tool(subtool));
        }
        if list.find(subtool).is_none() {
            let list = drift::without_held_async(list, drift).await;
            return Ok(Some(self.unknown_subtool(subtool, &list).await));
        }
        call.notes.iter().for_each(|notes| notes.tool_exists());
        Ok(None)
    }

    /// The same for the arguments.
    pub(super) async fn check_arguments(
        &self,
        list: &Arc<ToolList>,
        call: CallContext<'_>,
        subtool: &str,
        args: Option<Raw<'_>>,
    ) -> Option<SuiteReply> {
        let tool = list.find(subtool)?;
        // In redacted mode, an error about arguments would reveal the schema.
        if self.mode == Mode::Redacted {
            return None;
        }
        let mistake = arguments::mistake(&tool.names, args)?;
        let said = move |tool: &Tool| {
            let signature = tool.signature();
            (mistake.sentence(&signature), refusal::fitting(&signature))
        };
        let (complaint, signature) = if tool.is_large() {
            let (list, subtool) = (list.clone(), subtool.to_owned());
            run_blocking(move || list.find(&subtool).map(said)).await?
        } else {
            said(tool)
        };
        Some(self.wrong_arguments(call, subtool, &signature, &complaint))
    }

    /// The child's tools, asked for again if `subtool` is not among them.
    pub(super) async fn list_with(
        &self,
        lease: &Lease,
        call: CallContext<'_>,
        subtool: &str,
    ) -> Result<Arc<ToolList>, Failure> {
        let failed = |error| self.failed(Some(subtool), error);
        let list = lease.tools(self.limits, call.asked).await.map_err(failed)?;
        match list.find(subtool) {
            Some(_) => Ok(list),
            None => lease.renew_tools(self.limits).await.map_err(failed),
        }
    }

    /// Logs the arguments at trace level only, with the fields in `redact` masked.
    pub(super) fn trace_arguments(&self, subtool: &str, args: Option<Raw<'_>>) {
        if tracing::enabled!(target: "suite", tracing::Level::TRACE) {
            let args = args.map_or_else(|| "{}".to_owned(), |args| redacted(args, &self.settings.redact));
            tracing::trace!(target: "suite", suite = self.name, subtool, args, "call");
        }
    }
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
