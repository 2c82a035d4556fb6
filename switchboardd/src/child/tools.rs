//! A child's tools, as it wrote them, and their cache.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::value::RawValue;
use switchboard_mcp::era::headers::header_schema_error;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use switchboard_wire::visible::visible;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::annotations::Annotations;
use super::lists::{self, ListKind};
use super::{Child, ChildError, Limits};
use crate::search::{ToolText, ToolWords};
use crate::signature::Signature;

#[derive(Debug, Clone)]
pub struct Tool {
    pub name: Box<str>,
    pub description: Option<Box<str>>,
    /// The whole definition as the child wrote it.
    pub raw: Box<RawValue>,
    pub input_schema: Option<Box<RawValue>>,
    /// Argument names of the schema, parsed once and not per call.
    pub names: ArgumentNames,
    pub annotations: Annotations,
}

/// Keywords that make a schema more than a list of properties. Only the server can validate such a schema.
const COMPOSING_KEYWORDS: [&str; 12] = [
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "patternProperties",
];

/// Argument names that a call must have and may have. Rejects only what the server would certainly refuse: a
/// schema that cannot be read rejects nothing, and an argument with a default is not required.
#[derive(Debug, Clone, Default)]
pub struct ArgumentNames {
    pub required: Vec<Box<str>>,
    /// The only names allowed, if the schema forbids others.
    pub only: Option<Vec<Box<str>>>,
}

impl ArgumentNames {
    pub fn of(schema: Raw<'_>) -> Self {
        let Some(schema) = Members::of(schema) else { return Self::default() };
        let is_object = schema.get("type").is_none_or(|kind| kind.get() == r#""object""#);
        if !is_object || COMPOSING_KEYWORDS.iter().any(|key| schema.get(key).is_some()) {
            return Self::default();
        }
        let properties = schema.get("properties").and_then(Members::of).unwrap_or_default();
        let required: Option<Vec<Box<str>>> =
            schema.get("required").and_then(|names| serde_json::from_str(names.get()).ok());
        let mut required = required.unwrap_or_default();
        required.retain(|name| properties.get(name).and_then(Members::of).is_some_and(|it| is_missed(&it)));
        let closed = schema.get("additionalProperties").is_some_and(|more| more.get() == "false");
        let known = || properties.0.iter().map(|(name, _)| (&**name).into()).collect();
        Self { required, only: closed.then(known) }
    }
}

/// Whether the server certainly needs this required property. A composed schema may hide a default.
fn is_missed(property: &Members<'_>) -> bool {
    property.get("default").is_none() && COMPOSING_KEYWORDS.iter().all(|key| property.get(key).is_none())
}

#[derive(Debug, Default)]
pub struct ToolList {
    pub tools: Vec<Tool>,
    /// Made when a model first asks for them.
    signatures: OnceLock<Vec<Signature>>,
    words: OnceLock<Vec<ToolWords>>,
}

impl ToolList {
    /// Skips tools without a name, and all but the first of those with the same name. If these differ in their hints,
    /// none counts: nobody knows which of them runs.
    pub fn from_raw(raw: &[&RawValue]) -> Self {
        let (mut tools, mut places) = (Vec::<Tool>::new(), HashMap::new());
        for tool in raw.iter().filter_map(|raw| tool(raw)) {
            match places.entry(tool.name.clone()) {
                Entry::Vacant(place) => {
                    place.insert(tools.len());
                    tools.push(tool);
                }
                Entry::Occupied(place) => {
                    let first = &mut tools[*place.get()];
                    if first.annotations != tool.annotations {
                        first.annotations = Annotations::default();
                    }
                }
            }
        }
        Self::from(tools)
    }

    /// Whether the definitions are the same, in the same order.
    fn is_same(&self, other: &Self) -> bool {
        let pairs = || self.tools.iter().zip(&other.tools);
        self.tools.len() == other.tools.len() && pairs().all(|(one, other)| one.raw.get() == other.raw.get())
    }

    /// The signature of each tool.
    pub fn signatures(&self) -> &[Signature] {
        self.signatures.get_or_init(|| self.tools.iter().map(Tool::signature).collect())
    }

