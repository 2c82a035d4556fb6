//! A server as two tools: one reaches what only reads, the other the rest. A host and its user can then allow
//! one without the other.

use switchboard_definitions::config::Split;
use switchboard_wire::envelope::quoted;
use switchboard_wire::members::insert_members;

use super::{INPUT_SCHEMA, Suite, annotations};
use crate::child::{Annotations, Tool, ToolList};
use crate::suite::failure::Failure;

/// Which subtools a tool of the aggregate face reaches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SuitePart {
    #[default]
    Whole,
    /// Those that say that they only read.
    ReadOnly,
    /// All others.
    Writing,
}

/// A tool that stands for a suite or a part of it, as hosts are shown it.
#[derive(Debug)]
pub struct SuiteTool {
    pub name: String,
    /// What its calls may reach. A tool that was shown as read-only reaches nothing else later.
    pub part: SuitePart,
    /// Its entry in `tools/list`.
    pub entry: String,
}

impl Suite {
    /// Whether a subtool counts as read-only: it says so, and it never said otherwise before. A server must not
    /// move a tool to what a user has already allowed.
    ///
    /// This is the only place that decides it; a stored decision of the user belongs here.
    pub fn accepted_read_only(&self, tool: &Tool) -> bool {
        tool.annotations.read_only == Some(true)
            && self.pool.as_ref().is_some_and(|pool| !pool.has_seen_writing(&tool.name))
    }

    /// The annotations of a subtool, as far as they are accepted.
    pub(super) fn accepted_annotations(&self, tool: &Tool) -> Annotations {
        let read_only = match tool.annotations.read_only {
            Some(true) if !self.accepted_read_only(tool) => None,
            said => said,
        };
        Annotations { read_only, ..tool.annotations }
    }

    /// The tools that stand for this suite, from what is known without starting it.
    pub fn shown_tools(&self) -> Vec<SuiteTool> {
        let known = self.manifest().filter(|_| !self.is_held()).map(|manifest| manifest.tools.clone());
        let exposed: Vec<Annotations> = known
            .iter()
            .flat_map(|list| self.exposed_tools(list))
            .map(|tool| self.accepted_annotations(tool))
            .collect();
        let annotated = |entry: String, of: Annotations| match annotations::to_json(of) {
            Some(of) => insert_members(&entry, &format!(r#""annotations":{of}"#)),
            None => entry,
        };
        if self.current_part() == SuitePart::Whole {
            let common = annotations::common(&exposed);
            let reads = common.read_only == Some(true);
            let part = if reads { SuitePart::ReadOnly } else { SuitePart::Whole };
            return vec![SuiteTool { name: self.name.clone(), part, entry: annotated(self.tool(), common) }];
        }
        let (reading, writing): (Vec<_>, Vec<_>) =
            exposed.into_iter().partition(|tool| tool.read_only == Some(true));
        // True whatever the server adds: only what says that it reads is reached.
        let reading = Annotations { read_only: Some(true), ..annotations::common(&reading) };
        let read = annotated(self.tool(), reading);
        let write = annotated(self.writing_tool(), annotations::common(&writing));
        vec![
            SuiteTool { name: self.name.clone(), part: SuitePart::ReadOnly, entry: read },
            SuiteTool { name: self.writing_name.clone(), part: SuitePart::Writing, entry: write },
        ]
    }

    /// What the tool with the suite's own name reaches, for a caller that was shown no list.
    pub fn current_part(&self) -> SuitePart {
        let is_split = match self.settings.split {
            _ if self.is_held() || self.pool.is_none() => false,
            Split::Never => false,
            Split::Always => true,
            Split::Auto => self.manifest().is_some_and(|manifest| self.marks_some(&manifest.tools)),
        };
        if is_split { SuitePart::ReadOnly } else { SuitePart::Whole }
    }

    /// Whether the server marks some exposed subtools as read-only and some not.
    fn marks_some(&self, list: &ToolList) -> bool {
        // Most servers mark none.
        if list.tools.iter().all(|tool| tool.annotations.read_only != Some(true)) {
            return false;
        }
        let (mut reads, mut writes) = (false, false);
        for tool in self.exposed_tools(list) {
            let is_reading = self.accepted_read_only(tool);
            reads |= is_reading;
            writes |= !is_reading;
        }
        reads && writes
    }

    fn exposed_tools<'l>(&self, list: &'l ToolList) -> impl Iterator<Item = &'l Tool> {
        list.tools.iter().filter(|tool| self.settings.expose.permits(&tool.name))
    }

    /// The entry of the tool for what writes.
    fn writing_tool(&self) -> String {
        let description = format!(
            "Use this tool for the subtools of {} that write. '{}' lists them with 'introspect'. Actions: 'introspect' | 'call'",
            self.definition.name, self.name
        );
        let (name, description) = (quoted(&self.writing_name), quoted(&description));
        format!(r#"{{"name":{name},"description":{description},"inputSchema":{INPUT_SCHEMA}}}"#)
    }

    /// Why a call of `subtool` through this part is refused. `tool`: `None` if the server does not list it.
    pub(super) fn wrong_part(&self, part: SuitePart, subtool: &str, tool: Option<&Tool>) -> Option<Failure> {
        let reads = tool.is_some_and(|tool| self.accepted_read_only(tool));
        let (does, called, right) = match part {
            SuitePart::ReadOnly if !reads => ("may write", &self.name, &self.writing_name),
            SuitePart::Writing if reads => ("only reads", &self.writing_name, &self.name),
            _ => return None,
        };
        // The host was shown other tools than there are now.
        let again = part == SuitePart::ReadOnly && self.settings.split == Split::Never;
        let advice = if again {
            format!("list the tools again, or call it with `{right}`")
        } else {
            format!("call it with `{right}`")
        };
        Some(Failure::WrongTool { subtool: subtool.into(), does, called: called.clone(), advice })
    }

    /// How `introspect` marks the subtools now.
    pub(super) fn marks(&self) -> Marks<'_> {
        Marks { suite: self, is_split: self.current_part() != SuitePart::Whole }
    }
}

/// What `introspect` says about the subtools of a suite beside their schemas.
#[derive(Debug, Clone, Copy)]
pub struct Marks<'a> {
    suite: &'a Suite,
    is_split: bool,
}

impl Marks<'_> {
    /// The members to add to the entry of a subtool. With `whole`, the entry has the annotations already.
    pub fn of(&self, tool: &Tool, whole: bool) -> String {
        let Self { suite, is_split } = *self;
        let said = suite.accepted_annotations(tool);
        let access = match (said.read_only, said.destructive) {
            (Some(true), _) => Some("read-only"),
            (_, Some(true)) => Some("destructive"),
            (Some(false), _) | (_, Some(false)) => Some("writes"),
            (None, None) => is_split.then_some("writes"),
        };
        let access = access.filter(|_| !whole || is_split).map(|access| format!(r#""access":"{access}""#));
        let right = if said.read_only == Some(true) { &suite.name } else { &suite.writing_name };
        let right = is_split.then(|| format!(r#""callWith":{}"#, quoted(right)));
        access.into_iter().chain(right).collect::<Vec<_>>().join(",")
    }
}
