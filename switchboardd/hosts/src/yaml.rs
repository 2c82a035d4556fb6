//! Reads YAML, the format of Continue: a list `mcpServers`.

pub(super) mod edit;

use saphyr::{LoadableYamlNode, MarkedYaml, Scalar, YamlData};
use saphyr_parser::{Event, Parser};
use serde_json::{Map, Value, json};

use super::{HostFileContents, HostFileError, ServerEntry};

pub(super) const SERVERS: &str = "mcpServers";

pub(super) fn read(text: &str) -> Result<HostFileContents, HostFileError> {
    let mut contents = HostFileContents::default();
    let documents = parse(text)?;
    let Some(servers) = documents.first().and_then(|document| member(document, SERVERS)) else {
        return Ok(contents);
    };
    let items = match &servers.data {
        YamlData::Sequence(items) => items.iter(),
        _ if is_null(servers) => [].iter(),
        _ => return Err(HostFileError::new(format!("`{SERVERS}` must be a list"))),
    };
    for item in items {
        let value = to_value(item);
        // An item that refers to another file has no name here.
        let Some(name) = value["name"].as_str() else { continue };
        contents.entries.push(ServerEntry { name: name.to_owned(), project: None, value });
    }
    Ok(contents)
}

/// Deeper files are refused: the parser's own recursion has no limit.
const MAX_DEPTH: usize = 64;

pub(super) fn parse(text: &str) -> Result<Vec<MarkedYaml<'_>>, HostFileError> {
    check_depth(text)?;
    MarkedYaml::load_from_str(text).map_err(|error| HostFileError {
        at: Some((error.marker().line(), error.marker().col() + 1)),
        why: format!("not valid YAML: {}", error.info()),
    })
}

fn check_depth(text: &str) -> Result<(), HostFileError> {
    let mut depth = 0;
    // A mistake ends the events; the parser reports it.
    for (event, span) in Parser::new_from_str(text).map_while(Result::ok) {
        match event {
            Event::SequenceStart(..) | Event::MappingStart(..) => depth += 1,
            Event::SequenceEnd | Event::MappingEnd => depth -= 1,
            _ => {}
        }
        if depth > MAX_DEPTH {
            let at = Some((span.start.line(), span.start.col() + 1));
            return Err(HostFileError { at, why: format!("nested deeper than {MAX_DEPTH} levels") });
        }
    }
    Ok(())
}

pub(super) fn member<'n, 't>(node: &'n MarkedYaml<'t>, name: &str) -> Option<&'n MarkedYaml<'t>> {
    let YamlData::Mapping(members) = &node.data else { return None };
    members.iter().find(|(key, _)| text_of(key) == Some(name)).map(|(_, value)| value)
}

pub(super) fn text_of<'n>(node: &'n MarkedYaml<'_>) -> Option<&'n str> {
    match &node.data {
        YamlData::Value(Scalar::String(text)) => Some(text),
        _ => None,
    }
}

pub(super) fn is_null(node: &MarkedYaml<'_>) -> bool {
    matches!(node.data, YamlData::Value(Scalar::Null))
}

pub(super) fn to_value(node: &MarkedYaml<'_>) -> Value {
    match &node.data {
        YamlData::Value(Scalar::String(text)) => json!(text),
        YamlData::Value(Scalar::Boolean(flag)) => json!(flag),
        YamlData::Value(Scalar::Integer(number)) => json!(number),
        YamlData::Value(Scalar::FloatingPoint(number)) => json!(number.into_inner()),
        YamlData::Sequence(items) => items.iter().map(to_value).collect(),
        YamlData::Mapping(members) => {
            let members = members.iter().map(|(key, value)| (plain_key(key), to_value(value)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        YamlData::Tagged(_, inner) => to_value(inner),
        _ => Value::Null,
    }
}

fn plain_key(key: &MarkedYaml<'_>) -> String {
    text_of(key).map_or_else(|| to_value(key).to_string(), ToOwned::to_owned)
}
