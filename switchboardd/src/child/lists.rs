//! Fetches the lists of a child page by page, and caches its prompts, resources and templates.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use serde::de::Deserialize;
use serde_json::value::RawValue;
use switchboard_mcp::methods;
use switchboard_wire::envelope::{METHOD_NOT_FOUND, Message, Outcome, quoted};
use switchboard_wire::event_loop::run_blocking;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use tokio::sync::Notify;

use super::{Child, ChildError, Limits, clip};

/// Bounds for a child that pages without end.
const MAX_PAGES: usize = 200;
const MAX_ITEMS: usize = 10_000;
/// Limit for the tool list, and again for all other lists of a child together. Each list is stored about
/// twice (as written and parsed), and a child may cost 32 MiB.
const MAX_BYTES: usize = 6 * 1024 * 1024;
/// How many bytes of definitions the event loop may look through in one go.
pub(super) const LITTLE_WORK: usize = 32 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl ListKind {
    pub fn method(self) -> &'static str {
        match self {
            Self::Tools => methods::TOOLS_LIST,
            Self::Prompts => methods::PROMPTS_LIST,
            Self::Resources => methods::RESOURCES_LIST,
            Self::Templates => methods::TEMPLATES_LIST,
        }
    }

    /// The member of a page that holds the items.
    pub fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// The member that identifies an item.
    pub fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    /// The capability that a child needs to have this list.
    fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::Templates => "resources",
        }
    }
}

/// A prompt, a resource or a template, as its child wrote it.
#[derive(Debug, Clone)]
pub struct ListItem {
    /// Its name, URI or template.
    pub key: Box<str>,
    pub raw: Box<RawValue>,
}

/// Prompts, resources and templates of a child.
#[derive(Debug, Clone, Default)]
pub struct ChildItems {
    pub prompts: Vec<ListItem>,
    pub resources: Vec<ListItem>,
    pub templates: Vec<ListItem>,
}

impl ChildItems {
    pub fn of(&self, list: ListKind) -> &[ListItem] {
        match list {
            ListKind::Tools => &[],
            ListKind::Prompts => &self.prompts,
            ListKind::Resources => &self.resources,
            ListKind::Templates => &self.templates,
        }
    }
}

/// The items that have a key; the first one if several have the same key.
pub fn offers<'a>(list: ListKind, items: impl Iterator<Item = &'a RawValue>) -> Vec<ListItem> {
    let mut known = HashSet::new();
    let offer = |raw: &RawValue| {
        let key: Box<str> = Members::of(raw)?.text(list.key())?.into();
        known.insert(key.clone()).then(|| ListItem { key, raw: raw.to_owned() })
    };
    items.filter_map(offer).collect()
}

/// Cache of a child's prompts, resources and templates.
#[derive(Debug, Default)]
pub(super) struct OfferCache {
    // A leaf lock: held to copy or replace the handle.
    state: Mutex<OfferCacheState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct OfferCacheState {
    offers: Option<Arc<ChildItems>>,
    /// How often the cache was invalidated.
    generation: u64,
}

impl OfferCache {
    /// The cached offers, or else the generation to fetch.
    fn cached(&self) -> Result<Arc<ChildItems>, u64> {
        let state = self.lock();
        state.offers.clone().ok_or(state.generation)
    }

    /// Stores `offers` unless the child said during the fetch that they changed.
    fn store(&self, generation: u64, offers: &Arc<ChildItems>) {
        let mut state = self.lock();
        if state.generation == generation {
            state.offers = Some(offers.clone());
        }
    }

