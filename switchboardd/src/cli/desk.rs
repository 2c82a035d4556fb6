//! The person's files, read by a command at this moment: what a daemon would make of them.

use std::path::{Path, PathBuf};

use super::Exit;
use super::output::{complain, failed};
use crate::args::Args;
use crate::config::{Config, Extent, LastGood};
use crate::daemon;
use crate::discover::Memory;
use crate::layer::{Ground, Layer};
use crate::sources::Sources;

/// What a command knows of the person's files.
pub(super) struct Desk {
    pub(super) ground: Ground,
    pub(super) personal: Layer,
    pub(super) trust: crate::trust::Trust,
    pub(super) sources: Sources,
}

impl Desk {
    /// As it is, or not at all: for commands that can do without.
    pub(super) fn quietly(args: &Args) -> Option<Self> {
        let home = daemon::home().ok()?;
        let (config_file, state) = daemon::files_in_use(args, &home);
        let ground = Ground::new(&home, &state, &daemon::trust_roots(args).ok()?);
        let config = LastGood::new(&state).usable(&config_file, Extent::Personal).config;
        let (trust, _) = ground.trust(&config);
        let sources = Sources::new(&config.folder, &ground.state);
        let personal = Layer::personal(config, &ground, &trust, &mut Memory::default());
        Some(Self { ground, personal, trust, sources })
    }

    pub(super) fn open(args: &Args) -> Result<Self, Exit> {
        let home = daemon::home().map_err(|error| failed(&error))?;
        let roots = daemon::trust_roots(args).map_err(|error| failed(&error))?;
        let (config_file, state) = daemon::files_in_use(args, &home);
        let ground = Ground::new(&home, &state, &roots);
        let config = Config::load(&config_file).map_err(|problems| {
            problems.iter().for_each(|problem| complain(problem));
            Exit::Error
        })?;
        let records = ground.trust.read().map_err(|error| failed(&error))?;
        let (mut trust, _) = ground.trust(&config);
        trust.records = records;
        let sources = Sources::new(&config.folder, &ground.state);
        let personal = Layer::personal(config, &ground, &trust, &mut Memory::default());
        Ok(Self { ground, personal, trust, sources })
    }

    pub(super) fn workspace(&self, root: &Path) -> Layer {
        Layer::workspace(root, &self.ground, &self.trust, &mut Memory::default())
    }

    /// The workspace that was typed in.
    pub(super) fn here(&self, args: &Args) -> Option<PathBuf> {
        self.ground.workspace(&super::workspace(args)?)
    }
}
