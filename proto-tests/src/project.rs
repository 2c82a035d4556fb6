//! A workspace: a directory with definitions that the user has not allowed yet.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::bins::bins;
use crate::home::Home;
use crate::shim::{Shim, ShimOptions};
use crate::terminal::{Screen, Terminal};

/// `initialize` params of a host that does not support elicitation.
pub const CANNOT_ASK: &str =
    r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"mute","version":"1"}}"#;

pub struct Project<'h> {
    home: &'h Home,
    root: PathBuf,
}

impl Home {
    /// A directory next to HOME, created if necessary. `work` is where commands and shims run by default.
    pub fn project(&self, name: &str) -> Project<'_> {
        let root = self.workspace().with_file_name(name);
        fs::create_dir_all(&root).unwrap();
        Project { home: self, root }
    }
}

impl Project<'_> {
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Its path as a query parameter.
    pub fn named(&self) -> String {
        format!("workspace={}", self.root.display())
    }

    pub fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub fn config(&self, config: &Value) {
        self.write("switchboard.config.json", &config.to_string());
    }

    /// Writes one entry as `mcps/NAME/.mcp.json`.
    pub fn define(&self, name: &str, entry: &Value) -> PathBuf {
        self.write(&format!("mcps/{name}/.mcp.json"), &json!({"mcpServers": {name: entry}}).to_string())
    }

    /// Defines an evil child, with arguments that distinguish its versions.
    pub fn child(&self, name: &str, args: &[&str]) -> PathBuf {
        let mut entry = self.home.entry(&bins().evil_child, &[&["echo"], args].concat(), &[]);
        entry["description"] = format!("words of {name}").into();
        self.define(name, &entry)
    }

    /// A host in this directory that supports elicitation.
    #[track_caller]
    pub fn shim(&self) -> Shim {
        let mut shim = self.raw_shim();
        shim.initialize();
        shim
    }

    /// A host in this directory that does not support elicitation.
    #[track_caller]
    pub fn mute_shim(&self) -> Shim {
        let mut shim = self.raw_shim();
        shim.initialize_as(CANNOT_ASK);
        shim
    }

    #[track_caller]
    fn raw_shim(&self) -> Shim {
        Shim::start(self.home, ShimOptions { workspace: Some(self.root.clone()), ..ShimOptions::default() })
    }

    /// Runs `switchboard ARGS` on a terminal in this directory, with the same answer to every question.
    #[track_caller]
    pub fn on_terminal(&self, args: &[&str], keys: &str) -> Screen {
        Terminal::start(self.home, &self.root, args, &[]).answer_all(keys)
    }

    /// Allows every definition that awaits approval here.
    #[track_caller]
    pub fn allow(&self) -> Screen {
        let screen = self.on_terminal(&["allow"], "y\n");
        assert_eq!(screen.code, Some(0), "{}", screen.text);
        assert!(screen.text.contains("  allowed\n"), "{}", screen.text);
        screen
    }
}
