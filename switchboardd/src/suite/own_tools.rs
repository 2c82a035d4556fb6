//! A server whose own tools stand in the list of all tools, in place of its suite. Their definitions are the server's
//! bytes. They are routed like calls of the suite.

use std::borrow::Cow;
use std::collections::HashSet;

use switchboard_definitions::config::{Mode, Show};
use switchboard_mcp::era::schema;
use switchboard_wire::envelope::{quoted, range_of, splice};
use switchboard_wire::members::{Members, insert_members, remove_members};
use switchboard_wire::raw::Raw;

use super::acceptance::ToolAcceptance;
use super::description::{ListedTool, SuiteFacts};
use super::{Suite, SuitePart, obstacle};
use crate::child::Tool;
use crate::savings::estimate::estimated_tokens;

/// Longer definitions are not shown: each change formats all of them on the event loop, and each list has them.
const MAX_DEFINITIONS: usize = 256 * 1024;
/// With `auto`, tools that are shown stay until they take so many percent of the suite's tokens: a list that grows and
/// shrinks a little does not change its form each time.
const STAY_PERCENT: usize = 125;
/// With `auto`, what a suite costs beside its entry and the answer to `introspect`: the model writes one call more, and
/// waits for one answer more. What it writes costs several times what it reads.
const ONE_MORE_CALL: usize = 100;
/// With `auto`, the most that counts as the answer to `introspect`, in bytes: a model asks a longer list with a query, and
/// finds and calls with about so many (`proto-tests/FINDING.md`).
const TYPICAL_ANSWER: usize = 1200;
/// Where the tools have so many bytes, the answer is not made to find out its length.
const MANY_BYTES: usize = 8 * 1024;

/// What hosts see of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ShownForm {
    #[default]
    Suite,
    /// Its own tools.
    Tools,
}

impl ShownForm {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Suite => "suite",
            Self::Tools => "tools",
        }
    }
}

/// The entries of a server in `tools/list`.
#[derive(Debug, PartialEq, Eq)]
pub struct ListedSuite {
    pub tools: Vec<ListedTool>,
    pub form: ShownForm,
    /// What the suite's tool reaches, also if it is not listed.
    pub part: SuitePart,
    /// Why the suite is shown although the user prefers the server's own tools.
    pub why_suite: Option<String>,
}

impl Suite {
    /// The entries in `tools/list`. `before`: the form that hosts see now.
    pub fn listed_suite(&self, facts: &SuiteFacts, before: ShownForm) -> ListedSuite {
        let tools = self.listed_tools(facts);
        let part = tools.first().map(|tool| tool.part).unwrap_or_default();
        match self.own_tools(facts, &tools, before) {
            Ok(own) => ListedSuite { tools: own, form: ShownForm::Tools, part, why_suite: None },
            Err(why_suite) => ListedSuite { tools, form: ShownForm::Suite, part, why_suite },
        }
    }

    /// The server's own tools, if they are shown. The error says why they are not, if the user prefers them.
    fn own_tools(
        &self,
        facts: &SuiteFacts,
        suite: &[ListedTool],
        before: ShownForm,
    ) -> Result<Vec<ListedTool>, Option<String>> {
        if self.settings.show == Show::Suite {
            return Err(None);
        }
        let not = |why: &str| Err(Some(why.to_owned()));
        if self.is_held() || facts.is_held() {
            return not("it is held");
        }
        if self.mode == Mode::Redacted {
            return not("`introspection.mode` is \"redacted\", and its tools would show their schemas");
        }
        let is_available = self.definition.launch.is_ok()
            && facts.obstacle.as_ref().is_none_or(|error| obstacle::sentence(&self.name, error).is_none());
        if !is_available {
            return not("it is not available, and the suite says why");
        }
        let Some(manifest) = &facts.manifest else { return not("it has not run yet") };
        if !self.is_compared() {
            return not("its tools have not been compared with those that you accepted");
        }
        let tools = self.described_tools(facts);
        if tools.is_empty() {
            return not("it has no tools that may be shown");
        }
        let bytes = tools.iter().map(|tool| tool.raw.get().len() + 1).sum::<usize>();
        if bytes > MAX_DEFINITIONS {
            return Err(Some(format!("its definitions have {bytes} bytes, more than {MAX_DEFINITIONS}")));
        }
        if self.settings.show == Show::Auto {
            let of_tools = estimated_tokens(bytes);
            let entry = suite.iter().map(|tool| tool.tool.len() + 1).sum::<usize>();
            let answer = match bytes > MANY_BYTES {
                true => TYPICAL_ANSWER,
                false => self.introspection(&manifest.tools).len().min(TYPICAL_ANSWER),
            };
            let of_suite = estimated_tokens(entry + answer) + ONE_MORE_CALL;
            let percent = if before == ShownForm::Tools { STAY_PERCENT } else { 100 };
            if of_tools * 100 > of_suite * percent {
                return Err(Some(format!(
                    "its tools take about {of_tools} tokens; the suite and what it answers to `introspect` {of_suite}"
                )));
            }
        }
        let acceptance = self.acceptance(Some(&manifest.tools));
        let listed: Option<Vec<ListedTool>> =
            tools.into_iter().map(|tool| self.own_tool(tool, &acceptance)).collect();
        listed.ok_or_else(|| Some("a definition has the same member twice".to_owned()))
    }

