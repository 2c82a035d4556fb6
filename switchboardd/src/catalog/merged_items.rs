//! Merges the prompts, resources and templates of all children of a catalog, in a stable order and without
//! name clashes. Pure.

mod template;

use std::collections::{HashMap, HashSet};
use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use switchboard_definitions::config::{Conflicts, Strategy};
use switchboard_wire::envelope::{quoted, range_of, splice};
use switchboard_wire::members::Members;

use crate::child::{ChildItems, ListItem, ListKind};
use template::covers;

/// Page size.
const PAGE: usize = 500;

/// Prefix of a URI that was renamed because of a clash.
const RENAMED: &str = "switchboard://";

/// What is escaped in the name of a child there.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[derive(Debug, Default)]
pub struct MergedItems {
    prompts: Vec<MergedItem>,
    resources: Vec<MergedItem>,
    templates: Vec<MergedItem>,
    /// Items hidden because several children use the name and the strategy is `refuse`.
    refused: Vec<HiddenItem>,
    /// A digest of everything that is shown.
    generation: String,
    /// Indexes of the prompts and resources, by the names that hosts see.
    by_name: HashMap<Box<str>, usize>,
    by_uri: HashMap<Box<str>, usize>,
    /// By child.
    renamed: HashMap<Box<str>, RenamedUris>,
}

/// A hidden name, and the children that use it.
#[derive(Debug, PartialEq, Eq)]
pub struct HiddenItem {
    list: ListKind,
    pub key: Box<str>,
    pub children: Vec<Box<str>>,
}

/// One prompt, resource or template as hosts see it.
#[derive(Debug, PartialEq, Eq)]
pub struct MergedItem {
    /// The name or URI that hosts see.
    pub shown: Box<str>,
    /// The name or URI that its child uses.
    pub own: Box<str>,
    pub child: Box<str>,
    /// The whole definition, as it is listed.
    text: String,
}

/// The items of one child.
#[derive(Debug, Clone, Copy)]
pub struct ChildPart<'a> {
    pub child: &'a str,
    pub offers: &'a ChildItems,
    /// Whether the child comes from the workspace, not from the user.
    pub of_workspace: bool,
}

/// Each side's rules apply to its own children. If both sides use a name, the user's children keep it,
/// whatever the workspace's rules say.
#[derive(Debug, Clone, Copy)]
pub struct MergeRules<'a> {
    pub personal: &'a Conflicts,
    pub workspace: &'a Conflicts,
}

