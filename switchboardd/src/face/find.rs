//! Calls of the tool that searches all suites: a search, or a request that goes on to one suite. It calls only subtools
//! that read, so that a user can allow it without allowing what a suite can do.

use switchboard_wire::envelope::quoted;
use switchboard_wire::members::{Members, insert_members, remove_members};

use super::HostRequest;
use crate::catalog::Catalog;
use crate::session::Session;
use crate::suite::{ListedName, Suite, SuiteReply, find_tool};

/// What calls the subtool of a call in the list that the host was shown, if it writes.
pub(super) fn calling(
    session: &Session,
    catalog: &Catalog,
    suite: &Suite,
    request: HostRequest<'_>,
) -> Option<ListedName> {
    let arguments = request.params.members.get("arguments").and_then(Members::of)?;
    let subtool = arguments.text("subtool")?;
    // A host with an older list has the server's own tools after it lists them again.
    let current = catalog.shown_tools().reaching(suite.child_name(), &subtool, false);
    let shown = session.shown_tools();
    let shown = shown.as_deref().filter(|shown| !shown.is_empty());
    shown.and_then(|shown| shown.reaching(suite.child_name(), &subtool, false)).or(current)
}

/// What becomes of a call.
pub(super) enum FindOutcome<'c> {
    Said(SuiteReply),
    /// The suite, and the `params` of an introspection or a call for it. With what calls the subtool in the list that the
    /// host was shown.
    ForSuite(&'c Suite, Option<ListedName>, String),
}

pub(super) async fn run<'c>(
    session: &Session,
    catalog: &'c Catalog,
    request: HostRequest<'_>,
) -> FindOutcome<'c> {
    let (shown, current) = (session.shown_tools(), catalog.shown_tools());
    let listed = |suite: &Suite, tool: &str, reads: bool| match &shown {
        Some(shown) if !shown.is_empty() => shown.reaching(suite.child_name(), tool, reads),
        _ => current.reaching(suite.child_name(), tool, reads),
    };
    let given = request.params.members.get("arguments");
    let arguments = given.and_then(Members::of).unwrap_or_default();
    let has = |key: &str| arguments.get(key).is_some_and(|value| !value.is_null());
    let Some(suite) = arguments.text("suite").filter(|suite| !suite.is_empty()) else {
        let query = arguments.text("query").filter(|query| !query.trim().is_empty());
        return FindOutcome::Said(match query {
            Some(query) => {
                find_tool::search(&catalog.suites, &query, |suite, tool| {
                    listed(suite, &tool.name, suite.accepted_read_only(tool))
                })
                .await
            }
            None if has("subtool") => find_tool::no_suite_given(),
            None => find_tool::no_query(),
        });
    };
    let (Some((name, suite)), Some(given), Some(params)) =
        (catalog.suite_of_tool(&suite), given, request.params.raw)
    else {
        return FindOutcome::Said(find_tool::no_suite(&catalog.suites, &suite));
    };
    let is_call = if has("action") {
        arguments.text("action").as_deref() != Some("introspect")
    } else {
        has("subtool") && has("args")
    };
    // The suite gets the same request under its own name. Members that are there twice are not left to be read.
    let kept = remove_members(given, |key| matches!(key, "suite" | "action") || (!is_call && key == "args"));
    let action = if is_call { r#""action":"call""# } else { r#""action":"introspect""# };
    let for_suite = insert_members(&kept, action);
    let rest = remove_members(params, |key| key == "name" || key == "arguments");
    let named = format!(r#""name":{},"arguments":{for_suite}"#, quoted(name));
    // For what writes: everything else is called with this tool.
    let instead = listed(suite, &arguments.text("subtool").unwrap_or_default(), false);
    FindOutcome::ForSuite(suite, instead, insert_members(&rest, &named))
}
