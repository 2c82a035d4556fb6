//! The arguments of a call as a user reads them before it is sent: every name, nothing hidden, secrets masked.

use serde_json::value::RawValue;
use switchboard_wire::envelope::{quoted, string};
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use switchboard_wire::visible::{clipped, visible};

/// Limits in bytes: of one value, so that a long one pushes no other out of sight (the lower ones for calls with many
/// arguments), and of all.
const MAX_VALUES: [usize; 5] = [600, 200, 80, 40, 24];
const MAX_ALL: usize = 6000;
/// Deeper values are shown as they are written.
const MAX_DEPTH: usize = 32;

const MASK: &str = "[redacted]";

/// One line per argument. Fields in `redact` are masked at any depth. Repeated names are all shown, because the
/// server decides which one counts.
pub(super) fn lines(args: Option<Raw<'_>>, redact: &[String]) -> String {
    let members = args.and_then(Members::of).unwrap_or_default();
    if members.0.is_empty() {
        return "  none".to_owned();
    }
    let texts = members.0.iter().map(|(name, value)| {
        let mut text = String::new();
        write_member(name, *value, redact, 0, &mut text);
        visible(&text).into_owned()
    });
    let texts: Vec<String> = texts.collect();
    let lines = |max| texts.iter().map(move |text| format!("  {}", limited(text, max)));
    let fits = |max: &usize| lines(*max).map(|line| line.len() + 1).sum::<usize>() <= MAX_ALL;
    let max = MAX_VALUES.into_iter().find(fits).unwrap_or(MAX_VALUES[MAX_VALUES.len() - 1]);
    let mut shown = String::new();
    for (at, line) in lines(max).enumerate() {
        if shown.len() + line.len() >= MAX_ALL {
            shown.push_str(&format!("\n  … {} more arguments are not shown", texts.len() - at));
            break;
        }
        if at > 0 {
            shown.push('\n');
        }
        shown.push_str(&line);
    }
    shown
}

fn limited(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    format!("{} ({} bytes in all)", clipped(text, max), text.len())
}

fn write_member(name: &str, value: Raw<'_>, redact: &[String], depth: usize, out: &mut String) {
    out.push_str(&quoted(name));
    out.push(':');
    if redact.iter().any(|field| field == name) {
        out.push_str(MASK);
    } else {
        write_value(value, redact, depth, out);
    }
}

fn write_value(value: Raw<'_>, redact: &[String], depth: usize, out: &mut String) {
    let text = value.get();
    if let Some(members) = Members::of(value) {
        // What cannot be searched for masked fields is masked.
        if depth >= MAX_DEPTH {
            return out.push_str(MASK);
        }
        out.push('{');
        for (at, (name, value)) in members.0.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            write_member(name, *value, redact, depth + 1, out);
        }
        out.push('}');
    } else if text.starts_with('[') {
        let items: Option<Vec<&RawValue>> = serde_json::from_str(text).ok().filter(|_| depth < MAX_DEPTH);
        let Some(items) = items else { return out.push_str(MASK) };
        out.push('[');
        for (at, item) in items.into_iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            write_value(item.into(), redact, depth + 1, out);
        }
        out.push(']');
    } else {
        // Without escapes, which could hide what is written.
        match string(value) {
            Some(text) => out.push_str(&quoted(&text)),
            None => out.push_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(args: &str, expect: &str) {
        let args = Raw::parse(args.as_bytes()).unwrap();
        assert_eq!(lines(Some(args), &["token".to_owned()]), expect);
    }

    #[test]
    fn every_argument_is_shown_as_the_server_reads_it() {
        check("{}", "  none");
        check(r#"{"b": 1.0, "a": [1, {"x": null}]}"#, "  \"b\":1.0\n  \"a\":[1,{\"x\":null}]");
        check(r#"{"path":"safe","\u0070ath":"/etc"}"#, "  \"path\":\"safe\"\n  \"path\":\"/etc\"");
        check(r#"{"a":"\u0072m -rf"}"#, "  \"a\":\"rm -rf\"");
    }

    #[test]
    fn masked_fields_are_masked_at_any_depth() {
        check(
            r#"{"token":"s3","deep":[{"t\u006fken":{"x":1}}],"keep":1}"#,
            "  \"token\":[redacted]\n  \"deep\":[{\"token\":[redacted]}]\n  \"keep\":1",
        );
        let deep = format!(r#"{{"a":{}{{"token":"s3"}}{}}}"#, "[".repeat(60), "]".repeat(60));
        let args = Raw::parse(deep.as_bytes()).unwrap();
        assert!(!lines(Some(args), &["token".to_owned()]).contains("s3"));
    }

    #[test]
    fn hidden_characters_show_and_nothing_pushes_the_rest_out_of_sight() {
        check("{\"a\":\"x\u{202e}y\"}", "  \"a\":\"x\\u{202e}y\"");
        let long = format!(r#"{{"a":"{}","b":2}}"#, "é".repeat(5000));
        let args = Raw::parse(long.as_bytes()).unwrap();
        let shown = lines(Some(args), &[]);
        assert!(shown.contains("(10006 bytes in all)\n  \"b\":2"), "{shown}");
        // Many long ones are shortened before any of them is left out.
        let junk: Vec<String> = (0..100).map(|n| format!(r#""k{n}":"{}""#, "j".repeat(500))).collect();
        let junk = format!(r#"{{{},"path":"/etc/passwd"}}"#, junk.join(","));
        assert!(lines(Raw::parse(junk.as_bytes()), &[]).ends_with("\n  \"path\":\"/etc/passwd\""));
        let many: Vec<String> = (0..5000).map(|n| format!(r#""k{n}":1"#)).collect();
        let many = format!("{{{}}}", many.join(","));
        let shown = lines(Raw::parse(many.as_bytes()), &[]);
        assert!(shown.len() < MAX_ALL + 100 && shown.ends_with("more arguments are not shown"), "{shown}");
    }
}