impl MergedItems {
    pub fn of(parts: &[ChildPart<'_>], rules: MergeRules<'_>) -> Self {
        let personal = ordered(parts.iter().filter(|part| !part.of_workspace), rules.personal);
        let workspace = ordered(parts.iter().filter(|part| part.of_workspace), rules.workspace);
        let mut refused = Vec::new();
        let mut both = |list, covering: &[MergedItem]| {
            let mut all =
                entries(&personal, list, rules.personal.strategy, &TakenNames::default(), &mut refused);
            let taken = TakenNames::by(&personal, list, &all, covering);
            let theirs = entries(&workspace, list, rules.workspace.strategy, &taken, &mut refused);
            let own = all.len();
            all.extend(theirs);
            (all, own)
        };
        let (prompts, _) = both(ListKind::Prompts, &[]);
        let (templates, own) = both(ListKind::Templates, &[]);
        let (resources, _) = both(ListKind::Resources, &templates[..own]);
        let (by_name, by_uri) = (index(&prompts), index(&resources));
        let renamed = renamed_of(&resources, &templates);
        let generation = String::new();
        let mut merged =
            Self { prompts, resources, templates, refused, generation, by_name, by_uri, renamed };
        let seen = [ListKind::Prompts, ListKind::Resources, ListKind::Templates]
            .map(|list| merged.fingerprint(list));
        merged.generation = switchboard_definitions::digest::hex(seen.concat().as_bytes())[..12].to_owned();
        merged
    }

    pub fn list(&self, list: ListKind) -> &[MergedItem] {
        match list {
            ListKind::Tools => &[],
            ListKind::Prompts => &self.prompts,
            ListKind::Resources => &self.resources,
            ListKind::Templates => &self.templates,
        }
    }

    /// The names that are hidden from this list because several children use them.
    pub fn refused(&self, list: ListKind) -> impl Iterator<Item = &HiddenItem> {
        self.refused.iter().filter(move |refused| refused.list == list)
    }

    /// A digest of what is shown in this list.
    pub fn fingerprint(&self, list: ListKind) -> String {
        let texts: Vec<&str> = self.list(list).iter().map(|entry| entry.text.as_str()).collect();
        switchboard_definitions::digest::hex(texts.join("\n").as_bytes())
    }

    /// One page, as the members of a result. `None` if the cursor is not ours, or if the list has changed
    /// since.
    pub fn page(&self, list: ListKind, cursor: Option<&str>) -> Option<String> {
        let from = match cursor {
            None => 0,
            Some(cursor) => {
                let (generation, from) = cursor.split_once('.')?;
                let from: usize = from.parse().ok()?;
                (generation == self.generation && from > 0 && from < self.list(list).len()).then_some(from)?
            }
        };
        let rest = &self.list(list)[from..];
        let texts: Vec<&str> = rest.iter().take(PAGE).map(|entry| entry.text.as_str()).collect();
        let mut page = format!(r#""{}":[{}]"#, list.member(), texts.join(","));
        if rest.len() > PAGE {
            page.push_str(&format!(r#","nextCursor":"{}.{}""#, self.generation, from + PAGE));
        }
        Some(page)
    }

    pub fn prompt(&self, shown: &str) -> Option<&MergedItem> {
        self.by_name.get(shown).map(|at| &self.prompts[*at])
    }

    /// The child that owns a resource, and its own URI for it. Looks for a listed resource, then for a
    /// template with exactly this URI, then for a template that covers it.
    pub fn resource(&self, shown: &str) -> Option<(&str, Box<str>)> {
        if let Some(listed) = self.by_uri.get(shown).map(|at| &self.resources[*at]) {
            return Some((&listed.child, listed.own.clone()));
        }
        let template = self.templates.iter().find(|entry| &*entry.shown == shown);
        if let Some(template) = template.or_else(|| self.templates.iter().find(|entry| entry.covers(shown))) {
            let own = shown.strip_prefix(&*template.added()).unwrap_or(shown);
            return Some((&template.child, own.into()));
        }
        None
    }

    /// Whether any resource of `child` is shown under another URI.
    pub fn renames(&self, child: &str) -> bool {
        self.renamed.contains_key(child)
    }

    /// The URI that hosts see for a resource of `child`, if it differs from the child's own.
    pub fn shown(&self, child: &str, own: &str) -> Option<String> {
        let renamed = self.renamed.get(child)?;
        if let Some(shown) = renamed.resources.get(own) {
            return Some(shown.to_string());
        }
        let template = renamed.templates.iter().map(|at| &self.templates[*at]);
        let template = template.into_iter().find(|entry| covers(&entry.own, own))?;
        let is_listed = self.by_uri.get(own).is_some_and(|at| *self.resources[*at].child == *child);
        (!is_listed).then(|| template.added() + own)
    }
}

/// Resources of one child that are shown under other URIs.
#[derive(Debug, Default)]
struct RenamedUris {
    resources: HashMap<Box<str>, Box<str>>,
    templates: Vec<usize>,
}

fn renamed_of(resources: &[MergedItem], templates: &[MergedItem]) -> HashMap<Box<str>, RenamedUris> {
    let mut all: HashMap<Box<str>, RenamedUris> = HashMap::new();
    for entry in resources.iter().filter(|entry| entry.shown != entry.own) {
        let of = all.entry(entry.child.clone()).or_default();
        of.resources.insert(entry.own.clone(), entry.shown.clone());
    }
    for (at, entry) in templates.iter().enumerate().filter(|(_, entry)| entry.shown != entry.own) {
        all.entry(entry.child.clone()).or_default().templates.push(at);
    }
    all
}

fn index(entries: &[MergedItem]) -> HashMap<Box<str>, usize> {
    entries.iter().enumerate().map(|(at, entry)| (entry.shown.clone(), at)).collect()
}

impl MergedItem {
    fn new(list: ListKind, child: &str, offer: &ListItem, shown: Option<String>) -> Self {
        let text = match &shown {
            None => offer.raw.get().to_owned(),
            Some(shown) => renamed(offer, list, shown),
        };
        let shown = shown.map_or_else(|| offer.key.clone(), Into::into);
        Self { shown, own: offer.key.clone(), child: child.into(), text }
    }

    /// The prefix that was added to its own URI.
    fn added(&self) -> String {
        self.shown.strip_suffix(&*self.own).unwrap_or_default().to_owned()
    }

    fn covers(&self, uri: &str) -> bool {
        uri.strip_prefix(&*self.added()).is_some_and(|uri| covers(&self.own, uri))
    }
}

fn ordered<'a>(parts: impl Iterator<Item = &'a ChildPart<'a>>, conflicts: &Conflicts) -> Vec<ChildPart<'a>> {
    let mut parts: Vec<ChildPart<'a>> = parts.copied().collect();
    let rank = |part: &ChildPart<'_>| conflicts.order.iter().position(|child| child == part.child);
    parts.sort_by_key(|part| (rank(part).unwrap_or(usize::MAX), part.child));
    parts
}

/// Names that the user's own children use.
#[derive(Default)]
struct TakenNames<'a> {
    /// Own names and shown names, with the child that uses them.
    names: HashMap<&'a str, &'a str>,
    /// A resource that one of these templates covers belongs to the template's child.
    templates: &'a [MergedItem],
}

impl<'a> TakenNames<'a> {
    fn by(
        parts: &[ChildPart<'a>],
        list: ListKind,
        shown: &'a [MergedItem],
        templates: &'a [MergedItem],
    ) -> Self {
        let mut names = HashMap::new();
        for part in parts {
            names.extend(part.offers.of(list).iter().map(|offer| (&*offer.key, part.child)));
        }
        names.extend(shown.iter().map(|entry| (&*entry.shown, &*entry.child)));
        Self { names, templates }
    }

    /// The child that uses a name.
    fn owner_of(&self, key: &str) -> Option<&'a str> {
        let named = self.names.get(key).copied();
        named.or_else(|| self.templates.iter().find(|entry| entry.covers(key)).map(|entry| &*entry.child))
    }
}

fn entries(
    parts: &[ChildPart<'_>],
    list: ListKind,
    strategy: Strategy,
    before: &TakenNames<'_>,
    refused: &mut Vec<HiddenItem>,
) -> Vec<MergedItem> {
    let mut owners: HashMap<&str, Vec<&str>> = HashMap::new();
    for part in parts {
        for offer in part.offers.of(list) {
            owners.entry(&offer.key).or_default().push(part.child);
        }
    }
    let mut taken: HashSet<String> =
        owners.keys().chain(before.names.keys()).map(|key| (*key).to_owned()).collect();
    let mut entries = Vec::new();
    for part in parts {
        for offer in part.offers.of(list) {
            let clashing = owners.get(&*offer.key).map(Vec::as_slice).unwrap_or_default();
            let holder = before.owner_of(&offer.key);
            let is_first = clashing.first() == Some(&part.child);
            let shown = match strategy {
                _ if clashing.len() < 2 && holder.is_none() => None,
                Strategy::Prefix => Some(unused_name(list, part.child, &offer.key, &mut taken)),
                Strategy::First if is_first && holder.is_none() => None,
                Strategy::First => continue,
                Strategy::Refuse => {
                    if is_first {
                        let children = holder.iter().chain(clashing).map(|child| (*child).into()).collect();
                        refused.push(HiddenItem { list, key: offer.key.clone(), children });
                    }
                    continue;
                }
            };
            entries.push(MergedItem::new(list, part.child, offer, shown));
        }
    }
    entries
}

/// A name prefixed with the child's, made unique.
fn unused_name(list: ListKind, child: &str, own: &str, taken: &mut HashSet<String>) -> String {
    let first = match list {
        ListKind::Tools | ListKind::Prompts => format!("{child}_{own}"),
        ListKind::Resources | ListKind::Templates => format!("{RENAMED}{}/{own}", encoded(child)),
    };
    let mut name = first.clone();
    for number in 2.. {
        if taken.insert(name.clone()) {
            break;
        }
        name = match list {
            ListKind::Tools | ListKind::Prompts => format!("{child}{number}_{own}"),
            ListKind::Resources | ListKind::Templates => {
                format!("{RENAMED}{}/{number}/{own}", encoded(child))
            }
        };
    }
    name
}

fn encoded(child: &str) -> impl fmt::Display {
    utf8_percent_encode(child, RESERVED)
}

/// The definition under another name; every other byte stays.
fn renamed(offer: &ListItem, list: ListKind, shown: &str) -> String {
    let whole = offer.raw.get();
    let key = Members::of(&*offer.raw).and_then(|members| members.get(list.key()));
    let Some(key) = key else { return whole.to_owned() };
    let bytes = splice(whole.as_bytes(), range_of(whole.as_bytes(), key.get()), quoted(shown).as_bytes());
    String::from_utf8(bytes).unwrap_or_else(|_| whole.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::child::offers;

    fn offered(prompts: &[&str], resources: &[&str], templates: &[&str]) -> ChildItems {
        let raw = |list: ListKind, keys: &[&str]| {
            let items: Vec<_> = keys
                .iter()
                .map(|key| format!(r#"{{"x": 1.0,"{}":"{key}","title":"t"}}"#, list.key()))
                .map(|text| RawValue::from_string(text).unwrap())
                .collect();
            offers(list, items.iter().map(|item| &**item))
        };
        ChildItems {
            prompts: raw(ListKind::Prompts, prompts),
            resources: raw(ListKind::Resources, resources),
            templates: raw(ListKind::Templates, templates),
        }
    }

    fn merged(strategy: Strategy, order: &[&str]) -> MergedItems {
        let a = offered(&["greet", "only_a"], &["x:1", "x:a"], &["x:{id}/t"]);
        let b = offered(&["greet"], &["x:1"], &["x:{id}/t", "y:{+path}"]);
        let order = order.iter().map(|child| (*child).to_owned()).collect();
        let parts = [own("a", &a), own("b", &b)];
        let rule = Conflicts { strategy, order };
        MergedItems::of(&parts, MergeRules { personal: &rule, workspace: &rule })
    }

    fn own<'a>(child: &'a str, offers: &'a ChildItems) -> ChildPart<'a> {
        ChildPart { child, offers, of_workspace: false }
    }

    fn of_workspace<'a>(child: &'a str, offers: &'a ChildItems) -> ChildPart<'a> {
        ChildPart { child, offers, of_workspace: true }
    }

    fn shown(merged: &MergedItems, list: ListKind) -> Vec<&str> {
        merged.list(list).iter().map(|entry| &*entry.shown).collect()
    }

    #[test]
    fn only_clashing_names_are_prefixed() {
        let merged = merged(Strategy::Prefix, &[]);
        assert_eq!(shown(&merged, ListKind::Prompts), ["a_greet", "only_a", "b_greet"]);
        assert_eq!(
            shown(&merged, ListKind::Resources),
            ["switchboard://a/x:1", "x:a", "switchboard://b/x:1"]
        );
        let text = &merged.prompt("b_greet").unwrap().text;
        assert_eq!(text, r#"{"x": 1.0,"name":"b_greet","title":"t"}"#);
        assert_eq!(merged.resource("switchboard://b/x:1"), Some(("b", "x:1".into())));
        assert_eq!(merged.resource("switchboard://b/x:7/t"), Some(("b", "x:7/t".into())));
        assert_eq!(merged.resource("switchboard://a/x:{id}/t"), Some(("a", "x:{id}/t".into())));
        assert_eq!(merged.resource("y:some/path"), Some(("b", "y:some/path".into())));
        assert_eq!(merged.resource("x:7/t"), None);
        assert_eq!(merged.resource("z:1"), None);
    }

    #[test]
    fn the_first_in_order_keeps_the_name() {
        let merged = merged(Strategy::First, &["b"]);
        assert_eq!(shown(&merged, ListKind::Prompts), ["greet", "only_a"]);
        assert_eq!(&*merged.prompt("greet").unwrap().child, "b");
        assert_eq!(merged.resource("x:1"), Some(("b", "x:1".into())));
        assert_eq!(merged.resource("x:7/t"), Some(("b", "x:7/t".into())));
    }

    #[test]
    fn clashing_names_are_hidden_and_reported() {
        let merged = merged(Strategy::Refuse, &[]);
        assert_eq!(shown(&merged, ListKind::Prompts), ["only_a"]);
        assert_eq!(merged.resource("x:1"), None);
        let refused: Vec<_> = merged.refused(ListKind::Prompts).collect();
        let children = vec!["a".into(), "b".into()];
        assert_eq!(refused, [&HiddenItem { list: ListKind::Prompts, key: "greet".into(), children }]);
    }

    #[test]
    fn a_workspace_takes_no_name_from_the_persons_own() {
        let mine = offered(&["review", "both"], &["x:1"], &["x:{id}"]);
        let also = offered(&["both"], &[], &[]);
        // The workspace offers names that the user's children use, a name that one of them is shown under,
        // and a resource that one of their templates covers.
        let evil = offered(&["review", "mine_both", "free"], &["x:1", "x:2", "y:1"], &["x:{id}"]);
        let parts = [own("mine", &mine), own("other", &also), of_workspace("evil", &evil)];
        let alone = |personal: &Conflicts| {
            let merged = MergedItems::of(&parts[..2], MergeRules { personal, workspace: personal });
            shown(&merged, ListKind::Prompts).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let strategies = [Strategy::Prefix, Strategy::First, Strategy::Refuse];
        for personal in strategies.map(|strategy| Conflicts { strategy, order: vec!["mine".to_owned()] }) {
            for workspace in strategies.map(|strategy| {
                let order = ["evil", "other", "mine"].map(str::to_owned).to_vec();
                Conflicts { strategy, order }
            }) {
                let merged =
                    MergedItems::of(&parts, MergeRules { personal: &personal, workspace: &workspace });
                let before = alone(&personal);
                let now = shown(&merged, ListKind::Prompts);
                assert_eq!(now[..before.len()], before, "{personal:?} {workspace:?}");
                assert_eq!(&*merged.prompt("review").unwrap().child, "mine", "{personal:?} {workspace:?}");
                assert_eq!(merged.resource("x:1"), Some(("mine", "x:1".into())), "{workspace:?}");
                assert_eq!(merged.resource("x:2"), Some(("mine", "x:2".into())), "{workspace:?}");
                assert_eq!(merged.resource("x:3"), Some(("mine", "x:3".into())), "{workspace:?}");
                // A name that no other child uses stays unchanged.
                assert_eq!(&*merged.prompt("free").unwrap().child, "evil");
                assert_eq!(merged.resource("y:1"), Some(("evil", "y:1".into())));
                let prefixed = merged.prompt("evil_review").map(|entry| &*entry.own);
                assert_eq!(prefixed, (workspace.strategy == Strategy::Prefix).then_some("review"));
                if let Some(own) = merged.prompt("mine_both") {
                    let own = (&*own.child, personal.strategy);
                    assert!(
                        own == ("mine", Strategy::Prefix) || own.0 == "evil" && own.1 != Strategy::Prefix
                    );
                }
            }
        }
    }

    #[test]
    fn a_cursor_is_good_for_the_list_it_was_made_for() {
        let names: Vec<String> = (0..=PAGE).map(|number| format!("p{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let many = offered(&names, &[], &[]);
        let rule = Conflicts::default();
        let rules = MergeRules { personal: &rule, workspace: &rule };
        let of = |offers: &ChildItems| MergedItems::of(&[own("a", offers)], rules);
        let merged = of(&many);
        let first = merged.page(ListKind::Prompts, None).unwrap();
        let cursor = first.rsplit_once(r#""nextCursor":""#).unwrap().1.trim_end_matches('"').to_owned();
        let last = merged.page(ListKind::Prompts, Some(&cursor)).unwrap();
        assert!(last.contains(&format!("p{PAGE}")) && !last.contains("nextCursor"));
        assert_eq!(of(&offered(&names[1..], &[], &[])).page(ListKind::Prompts, Some(&cursor)), None);
        for garbage in ["", "x", "0", ".", "a.b", &cursor.replace('.', ":"), "000000000000.500"] {
            assert_eq!(merged.page(ListKind::Prompts, Some(garbage)), None, "{garbage}");
        }
        assert_eq!(
            of(&ChildItems::default()).page(ListKind::Resources, None).as_deref(),
            Some(r#""resources":[]"#)
        );
    }
}
