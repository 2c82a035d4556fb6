//! The tool that searches all suites at once. It calls only what reads: a user may allow it for good.

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;

use switchboard_definitions::config::Mode;
use switchboard_definitions::document::nearest;
use switchboard_wire::envelope::quoted;
use switchboard_wire::event_loop::run_blocking;
use switchboard_wire::visible::clipped;

use super::compact::{self, ShownTool};
use super::{ListedName, Suite, SuiteReply, reply, tool_error};
use crate::child::{Tool, ToolList};
use crate::search::{self, Ranking, Searched, ToolWords};
use crate::signature::written_name;

/// How many subtools one answer shows.
const MAX_FOUND: usize = 5;
/// How many are named that do the opposite.
const MAX_OPPOSITES: usize = 3;
/// How long a signature may be, in bytes, before it shows less.
const MAX_SIGNATURE: usize = 240;
/// The longest summary, in characters.
const MAX_SUMMARY: usize = 100;
/// How much more a subtool counts whose server the query names.
const NAMED_SERVER: f32 = 1.5;
/// How many names of suites are suggested for one that does not exist, and how much of that is shown, in bytes.
const MAX_NEAR: usize = 3;
const MAX_SHOWN_NAME: usize = 80;
/// How many servers that cannot be used are explained in one answer.
const MAX_UNAVAILABLE: usize = 5;
/// How much of a query is searched for the name of a server, in characters.
const MAX_SPOKEN: usize = 300;

const CALL_WITH_SUITE: &str =
    "Call one with the tool before it: {\"action\":\"call\",\"subtool\":…,\"args\":{…}}. ";

/// Marks a subtool of a suite that the host's list lacks.
const HERE: &str = " [here]";
const NEEDS_SESSION: &str = " [new session]";
const CALL_HERE: &str = "call them with this tool: {\"suite\":…,\"subtool\":…,\"args\":{…}}. ";
const NEW_SESSION: &str = "the user must start a new session in the editor. ";

