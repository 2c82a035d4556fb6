//! The result of a call, as `call` and `introspect` print it.

use serde_json::{Value, json};

use super::CliExit;
use super::output::{failed, print_exact, print_json, wrap};
use crate::args::Args;

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
        failed(&for_user(result["content"][0]["text"].as_str().unwrap_or_default()));
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
                failed(&for_user(&text));
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

/// Whether the daemon refused the call, in words for a model.
pub(super) fn is_refusal(text: &str) -> bool {
    text.contains("tool `") && text.contains("(suite `")
}

/// A refusal without the lines that are for a model.
fn for_user(text: &str) -> String {
    if !is_refusal(text) {
        return text.to_owned();
    }
    let lines = text.lines().filter(|line| !line.starts_with("{\"action\":"));
    lines.collect::<Vec<_>>().join("\n").replace(" subtool `", " tool `")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_reads_no_instructions_for_a_model() {
        let text = "missing `a` of subtool `x` (suite `k_suite`): x(a: string)\n{\"action\":\"introspect\",\"subtool\":\"x\"} shows its schema";
        assert_eq!(for_user(text), "missing `a` of tool `x` (suite `k_suite`): x(a: string)");
    }

    #[test]
    fn content_other_than_text_is_described() {
        assert_eq!(content(&json!({ "type": "text", "text": "a\nb" })), "a\nb");
        let picture = content(&json!({ "type": "image", "mimeType": "image/png", "data": "AAAA" }));
        assert!(picture.contains("image/png") && picture.contains("3 bytes"), "{picture}");
    }
}
