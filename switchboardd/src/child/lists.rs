//! The lists that a child offers, fetched page by page, and what they hold besides tools.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::de::Deserialize;
use serde_json::value::RawValue;
use switchboard_wire::envelope::{METHOD_NOT_FOUND, Message, Outcome, quoted};
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use tokio::sync::Notify;

use super::{Child, ChildError, ChildId, Limits, Tie, clip};
use crate::caller::LogLevel;
use crate::era::Era;
use crate::methods;

/// Ends for lists that have none.
const MAX_PAGES: usize = 200;
const MAX_ITEMS: usize = 10_000;
/// What the lists of one child may have, the tools and all others together. Each is kept about twice (as it was
/// written and taken apart), and a child may cost 32 MiB.
const MAX_BYTES: usize = 6 * 1024 * 1024;

/// How long a modern child may take to say that it tells of a resource.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(2);

/// How long an answer is awaited that nobody reads.
const MINUTE: Duration = Duration::from_secs(60);
const PATIENT: Limits = Limits { spawn: MINUTE, rpc: MINUTE, max: MINUTE };

/// What one list is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum List {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl List {
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

    /// The member of an item that it is known by.
    pub fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    /// The capability without which there is no such list.
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
pub struct Offer {
    /// Its name, URI or template.
    pub key: Box<str>,
    pub raw: Box<RawValue>,
}

/// What a child offers besides tools.
#[derive(Debug, Clone, Default)]
pub struct Offers {
    pub prompts: Vec<Offer>,
    pub resources: Vec<Offer>,
    pub templates: Vec<Offer>,
}

impl Offers {
    pub fn of(&self, list: List) -> &[Offer] {
        match list {
            List::Tools => &[],
            List::Prompts => &self.prompts,
            List::Resources => &self.resources,
            List::Templates => &self.templates,
        }
    }
}

/// The items that have a key, each key once.
pub fn offers<'a>(list: List, items: impl Iterator<Item = &'a RawValue>) -> Vec<Offer> {
    let mut known = HashSet::new();
    let offer = |raw: &RawValue| {
        let key: Box<str> = Members::of(raw)?.text(list.key())?.into();
        known.insert(key.clone()).then(|| Offer { key, raw: raw.to_owned() })
    };
    items.filter_map(offer).collect()
}

/// Where a child's offers stay between uses.
#[derive(Debug, Default)]
pub(super) struct Stall {
    // A leaf lock: held to copy or replace the handle.
    shelf: Mutex<Shelf>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Shelf {
    offers: Option<Arc<Offers>>,
    /// How often they changed.
    generation: u64,
}

impl Stall {
    /// What is known, or the generation that is to be asked for.
    fn look(&self) -> Result<Arc<Offers>, u64> {
        let shelf = self.shelf();
        shelf.offers.clone().ok_or(shelf.generation)
    }

    /// What changed while it was asked for is asked for again.
    fn put(&self, generation: u64, offers: &Arc<Offers>) {
        let mut shelf = self.shelf();
        if shelf.generation == generation {
            shelf.offers = Some(offers.clone());
        }
    }

    pub(super) fn outdate(&self) {
        {
            let mut shelf = self.shelf();
            shelf.offers = None;
            shelf.generation += 1;
        }
        self.changed.notify_one();
    }

    fn shelf(&self) -> std::sync::MutexGuard<'_, Shelf> {
        self.shelf.lock().expect("BUG: a copy panicked")
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Child {
    /// What it offers besides tools, asked for once and again when it says that it changed.
    pub async fn offers(self: &Arc<Self>, limits: Limits) -> Result<Arc<Offers>, ChildError> {
        let generation = match self.stall.look() {
            Ok(known) => return Ok(known),
            Err(generation) => generation,
        };
        let mut bytes = 0;
        let offers = Arc::new(Offers {
            prompts: self.offered(List::Prompts, limits, &mut bytes).await?,
            resources: self.offered(List::Resources, limits, &mut bytes).await?,
            templates: self.offered(List::Templates, limits, &mut bytes).await?,
        });
        self.stall.put(generation, &offers);
        Ok(offers)
    }

    async fn offered(
        self: &Arc<Self>,
        list: List,
        limits: Limits,
        bytes: &mut usize,
    ) -> Result<Vec<Offer>, ChildError> {
        if !self.hello().declares(list.capability()) {
            return Ok(Vec::new());
        }
        let items = fetch(self, list, limits, bytes).await?;
        Ok(offers(list, items.iter().map(|item| &**item)))
    }
}

impl Child {
    /// Its server has begun with it anew, and knows nothing of what it was told before.
    pub(super) fn is_new_again(self: &Arc<Self>) {
        self.follow(&self.followed(), true);
        let level = *self.level.lock().expect("BUG: a copy panicked");
        level.into_iter().for_each(|level| self.set_level(level));
        self.tools.outdate();
        self.stall.outdate();
    }

