//! The entries of `tools/list`, formatted when what is known about a server changes and not per request.
//!
//! A server that fails and recovers all the time changes its entry all the time. Each suite may change a few
//! times at once, then once per `REFILL`: hosts fetch the whole list after every change, and it is in the
//! cache of their model.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use switchboard_definitions::digest;
use switchboard_mcp::era::ProtocolEra;
use switchboard_wire::rpc;
use tokio::time::Instant;

use super::ShownTools;
use super::shown_tools::ShownTarget;
use super::tool_names::{self, OwnToolNames};
use crate::pool::manifest::Manifest;
use crate::suite::description::{ListedTool, SuiteFacts};
use crate::suite::{ListedSuite, ShownForm, Suite, SuitePart};
use crate::suite::{find_tool, own_words};

const BURST: u32 = 4;
const REFILL: Duration = Duration::from_secs(30);

/// The longest instructions, in characters. Hosts put all of it into each session.
const INSTRUCTIONS: usize = 360;
/// How much one server can add to them.
const OWN_INSTRUCTIONS: usize = 150;

const ALL_ARE_SUITES: &str = "Each tool here is a suite: one MCP server and its subtools.";
/// If some servers are shown as their own tools.
const SOME_ARE_SUITES: &str = "A tool here that takes `action` is a suite: one MCP server and its subtools.";
const HOW_TO: &str = " {\"action\":\"introspect\",\"query\":\"what you want to do\"} finds subtools (without `query`: all), {\"action\":\"call\",\"subtool\":…,\"args\":{…}} runs one.";

/// For servers that are shown as two tools.
const WRITING_TOOLS: &str =
    " What writes is called with the suite's tool that ends in `_write`, if there is one.";

/// Fingerprints of the tool list, as most hosts see it and with `_meta`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolPrints {
    pub plain: u128,
    pub with_meta: u128,
}

impl ToolPrints {
    /// For a list that is the same for every host.
    pub fn of(list: &str) -> Self {
        let print = digest::short(list.as_bytes());
        Self { plain: print, with_meta: print }
    }

    /// The sum over all entries does not depend on the order in which they changed.
    fn of_entry(at: usize, tools: &[ListedTool]) -> Self {
        let print = |with_meta: bool| {
            let mut text = at.to_string();
            for tool in tools {
                let meta = tool.meta.as_deref().filter(|_| with_meta).unwrap_or_default();
                text.extend(["\n", &*tool.tool, "\n", meta]);
            }
            digest::short(text.as_bytes())
        };
        Self { plain: print(false), with_meta: print(true) }
    }

    fn add(&mut self, new: Self) {
        self.plain = self.plain.wrapping_add(new.plain);
        self.with_meta = self.with_meta.wrapping_add(new.with_meta);
    }

    fn remove(&mut self, old: Option<Self>) {
        let old = old.unwrap_or_default();
        self.plain = self.plain.wrapping_sub(old.plain);
        self.with_meta = self.with_meta.wrapping_sub(old.with_meta);
    }
}

#[derive(Debug, Default)]
pub(super) struct ListedTools {
    // A leaf lock: held to copy the entries, or to format those that changed.
    list: Mutex<ListedEntries>,
    /// Entries that another thread has formatted for the next `renew`, by their place.
    // A leaf lock: held to put or take them.
    prepared: Mutex<HashMap<usize, PreparedSuite>>,
}

#[derive(Debug)]
struct PreparedSuite {
    /// What it was made from.
    facts: SuiteFacts,
    before: ShownForm,
    listed: ListedSuite,
}

#[derive(Debug, Default)]
struct ListedEntries {
    /// Comes first.
    find_tool: Option<String>,
    find_tool_name: Option<&'static str>,
    /// In the order of the catalog's suites.
    entries: Vec<Entry>,
    prints: ToolPrints,
    instructions: String,
    /// What its tools stand for; built when a host is shown the list.
    shown: Option<Arc<ShownTools>>,
}

#[derive(Debug)]
struct Entry {
    facts: SuiteFacts,
    /// Describes the server until the one that is defined now has run.
    earlier: Option<Arc<Manifest>>,
    listed: ListedSuite,
    /// A digest of the tools as they were made, before some of them got other names.
    made: u128,
    /// `None` until they are computed for `listed`.
    prints: Option<ToolPrints>,
    limit: ChangeLimit,
}

impl Entry {
    fn new(suite: &Suite, facts: SuiteFacts) -> Self {
        let listed = suite.listed_suite(&facts, ShownForm::Suite);
        let made = made(&listed);
        Self { facts, earlier: None, listed, made, prints: None, limit: ChangeLimit::default() }
    }

