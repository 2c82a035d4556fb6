//! What a host forbids of a server's tools: in the server's entry, and in the host's own rules.

pub mod rules;

use std::collections::BTreeSet;

use serde_json::Value;

use self::rules::{HostRules, Verdict};
use super::{Host, ServerEntry};
use switchboard_definitions::tool_globs::{ALL, are_apart, common, covers, covers_all, literal};

/// The tools of a server that may be used, in globs as `expose` has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolLimits {
    /// Only these; `None`: all.
    pub allow: Option<BTreeSet<String>>,
    /// Never these.
    pub deny: BTreeSet<String>,
    /// The settings that say so, for the user.
    pub sources: BTreeSet<String>,
    /// Those that the host asks its user about, as `confirm` has them.
    pub confirm: BTreeSet<String>,
    /// The settings that say so, for the user.
    pub confirm_sources: BTreeSet<String>,
    /// What is not carried over, for the user.
    pub left_out: Vec<String>,
}

/// Lists of the only tools that are used.
const ALLOW_LISTS: [&str; 2] = ["includeTools", "enabled_tools"];
/// Lists of tools that are not used.
const DENY_LISTS: [&str; 3] = ["excludeTools", "disabled_tools", "disabledTools"];
/// The approval mode in which the user is asked.
const ASKS: &str = "prompt";
/// Which tools run without a question.
const APPROVALS: [&str; 3] = ["autoApprove", "alwaysAllow", "trust"];
/// How a host treats tools that have no setting of their own.
const DEFAULT_APPROVAL: &str = "default_tools_approval_mode";

impl ToolLimits {
    /// The limits of one server. `Err` says which of them cannot be carried over, and why.
    pub fn read(host: &Host, entry: &ServerEntry, rules: &HostRules) -> Result<Self, String> {
        if let Some(why) = &rules.unclear {
            return Err(format!("{why} ({})", host.name));
        }
        let mut limits = Self::default();
        limits.read_entry(host, &entry.value).map_err(|why| format!("{why} ({})", host.name))?;
        limits.read_rules(host, entry, rules)?;
        for (_, tools, key) in rules.only(entry) {
            let globs = tools.iter().map(|tool| literal(tool)).collect();
            limits.allow_only(globs, &format!("`{key}` of {}", host.name))?;
        }
        if limits.is_closed() {
            let sources: Vec<_> = limits.sources.iter().map(String::as_str).collect();
            return Err(format!("{} forbids all of its tools ({})", host.name, sources.join(", ")));
        }
        Ok(limits)
    }

    /// Whether every tool may be used.
    pub fn is_open(&self) -> bool {
        self.allow.is_none() && self.deny.is_empty()
    }

    fn is_closed(&self) -> bool {
        self.allow.as_ref().is_some_and(BTreeSet::is_empty) || self.deny.iter().any(|glob| covers_all(glob))
    }

    /// Takes the limits of another place in: only what both permit is left.
    pub fn restrict(&mut self, other: &Self) -> Result<(), String> {
        self.allow = match (self.allow.take(), &other.allow) {
            (Some(one), Some(other)) => Some(common(&one, other).ok_or_else(|| {
                format!("no list of names stands for both {} and {}", shown(&one), shown(other))
            })?),
            (one, other) => one.or_else(|| other.clone()),
        };
        self.deny.extend(other.deny.iter().cloned());
        self.confirm.extend(other.confirm.iter().cloned());
        self.sources.extend(other.sources.iter().cloned());
        self.confirm_sources.extend(other.confirm_sources.iter().cloned());
        match self.is_closed() {
            true => Err("its limits together forbid all of its tools".to_owned()),
            false => Ok(()),
        }
    }

