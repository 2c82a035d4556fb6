//! Dispatches what a child sends: answers to their callers, progress and logs to the callers they are for,
//! questions to the only host they can be for.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use switchboard_mcp::era::{ProtocolEra, question, subscription};
use switchboard_mcp::log_level::LogLevel;
use switchboard_mcp::methods;
use switchboard_wire::envelope::{self, Malformed, Message, Outcome, quoted, range_of, splice};
use switchboard_wire::framing::{Frame, MAX_MESSAGE};
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;
use tokio::time::Instant;

use super::calls::{CallOutcome, Candidates, ChildId, ChildResponse, Delivery, MessageTopic};
use super::message_id::{is_id, our_id};
use super::questions::error;
use super::{Child, ChildError, ChildTransport};
use crate::caller::mailbox::MessageKind;
use crate::caller::subscriptions::Recipient;
use crate::observe::metrics::outcome;

/// Stands in for the answer to a `subscriptions/listen` request that the child cancelled.
const LISTEN_END: &[u8] = br#"{"id":0,"jsonrpc":"2.0","result":{}}"#;

impl Child {
    pub(super) fn on_frame(self: &Arc<Self>, frame: Frame) {
        self.on_frame_for(frame, None);
    }

    /// Like [`Child::on_frame`], for a message that arrived in response to a call: its questions and logs
    /// are about that call.
    pub(super) fn on_frame_for(self: &Arc<Self>, frame: Frame, about: Option<ChildId>) {
        match frame {
            Frame::Message { body, .. } => match Message::parse(&body) {
                Ok(Message::Response { id, outcome, both: true }) => {
                    let body = with_one_outcome(id, outcome);
                    if let Ok(Message::Response { id, outcome, .. }) = Message::parse(&body) {
                        self.on_response(&body, id, outcome);
                    }
                }
                Ok(Message::Response { id, outcome, .. }) => self.on_response(&body, id, outcome),
                Ok(Message::Request { id, method, params }) => {
                    self.on_question(&body, id, &method.name(), params, about);
                }
                Ok(Message::Notification { method, params }) => {
                    self.on_notification(&body, &method.name(), params, about);
                }
                Err(malformed) => self.on_malformed(&body, about, &malformed),
            },
            Frame::Noise(line) => self.skip(&line, &Malformed::NotJson),
            Frame::Oversize { id, asks, bytes, .. } => {
                self.metrics.too_long(bytes);
                tracing::warn!(target: "server", server = self.name(), bytes, "skipped a message over the limit");
                match id {
                    Some(id) if asks && is_id(&id) && self.era() == ProtocolEra::Legacy => {
                        let why = format!(
                            "a message of {bytes} bytes is over the limit of {} MiB",
                            MAX_MESSAGE >> 20
                        );
                        self.reply(&id, &error(envelope::INVALID_REQUEST, &why));
                    }
                    Some(id) if !asks => {
                        our_id(&id).map(|id| self.deliver(id, CallOutcome::TooLong(bytes)));
                    }
                    _ => {}
                }
            }
        }
    }

    fn on_response(&self, body: &Bytes, id: Raw<'_>, outcome: Outcome<'_>) {
        let Some(ours) = our_id(id.get()) else {
            self.count_noise(&Malformed::NotMessage("an answer to nothing we asked"));
            return;
        };
        if let Outcome::Error(error) = outcome
            && let Some(why) = question::bad_address_in_error(error)
        {
            self.deliver(ours, CallOutcome::Failed(ChildError::Unusable { why }));
            return;
        }
        let error = outcome::of(outcome);
        let answer = ChildResponse {
            body: body.clone(),
            id: range_of(body, id.get()),
            era: self.era(),
            error,
            asked: Duration::ZERO,
        };
        // A pipe preserves the order of messages; HTTP requests can overtake each other.
        let is_modern =
            answer.era == ProtocolEra::Modern && matches!(self.transport, ChildTransport::Stdio(_));
        let delivered = self.deliver(ours, CallOutcome::Response(answer));
        if is_modern && delivered != Delivery::Unknown {
            self.calls().drop_cancelled_before(ours);
        }
        if delivered == Delivery::Unknown {
            self.count_noise(&Malformed::NotMessage("an answer to nothing we asked, or a second one"));
        }
    }