    pub(super) fn invalidate(&self) {
        {
            let mut state = self.lock();
            state.offers = None;
            state.generation += 1;
        }
        self.changed.notify_one();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, OfferCacheState> {
        self.state.lock().expect("BUG: a copy panicked")
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Child {
    /// Its prompts, resources and templates: cached, and fetched again after the child
    /// said that they changed.
    pub async fn offers(self: &Arc<Self>, limits: Limits) -> Result<Arc<ChildItems>, ChildError> {
        let generation = match self.offer_cache.cached() {
            Ok(known) => return Ok(known),
            Err(generation) => generation,
        };
        let mut bytes = 0;
        let offers = Arc::new(ChildItems {
            prompts: self.offered(ListKind::Prompts, limits, &mut bytes).await?,
            resources: self.offered(ListKind::Resources, limits, &mut bytes).await?,
            templates: self.offered(ListKind::Templates, limits, &mut bytes).await?,
        });
        self.offer_cache.store(generation, &offers);
        Ok(offers)
    }

    async fn offered(
        self: &Arc<Self>,
        list: ListKind,
        limits: Limits,
        bytes: &mut usize,
    ) -> Result<Vec<ListItem>, ChildError> {
        if !self.server_info().has_capability(list.capability()) {
            return Ok(Vec::new());
        }
        let before = *bytes;
        let items = fetch(self, list, limits, bytes).await?;
        Ok(off_the_loop(*bytes - before, move || offers(list, items.iter().map(|item| &**item))).await)
    }
}

/// Fetches all pages of a list; empty if the child does not know the method. Adds the size of
/// the answers to `bytes`.
pub(super) async fn fetch(
    child: &Arc<Child>,
    list: ListKind,
    limits: Limits,
    bytes: &mut usize,
) -> Result<Vec<Box<RawValue>>, ChildError> {
    let mut items: Vec<Box<RawValue>> = Vec::new();
    let mut cursors = HashSet::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let params = cursor.map_or_else(String::new, |cursor| format!(r#"{{"cursor":{}}}"#, quoted(&cursor)));
        let call = child.request(list.method(), params.as_bytes())?;
        let body = call.answer(limits).await?.body;
        let size = body.len();
        let page = off_the_loop(size, move || page(&body, list)).await;
        let page = page.map_err(|error| error.without_values(child.stderr.hidden()))?;
        let Some(page) = page else { break };
        *bytes += size;
        if *bytes > MAX_BYTES {
            let why =
                format!("lists more than {} MiB (`{}`), which is not read", MAX_BYTES >> 20, list.method());
            return Err(ChildError::Unusable { why });
        }
        items.extend(page.items);
        match page.next {
            Some(next) if items.len() < MAX_ITEMS && cursors.insert(next.clone()) => cursor = Some(next),
            _ => break,
        }
    }
    Ok(items)
}

/// Reads `size` bytes of lists: on another thread if the event loop would take too long.
pub(super) async fn off_the_loop<T: Send + 'static>(
    size: usize,
    read: impl FnOnce() -> T + Send + 'static,
) -> T {
    if size > LITTLE_WORK { run_blocking(read).await } else { read() }
}

struct Page {
    items: Vec<Box<RawValue>>,
    next: Option<String>,
}

/// `None` if the child does not have this list.
fn page(body: &[u8], list: ListKind) -> Result<Option<Page>, ChildError> {
    let unusable = |why: String| ChildError::Unusable { why };
    let method = list.method();
    match Message::parse(body) {
        Ok(Message::Response { outcome: Outcome::Result(result), .. }) => read(result, list)
            .map(Some)
            .map_err(|error| unusable(format!("answered `{method}` wrongly: {error}"))),
        Ok(Message::Response { outcome: Outcome::Error(error), .. }) => {
            let code = Members::of(error).and_then(|error| error.get("code"));
            if code.is_some_and(|code| code.get() == METHOD_NOT_FOUND.to_string()) {
                return Ok(None);
            }
            Err(unusable(format!("refused `{method}`: {}", clip(error.get()))))
        }
        _ => Err(unusable(format!("answered `{method}` with something else"))),
    }
}

fn read(result: Raw<'_>, list: ListKind) -> Result<Page, String> {
    fn part<'a, T: Deserialize<'a> + Default>(members: &Members<'a>, name: &str) -> Result<T, String> {
        members
            .get(name)
            .map_or_else(|| Ok(T::default()), |raw| serde_json::from_str(raw.get()))
            .map_err(|error| error.to_string())
    }
    let members = Members::of(result).ok_or("not an object")?;
    Ok(Page { items: part(&members, list.member())?, next: part(&members, "nextCursor")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_and_mistakes_named() {
        let read = |result: &str| {
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,{result}}}"#);
            page(body.as_bytes(), ListKind::Templates)
                .map(|page| page.map(|page| (page.items.len(), page.next)))
        };
        let full = read(r#""result":{"resourceTemplates":[{"uriTemplate":"a:{x}"}],"nextCursor":""}"#);
        assert_eq!(full, Ok(Some((1, Some(String::new())))));
        assert_eq!(read(r#""result":{"resourceTemplates":[],"nextCursor":null}"#), Ok(Some((0, None))));
        assert_eq!(read(r#""result":{}"#), Ok(Some((0, None))));
        assert_eq!(read(r#""error":{"code":-32601,"message":"no"}"#), Ok(None));
        assert!(read(r#""error":{"code":-32000,"message":"no"}"#).is_err());
        assert!(read(r#""result":[]"#).is_err());
    }

    #[test]
    fn offers_have_unique_keys() {
        let items = [r#"{"uri":"a:1","x":1.0}"#, r#"{"name":"b"}"#, r#"{"uri":"a:1"}"#]
            .map(|text| RawValue::from_string(text.to_owned()).unwrap());
        let offers = offers(ListKind::Resources, items.iter().map(|item| &**item));
        assert_eq!(offers.len(), 1);
        assert_eq!(offers[0].raw.get(), r#"{"uri":"a:1","x":1.0}"#);
    }

    #[test]
    fn offers_that_changed_during_the_fetch_are_not_cached() {
        let offer_cache = OfferCache::default();
        let generation = offer_cache.cached().unwrap_err();
        offer_cache.invalidate();
        offer_cache.store(generation, &Arc::default());
        let generation = offer_cache.cached().expect_err("it is asked for again");
        offer_cache.store(generation, &Arc::default());
        assert!(offer_cache.cached().is_ok());
    }
}
