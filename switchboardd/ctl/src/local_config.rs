//! The user's files as they are now, read by a command the way a daemon would.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use switchboard_definitions::config::{Config, ConfigOwner, DriftPolicy, LastGood};
use switchboard_definitions::discover::LastGoodDefinitions;

use super::CliExit;
use super::output::{complain, failed};
use crate::args::Args;
use switchboardd::child::value_resolver::ValueResolver;
use switchboardd::daemon;
use switchboardd::{Layer, Locations};

pub(super) struct LocalConfig {
    pub(super) locations: Locations,
    pub(super) personal: Layer,
    pub(super) trust: switchboard_definitions::trust::Trust,
    pub(super) resolver: ValueResolver,
    /// The problems that the user was told of.
    pub(super) told: RefCell<BTreeSet<String>>,
}

impl LocalConfig {
    /// `None` if anything fails; a broken config is replaced by the last good one.
    pub(super) fn open_if_possible(args: &Args) -> Option<Self> {
        let home = daemon::home().ok()?;
        let (config_file, state) = daemon::files_in_use(&args.of_daemon(), &home);
        let locations = Locations::new(&home, &state, &daemon::trust_roots(&args.of_daemon()).ok()?);
        let config = LastGood::new(&state).usable(&config_file, ConfigOwner::Personal).config;
        let (trust, _) = locations.trust(&config);
        let resolver = ValueResolver::new(&config.folder, &locations.state);
        let personal = Layer::personal(config, &locations, &trust, &mut LastGoodDefinitions::default());
        Some(Self { locations, personal, trust, resolver, told: RefCell::default() })
    }

    pub(super) fn open(args: &Args) -> Result<Self, CliExit> {
        let home = daemon::home().map_err(|error| failed(&error))?;
        let roots = daemon::trust_roots(&args.of_daemon()).map_err(|error| failed(&error))?;
        let (config_file, state) = daemon::files_in_use(&args.of_daemon(), &home);
        let locations = Locations::new(&home, &state, &roots);
        let config = Config::load(&config_file).map_err(|problems| {
            problems.iter().for_each(|problem| complain(problem));
            CliExit::Error
        })?;
        let records = locations.trust.read().map_err(|error| failed(&error))?;
        let (mut trust, _) = locations.trust(&config);
        trust.records = records;
        let resolver = ValueResolver::new(&config.folder, &locations.state);
        let personal = Layer::personal(config, &locations, &trust, &mut LastGoodDefinitions::default());
        Ok(Self { locations, personal, trust, resolver, told: RefCell::default() })
    }

    /// Whether changed tools are refused.
    pub(super) fn holds_changes(&self) -> bool {
        self.personal.config.trust.drift == DriftPolicy::Hold
    }

    pub(super) fn workspace(&self, root: &Path) -> Layer {
        Layer::workspace(
            root,
            &self.personal.config,
            &self.locations,
            &self.trust,
            &mut LastGoodDefinitions::default(),
        )
    }

    /// The workspace that the command applies to.
    pub(super) fn here(&self, args: &Args) -> Option<PathBuf> {
        self.root_of(&super::workspace(args)?)
    }

    /// The workspace that a folder belongs to.
    pub(super) fn root_of(&self, folder: &Path) -> Option<PathBuf> {
        self.locations.workspace(folder, &self.personal.config)
    }
}