    /// What each tool is found by.
    pub fn words(&self) -> &[ToolWords] {
        self.words.get_or_init(|| self.tools.iter().map(Tool::words).collect())
    }

    /// Whether looking through it would take the event loop too long.
    pub fn is_large(&self) -> bool {
        self.tools.len() > FEW_TOOLS
            || self.tools.iter().map(|tool| tool.raw.get().len()).sum::<usize>() > lists::LITTLE_WORK
    }

    pub fn find(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| &*tool.name == name)
    }
}

impl Clone for ToolList {
    /// Without what is made on demand.
    fn clone(&self) -> Self {
        Self::from(self.tools.clone())
    }
}

impl From<Vec<Tool>> for ToolList {
    fn from(tools: Vec<Tool>) -> Self {
        Self { tools, signatures: OnceLock::new(), words: OnceLock::new() }
    }
}

impl Tool {
    /// Whether looking through its definition would take the event loop too long.
    pub fn is_large(&self) -> bool {
        self.raw.get().len() > lists::LITTLE_WORK
    }

    pub fn signature(&self) -> Signature {
        Signature::of(&self.name, self.input_schema.as_deref().map(Into::into))
    }

    /// Whether its schema names this argument.
    pub fn takes(&self, argument: &str) -> bool {
        let schema = self.input_schema.as_deref().and_then(Members::of);
        let properties = schema.and_then(|schema| schema.get("properties")).and_then(Members::of);
        properties.is_some_and(|properties| properties.get(argument).is_some())
    }

    fn words(&self) -> ToolWords {
        let members = Members::of(&*self.raw).unwrap_or_default();
        let title = members.text("title").or_else(|| {
            members.get("annotations").and_then(Members::of).and_then(|annotations| annotations.text("title"))
        });
        ToolWords::of(ToolText {
            name: &self.name,
            title: title.as_deref(),
            description: self.description.as_deref().unwrap_or_default(),
            schema: self.input_schema.as_deref().map(Into::into),
        })
    }
}

/// How many tools the event loop may look through in one go.
const FEW_TOOLS: usize = 64;

/// Cache of a child's tool list.
#[derive(Debug, Default)]
pub(super) struct ToolCache {
    // A leaf lock: held to copy or replace handles.
    state: Mutex<ToolCacheState>,
    changed: Notify,
}

type FetchResult = Result<Arc<ToolList>, ChildError>;

#[derive(Debug, Default)]
struct ToolCacheState {
    list: Option<Arc<ToolList>>,
    /// How often the child said that its tools changed.
    generation: u64,
    /// The fetch in flight, shared by all callers.
    open: Option<watch::Receiver<Option<FetchResult>>>,
    failed: Option<(Instant, ChildError)>,
}

impl ToolCache {
    pub(super) fn cached(&self) -> Option<Arc<ToolList>> {
        self.lock().list.clone()
    }

    pub(super) fn invalidate(&self) {
        {
            let mut state = self.lock();
            state.list = None;
            state.generation += 1;
        }
        self.changed.notify_one();
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) async fn get(&self, child: &Arc<Child>, limits: Limits, asked: Instant) -> FetchResult {
        {
            let state = self.lock();
            if let Some(list) = &state.list {
                return Ok(list.clone());
            }
            // The fetch failed while this caller waited for its turn: it gets the same error.
            if let Some((_, error)) = state.failed.as_ref().filter(|(when, _)| *when >= asked) {
                return Err(error.clone());
            }
        }
        self.refresh(child, limits).await
    }

    /// Starts a fetch, or joins the one in flight.
    pub(super) async fn refresh(&self, child: &Arc<Child>, limits: Limits) -> FetchResult {
        let mut open = {
            let mut state = self.lock();
            match &state.open {
                Some(open) => open.clone(),
                None => {
                    let (tell, open) = watch::channel(None);
                    state.open = Some(open.clone());
                    tokio::spawn(refresh_once(child.clone(), limits, state.generation, tell));
                    open
                }
            }
        };
        match open.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(fetched)) => fetched.clone(),
            _ => Err(ChildError::Stopped),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ToolCacheState> {
        self.state.lock().expect("BUG: a cache update panicked")
    }
}

