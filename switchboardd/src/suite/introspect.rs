//! The text that `introspect` returns: the subtools and how to call them.

use std::borrow::Cow;
use std::fmt::Write;

use switchboard_definitions::config::{Expose, Mode};
use switchboard_wire::envelope::quoted;
use switchboard_wire::members::insert_members;
use switchboard_wire::rpc;

use super::compact::{self, ShownTool};
use super::found;
use super::introspect_options::IntrospectOptions;
use super::summary::summary;
use crate::child::{Tool, ToolList};
use crate::search::{self, Match, Ranking, Searched, ToolWords};
use crate::signature::prune;

/// The hint if schemas were asked for in redacted mode.
const NO_SCHEMAS: &str = "no schema is shown: `introspection.mode` is \"redacted\" in the config; `call` forwards the arguments that you give";

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

/// The exposed subtools: as JSON with their schemas, or compact if that would be too long. With a query, those that it
/// means.
pub fn text(list: &ToolList, expose: &Expose, options: IntrospectOptions<'_>) -> String {
    let allowed: Vec<usize> =
        (0..list.tools.len()).filter(|at| expose.permits(&list.tools[*at].name)).collect();
    let tools = || allowed.iter().map(|at| &list.tools[*at]);
    let shown = || -> Vec<ShownTool<'_>> {
        let signatures = (options.mode != Mode::Redacted).then(|| list.signatures());
        let shown = |at: &usize| ShownTool {
            tool: &list.tools[*at],
            signature: signatures.map(|all| &all[*at]),
            call_with: options.marks.and_then(|marks| marks.call_with(&list.tools[*at])),
        };
        allowed.iter().map(shown).collect()
    };
    if let Some(query) = options.query {
        let ranking = rank(list, &allowed, query, options.mode);
        return match options.mode == Mode::Full || options.wants_schemas {
            true => found_in_full(&tools().collect::<Vec<_>>(), &ranking.matches, options),
            false => found::text(&shown(), &ranking, options),
        };
    }
    // An array of schemas is longer than the text in which its tools came, less what is left out of each.
    if options.mode != Mode::Compact {
        let mut out = format!(r#"{{"tools":[{}]"#, joined(tools(), options));
        if options.mode == Mode::Redacted && options.wants_schemas {
            let _ = write!(out, r#","hint":{}"#, quoted(NO_SCHEMAS));
        }
        out.push('}');
        if options.mode == Mode::Full || out.len() <= options.max_bytes {
            return out;
        }
    }
    compact::text(&shown(), options)
}

/// The tools that a query means, as indexes into `allowed`.
fn rank(list: &ToolList, allowed: &[usize], query: &str, mode: Mode) -> Ranking {
    let words: Vec<&ToolWords> = allowed.iter().map(|at| &list.words()[*at]).collect();
    let searched = if mode == Mode::Redacted { Searched::WithoutArguments } else { Searched::All };
    search::rank(&words, query, searched)
}

/// The best tools for a query as JSON, for programs and for those who asked for whole definitions.
fn found_in_full(tools: &[&Tool], matches: &[Match], options: IntrospectOptions<'_>) -> String {
    let best = matches.iter().take(found::MAX_FOUND).map(|found| tools[found.at]);
    let mut out = format!(r#"{{"tools":[{}]"#, joined(best, options));
    let rest = matches.iter().skip(found::MAX_FOUND).map(|found| found.at);
    let unmatched = search::unmatched(tools.len(), matches);
    let others: Vec<_> = rest.chain(unmatched).map(|at| quoted(&tools[at].name)).collect();
    let _ = write!(out, r#","others":[{}]"#, others.join(","));
    if options.mode == Mode::Redacted {
        let _ = write!(out, r#","hint":{}"#, quoted(NO_SCHEMAS));
    }
    out.push('}');
    out
}

/// One subtool in full, as the child wrote it, less shared definitions that nothing refers to; without schemas in
/// redacted mode.
pub fn single(tool: &Tool, options: IntrospectOptions<'_>) -> String {
    if options.mode == Mode::Redacted {
        let mut out = String::from(r#"{"tools":["#);
        entry(tool, options, &mut out);
        let _ = write!(out, r#"],"hint":{}}}"#, quoted(NO_SCHEMAS));
        return out;
    }
    rpc::tools_result(&marked(prune::definition((&*tool.raw).into()), tool, options))
}

/// The definition with our marks at its end.
fn marked<'t>(definition: Cow<'t, str>, tool: &Tool, options: IntrospectOptions<'_>) -> Cow<'t, str> {
    let marks = options.marks.map(|marks| marks.of(tool, true)).unwrap_or_default();
    match &*marks {
        "" => definition,
        marks => insert_members(&definition, marks).into(),
    }
}

fn entry(tool: &Tool, options: IntrospectOptions<'_>, out: &mut String) {
    if options.mode == Mode::Full {
        out.push_str(&marked(tool.raw.get().into(), tool, options));
        return;
    }
    let line = summary(tool.description.as_deref().unwrap_or_default(), options.summary_max_chars);
    let _ = write!(out, r#"{{"name":{},"summary":{}"#, quoted(&tool.name), quoted(&line));
    let marks = options.marks.map(|marks| marks.of(tool, false)).filter(|marks| !marks.is_empty());
    marks.iter().for_each(|marks| out.extend([",", marks]));
    if options.mode == Mode::Summary
        && let Some(schema) = &tool.input_schema
    {
        let _ = write!(out, r#","inputSchema":{}"#, prune::for_model((&**schema).into()));
    }
    out.push('}');
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
        ToolList::from(vec![
            tool("createIssue", "Open a new issue"),
            tool("search_code", "Find code"),
            tool("search_issues", "Find issues and pull requests"),
        ])
    }

    fn shown(options: IntrospectOptions<'_>) -> String {
        text(&list(), &Expose::default(), options)
    }

    const SUMMARY: IntrospectOptions<'_> = IntrospectOptions {
        mode: Mode::Summary,
        summary_max_chars: 12,
        max_bytes: 6000,
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

    fn found(query: &str) -> String {
        shown(IntrospectOptions { query: Some(query), summary_max_chars: 80, ..SUMMARY })
    }

    #[test]
    fn a_query_shows_the_best_and_names_all_others() {
        assert_eq!(
            found("search issues"),
            "1. search_issues - Find issues and pull requests\nargs: {\"type\":\"object\",\"z\":1.0,\"a\":2}\nOther subtools: search_code, createIssue"
        );
        assert!(found("create an issue").starts_with("1. createIssue - Open a new issue\nargs: {"));
        assert!(found("serach the code").starts_with("1. search_code - "), "{}", found("serach the code"));
        for query in ["zzz", "the", "search", "", "é 7 ☃"] {
            for name in ["createIssue", "search_code", "search_issues"] {
                assert!(found(query).contains(name), "{query}");
            }
        }
        assert!(found("zzz").starts_with("No subtool matches these words.\n1. createIssue"));
    }

    #[test]
    fn what_only_does_the_opposite_is_named_and_not_shown() {
        let found = |list: Vec<Tool>, query: &str| {
            let options = IntrospectOptions { query: Some(query), ..SUMMARY };
            text(&ToolList::from(list), &Expose::default(), options)
        };
        let add = || tool("git_add", "Adds file contents to the staging area");
        assert_eq!(
            found(vec![add()], "undo staging"),
            "No subtool matches these words.\nOther subtools: git_add"
        );
        let with_reset = vec![add(), tool("git_reset", "Unstages all staged changes")];
        assert!(found(with_reset, "undo staging").starts_with("1. git_reset - "));
        let tab = || tool("open_tab", "Opens a tab");
        assert_eq!(
            found(vec![tab()], "close the tab"),
            "No subtool matches these words.\nOther subtools: open_tab"
        );
        assert!(found(vec![tab()], "open the tab").starts_with("1. open_tab"));
    }

    proptest::proptest! {
        /// Whatever is asked, no exposed tool is missing.
        #[test]
        fn every_exposed_tool_is_named_in_every_answer(
            names in proptest::collection::btree_set("[a-z]{1,8}([_-][a-zA-Z]{1,8}){0,2}", 1..30),
            texts in proptest::collection::vec("[a-z ,.]{0,60}", 30),
            query in "[a-zA-Z' ]{0,40}",
            asks_in_full: bool,
        ) {
            let tools: Vec<Tool> = names.iter().zip(&texts).map(|(name, text)| tool(name, text)).collect();
            let options = IntrospectOptions { query: Some(&query), wants_schemas: asks_in_full, ..SUMMARY };
            let text = text(&ToolList::from(tools), &Expose::default(), options);
            let said: std::collections::HashSet<&str> =
                text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').collect();
            for name in &names {
                proptest::prop_assert!(said.contains(name.as_str()), "{name} in {text}");
            }
        }
    }

    #[test]
    fn a_long_list_is_named_whole() {
        let tools =
            (0..1000).map(|at| tool(&format!("report_number_{at}"), "Makes a report.")).collect::<Vec<_>>();
        let options = IntrospectOptions { query: Some("report number 7"), max_bytes: 6000, ..SUMMARY };
        let text = text(&ToolList::from(tools), &Expose::default(), options);
        let said: std::collections::HashSet<&str> =
            text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        assert!((0..1000).all(|at| said.contains(&*format!("report_number_{at}"))));
    }

    #[test]
    fn whole_definitions_of_what_was_found_are_json() {
        let options = IntrospectOptions { mode: Mode::Full, query: Some("issues"), ..SUMMARY };
        let text = shown(IntrospectOptions { wants_schemas: true, ..options });
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["tools"][0]["name"], "search_issues");
        assert_eq!(value["tools"][0]["x"], 1);
        assert_eq!(value["others"], serde_json::json!(["search_code"]));
    }

    #[test]
    fn only_the_beginning_of_a_long_query_is_looked_at() {
        let begins = format!("search issues {}", "x".repeat(300));
        assert!(found(&begins).starts_with("1. search_issues"));
        assert!(found(&format!("{} search issues", "é ".repeat(300))).starts_with("No subtool matches"));
        // Without the limit this takes minutes.
        let tools =
            (0..200).map(|at| tool(&format!("search{at}"), &"word ".repeat(2000))).collect::<Vec<_>>();
        let query = "some words ".repeat(1024 * 1024);
        let options = IntrospectOptions { query: Some(&query), ..SUMMARY };
        assert!(text(&ToolList::from(tools), &Expose::default(), options).contains("search199"));
    }

    /// Tools whose schemas have something at every depth.
    fn long_list(count: usize) -> ToolList {
        let schema = r#"{"type":"object","properties":{"path":{"type":"string","description":"Where it is."},"how":{"enum":["fast","slow"]},"filter":{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}}},"limit":{"type":"integer"},"offset":{"type":"integer"}},"required":["path","how"]}"#;
        let tool = |at: usize| Tool {
            input_schema: Some(RawValue::from_string(schema.to_owned()).unwrap()),
            ..tool(&format!("tool_{at}"), "Does one thing that takes a sentence of about sixty characters.")
        };
        ToolList::from((0..count).map(tool).collect::<Vec<_>>())
    }

    #[test]
    fn a_long_list_becomes_compact_and_says_what_it_leaves_out() {
        let options = IntrospectOptions { summary_max_chars: 100, ..SUMMARY };
        let show = |count, options| text(&long_list(count), &Expose::default(), options);
        assert!(show(5, options).starts_with(r#"{"tools":[{"#));
        let asked = show(1, IntrospectOptions { mode: Mode::Compact, ..options });
        let line = r#"tool_0(path: string, how: "fast"|"slow", filter?: {name?: string, age?: integer}, limit?: integer, offset?: integer) - Does one thing that takes a sentence of about sixty characters."#;
        let (head, rest) = asked.split_once('\n').unwrap();
        assert_eq!(rest, line);
        assert!(
            head.starts_with(
                "Left out: descriptions of arguments. {\"action\":\"introspect\",\"subtool\":NAME}"
            ),
            "{head}"
        );
        for (count, has, left_out) in [
            (30, "filter?: {name", "arguments. {"),
            (36, "filter?: object", "arguments, what is in objects. {"),
            (
                46,
                "…3 optional) - Does one thing that takes a sentence of about sixty characters.",
                "optional arguments. {",
            ),
            (95, "(path: string, how: \"fast\"|\"slow\", …3 optional)\n", "summaries. {"),
            (150, "(path, how, …3 optional)\n", "types, optional arguments, summaries. {"),
            (500, "tool_7\n", "all arguments, summaries. {"),
        ] {
            let text = show(count, options);
            assert!(text.len() <= 6000 && text.contains(has) && text.contains(left_out), "{count}: {text}");
            assert_eq!(text.lines().count(), count + 1);
        }
        // What a schema has beyond types is mentioned only where there is some.
        let schema = r#"{"type":"object","properties":{"a":{"type":"string","maxLength":9},"b":{"type":"object","properties":{"c":{"default":1}}}},"anyOf":[{}]}"#;
        let more = ToolList::from(vec![Tool {
            input_schema: Some(RawValue::from_string(schema.to_owned()).unwrap()),
            ..tool("t", "T")
        }]);
        let text_of_more =
            text(&more, &Expose::default(), IntrospectOptions { mode: Mode::Compact, ..options });
        assert!(
            text_of_more.starts_with("Left out: descriptions of arguments, some defaults, limits and formats, rules about several arguments (…). {"),
            "{text_of_more}"
        );
        // Names are never left out.
        let text = show(2000, options);
        assert!(text.ends_with("\ntool_1999") && text.len() < 30_000);
        // A redacted list keeps to the same bound.
        let text = show(200, IntrospectOptions { mode: Mode::Redacted, ..options });
        assert!(text.len() <= 6000 && text.ends_with("\ntool_199") && !text.contains("path"), "{text}");
    }

    #[test]
    fn unused_shared_definitions_are_left_out() {
        let schema = r#"{"$schema":"s","type":"object","$defs":{"x":{"type":"string"}}}"#;
        let raw = format!(r#"{{"name":"t","inputSchema":{schema}}}"#);
        let list = ToolList::from(vec![Tool {
            input_schema: Some(RawValue::from_string(schema.to_owned()).unwrap()),
            raw: RawValue::from_string(raw).unwrap(),
            ..tool("t", "T")
        }]);
        let all = text(&list, &Expose::default(), SUMMARY);
        assert_eq!(all, r#"{"tools":[{"name":"t","summary":"T","inputSchema":{"type":"object"}}]}"#);
        let one = single(&list.tools[0], SUMMARY);
        assert_eq!(one, r#"{"tools":[{"name":"t","inputSchema":{"$schema":"s","type":"object"}}]}"#);
    }
}
