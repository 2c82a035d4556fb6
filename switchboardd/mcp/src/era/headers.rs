//! The headers in which a modern HTTP request repeats parts of its body. Pure; used to check them
//! (`http/streamable/headers.rs`) and to write them (`child/remote/headers.rs`).

use std::borrow::Cow;
use std::collections::HashSet;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use switchboard_wire::envelope::string;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

/// How deep a schema is searched.
const DEPTH: usize = 16;

/// The schema keyword that requires an argument to be repeated in a header.
const KEYWORD: &str = "x-mcp-header";

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// A tool argument that is repeated in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderParam {
    /// The header's name after `mcp-param-`, in lower case.
    pub header: Box<str>,
    /// The path of the argument within `arguments`.
    pub path: Vec<Box<str>>,
}

impl HeaderParam {
    /// The value in the arguments of a call; `null` counts as missing.
    pub fn value<'a>(&self, arguments: Option<Raw<'a>>) -> Option<Raw<'a>> {
        let found = self.path.iter().try_fold(arguments?, |value, key| Members::of(value)?.get(key));
        found.filter(|value| !value.is_null())
    }
}

/// The member of `params` that the header `Mcp-Name` repeats.
pub fn name_member(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// The arguments in a tool's input schema that are repeated in headers.
pub fn header_params(schema: Raw<'_>) -> Vec<HeaderParam> {
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), &mut found);
    found
}

fn collect(schema: Raw<'_>, path: &mut Vec<Box<str>>, found: &mut Vec<HeaderParam>) {
    let properties = Members::of(schema).and_then(|schema| schema.get("properties")).and_then(Members::of);
    let Some(properties) = properties.filter(|_| path.len() < DEPTH) else { return };
    for (name, property) in &properties.0 {
        path.push((&**name).into());
        if let Some(header) = Members::of(*property).and_then(|property| property.text(KEYWORD)) {
            found.push(HeaderParam { header: header.to_ascii_lowercase().into(), path: path.clone() });
        }
        collect(*property, path, found);
        path.pop();
    }
}

