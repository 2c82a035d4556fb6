//! `switchboard call`: calls a tool from a shell, with progress, logs and questions.

mod arguments;

use std::io::IsTerminal;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_wire::printable;
use switchboard_wire::visible::Printable;

use arguments::TypedArguments;

use super::CliExit;
use super::ask::{AskError, send_order};
use super::call_result::{is_refusal, print_result};
use super::daemon_session::{DaemonMessage, DaemonSession, request};
use super::explain::denied_or;
use super::form;
use super::introspect;
use super::output::{complain, person_reads_errors, print_remark, progress, remark, width};
use super::shell_word::shell_word;
use super::status::project;
use crate::args::Args;

const TOKEN: &str = "call";

/// A call that takes longer says what it waits for.
const NOTICE_AFTER: Duration = Duration::from_secs(1);

pub(super) async fn run(args: &Args, suite: &str, subtool: &str, words: &[String]) -> CliExit {
    let arguments = match TypedArguments::read(words) {
        Ok(arguments) => arguments,
        Err(why) => {
            complain(&why);
            return CliExit::Usage;
        }
    };
    match call(args, suite, subtool, arguments).await {
        Ok(exit) => exit,
        Err(unanswered) => unanswered.print(),
    }
}

async fn call(
    args: &Args,
    suite: &str,
    subtool: &str,
    arguments: TypedArguments,
) -> Result<CliExit, AskError> {
    let known =
        send_order(args, "explain", suite).await.map_err(|refused| denied_or(args, suite, refused))?;
    let name = known["name"].as_str().unwrap_or(suite).to_owned();
    let server = known["child"].as_str().unwrap_or(suite).to_owned();
    if known["state"] == "held" {
        return Err(AskError::Held(format!(
            "server `{server}` is held; `switchboard allow {}` shows it and asks",
            shell_word(&server)
        )));
    }
    let person = std::io::stdin().is_terminal() && person_reads_errors();
    // A new version is approved by `switchboard allow`, not in the middle of a call.
    let asks = person && known["waiting"].is_null();
    let workspace = project(args);
    let mut talk = DaemonSession::open(args, workspace.as_deref(), asks).await?;
    let schema = match arguments.need_schema() {
        true => introspect::schema(&mut talk, &name, &server, subtool).await?,
        false => Value::Null,
    };
    let arguments = match arguments.into_object(&schema) {
        Ok(arguments) => arguments,
        Err(why) => {
            complain(&why);
            let words = format!("{} {}", shell_word(&server), shell_word(subtool));
            remark!("`switchboard introspect {words}` shows what it takes");
            return Ok(CliExit::Usage);
        }
    };
    let params = json!({
        "name": name,
        "arguments": { "action": "call", "subtool": subtool, "args": arguments },
        "_meta": { "progressToken": TOKEN },
    });
    let mut answer = Box::pin(talk.send(&request("tools/call", &params)));
    let mut news = CallProgress::default();
    let mut interrupted = Box::pin(tokio::signal::ctrl_c());
    let begun = tokio::time::Instant::now();
    let mut second = tokio::time::interval_at(begun + NOTICE_AFTER, Duration::from_secs(1));
    let answer = loop {
        let message = tokio::select! {
            biased;
            _ = &mut interrupted => break None,
            _ = second.tick() => {
                news.waits(&server, subtool, begun.elapsed());
                continue;
            }
            Some(message) = talk.mail.recv() => message,
            answer = &mut answer => break Some(answer.map_err(|unanswered| match unanswered {
                AskError::Broken(_) => {
                    AskError::Refused("switchboardd went away; the call may or may not have run".to_owned())
                }
                unanswered => unanswered,
            })?),
        };
        // Ctrl-C also works while the user is asked.
        let reply = tokio::select! {
            biased;
            _ = &mut interrupted => break None,
            reply = news.on_message(&server, &message, asks) => reply,
        };
        if let Some(reply) = reply {
            // Ignored: the call's own answer reports a failure.
            let _ = talk.send(&reply).await;
        }
    };
    news.clear();
    let Some(answer) = answer else {
        // Returning closes the call's connection, and that cancels the call in the server.
        complain(&format!("cancelled `{subtool}` of `{server}`"));
        return Ok(CliExit::Interrupted);
    };
    let exit = print_result(args, &answer);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    if answer["result"]["isError"] == true && is_refusal(text) {
        let tool =
            if text.starts_with("unknown") { String::new() } else { format!(" {}", shell_word(subtool)) };
        remark!("`switchboard introspect {}{tool}` shows more", shell_word(&server));
    }
    Ok(exit)
}

/// Shows progress and logs, and answers questions, while a call runs.
#[derive(Default)]
struct CallProgress {
    shown: bool,
    /// Whether the server reports progress, which is better than our own.
    reported: bool,
}

impl CallProgress {
    /// Returns a reply if the message was a request.
    async fn on_message(&mut self, server: &str, message: &DaemonMessage, asks: bool) -> Option<Value> {
        let DaemonMessage { value: message, fields } = message;
        let reply = |result: Value| json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
        match message["method"].as_str()? {
            "notifications/progress" => self.progress(&message["params"]),
            "notifications/message" => self.log(server, &message["params"]),
            "elicitation/create" => {
                self.clear();
                let result = if asks {
                    form::ask(server, &message["params"], fields).await
                } else {
                    remark!(
                        "switchboard: `{server}` asked a question, which was declined because this is not a terminal"
                    );
                    json!({ "action": "decline" })
                };
                return Some(reply(result));
            }
            "ping" => return Some(reply(json!({}))),
            _ if !message["id"].is_null() => {
                let error = json!({ "code": -32601, "message": "not here" });
                return Some(json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }));
            }
            _ => {}
        }
        None
    }

    /// Says that there is no answer yet.
    fn waits(&mut self, server: &str, subtool: &str, since: Duration) {
        if person_reads_errors() && !self.reported {
            progress(&printable!("waiting for `{subtool}` of `{server}` … {} s", since.as_secs()));
            self.shown = true;
        }
    }

    fn progress(&mut self, told: &Value) {
        if !person_reads_errors() {
            return;
        }
        self.reported = true;
        let number = |value: &Value| value.as_f64().map(|number| number.to_string());
        let mut line = number(&told["progress"]).unwrap_or_default();
        if let Some(total) = number(&told["total"]) {
            line = format!("{line} of {total}");
        }
        if let Some(words) = told["message"].as_str() {
            line = format!("{line}  {words}");
        }
        let line = printable!("{line}");
        let line: String = line.as_str().chars().take(width().min(200).saturating_sub(1)).collect();
        progress(&printable!("{line}"));
        self.shown = true;
    }

    fn log(&mut self, server: &str, told: &Value) {
        if !person_reads_errors() {
            return;
        }
        self.clear();
        let said = told["data"].as_str().map_or_else(|| told["data"].to_string(), ToOwned::to_owned);
        let level = told["level"].as_str().unwrap_or("log");
        print_remark(&Printable::text(format_args!("{server}: {}: {said}", printable!("{level}"))));
    }

    /// Erases the progress line.
    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            progress(&Printable::default());
        }
    }
}