/// Fetches the list once for all callers. A list that changed during the fetch is returned, but not cached.
async fn refresh_once(
    child: Arc<Child>,
    limits: Limits,
    generation: u64,
    tell: watch::Sender<Option<FetchResult>>,
) {
    let fetched = fetch(&child, limits).await.map(Arc::new);
    let replaced = {
        let mut state = child.tool_cache.lock();
        state.open = None;
        match &fetched {
            Ok(list) if state.generation == generation => state.list.replace(list.clone()),
            Ok(_) => None,
            Err(error) => {
                state.failed = Some((Instant::now(), error.clone()));
                None
            }
        }
    };
    // The child did not say that its tools changed.
    if let (Some(before), Ok(list)) = (replaced, &fetched)
        && !before.is_same(list)
    {
        child.tool_cache.changed.notify_one();
    }
    tell.send_replace(Some(fetched));
}

async fn fetch(child: &Arc<Child>, limits: Limits) -> Result<ToolList, ChildError> {
    let mut bytes = 0;
    let items = lists::fetch(child, ListKind::Tools, limits, &mut bytes).await?;
    let child = child.clone();
    let read = move || {
        let usable = items.iter().map(|item| &**item).filter(|tool| child.may_use(tool));
        ToolList::from_raw(&usable.collect::<Vec<_>>())
    };
    Ok(lists::off_the_loop(bytes, read).await)
}

impl Child {
    /// Whether the tool can be called over this child's transport.
    fn may_use(&self, tool: &RawValue) -> bool {
        if !self.transport.repeats_arguments() {
            return true;
        }
        let Some(tool) = Members::of(tool) else { return true };
        let Some(error) = tool.get("inputSchema").and_then(header_schema_error) else { return true };
        let name = tool.text("name").unwrap_or_default();
        tracing::warn!(target: "server", server = self.name(), "tool `{}` is left out: {error}", visible(&name));
        false
    }
}

fn tool(raw: &RawValue) -> Option<Tool> {
    let members = Members::of(raw)?;
    let schema = members.get("inputSchema");
    Some(Tool {
        name: members.text("name")?.into(),
        description: members.text("description").map(Into::into),
        names: schema.map(ArgumentNames::of).unwrap_or_default(),
        annotations: members.get("annotations").map(Annotations::of).unwrap_or_default(),
        input_schema: schema.and_then(|schema| RawValue::from_string(schema.get().to_owned()).ok()),
        raw: raw.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(tools: &[&str]) -> ToolList {
        let raw = tools.iter().map(|tool| RawValue::from_string((*tool).to_owned()));
        let raw: Vec<Box<RawValue>> = raw.collect::<Result<_, _>>().expect("valid JSON");
        ToolList::from_raw(&raw.iter().map(|tool| &**tool).collect::<Vec<_>>())
    }

    #[test]
    fn a_tool_that_is_listed_twice_has_only_the_hints_of_both() {
        const READS: &str = r#"{"name":"a","annotations":{"readOnlyHint":true}}"#;
        const WRITES: &str = r#"{"name":"a","annotations":{"readOnlyHint":false}}"#;
        for (tools, read_only) in
            [([READS, READS], Some(true)), ([READS, WRITES], None), ([READS, r#"{"name":"a"}"#], None)]
        {
            let list = list(&tools);
            assert_eq!((list.tools.len(), list.tools[0].annotations.read_only), (1, read_only));
        }
    }

    #[test]
    fn lists_are_the_same_if_their_definitions_are() {
        let one = list(&[r#"{"name":"a"}"#, r#"{"name":"b"}"#]);
        assert!(one.is_same(&list(&[r#"{"name":"a"}"#, r#"{"name":"b"}"#])));
        for other in [&[r#"{"name":"a"}"#] as &[_], &[r#"{"name":"b"}"#, r#"{"name":"a"}"#], &[]] {
            assert!(!one.is_same(&list(other)));
        }
    }
}
