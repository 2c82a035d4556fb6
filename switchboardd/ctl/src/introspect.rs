//! `switchboard introspect`: shows a user what a suite can do.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use switchboard_wire::visible::{Printable, visible, visible_json};

use super::CliExit;
use super::ask::{AskError, about, ask, send_order};
use super::daemon_session::{DaemonSession, request};
use super::explain::denied_or;
use super::output::{
    Paint, Table, Tone, cell, is_terminal, person_reads_errors, print, print_json, remark, say, toned, width,
    wrap,
};
use super::shell_word::shell_word;
use super::status::project;
use crate::args::Args;

/// A running server answers within this time; after it, the user is told that the server is starting.
const RUNNING_ANSWER_TIME: Duration = Duration::from_secs(1);

pub(super) async fn run(args: &Args, suite: &str, query: Option<&str>, full: bool) -> CliExit {
    match print_suite(args, suite, query, full).await {
        Ok(exit) => exit,
        Err(unanswered) => unanswered.print(),
    }
}

async fn print_suite(args: &Args, suite: &str, query: Option<&str>, full: bool) -> Result<CliExit, AskError> {
    let known =
        send_order(args, "explain", suite).await.map_err(|refused| denied_or(args, suite, refused))?;
    let name = known["name"].as_str().unwrap_or(suite);
    let server = known["child"].as_str().unwrap_or(suite);
    if known["state"] == "held" {
        let why = format!(
            "server `{server}` is held; `switchboard allow {}` shows it and asks",
            shell_word(server)
        );
        return Err(AskError::Held(why));
    }
    let all =
        introspect(args, name, server, &json!({ "action": "introspect", "args": { "verbosity": "full" } }))
            .await?;
    if all.get("error").is_some() || all["result"]["isError"] == true {
        return Ok(super::call_result::print_result(args, &all));
    }
    let (is_redacted, all) = (has_no_schemas(&all), tools(&all));
    // An exact subtool name selects that subtool.
    if let Some(tool) = query.and_then(|query| all.iter().find(|tool| tool["name"] == query)) {
        if args.json || full {
            print_json(tool);
        } else {
            single(server, tool, is_redacted);
        }
        return Ok(CliExit::Ok);
    }
    let shown = match query {
        None => all,
        Some(query) => {
            let wanted = json!({ "action": "introspect", "query": query, "args": { "verbosity": "full" } });
            tools(&introspect(args, name, server, &wanted).await?)
        }
    };
    // As with `grep`: what was looked for is not there.
    let exit = if shown.is_empty() && query.is_some() { CliExit::Error } else { CliExit::Ok };
    if args.json || full {
        print_json(&json!({ "suite": name, "server": server, "tools": shown }));
        return Ok(exit);
    }
    if shown.is_empty() {
        let about = query.map_or(String::new(), |query| format!(" about `{query}`"));
        remark!("switchboard: `{server}` has no tool{about}");
        return Ok(exit);
    }
    let mut table = Table::default();
    for tool in &shown {
        let text = |key: &str| tool[key].as_str().unwrap_or_default();
        let says = switchboardd::summary(text(if is_redacted { "summary" } else { "description" }), 160);
        table.row(vec![toned(Tone::Strong, text("name")), cell(says)]);
    }
    table.lines(Paint::for_stdout(), width()).iter().for_each(print);
    if is_terminal() {
        remark!("");
        remark!("`switchboard introspect {} TOOL` shows what one takes", shell_word(server));
    }
    Ok(CliExit::Ok)
}

/// The suite's own answer, as a host gets it. Starts the server if it never ran.
async fn introspect(args: &Args, suite: &str, server: &str, arguments: &Value) -> Result<Value, AskError> {
    let call = request("tools/call", &json!({ "name": suite, "arguments": arguments }));
    let path = format!("/proxy{}", about(project(args).as_deref()));
    noticed(server, ask(args, Method::POST, &path, Some(&call))).await
}

/// Says that the server is starting if the answer takes long.
async fn noticed(
    server: &str,
    answer: impl Future<Output = Result<Value, AskError>>,
) -> Result<Value, AskError> {
    let mut answer = Box::pin(answer);
    match tokio::time::timeout(RUNNING_ANSWER_TIME, &mut answer).await {
        Ok(answer) => answer,
        Err(_) => {
            if person_reads_errors() {
                remark!("starting `{server}` …");
            }
            answer.await
        }
    }
}

