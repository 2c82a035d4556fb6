//! A session with the daemon, like a host's, for commands that call tools.

use std::path::Path;

use hyper::{Method, StatusCode};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use switchboard_wire::hop::{HOP, MAILBOX, OPEN_SESSION, POLL_WAIT_MS, PROXY, SEQ_HEADER, SESSION_HEADER};
use switchboard_wire::members::Members;
use tokio::sync::mpsc;

use super::ask::{AskError, DaemonConnection};
use crate::args::Args;

/// Messages buffered for the user; further ones wait in the session's mailbox.
const MESSAGE_QUEUE: usize = 64;

/// The newest revision in which servers send questions as requests.
const REVISION: &str = "2025-11-25";

/// A message that the daemon sends unasked.
#[derive(Debug, Default)]
pub(super) struct DaemonMessage {
    pub(super) value: Value,
    /// The fields of a form, in the server's order.
    pub(super) fields: Vec<String>,
}

impl DaemonMessage {
    fn new(raw: &RawValue) -> Self {
        let within = |names: [&str; 3]| {
            let object =
                names.into_iter().try_fold(Members::of(raw)?, |object, name| Members::of(object.get(name)?));
            Some(object?.0.into_iter().map(|(key, _)| key.into_owned()).collect())
        };
        Self {
            value: serde_json::from_str(raw.get()).unwrap_or_default(),
            fields: within(["params", "requestedSchema", "properties"]).unwrap_or_default(),
        }
    }
}

#[derive(serde::Deserialize)]
struct RawMessages<'a> {
    #[serde(borrow, default)]
    messages: Vec<&'a RawValue>,
}

pub(super) struct DaemonSession<'a> {
    args: &'a Args,
    session: String,
    sent: u64,
    /// Messages that the daemon sends unasked.
    pub(super) mail: mpsc::Receiver<DaemonMessage>,
    poll: tokio::task::JoinHandle<()>,
}

impl Drop for DaemonSession<'_> {
    fn drop(&mut self) {
        self.poll.abort();
    }
}

impl<'a> DaemonSession<'a> {
    /// `asks`: whether a user can answer questions here.
    pub(super) async fn open(args: &'a Args, workspace: Option<&Path>, asks: bool) -> Result<Self, AskError> {
        let wanted = json!({ "workspace": workspace, "version": env!("CARGO_PKG_VERSION"), "hop": HOP });
        let mut line = DaemonConnection::open(args).await?;
        let opened = line.send(Method::POST, OPEN_SESSION, &[], wanted.to_string()).await?.json()?;
        let session = opened["session"].as_str().unwrap_or_default().to_owned();
        let (tell, mail) = mpsc::channel(MESSAGE_QUEUE);
        let poll = tokio::spawn(fetch(line, session.clone(), tell));
        let mut talk = Self { args, session, sent: 0, mail, poll };
        let capabilities = if asks { json!({ "elicitation": { "form": {} } }) } else { json!({}) };
        let hello = json!({
            "protocolVersion": REVISION,
            "capabilities": capabilities,
            "clientInfo": { "name": switchboardd::CALL, "version": env!("CARGO_PKG_VERSION") },
        });
        talk.send(&request("initialize", &hello)).await?;
        talk.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
        Ok(talk)
    }

    /// Sends one message on its own connection and returns the answer; dropping the future cancels a request.
    pub(super) fn send(&mut self, message: &Value) -> impl Future<Output = Result<Value, AskError>> + use<> {
        self.sent += 1;
        let (line, session, seq) =
            (DaemonConnection::at(self.args), self.session.clone(), self.sent.to_string());
        let message = message.to_string();
        async move {
            let mut line = line.await?;
            let headers = [(SESSION_HEADER, session.as_str()), (SEQ_HEADER, seq.as_str())];
            let answer = line.send(Method::POST, PROXY, &headers, message).await?;
            match answer.status {
                StatusCode::ACCEPTED | StatusCode::NO_CONTENT => Ok(Value::Null),
                _ => answer.json(),
            }
        }
    }
}

pub(super) fn request(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

/// Polls the mailbox until the receiver is dropped or the daemon fails.
async fn fetch(mut line: DaemonConnection, session: String, tell: mpsc::Sender<DaemonMessage>) {
    let mut after = 0;
    loop {
        let poll = json!({ "after": after, "waitMs": POLL_WAIT_MS }).to_string();
        let answer = line.send(Method::POST, MAILBOX, &[(SESSION_HEADER, &session)], poll).await;
        let Ok(answer) = answer else { return };
        let (Ok(batch), Ok(raw)) = (answer.json(), serde_json::from_slice::<RawMessages>(&answer.body))
        else {
            return;
        };
        after = batch["next"].as_u64().unwrap_or(after);
        for message in &raw.messages {
            if tell.send(DaemonMessage::new(message)).await.is_err() {
                return;
            }
        }
        if !batch["draining"].is_null() && raw.messages.is_empty() {
            // A draining daemon answers polls at once while it finishes calls in flight.
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forms_fields_keep_the_servers_order() {
        let text = r#"{"method":"elicitation/create","params":{"requestedSchema":{"properties":{"zone":{},"age":{"a":1},"b\u0061r":{}}}}}"#;
        let message = DaemonMessage::new(serde_json::from_str(text).unwrap());
        assert_eq!(message.fields, ["zone", "age", "bar"]);
        assert_eq!(message.value["method"], "elicitation/create");
        assert!(DaemonMessage::new(serde_json::from_str(r#"{"method":"ping"}"#).unwrap()).fields.is_empty());
    }
}