    /// Says what stays forbidden.
    pub fn sentence(&self) -> Option<String> {
        let sources: Vec<_> = self.sources.iter().map(String::as_str).collect();
        let from = sources.join(", ");
        match (&self.allow, self.deny.is_empty()) {
            (None, true) => None,
            (Some(allow), true) => Some(format!("only {} can be used, as {from} says", shown(allow))),
            (None, false) => Some(format!("{} cannot be used, as {from} says", shown(&self.deny))),
            (Some(allow), false) => Some(format!(
                "only {} can be used, and {} cannot, as {from} says",
                shown(allow),
                shown(&self.deny)
            )),
        }
    }

    /// Says what a user is asked about.
    pub fn confirm_sentence(&self) -> Option<String> {
        let sources: Vec<_> = self.confirm_sources.iter().map(String::as_str).collect();
        (!self.confirm.is_empty()).then(|| {
            format!(
                "you are asked before each call of {}, as {} says",
                shown(&self.confirm),
                sources.join(", ")
            )
        })
    }

    fn read_entry(&mut self, host: &Host, entry: &Value) -> Result<(), String> {
        for key in ALLOW_LISTS {
            let Some(names) = names(entry, key)? else { continue };
            // Gemini CLI also writes a tool as `name(arguments)`.
            let bare = |name: String| literal(name.split('(').next().unwrap_or_default());
            self.allow_only(names.into_iter().map(bare).collect(), &format!("`{key}` of {}", host.name))?;
        }
        for key in DENY_LISTS {
            let Some(names) = names(entry, key)?.filter(|names| !names.is_empty()) else { continue };
            self.deny.extend(names.iter().map(|name| literal(name)));
            self.sources.insert(format!("`{key}` of {}", host.name));
        }
        self.read_tools(host, &entry["tools"])?;
        self.read_default_approval(host, entry);
        for key in APPROVALS {
            let is_set = match &entry[key] {
                Value::Null | Value::Bool(false) => false,
                Value::Array(names) => !names.is_empty(),
                _ => true,
            };
            if is_set {
                self.leave_out(format!("`{key}` of {}", host.name));
            }
        }
        Ok(())
    }

    /// "Ask about each tool" is carried over unless some tools are excepted: globs cannot say that.
    fn read_default_approval(&mut self, host: &Host, entry: &Value) {
        let Some(mode) = entry[DEFAULT_APPROVAL].as_str() else { return };
        let source = format!("`{DEFAULT_APPROVAL}` of {}", host.name);
        let is_excepted = |tool: &Value| tool["approval_mode"].as_str().is_some_and(|mode| mode != ASKS);
        let has_exceptions = entry["tools"].as_object().is_some_and(|tools| tools.values().any(is_excepted));
        if mode == ASKS && !has_exceptions {
            self.ask_for(ALL.to_owned(), source);
        } else {
            self.leave_out(source);
        }
    }

    /// `tools`: a list of the only tools that are used, or settings of single tools.
    fn read_tools(&mut self, host: &Host, tools: &Value) -> Result<(), String> {
        let source = format!("`tools` of {}", host.name);
        match tools {
            Value::Null => {}
            Value::Array(_) => {
                let Some(names) = names(&serde_json::json!({ "tools": tools }), "tools")? else {
                    return Ok(());
                };
                if !names.iter().any(|name| name == ALL) {
                    self.allow_only(names.iter().map(|name| literal(name)).collect(), &source)?;
                }
            }
            Value::Object(tools) => {
                for (name, settings) in tools {
                    let is_off = *settings == false || settings["enabled"] == false;
                    if is_off {
                        self.deny.insert(literal(name));
                        self.sources.insert(source.clone());
                    }
                    match settings["approval_mode"].as_str() {
                        Some(ASKS) => self.ask_for(literal(name), format!("{source} (`approval_mode`)")),
                        Some(_) => self.leave_out(format!("{source} (`approval_mode`)")),
                        None => {}
                    }
                }
            }
            _ => return Err("its `tools` is neither a list nor an object".to_owned()),
        }
        Ok(())
    }

