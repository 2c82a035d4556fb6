//! A separate HOME for each test, with definitions, a config and a socket. Dropping it fails the test if any
//! process that ran in it is left.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::bins::bins;
use crate::daemon::DaemonProcess;
use crate::procs;
use crate::shim::{Shim, ShimOptions};
use crate::wait::becomes;

/// Set to the home's path in the environment of every process of a test, so that stray processes can be
/// found.
const MARK: &str = "SWITCHBOARD_TEST";

pub struct Home {
    /// Contains everything, including the socket; its path is short and unique.
    folder: tempfile::TempDir,
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Home {
    pub fn new() -> Self {
        let private = fs::Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("sb-").permissions(private).tempdir_in("/tmp").unwrap();
        let home = Self { folder };
        fs::create_dir_all(home.config_folder().join("mcps")).unwrap();
        fs::create_dir_all(home.workspace()).unwrap();
        home.write(".profile", "export PATH=/usr/local/bin:/usr/bin:/bin\nexport FROM_PROFILE=yes\n");
        home.config(&json!({}));
        home
    }

    /// HOME itself.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    pub fn config_folder(&self) -> PathBuf {
        self.path().join(".config/switchboard")
    }

    pub fn state_folder(&self) -> PathBuf {
        self.path().join(".local/state/switchboard")
    }

    /// An empty directory that is not a HOME.
    pub fn workspace(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// A string that occurs in the environment, arguments or directory of every process of this home.
    pub fn mark(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    /// Writes a file below HOME.
    pub fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// The personal config. A test's own daemon, or one that a shim starts, listens on no port by default.
    pub fn config(&self, config: &Value) {
        let mut config = config.clone();
        if config.get("http").is_none() {
            config["http"] = json!({"listen": "off"});
        }
        self.write(".config/switchboard/switchboard.config.json", &config.to_string());
    }

    /// Defines an evil child, in the single-server shape.
    pub fn child(&self, name: &str, behaviour: &[&str]) {
        self.child_with(name, behaviour, &[]);
    }

    /// Like [`Self::child`], with additional variables.
    pub fn child_with(&self, name: &str, behaviour: &[&str], env: &[(&str, &str)]) {
        let entry = self.entry(&bins().evil_child, behaviour, env);
        let definition = json!({
            "name": name,
            "description": format!("things that {name} does"),
            "command": {"cmd": entry["command"], "args": entry["args"], "env": entry["env"]},
        });
        self.definition(name, &definition.to_string());
    }

    /// Defines several evil children in one file, in the `mcpServers` shape.
    pub fn servers(&self, folder: &str, children: &[(&str, &[&str])]) {
        let servers: serde_json::Map<_, _> = children
            .iter()
            .map(|(name, behaviour)| ((*name).to_owned(), self.entry(&bins().evil_child, behaviour, &[])))
            .collect();
        self.definition(folder, &json!({"mcpServers": servers}).to_string());
    }

    /// An entry as in `mcpServers`, marked as belonging to this home.
    pub fn entry(&self, program: &Path, args: &[&str], env: &[(&str, &str)]) -> Value {
        let mut all = serde_json::Map::from_iter([(MARK.to_owned(), self.mark().into())]);
        all.extend(env.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())));
        json!({"command": program, "args": args, "env": all})
    }

    /// Writes any text as `mcps/FOLDER/.mcp.json`.
    pub fn definition(&self, folder: &str, text: &str) -> PathBuf {
        self.write(&format!(".config/switchboard/mcps/{folder}/.mcp.json"), text)
    }

    /// Starts a daemon on the socket only and waits until it serves.
    #[track_caller]
    pub fn daemon(&self) -> DaemonProcess {
        DaemonProcess::start(self, &["--listen", "off"])
    }

    /// Starts a daemon that also listens on a free port.
    #[track_caller]
    pub fn daemon_on_tcp(&self) -> DaemonProcess {
        DaemonProcess::start(self, &["--listen", "127.0.0.1:0"])
    }

    /// Starts a shim and does the handshake.
    #[track_caller]
    pub fn shim(&self) -> Shim {
        let mut shim = self.raw_shim();
        shim.initialize();
        shim
    }

    /// Starts a shim and sends nothing.
    #[track_caller]
    pub fn raw_shim(&self) -> Shim {
        Shim::start(self, ShimOptions::default())
    }

