//! A server as two tools: one reaches what only reads, the other the rest. A host and its user can then allow
//! one without the other.

use std::sync::Arc;

use switchboard_definitions::config::Split;
use switchboard_wire::envelope::quoted;

use super::acceptance::ToolAcceptance;
use super::description::{ListedTool, SuiteFacts, search_hint};
use super::{CallContext, INPUT_SCHEMA, ListedName, Suite, annotations};
use crate::child::{Annotations, Tool, ToolList};
use crate::pool::manifest::Manifest;
use crate::suite::failure::Failure;

/// The schema of the tool for what writes. It is short, because the suite's own tool has the descriptions.
const WRITING_SCHEMA: &str = r#"{"type":"object","properties":{"action":{"type":"string","enum":["introspect","call"]},"subtool":{"type":"string"},"args":{"type":"object","description":"Arguments","additionalProperties":true}},"required":["action"]}"#;

/// Has the suite's own tool say more.
const INTROSPECT: &str = r#""action":"introspect""#;

/// Which subtools a tool of the aggregate face reaches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SuitePart {
    #[default]
    Whole,
    /// Those that say that they only read.
    ReadOnly,
    /// All others.
    Writing,
    /// Those that say that they only read, through the tool that searches all suites.
    Found,
}

impl Suite {
    /// The member of a call that has the suite say more, in the tool that the host calls.
    pub(super) fn introspect_request(&self, part: SuitePart) -> String {
        match part {
            SuitePart::Found => format!(r#""suite":{}"#, quoted(&self.name)),
            _ => INTROSPECT.to_owned(),
        }
    }

    /// The entries of the suite in `tools/list`: its own tool and, if it is split, the one for what writes.
    pub fn listed_tools(&self, facts: &SuiteFacts) -> Vec<ListedTool> {
        let (description, hint) = self.describe(facts);
        let whole = |of: Annotations, part: SuitePart| ListedTool {
            name: self.name.clone(),
            part,
            own: None,
            legacy: None,
            tool: entry(&self.name, &description, INPUT_SCHEMA, of),
            meta: self.meta(facts, &hint),
        };
        if self.is_held() || facts.is_held() {
            return vec![whole(Annotations::default(), SuitePart::Whole)];
        }
        let exposed = self.described_tools(facts);
        let acceptance = self.acceptance(facts.manifest.as_ref().map(|manifest| &manifest.tools));
        let of = |tools: &[&Tool]| -> Vec<Annotations> {
            tools.iter().map(|tool| acceptance.annotations(tool)).collect()
        };
        if self.part(facts.manifest.as_deref()) == SuitePart::Whole {
            let common = annotations::common(&of(&exposed));
            let reads = common.read_only == Some(true);
            return vec![whole(common, if reads { SuitePart::ReadOnly } else { SuitePart::Whole })];
        }
        let (reading, writing): (Vec<&Tool>, Vec<&Tool>) =
            exposed.into_iter().partition(|tool| acceptance.reads(tool));
        // True whatever the server adds: only what says that it reads is reached.
        let reads = Annotations { read_only: Some(true), ..annotations::common(&of(&reading)) };
        let description = self.describe_writing();
        let write = ListedTool {
            name: self.writing_name.clone(),
            part: SuitePart::Writing,
            own: None,
            legacy: None,
            tool: entry(&self.writing_name, &description, WRITING_SCHEMA, annotations::common(&of(&writing))),
            meta: self.meta(facts, &search_hint(&writing, &description)),
        };
        vec![whole(reads, SuitePart::ReadOnly), write]
    }

    /// What the tool with the suite's own name reaches, for a caller that was shown no list.
    pub fn current_part(&self) -> SuitePart {
        self.part(self.manifest().as_deref())
    }

    /// What it reaches if this is what the server said about itself.
    fn part(&self, manifest: Option<&Manifest>) -> SuitePart {
        let is_split = match self.settings.split {
            _ if self.is_held() || self.pool.is_none() => false,
            Split::Never => false,
            Split::Always => true,
            Split::Auto => match manifest {
                Some(known) => self.marks_some(&known.tools) || self.stays_split(&known.tools),
                // Its definition is new. What it will list is not known.
                None => self.was_read_only(),
            },
        };
        if is_split { SuitePart::ReadOnly } else { SuitePart::Whole }
    }

    /// Whether only the user's last consent keeps the server shown as two tools.
    pub fn keeps_split(&self) -> bool {
        let known = self.manifest();
        self.settings.split == Split::Auto
            && self.part(known.as_deref()) != SuitePart::Whole
            && known.is_some_and(|manifest| !self.marks_some(&manifest.tools))
    }

    /// Whether the suite's own tool was shown as read-only, as far as the user has accepted, and something writes now.
    /// Users may have allowed that tool for good: it must not become one that writes because the server stops saying
    /// that its tools only read.
    fn stays_split(&self, list: &Arc<ToolList>) -> bool {
        let acceptance = self.acceptance(Some(list));
        let writes = |tool: &Tool| self.settings.expose.permits(&tool.name) && !acceptance.reads(tool);
        self.was_read_only() && list.tools.iter().any(writes)
    }

    fn was_read_only(&self) -> bool {
        let may_be_called = |tool: &str| self.settings.expose.permits(tool);
        self.baseline.as_ref().is_some_and(|baseline| baseline.read_before(may_be_called))
    }

    /// Whether the server marks some exposed subtools as read-only and some not.
    fn marks_some(&self, list: &Arc<ToolList>) -> bool {
        // Most servers mark none.
        if list.tools.iter().all(|tool| tool.annotations.read_only != Some(true)) {
            return false;
        }
        let acceptance = self.acceptance(Some(list));
        let (mut reads, mut writes) = (false, false);
        for tool in self.exposed_tools(list) {
            let is_reading = acceptance.reads(tool);
            reads |= is_reading;
            writes |= !is_reading;
        }
        reads && writes
    }

    fn exposed_tools<'l>(&self, list: &'l Arc<ToolList>) -> impl Iterator<Item = &'l Tool> {
        list.tools.iter().filter(|tool| self.shows_of(list, &tool.name))
    }

    /// The description of the tool for what writes.
    fn describe_writing(&self) -> String {
        format!("Calls the tools of {} that write; `{}` lists them.", self.definition.name, self.name)
    }

    /// Why a call of `subtool` through this part is refused. `reads`: whether it counts as read-only.
    pub(super) fn wrong_part(&self, call: CallContext<'_>, subtool: &str, reads: bool) -> Option<Failure> {
        let part = call.part;
        if call.by_own_name {
            // It was listed as one that only reads.
            return (part == SuitePart::ReadOnly && !reads).then(|| Failure::WrongTool {
                subtool: subtool.into(),
                does: "may write now",
                called: subtool.to_owned(),
                advice: "list the tools again".to_owned(),
            });
        }
        let own_tool = match call.instead {
            Some(ListedName::OwnTool(name)) if part != SuitePart::Found => Some(name),
            _ => None,
        };
        let (does, called, right) = match part {
            SuitePart::ReadOnly if !reads => ("may write", &self.name, &self.writing_name),
            SuitePart::Writing if reads => ("only reads", &self.writing_name, &self.name),
            SuitePart::Found if !reads => return Some(self.not_by_search(call, subtool)),
            _ => return None,
        };
        // The host was shown other tools than there are now.
        let again = part == SuitePart::ReadOnly && self.settings.split == Split::Never;
        let advice = if let Some(name) = own_tool {
            format!("call the tool `{name}`")
        } else if again {
            format!("list the tools again, or call it with `{right}`")
        } else {
            format!("call it with `{right}`")
        };
        Some(Failure::WrongTool { subtool: subtool.into(), does, called: called.clone(), advice })
    }

    /// Why the tool that searches all suites does not call this subtool: a user may allow that tool for good.
    fn not_by_search(&self, call: CallContext<'_>, subtool: &str) -> Failure {
        let advice = match call.instead {
            Some(ListedName::OwnTool(name)) => format!("call the tool `{name}`"),
            Some(ListedName::Suite(name)) => format!("call it with `{name}`"),
            None => {
                let is_whole = self.current_part() == SuitePart::Whole;
                let right = if is_whole { &self.name } else { &self.writing_name };
                format!(
                    "call it with `{right}`; if you have no such tool, the user must start a new session in the editor"
                )
            }
        };
        let called = call.search.unwrap_or("find").to_owned();
        Failure::WrongTool { subtool: subtool.into(), does: "may write", called, advice }
    }

    /// How `introspect` marks the subtools of a list for a host that knows this part of the suite. A host that was shown one tool for everything calls everything with it.
    pub(super) fn marks_of(
        &self,
        acceptance: ToolAcceptance,
        part: SuitePart,
        instead: Option<&ListedName>,
    ) -> Marks {
        let writes_with = instead.map(ListedName::as_str);
        let is_one_tool = match part {
            SuitePart::Whole => true,
            SuitePart::Found => writes_with == Some(&*self.name),
            SuitePart::ReadOnly | SuitePart::Writing => false,
        };
        Marks {
            acceptance,
            name: self.name.clone(),
            writing_name: self.writing_name.clone(),
            is_split: !is_one_tool && self.current_part() != SuitePart::Whole,
            request: self.introspect_request(part),
        }
    }
}