    /// `None` if a host could read something else in the definition than we do.
    fn own_tool(&self, tool: &Tool, acceptance: &ToolAcceptance) -> Option<ListedTool> {
        let members = Members::of(&*tool.raw)?;
        let annotations = members.get("annotations").and_then(Members::of);
        if has_repeats(&members) || annotations.as_ref().is_some_and(has_repeats) {
            return None;
        }
        let reads = acceptance.reads(tool);
        let mut text = Cow::Borrowed(tool.raw.get());
        // What the user has not accepted is not claimed.
        let accepted = acceptance.annotations(tool);
        let is_claimed = |key: &str| match key {
            "readOnlyHint" => accepted.read_only == tool.annotations.read_only,
            "destructiveHint" => accepted.destructive == tool.annotations.destructive,
            _ => true,
        };
        if accepted != tool.annotations
            && let Some(said) = members.get("annotations")
        {
            text = replaced(&text, said, &remove_members(said, |key| !is_claimed(key))).into();
        }
        let mut meta = None;
        if self.settings.always_load {
            const ALWAYS_LOAD: &str = r#""anthropic/alwaysLoad":true"#;
            let own = Raw::parse(text.as_bytes()).and_then(Members::of).and_then(|tool| tool.get("_meta"));
            match own.filter(|own| own.get().starts_with('{')) {
                None => meta = Some(format!(r#""_meta":{{{ALWAYS_LOAD}}}"#).into()),
                Some(own) => text = replaced(&text, own, &insert_members(own.get(), ALWAYS_LOAD)).into(),
            }
        }
        let legacy = match schema::tool_for_legacy(Raw::parse(text.as_bytes())?) {
            Cow::Borrowed(_) => None,
            Cow::Owned(legacy) => Some(legacy.into()),
        };
        Some(ListedTool {
            name: tool.name.clone().into(),
            part: if reads { SuitePart::ReadOnly } else { SuitePart::Whole },
            own: Some(tool.name.clone()),
            tool: text.into(),
            legacy,
            meta,
        })
    }
}

impl ListedTool {
    /// Lists it under another name; every other byte stays.
    pub fn rename(&mut self, name: String) {
        for text in std::iter::once(&mut self.tool).chain(&mut self.legacy) {
            let given = Raw::parse(text.as_bytes()).and_then(Members::of).and_then(|tool| tool.get("name"));
            if let Some(given) = given {
                *text = replaced(text, given, &quoted(&name).to_string()).into();
            }
        }
        self.name = name;
    }
}

/// `text` with one of its values replaced.
fn replaced(text: &str, value: Raw<'_>, with: &str) -> String {
    let whole = text.as_bytes();
    let changed = splice(whole, range_of(whole, value.get()), with.as_bytes());
    String::from_utf8_lossy(&changed).into_owned()
}

fn has_repeats(members: &Members<'_>) -> bool {
    let mut known = HashSet::new();
    members.0.iter().any(|(key, _)| !known.insert(&**key))
}
