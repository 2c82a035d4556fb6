//! `switchboard status` and `switchboard logs`.

use hyper::Method;
use serde_json::{Value, json};

use super::Exit;
use super::ask::ask;
use super::output::{Paint, Tone, print};
use crate::args::Args;

pub(super) async fn run(args: &Args) -> Exit {
    match ask(args, Method::GET, "/status", None).await {
        Ok(status) if args.json => {
            print(&format!("{status:#}"));
            Exit::Ok
        }
        Ok(status) => {
            print(&told(&status));
            Exit::Ok
        }
        Err(unanswered) => unanswered.tell(),
    }
}

pub(super) async fn logs(args: &Args, suite: &str) -> Exit {
    match ask(
        args,
        Method::POST,
        "/control/logs",
        Some(&json!({ "suite": suite, "workspace": super::workspace(args) })),
    )
    .await
    {
        Ok(answer) => {
            let lines = answer["lines"].as_array().map_or(&[][..], Vec::as_slice);
            if lines.is_empty() {
                eprintln!("switchboard: `{suite}` wrote nothing to its standard error");
            }
            lines.iter().filter_map(Value::as_str).for_each(print);
            Exit::Ok
        }
        Err(unanswered) => unanswered.tell(),
    }
}

/// The status in a few lines for a person.
pub(super) fn told(status: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let seconds = |value: &Value| value.as_u64().unwrap_or(0) / 1000;
    let paint = Paint::for_stdout();
    let mut lines = vec![format!(
        "{} {}  {}  pid {}  up {} s",
        paint.on(Tone::Strong, "switchboardd"),
        text(&status["version"]),
        text(&status["status"]),
        status["pid"],
        seconds(&status["uptimeMs"])
    )];
    let sessions = status["sessions"].as_array().map_or(&[][..], Vec::as_slice);
    lines.push(format!("{} session{}", sessions.len(), if sessions.len() == 1 { "" } else { "s" }));
    for session in sessions {
        lines.push(format!("  {}  {}", text(&session["client"]), text(&session["workspace"])));
    }
    suites(&status["suites"], "", &mut lines);
    for workspace in status["workspaces"].as_array().into_iter().flatten() {
        suites(&workspace["suites"], &format!(" of {}", text(&workspace["root"])), &mut lines);
        for problem in workspace["problems"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            lines.push(format!("problem: {problem}"));
        }
    }
    for problem in status["problems"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        lines.push(format!("problem: {problem}"));
    }
    lines.join("\n")
}

/// One line a suite. `of`: whose they are.
fn suites(suites: &Value, of: &str, lines: &mut Vec<String>) {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let suites = suites.as_array().map_or(&[][..], Vec::as_slice);
    lines.push(format!("{} suite{}{of}", suites.len(), if suites.len() == 1 { "" } else { "s" }));
    let width = suites.iter().map(|suite| text(&suite["name"]).len()).max().unwrap_or(0);
    for suite in suites {
        let state = text(&suite["state"]);
        let tone = match state.as_str() {
            "ready" => Tone::Good,
            "failed" | "misconfigured" => Tone::Bad,
            "held" | "resting" => Tone::Warning,
            _ => Tone::Quiet,
        };
        let state = Paint::for_stdout().on(tone, format!("{state:13}"));
        let mut line = format!("  {:width$}  {state}", text(&suite["name"]));
        for child in suite["children"].as_array().into_iter().flatten() {
            let what = match suite["url"].as_str() {
                Some(url) => url.to_owned(),
                None => format!("pid {}", child["pid"]),
            };
            line.push_str(&format!("  {what} ({} in flight)", child["inFlight"]));
        }
        if let Some(error) = suite["lastError"].as_str() {
            line.push_str(&format!("  {error}"));
        }
        if let Some(waiting) = suite["waiting"].as_str() {
            let what = if suite["state"] == "held" { "would run" } else { "an update would run" };
            line.push_str(&format!("  {what} {waiting}; `switchboard allow {}`", text(&suite["child"])));
        }
        lines.push(line.trim_end().to_owned());
    }
}
