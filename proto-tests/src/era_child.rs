//! The era child: a well-behaved MCP server over stdio, in the legacy era, in the modern one or in both,
//! with every tool, prompt and resource that the official conformance suite asks for by name.
//!
//! What a tool does is written once, as a [`step::Step`]: done, failed, or a question to the host. The eras
//! differ in how they deliver the question: [`legacy`] sends a request and waits, [`modern`] answers
//! `input_required` and is called again, [`tasks`] suspends the task. Each call has its own thread, so a tool
//! that waits for an answer blocks no other.
//!
//! It never misbehaves; the evil child does.

use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use answer_signer::AnswerSigner;
use calls::Calls;
use journal::Journal;
use legacy::Session;
pub use options::{Era, Options};
use tasks::Tasks;
use watchers::Watchers;
use wire::{Fault, Outbox, Request};

mod answer_signer;
mod asking;
mod calls;
mod catalog;
mod content;
mod journal;
mod legacy;
mod modern;
mod offers;
mod options;
mod prompts;
mod resources;
mod revision;
mod step;
mod tasks;
#[cfg(test)]
mod tests;
mod tool_context;
mod tools;
mod watchers;
mod wire;

/// Requests that affect later ones: they are completed before the next line is read.
const ORDERING: [&str; 4] =
    ["logging/setLevel", "resources/subscribe", "resources/unsubscribe", "subscriptions/listen"];

/// How long calls in flight may continue after the end of input.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(500);

pub(crate) struct Child {
    options: Options,
    outbox: Outbox,
    journal: Journal,
    calls: Calls,
    session: Session,
    watchers: Watchers,
    signer: AnswerSigner,
    tasks: Tasks,
    /// How often each list was changed; the lists contain the number, so that a change is visible.
    tool_changes: AtomicU64,
    prompt_changes: AtomicU64,
    resource_changes: AtomicU64,
    /// The version of the watched resource.
    watched: AtomicU64,
}

/// Serves stdin and stdout until stdin ends.
pub fn run(options: Options) {
    let child = Child::new(options, Box::new(io::stdout()));
    for line in io::stdin().lock().split(b'\n') {
        let Ok(line) = line else { break };
        child.line(&line);
    }
    child.calls.wait_until_idle(SHUTDOWN_GRACE);
}

impl Child {
    fn new(options: Options, out: Box<dyn Write + Send>) -> Arc<Self> {
        Arc::new(Self {
            options,
            outbox: Outbox::new(out),
            journal: Journal::from_environment(),
            calls: Calls::default(),
            session: Session::default(),
            watchers: Watchers::default(),
            signer: AnswerSigner::default(),
            tasks: Tasks::default(),
            tool_changes: AtomicU64::new(0),
            prompt_changes: AtomicU64::new(0),
            resource_changes: AtomicU64::new(0),
            watched: AtomicU64::new(0),
        })
    }

    fn line(self: &Arc<Self>, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        self.journal.note(line);
        match serde_json::from_slice(line) {
            Ok(Value::Array(batch)) if self.session.takes_batches() && !batch.is_empty() => {
                batch.into_iter().for_each(|message| self.message(message));
            }
            Ok(message) => self.message(message),
            Err(_) => self.outbox.fault(&Value::Null, &Fault::new(-32700, "Parse error")),
        }
    }

    fn message(self: &Arc<Self>, message: Value) {
        let Value::Object(mut message) = message else {
            return self.outbox.fault(&Value::Null, &Fault::new(-32600, "not a JSON-RPC message"));
        };
        let id = message.remove("id");
        let params = message.remove("params").unwrap_or_else(|| json!({}));
        match (message.get("method").and_then(Value::as_str), id) {
            (Some(method), Some(id)) if id.is_string() || id.is_number() => {
                self.request(Request { id, method: method.to_owned(), params });
            }
            (Some(method), None) => self.notification(method, &params),
            (None, Some(id)) => self.calls.answered(&id, wire::outcome(&mut message)),
            _ => self.outbox.fault(&Value::Null, &Fault::new(-32600, "not a JSON-RPC message")),
        }
    }

    fn request(self: &Arc<Self>, request: Request) {
        let modern = match self.options.era {
            Era::Legacy => false,
            Era::Modern => true,
            Era::Both => modern::claims(&request),
        };
        // The handshake affects later requests, so it is answered before the next line is read.
        if request.method == "initialize" {
            let answer =
                if modern { modern::initialize(&request) } else { legacy::initialize(self, &request) };
            return self.outbox.answer(&request.id, answer);
        }
        // Registered before its thread starts, so that an immediate cancel finds it.
        let Some(turn) = self.calls.begin(&request.id) else {
            return self.outbox.fault(&request.id, &Fault::new(-32600, "this id is in use"));
        };
        let orders = ORDERING.contains(&request.method.as_str());
        let child = Arc::clone(self);
        let play = move || {
            let answer = if modern {
                modern::answer(&child, &request, &turn)
            } else {
                legacy::answer(&child, &request, &turn)
            };
            // A cancelled request gets no answer.
            child.calls.end(&request.id, || {
                if let Some(answer) = answer {
                    child.outbox.answer(&request.id, answer);
                }
            });
        };
        if orders {
            play();
        } else {
            thread::spawn(play);
        }
    }

    fn notification(&self, method: &str, params: &Value) {
        if method != "notifications/cancelled" {
            return;
        }
        let Some(id) = params.get("requestId") else { return };
        self.watchers.close(id);
        for question in self.calls.cancel(id) {
            let params = json!({"requestId": question, "reason": "the call that asked was cancelled"});
            self.outbox.notify("notifications/cancelled", &params);
        }
    }
}