    /// What it is to be made from now, if that is something else.
    fn changed(&self, now: SuiteFacts) -> Option<SuiteFacts> {
        let manifest = now.manifest.or_else(|| self.earlier.clone());
        let facts = SuiteFacts { manifest, ..now };
        (!facts.is_same(&self.facts)).then_some(facts)
    }
}

impl ListedTools {
    /// `find_tool`: the name of the tool that searches all suites, if there is one. `is_reserved`: whether a suite or
    /// that tool has a name.
    pub(super) fn new(
        suites: &[Suite],
        find_tool: Option<&'static str>,
        is_reserved: impl Fn(&str) -> bool,
    ) -> Self {
        let mut list = ListedEntries {
            find_tool: find_tool.map(find_tool::definition),
            find_tool_name: find_tool,
            ..ListedEntries::default()
        };
        if let Some(tool) = &list.find_tool {
            list.prints = ToolPrints::of(tool);
        }
        list.entries = suites.iter().map(|suite| Entry::new(suite, suite.facts())).collect();
        list.settle(suites, is_reserved);
        Self { list: Mutex::new(list), prepared: Mutex::default() }
    }

    /// Formats the entries whose facts changed, for the next `renew`. This takes long where there are many tools, so the
    /// event loop does not do it.
    pub(super) fn prepare(&self, suites: &[Suite]) {
        let known: Vec<SuiteFacts> = suites.iter().map(Suite::facts).collect();
        let changed: Vec<(usize, SuiteFacts, ShownForm)> = {
            let list = self.lock();
            let changed = |(at, (facts, entry)): (usize, (SuiteFacts, &Entry))| {
                Some((at, entry.changed(facts)?, entry.listed.form))
            };
            known.into_iter().zip(&list.entries).enumerate().filter_map(changed).collect()
        };
        let made = changed.into_iter().map(|(at, facts, before)| {
            let listed = suites[at].listed_suite(&facts, before);
            (at, PreparedSuite { facts, before, listed })
        });
        let made = made.collect();
        *self.prepared.lock().expect("BUG: a note panicked") = made;
    }

    /// Formats the entries whose facts changed. Returns when to call this again, if an entry has to wait.
    pub(super) fn renew(
        &self,
        suites: &[Suite],
        is_reserved: impl Fn(&str) -> bool,
        now: Instant,
    ) -> Option<Instant> {
        let mut prepared = std::mem::take(&mut *self.prepared.lock().expect("BUG: a note panicked"));
        let mut list = self.lock();
        let list = &mut *list;
        let (mut changed, mut again) = (false, None::<Instant>);
        for (at, (suite, entry)) in suites.iter().zip(&mut list.entries).enumerate() {
            let Some(facts) = entry.changed(suite.facts()) else { continue };
            let before = entry.listed.form;
            let is_current = |made: &PreparedSuite| made.before == before && made.facts.is_same(&facts);
            let listed = match prepared.remove(&at).filter(is_current) {
                Some(made) => made.listed,
                None => suite.listed_suite(&facts, before),
            };
            let made = made(&listed);
            if made != entry.made {
                if let Err(later) = entry.limit.take(now) {
                    again = Some(again.map_or(later, |again| again.min(later)));
                    continue;
                }
                list.prints.remove(entry.prints.take());
                (entry.listed, entry.made) = (listed, made);
            } else {
                entry.listed.why_suite = listed.why_suite;
            }
            entry.facts = facts;
            changed = true;
        }
        if changed {
            list.settle(suites, is_reserved);
        }
        again
    }

    /// Describes the suites by what an earlier catalog knew of the same servers. `earlier`: for each suite, the
    /// manifest that it was described by and the form that hosts saw, if there are any.
    pub(super) fn keep(
        &self,
        suites: &[Suite],
        earlier: impl Fn(&Suite) -> Option<(Option<Arc<Manifest>>, ShownForm)>,
        is_reserved: impl Fn(&str) -> bool,
    ) {
        let mut list = self.lock();
        let list = &mut *list;
        let mut changed = false;
        for (suite, entry) in suites.iter().zip(&mut list.entries) {
            let Some((manifest, form)) = earlier(suite) else { continue };
            let manifest = manifest.filter(|_| entry.facts.manifest.is_none());
            if manifest.is_none() && form == entry.listed.form {
                continue;
            }
            if let Some(manifest) = manifest {
                entry.earlier = Some(manifest.clone());
                entry.facts.manifest = Some(manifest);
            }
            list.prints.remove(entry.prints.take());
            entry.listed = suite.listed_suite(&entry.facts, form);
            entry.made = made(&entry.listed);
            changed = true;
        }
        if changed {
            list.settle(suites, is_reserved);
        }
    }

    /// The manifest that an entry was made from, and the form in which hosts see the server.
    pub(super) fn known(&self, at: usize) -> Option<(Option<Arc<Manifest>>, ShownForm)> {
        let list = self.lock();
        let entry = list.entries.get(at)?;
        Some((entry.facts.manifest.clone(), entry.listed.form))
    }

