//! A daemon in one process, for tests that drive all of it: its listeners are in memory, its children are tasks, and the
//! paused clock of tokio is its time. Only its files are real.
//!
//! A test uses a single-threaded runtime with `start_paused`, begins a [`Simulation`], makes the daemon's
//! state with [`load`], and passes it to [`super::run`] with the listeners of [`MemoryListener::new`].
//! Nothing waits for anything outside this process, so the clock advances as soon as every task waits: file
//! work runs on the same thread (`event_loop::Simulation`), no login shell is asked, and file changes are
//! found by polling (`watch: "poll"` in the config avoids the threads of file events).
//!
//! Not controlled: `tokio::select!` and the maps of the standard library choose their order at random, ids
//! and tokens are random, and `SystemTime` is the machine's. Remote servers, secrets in a keyring, telemetry
//! and counting tokens (`/savings`) reach outside the process.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

pub use crate::child::{
    ChildExit, InMemoryPrograms, InMemoryRun, InMemoryStart, PipeReader, PipeWriter, TermSignal,
};
pub use crate::http::{Listener, MemoryConnector, MemoryListener, Peer, PeerAddress};
pub use switchboard_wire::event_loop::Simulation;

use switchboard_definitions::config::{ConfigOwner, LastGood, UsableConfig};

use crate::catalog::layer::Locations;
use crate::child::{Launcher, RunLog};
use crate::reload::Reloader;
use crate::state::Daemon;

/// What a simulated daemon uses in place of the machine.
#[derive(Debug)]
pub struct SimulatedMachine {
    pub home: PathBuf,
    pub state: PathBuf,
    pub config_file: PathBuf,
    /// Replaces the environment of the login shell.
    pub environment: BTreeMap<String, String>,
    /// The token that TCP clients must send.
    pub token: String,
    pub programs: InMemoryPrograms,
}

/// The state of a daemon that reads its config and definitions from files and starts nothing but tasks.
pub fn load(surroundings: SimulatedMachine) -> Arc<Reloader> {
    let SimulatedMachine { home, state, config_file, environment, token, programs } = surroundings;
    let UsableConfig { config, problems } = LastGood::new(&state).usable(&config_file, ConfigOwner::Personal);
    let locations = Locations::new(&home, &state, &[]);
    let launcher = Launcher::InMemory(programs);
    let daemon = Daemon::with_launcher(config_file, config, locations, token, RunLog::unwritten(), launcher);
    daemon.services.value_resolver.fix_environment(environment);
    let reloader = Reloader::new(&daemon);
    reloader.note_broken(problems);
    daemon.catalog().keep_warm();
    reloader
}