    fn allow_only(&mut self, globs: BTreeSet<String>, source: &str) -> Result<(), String> {
        self.allow = match self.allow.take() {
            Some(known) => Some(common(&known, &globs).ok_or("two of its lists of tools cannot be joined")?),
            None => Some(globs),
        };
        self.sources.insert(source.to_owned());
        Ok(())
    }

    /// The host's own rules, in their order.
    fn read_rules(&mut self, host: &Host, entry: &ServerEntry, rules: &HostRules) -> Result<(), String> {
        // What the rules say is kept apart from the entry: both hold.
        let mut said = Self::default();
        for (globs, rule) in rules.of(host, entry) {
            let source = format!("`{}` of {}", rule.key, host.name);
            let source = match &rule.project {
                Some(project) if entry.project.is_none() => format!("{source} in {}", project.display()),
                _ => source,
            };
            for glob in globs {
                if rule.has_arguments {
                    return Err(format!("{source} forbids some of its calls only: `{}`", rule.text));
                }
                if rules.last_wins && rule.verdict != Verdict::Deny && !rule.is_of_part {
                    said.permit(&glob, &source)?;
                }
                match rule.verdict {
                    Verdict::Deny => said.forbid(glob, source.clone()),
                    Verdict::Ask => self.ask_for(glob, source.clone()),
                    // In a list of switches, "allow" is how a tool is before any rule.
                    Verdict::Allow if rules.last_wins => self.ask_no_more(&glob, &source),
                    Verdict::Allow => self.leave_out(source.clone()),
                }
            }
        }
        // Whether anything is left is checked last.
        if said.is_closed() {
            *self = said;
        } else if !self.is_closed() {
            self.restrict(&said)?;
        }
        Ok(())
    }

    fn forbid(&mut self, glob: String, source: String) {
        self.sources.insert(source);
        if covers_all(&glob) {
            self.allow = Some(BTreeSet::new());
            self.deny.clear();
        } else {
            self.deny.insert(glob);
        }
    }

    /// Takes back what earlier rules forbade.
    fn permit(&mut self, glob: &str, source: &str) -> Result<(), String> {
        if covers_all(glob) {
            (self.allow, self.deny) = (None, BTreeSet::new());
            return Ok(());
        }
        self.deny.retain(|denied| !covers(glob, denied));
        if let Some(denied) = self.deny.iter().find(|denied| !are_apart(denied, glob)) {
            return Err(format!("{source} permits `{glob}` out of `{denied}`, which it forbids"));
        }
        if let Some(allow) = &mut self.allow {
            allow.insert(glob.to_owned());
        }
        Ok(())
    }

    fn ask_for(&mut self, glob: String, source: String) {
        self.confirm.insert(glob);
        self.confirm_sources.insert(source);
    }

    /// Takes back what earlier rules ask about. Where globs cannot say that, the question stays.
    fn ask_no_more(&mut self, glob: &str, source: &str) {
        self.confirm.retain(|asked| !covers(glob, asked));
        if self.confirm.is_empty() {
            self.confirm_sources.clear();
        } else if self.confirm.iter().any(|asked| !are_apart(asked, glob)) {
            self.leave_out(format!("{source} (`{glob}` without a question)"));
        }
    }

    fn leave_out(&mut self, what: String) {
        if !self.left_out.contains(&what) {
            self.left_out.push(what);
        }
    }
}

/// A list of names in an entry.
fn names(entry: &Value, key: &str) -> Result<Option<Vec<String>>, String> {
    let wrong = || format!("its `{key}` is not a list of names");
    match &entry[key] {
        Value::Null => Ok(None),
        Value::Array(names) => {
            let name = |name: &Value| name.as_str().map(ToOwned::to_owned).ok_or_else(wrong);
            names.iter().map(name).collect::<Result<_, _>>().map(Some)
        }
        _ => Err(wrong()),
    }
}

/// For a sentence: `a`, `b` and `c`.
fn shown(globs: &BTreeSet<String>) -> String {
    let names: Vec<String> = globs.iter().map(|glob| format!("`{glob}`")).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
        None => "nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests;
