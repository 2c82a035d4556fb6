//! Calls of the tool that searches all suites: a search, or a call that goes on to one suite.

use switchboard_wire::envelope::quoted;
use switchboard_wire::members::{Members, insert_members, remove_members};
use switchboard_wire::raw::Raw;

use super::HostRequest;
use crate::catalog::Catalog;
use crate::suite::{SuiteReply, find_tool};

/// What becomes of a call.
pub(super) enum FindOutcome {
    Said(SuiteReply),
    /// The `params` of the call for the suite.
    ForSuite(String),
}

pub(super) async fn run(catalog: &Catalog, request: HostRequest<'_>) -> FindOutcome {
    let given = request.params.members.get("arguments");
    let arguments = given.and_then(Members::of).unwrap_or_default();
    let Some(suite) = arguments.text("suite").filter(|suite| !suite.is_empty()) else {
        let query = arguments.text("query").filter(|query| !query.trim().is_empty());
        return FindOutcome::Said(match query {
            Some(query) => find_tool::search(&catalog.suites, &query).await,
            None => find_tool::no_query(),
        });
    };
    let (Some(suite), Some(given), Some(params)) = (catalog.tool_name(&suite), given, request.params.raw)
    else {
        return FindOutcome::Said(find_tool::no_suite(&catalog.suites, &suite));
    };
    // The suite gets the same request under its own name.
    let mut for_suite = remove_members(given, |key| key == "suite");
    let has = |key: &str| arguments.get(key).is_some_and(|value| !value.is_null());
    if !has("action") {
        let action = if has("subtool") { "call" } else { "introspect" };
        for_suite = insert_members(
            &remove_members(Raw::unchecked(&for_suite), |key| key == "action"),
            &format!(r#""action":"{action}""#),
        );
    }
    let rest = remove_members(params, |key| key == "name" || key == "arguments");
    let named = format!(r#""name":{},"arguments":{for_suite}"#, quoted(suite));
    FindOutcome::ForSuite(insert_members(&rest, &named))
}