/// An entry of `tools/list`.
fn entry(name: &str, description: &str, schema: &str, of: Annotations) -> Box<str> {
    let annotations = annotations::to_json(of).map_or(String::new(), |of| format!(r#","annotations":{of}"#));
    let (name, description) = (quoted(name), quoted(description));
    format!(r#"{{"name":{name},"description":{description},"inputSchema":{schema}{annotations}}}"#).into()
}

/// What `introspect` says about the subtools of a suite beside their schemas. It can go to another thread.
#[derive(Debug, Clone)]
pub struct Marks {
    acceptance: ToolAcceptance,
    name: String,
    writing_name: String,
    is_split: bool,
    /// The member of a call that has the suite say more.
    request: String,
}

impl Marks {
    /// How the host asks for more about a subtool; `subtool` as JSON, or what stands for it.
    pub fn request(marks: Option<&Self>, subtool: &str) -> String {
        let request = marks.map_or(INTROSPECT, |marks| &marks.request);
        format!(r#"{{{request},"subtool":{subtool}}}"#)
    }

    /// The tool of the host's list that calls this subtool, if not the suite's own.
    pub fn call_with(&self, tool: &Tool) -> Option<&str> {
        let writes = self.is_split && !self.acceptance.reads(tool);
        writes.then_some(&*self.writing_name)
    }

    /// The members to add to the entry of a subtool. With `whole`, the entry has the annotations already.
    pub fn of(&self, tool: &Tool, whole: bool) -> String {
        let is_split = self.is_split;
        let said = self.acceptance.annotations(tool);
        let access = match (said.read_only, said.destructive) {
            (Some(true), _) => Some("read-only"),
            (_, Some(true)) => Some("destructive"),
            (Some(false), _) | (_, Some(false)) => Some("writes"),
            (None, None) => is_split.then_some("writes"),
        };
        let access = access.filter(|_| !whole || is_split).map(|access| format!(r#""access":"{access}""#));
        let right = if said.read_only == Some(true) { &self.name } else { &self.writing_name };
        let right = is_split.then(|| format!(r#""callWith":{}"#, quoted(right)));
        access.into_iter().chain(right).collect::<Vec<_>>().join(",")
    }
}
