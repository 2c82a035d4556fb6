//! The text that `introspect` returns: the subtools and how to call them.

use std::borrow::Cow;
use std::fmt::Write;

use switchboard_definitions::config::{Expose, Mode};
use switchboard_wire::envelope::quoted;
use switchboard_wire::members::insert_members;
use switchboard_wire::rpc;

use crate::child::{Tool, ToolList};

use super::split::Marks;
use super::summary::summary;

/// Maximum number of tools for a query.
const MAX_MATCHES: usize = 5;
/// How much of a query and of a description is searched. Each word of the query is searched in each
/// description, on the event loop.
const QUERY_CHARS: usize = 300;
const DESCRIPTION_CHARS: usize = 4000;

/// The hint if schemas were asked for in redacted mode.
const NO_SCHEMAS: &str = "no schema is shown: `introspection.mode` is \"redacted\" in the config; `call` forwards the arguments that you give";

/// What to include.
#[derive(Debug, Clone, Copy)]
pub struct IntrospectOptions<'a> {
    pub mode: Mode,
    pub summary_max_chars: usize,
    pub query: Option<&'a str>,
    /// Whether the model asked for whole definitions.
    pub wants_schemas: bool,
    pub marks: Option<Marks<'a>>,
}

/// The tools that [`text`] lists, joined for a JSON array.
pub fn entries(list: &ToolList, expose: &Expose, options: IntrospectOptions<'_>) -> String {
    let allowed = list.tools.iter().filter(|tool| expose.permits(&tool.name));
    joined(allowed, options)
}

fn joined<'t>(tools: impl Iterator<Item = &'t Tool>, options: IntrospectOptions<'_>) -> String {
    let mut out = String::new();
    for (at, tool) in tools.enumerate() {
        if at > 0 {
            out.push(',');
        }
        entry(tool, options, &mut out);
    }
    out
}

