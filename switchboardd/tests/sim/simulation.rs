//! A whole daemon in one process: virtual time, in-memory listeners, servers that are tasks, and real files
//! in a folder that is deleted with the test.
//!
//! A test runs with `#[tokio::test(start_paused = true)]`: time stands still while any task can run, and jumps to the
//! next timer when all of them wait.
#![allow(dead_code, reason = "several tests share this file, and each uses a part of it")]

mod host;
mod server;

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use host::Host;
pub(crate) use server::Record;

use serde_json::{Value, json};
use switchboardd::daemon::simulation::{
    InMemoryPrograms, Listener, MemoryConnector, MemoryListener, Peer, SimulatedMachine, Simulation, load,
};
use switchboardd::daemon::{Stop, run};
use tokio::io::DuplexStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The token that TCP clients must send.
pub(crate) const TOKEN: &str = "secret";

pub(crate) struct SimulatedDaemon {
    pub(crate) record: Record,
    connector: MemoryConnector,
    /// The user whose daemon it is.
    pub(crate) peer: Peer,
    stop: Option<oneshot::Sender<Stop>>,
    running: JoinHandle<()>,
    // Dropped in this order: the files are deleted after their readers.
    _simulation: Simulation,
    folder: tempfile::TempDir,
}

impl SimulatedDaemon {
    /// Starts a daemon with these servers, which `sim/server.rs` implements. `config` is the personal config.
    pub(crate) fn start(config: &Value, servers: &[&str]) -> Self {
        let record = Record::new();
        Self::with_programs(config, servers, record.clone(), server::programs(record))
    }

    /// The same with servers of the test's own.
    pub(crate) fn with_programs(
        config: &Value,
        servers: &[&str],
        record: Record,
        programs: InMemoryPrograms,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let simulation = Simulation::begin();
        let (home, state) = (folder.path().join("home"), folder.path().join("state"));
        let config_folder = home.join(".config/switchboard");
        for private in [&config_folder, &state] {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(private).unwrap();
        }
        for name in servers {
            define(&config_folder, name, &[]);
        }
        let mut config = config.clone();
        // Avoids the thread that waits for file events.
        config["watch"] = "poll".into();
        let config_file = config_folder.join("switchboard.config.json");
        fs::write(&config_file, config.to_string()).unwrap();
        let peer = Peer::process(own_uid(&home), None);

        let daemon = load(SimulatedMachine {
            home,
            state,
            config_file,
            environment: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
            token: TOKEN.to_owned(),
            programs,
        });
        let (connector, listener) = MemoryListener::new();
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(async move {
            let stop = async { stopped.await.unwrap_or(Stop::AtOnce) };
            run(&daemon, vec![Listener::InMemory(listener)], stop).await;
        });
        let stop = Some(stop);
        Self { record, connector, peer, stop, running, _simulation: simulation, folder }
    }

    pub(crate) async fn host(&self) -> Host {
        Host::open(&self.connector, &self.peer).await
    }

    /// Writes the definition of a server; a reload reads it.
    pub(crate) fn define(&self, name: &str, args: &[&str]) {
        define(&self.config_folder(), name, args);
    }

    /// Deletes the definition of a server; a reload reads it.
    pub(crate) fn remove(&self, name: &str) {
        let _ = fs::remove_dir_all(self.config_folder().join("mcps").join(name));
    }

    fn config_folder(&self) -> PathBuf {
        self.folder.path().join("home/.config/switchboard")
    }

    pub(crate) fn connector(&self) -> &MemoryConnector {
        &self.connector
    }

    /// Connects as another peer.
    pub(crate) async fn connect_as(&self, peer: Peer) -> DuplexStream {
        self.connector.connect(peer).await.unwrap()
    }

    /// Gives an order, as the commands do.
    pub(crate) async fn control(&self, order: &str, body: &Value) -> Option<host::Response> {
        host::control(&self.connector, &self.peer, order, body).await
    }

    /// Begins to stop the daemon.
    pub(crate) fn stop(&mut self, how: Stop) {
        let stop = self.stop.take().expect("it is stopped once");
        stop.send(how).expect("it serves");
    }

    /// Waits until the daemon has stopped; false if it panicked.
    pub(crate) async fn ended(mut self) -> bool {
        (&mut self.running).await.is_ok()
    }

    /// Waits until the daemon has stopped.
    pub(crate) async fn gone(mut self) -> Record {
        let end = tokio::time::timeout(Duration::from_secs(60), &mut self.running).await;
        end.expect("it goes within a minute").expect("it did not panic");
        self.record.clone()
    }
}

fn define(config_folder: &Path, name: &str, args: &[&str]) {
    let definition = json!({"mcpServers": {name: {"command": "played", "args": args}}});
    let file = config_folder.join("mcps").join(name).join(".mcp.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, definition.to_string()).unwrap();
}

/// The owner of a folder that this process created: the current user.
fn own_uid(folder: &Path) -> u32 {
    fs::metadata(folder).unwrap().uid()
}
