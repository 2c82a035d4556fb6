//! Settings of single servers in the user's own `switchboard.config.json`, written in place.

use std::collections::BTreeSet;

use serde_json::Value;

use super::limits::ToolLimits;
use super::tree::Tree;
use super::{HostFileError, json};

/// What `import` sets for a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SuiteSettings {
    pub limits: ToolLimits,
    /// `timeouts.childSpawnMs`
    pub spawn_ms: Option<u64>,
    /// Whether `pool.scope` is `workspace`.
    pub in_workspace: bool,
}

impl SuiteSettings {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The members to write: the path below the server, the key and the value.
    fn members(&self) -> Vec<(&'static str, &'static str, Tree)> {
        let list = |globs: &BTreeSet<String>| Tree::List(globs.iter().cloned().collect());
        let mut members = Vec::new();
        if let Some(allow) = &self.limits.allow {
            members.push(("expose", "allow", list(allow)));
        }
        if !self.limits.deny.is_empty() {
            members.push(("expose", "deny", list(&self.limits.deny)));
        }
        if let Some(ms) = self.spawn_ms {
            members.push(("timeouts", "childSpawnMs", Tree::Raw(ms.to_string())));
        }
        if self.in_workspace {
            members.push(("pool", "scope", Tree::Text("workspace".to_owned())));
        }
        members
    }
}

/// The text of the config with these settings of a server; everything else stays as it is.
pub fn with_settings(text: &str, server: &str, settings: &SuiteSettings) -> Result<String, HostFileError> {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut made = body.to_owned();
    for (group, key, value) in settings.members() {
        made = json::edit::set(&made, &["suites", server, group], key, &value)?;
    }
    Ok(format!("{}{made}", &text[..text.len() - body.len()]))
}

/// What `expose` of a server says now.
pub fn exposed(text: &str, server: &str) -> Result<ToolLimits, HostFileError> {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let globs = |value: &Value| -> BTreeSet<String> {
        value.as_array().into_iter().flatten().filter_map(|glob| Some(glob.as_str()?.to_owned())).collect()
    };
    let mut limits = ToolLimits::default();
    for (key, value) in json::members(body, &["suites", server, "expose"])? {
        match key.as_str() {
            "allow" => limits.allow = Some(globs(&value)),
            "deny" => limits.deny = globs(&value),
            _ => {}
        }
    }
    if !limits.is_open() {
        limits.sources.insert("your own config".to_owned());
    }
    Ok(limits)
}