/// `{"tools":[…]}` as compact JSON, schemas as the child wrote them.
pub fn text(list: &ToolList, expose: &Expose, options: IntrospectOptions<'_>) -> String {
    let allowed: Vec<&Tool> = list.tools.iter().filter(|tool| expose.permits(&tool.name)).collect();
    let shown = match options.query {
        Some(query) => best_matches(&allowed, query),
        None => allowed.clone(),
    };
    let mut out = format!(r#"{{"tools":[{}]"#, joined(shown.iter().copied(), options));
    if options.mode == Mode::Redacted && options.wants_schemas {
        let _ = write!(out, r#","hint":{}"#, quoted(NO_SCHEMAS));
    } else if shown.is_empty() && options.query.is_some() {
        let names: Vec<_> = allowed.iter().map(|tool| &*tool.name).collect();
        let hint = format!("no subtool matches the query; there are: {}", names.join(", "));
        let _ = write!(out, r#","hint":{}"#, quoted(&hint));
    }
    out.push('}');
    out
}

/// One subtool in full, as the child wrote it; without schemas in redacted mode.
pub fn single(tool: &Tool, options: IntrospectOptions<'_>) -> String {
    if options.mode == Mode::Redacted {
        let mut out = String::from(r#"{"tools":["#);
        entry(tool, options, &mut out);
        let _ = write!(out, r#"],"hint":{}}}"#, quoted(NO_SCHEMAS));
        return out;
    }
    rpc::tools_result(&whole(tool, options))
}

/// The definition as the child wrote it, with our marks at its end.
fn whole<'t>(tool: &'t Tool, options: IntrospectOptions<'_>) -> Cow<'t, str> {
    let marks = options.marks.map(|marks| marks.of(tool, true)).unwrap_or_default();
    match &*marks {
        "" => tool.raw.get().into(),
        marks => insert_members(tool.raw.get(), marks).into(),
    }
}

fn entry(tool: &Tool, options: IntrospectOptions<'_>, out: &mut String) {
    if options.mode == Mode::Full {
        out.push_str(&whole(tool, options));
        return;
    }
    let line = summary(tool.description.as_deref().unwrap_or_default(), options.summary_max_chars);
    let _ = write!(out, r#"{{"name":{},"summary":{}"#, quoted(&tool.name), quoted(&line));
    let marks = options.marks.map(|marks| marks.of(tool, false)).filter(|marks| !marks.is_empty());
    marks.iter().for_each(|marks| out.extend([",", marks]));
    if options.mode == Mode::Summary
        && let Some(schema) = &tool.input_schema
    {
        let _ = write!(out, r#","inputSchema":{}"#, schema.get());
    }
    out.push('}');
}

/// The tools that best match a query, best first.
fn best_matches<'t>(tools: &[&'t Tool], query: &str) -> Vec<&'t Tool> {
    let words: Vec<String> = words(first(query, QUERY_CHARS));
    let named: Vec<&Tool> = tools.iter().copied().filter(|tool| is_named(tool, &words)).collect();
    if !named.is_empty() {
        return named.into_iter().take(MAX_MATCHES).collect();
    }
    let mut scored: Vec<(usize, &Tool)> = tools.iter().map(|tool| (score(tool, &words), *tool)).collect();
    let most = scored.iter().map(|(score, _)| *score).max().unwrap_or(0);
    scored.retain(|(score, _)| *score > 0 && *score * 2 >= most);
    // A stable sort: equal scores stay in the child's order.
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    scored.into_iter().take(MAX_MATCHES).map(|(_, tool)| tool).collect()
}

/// Whether all words of a query of several words occur in the tool's name: then only such tools match.
fn is_named(tool: &Tool, query: &[String]) -> bool {
    let name = words(&tool.name);
    query.len() > 1 && query.iter().all(|word| name.contains(word))
}

fn score(tool: &Tool, query: &[String]) -> usize {
    let name = words(&tool.name);
    let description =
        first(tool.description.as_deref().unwrap_or_default(), DESCRIPTION_CHARS).to_lowercase();
    query
        .iter()
        .map(|word| {
            let in_name = if name.contains(word) {
                8
            } else if name.iter().any(|part| part.contains(word.as_str()) || word.contains(part.as_str())) {
                4
            } else {
                0
            };
            in_name + usize::from(description.contains(word.as_str()))
        })
        .sum()
}

/// The first `count` characters of a text.
fn first(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).map_or(text, |(end, _)| &text[..end])
}

/// Lower-case words; `camelCase` and `snake_case` are split.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before_lower = false;
    for char in text.chars() {
        if !char.is_alphanumeric() || (char.is_uppercase() && before_lower) {
            words.push(String::new());
        }
        before_lower = char.is_lowercase();
        if char.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(char.to_lowercase());
        }
    }
    words.retain(|word| word.len() > 1);
    words
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn tool(name: &str, description: &str) -> Tool {
        let schema = r#"{"type":"object","z":1.0,"a":2}"#;
        let raw =
            format!(r#"{{"name":"{name}","description":"{description}","inputSchema":{schema},"x":1}}"#);
        Tool {
            name: name.into(),
            description: Some(description.into()),
            raw: RawValue::from_string(raw).unwrap(),
            input_schema: Some(RawValue::from_string(schema.to_owned()).unwrap()),
            names: Default::default(),
            annotations: Default::default(),
        }
    }

    fn list() -> ToolList {
        ToolList {
            tools: vec![
                tool("createIssue", "Open a new issue"),
                tool("search_code", "Find code"),
                tool("search_issues", "Find issues and pull requests"),
            ],
        }
    }

    fn shown(options: IntrospectOptions<'_>) -> String {
        text(&list(), &Expose::default(), options)
    }

    const SUMMARY: IntrospectOptions<'_> = IntrospectOptions {
        mode: Mode::Summary,
        summary_max_chars: 12,
        query: None,
        wants_schemas: false,
        marks: None,
    };

    #[test]
    fn summaries_come_with_unaltered_schemas() {
        assert!(shown(SUMMARY).starts_with(
            r#"{"tools":[{"name":"createIssue","summary":"Open a new…","inputSchema":{"type":"object","z":1.0,"a":2}},"#
        ));
    }

    #[test]
    fn redacted_leaves_schemas_out_and_full_leaves_nothing_out() {
        let redacted = shown(IntrospectOptions { mode: Mode::Redacted, ..SUMMARY });
        assert!(!redacted.contains("inputSchema"));
        for options in [
            IntrospectOptions { wants_schemas: true, ..SUMMARY },
            IntrospectOptions { query: Some("search"), ..SUMMARY },
        ] {
            assert!(!shown(IntrospectOptions { mode: Mode::Redacted, ..options }).contains("inputSchema"));
        }
        let one = single(&list().tools[0], IntrospectOptions { mode: Mode::Redacted, ..SUMMARY });
        assert!(one.contains("createIssue") && one.contains("no schema is shown"), "{one}");
        assert!(!one.contains("inputSchema"), "{one}");
        let full = shown(IntrospectOptions { mode: Mode::Full, ..SUMMARY });
        assert!(full.contains(r#""description":"Find issues and pull requests","inputSchema":{"type":"object","z":1.0,"a":2},"x":1}"#));
    }

    #[test]
    fn a_query_ranks_and_narrows() {
        let names = |query| {
            let text = shown(IntrospectOptions { query: Some(query), ..SUMMARY });
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            value["tools"]
                .as_array()
                .unwrap()
                .iter()
                .map(|tool| tool["name"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(names("search issues"), ["search_issues"]);
        assert_eq!(names("create an issue")[0], "createIssue");
        assert_eq!(names("search").len(), 2);
        assert!(
            shown(IntrospectOptions { query: Some("zzz"), ..SUMMARY })
                .contains("there are: createIssue, search_code")
        );
    }

    #[test]
    fn only_the_beginning_of_a_long_query_is_looked_at() {
        let begins = format!("search issues {}", "x".repeat(QUERY_CHARS));
        let ends = format!("{} search issues", "é ".repeat(QUERY_CHARS));
        let shown = |query: &str| shown(IntrospectOptions { query: Some(query), ..SUMMARY });
        assert!(shown(&begins).contains("search_issues"));
        assert!(shown(&ends).contains("no subtool matches"));
        // Without the limit this takes minutes.
        let tools = (0..200).map(|_| tool("search", &"word ".repeat(2000))).collect();
        let query = "some words ".repeat(1024 * 1024);
        let options = IntrospectOptions { query: Some(&query), ..SUMMARY };
        assert!(text(&ToolList { tools }, &Expose::default(), options).contains("search"));
    }
}
