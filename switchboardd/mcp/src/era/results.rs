//! Converts results between the eras. `resultType`, `ttlMs`, `cacheScope` and the server info in `_meta`
//! exist only in the modern one: added for modern hosts, removed for legacy ones.

use switchboard_wire::members::{Members, insert_members, remove_members};
use switchboard_wire::raw::Raw;

use super::SERVER_KEY;
use crate::methods;

/// The type of a modern result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultKind {
    Complete,
    InputRequired,
    /// Defined by an extension.
    Other(String),
}

impl ResultKind {
    pub fn of(result: Raw<'_>) -> Self {
        // A text search avoids parsing long results; without the member a result is complete.
        if !result.get().contains("resultType") {
            return Self::Complete;
        }
        match Members::of(result).and_then(|result| result.text("resultType")).as_deref() {
            None | Some("complete") => Self::Complete,
            Some("input_required") => Self::InputRequired,
            Some(other) => Self::Other(other.to_owned()),
        }
    }
}

/// A modern child's result, for a legacy host.
pub fn for_legacy(result: Raw<'_>) -> String {
    let plain = remove_members(result, |key| matches!(key, "resultType" | "ttlMs" | "cacheScope"));
    let Some(meta) = parsed(&plain).and_then(Members::of).and_then(|plain| plain.get("_meta")) else {
        return plain;
    };
    let kept = remove_members(meta, |key| key == SERVER_KEY);
    if kept.len() == meta.get().len() {
        return plain;
    }
    if parsed(&kept).and_then(Members::of).is_some_and(|kept| kept.0.is_empty()) {
        return parsed(&plain).map_or(plain.clone(), |plain| remove_members(plain, |key| key == "_meta"));
    }
    let place = switchboard_wire::envelope::range_of(plain.as_bytes(), meta.get());
    format!("{}{kept}{}", &plain[..place.start], &plain[place.end..])
}

/// A legacy child's result or one of ours, for a modern host. `server`: the server that made it.
pub fn for_modern(result: Raw<'_>, method: &str, server: &str) -> String {
    let Some(members) = Members::of(result) else { return result.get().to_owned() };
    let mut more = String::with_capacity(128 + server.len());
    let mut add = |parts: &[&str]| {
        more.push_str(if more.is_empty() { "" } else { "," });
        parts.iter().for_each(|part| more.push_str(part));
    };
    if members.get("resultType").is_none() {
        add(&[r#""resultType":"complete""#]);
    }
    if is_cached(method) {
        if members.get("ttlMs").is_none() {
            add(&[r#""ttlMs":0"#]);
        }
        if members.get("cacheScope").is_none() {
            add(&[r#""cacheScope":"private""#]);
        }
    }
    match members.get("_meta").and_then(|meta| Some((meta, Members::of(meta)?))) {
        Some((_, meta)) if meta.get(SERVER_KEY).is_some() => insert_members(result.get(), &more),
        Some((meta, _)) => {
            let whole = result.get();
            let place = switchboard_wire::envelope::range_of(whole.as_bytes(), meta.get());
            let named = insert_members(meta.get(), &["\"", SERVER_KEY, "\":", server].concat());
            insert_members(&[&whole[..place.start], &named, &whole[place.end..]].concat(), &more)
        }
        None => {
            add(&[r#""_meta":{""#, SERVER_KEY, r#"":"#, server, "}"]);
            insert_members(result.get(), &more)
        }
    }
}

/// Methods whose results carry caching information.
fn is_cached(method: &str) -> bool {
    matches!(
        method,
        methods::DISCOVER
            | methods::TOOLS_LIST
            | methods::PROMPTS_LIST
            | methods::RESOURCES_LIST
            | methods::TEMPLATES_LIST
            | methods::RESOURCES_READ
    )
}

fn parsed(text: &str) -> Option<Raw<'_>> {
    Raw::parse(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw<'_> {
        Raw::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_legacy_host_sees_nothing_of_the_modern_era() {
        let check = |result: &str, expect: &str| assert_eq!(for_legacy(raw(result)), expect);
        check(r#"{"resultType":"complete"}"#, "{}");
        check(
            r#"{"content":[ ], "n":123456789012345678901234567890,"resultType":"complete","ttlMs":5,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{}}}"#,
            r#"{"content":[ ], "n":123456789012345678901234567890}"#,
        );
        check(
            r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{},"x/y":1.0},"z":1,"resultType":"complete"}"#,
            r#"{"_meta":{"x/y":1.0},"z":1}"#,
        );
        check(r#"{"_meta":{}}"#, r#"{"_meta":{}}"#);
    }

    #[test]
    fn a_modern_host_gets_all_modern_members() {
        let check = |method: &str, result: &str, expect: &str| {
            assert_eq!(for_modern(raw(result), method, r#"{"name":"s"}"#), expect);
        };
        check(
            "tools/call",
            r#"{"content":[ ],"z":1.0}"#,
            r#"{"content":[ ],"z":1.0,"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}}}"#,
        );
        check(
            "tools/list",
            r#"{"_meta":{"a":1},"tools":[]}"#,
            r#"{"_meta":{"a":1,"io.modelcontextprotocol/serverInfo":{"name":"s"}},"tools":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#,
        );
        check(
            "x",
            "{}",
            r#"{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}}}"#,
        );
        check("x", "null", "null");
    }

    #[test]
    fn kinds_are_distinguished() {
        assert_eq!(ResultKind::of(raw("{}")), ResultKind::Complete);
        assert_eq!(ResultKind::of(raw(r#"{"text":"resultType"}"#)), ResultKind::Complete);
        assert_eq!(ResultKind::of(raw(r#"{"resultType":"input_required"}"#)), ResultKind::InputRequired);
        assert_eq!(ResultKind::of(raw(r#"{"resultType":"task"}"#)), ResultKind::Other("task".into()));
    }
}
