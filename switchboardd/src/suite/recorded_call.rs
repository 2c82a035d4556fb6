//! What the record of calls learns about a call: its subtool, and its arguments if the user wants them recorded.

use serde_json::Value;
use switchboard_definitions::mask::{MASK, is_secret, is_secret_name, looks_secret};
use switchboard_mcp::era::request_params::RequestParams;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

use super::Suite;
use crate::observe::metrics::OperationNotes;

/// Longer arguments are not parsed: that would hold up the event loop.
const MAX_PARSED: usize = 64 * 1024;
/// Longer texts within arguments are cut to this.
const MAX_TEXT_CHARS: usize = 1000;
/// Arguments that are longer in spite of that are left out.
const MAX_RECORDED: usize = 16 * 1024;

impl Suite {
    /// Notes a call that reaches this suite by another way than [`Suite::run`].
    pub fn note_call(&self, params: &RequestParams<'_>, notes: &OperationNotes) {
        let Some(arguments) = params.members.get("arguments").and_then(Members::of) else { return };
        match arguments.text("action").as_deref() {
            Some("introspect") => notes.introspects(),
            Some("call") => {
                if let Some(subtool) = arguments.text("subtool") {
                    notes.tool(&subtool);
                }
                if notes.wants_arguments {
                    self.note_arguments(arguments.get("args"), notes);
                }
            }
            _ => {}
        }
    }

    /// Notes a call of the server's own tool, on the face of a single child.
    pub fn note_own_call(&self, params: &RequestParams<'_>, notes: &OperationNotes) {
        if let Some(tool) = params.members.text("name") {
            self.note_tool_call(&tool, params, notes);
        }
    }

    /// Notes a call of the server's own tool `tool`, whatever its name is at the host.
    pub fn note_tool_call(&self, tool: &str, params: &RequestParams<'_>, notes: &OperationNotes) {
        notes.tool(tool);
        if notes.wants_arguments {
            self.note_arguments(params.members.get("arguments"), notes);
        }
    }

    /// Notes the arguments without what is secret in them. Only if the user wants arguments recorded.
    pub(super) fn note_arguments(&self, args: Option<Raw<'_>>, notes: &OperationNotes) {
        let Some(args) = args else { return };
        let hidden = self
            .pool
            .as_ref()
            .and_then(|pool| pool.running().first().map(|child| child.stderr().hidden().clone()));
        let hide = |text: &str| {
            hidden.as_ref().map_or_else(|| text.to_owned(), |hidden| hidden.redact(text).into_owned())
        };
        notes.arguments(recorded(args.get(), &self.settings.redact, &hide));
    }
}

/// The arguments as they are recorded: fields in `redact` and fields with the name of a secret are masked, texts
/// that look like a secret, too; `hide` replaces the values that the server was given.
fn recorded(args: &str, redact: &[String], hide: &dyn Fn(&str) -> String) -> String {
    let left_out = || Value::from(format!("[{} bytes]", args.len())).to_string();
    if args.len() > MAX_PARSED {
        return left_out();
    }
    let Ok(mut value) = serde_json::from_str(args) else { return left_out() };
    // A model may write the object as a string.
    if let Value::String(text) = &value
        && let Ok(object @ Value::Object(_)) = serde_json::from_str(text)
    {
        value = object;
    }
    mask(&mut value, redact, hide);
    let recorded = value.to_string();
    if recorded.len() > MAX_RECORDED { left_out() } else { recorded }
}

fn mask(value: &mut Value, redact: &[String], hide: &dyn Fn(&str) -> String) {
    match value {
        Value::Object(members) => {
            for (name, value) in members.iter_mut() {
                let is_hidden = match &*value {
                    _ if redact.contains(name) => true,
                    Value::String(text) => is_secret(name, text),
                    Value::Number(_) | Value::Array(_) | Value::Object(_) => is_secret_name(name),
                    Value::Null | Value::Bool(_) => false,
                };
                if is_hidden {
                    *value = MASK.into();
                } else {
                    mask(value, redact, hide);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| mask(item, redact, hide)),
        Value::String(text) => {
            let masked = text.split_inclusive(char::is_whitespace).map(masked_word).collect::<String>();
            // Cut last: a part of a secret would not be recognised.
            let shown = hide(&masked);
            *text = match shown.char_indices().nth(MAX_TEXT_CHARS) {
                Some((end, _)) => format!("{}… [{} bytes]", &shown[..end], text.len()),
                None => shown,
            };
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A word with the white space behind it, masked if it looks like a secret.
fn masked_word(word: &str) -> String {
    let text = word.trim_end();
    if looks_secret(text) { format!("{MASK}{}", &word[text.len()..]) } else { word.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(args: &str, wanted: &str) {
        let hide = |text: &str| text.replace("hunter2hunter", "${KEY}");
        assert_eq!(recorded(args, &["note".to_owned()], &hide), wanted);
    }

    #[test]
    fn secrets_are_masked_at_every_depth() {
        check(r#"{"a":1,"note":{"b":2}}"#, r#"{"a":1,"note":"•••"}"#);
        check(r#"{"x":[{"note":"y"}],"apiToken":"abcdefgh"}"#, r#"{"apiToken":"•••","x":[{"note":"•••"}]}"#);
        check(r#"{"password":12345,"path":"/x"}"#, r#"{"password":"•••","path":"/x"}"#);
        check(r#"{"text":"use ghp_0123456789abcdefghij now"}"#, r#"{"text":"use ••• now"}"#);
        check(r#"{"text":"it is hunter2hunter"}"#, r#"{"text":"it is ${KEY}"}"#);
        check("not json", "\"[8 bytes]\"");
        // The object as a string.
        check(r#""{\"note\":\"y\",\"a\":1}""#, r#"{"a":1,"note":"•••"}"#);
    }

    #[test]
    fn long_arguments_are_cut() {
        let long = recorded(&format!(r#"{{"text":"{}"}}"#, "x".repeat(5000)), &[], &str::to_owned);
        assert!(long.len() < 1100 && long.ends_with(r#"x… [5000 bytes]"}"#), "{long}");
        let huge = format!(r#"{{"text":"{}"}}"#, "x".repeat(100_000));
        assert_eq!(recorded(&huge, &[], &str::to_owned), "\"[100011 bytes]\"");
        let many = format!(r#"{{"list":[{}1]}}"#, "\"abc\",".repeat(5000));
        assert_eq!(recorded(&many, &[], &str::to_owned), format!("\"[{} bytes]\"", many.len()));
        // A secret at the cut is masked before the cut.
        let edge = format!(r#"{{"text":"{} ghp_0123456789abcdefghij"}}"#, "x".repeat(990));
        assert!(!recorded(&edge, &[], &str::to_owned).contains("ghp_"));
    }
}
