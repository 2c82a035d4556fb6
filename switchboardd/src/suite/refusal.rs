//! Refusals that a model can act on: they show the names and arguments for the next try.

use std::sync::Arc;

use switchboard_definitions::config::Mode;
use switchboard_definitions::document::nearest;
use switchboard_wire::envelope::quoted;
use switchboard_wire::event_loop::run_blocking;
use switchboard_wire::visible::clipped;

use super::{CallContext, Suite, SuiteReply, refusal, tool_error};
use crate::child::ToolList;
use crate::observe::metrics::failure_kind::FailureKind;
use crate::search::{self, Searched, ToolWords};
use crate::signature::{Detail, Signature};

/// How many tools are suggested for a name that does not exist.
const MAX_NEAR: usize = 3;
/// How many names are listed where none is near.
const MAX_NAMES: usize = 20;
/// How long a signature in a refusal may be, in bytes, before it shows less.
const MAX_SIGNATURE: usize = 600;

/// How much of a wrong name an answer repeats, in bytes.
pub const MAX_ECHO: usize = 200;

impl Suite {
    pub(super) async fn unknown_subtool(&self, subtool: &str, list: &Arc<ToolList>) -> SuiteReply {
        // `suite.subtool` and the like.
        let part = [self.name.as_str(), self.child_name()].into_iter().find_map(|whole| {
            let rest = subtool.strip_prefix(whole)?;
            Some(rest.trim_start_matches(|c: char| !c.is_alphanumeric()))
        });
        let typed = part.filter(|part| !part.is_empty()).unwrap_or(subtool).to_owned();
        let exposed: Vec<usize> =
            (0..list.tools.len()).filter(|at| self.shows(&list.tools[*at].name)).collect();
        let (mode, all) = (self.mode, list.clone());
        let hint = move || hint(&all, &exposed, &typed, mode);
        let hint = if list.is_large() { run_blocking(hint).await } else { hint() };
        let subtool = clipped(subtool, MAX_ECHO);
        let sentence = format!("unknown subtool `{subtool}` (suite `{}`); {hint}", self.name);
        refusal(FailureKind::UnknownTool, &sentence)
    }

    pub(super) fn wrong_arguments(
        &self,
        call: CallContext<'_>,
        name: &str,
        signature: &str,
        complaint: &str,
    ) -> SuiteReply {
        if call.by_own_name {
            // The host has its schema.
            let complaint = complaint.replacen("`args`", "`arguments`", 1);
            return refusal(
                FailureKind::InvalidArguments,
                &format!("{complaint} of tool `{name}`: {signature}"),
            );
        }
        let sentence = format!(
            "{complaint} of subtool `{0}` (suite `{1}`): {2}\n{{{3},\"subtool\":{4}}} shows its schema",
            name,
            self.name,
            signature,
            self.introspect_request(call.part),
            quoted(name)
        );
        refusal(FailureKind::InvalidArguments, &sentence)
    }

    pub(super) fn unknown_action(&self, action: &str) -> SuiteReply {
        let is_subtool = self.shows(action) && self.has_tool(action);
        let hint = if is_subtool {
            let subtool = quoted(action);
            format!(
                "`{action}` is a subtool: {{\"action\":\"call\",\"subtool\":{subtool},\"args\":{{…}}}} runs it"
            )
        } else {
            format!("use `introspect` to find the subtools of `{}`, or `call` to run one", self.name)
        };
        tool_error(&format!("unknown action `{action}`; {hint}"))
    }
}

/// What a wrong name may mean; `exposed`: the indexes of the tools that may be named.
fn hint(list: &ToolList, exposed: &[usize], typed: &str, mode: Mode) -> String {
    let near = near(list, exposed, typed, mode);
    let Some(first) = near.first() else {
        let named = exposed.iter().take(MAX_NAMES).map(|at| format!("`{}`", list.tools[*at].name));
        let some: Vec<String> = named.collect();
        return match exposed.len() {
            0 => "it has none".to_owned(),
            count if count > some.len() => format!("there are {} and more", some.join(", ")),
            _ => format!("there are {}", some.join(", ")),
        };
    };
    let mut hint = format!("did you mean `{}`?", list.tools[*first].name);
    if mode == Mode::Redacted {
        hint.extend(near[1..].iter().map(|at| format!(" Or `{}`?", list.tools[*at].name)));
    } else {
        hint.extend(near.iter().map(|at| format!("\n{}", fitting(&list.tools[*at].signature()))));
    }
    hint
}

/// The exposed tools that a wrong name may mean, as indexes: a mistyped name first, then what a search finds.
fn near(list: &ToolList, exposed: &[usize], typed: &str, mode: Mode) -> Vec<usize> {
    let name = |at: &usize| &*list.tools[*at].name;
    let mistyped =
        nearest(typed, exposed.iter().map(name).filter(|name| !search::are_opposite_names(typed, name)));
    let mut near: Vec<usize> = exposed.iter().copied().filter(|at| Some(name(at)) == mistyped).collect();
    let words: Vec<&ToolWords> = exposed.iter().map(|at| &list.words()[*at]).collect();
    let searched = if mode == Mode::Redacted { Searched::WithoutArguments } else { Searched::All };
    let found = search::rank(&words, typed, searched).matches;
    let enough = found.first().map_or(0.0, |best| best.score / 2.0);
    for at in found.iter().filter(|found| found.score >= enough).map(|found| exposed[found.at]) {
        if near.len() < MAX_NEAR && !near.contains(&at) {
            near.push(at);
        }
    }
    near
}

/// A signature with as much detail as a refusal has room for.
pub(super) fn fitting(signature: &Signature) -> String {
    let details = [Detail::Whole, Detail::Flat, Detail::Required, Detail::Names];
    let fits =
        details.into_iter().map(|detail| signature.to_text(detail)).find(|text| text.len() <= MAX_SIGNATURE);
    fits.unwrap_or_else(|| signature.name().to_owned())
}
