//! Reads what a host's file says of a server's tools. What cannot be understood is an error: it may be meant to forbid.

use std::collections::BTreeSet;

use crate::document::{Fields, Node};
use crate::own_limits::OwnLimits;
use crate::tool_globs::{ALL, behind, covers, literal};

/// The members of an entry that limit its tools.
pub(super) const KEYS: [&str; 7] = [
    "default_tools_approval_mode",
    "disabledTools",
    "disabled_tools",
    "enabled_tools",
    "excludeTools",
    "includeTools",
    "tools",
];
const ALLOW_LISTS: [&str; 2] = ["includeTools", "enabled_tools"];
const DENY_LISTS: [&str; 3] = ["excludeTools", "disabled_tools", "disabledTools"];
/// The approval mode in which the user is asked.
const ASKS: &str = "prompt";
/// More than any server has, and than a name has characters.
const MAX_NAMES: usize = 1000;
const MAX_NAME: usize = 256;

/// The limits in one entry.
pub(super) fn read(fields: &Fields<'_>) -> Result<OwnLimits, String> {
    let mut limits = OwnLimits::default();
    for key in ALLOW_LISTS {
        if let Some(node) = present(fields, key) {
            allow_only(&mut limits, names(&node, key)?)?;
        }
    }
    for key in DENY_LISTS {
        if let Some(node) = present(fields, key) {
            limits.deny.extend(names(&node, key)?);
        }
    }
    match present(fields, "tools") {
        None => {}
        Some(list) if list.is_array() => {
            let all = list.texts().is_some_and(|names| names.iter().any(|name| name == ALL));
            if !all {
                allow_only(&mut limits, names(&list, "tools")?)?;
            }
        }
        Some(tools) if tools.is_object() => {
            for (name, settings) in tools.object().iter().flat_map(Fields::entries) {
                of_one(&mut limits, name, &settings);
            }
        }
        Some(_) => return Err(unclear("tools")),
    }
    if mode(fields, "default_tools_approval_mode").as_deref() == Some(ASKS) {
        limits.confirm.insert(ALL.to_owned());
    }
    Ok(limits)
}

fn unclear(key: &str) -> String {
    format!("its `{key}` is not understood, and may be meant to forbid tools")
}

fn present<'d>(fields: &Fields<'d>, key: &str) -> Option<Node<'d>> {
    fields.get(key).filter(|node| !node.is_null())
}

fn mode(fields: &Fields<'_>, key: &str) -> Option<String> {
    fields.get(key).filter(Node::is_text)?.text()
}

/// Settings of one tool.
fn of_one(limits: &mut OwnLimits, name: &str, settings: &Node<'_>) {
    let is_false = |node: &Node<'_>| node.is_flag() && node.flag() == Some(false);
    let fields = if settings.is_object() { settings.object() } else { None };
    let enabled = fields.as_ref().and_then(|fields| fields.get("enabled"));
    if is_false(settings) || enabled.as_ref().is_some_and(is_false) {
        limits.deny.insert(literal(name));
    }
    if fields.is_some_and(|fields| mode(&fields, "approval_mode").as_deref() == Some(ASKS)) {
        limits.confirm.insert(literal(name));
    }
}

fn allow_only(limits: &mut OwnLimits, globs: BTreeSet<String>) -> Result<(), String> {
    match limits.allow_only(globs) {
        true => Ok(()),
        false => Err("two of its lists of tools cannot be joined".to_owned()),
    }
}

/// A list of names, as globs.
fn names(node: &Node<'_>, key: &str) -> Result<BTreeSet<String>, String> {
    let names = if node.is_array() { node.texts() } else { None };
    let names = names.ok_or_else(|| unclear(key))?;
    if names.len() > MAX_NAMES || names.iter().any(|name| name.len() > MAX_NAME) {
        return Err(unclear(key));
    }
    // Gemini CLI also writes a tool as `name(arguments)`.
    Ok(names.iter().map(|name| literal(name.split('(').next().unwrap_or_default())).collect())
}

/// Takes in the rules of an OpenCode file for a server's tools; the last one counts.
pub(in super::super) fn add_rules(
    limits: &mut OwnLimits,
    root: &Fields<'_>,
    server: &str,
) -> Result<(), String> {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let prefix: String = server.chars().map(|c| if is_kept(c) { c } else { '_' }).chain(['_']).collect();
    let mut own = OwnLimits::default();
    for key in ["tools", "permission"] {
        let Some(rules) = present(root, key) else { continue };
        if rules.is_text() {
            add_rule(&mut own, &BTreeSet::from([ALL.to_owned()]), &rules, key)?;
            continue;
        }
        let rules = rules.object().ok_or_else(|| unclear(key))?;
        for (pattern, rule) in rules.entries().take(MAX_NAMES) {
            if pattern.len() > MAX_NAME {
                return Err(unclear(key));
            }
            add_rule(&mut own, &behind(pattern, &prefix, true), &rule, key)?;
        }
    }
    limits.restrict(&own);
    Ok(())
}

fn add_rule(own: &mut OwnLimits, globs: &BTreeSet<String>, rule: &Node<'_>, key: &str) -> Result<(), String> {
    if globs.is_empty() {
        return Ok(());
    }
    let words: Vec<String> = match rule.is_object() {
        true => {
            let values: Vec<Node<'_>> =
                rule.object().iter().flat_map(Fields::entries).map(|(_, rule)| rule).collect();
            values.iter().filter(|value| value.is_text()).filter_map(Node::text).collect()
        }
        false if rule.is_flag() => vec![if rule.flag() == Some(true) { "allow" } else { "deny" }.to_owned()],
        false => vec![rule.is_text().then(|| rule.text()).flatten().ok_or_else(|| unclear(key))?],
    };
    let says = |word: &str| words.iter().any(|said| said == word);
    if says("deny") && rule.is_object() {
        return Err(format!("its `{key}` forbids some calls of a tool only"));
    }
    for glob in globs {
        if says("deny") {
            own.deny.insert(glob.clone());
        } else if says("ask") {
            permit(own, glob);
            own.confirm.insert(glob.clone());
        } else if says("allow") {
            permit(own, glob);
            own.confirm.retain(|asked| !covers(glob, asked));
        } else {
            return Err(unclear(key));
        }
    }
    Ok(())
}

/// Takes back what earlier rules forbade. Where globs cannot say that, it stays forbidden.
fn permit(own: &mut OwnLimits, glob: &str) {
    own.deny.retain(|denied| !covers(glob, denied));
    if own.deny.remove(ALL) {
        own.allow.get_or_insert_default();
    }
    if let Some(allow) = &mut own.allow {
        allow.insert(glob.to_owned());
    }
}