    /// The resources that are followed by those whom it serves.
    pub fn followed(&self) -> Vec<Box<str>> {
        match self.tie() {
            Tie::Nobody => self.subscriptions.followed(None),
            Tie::Session(owner) => self.subscriptions.followed(Some(&owner)),
            Tie::Spare => Vec::new(),
        }
    }

    /// Somebody whom it serves follows one of its resources: it is needed although nobody calls it.
    pub fn is_followed(&self) -> bool {
        !self.followed().is_empty()
    }

    /// Has it tell of changes of these resources, or no longer. Nobody waits for its answers.
    pub fn follow(self: &Arc<Self>, uris: &[Box<str>], follow: bool) {
        if self.era() == Era::Modern {
            if !uris.is_empty() {
                self.refollow.notify_one();
            }
            return;
        }
        let method = if follow { methods::SUBSCRIBE } else { methods::UNSUBSCRIBE };
        for uri in uris {
            let params = |_, out: &mut Vec<u8>| {
                out.extend_from_slice(format!(r#"{{"uri":{}}}"#, quoted(uri)).as_bytes());
            };
            self.tell(method, params);
        }
    }

    /// The same of a modern child, up to its word that it does, which it has to give soon.
    pub async fn follow_surely(self: &Arc<Self>, uri: &str) {
        let acknowledged = self.acknowledged.notified();
        self.follow(&[uri.into()], true);
        let _ = tokio::time::timeout(ACKNOWLEDGED_WITHIN, acknowledged).await;
    }

    /// Has it log from this level on, if it logs at all.
    pub fn set_level(self: &Arc<Self>, level: LogLevel) {
        *self.level.lock().expect("BUG: a copy panicked") = Some(level);
        // A modern one is told with every request.
        if self.era() == Era::Legacy && self.hello.get().is_some_and(|hello| hello.declares("logging")) {
            let params = format!(r#"{{"level":"{}"}}"#, level.word());
            self.tell(methods::SET_LEVEL, |_, out| out.extend_from_slice(params.as_bytes()));
        }
    }

    /// Sends a request of our own whose answer changes nothing.
    fn tell(self: &Arc<Self>, method: &str, params: impl FnOnce(ChildId, &mut Vec<u8>)) {
        if let Ok(call) = self.call(None, method, None, params) {
            tokio::spawn(call.answer(PATIENT));
        }
    }
}

/// All pages of a list; nothing of a child that does not know the method. `bytes`: how long it was, added to what
/// others of it were.
pub(super) async fn fetch(
    child: &Arc<Child>,
    list: List,
    limits: Limits,
    bytes: &mut usize,
) -> Result<Vec<Box<RawValue>>, ChildError> {
    let mut items: Vec<Box<RawValue>> = Vec::new();
    let mut cursors = HashSet::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let call = child.call(None, list.method(), None, |_, out| {
            if let Some(cursor) = &cursor {
                out.extend_from_slice(format!(r#"{{"cursor":{}}}"#, quoted(cursor)).as_bytes());
            }
        })?;
        let answer = call.answer(limits).await?;
        let page = page(&answer.body, list);
        let page = page.map_err(|error| error.without_values(child.stderr.hidden()))?;
        let Some(page) = page else { break };
        *bytes += answer.body.len();
        if *bytes > MAX_BYTES {
            let why = format!("its lists are longer than {} MiB (at `{}`)", MAX_BYTES >> 20, list.method());
            return Err(ChildError::Unusable { why });
        }
        items.extend(page.items.into_iter().map(ToOwned::to_owned));
        match page.next {
            Some(next) if items.len() < MAX_ITEMS && cursors.insert(next.clone()) => cursor = Some(next),
            _ => break,
        }
    }
    Ok(items)
}

struct Page<'a> {
    items: Vec<&'a RawValue>,
    next: Option<String>,
}

/// `None` for a child that has no such list at all.
fn page(body: &[u8], list: List) -> Result<Option<Page<'_>>, ChildError> {
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

fn read(result: Raw<'_>, list: List) -> Result<Page<'_>, String> {
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
            page(body.as_bytes(), List::Templates).map(|page| page.map(|page| (page.items.len(), page.next)))
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
    fn an_offer_has_a_key_that_no_other_has() {
        let items = [r#"{"uri":"a:1","x":1.0}"#, r#"{"name":"b"}"#, r#"{"uri":"a:1"}"#]
            .map(|text| RawValue::from_string(text.to_owned()).unwrap());
        let offers = offers(List::Resources, items.iter().map(|item| &**item));
        assert_eq!(offers.len(), 1);
        assert_eq!(offers[0].raw.get(), r#"{"uri":"a:1","x":1.0}"#);
    }

    #[test]
    fn what_changed_while_it_was_asked_for_is_not_known() {
        let stall = Stall::default();
        let generation = stall.look().unwrap_err();
        stall.outdate();
        stall.put(generation, &Arc::default());
        let generation = stall.look().expect_err("it is asked for again");
        stall.put(generation, &Arc::default());
        assert!(stall.look().is_ok());
    }
}
