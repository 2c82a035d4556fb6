//! `switchboard introspect`: what a suite can do, for a person who wants to call it.

use std::io::IsTerminal;
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use super::Exit;
use super::ask::{Unanswered, about, ask, order};
use super::output::{Paint, Table, Tone, cell, print, print_json, toned, width, wrap};
use super::status::project;
use super::talk::request;
use crate::args::Args;
use crate::visible::visible;

/// A server that runs answers within this; another has to be started first.
const STARTS: Duration = Duration::from_secs(1);

pub(super) async fn run(args: &Args, suite: &str, query: Option<&str>, full: bool) -> Exit {
    match look(args, suite, query, full).await {
        Ok(exit) => exit,
        Err(unanswered) => unanswered.tell(),
    }
}

async fn look(args: &Args, suite: &str, query: Option<&str>, full: bool) -> Result<Exit, Unanswered> {
    let known = order(args, "explain", suite).await?;
    let name = known["name"].as_str().unwrap_or(suite);
    let server = known["child"].as_str().unwrap_or(suite);
    if known["state"] == "held" {
        let why = format!("server `{server}` is held; `switchboard allow {server}` shows it and asks");
        return Err(Unanswered::Held(why));
    }
    let all =
        introspect(args, name, server, &json!({ "action": "introspect", "args": { "verbosity": "full" } }))
            .await?;
    if all.get("error").is_some() || all["result"]["isError"] == true {
        return Ok(super::call::tell(args, &all));
    }
    let all = tools(&all);
    // The name of one means that one.
    if let Some(tool) = query.and_then(|query| all.iter().find(|tool| tool["name"] == query)) {
        if args.json || full {
            print_json(tool);
        } else {
            single(name, tool);
        }
        return Ok(Exit::Ok);
    }
    let shown = match query {
        None => all,
        Some(query) => {
            let wanted = json!({ "action": "introspect", "query": query, "args": { "verbosity": "full" } });
            tools(&introspect(args, name, server, &wanted).await?)
        }
    };
    if args.json || full {
        print_json(&json!({ "suite": name, "server": server, "tools": shown }));
        return Ok(Exit::Ok);
    }
    if shown.is_empty() {
        let about = query.map_or(String::new(), |query| format!(" about `{query}`"));
        eprintln!("switchboard: `{name}` has no subtool{about}");
        return Ok(Exit::Ok);
    }
    let mut table = Table::default();
    for tool in &shown {
        let text = |key: &str| visible(tool[key].as_str().unwrap_or_default()).into_owned();
        let says = crate::suite::summary::summary(&text("description"), 160);
        table.row(vec![toned(Tone::Strong, text("name")), cell(says)]);
    }
    table.lines(Paint::for_stdout(), width()).iter().for_each(|line| print(line));
    if std::io::stdout().is_terminal() {
        eprintln!("\n`switchboard introspect {server} SUBTOOL` shows what one takes");
    }
    Ok(Exit::Ok)
}

/// The suite's own answer, as a host gets it. Starts a server that never ran.
async fn introspect(args: &Args, suite: &str, server: &str, arguments: &Value) -> Result<Value, Unanswered> {
    let call = request("tools/call", &json!({ "name": suite, "arguments": arguments }));
    let path = format!("/proxy{}", about(project(args).as_deref()));
    let mut answer = Box::pin(ask(args, Method::POST, &path, Some(&call)));
    match tokio::time::timeout(STARTS, &mut answer).await {
        Ok(answer) => answer,
        Err(_) => {
            if std::io::stderr().is_terminal() {
                eprintln!("starting `{server}` …");
            }
            answer.await
        }
    }
}

fn tools(answer: &Value) -> Vec<Value> {
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    let told: Value = serde_json::from_str(text).unwrap_or_default();
    told["tools"].as_array().cloned().unwrap_or_default()
}

/// One subtool: what it does, and what it takes.
fn single(suite: &str, tool: &Value) {
    let paint = Paint::for_stdout();
    let text = |value: &Value| visible(value.as_str().unwrap_or_default()).into_owned();
    print(&paint.on(Tone::Strong, text(&tool["name"])));
    let description = tool["description"].as_str().unwrap_or_default();
    for line in description.lines().flat_map(|line| wrap(&visible(line), width().min(100).saturating_sub(2)))
    {
        print(&format!("  {line}"));
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
        table.row(vec![
            cell(visible(name).into_owned()),
            toned(Tone::Quiet, visible(&kind).into_owned()),
            toned(Tone::Warning, must),
            cell(visible(&what).into_owned()),
        ]);
    }
    if table.is_empty() {
        print("\n  takes no arguments");
    } else {
        print("");
        table.lines(paint, width()).iter().for_each(|line| print(line));
    }
    let example: serde_json::Map<String, Value> =
        required.iter().map(|name| ((*name).to_owned(), example(&schema["properties"][*name]))).collect();
    let example = if example.is_empty() { String::new() } else { format!(" '{}'", Value::Object(example)) };
    print(&format!("\n  switchboard call {suite} {}{example}", text(&tool["name"])));
}

/// Something of the right kind to begin with.
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
