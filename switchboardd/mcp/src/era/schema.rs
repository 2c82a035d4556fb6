//! Legacy hosts accept only objects as structured results. Other outputs of modern tools are wrapped as
//! `{"result": …}`, in both schema and results.

use std::borrow::Cow;

use switchboard_wire::envelope::{quoted, range_of};
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

/// Whether the results of this tool are wrapped for a legacy host.
pub fn is_wrapped(tool: Raw<'_>) -> bool {
    output_schema(tool).is_some_and(is_no_object)
}

/// A tool's definition, for a legacy host.
pub fn tool_for_legacy(tool: Raw<'_>) -> Cow<'_, str> {
    match output_schema(tool).filter(|schema| is_no_object(*schema)) {
        None => Cow::Borrowed(tool.get()),
        Some(schema) => {
            let wrapped = format!(
                r#"{{"type":"object","properties":{{"result":{}}},"required":["result"]}}"#,
                schema.get()
            );
            Cow::Owned(replaced(tool, schema, &wrapped))
        }
    }
}

/// A list of tools, for a legacy host.
pub fn list_for_legacy(result: Raw<'_>) -> Cow<'_, str> {
    if !result.get().contains("outputSchema") {
        return Cow::Borrowed(result.get());
    }
    let Some(tools) = Members::of(result).and_then(|result| result.get("tools")) else {
        return Cow::Borrowed(result.get());
    };
    let Ok(all) = serde_json::from_str::<Vec<&serde_json::value::RawValue>>(tools.get()) else {
        return Cow::Borrowed(result.get());
    };
    if !all.iter().any(|tool| is_wrapped((*tool).into())) {
        return Cow::Borrowed(result.get());
    }
    let all: Vec<_> = all.iter().map(|tool| tool_for_legacy((*tool).into())).collect();
    Cow::Owned(replaced(result, tools, &format!("[{}]", all.join(","))))
}

/// The result of a call, for a legacy host.
pub fn result_for_legacy(result: Raw<'_>, wrap: bool) -> Cow<'_, str> {
    let Some(members) = Members::of(result) else { return Cow::Borrowed(result.get()) };
    let Some(content) = members.get("structuredContent") else { return Cow::Borrowed(result.get()) };
    if !wrap && content.get().starts_with('{') {
        return Cow::Borrowed(result.get());
    }
    let out = replaced(result, content, &format!(r#"{{"result":{}}}"#, content.get()));
    // Repeat it as text for hosts that do not read structured content.
    let blocks = members.get("content").map_or("[]", Raw::get);
    if blocks.contains("\"text\"") {
        return Cow::Owned(out);
    }
    let block = format!(r#"{{"type":"text","text":{}}}"#, quoted(content.get()));
    let with_text = match blocks.trim_end_matches(']').trim_end() {
        "[" => format!("[{block}]"),
        open => format!("{open},{block}]"),
    };
    let Some(parsed) = Raw::parse(out.as_bytes()) else { return Cow::Owned(out) };
    match Members::of(parsed).and_then(|members| members.get("content")) {
        Some(blocks) => Cow::Owned(replaced(parsed, blocks, &with_text)),
        None => {
            Cow::Owned(switchboard_wire::members::insert_members(&out, &format!(r#""content":{with_text}"#)))
        }
    }
}

fn output_schema(tool: Raw<'_>) -> Option<Raw<'_>> {
    Members::of(tool)?.get("outputSchema")
}

fn is_no_object(schema: Raw<'_>) -> bool {
    Members::of(schema).is_none_or(|schema| schema.text("type").as_deref() != Some("object"))
}

fn replaced(whole: Raw<'_>, part: Raw<'_>, with: &str) -> String {
    let place = range_of(whole.get().as_bytes(), part.get());
    format!("{}{with}{}", &whole.get()[..place.start], &whole.get()[place.end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw<'_> {
        Raw::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn non_object_schemas_are_wrapped() {
        let object = r#"{"name":"t","outputSchema":{"type":"object","x":1.0}}"#;
        assert_eq!(tool_for_legacy(raw(object)), object);
        assert_eq!(tool_for_legacy(raw(r#"{"name":"t"}"#)), r#"{"name":"t"}"#);
        let list = r#"{"name":"t","outputSchema":{"type":"array"},"z":1.0}"#;
        assert_eq!(
            tool_for_legacy(raw(list)),
            r#"{"name":"t","outputSchema":{"type":"object","properties":{"result":{"type":"array"}},"required":["result"]},"z":1.0}"#
        );
        assert!(is_wrapped(raw(list)) && !is_wrapped(raw(object)));
        assert!(
            is_wrapped(raw(r#"{"outputSchema":{"oneOf":[]}}"#))
                && is_wrapped(raw(r#"{"outputSchema":true}"#))
        );
    }

    #[test]
    fn results_are_wrapped_like_their_schema() {
        let check = |result: &str, wrap: bool, expect: &str| {
            assert_eq!(result_for_legacy(raw(result), wrap), expect);
        };
        check(r#"{"structuredContent":{"a":1.0}}"#, false, r#"{"structuredContent":{"a":1.0}}"#);
        check(
            r#"{"content":[{"type":"text","text":"x"}],"structuredContent":[1.0]}"#,
            false,
            r#"{"content":[{"type":"text","text":"x"}],"structuredContent":{"result":[1.0]}}"#,
        );
        check(
            r#"{"content":[],"structuredContent":"é"}"#,
            false,
            r#"{"content":[{"type":"text","text":"\"é\""}],"structuredContent":{"result":"é"}}"#,
        );
        check(
            r#"{"structuredContent":{"a":1}}"#,
            true,
            r#"{"structuredContent":{"result":{"a":1}},"content":[{"type":"text","text":"{\"a\":1}"}]}"#,
        );
    }
}