    fn on_notification(
        self: &Arc<Self>,
        body: &Bytes,
        method: &str,
        params: Option<Raw<'_>>,
        about: Option<ChildId>,
    ) {
        match (method, params) {
            (methods::PROGRESS, Some(params)) => self.on_progress(body, params),
            (methods::LOG_MESSAGE, Some(params)) => self.on_log(body, params, about),
            (methods::CANCELLED, Some(params)) => self.on_cancelled(params),
            (methods::RESOURCE_UPDATED, Some(params)) => self.on_resource_updated(body, params),
            (methods::ACKNOWLEDGED, _) => self.following.acknowledged.notify_waiters(),
            (methods::TOOLS_CHANGED, _) => {
                self.following.subscriptions.note_list_changed(method);
                self.tool_cache.invalidate();
            }
            (methods::PROMPTS_CHANGED | methods::RESOURCES_CHANGED, _) => {
                self.following.subscriptions.note_list_changed(method);
                self.offer_cache.invalidate();
            }
            _ => {
                tracing::debug!(target: "server", server = self.name(), method, "notification not forwarded")
            }
        }
    }

    fn on_progress(&self, body: &Bytes, params: Raw<'_>) {
        let Some(token) = Members::of(params).and_then(|params| params.get("progressToken")) else { return };
        let Some(id) = our_id(token.get()) else { return };
        let owner = self.calls().progress(id, Instant::now());
        if let Some((caller, host_token)) = owner {
            let body = splice(body, range_of(body, token.get()), host_token.as_bytes());
            caller.push(MessageKind::Progress(host_token), body);
        }
    }

    /// A log message carries no request id: it goes to the only caller it can be for, or is dropped.
    fn on_log(self: &Arc<Self>, body: &Bytes, params: Raw<'_>, about: Option<ChildId>) {
        let Candidates::One(caller) = self.candidates(MessageTopic::Log, about) else { return };
        let level = Members::of(params)
            .and_then(|params| serde_json::from_str::<LogLevel>(params.get("level")?.get()).ok());
        if level.is_some_and(|level| caller.wants_level(level)) && self.may_log(&caller) {
            let mut line = Vec::with_capacity(body.len());
            switchboard_wire::single_line::push_single_line(body, &mut line);
            caller.push(MessageKind::Log, line);
        }
    }

    /// A resource changed: notifies its subscribers, under the URI that they know it by.
    fn on_resource_updated(&self, body: &Bytes, whole: Raw<'_>) {
        let Some(params) = Members::of(whole) else { return };
        let (Some(uri), Some(raw)) = (params.text("uri"), params.get("uri")) else { return };
        for Recipient { caller: by, shown, listen } in self.following.subscriptions.recipients(&uri) {
            if !self.may_serve(&by) {
                continue;
            }
            let told = match &listen {
                None if self.era() == ProtocolEra::Legacy => {
                    let shown = if *shown == *uri { raw.get().to_owned() } else { quoted(&shown) };
                    splice(body, range_of(body, raw.get()), shown.as_bytes())
                }
                listen => subscription::resource_updated(whole, &shown, listen.as_deref()),
            };
            let kind = MessageKind::Updated(format!("{} {shown}", listen.unwrap_or_default()).into());
            by.push(kind, told);
        }
    }

    /// The child withdraws one of its questions, or ends our `subscriptions/listen` request.
    fn on_cancelled(&self, params: Raw<'_>) {
        let Some(id) = Members::of(params).and_then(|params| params.get("requestId")) else { return };
        if let Some(ours) = our_id(id.get()).filter(|ours| self.calls().is_listen_call(*ours)) {
            // It would never have been answered otherwise.
            let answer = ChildResponse {
                body: Bytes::from_static(LISTEN_END),
                id: 6..7,
                era: self.era(),
                error: None,
                asked: Duration::ZERO,
            };
            self.deliver(ours, CallOutcome::Response(answer));
            return;
        }
        let closed = self.calls().question_closed(id.get(), Instant::now());
        if let Some(question) = closed {
            self.reschedule_timeouts();
            question.caller.withdraw(&question.ours, "the server no longer asks");
        }
    }

    /// Who a message of the child may be for: the caller of the call that it arrived with, if known.
    pub(super) fn candidates(&self, what: MessageTopic, about: Option<ChildId>) -> Candidates {
        let calls = self.calls();
        match about.and_then(|id| calls.caller_of(id)) {
            Some(caller) => Candidates::One(caller),
            None => calls.candidates(what, Instant::now()),
        }
    }
}

/// Drops the one of `result` and `error` that is null.
fn with_one_outcome(id: Raw<'_>, outcome: Outcome<'_>) -> Bytes {
    match outcome {
        Outcome::Result(result) => rpc::result(id.get(), result.get()),
        Outcome::Error(error) => rpc::error(id.get(), error.get()),
    }
    .into()
}
