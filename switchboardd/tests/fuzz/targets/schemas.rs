//! What servers say of their tools, and what is written into headers.

use std::borrow::Cow;

use switchboard_mcp::era::{headers, schema};
use switchboard_wire::raw::Raw;
use switchboardd::signature::{Detail, Signature};

use super::{Target, no_seeds};

pub(crate) const SCHEMAS: Target = Target {
    name: "schemas",
    parts: &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "null",
        "true",
        "\"type\":\"object\"",
        "\"type\":\"string\"",
        "\"type\":[\"string\",\"null\"]",
        "\"properties\":{",
        "\"a\":{",
        "\"required\":[\"a\"]",
        "\"enum\":[1,\"x\"]",
        "\"const\":",
        "\"anyOf\":[",
        "\"oneOf\":[",
        "\"allOf\":[",
        "\"not\":{",
        "\"$ref\":\"#/$defs/d\"",
        "\"$defs\":{\"d\":{",
        "\"items\":{",
        "\"prefixItems\":[",
        "\"additionalProperties\":",
        "\"default\":",
        "\"pattern\":\"x\"",
        "\"x-mcp-header\":\"A\"",
        "\"$ref\":\"#\"",
        "\u{202e}",
        "\\u0000",
    ],
    most: 50,
    seeds: || {
        vec![
            r##"{"type":"object","properties":{"a":{"type":"string","enum":["x"],"default":"x"},"b":{"type":"array","items":{"$ref":"#/$defs/d"}},"c":{"anyOf":[{"type":"null"},{"type":"integer","minimum":1}]},"h":{"type":"string","x-mcp-header":"H"}},"required":["a"],"$defs":{"d":{"type":"object","properties":{"e":{"$ref":"#/$defs/d"}}}}}"##
                .to_owned(),
        ]
    },
    run: |input| {
        let Some(raw) = Raw::parse(input) else { return };
        let signature = Signature::of("tool", Some(raw));
        let mut before = usize::MAX;
        for detail in [Detail::Whole, Detail::Flat, Detail::Required, Detail::Names] {
            let text = signature.to_text(detail);
            assert!(text.starts_with("tool(") && text.ends_with(')'), "{text}");
            assert!(!text.chars().any(char::is_control), "{text:?}");
            before = before.min(text.len());
        }
        assert!(before <= 64 + 4 * input.len());
        for param in headers::header_params(raw) {
            assert!(!param.path.is_empty());
        }
        let _ = (headers::header_schema_error(raw), schema::is_wrapped(raw));
        assert!(Raw::parse(schema::tool_for_legacy(raw).as_bytes()).is_some());
        assert!(Raw::parse(schema::list_for_legacy(raw).as_bytes()).is_some());
    },
};

pub(crate) const HEADERS: Target = Target {
    name: "headers",
    parts: &["=?base64?", "?=", "=", "a", "é", " ", "\t", "\r\n", "\0", "\"", "aGk", "\u{1f600}"],
    most: 20,
    seeds: no_seeds,
    run: |input| {
        let text = String::from_utf8_lossy(input);
        let written = headers::encoded(&text);
        assert!(written.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)), "{written:?}");
        assert_eq!(headers::decoded(&written), Some(Cow::Borrowed(&*text)), "{written:?}");
        let _ = headers::decoded(&text);
    },
};
