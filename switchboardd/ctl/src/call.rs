//! `switchboard call`: calls a subtool from a shell, with progress, logs and questions.

use std::io::{IsTerminal, Read};

use serde_json::{Value, json};
use switchboard_wire::printable;
use switchboard_wire::visible::Printable;

use super::CliExit;
use super::ask::{AskError, send_order};
use super::daemon_session::{DaemonSession, request};
use super::form;
use super::output::{
    complain, failed, person_reads_errors, print_exact, print_json, print_remark, progress, remark, width,
    wrap,
};
use super::shell_word::shell_word;
use super::status::project;
use crate::args::Args;

const TOKEN: &str = "call";

/// Failure kinds that are not the server's fault.
const DAEMON_FAULTS: [&str; 7] = [
    "daemon_draining",
    "daemon_failed",
    "invalid_params",
    "unknown_method",
    "not_allowed",
    "wrong_tool",
    "not_confirmed",
];

pub(super) async fn run(args: &Args, suite: &str, subtool: &str, arguments: Option<&str>) -> CliExit {
    let arguments = match read(arguments) {
        Ok(arguments) => arguments,
        Err(why) => {
            complain(&why);
            return CliExit::Usage;
        }
    };
    match call(args, suite, subtool, &arguments).await {
        Ok(exit) => exit,
        Err(unanswered) => unanswered.print(),
    }
}

/// A JSON object: as it was typed, from a file, or from standard input.
fn read(given: Option<&str>) -> Result<Value, String> {
    let text = match given {
        None => return Ok(json!({})),
        Some("-") => {
            let mut text = String::new();
            let read = std::io::stdin().lock().read_to_string(&mut text);
            read.map_err(|error| format!("standard input cannot be read: {error}"))?;
            text
        }
        Some(file) if file.starts_with('@') => std::fs::read_to_string(&file[1..])
            .map_err(|error| format!("`{}` cannot be read: {error}", &file[1..]))?,
        Some(text) => text.to_owned(),
    };
    match serde_json::from_str(&text) {
        Ok(object @ Value::Object(_)) => Ok(object),
        Ok(_) => Err("the arguments are no JSON object: write '{\"name\": \"value\"}'".to_owned()),
        Err(error) => Err(format!("the arguments are no JSON: {error}; write '{{\"name\": \"value\"}}'")),
    }
}

async fn call(args: &Args, suite: &str, subtool: &str, arguments: &Value) -> Result<CliExit, AskError> {
    let known = send_order(args, "explain", suite).await?;
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
    let params = json!({
        "name": name,
        "arguments": { "action": "call", "subtool": subtool, "args": arguments },
        "_meta": { "progressToken": TOKEN },
    });
    let mut answer = Box::pin(talk.send(&request("tools/call", &params)));
    let mut news = CallProgress::default();
    let mut interrupted = Box::pin(tokio::signal::ctrl_c());
    let answer = loop {
        let message = tokio::select! {
            biased;
            _ = &mut interrupted => break None,
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
    Ok(print_result(args, &answer))
}

/// Shows progress and logs, and answers questions, while a call runs.
#[derive(Default)]
struct CallProgress {
    shown: bool,
}

impl CallProgress {
    /// Returns a reply if the message was a request.
    async fn on_message(&mut self, server: &str, message: &Value, asks: bool) -> Option<Value> {
        let reply = |result: Value| json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
        match message["method"].as_str()? {
            "notifications/progress" => self.progress(&message["params"]),
            "notifications/message" => self.log(server, &message["params"]),
            "elicitation/create" => {
                self.clear();
                let result = if asks {
                    form::ask(server, &message["params"]).await
                } else {
                    remark!(
                        "switchboard: `{server}` asked something, which was declined: there is no terminal"
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

    fn progress(&mut self, told: &Value) {
        if !person_reads_errors() {
            return;
        }
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

/// Prints a result for the user, or as JSON; returns its exit code.
pub(super) fn print_result(args: &Args, answer: &Value) -> CliExit {
    if let Some(error) = answer.get("error") {
        if args.json {
            print_json(&json!({ "error": error }));
        }
        let said = error["message"].as_str().map_or_else(|| error.to_string(), ToOwned::to_owned);
        failed(&said);
        return exit_of(error["data"]["switchboard"]["kind"].as_str());
    }
    let result = &answer["result"];
    let is_error = result["isError"] == true;
    if let Some(kind) = result["_meta"]["switchboard"]["kind"].as_str().filter(|_| is_error) {
        if args.json {
            print_json(result);
        }
        let said = result["content"][0]["text"].as_str().unwrap_or_default();
        failed(&said);
        return exit_of(Some(kind));
    }
    if args.json {
        print_json(result);
    } else {
        let mut shown = false;
        for part in result["content"].as_array().into_iter().flatten() {
            shown = true;
            let text = content(part);
            if is_error {
                failed(&text);
            } else {
                print_exact(&text);
            }
        }
        if !shown {
            let structured = result.get("structuredContent").unwrap_or(result);
            print_json(structured);
        }
    }
    if is_error { CliExit::Error } else { CliExit::Ok }
}

/// By the daemon's failure kind; a server's own error has none.
fn exit_of(kind: Option<&str>) -> CliExit {
    match kind {
        Some("held") => CliExit::Held,
        Some(kind) if DAEMON_FAULTS.contains(&kind) => CliExit::Error,
        Some(_) => CliExit::ChildFailed,
        None => CliExit::Error,
    }
}

/// Text as it is; images and audio are only described, since their bytes are useless on a terminal.
fn content(part: &Value) -> String {
    let bytes = |value: &Value| value.as_str().map_or(0, |text| text.len() / 4 * 3);
    match part["type"].as_str() {
        Some("text") => part["text"].as_str().unwrap_or_default().to_owned(),
        Some(kind @ ("image" | "audio")) => {
            format!("[{kind}, {}, {} bytes; `--json` gives it whole]", part["mimeType"], bytes(&part["data"]))
        }
        Some("resource") if part["resource"]["text"].is_string() => {
            part["resource"]["text"].as_str().unwrap_or_default().to_owned()
        }
        Some("resource_link") => {
            let name = part["name"].as_str().unwrap_or_default();
            wrap(&format!("{name} {}", part["uri"].as_str().unwrap_or_default()), usize::MAX).join(" ")
        }
        _ => format!("{part:#}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_an_object_wherever_they_come_from() {
        assert_eq!(read(None), Ok(json!({})));
        assert_eq!(read(Some(r#"{"a": 1}"#)), Ok(json!({ "a": 1 })));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), r#"{"b": 2}"#).unwrap();
        assert_eq!(read(Some(&format!("@{}", file.path().display()))), Ok(json!({ "b": 2 })));
        for wrong in ["[1]", "nonsense", "", "@/nonexistent/file"] {
            assert!(read(Some(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn content_other_than_text_is_described() {
        assert_eq!(content(&json!({ "type": "text", "text": "a\nb" })), "a\nb");
        let picture = content(&json!({ "type": "image", "mimeType": "image/png", "data": "AAAA" }));
        assert!(picture.contains("image/png") && picture.contains("3 bytes"), "{picture}");
    }
}