/// Why a tool with this input schema cannot be used over HTTP; `None` if it can.
pub fn header_schema_error(schema: Raw<'_>) -> Option<String> {
    // Fast path: most schemas do not have the keyword.
    if !schema.get().contains(KEYWORD) {
        return None;
    }
    let mut names = HashSet::new();
    find_schema_error(schema, SchemaPosition::Root, 0, &mut names)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SchemaPosition {
    Root,
    /// Reached through `properties` only.
    Property,
    Elsewhere,
}

fn find_schema_error(
    schema: Raw<'_>,
    place: SchemaPosition,
    depth: usize,
    names: &mut HashSet<String>,
) -> Option<String> {
    let members = Members::of(schema).filter(|_| depth < 2 * DEPTH)?;
    if let Some(header) = members.get(KEYWORD)
        && let Some(error) = header_param_error(header, &members, place, names)
    {
        return Some(error);
    }
    members.0.iter().find_map(|(key, value)| match &**key {
        "properties" => {
            let below = if place == SchemaPosition::Elsewhere { place } else { SchemaPosition::Property };
            let below = |(_, property): &(_, Raw<'_>)| find_schema_error(*property, below, depth + 1, names);
            Members::of(*value)?.0.iter().find_map(below)
        }
        // These hold values, not schemas.
        "default" | "const" | "enum" | "examples" | KEYWORD => None,
        _ => {
            let list: Vec<&serde_json::value::RawValue> =
                serde_json::from_str(value.get()).unwrap_or_default();
            let inside = find_schema_error(*value, SchemaPosition::Elsewhere, depth + 1, names);
            inside.or_else(|| {
                list.into_iter().find_map(|item| {
                    find_schema_error(item.into(), SchemaPosition::Elsewhere, depth + 1, names)
                })
            })
        }
    })
}

fn header_param_error(
    header: Raw<'_>,
    property: &Members<'_>,
    place: SchemaPosition,
    names: &mut HashSet<String>,
) -> Option<String> {
    if place != SchemaPosition::Property {
        return Some(format!("`{KEYWORD}` stands where no argument is"));
    }
    let Some(header) = string(header) else { return Some(format!("`{KEYWORD}` is not text")) };
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if header.is_empty() || !header.bytes().all(is_token) {
        return Some(format!("`{KEYWORD}` cannot be part of a header's name"));
    }
    // No floating-point numbers: programs format them differently.
    let is_plain =
        property.text("type").is_some_and(|kind| matches!(&*kind, "string" | "integer" | "boolean"));
    if !is_plain {
        return Some(format!("`{KEYWORD}: {header}` is on an argument that is not a plain value"));
    }
    (!names.insert(header.to_ascii_lowercase())).then(|| format!("`{KEYWORD}: {header}` is there twice"))
}

/// A string, number or boolean as header text; `None` for any other value.
pub fn header_value(value: Raw<'_>) -> Option<Cow<'_, str>> {
    if let Some(text) = string(value) {
        return Some(text);
    }
    let text = value.get().trim();
    match text.as_bytes().first()? {
        b't' | b'f' => Some(text.into()),
        b'-' | b'0'..=b'9' => {
            let whole =
                text.parse::<f64>().ok().filter(|number| number.fract() == 0.0 && number.abs() < 9e15);
            let is_decimal = text.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
            Some(match whole {
                #[expect(clippy::cast_possible_truncation, reason = "it is whole and small enough")]
                Some(number) if !is_decimal => (number as i64).to_string().into(),
                _ => text.into(),
            })
        }
        _ => None,
    }
}

/// A text as a header value: unchanged, or in base64 if it is not a valid header value.
pub fn encoded(text: &str) -> Cow<'_, str> {
    let is_plain = text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'))
        && text.trim_matches([' ', '\t']).len() == text.len()
        && !(text.starts_with(PREFIX) && text.ends_with(SUFFIX));
    if is_plain { text.into() } else { format!("{PREFIX}{}{SUFFIX}", BASE64.encode(text)).into() }
}

/// The text of a header value; `None` if it is marked as base64 but invalid.
pub fn decoded(value: &str) -> Option<Cow<'_, str>> {
    match value.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX)) {
        None => Some(value.into()),
        Some(encoded) => {
            let bytes = BASE64.decode(encoded).ok()?;
            String::from_utf8(bytes).ok().map(Into::into)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw<'_> {
        Raw::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn only_valid_base64_is_decoded() {
        for (text, bytes) in
            [("SGVsbG8=", "Hello"), ("", ""), ("SGVs", "Hel"), ("w6k=", "é"), ("SGVsbA==", "Hell")]
        {
            assert_eq!(decoded(&format!("{PREFIX}{text}{SUFFIX}")).as_deref(), Some(bytes), "{text}");
        }
        for wrong in ["SGVsbG8", "SGVs!!!bG8=", "====", "S===", "SGVsbG9="] {
            assert_eq!(decoded(&format!("{PREFIX}{wrong}{SUFFIX}")), None, "{wrong}");
        }
    }

    #[test]
    fn invalid_header_values_are_encoded() {
        for plain in ["us-west1", "a b", "", "=?base64?x"] {
            assert_eq!(encoded(plain), plain);
        }
        for (text, value) in [
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ] {
            assert_eq!(encoded(text), value);
            assert_eq!(decoded(value).as_deref(), Some(text));
        }
        assert_eq!(decoded("=?base64?!?="), None);
    }

    #[test]
    fn equal_values_are_formatted_equally() {
        let said = |value: &str| header_value(raw(value)).map(Cow::into_owned);
        for (value, text) in [
            ("42", "42"),
            ("-7", "-7"),
            ("42.0", "42"),
            ("1e3", "1000"),
            ("1.5", "1.5"),
            ("true", "true"),
            ("\"é\"", "é"),
        ] {
            assert_eq!(said(value).as_deref(), Some(text), "{value}");
        }
        assert_eq!(said("{}"), None);
        assert_eq!(said("[1]"), None);
    }

    #[test]
    fn invalid_header_schemas_are_rejected() {
        let fine = [
            r#"{"properties":{"a":{"type":"string"}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"object","properties":{"c":{"type":"integer","x-mcp-header":"C"}}}}}"#,
            r#"{"properties":{"x-mcp-header":{"type":"object"}}}"#,
            r#"{"properties":{"a":{"type":"object","default":{"x-mcp-header":"A"}}}}"#,
        ];
        for schema in fine {
            assert_eq!(header_schema_error(raw(schema)), None, "{schema}");
        }
        let property = |property: &str| format!(r#"{{"properties":{{"a":{property}}}}}"#);
        let wrong = [
            property(r#"{"type":"string","x-mcp-header":""}"#),
            property(r#"{"type":"string","x-mcp-header":"a b"}"#),
            property(r#"{"type":"string","x-mcp-header":"a:b"}"#),
            property(r#"{"type":"string","x-mcp-header":"a\r\nb"}"#),
            property(r#"{"type":"string","x-mcp-header":"é"}"#),
            property(r#"{"type":"string","x-mcp-header":7}"#),
            property(r#"{"type":"object","x-mcp-header":"A"}"#),
            property(r#"{"type":"array","x-mcp-header":"A"}"#),
            property(r#"{"x-mcp-header":"A"}"#),
            property(r#"{"type":"array","items":{"type":"string","x-mcp-header":"A"}}"#),
            property(r#"{"anyOf":[{"type":"string","x-mcp-header":"A"}]}"#),
            r#"{"x-mcp-header":"A","type":"object"}"#.to_owned(),
            r#"{"$defs":{"d":{"type":"string","x-mcp-header":"A"}}}"#.to_owned(),
            r#"{"allOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}"#.to_owned(),
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}"#.to_owned(),
        ];
        for schema in wrong {
            assert!(header_schema_error(raw(&schema)).is_some(), "{schema}");
        }
    }

    #[test]
    fn header_params_know_where_their_value_stands() {
        let schema =
            r#"{"properties":{"in":{"properties":{"n":{"type":"integer","x-mcp-header":"Count"}}}}}"#;
        let [header_param] = &header_params(raw(schema))[..] else { panic!() };
        assert_eq!(&*header_param.header, "count");
        let value = |arguments: &'static str| header_param.value(Some(raw(arguments))).map(Raw::get);
        assert_eq!(value(r#"{"in":{"n":5}}"#), Some("5"));
        assert_eq!(value(r#"{"in":{"n":null}}"#), None);
        assert_eq!(value(r#"{"in":7}"#), None);
        assert!(header_param.value(None).is_none());
    }
}
