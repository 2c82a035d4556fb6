//! Stores on disk what a child last reported about itself, by launch key, so that listing a child that ran
//! before never has to start it. An unreadable file is deleted and never an error.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use serde::Deserialize;
use serde_json::value::RawValue;
use switchboard_definitions::definition::Launch;
use switchboard_definitions::files::replace;
use switchboard_wire::event_loop::may_block;
use switchboard_wire::runtime_paths::private_folder;

use crate::child::{ChildItems, ListKind, Protocol, ServerInfo, ToolList, offers};
use crate::pool::baseline::Baselines;

/// A larger file is not one of ours.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Debug)]
pub struct Manifest {
    pub protocol: Protocol,
    pub server_info: ServerInfo,
    pub tools: Arc<ToolList>,
    pub offers: Arc<ChildItems>,
}

#[derive(Deserialize)]
struct ManifestFile<'a> {
    version: u32,
    /// Whether the child uses the SSE transport of 2024-11-05, which its revision does not tell.
    #[serde(default)]
    old_sse: bool,
    #[serde(borrow, rename = "hello")]
    server_info: &'a RawValue,
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    prompts: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    resources: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    templates: Vec<&'a RawValue>,
}

const VERSION: u32 = 1;

/// The folder of manifests, and those that are in memory.
#[derive(Debug, Clone)]
pub struct Manifests {
    folder: PathBuf,
    // A leaf lock: held for a lookup or an insert.
    held: Arc<Mutex<HashMap<String, Weak<Manifest>>>>,
    /// What the user accepted of the tools.
    pub baselines: Baselines,
}

impl Manifests {
    pub fn new(state: &Path) -> Self {
        Self { folder: state.join("manifests"), held: Arc::default(), baselines: Baselines::new(state) }
    }

    /// Reads these manifests in advance, so that no host waits for the disk. They stay in memory as long as
    /// the returned handles live.
    pub fn preload<'a>(&self, reaches: impl Iterator<Item = &'a Launch>) -> Vec<Arc<Manifest>> {
        let read = |launch| {
            let manifest = Arc::new(self.read(launch)?);
            self.remember(launch, &manifest);
            Some(manifest)
        };
        reaches.filter_map(|launch| self.cached(launch).or_else(|| read(launch))).collect()
    }

    /// The manifest, if it is in memory.
    pub fn cached(&self, launch: &Launch) -> Option<Arc<Manifest>> {
        self.lock().get(&launch.digest())?.upgrade()
    }

    fn remember(&self, launch: &Launch, manifest: &Arc<Manifest>) {
        let mut held = self.lock();
        held.retain(|_, held| held.strong_count() > 0);
        held.insert(launch.digest(), Arc::downgrade(manifest));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Weak<Manifest>>> {
        self.held.lock().expect("BUG: a note panicked")
    }

    pub fn read(&self, launch: &Launch) -> Option<Manifest> {
        may_block();
        let file = self.file(launch);
        let length = std::fs::metadata(&file).ok()?.len();
        let text = (length <= MAX_BYTES).then(|| std::fs::read_to_string(&file).ok()).flatten();
        let manifest = text.as_deref().and_then(parse);
        if manifest.is_none() {
            tracing::warn!(target: "manifest", "`{}` is damaged and was dropped", file.display());
            let _ = std::fs::remove_file(&file);
        }
        manifest
    }

    pub fn write(&self, launch: &Launch, manifest: &Arc<Manifest>) {
        may_block();
        self.remember(launch, manifest);
        let body = manifest.written();
        let file = self.file(launch);
        if std::fs::read(&file).is_ok_and(|before| before == body.as_bytes()) {
            return;
        }
        let written = private_folder(&self.folder).and_then(|()| replace(&file, body.as_bytes()));
        if let Err(error) = written {
            tracing::warn!(target: "manifest", "`{}` could not be written: {error}", file.display());
        }
    }

    /// Named by a digest of everything that decides what is started; the launch cannot be recovered from it.
    fn file(&self, launch: &Launch) -> PathBuf {
        self.folder.join(format!("{}.json", launch.digest()))
    }
}