/// The `inputSchema` of one tool; null if it is not shown, or there is no such tool. Asked in the session of the call, whose
/// name the record of calls then has.
pub(super) async fn schema(
    talk: &mut DaemonSession<'_>,
    suite: &str,
    server: &str,
    tool: &str,
) -> Result<Value, AskError> {
    let wanted = json!({ "action": "introspect", "subtool": tool, "args": { "verbosity": "full" } });
    let call = request("tools/call", &json!({ "name": suite, "arguments": wanted }));
    let answer = noticed(server, talk.send(&call)).await?;
    let found = tools(&answer).into_iter().find(|one| one["name"] == tool);
    Ok(found.map_or(Value::Null, |found| found["inputSchema"].clone()))
}

fn tools(answer: &Value) -> Vec<Value> {
    result_json(answer)["tools"].as_array().cloned().unwrap_or_default()
}

/// Whether the answer says that it leaves out the requested schemas.
fn has_no_schemas(answer: &Value) -> bool {
    result_json(answer).get("hint").is_some()
}

fn result_json(answer: &Value) -> Value {
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_default()
}

/// Prints one subtool: what it does and what it takes.
fn single(server: &str, tool: &Value, is_redacted: bool) {
    let paint = Paint::for_stdout();
    let name = tool["name"].as_str().unwrap_or_default();
    print(&paint.on(Tone::Strong, name));
    let key = if is_redacted { "summary" } else { "description" };
    let description = Printable::text(tool[key].as_str().unwrap_or_default());
    for line in wrap(description.as_str(), width().min(100).saturating_sub(2)) {
        print(&Printable::text(format_args!("  {line}")));
    }
    let schema = &tool["inputSchema"];
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut table = Table::new(&["ARGUMENT", "TYPE", "", "WHAT"]);
    for (name, about) in schema["properties"].as_object().into_iter().flatten() {
        let kind = match (&about["enum"], about["type"].as_str()) {
            (Value::Array(choices), _) => {
                choices.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ")
            }
            (_, Some(kind)) => kind.to_owned(),
            _ => "any".to_owned(),
        };
        let must = if required.contains(&name.as_str()) { "required" } else { "" };
        let what = about["description"].as_str().unwrap_or_default().replace('\n', " ");
        table.row(vec![cell(name), toned(Tone::Quiet, kind), toned(Tone::Warning, must), cell(what)]);
    }
    if is_redacted {
        say!("");
        say!("  its arguments are not shown: `introspection.mode` is `redacted`");
    } else if table.is_empty() {
        say!("");
        say!("  takes no arguments");
    } else {
        say!("");
        table.lines(paint, width()).iter().for_each(print);
    }
    let mut words = vec![server.to_owned(), name.to_owned()];
    let pairs: Vec<(&str, Value)> =
        required.iter().map(|name| (*name, example(&schema["properties"][*name]))).collect();
    let is_plain = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    match pairs.iter().all(|(name, _)| is_plain(name)) {
        true => words.extend(pairs.iter().map(|(name, value)| pair(name, value))),
        // JSON-escaped: no hidden character gets into a command that is pasted.
        false => {
            let object: serde_json::Map<String, Value> =
                pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            words.push(visible_json(&Value::Object(object).to_string()).into_owned());
        }
    }
    let words: Vec<String> = words.iter().map(shell_word).collect();
    say!("");
    say!("  switchboard call {}", words.join(" "));
}

/// `key=value` for an argument.
fn pair(key: &str, value: &Value) -> String {
    match value {
        // Such a text would name a file.
        Value::String(text) if !text.starts_with('@') => format!("{key}={}", visible(text)),
        value @ (Value::Number(_) | Value::Bool(_)) => format!("{key}={value}"),
        value => format!("{key}:={}", visible_json(&value.to_string())),
    }
}

/// A placeholder of the right type.
fn example(about: &Value) -> Value {
    match (&about["enum"][0], about["type"].as_str()) {
        (choice @ Value::String(_), _) => choice.clone(),
        (_, Some("integer" | "number")) => json!(1),
        (_, Some("boolean")) => json!(true),
        (_, Some("array")) => json!([]),
        (_, Some("object")) => json!({}),
        _ => json!("…"),
    }
}
