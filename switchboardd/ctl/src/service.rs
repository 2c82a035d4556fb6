//! `switchboard service`: puts the daemon under systemd or launchd, and takes it out again.

mod install;
mod launchd;
mod manager;
mod systemd;
mod units;

use std::fmt::Display;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use switchboard_wire::runtime_paths::RuntimePaths;
use switchboard_wire::visible::Printable;

use super::CliExit;
use super::output::{complain, print, print_json};
use crate::args::{Args, Service};
use switchboardd::daemon;

pub(super) use manager::ServiceManager;

/// Why a service command failed.
#[derive(Debug, thiserror::Error)]
enum ServiceError {
    #[error("{0}")]
    Fatal(#[from] daemon::Fatal),
    #[error("a service uses the default socket; run this without `--socket` and `SWITCHBOARD_SOCKET`")]
    OtherSocket,
    #[error(
        "`{0}` is in a build folder, which the next build changes; install it first, with a package or `cargo install` (README, \"Install\")"
    )]
    BuildFolder(String),
    #[error("`{0}` exists and was not written by `switchboard service install`; move it away first")]
    NotOurs(String),
    #[error(
        "systemd does not answer for this user: {0}\n  You do not need it: the first editor starts the daemon.\n  In WSL, put `systemd=true` under `[boot]` in /etc/wsl.conf. After `su` or `sudo`, log in as that user, or run\n  `sudo loginctl enable-linger USER` once. Containers have no systemd."
    )]
    NoManager(String),
    #[error("{0}")]
    Manager(String),
    #[error("`{what}`: {error}")]
    File { what: String, error: std::io::Error },
}

fn file_error(path: &Path) -> impl Fn(std::io::Error) -> ServiceError + '_ {
    |error| ServiceError::File { what: path.display().to_string(), error }
}

/// The user's home and runtime paths.
struct ServicePaths {
    home: PathBuf,
    paths: RuntimePaths,
}

impl ServicePaths {
    fn of(args: &Args) -> Result<Self, ServiceError> {
        if args.socket.is_some() {
            return Err(ServiceError::OtherSocket);
        }
        let home = daemon::home()?;
        Ok(Self { paths: daemon::runtime_paths(&args.of_daemon(), &home), home })
    }
}

/// Whether `service install` has written units or an agent.
pub(super) fn has_units(home: &Path) -> bool {
    let files = match cfg!(target_os = "macos") {
        true => vec![launchd::folder(home).join(format!("{}.plist", launchd::LABEL))],
        false => [systemd::SOCKET, systemd::SERVICE].map(|name| systemd::folder(home).join(name)).to_vec(),
    };
    files.iter().any(|file| std::fs::read_to_string(file).is_ok_and(|text| units::is_ours(&text)))
}

pub(super) async fn run(args: &Args, what: Service) -> CliExit {
    let done = match what {
        Service::Install { dry_run } => install::install(args, dry_run).await,
        Service::Remove { dry_run } => install::remove(args, dry_run).await,
        Service::Status => status(args).await,
    };
    match done {
        Ok(report) => {
            report.print(args);
            CliExit::Ok
        }
        Err(refused) => {
            if args.json {
                print_json(&json!({ "error": refused.to_string() }));
            } else {
                complain(&refused);
            }
            CliExit::Error
        }
    }
}

/// What was found or done: lines for users, facts for programs.
#[derive(Debug, Default)]
struct ServiceReport {
    lines: Vec<String>,
    facts: serde_json::Map<String, Value>,
}

impl ServiceReport {
    fn say(&mut self, line: impl Display) {
        self.lines.push(line.to_string());
    }

    fn fact(&mut self, name: &str, value: Value) {
        self.facts.insert(name.to_owned(), value);
    }

    fn print(&self, args: &Args) {
        if args.json {
            print_json(&Value::Object(self.facts.clone()));
        } else {
            self.lines.iter().for_each(|line| print(&Printable::text(line)));
        }
    }
}

async fn status(args: &Args) -> Result<ServiceReport, ServiceError> {
    let here = ServicePaths::of(args)?;
    let mut report = if cfg!(target_os = "macos") { on_macos(&here).await } else { on_linux(&here).await };
    let running = daemon::running(&here.paths);
    let told = |key: &str| running.as_ref().map_or(Value::Null, |told| told[key].clone());
    report.fact("version", told("version"));
    report.fact("pid", told("pid"));
    report.say(match &running {
        Some(told) => {
            format!("runs       version {}, pid {}", told["version"].as_str().unwrap_or("?"), told["pid"])
        }
        None => "runs       no; the next connection or `switchboard start` starts it".to_owned(),
    });
    Ok(report)
}

async fn on_linux(here: &ServicePaths) -> ServiceReport {
    let mut report = ServiceReport::default();
    report.fact("manager", json!("systemd"));
    let (socket, service) = match systemd::units().await {
        Ok(units) => units,
        Err(why) => {
            let files =
                [systemd::SOCKET, systemd::SERVICE].map(|name| systemd::folder(&here.home).join(name));
            report.fact("reachable", json!(false));
            report.fact("problem", json!(why));
            report.fact("installed", json!(files.iter().all(|file| file.exists())));
            report.say(ServiceError::NoManager(why));
            return report;
        }
    };
    let own = socket.file().is_some_and(|file| file.starts_with(systemd::folder(&here.home)));
    let lingers = systemd::lingers().await;
    for (name, value) in [
        ("reachable", json!(true)),
        ("installed", json!(socket.is_loaded() && service.is_loaded())),
        ("packaged", json!(socket.is_loaded() && !own)),
        ("enabled", json!(socket.is_enabled())),
        ("socketActive", json!(socket.is_active())),
        ("daemonActive", json!(service.is_active())),
        ("units", json!([socket.file(), service.file()])),
        ("socket", json!(here.paths.socket)),
        ("kept", json!(service.pid())),
        ("status", json!(service.text("StatusText"))),
        ("linger", json!(lingers)),
    ] {
        report.fact(name, value);
    }
    if !socket.is_loaded() {
        report.say("installed  no; `switchboard service install` does it");
        return report;
    }
    let word = |yes: bool| if yes { "yes" } else { "no" };
    let whose = if own { "your own" } else { "from a package" };
    report.say(format!("installed  yes, units {whose}: {}", socket.text("FragmentPath")));
    report.say(format!("enabled    {}", word(socket.is_enabled())));
    report.say(format!("socket     {} ({})", socket.text("ActiveState"), here.paths.socket.display()));
    report
        .say(format!("daemon     {} {}", service.text("ActiveState"), service.text("StatusText")).trim_end());
    if socket.is_active() && !socket.listens_at(&here.paths.socket) {
        report.say(format!("warning    the unit listens at another address: {}", socket.text("Listen")));
    }
    match lingers {
        Some(false) => {
            report.say("linger     no: it stops when you log out; `loginctl enable-linger` keeps it running")
        }
        Some(true) => report.say("linger     yes"),
        None => {}
    }
    report
}

async fn on_macos(here: &ServicePaths) -> ServiceReport {
    let file = launchd::folder(&here.home).join(format!("{}.plist", launchd::LABEL));
    let loaded = launchd::is_loaded().await;
    let mut report = ServiceReport::default();
    report.fact("manager", json!("launchd"));
    report.fact("installed", json!(file.exists()));
    report.fact("enabled", json!(loaded));
    report.fact("units", json!([file]));
    let word = if file.exists() { "yes" } else { "no; `switchboard service install` does it" };
    report.say(format!("installed  {word}"));
    report.say(format!("loaded     {}", if loaded { "yes" } else { "no" }));
    report
}
