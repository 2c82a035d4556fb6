//! A child's own list of tools, as it wrote them.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::value::RawValue;
use switchboard_wire::envelope::{METHOD_NOT_FOUND, Message, Outcome};
use switchboard_wire::members::Members;

use super::{Child, ChildError, Limits, quoted};
use crate::caller::Caller;
use crate::methods;

/// Ends for lists that have none.
const MAX_PAGES: usize = 200;
const MAX_TOOLS: usize = 10_000;

#[derive(Debug)]
pub struct Tool {
    pub name: Box<str>,
    pub description: Option<Box<str>>,
    /// The whole definition as the child wrote it.
    pub raw: Box<RawValue>,
    pub input_schema: Option<Box<RawValue>>,
}

#[derive(Debug, Default)]
pub struct ToolList {
    pub tools: Vec<Tool>,
}

impl ToolList {
    /// A tool without a name cannot be called; of two with one name only the first can.
    pub fn from_raw(raw: &[&RawValue]) -> Self {
        let mut names = HashSet::new();
        let tools = raw.iter().filter_map(|raw| tool(raw)).filter(|tool| names.insert(tool.name.clone()));
        Self { tools: tools.collect() }
    }

    pub fn find(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| &*tool.name == name)
    }
}

/// Where the list stays between uses.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    // A leaf lock: held to copy or replace the handle.
    list: Mutex<Option<Arc<ToolList>>>,
    /// Lets one caller ask while the others wait for what it gets.
    asking: tokio::sync::Mutex<()>,
    changed: tokio::sync::Notify,
}

impl Shelf {
    pub(super) fn known(&self) -> Option<Arc<ToolList>> {
        self.list.lock().expect("BUG: a shelf panicked").clone()
    }

    pub(super) fn outdate(&self) {
        *self.list.lock().expect("BUG: a shelf panicked") = None;
        self.changed.notify_one();
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) async fn get(&self, child: &Arc<Child>, limits: Limits) -> Result<Arc<ToolList>, ChildError> {
        if let Some(list) = self.known() {
            return Ok(list);
        }
        let _asking = self.asking.lock().await;
        match self.known() {
            Some(list) => Ok(list),
            None => self.ask(child, limits).await,
        }
    }

    pub(super) async fn renew(
        &self,
        child: &Arc<Child>,
        limits: Limits,
    ) -> Result<Arc<ToolList>, ChildError> {
        let _asking = self.asking.lock().await;
        self.ask(child, limits).await
    }

    async fn ask(&self, child: &Arc<Child>, limits: Limits) -> Result<Arc<ToolList>, ChildError> {
        let list = Arc::new(fetch(child, limits).await?);
        *self.list.lock().expect("BUG: a shelf panicked") = Some(list.clone());
        Ok(list)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(borrow, default)]
    tools: Vec<&'a RawValue>,
    next_cursor: Option<String>,
}

async fn fetch(child: &Arc<Child>, limits: Limits) -> Result<ToolList, ChildError> {
    let mut tools: Vec<Tool> = Vec::new();
    let mut names: HashSet<Box<str>> = HashSet::new();
    let mut cursors = HashSet::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let call = child.call(&Caller::deaf(), methods::TOOLS_LIST, None, |_, out| {
            if let Some(cursor) = &cursor {
                out.extend_from_slice(format!(r#"{{"cursor":{}}}"#, quoted(cursor)).as_bytes());
            }
        })?;
        let answer = call.answer(limits).await?;
        let Some(page) = page(&answer.body)? else { break };
        let page_tools = ToolList::from_raw(&page.tools).tools;
        tools.extend(page_tools.into_iter().filter(|tool| names.insert(tool.name.clone())));
        match page.next_cursor {
            Some(next) if tools.len() < MAX_TOOLS && cursors.insert(next.clone()) => cursor = Some(next),
            _ => break,
        }
    }
    Ok(ToolList { tools })
}

/// `None` for a child that has no tools at all.
fn page(body: &[u8]) -> Result<Option<Page<'_>>, ChildError> {
    let unusable = |why: String| ChildError::Unusable { why };
    match Message::parse(body) {
        Ok(Message::Response { outcome: Outcome::Result(result), .. }) => serde_json::from_str(result.get())
            .map(Some)
            .map_err(|error| unusable(format!("answered `tools/list` wrongly: {error}"))),
        Ok(Message::Response { outcome: Outcome::Error(error), .. }) => {
            let code = Members::of(error).and_then(|error| error.get("code"));
            if code.is_some_and(|code| code.get() == METHOD_NOT_FOUND.to_string()) {
                return Ok(None);
            }
            Err(unusable(format!("refused `tools/list`: {}", error.get())))
        }
        _ => Err(unusable("answered `tools/list` with something else".to_owned())),
    }
}

fn tool(raw: &RawValue) -> Option<Tool> {
    let members = Members::of(raw)?;
    Some(Tool {
        name: members.text("name")?.into(),
        description: members.text("description").map(Into::into),
        input_schema: members.get("inputSchema").map(ToOwned::to_owned),
        raw: raw.to_owned(),
    })
}
