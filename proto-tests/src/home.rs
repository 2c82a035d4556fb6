//! A HOME of its own for each test, with definitions, a config and a socket; and the promise that
//! nothing which ever ran in it is left when it goes.

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

/// In the environment of every child of a test, with the path of its home: strays are found by it.
const MARK: &str = "SWITCHBOARD_TEST";

pub struct Home {
    /// Holds everything, the socket included; its path is short and nobody else's.
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

    /// An empty directory that is nobody's HOME.
    pub fn workspace(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Every process of this home mentions it.
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

    /// A definition in the one-child shape that runs the evil child.
    pub fn child(&self, name: &str, behaviour: &[&str]) {
        self.child_with(name, behaviour, &[]);
    }

    /// The same with variables of its own.
    pub fn child_with(&self, name: &str, behaviour: &[&str], env: &[(&str, &str)]) {
        let entry = self.entry(&bins().evil_child, behaviour, env);
        let definition = json!({
            "name": name,
            "description": format!("things that {name} does"),
            "command": {"cmd": entry["command"], "args": entry["args"], "env": entry["env"]},
        });
        self.definition(name, &definition.to_string());
    }

    /// The same in the `mcpServers` shape, several in one file.
    pub fn servers(&self, folder: &str, children: &[(&str, &[&str])]) {
        let servers: serde_json::Map<_, _> = children
            .iter()
            .map(|(name, behaviour)| ((*name).to_owned(), self.entry(&bins().evil_child, behaviour, &[])))
            .collect();
        self.definition(folder, &json!({"mcpServers": servers}).to_string());
    }

    /// An entry as `mcpServers` has it, marked as this home's.
    pub fn entry(&self, program: &Path, args: &[&str], env: &[(&str, &str)]) -> Value {
        let mut all = serde_json::Map::from_iter([(MARK.to_owned(), self.mark().into())]);
        all.extend(env.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())));
        json!({"command": program, "args": args, "env": all})
    }

    /// Any text as `mcps/FOLDER/.mcp.json`.
    pub fn definition(&self, folder: &str, text: &str) -> PathBuf {
        self.write(&format!(".config/switchboard/mcps/{folder}/.mcp.json"), text)
    }

    /// Starts a daemon on the socket alone and waits until it serves.
    #[track_caller]
    pub fn daemon(&self) -> DaemonProcess {
        DaemonProcess::start(self, &["--listen", "off"])
    }

    /// Starts a daemon that listens on a free port too.
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

    /// Starts a shim and says nothing.
    #[track_caller]
    pub fn raw_shim(&self) -> Shim {
        Shim::start(self, ShimOptions::default())
    }

    /// Starts a shim that shows one child as it is, and says nothing.
    #[track_caller]
    pub fn shim_of(&self, child: &str) -> Shim {
        let args = vec!["--child".to_owned(), child.to_owned()];
        Shim::start(self, ShimOptions { args, ..ShimOptions::default() })
    }

    /// A command that a person types, run to its end.
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

    /// The same, and it has to work.
    #[track_caller]
    pub fn order(&self, args: &[&str]) {
        let output = self.command(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
    }

    /// The same of another copy of the program.
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

    /// The environment that hosts and people give to the programs under test.
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

    /// Running processes of this home, whoever started them.
    pub fn processes(&self) -> Vec<procs::Process> {
        procs::marked(self.mark())
    }

    /// Running children: those that are neither the daemon, nor a guard, nor a shim.
    pub fn children(&self) -> Vec<procs::Process> {
        let evil = bins().evil_child.to_str().unwrap();
        self.processes().into_iter().filter(|process| process.cmdline.starts_with(evil)).collect()
    }

    /// Daemons of this home (guards are not).
    pub fn daemons(&self) -> Vec<procs::Process> {
        let daemon = bins().switchboardd.to_str().unwrap();
        let is_daemon = |process: &procs::Process| {
            process.cmdline.starts_with(daemon) && !process.cmdline.contains("--guard")
        };
        self.processes().into_iter().filter(is_daemon).collect()
    }

    /// Kills the daemons, and waits until nothing of them answers.
    pub fn kill_daemons(&self) {
        for daemon in self.daemons() {
            let _ = kill_process(Pid::from_raw(daemon.pid).unwrap(), Signal::KILL);
        }
        // A killed process is gone from the list before its socket is: what is still open can be connected to.
        let is_shut = || crate::Door::unix(&self.socket()).connect().is_err();
        crate::wait::until_true("no daemon", crate::PATIENCE, || self.daemons().is_empty() && is_shut());
    }

    fn end(&self, which: impl Fn(&procs::Process) -> bool, signal: Signal) {
        for process in self.processes().into_iter().filter(which) {
            let _ = kill_process(Pid::from_raw(process.pid).unwrap(), signal);
        }
    }
}

/// How long a daemon may take to go with everything it started: its own promise is 5 s.
const GONE: Duration = Duration::from_secs(20);

impl Drop for Home {
    fn drop(&mut self) {
        let daemon = bins().switchboardd.to_str().unwrap().to_owned();
        let shim = bins().switchboard.to_str().unwrap().to_owned() + " ";
        self.end(|process| (process.cmdline.clone() + " ").starts_with(&shim), Signal::KILL);
        // A daemon that a shim started is nobody's value; it is asked to go here. One that a shim was starting when
        // it was killed appears only now. Each is asked once.
        let asked = RefCell::new(HashSet::new());
        let is_new_daemon = |process: &procs::Process| {
            let is_daemon = process.cmdline.starts_with(&daemon) && !process.cmdline.contains("--guard");
            is_daemon && asked.borrow_mut().insert(process.pid)
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
