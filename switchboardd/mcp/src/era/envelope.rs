//! Converts the `params` of a request for a child of the other era. The host's own members keep their bytes
//! and their order; only the members that belong to one hop are added or removed.

use switchboard_wire::envelope::quoted;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use switchboard_wire::single_line::push_single_line;

use super::{CAPABILITIES_KEY, CLIENT_KEY, LEVEL_KEY, VERSION_KEY, is_hop_key};
use crate::client_capabilities::ClientCapabilities;
use crate::log_level::LogLevel;
use crate::methods;

/// What a modern child is told about the caller.
#[derive(Debug, Clone)]
pub struct Envelope {
    pub capabilities: String,
    pub client: Option<Box<str>>,
    pub level: Option<LogLevel>,
}

impl Envelope {
    /// For the daemon's own requests.
    pub fn ours() -> Self {
        Self { capabilities: "{}".to_owned(), client: None, level: None }
    }

    fn push(&self, out: &mut Vec<u8>) {
        let version = methods::LATEST_MODERN;
        let ours = format!(
            r#"{{"name":"switchboard","title":"Switchboard","version":"{}"}}"#,
            env!("CARGO_PKG_VERSION")
        );
        let client = self.client.as_deref().unwrap_or(&ours);
        let keys = format!(
            r#""{VERSION_KEY}":"{version}","{CAPABILITIES_KEY}":{},"{CLIENT_KEY}":{client}"#,
            self.capabilities
        );
        push_single_line(keys.as_bytes(), out);
        if let Some(level) = self.level {
            out.extend_from_slice(format!(r#","{LEVEL_KEY}":"{}""#, level.as_str()).as_bytes());
        }
    }
}

/// The `capabilities` object that declares these capabilities.
pub fn capabilities(client: ClientCapabilities) -> String {
    let mut all = Vec::new();
    match (client.elicitation_form, client.elicitation_url) {
        (true, true) => all.push(r#""elicitation":{"form":{},"url":{}}"#),
        (true, false) => all.push(r#""elicitation":{"form":{}}"#),
        (false, true) => all.push(r#""elicitation":{"url":{}}"#),
        (false, false) => {}
    }
    if client.sampling {
        all.push(r#""sampling":{}"#);
    }
    if client.roots {
        all.push(r#""roots":{}"#);
    }
    format!("{{{}}}", all.join(","))
}

/// `params` for a modern child, with the envelope in `_meta`.
pub fn with_envelope(params: Option<Raw<'_>>, envelope: &Envelope, out: &mut Vec<u8>) {
    let members = params.and_then(Members::of).unwrap_or_default();
    out.push(b'{');
    let mut seen = false;
    for (key, value) in &members.0 {
        push_key(key, out);
        match Members::of(*value).filter(|_| key == "_meta" && !seen) {
            Some(meta) => {
                seen = true;
                out.push(b'{');
                push_kept(&meta, out);
                envelope.push(out);
                out.push(b'}');
            }
            None => push_single_line(value.get().as_bytes(), out),
        }
        out.push(b',');
    }
    if !seen {
        out.extend_from_slice(br#""_meta":{"#);
        envelope.push(out);
        out.push(b'}');
    } else {
        out.pop();
    }
    out.push(b'}');
}

/// A modern host's `params` for a legacy child: without the envelope and without the members of a retry.
pub fn without_envelope(params: Raw<'_>, out: &mut Vec<u8>) {
    let Some(members) = Members::of(params) else {
        return push_single_line(params.get().as_bytes(), out);
    };
    out.push(b'{');
    let before = out.len();
    for (key, value) in &members.0 {
        if matches!(&**key, "inputResponses" | "requestState") {
            continue;
        }
        let meta = Members::of(*value).filter(|_| key == "_meta");
        if meta.as_ref().is_some_and(|meta| meta.0.iter().all(|(key, _)| is_hop_key(key))) {
            continue;
        }
        push_key(key, out);
        match meta {
            Some(meta) => {
                out.push(b'{');
                push_kept(&meta, out);
                out.pop();
                out.push(b'}');
            }
            None => push_single_line(value.get().as_bytes(), out),
        }
        out.push(b',');
    }
    if out.len() > before {
        out.pop();
    }
    out.push(b'}');
}

/// A modern host's `params` without the extensions that it declared, which cannot be used through a suite.
pub fn without_extensions(params: Raw<'_>) -> Option<Vec<u8>> {
    let meta = Members::of(params)?.get("_meta")?;
    let declared = Members::of(meta)?.get(CAPABILITIES_KEY)?;
    let members = Members::of(declared)?;
    members.get("extensions")?;
    let kept: Vec<String> = members
        .0
        .iter()
        .filter(|(key, _)| key != "extensions")
        .map(|(key, value)| format!("{}:{}", quoted(key), value.get()))
        .collect();
    let whole = params.get().as_bytes();
    let range = switchboard_wire::envelope::range_of(whole, declared.get());
    Some(switchboard_wire::envelope::splice(whole, range, format!("{{{}}}", kept.join(",")).as_bytes()))
}

/// Writes the members that do not belong to one hop, each followed by a comma.
fn push_kept(meta: &Members<'_>, out: &mut Vec<u8>) {
    for (key, value) in meta.0.iter().filter(|(key, _)| !is_hop_key(key)) {
        push_key(key, out);
        push_single_line(value.get().as_bytes(), out);
        out.push(b',');
    }
}

fn push_key(key: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(quoted(key).as_bytes());
    out.push(b':');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw<'_> {
        Raw::parse(text.as_bytes()).unwrap()
    }

    fn dress(params: Option<&str>) -> String {
        let mut out = Vec::new();
        let client = Some(r#"{"name":"h"}"#.into());
        let envelope = Envelope { capabilities: "{}".to_owned(), client, level: Some(LogLevel::Error) };
        with_envelope(params.map(raw), &envelope, &mut out);
        String::from_utf8(out).unwrap()
    }

    const KEYS: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"h"},"io.modelcontextprotocol/logLevel":"error""#;

    #[test]
    fn the_envelope_is_added_and_the_rest_stays() {
        assert_eq!(dress(None), format!(r#"{{"_meta":{{{KEYS}}}}}"#));
        assert_eq!(dress(Some("{}")), format!(r#"{{"_meta":{{{KEYS}}}}}"#));
        let params =
            r#"{"z":1.0,"_meta":{"traceparent":"00","io.modelcontextprotocol/clientInfo":1},"a":[ 1]}"#;
        let expect = format!(r#"{{"z":1.0,"_meta":{{"traceparent":"00",{KEYS}}},"a":[ 1]}}"#);
        assert_eq!(dress(Some(params)), expect);
        let parsed: serde_json::Value = serde_json::from_str(&expect).unwrap();
        assert_eq!(parsed["_meta"]["traceparent"], "00");
    }

    #[test]
    fn a_legacy_child_gets_no_modern_members() {
        let check = |params: &str, expect: &str| {
            let mut out = Vec::new();
            without_envelope(raw(params), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expect);
        };
        check(&format!(r#"{{"_meta":{{{KEYS}}}}}"#), "{}");
        check(
            &format!(
                r#"{{"n":1.0,"_meta":{{{KEYS},"progressToken":7}},"inputResponses":{{}},"requestState":"x"}}"#
            ),
            r#"{"n":1.0,"_meta":{"progressToken":7}}"#,
        );
    }

    #[test]
    fn extensions_are_removed_for_suites() {
        let params = r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"t":{}},"roots":{}}},"n":1.0}"#;
        let without = without_extensions(raw(params)).unwrap();
        assert_eq!(
            String::from_utf8(without).unwrap(),
            r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"roots":{}}},"n":1.0}"#
        );
        assert!(without_extensions(raw("{}")).is_none());
    }

    #[test]
    fn capabilities_round_trip() {
        assert_eq!(capabilities(ClientCapabilities::default()), "{}");
        let all =
            ClientCapabilities { sampling: true, elicitation_form: true, elicitation_url: true, roots: true };
        assert_eq!(ClientCapabilities::parse(raw(&capabilities(all))), all);
    }
}
