//! The rules of a host about tools, which stand beside its servers: in the same file, or in one of its own.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;
use switchboard_definitions::document::Problem;

use super::super::{Host, HostFileError, ServerEntry, json, toml};
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
    /// Why rules that may be about any of its tools cannot be carried over.
    pub(super) unclear: Option<String>,
    /// Whether a later rule takes an earlier one back. Otherwise a deny rule wins.
    pub(super) last_wins: bool,
    /// Servers that are turned off by name, and where.
    off: Vec<(String, Option<PathBuf>, &'static str)>,
    /// The only servers that are on.
    on: Option<Vec<String>>,
    /// The only tools of a server that a part of the host has, and the setting that says so.
    only: Vec<(String, BTreeSet<String>, &'static str)>,
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
    /// Whether it is about certain calls only, such as those with certain arguments.
    pub(super) has_arguments: bool,
    /// Whether it holds in a part of the host, beside the rules for all of it.
    pub(super) is_of_part: bool,
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
            let added = match host.id {
                "gemini" => rules.add_policies(file),
                "continue" => {
                    rules.add_yaml(file);
                    Ok(())
                }
                _ => rules.add_permissions(host, file),
            };
            added.map_err(|error| error.of(&file.path))?;
        }
        // What holds in a part is never taken back by what holds elsewhere.
        rules.rules.sort_by_key(|rule| rule.is_of_part);
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
    fn add_own(&mut self, host: &Host, file: &RuleFile) -> Result<(), HostFileError> {
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
                    if name == "agent" || name == "mode" {
                        value.as_object().into_iter().flatten().for_each(|(_, agent)| self.add_agent(agent));
                    }
                }
            }
            "gemini" | "qwen" => {
                let list = |path: &[&str], name: &str| -> Result<Option<Value>, HostFileError> {
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
                if host.id == "qwen" {
                    self.add_permissions(host, file)?;
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
                    if value["always_confirm"].as_array().is_some_and(|patterns| !patterns.is_empty()) {
                        self.add(key, None, &name, Verdict::Ask, false);
                    }
                }
                for (_, profile) in json::members(text, &["agent", "profiles"])? {
                    self.add_profile(&profile);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// `permissions`, with a list for each verdict.
    fn add_permissions(&mut self, host: &Host, file: &RuleFile) -> Result<(), HostFileError> {
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

    /// What an agent of OpenCode may not use. A rule for all tools holds for those of Switchboard, too.
    fn add_agent(&mut self, agent: &Value) {
        for (pattern, is_on) in agent["tools"].as_object().into_iter().flatten() {
            if *is_on == false && pattern != ALL {
                self.add_of_part("agent.*.tools", pattern, Verdict::Deny, false);
            }
        }
        for (pattern, value) in agent["permission"].as_object().into_iter().flatten() {
            let of_arguments = value.as_object().is_some_and(|all| all.values().any(|v| v == "deny"));
            let verdict = if of_arguments { Some(Verdict::Deny) } else { word(value) };
            if let Some(verdict) = verdict.filter(|verdict| *verdict != Verdict::Allow && pattern != ALL) {
                self.add_of_part("agent.*.permission", pattern, verdict, of_arguments);
            }
        }
    }

    /// The tools that a profile of Zed turns off. Where only those that it names are on, that cannot be said in rules.
    fn add_profile(&mut self, profile: &Value) {
        let key = "agent.profiles";
        for (server, settings) in profile["context_servers"].as_object().into_iter().flatten() {
            for (tool, is_on) in settings["tools"].as_object().into_iter().flatten() {
                if *is_on == false {
                    self.add_of_part(key, &format!("mcp:{server}:{tool}"), Verdict::Deny, false);
                }
            }
            if profile["enable_all_context_servers"] == false {
                let on =
                    settings["tools"].as_object().into_iter().flatten().filter(|(_, is_on)| **is_on == true);
                let on = on.map(|(tool, _)| tool.clone()).collect();
                self.only.push((server.clone(), on, key));
            }
        }
    }

    /// Policies of Gemini CLI: tables `rule`. A rule with a lower priority counts like the others, so that no "deny" is
    /// lost.
    fn add_policies(&mut self, file: &RuleFile) -> Result<(), HostFileError> {
        /// What says nothing about which calls are meant.
        const PLAIN: [&str; 8] =
            ["toolName", "mcpName", "decision", "priority", "denyMessage", "deny_message", "name", "modes"];
        /// Only about commands of its shell.
        const OF_SHELL: [&str; 2] = ["commandPrefix", "commandRegex"];
        let root = toml::parse(file.text.strip_prefix('\u{feff}').unwrap_or(&file.text))?;
        let rules = toml::to_value(root.as_item());
        for rule in rules["rule"].as_array().into_iter().flatten().filter_map(Value::as_object) {
            let key = "policies";
            let verdict = match rule.get("decision").and_then(Value::as_str) {
                Some("allow") => Verdict::Allow,
                Some("ask_user") => Verdict::Ask,
                _ => Verdict::Deny,
            };
            if OF_SHELL.iter().any(|name| rule.contains_key(*name)) {
                continue;
            }
            let is_narrow = rule.keys().any(|name| !PLAIN.contains(&name.as_str()));
            let names = |name: &str| match rule.get(name) {
                Some(Value::String(one)) => vec![one.clone()],
                Some(list) => texts(list),
                None => Vec::new(),
            };
            let (mut tools, servers) = (names("toolName"), names("mcpName"));
            if tools.is_empty() {
                tools.push(ALL.to_owned());
            }
            for tool in &tools {
                let whole = servers.iter().map(|server| format!("mcp_{}_{tool}", clean(server)));
                let patterns = if servers.is_empty() { vec![tool.clone()] } else { whole.collect() };
                for pattern in patterns {
                    let is_lost = is_narrow && verdict == Verdict::Deny;
                    if !is_narrow || verdict != Verdict::Allow {
                        self.add(key, None, &pattern, verdict, is_lost);
                    }
                }
            }
        }
        Ok(())
    }

    /// YAML is not read. Lists of what is forbidden or asked about may name any tool.
    fn add_yaml(&mut self, file: &RuleFile) {
        let mut is_meant = false;
        for line in file.text.lines() {
            let line = line.split(" #").next().unwrap_or_default().trim_end();
            if line.is_empty() || line.starts_with('#') || line == "---" {
                continue;
            }
            if line.starts_with([' ', '-']) {
                if is_meant {
                    break;
                }
                continue;
            }
            let (name, value) = line.split_once(':').unwrap_or((line, "?"));
            is_meant = name.trim_matches(['"', '\'']) != "allow";
            if is_meant && !matches!(value.trim(), "" | "[]") {
                break;
            }
            if is_meant && value.trim() == "[]" {
                is_meant = false;
            }
        }
        if is_meant {
            self.unclear = Some(format!("`{}` may forbid its tools, and is not read", file.path.display()));
        }
    }

    /// The only tools of a server that a part of the host has, and where it says so.
    pub(super) fn only(
        &self,
        entry: &ServerEntry,
    ) -> impl Iterator<Item = &(String, BTreeSet<String>, &'static str)> {
        self.only.iter().filter(|(server, ..)| *server == entry.name)
    }

    fn add_of_part(&mut self, key: &'static str, pattern: &str, verdict: Verdict, has_arguments: bool) {
        self.add(key, None, pattern, verdict, has_arguments);
        if let Some(rule) = self.rules.last_mut() {
            rule.is_of_part = true;
        }
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
        self.rules.push(ToolRule { key, project, text, pattern, verdict, has_arguments, is_of_part: false });
    }
}

/// What stands before the name of a server's tool in the host's rules.
fn prefixes(host: &Host, server: &str) -> Vec<String> {
    let clean = clean(server);
    match host.id {
        "claude-code" => vec![format!("mcp__{clean}__")],
        "opencode" => vec![format!("{clean}_")],
        "gemini" | "qwen" => vec![format!("mcp_{clean}_"), format!("{clean}__"), format!("mcp__{clean}__")],
        "cursor" => vec![format!("{server}:")],
        "zed" => vec![format!("mcp:{server}:")],
        _ => Vec::new(),
    }
}

/// The name of a server as it stands in names of tools.
fn clean(server: &str) -> String {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*');
    server.chars().map(|c| if is_kept(c) { c } else { '_' }).collect()
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