/// Its entry in `tools/list`.
pub fn definition(name: &str) -> String {
    const SCHEMA: &str = r#"{"type":"object","properties":{"query":{"type":"string","description":"What you want to do"},"suite":{"type":"string"},"subtool":{"type":"string"},"args":{"type":"object","description":"Arguments of the subtool","additionalProperties":true}}}"#;
    const READS: &str = r#"{"readOnlyHint":true}"#;
    let description = "Searches the subtools of all suites. With suite instead of query it shows all of a suite, with subtool one; with args too it calls one that only reads.";
    let (name, description) = (quoted(name), quoted(description));
    format!(r#"{{"name":{name},"description":{description},"inputSchema":{SCHEMA},"annotations":{READS}}}"#)
}

/// The subtools of `suites` that a query means. Only what is known without starting a server is searched. `listed`: what
/// calls a subtool in the list that the host was shown.
pub async fn search(
    suites: &[Suite],
    query: &str,
    listed: impl Fn(&Suite, &Tool) -> Option<ListedName>,
) -> SuiteReply {
    let (mut lists, mut unknown) = (Vec::<(&Suite, Arc<ToolList>)>::new(), Vec::new());
    for suite in suites.iter().filter(|suite| suite.may_be_shown()) {
        match suite.tools_if_known() {
            Some(list) => lists.push((suite, list)),
            None => unknown.push(suite),
        }
    }
    let all: Vec<(usize, usize)> = lists
        .iter()
        .enumerate()
        .flat_map(|(place, (suite, list))| {
            let permitted = |at: &usize| suite.shows(&list.tools[*at].name);
            (0..list.tools.len()).filter(permitted).map(move |at| (place, at))
        })
        .collect();
    let is_redacted = lists.iter().any(|(suite, _)| suite.mode == Mode::Redacted);
    let searched = if is_redacted { Searched::WithoutArguments } else { Searched::All };
    // There may be thousands of lists.
    let known: Vec<Arc<ToolList>> = lists.iter().map(|(_, list)| list.clone()).collect();
    let (places, wanted) = (all.clone(), query.to_owned());
    let found = run_blocking(move || {
        for list in &known {
            list.signatures();
        }
        let words: Vec<&ToolWords> = places.iter().map(|(place, at)| &known[*place].words()[*at]).collect();
        search::rank(&words, &wanted, searched)
    })
    .await;
    let Ranking { matches: mut found, opposites } = found;
    let spoken: String = query.chars().take(MAX_SPOKEN).flat_map(char::to_lowercase).collect();
    let spoken: HashSet<&str> =
        spoken.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_').collect();
    let is_named = |(suite, _): &(&Suite, _)| spoken.contains(&*suite.child_name().to_lowercase());
    let named: Vec<bool> = lists.iter().map(is_named).collect();
    for one in found.iter_mut().filter(|one| named[all[one.at].0]) {
        one.score *= NAMED_SERVER;
    }
    found.sort_by(|one, other| other.score.total_cmp(&one.score));
    let (mut out, mut explained) = (String::new(), 0);
    let (mut has_own, mut has_suites, mut has_unlisted, mut needs_session) = (false, false, false, false);
    for (place, one) in found.iter().take(MAX_FOUND).enumerate() {
        let (list, at) = all[one.at];
        let (suite, list) = &lists[list];
        let name = listed(suite, &list.tools[at]);
        let _ = match &name {
            Some(ListedName::OwnTool(own)) => write!(out, "{}. tool {own}: ", place + 1),
            Some(ListedName::Suite(name)) => write!(out, "{}. {name}: ", place + 1),
            // Added after the host asked for the list.
            None if suite.accepted_read_only(&list.tools[at]) => {
                write!(out, "{}. {}{HERE}: ", place + 1, suite.name)
            }
            None => write!(out, "{}. {}{NEEDS_SESSION}: ", place + 1, suite.name),
        };
        match name {
            Some(ListedName::OwnTool(_)) => has_own = true,
            Some(ListedName::Suite(_)) => has_suites = true,
            None if suite.accepted_read_only(&list.tools[at]) => has_unlisted = true,
            None => needs_session = true,
        }
        let signature = (suite.mode != Mode::Redacted).then(|| &list.signatures()[at]);
        let detail = signature.and_then(|signature| compact::fitting(signature, MAX_SIGNATURE));
        let shown = ShownTool { tool: &list.tools[at], signature, call_with: None };
        compact::line(shown, detail, MAX_SUMMARY, &mut out);
        out.push('\n');
    }
    if found.is_empty() {
        out.push_str("No subtool matches these words.\n");
    }
    // Those that do the opposite are only named.
    let opposites: Vec<String> = opposites
        .iter()
        .filter(|one| one.score > 0.0)
        .take(MAX_OPPOSITES)
        .map(|one| {
            let (suite, list) = &lists[all[one.at].0];
            format!("{} {}", suite.name, written_name(&list.tools[all[one.at].1].name))
        })
        .collect();
    if !opposites.is_empty() {
        let _ = writeln!(out, "The opposite: {}", opposites.join(", "));
    }
    let shown = found.iter().take(MAX_FOUND).map(|one| lists[all[one.at].0].0);
    let mut said = HashSet::new();
    for suite in shown.chain(unknown.iter().copied()).filter(|suite| said.insert(&*suite.name)) {
        if let Some(why) = suite.why_unavailable(&suite.facts()).filter(|_| explained < MAX_UNAVAILABLE) {
            let _ = writeln!(out, "{}: {why}", suite.name);
            explained += 1;
        }
    }
    if has_suites {
        out.push_str(CALL_WITH_SUITE);
    }
    if has_unlisted {
        let _ = write!(out, "Those marked{HERE} are not in your list: {CALL_HERE}");
    }
    if needs_session {
        let _ = write!(out, "Those marked{NEEDS_SESSION} are not in your list and may write: {NEW_SESSION}");
    }
    if has_own {
        out.push_str("A `tool` is one of your own list: call it directly. ");
    }
    out.push_str("{\"suite\":…} here shows all of a suite. Suites: ");
    let names: Vec<&str> = lists.iter().map(|(suite, _)| suite.name.as_str()).collect();
    out.push_str(&names.join(", "));
    let unknown: Vec<&str> = unknown.iter().map(|suite| suite.name.as_str()).collect();
    if !unknown.is_empty() {
        let _ = write!(out, ". Not searched, because they never ran: {}", unknown.join(", "));
    }
    SuiteReply::Own(reply::text_result(&out, false))
}

/// The answer to a call that names a subtool only.
pub fn no_suite_given() -> SuiteReply {
    tool_error("missing `suite`; give the suite of the subtool, or `query` to find one")
}

/// The answer to a call without a query.
pub fn no_query() -> SuiteReply {
    tool_error("missing `query`; say what you want to do, or give `suite` to see all of a suite")
}

/// The suite whose name is most like this one. The ending that most of them share makes no name alike.
pub fn nearest_suite<'s>(suites: &'s [Suite], name: &str) -> Option<&'s str> {
    let stem = |name: &'_ str| name.strip_suffix("_suite").unwrap_or(name).to_owned();
    let stems: Vec<String> = suites.iter().map(|suite| stem(&suite.name)).collect();
    let near = nearest(&stem(name), stems.iter().map(String::as_str))?;
    let place = stems.iter().position(|stem| stem == near)?;
    Some(&suites[place].name)
}

/// The answer to a call of a suite that does not exist.
pub fn no_suite(suites: &[Suite], name: &str) -> SuiteReply {
    let typed = name.to_lowercase();
    let of_name = nearest_suite(suites, name);
    let of_child = || {
        let child = nearest(name, suites.iter().map(Suite::child_name))?;
        suites.iter().find(|suite| suite.child_name() == child).map(|suite| suite.name.as_str())
    };
    let mut near: Vec<&str> = of_name.or_else(of_child).into_iter().collect();
    let is_part = |suite: &&Suite| {
        let child = suite.child_name().to_lowercase();
        typed.len() > 2 && (child.contains(&typed) || typed.contains(&child))
    };
    for suite in suites.iter().filter(is_part) {
        if near.len() < MAX_NEAR && !near.contains(&suite.name.as_str()) {
            near.push(&suite.name);
        }
    }
    let hint = match near[..] {
        [] => String::new(),
        _ => format!("; did you mean `{}`?", near.join("` or `")),
    };
    let name = clipped(name, MAX_SHOWN_NAME);
    let end = if hint.is_empty() { ";" } else { "" };
    tool_error(&format!("there is no suite `{name}`{hint}{end} `query` finds subtools in all of them"))
}
