//! The rules of a host about tools, which stand beside its servers: in the same file, or in one of its own.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;
use switchboard_definitions::document::Problem;

use super::super::{Host, ServerEntry, json};
use switchboard_definitions::tool_globs::{ALL, behind};

/// A file with rules, and the project that it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleFile {
    pub path: PathBuf,
    pub project: Option<PathBuf>,
    pub text: String,
}

/// All rules of one host, in the order in which they hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostRules {
    rules: Vec<ToolRule>,
    /// Whether a later rule takes an earlier one back. Otherwise a deny rule wins.
    pub(super) last_wins: bool,
    /// Servers that are turned off by name, and where.
    off: Vec<(String, Option<PathBuf>, &'static str)>,
    /// The only servers that are on.
    on: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolRule {
    /// The setting that it stands in.
    pub(super) key: &'static str,
    pub(super) project: Option<PathBuf>,
    /// As it is written.
    pub(super) text: String,
    /// A pattern for whole names: those with the server's name in front.
    pattern: String,
    pub(super) verdict: Verdict,
    /// Whether it is about calls with certain arguments.
    pub(super) has_arguments: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Allow,
    Ask,
    Deny,
}

impl HostRules {
    /// From the host's files with servers and its files with rules.
    pub fn read(host: &Host, own: &[RuleFile], rule_files: &[RuleFile]) -> Result<Self, Problem> {
        let mut rules = Self { last_wins: host.id == "opencode", ..Self::default() };
        for file in own {
            rules.add_own(host, file).map_err(|error| error.of(&file.path))?;
        }
        for file in rule_files {
            rules.add_permissions(host, file).map_err(|error| error.of(&file.path))?;
        }
        Ok(rules)
    }

    /// Why a server is off in this host.
    pub fn off(&self, host: &Host, entry: &ServerEntry) -> Option<String> {
        let is_it = |(name, project, _): &&(String, Option<PathBuf>, &str)| {
            *name == entry.name && (project.is_none() || *project == entry.project)
        };
        if let Some((_, _, key)) = self.off.iter().find(is_it) {
            return Some(format!("it is turned off in {} (`{key}`)", host.name));
        }
        let is_on = self.on.as_ref().is_none_or(|on| on.contains(&entry.name));
        (!is_on).then(|| format!("it is turned off in {} (`mcp.allowed` does not name it)", host.name))
    }

    /// The projects in which a server of all projects is off.
    pub fn off_in(&self, entry: &ServerEntry) -> Vec<&PathBuf> {
        let of_all = self.off.iter().filter(|(name, ..)| *name == entry.name && entry.project.is_none());
        of_all.filter_map(|(_, project, _)| project.as_ref()).collect()
    }

    /// The rules that are about a server's tools, each with globs for these tools.
    pub(super) fn of(&self, host: &Host, entry: &ServerEntry) -> Vec<(BTreeSet<String>, &ToolRule)> {
        let prefixes = prefixes(host, &entry.name);
        let globs = |rule: &ToolRule| -> BTreeSet<String> {
            // Claude Code: the name of a server stands for all of its tools.
            if prefixes.iter().any(|prefix| prefix.strip_suffix("__") == Some(&rule.pattern)) {
                return BTreeSet::from([ALL.to_owned()]);
            }
            prefixes.iter().flat_map(|prefix| behind(&rule.pattern, prefix, self.last_wins)).collect()
        };
        let is_meant = |rule: &&ToolRule| {
            rule.project.is_none() || entry.project.is_none() || rule.project == entry.project
        };
        let all = self.rules.iter().filter(is_meant).map(|rule| (globs(rule), rule));
        all.filter(|(globs, _)| !globs.is_empty()).collect()
    }

    /// Rules in the file with the host's servers.
    fn add_own(&mut self, host: &Host, file: &RuleFile) -> Result<(), super::super::HostFileError> {
        let text = file.text.strip_prefix('\u{feff}').unwrap_or(&file.text);
        match host.id {
            "claude-code" => {
                for (project, settings) in json::members(text, &["projects"])? {
                    for key in ["disabledMcpServers", "disabledMcpjsonServers"] {
                        for name in texts(&settings[key]) {
                            self.off.push((name, Some(PathBuf::from(&project)), key));
                        }
                    }
                }
            }
            "opencode" => {
                for (pattern, is_on) in json::members(text, &["tools"])? {
                    let verdict = if is_on == false { Verdict::Deny } else { Verdict::Allow };
                    self.add("tools", None, &pattern, verdict, false);
                }
                for (pattern, value) in json::members(text, &["permission"])? {
                    // Patterns within it are for arguments.
                    let of_arguments = value.as_object().is_some_and(|all| all.values().any(|v| v == "deny"));
                    let verdict = if of_arguments { Some(Verdict::Deny) } else { word(&value) };
                    if let Some(verdict) = verdict {
                        self.add("permission", None, &pattern, verdict, of_arguments);
                    }
                }
                for (name, value) in json::members(text, &[])? {
                    if let Some(verdict) = word(&value).filter(|_| name == "permission") {
                        self.add("permission", None, ALL, verdict, false);
                    }
                }
            }
            "gemini" | "qwen" => {
                let list =
                    |path: &[&str], name: &str| -> Result<Option<Value>, super::super::HostFileError> {
                        Ok(json::members(text, path)?
                            .into_iter()
                            .find(|(key, _)| key == name)
                            .map(|(_, value)| value))
                    };
                for (path, name, key) in
                    [(&["tools"][..], "exclude", "tools.exclude"), (&[], "excludeTools", "excludeTools")]
                {
                    for tool in list(path, name)?.iter().flat_map(texts) {
                        self.add(key, None, &tool, Verdict::Deny, false);
                    }
                }
                for (path, name, key) in [
                    (&["mcp"][..], "excluded", "mcp.excluded"),
                    (&[], "excludeMCPServers", "excludeMCPServers"),
                ] {
                    self.off.extend(list(path, name)?.iter().flat_map(texts).map(|name| (name, None, key)));
                }
                for (path, name) in [(&["mcp"][..], "allowed"), (&[], "allowMCPServers")] {
                    if let Some(on) = list(path, name)? {
                        self.on.get_or_insert_default().extend(texts(&on));
                    }
                }
            }
            "zed" => {
                for (name, value) in json::members(text, &["agent", "tool_permissions", "tools"])? {
                    let key = "agent.tool_permissions";
                    if let Some(verdict) = word(&value["default"]) {
                        self.add(key, None, &name, verdict, false);
                    }
                    if value["always_deny"].as_array().is_some_and(|patterns| !patterns.is_empty()) {
                        self.add(key, None, &name, Verdict::Deny, true);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// `permissions`, with a list for each verdict.
    fn add_permissions(&mut self, host: &Host, file: &RuleFile) -> Result<(), super::super::HostFileError> {
        let text = file.text.strip_prefix('\u{feff}').unwrap_or(&file.text);
        for (name, value) in json::members(text, &["permissions"])? {
            let (verdict, key) = match name.as_str() {
                "deny" => (Verdict::Deny, "permissions.deny"),
                "ask" => (Verdict::Ask, "permissions.ask"),
                "allow" => (Verdict::Allow, "permissions.allow"),
                _ => continue,
            };
            for rule in texts(&value) {
                if host.id == "cursor" {
                    let Some(inner) = rule.strip_prefix("Mcp(").and_then(|rest| rest.strip_suffix(')'))
                    else {
                        continue;
                    };
                    let parts: Vec<&str> = inner.splitn(2, [':', ',']).map(str::trim).collect();
                    let pattern = format!("{}:{}", parts[0], parts.get(1).copied().unwrap_or(ALL));
                    self.add(key, file.project.clone(), &pattern, verdict, false);
                    continue;
                }
                let (pattern, has_arguments) = match rule.split_once('(') {
                    Some((pattern, _)) => (pattern, true),
                    None => (rule.as_str(), false),
                };
                if !has_arguments || verdict == Verdict::Deny {
                    self.add(key, file.project.clone(), pattern, verdict, has_arguments);
                }
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        key: &'static str,
        project: Option<PathBuf>,
        pattern: &str,
        verdict: Verdict,
        has_arguments: bool,
    ) {
        let (text, pattern) = (pattern.to_owned(), pattern.to_owned());
        self.rules.push(ToolRule { key, project, text, pattern, verdict, has_arguments });
    }
}

/// What stands before the name of a server's tool in the host's rules.
fn prefixes(host: &Host, server: &str) -> Vec<String> {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let clean: String = server.chars().map(|c| if is_kept(c) { c } else { '_' }).collect();
    match host.id {
        "claude-code" => vec![format!("mcp__{clean}__")],
        "opencode" => vec![format!("{clean}_")],
        "gemini" | "qwen" => vec![format!("mcp_{clean}_"), format!("{clean}__"), format!("mcp__{clean}__")],
        "cursor" => vec![format!("{server}:")],
        "zed" => vec![format!("mcp:{server}:")],
        _ => Vec::new(),
    }
}

fn word(value: &Value) -> Option<Verdict> {
    match value.as_str()? {
        "deny" => Some(Verdict::Deny),
        "ask" | "confirm" => Some(Verdict::Ask),
        "allow" => Some(Verdict::Allow),
        _ => None,
    }
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|text| Some(text.as_str()?.to_owned())).collect()
}
