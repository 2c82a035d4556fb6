//! Reads JSON with comments, the format of most hosts.

pub(super) mod edit;

use std::path::Path;

use jsonc_parser::ast::{self, Object, ObjectProp};
use jsonc_parser::{CollectOptions, parse_to_ast};
use serde_json::{Map, Value};
use switchboard_definitions::document::DIALECT;

use super::{HostFileContents, HostFileError, ServerEntry};

pub(super) fn read(text: &str, key: &'static str, projects: bool) -> Result<HostFileContents, HostFileError> {
    let Some(root) = root(text)? else { return Ok(HostFileContents::default()) };
    read_root(text, &ast::Value::Object(root), key, projects)
}

/// The servers in a file of any format that is read into this tree.
pub(super) fn read_root(
    text: &str,
    root: &ast::Value<'_>,
    key: &'static str,
    projects: bool,
) -> Result<HostFileContents, HostFileError> {
    let mut contents = HostFileContents::default();
    let Some(root) = root.as_object() else { return Ok(contents) };
    if let Some(servers) = member(text, root, key)? {
        add(text, servers, None, &mut contents)?;
    }
    if let Some(inputs) = member(text, root, "inputs")? {
        contents.inputs = to_value(&inputs.value);
    }
    let of_projects = if projects { member(text, root, "projects")? } else { None };
    for project in
        of_projects.iter().filter_map(|prop| prop.value.as_object()).flat_map(|all| &all.properties)
    {
        let Some(settings) = project.value.as_object() else { continue };
        contents.projects.push(project.name.as_str().into());
        if let Some(servers) = member(text, settings, key)? {
            add(text, servers, Some(Path::new(project.name.as_str())), &mut contents)?;
        }
    }
    Ok(contents)
}

fn add(
    text: &str,
    servers: &ObjectProp<'_>,
    project: Option<&Path>,
    contents: &mut HostFileContents,
) -> Result<(), HostFileError> {
    let object = object(text, servers)?;
    for server in &object.properties {
        let name = server.name.as_str().to_owned();
        member(text, object, &name)?;
        contents.entries.push(ServerEntry {
            name,
            project: project.map(Path::to_owned),
            value: to_value(&server.value),
        });
    }
    Ok(())
}

/// The members of the object at `path`, in the file's order; none if there is no such object.
pub(super) fn members(text: &str, path: &[&str]) -> Result<Vec<(String, Value)>, HostFileError> {
    let Some(root) = root(text)? else { return Ok(Vec::new()) };
    let mut here = &root;
    for key in path {
        match member(text, here, key)?.and_then(|found| found.value.as_object()) {
            Some(found) => here = found,
            None => return Ok(Vec::new()),
        }
    }
    Ok(here.properties.iter().map(|one| (one.name.as_str().to_owned(), to_value(&one.value))).collect())
}

/// The root object; `None` for a file without a value.
pub(super) fn root(text: &str) -> Result<Option<Object<'_>>, HostFileError> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &DIALECT).map_err(|error| {
        HostFileError::at(text, error.range().start, format!("not valid JSON: {}", error.kind()))
    })?;
    match parsed.value {
        None => Ok(None),
        Some(ast::Value::Object(object)) => Ok(Some(object)),
        Some(_) => Err(HostFileError { at: Some((1, 1)), why: "must be a JSON object".to_owned() }),
    }
}

/// A member by its name. A duplicate is an error.
pub(super) fn member<'o, 't>(
    text: &str,
    object: &'o Object<'t>,
    name: &str,
) -> Result<Option<&'o ObjectProp<'t>>, HostFileError> {
    let mut found = object.properties.iter().filter(|property| property.name.as_str() == name);
    let first = found.next();
    match found.next() {
        Some(twice) => Err(HostFileError::at(text, twice.range.start, format!("`{name}` appears twice"))),
        None => Ok(first),
    }
}

pub(super) fn object<'o, 't>(
    text: &str,
    property: &'o ObjectProp<'t>,
) -> Result<&'o Object<'t>, HostFileError> {
    property.value.as_object().ok_or_else(|| {
        HostFileError::at(
            text,
            property.range.start,
            format!("`{}` must be an object", property.name.as_str()),
        )
    })
}

pub(super) fn to_value(value: &ast::Value<'_>) -> Value {
    match value {
        ast::Value::StringLit(text) => Value::String(text.value.to_string()),
        // TOML allows `_` between digits.
        ast::Value::NumberLit(number) => {
            serde_json::from_str(&number.value.replace('_', "")).unwrap_or(Value::Null)
        }
        ast::Value::BooleanLit(flag) => Value::Bool(flag.value),
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::Array(array) => array.elements.iter().map(to_value).collect(),
        ast::Value::Object(object) => {
            let members = object
                .properties
                .iter()
                .map(|property| (property.name.as_str().to_owned(), to_value(&property.value)));
            Value::Object(members.collect::<Map<_, _>>())
        }
    }
}
