//! What the daemon has stored, as it may be after a crash or another program.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use switchboard_definitions::definition::{Launch, LaunchCommand};
use switchboard_definitions::expand::Template;
use switchboard_definitions::trust::TrustStore;
use switchboardd::Manifests;
use tempfile::TempDir;

use super::Target;

thread_local! {
    /// Deleted with the thread.
    static FOLDER: TempDir = tempfile::Builder::new().prefix("switchboard-fuzz-").tempdir().expect("a folder");
}

/// Writes the file below a private folder, and returns the folder.
fn stored(file: &Path, bytes: &[u8]) -> PathBuf {
    let folder = FOLDER.with(|folder| folder.path().to_owned());
    let path = folder.join(file);
    let below = path.parent().expect("BUG: it is in the folder");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(below).expect("a folder");
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(bytes)).expect("room for the file");
    folder
}

pub(crate) const TRUST: Target = Target {
    name: "trust",
    parts: &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "null",
        "\"version\":1",
        "\"entries\":[",
        "\"file\":",
        "\"/w/.mcp.json\"",
        "\"name\":\"x\"",
        "\"record\":{",
        "\"verdict\":",
        "\"at\":",
        "\"by\":",
        "\"digest\":",
    ],
    most: 30,
    seeds: || vec![r#"{"version":1,"entries":[]}"#.to_owned()],
    run: |input| {
        let store = TrustStore::new(&stored(Path::new("trust/trust.json"), input));
        // Either everything is understood or nothing is trusted.
        if let Ok(records) = store.read() {
            let text = String::from_utf8_lossy(input);
            let names = records.values().flat_map(|of_file| of_file.keys());
            assert!(text.contains("version") && names.count() <= text.matches("record").count());
        }
    },
};

pub(crate) const MANIFESTS: Target = Target {
    name: "manifests",
    parts: &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "null",
        "true",
        "\"version\":1",
        "\"hello\":{",
        "\"protocolVersion\":\"2025-11-25\"",
        "\"capabilities\":{",
        "\"serverInfo\":{",
        "\"tools\":[",
        "{\"name\":\"a\"}",
        "\"inputSchema\":{",
        "\"prompts\":[",
        "\"resources\":[",
        "\"uri\":\"x:y\"",
        "\"templates\":[",
        "\"old_sse\":true",
    ],
    most: 40,
    seeds: || {
        vec![r#"{"version":1,"hello":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"a","version":"1"}},"tools":[{"name":"a","inputSchema":{"type":"object"}}],"prompts":[{"name":"p"}],"resources":[{"uri":"x:y","name":"r"}],"templates":[]}"#.to_owned()]
    },
    run: |input| {
        let launch = Launch::Process(LaunchCommand { cmd: Template::text("x"), ..LaunchCommand::default() });
        let file = Path::new("manifests").join(format!("{}.json", launch.digest()));
        let folder = stored(&file, input);
        let manifests = Manifests::new(&folder);
        let Some(manifest) = manifests.read(&launch) else {
            assert!(!folder.join(&file).exists(), "a damaged file is deleted");
            return;
        };
        // What was understood is written so that it is understood again.
        let tools = manifest.tools.tools.len();
        manifests.write(&launch, &std::sync::Arc::new(manifest));
        let again = manifests.read(&launch).expect("our own text is understood");
        assert_eq!(again.tools.tools.len(), tools);
    },
};
