//! Computes the new text of a host's file. Pure; `swap.rs` writes it.

use std::path::Path;

use super::tree::Tree;
use super::{Host, HostFileError, HostFileFormat, KEY, ServerEntry, is_off, json, survey, toml, words, yaml};

const BYTE_ORDER_MARK: char = '\u{feff}';

/// The effect of setting a host up.
#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    /// The entry starts this shim already.
    Same { is_off: bool },
    /// The entry starts another shim of ours; only its path changes.
    Moved { text: String },
    /// An entry was added; this many of the keys on its path existed before.
    Added { text: String, there_before: usize },
}

impl Host {
    /// Adds or updates the entry that starts this shim.
    pub fn with_shim(&self, text: &str, shim: &str) -> Result<Change, HostFileError> {
        let (mark, text) = unmarked(text);
        let ours = self.format.read(text)?.entries.into_iter().find(is_under_our_name);
        let Some(ours) = ours else {
            let tree = Tree::entry(self.entry, shim);
            let (text, there_before) = match self.format {
                HostFileFormat::Json { key, .. } => json::edit::insert(text, &[key], KEY, &tree)?,
                HostFileFormat::Toml => (toml::edit::insert(text, KEY, &tree)?, 1),
                HostFileFormat::Yaml => {
                    let (text, was_there) = yaml::edit::insert(text, &tree)?;
                    (text, usize::from(was_there))
                }
            };
            self.holds_our_entry(&text)?;
            return Ok(Change::Added { text: format!("{mark}{text}"), there_before });
        };
        if !survey::is_ours(&ours) {
            return Err(HostFileError::new(format!(
                "has a server `{KEY}` that is something else; give that one another name"
            )));
        }
        if words(&ours.value).first().is_some_and(|command| command == shim) {
            return Ok(Change::Same { is_off: is_off(&ours.value) });
        }
        let moved = match self.format {
            HostFileFormat::Json { key, .. } => json::edit::set_command(text, key, shim)?,
            HostFileFormat::Toml => toml::edit::set_command(text, shim)?,
            HostFileFormat::Yaml => yaml::edit::set_command(text, shim)?,
        };
        let text = moved
            .ok_or_else(|| HostFileError::new(format!("has an entry `{KEY}` that cannot be changed")))?;
        self.holds_our_entry(&text)?;
        Ok(Change::Moved { text: format!("{mark}{text}") })
    }

    /// Refuses a change after which the file could not be read, or would not start us: a file can be written in ways
    /// that no edit in place foresees.
    fn holds_our_entry(&self, text: &str) -> Result<(), HostFileError> {
        let holds = self.format.read(text).is_ok_and(|read| {
            read.entries.iter().any(|entry| is_under_our_name(entry) && survey::is_ours(entry))
        });
        if holds {
            Ok(())
        } else {
            Err(HostFileError::new("is written in a way that cannot be changed in place"))
        }
    }

    /// Removes our entry; `None` if there is none.
    pub fn without_shim(&self, text: &str, there_before: usize) -> Result<Option<String>, HostFileError> {
        let (mark, text) = unmarked(text);
        if !self
            .format
            .read(text)?
            .entries
            .iter()
            .any(|entry| is_under_our_name(entry) && survey::is_ours(entry))
        {
            return Ok(None);
        }
        let rest = match self.format {
            HostFileFormat::Json { key, .. } => json::edit::remove(text, &[key], KEY, there_before)?,
            HostFileFormat::Toml => toml::edit::remove(text, KEY)?.map(|(rest, _)| rest),
            HostFileFormat::Yaml => yaml::edit::remove(text, KEY, there_before > 0)?.map(|(rest, _)| rest),
        };
        Ok(rest.map(|rest| format!("{mark}{rest}")))
    }

    /// Removes a server and also returns its text; `None` if no server has this name.
    pub fn without_server(
        &self,
        text: &str,
        project: Option<&Path>,
        name: &str,
    ) -> Result<Option<(String, String)>, HostFileError> {
        let (mark, text) = unmarked(text);
        let taken = match self.format {
            HostFileFormat::Json { key, .. } => {
                let path = path(key, project);
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                let raw = json::edit::raw(text, &path, name)?.map(ToOwned::to_owned);
                json::edit::remove(text, &path, name, path.len())?.zip(raw)
            }
            HostFileFormat::Toml => toml::edit::remove(text, name)?,
            HostFileFormat::Yaml => yaml::edit::remove(text, name, true)?,
        };
        Ok(taken.map(|(rest, raw)| (format!("{mark}{rest}"), raw)))
    }

    /// Puts a removed server back; `None` if another one has its name now.
    pub fn with_server(
        &self,
        text: &str,
        project: Option<&Path>,
        name: &str,
        raw: &str,
    ) -> Result<Option<String>, HostFileError> {
        let (mark, text) = unmarked(text);
        let is_it = |entry: &ServerEntry| entry.name == name && entry.project.as_deref() == project;
        if self.format.read(text)?.entries.iter().any(is_it) {
            return Ok(None);
        }
        let tree = Tree::Raw(raw.to_owned());
        let text = match self.format {
            HostFileFormat::Json { key, .. } => {
                let path = path(key, project);
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                json::edit::insert(text, &path, name, &tree)?.0
            }
            HostFileFormat::Toml => toml::edit::insert(text, name, &tree)?,
            HostFileFormat::Yaml => yaml::edit::insert_named(text, name, &tree)?.0,
        };
        Ok(Some(format!("{mark}{text}")))
    }

    /// What a user would write by hand.
    pub fn snippet(&self, shim: &str) -> String {
        let tree = Tree::entry(self.entry, shim);
        let made = match self.format {
            HostFileFormat::Json { key, .. } => {
                json::edit::insert("{}", &[key], KEY, &tree).map(|(text, _)| text)
            }
            HostFileFormat::Toml => toml::edit::insert("", KEY, &tree),
            HostFileFormat::Yaml => Ok(yaml::edit::snippet(&tree)),
        };
        made.expect("BUG: nothing is in the way of what stands alone").trim_end().to_owned()
    }
}

fn is_under_our_name(entry: &ServerEntry) -> bool {
    entry.name == KEY && entry.project.is_none()
}

fn path(key: &str, project: Option<&Path>) -> Vec<String> {
    match project {
        Some(project) => vec!["projects".to_owned(), project.to_string_lossy().into_owned(), key.to_owned()],
        None => vec![key.to_owned()],
    }
}

/// Splits off the byte order mark.
fn unmarked(text: &str) -> (&str, &str) {
    text.split_at(text.len() - text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text).len())
}
