//! One line of the record: a call, or how many calls are missing.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use switchboard_wire::envelope::push_quoted;

/// A call that is over.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CallRecord<'a> {
    /// When it began, in milliseconds since 1970.
    pub at: u64,
    /// How long it took, in milliseconds.
    pub ms: f64,
    /// The name that the host gives itself.
    #[serde(borrow)]
    pub host: Option<Cow<'a, str>>,
    /// The directory that its session belongs to.
    #[serde(borrow)]
    pub workspace: Option<Cow<'a, str>>,
    /// How it came in: `shim`, `proxy` or `registry`.
    #[serde(borrow)]
    pub via: Cow<'a, str>,
    #[serde(borrow)]
    pub suite: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub server: Option<Cow<'a, str>>,
    /// `call`, `introspect`, `resources/read` or `prompts/get`.
    #[serde(borrow)]
    pub what: Cow<'a, str>,
    /// The tool of the server.
    #[serde(borrow)]
    pub tool: Option<Cow<'a, str>>,
    /// What came of it, in one word.
    #[serde(borrow)]
    pub outcome: Cow<'a, str>,
    /// Which error or refusal it was.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Cow<'a, str>>,
    /// Whether the daemon asked the user before.
    #[serde(default, skip_serializing_if = "is_false")]
    pub asked: bool,
    /// Whether it continues a call whose outcome was `asked`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub retry: bool,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Cow<'a, RawValue>>,
}

impl CallRecord<'_> {
    /// Writes what `Serialize` writes, at a third of its cost: every call is written.
    fn write(&self, out: &mut Vec<u8>) {
        let Self {
            at,
            ms,
            host,
            workspace,
            via,
            suite,
            server,
            what,
            tool,
            outcome,
            kind,
            asked,
            retry,
            arguments,
        } = self;
        out.extend_from_slice(br#"{"at":"#);
        push_json(at, out);
        out.extend_from_slice(br#","ms":"#);
        push_json(ms, out);
        let texts = [
            (r#","host":"#, host.as_deref()),
            (r#","workspace":"#, workspace.as_deref()),
            (r#","via":"#, Some(&**via)),
            (r#","suite":"#, suite.as_deref()),
            (r#","server":"#, server.as_deref()),
            (r#","what":"#, Some(&**what)),
            (r#","tool":"#, tool.as_deref()),
            (r#","outcome":"#, Some(&**outcome)),
        ];
        for (name, text) in texts {
            out.extend_from_slice(name.as_bytes());
            match text {
                Some(text) => push_quoted(text, out),
                None => out.extend_from_slice(b"null"),
            }
        }
        if let Some(kind) = kind {
            out.extend_from_slice(br#","kind":"#);
            push_quoted(kind, out);
        }
        out.extend_from_slice(if *asked { br#","asked":true"# } else { b"" });
        out.extend_from_slice(if *retry { br#","retry":true"# } else { b"" });
        if let Some(arguments) = arguments {
            out.extend_from_slice(br#","arguments":"#);
            out.extend_from_slice(arguments.get().as_bytes());
        }
        out.push(b'}');
    }
}

fn push_json(value: &impl Serialize, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("BUG: numbers always serialise");
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Calls that could not be recorded.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LostCalls {
    at: u64,
    lost: u64,
}

/// What a line of the record says.
#[derive(Debug)]
pub enum RecordEntry<'a> {
    Call(Box<CallRecord<'a>>),
    /// `count` calls before this time could not be recorded.
    Lost {
        at: u64,
        count: u64,
    },
}

impl<'a> RecordEntry<'a> {
    /// `None` for a line that is damaged.
    pub fn parse(line: &'a str) -> Option<Self> {
        if let Ok(call) = serde_json::from_str(line) {
            return Some(Self::Call(Box::new(call)));
        }
        let LostCalls { at, lost } = serde_json::from_str(line).ok()?;
        Some(Self::Lost { at, count: lost })
    }

    /// Appends it as a line.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Call(call) => call.write(out),
            Self::Lost { at, count } => push_json(&LostCalls { at: *at, lost: *count }, out),
        }
        out.push(b'\n');
    }

    /// In milliseconds since 1970.
    pub fn at(&self) -> u64 {
        match self {
            Self::Call(call) => call.at,
            Self::Lost { at, .. } => *at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let line = r#"{"at":5,"ms":1.5,"host":"a \"b\"","workspace":null,"via":"shim","suite":"s","server":"k","what":"call","tool":"t","outcome":"ok"}"#;
        let more = r#"{"at":5,"ms":1.5,"host":null,"workspace":"/w","via":"shim","suite":"s","server":"k","what":"call","tool":"t","outcome":"refused","kind":"x","asked":true,"retry":true,"arguments":{"z":1,"a":12345678901234567890}}"#;
        for line in [line, more, r#"{"at":7,"lost":3}"#] {
            let mut out = Vec::new();
            RecordEntry::parse(line).unwrap().write(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), format!("{line}\n"));
            if let Some(RecordEntry::Call(call)) = RecordEntry::parse(line) {
                assert_eq!(serde_json::to_string(&call).unwrap(), line);
            }
        }
        for line in ["", "{", "{}", "\u{0}", r#"{"at":5,"ms":1.5,"ho"#] {
            assert!(RecordEntry::parse(line).is_none(), "{line}");
        }
    }
}
