//! Settings of single servers in the user's own `switchboard.config.json`, written in place.

use std::collections::BTreeSet;

use serde_json::Value;

use super::limits::ToolLimits;
use super::tree::Tree;
use super::{HostFileError, json};
use switchboard_definitions::tool_globs::covers_all;

/// What `import` sets for a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SuiteSettings {
    pub limits: ToolLimits,
    /// `timeouts.childSpawnMs`
    pub spawn_ms: Option<u64>,
    /// Whether `pool.scope` is `workspace`.
    pub in_workspace: bool,
    /// The folders in whose sessions the server is shown; `None` leaves that as it is.
    pub workspaces: Option<BTreeSet<String>>,
}

impl SuiteSettings {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The members to write: the group below the server, if they are in one, the key and the value.
    fn members(&self) -> Vec<(Option<&'static str>, &'static str, Tree)> {
        let list = |globs: &BTreeSet<String>| Tree::List(globs.iter().cloned().collect());
        let mut members = Vec::new();
        if let Some(allow) = &self.limits.allow {
            members.push((Some("expose"), "allow", list(allow)));
        }
        if !self.limits.deny.is_empty() {
            members.push((Some("expose"), "deny", list(&self.limits.deny)));
        }
        if !self.limits.confirm.is_empty() {
            members.push((None, "confirm", list(&self.limits.confirm)));
        }
        if let Some(ms) = self.spawn_ms {
            members.push((Some("timeouts"), "childSpawnMs", Tree::Raw(ms.to_string())));
        }
        if self.in_workspace {
            members.push((Some("pool"), "scope", Tree::Text("workspace".to_owned())));
        }
        if let Some(folders) = &self.workspaces {
            members.push((None, "workspaces", list(folders)));
        }
        members
    }
}

/// The text of the config with these settings of a server; everything else stays as it is.
pub fn with_settings(text: &str, server: &str, settings: &SuiteSettings) -> Result<String, HostFileError> {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut made = body.to_owned();
    for (group, key, value) in settings.members() {
        let path: Vec<&str> = ["suites", server].into_iter().chain(group).collect();
        made = json::edit::set(&made, &path, key, &value)?;
    }
    Ok(format!("{}{made}", &text[..text.len() - body.len()]))
}

/// What `confirm` of a server says now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfirmBefore {
    /// Globs on names, perhaps none.
    Named(BTreeSet<String>),
    /// `"destructive"`
    Destructive,
}

impl ConfirmBefore {
    /// The globs to write so that the user is asked about these as well; `None` if nothing changes. Fails if the setting
    /// cannot say both.
    pub fn with(&self, more: &BTreeSet<String>) -> Result<Option<BTreeSet<String>>, &'static str> {
        match self {
            Self::Named(before) if more.is_subset(before) => Ok(None),
            Self::Named(before) => Ok(Some(before.union(more).cloned().collect())),
            Self::Destructive if more.is_empty() => Ok(None),
            // Asks about more than before.
            Self::Destructive if more.iter().any(|glob| covers_all(glob)) => Ok(Some(more.clone())),
            Self::Destructive => Err("`confirm` is \"destructive\", which cannot have names beside it"),
        }
    }
}

/// What `confirm` of a server says now.
pub fn confirmed(text: &str, server: &str) -> Result<ConfirmBefore, HostFileError> {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let members = json::members(body, &["suites", server])?;
    let said = members.into_iter().find(|(key, _)| key == "confirm").map(|(_, value)| value);
    Ok(match said {
        Some(Value::String(_)) => ConfirmBefore::Destructive,
        Some(said) => ConfirmBefore::Named(texts(&said)),
        None => ConfirmBefore::Named(BTreeSet::new()),
    })
}

/// The texts of a list.
fn texts(value: &Value) -> BTreeSet<String> {
    value.as_array().into_iter().flatten().filter_map(|glob| Some(glob.as_str()?.to_owned())).collect()
}

/// The folders in whose sessions a server is shown now; `None`: everywhere.
pub fn workspaces(text: &str, server: &str) -> Result<Option<BTreeSet<String>>, HostFileError> {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let members = json::members(body, &["suites", server])?;
    Ok(members.into_iter().find(|(key, _)| key == "workspaces").map(|(_, folders)| texts(&folders)))
}

/// What `expose` of a server says now.
pub fn exposed(text: &str, server: &str) -> Result<ToolLimits, HostFileError> {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut limits = ToolLimits::default();
    for (key, value) in json::members(body, &["suites", server, "expose"])? {
        match key.as_str() {
            "allow" => limits.allow = Some(texts(&value)),
            "deny" => limits.deny = texts(&value),
            _ => {}
        }
    }
    if !limits.is_open() {
        limits.sources.insert("your own config".to_owned());
    }
    Ok(limits)
}