impl Manifest {
    fn written(&self) -> String {
        let Self { protocol, server_info, tools, offers } = self;
        let tools: Vec<&str> = tools.tools.iter().map(|tool| tool.raw.get()).collect();
        let [prompts, resources, templates] = [&offers.prompts, &offers.resources, &offers.templates]
            .map(|list| list.iter().map(|offer| offer.raw.get()).collect::<Vec<_>>().join(","));
        let old_sse = if *protocol == Protocol::LegacySse { r#""old_sse":true,"# } else { "" };
        format!(
            r#"{{"version":{VERSION},{old_sse}"hello":{},"tools":[{}],"prompts":[{prompts}],"resources":[{resources}],"templates":[{templates}]}}"#,
            server_info.to_json(),
            tools.join(",")
        )
    }
}

fn parse(text: &str) -> Option<Manifest> {
    let written: ManifestFile<'_> = serde_json::from_str(text).ok()?;
    (written.version == VERSION).then_some(())?;
    let server_info = ServerInfo::read(written.server_info.into()).ok()?;
    let offers = ChildItems {
        prompts: offers(ListKind::Prompts, written.prompts.into_iter()),
        resources: offers(ListKind::Resources, written.resources.into_iter()),
        templates: offers(ListKind::Templates, written.templates.into_iter()),
    };
    let protocol = if written.old_sse { Protocol::LegacySse } else { Protocol::of(server_info.era()) };
    let tools = Arc::new(ToolList::from_raw(&written.tools));
    Some(Manifest { protocol, server_info, tools, offers: Arc::new(offers) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_definitions::definition::LaunchCommand;
    use switchboard_definitions::expand::Template;

    fn launch(env: &str) -> Launch {
        Launch::Process(LaunchCommand {
            cmd: Template::text("x"),
            env: [("K".to_owned(), Some(Template::text(env)))].into(),
            ..LaunchCommand::default()
        })
    }

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn a_manifest_round_trips_byte_for_byte() {
        let folder = tempfile::tempdir().unwrap();
        let manifests = Manifests::new(folder.path());
        let said = raw(
            r#"{"protocolVersion":"2025-06-18","capabilities":{"z":1.0},"serverInfo":{"name":"s"},"instructions":"hi"}"#,
        );
        let server_info = ServerInfo::read((&*said).into()).unwrap();
        let tool = raw(r#"{"name":"t", "inputSchema":{"z":1.0,"a":123456789012345678901234567890},"x":[]}"#);
        let prompt = raw(r#"{"x":1.0, "name":"p"}"#);
        let offers = ChildItems {
            prompts: offers(ListKind::Prompts, [&*prompt].into_iter()),
            ..ChildItems::default()
        };
        let tools = Arc::new(ToolList::from_raw(&[&tool]));
        let manifest =
            Manifest { protocol: Protocol::LegacySse, server_info, tools, offers: Arc::new(offers) };
        manifests.write(&launch("secret"), &Arc::new(manifest));
        assert!(manifests.cached(&launch("secret")).is_none(), "nobody holds it");
        let looked = manifests.preload([launch("secret"), launch("other")].iter());
        assert_eq!(looked.len(), 1);
        assert!(manifests.cached(&launch("secret")).is_some());
        let back = manifests.read(&launch("secret")).unwrap();
        assert_eq!(back.protocol, Protocol::LegacySse);
        assert_eq!(back.tools.tools[0].raw.get(), tool.get());
        assert_eq!(back.offers.prompts[0].raw.get(), prompt.get());
        assert_eq!(back.server_info.capabilities.get(), r#"{"z":1.0}"#);
        assert!(manifests.read(&launch("other")).is_none());
        let file = std::fs::read_dir(folder.path().join("manifests")).unwrap().next().unwrap().unwrap();
        assert!(!std::fs::read_to_string(file.path()).unwrap().contains("secret"));
    }

    #[test]
    fn a_damaged_manifest_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let manifests = Manifests::new(folder.path());
        private_folder(&folder.path().join("manifests")).unwrap();
        let file = manifests.file(&launch("x"));
        for damage in ["", "{", "{\"version\":1}", "{\"version\":9,\"hello\":{},\"tools\":[]}", "[]"] {
            std::fs::write(&file, damage).unwrap();
            assert!(manifests.read(&launch("x")).is_none());
            assert!(!file.exists(), "{damage}");
        }
    }
}
