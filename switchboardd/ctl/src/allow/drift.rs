//! Tools that a server changed since they were accepted: shown with their differences, and accepted.

use std::path::{Path, PathBuf};

use switchboard_definitions::definition::Definition;
use switchboard_definitions::drift::{Drift, ListedText, ToolStore};
use switchboard_definitions::suite_name;
use switchboard_definitions::trust::TrustStatus;
use switchboard_wire::visible::visible;

use crate::local_config::LocalConfig;
use crate::output::{complain, say};
use crate::prompt;
use switchboardd::{Layer, Manifest, Manifests, server_version};

/// A server whose tools are not as they were accepted.
pub(crate) struct ChangedServer {
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    pub(crate) drift: Drift,
    /// What it says now: exactly what is accepted.
    manifest: Manifest,
}

/// All servers here whose tools changed, or the one of this name.
pub(super) fn found(local: &LocalConfig, root: Option<&Path>, what: Option<&str>) -> Vec<ChangedServer> {
    let project = root.map(|root| local.workspace(root));
    let layers = std::iter::once(&local.personal).chain(&project);
    let entries = layers.flat_map(|layer| layer.entries.iter().map(move |entry| (layer, entry)));
    let meant = entries.filter(|(layer, entry)| {
        entry.trust_status != TrustStatus::Held
            && what.is_none_or(|what| is_named(layer, &entry.definition, what))
    });
    meant.filter_map(|(_, entry)| of(local, &entry.definition)).collect()
}

fn is_named(layer: &Layer, definition: &Definition, what: &str) -> bool {
    let chosen = layer.config.suite(&definition.name).suite_name;
    definition.name == what
        || suite_name::derived(&definition.name) == what
        || chosen.as_deref() == Some(what)
        || Path::new(what).canonicalize().is_ok_and(|path| definition.file.starts_with(path))
}

/// What changed of this server's tools.
pub(crate) fn of(local: &LocalConfig, definition: &Definition) -> Option<ChangedServer> {
    let state = &local.locations.state;
    let manifest = Manifests::new(state).read(definition.launch.as_ref().ok()?)?;
    let texts = texts(&manifest);
    let version = server_version(&manifest.server_info);
    let Definition { file, name, .. } = definition;
    let drift = match ToolStore::new(state).peek(file, name, &texts, version.as_deref()) {
        Ok(drift) => drift,
        Err(error) => Drift::unknown(&error, &texts),
    };
    let (name, file) = (name.clone(), file.clone());
    (!drift.is_none()).then_some(ChangedServer { name, file, drift, manifest })
}

fn texts(manifest: &Manifest) -> Vec<ListedText<'_>> {
    let tools = manifest.tools.tools.iter();
    tools.map(|tool| ListedText { name: &tool.name, raw: tool.raw.get() }).collect()
}

/// Shows the differences and asks; false if they are not accepted.
pub(super) fn consider(local: &LocalConfig, changed: &ChangedServer) -> bool {
    let ChangedServer { name, file, drift, manifest } = changed;
    say!("{}  ({})", visible(name), visible(&file.display().to_string()));
    for line in drift.lines() {
        say!("  tools     {}", visible(&line));
    }
    if !prompt::yes(&"accept these tools as they are now? [y/N] ".into()) {
        match local.holds_changes() {
            true => say!("  tools that are new or changed stay held"),
            false => say!("  not accepted; they can still be called (`trust.drift` is \"warn\")"),
        }
        return false;
    }
    let version = server_version(&manifest.server_info);
    match ToolStore::new(&local.locations.state).accept(file, name, &texts(manifest), version.as_deref()) {
        Ok(()) => {
            say!("  accepted");
            true
        }
        Err(error) => {
            complain(&error);
            false
        }
    }
}