    /// How hosts see a server, and why not as its own tools if the user prefers those.
    pub(super) fn form(&self, at: usize) -> (ShownForm, Option<String>) {
        let list = self.lock();
        let entry = list.entries.get(at);
        entry.map(|entry| (entry.listed.form, entry.listed.why_suite.clone())).unwrap_or_default()
    }

    /// The result of `tools/list`.
    pub(super) fn result(&self, era: ProtocolEra, with_meta: bool) -> String {
        let list = self.lock();
        let length =
            |tool: &ListedTool| tool.tool.len() + tool.meta.as_ref().map_or(0, |meta| meta.len()) + 2;
        let all = || list.entries.iter().flat_map(|entry| &entry.listed.tools);
        let find_tool = list.find_tool.as_deref().unwrap_or_default();
        let mut tools = String::with_capacity(find_tool.len() + all().map(length).sum::<usize>());
        tools.push_str(find_tool);
        for tool in all() {
            tools.push_str(if tools.is_empty() { "" } else { "," });
            let text = tool.legacy.as_ref().filter(|_| era == ProtocolEra::Legacy).unwrap_or(&tool.tool);
            match tool.meta.as_ref().filter(|_| with_meta) {
                Some(meta) => {
                    tools.push_str(text.strip_suffix('}').unwrap_or(text));
                    tools.push(',');
                    tools.push_str(meta);
                    tools.push('}');
                }
                None => tools.push_str(text),
            }
        }
        rpc::tools_result(&tools)
    }

    /// What the tools of the list stand for.
    pub(super) fn shown(&self, suites: &[Suite]) -> Arc<ShownTools> {
        let mut list = self.lock();
        if let Some(shown) = &list.shown {
            return shown.clone();
        }
        let tools = suites.iter().zip(&list.entries).flat_map(|(suite, entry)| {
            entry.listed.tools.iter().map(|tool| {
                let target =
                    ShownTarget { child: suite.child_name().into(), part: tool.part, own: tool.own.clone() };
                (tool.name.clone(), target)
            })
        });
        let shown = Arc::new(ShownTools::new(tools.collect()));
        list.shown = Some(shown.clone());
        shown
    }

    /// The entries of one suite as most hosts see them.
    pub(super) fn entries(&self, at: usize) -> Vec<String> {
        let list = self.lock();
        let tools = list.entries.get(at).map_or(&[][..], |entry| &entry.listed.tools);
        tools.iter().map(|tool| tool.tool.clone().into()).collect()
    }

    pub(super) fn prints(&self) -> ToolPrints {
        self.lock().prints
    }

    /// What the tool with a suite's own name reaches, as hosts are shown it now.
    pub(super) fn part(&self, at: usize) -> SuitePart {
        self.lock().entries.get(at).map(|entry| entry.listed.part).unwrap_or_default()
    }

    /// The entry of the tool that searches all suites; empty without one.
    pub(super) fn find_tool(&self) -> String {
        self.lock().find_tool.clone().unwrap_or_default()
    }

    pub(super) fn instructions(&self) -> String {
        self.lock().instructions.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ListedEntries> {
        self.list.lock().expect("BUG: a description panicked")
    }
}

impl ListedEntries {
    /// Brings everything in line with the entries: names, fingerprints, instructions.
    fn settle(&mut self, suites: &[Suite], is_reserved: impl Fn(&str) -> bool) {
        self.name_own_tools(suites, is_reserved);
        for (at, entry) in self.entries.iter_mut().enumerate().filter(|(_, entry)| entry.prints.is_none()) {
            let prints = ToolPrints::of_entry(at, &entry.listed.tools);
            self.prints.add(prints);
            entry.prints = Some(prints);
        }
        self.instructions = instructions(suites, &self.entries, self.find_tool_name);
        self.shown = None;
    }