    /// Starts a shim that shows one child directly, and sends nothing.
    #[track_caller]
    pub fn shim_of(&self, child: &str) -> Shim {
        let args = vec!["--child".to_owned(), child.to_owned()];
        Shim::start(self, ShimOptions { args, ..ShimOptions::default() })
    }

    /// Runs `switchboard ARGS` to its end.
    #[allow(clippy::disallowed_methods, reason = "tests start processes")]
    pub fn command(&self, args: &[&str]) -> Output {
        Command::new(&bins().switchboard)
            .args(args)
            .env_clear()
            .envs(self.environment())
            .env("SWITCHBOARD_SOCKET", self.socket())
            .current_dir(self.workspace())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Runs `switchboard ARGS`, which must succeed.
    #[track_caller]
    pub fn run_ok(&self, args: &[&str]) {
        let output = self.command(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
    }

    /// Like [`Self::run_ok`], with another copy of the program.
    #[track_caller]
    #[allow(clippy::disallowed_methods, reason = "tests start processes")]
    pub fn order_with(&self, switchboard: &Path, args: &[&str]) {
        let status = Command::new(switchboard)
            .args(args)
            .env_clear()
            .envs(self.environment())
            .env("SWITCHBOARD_SOCKET", self.socket())
            .current_dir(self.workspace())
            .stdin(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "{args:?}: {status}");
    }

    /// The environment that hosts and users give to the programs under test.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("HOME", self.path().to_str().unwrap().to_owned()),
            ("USER", "tester".into()),
            ("LOGNAME", "tester".into()),
            ("SHELL", "/bin/sh".into()),
            ("PATH", "/usr/local/bin:/usr/bin:/bin".into()),
            (MARK, self.mark().to_owned()),
        ]
    }

    /// All running processes of this home.
    pub fn processes(&self) -> Vec<procs::Process> {
        procs::marked(self.mark())
    }

    /// Running processes of the evil child's program.
    pub fn children(&self) -> Vec<procs::Process> {
        let evil = bins().evil_child.to_str().unwrap();
        self.processes().into_iter().filter(|process| process.cmdline.starts_with(evil)).collect()
    }

    /// Running daemons of this home.
    pub fn daemons(&self) -> Vec<procs::Process> {
        let daemon = bins().switchboardd.to_str().unwrap();
        self.processes().into_iter().filter(|process| process.cmdline.starts_with(daemon)).collect()
    }

    /// Kills the daemons, and waits until nothing accepts connections on the socket.
    pub fn kill_daemons(&self) {
        for daemon in self.daemons() {
            let _ = kill_process(Pid::from_raw(daemon.pid).unwrap(), Signal::KILL);
        }
        // A killed process disappears from the list before its socket closes, which could still be connected
        // to.
        let is_shut = || crate::Endpoint::unix(&self.socket()).connect().is_err();
        crate::wait::until_true("no daemon", crate::TEST_TIMEOUT, || self.daemons().is_empty() && is_shut());
    }

    fn end(&self, which: impl Fn(&procs::Process) -> bool, signal: Signal) {
        for process in self.processes().into_iter().filter(which) {
            let _ = kill_process(Pid::from_raw(process.pid).unwrap(), signal);
        }
    }
}

/// How long a daemon may take to end with everything that it started; its own bound is 5 s.
const GONE: Duration = Duration::from_secs(20);

impl Drop for Home {
    fn drop(&mut self) {
        let daemon = bins().switchboardd.to_str().unwrap().to_owned();
        let shim = bins().switchboard.to_str().unwrap().to_owned() + " ";
        self.end(|process| (process.cmdline.clone() + " ").starts_with(&shim), Signal::KILL);
        // Ends daemons that shims started, because no value owns them. A daemon that a shim was starting when
        // it was killed appears only now. Each daemon gets one signal.
        let asked = RefCell::new(HashSet::new());
        let is_new_daemon = |process: &procs::Process| {
            process.cmdline.starts_with(&daemon) && asked.borrow_mut().insert(process.pid)
        };
        let clean = becomes(GONE, || {
            self.end(is_new_daemon, Signal::TERM);
            self.processes().is_empty()
        });
        let left = self.processes();
        self.end(|_| true, Signal::KILL);
        let none_left = becomes(GONE, || self.processes().is_empty());
        if !std::thread::panicking() {
            assert!(clean, "outlived its daemon: {left:#?}");
            assert!(none_left, "cannot be killed: {:#?}", self.processes());
        }
    }
}