    /// Gives each server's own tool the name under which it is listed.
    fn name_own_tools(&mut self, suites: &[Suite], is_reserved: impl Fn(&str) -> bool) {
        let places: Vec<usize> =
            (0..self.entries.len()).filter(|at| self.entries[*at].listed.form == ShownForm::Tools).collect();
        if places.is_empty() {
            return;
        }
        let own = |at: &usize| OwnToolNames {
            child: suites[*at].child_name(),
            of_workspace: suites[*at].of_workspace,
            tools: self.entries[*at].listed.tools.iter().filter_map(|tool| tool.own.as_deref()).collect(),
        };
        let servers: Vec<OwnToolNames<'_>> = places.iter().map(own).collect();
        let names = tool_names::assign(&servers, is_reserved);
        for (at, names) in places.into_iter().zip(names) {
            let entry = &mut self.entries[at];
            for (tool, name) in entry.listed.tools.iter_mut().zip(names) {
                if tool.name != name {
                    tool.rename(name);
                    self.prints.remove(entry.prints.take());
                }
            }
        }
    }
}

/// A digest of what an entry consists of.
fn made(listed: &ListedSuite) -> u128 {
    let mut text = format!("{:?}", listed.part);
    for tool in &listed.tools {
        let part = format!("\n{:?}\n", tool.part);
        text.extend([&*part, &*tool.tool, "\n", tool.meta.as_deref().unwrap_or_default()]);
    }
    digest::short(text.as_bytes())
}

/// The instructions for the host's model: how to use suites, and what servers say that is not in their
/// descriptions, while there is room.
fn instructions(suites: &[Suite], entries: &[Entry], find_tool: Option<&str>) -> String {
    let is_suite = |entry: &&Entry| entry.listed.form == ShownForm::Suite;
    let are_all_suites = entries.iter().all(|entry| is_suite(&entry));
    let mut text = String::new();
    if are_all_suites || entries.iter().any(|entry| is_suite(&entry)) {
        text.push_str(if are_all_suites { ALL_ARE_SUITES } else { SOME_ARE_SUITES });
        text.push_str(HOW_TO);
    }
    if entries.iter().filter(is_suite).any(|entry| entry.listed.tools.len() > 1) {
        text.push_str(WRITING_TOOLS);
    }
    if let Some(name) = find_tool {
        let _ = write!(text, " `{name}` searches all suites, also those added later.");
    }
    if suites.is_empty() {
        text.push_str(" There are no suites yet.");
    }
    let mut count = text.chars().count();
    for (suite, entry) in suites.iter().zip(entries) {
        // Too little room for a sentence.
        if count + 60 > INSTRUCTIONS {
            break;
        }
        let Some(said) = suite.own_instructions(&entry.facts) else { continue };
        let name = if is_suite(&entry) { &suite.name } else { suite.child_name() };
        let said = format!("\n{name}: {}", own_words::cut(&said, OWN_INSTRUCTIONS));
        let length = said.chars().count();
        if count + length <= INSTRUCTIONS {
            text.push_str(&said);
            count += length;
        }
    }
    text
}

/// How often the entry of one suite may change.
#[derive(Debug, Default)]
struct ChangeLimit {
    used: u32,
    /// When the last change was given back.
    refilled_at: Option<Instant>,
}

impl ChangeLimit {
    /// The error is when a change is allowed again.
    fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let mut since = self.refilled_at.unwrap_or(now);
        while self.used > 0 && now.duration_since(since) >= REFILL {
            self.used -= 1;
            since += REFILL;
        }
        if self.used == 0 {
            since = now;
        }
        self.refilled_at = Some(since);
        if self.used >= BURST {
            return Err(since + REFILL);
        }
        self.used += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flapping_suite_changes_a_few_times_and_then_once_per_pause() {
        let (mut limit, begin) = (ChangeLimit::default(), Instant::now());
        let mut changes = 0;
        for second in 0..600 {
            changes += u32::from(limit.take(begin + Duration::from_secs(second)).is_ok());
        }
        assert!((20..=24).contains(&changes), "{changes}");
        let later = begin + Duration::from_secs(6000);
        for _ in 0..BURST {
            assert_eq!(limit.take(later), Ok(()));
        }
        assert_eq!(limit.take(later), Err(later + REFILL));
        assert_eq!(limit.take(later + REFILL), Ok(()));
    }

    #[test]
    fn prints_do_not_depend_on_the_order_of_changes() {
        let tool = |text: &str, meta: Option<&str>| {
            [ListedTool {
                name: "a".into(),
                part: SuitePart::Whole,
                own: None,
                legacy: None,
                tool: text.into(),
                meta: meta.map(Into::into),
            }]
        };
        let (a, b, c) = (tool("a", None), tool("b", None), tool("b", Some("m")));
        let sum = |parts: &[(usize, &[ListedTool])]| {
            let mut all = ToolPrints::default();
            for (at, tool) in parts {
                all.add(ToolPrints::of_entry(*at, tool));
            }
            all
        };
        let mut changed = sum(&[(0, &a), (1, &a)]);
        changed.remove(Some(ToolPrints::of_entry(1, &a)));
        changed.add(ToolPrints::of_entry(1, &b));
        assert_eq!(changed, sum(&[(1, &b), (0, &a)]));
        assert_ne!(changed, sum(&[(0, &b), (1, &a)]));
        // Hosts that do not read `_meta` see no change.
        let with_meta = sum(&[(0, &a), (1, &c)]);
        assert_eq!(with_meta.plain, changed.plain);
        assert_ne!(with_meta.with_meta, changed.with_meta);
    }
}
