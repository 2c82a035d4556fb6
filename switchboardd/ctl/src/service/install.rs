//! Installs and removes the service; a dry run only lists the steps.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_wire::runtime_paths::private_folder;

use super::systemd::{self, SERVICE, SOCKET, systemctl};
use super::units::{self, ServiceSpec};
use super::{ServiceError, ServicePaths, ServiceReport, file_error, launchd};
use crate::args::Args;
use switchboardd::daemon;

/// A draining daemon has exited within this time.
const OLD_DAEMON_TIMEOUT: Duration = Duration::from_secs(25);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Steps, executed or only listed.
struct InstallSteps {
    dry_run: bool,
    report: ServiceReport,
    done: Vec<Value>,
}

impl InstallSteps {
    fn new(dry_run: bool) -> Self {
        Self { dry_run, report: ServiceReport::default(), done: Vec::new() }
    }

    /// Records a step and returns whether to execute it.
    fn step(&mut self, what: String) -> bool {
        self.report.say(if self.dry_run { format!("would {what}") } else { what.clone() });
        self.done.push(what.into());
        !self.dry_run
    }

    fn end(mut self, last: &str) -> ServiceReport {
        self.report.fact("dryRun", json!(self.dry_run));
        self.report.fact("steps", Value::Array(self.done));
        if !self.dry_run || self.report.lines.is_empty() {
            self.report.say(last);
        }
        self.report
    }

    /// Writes a file of ours if its text differs; returns whether it does.
    fn write(&mut self, path: &Path, text: &str) -> Result<bool, ServiceError> {
        match std::fs::read_to_string(path) {
            Ok(before) if before == text => return Ok(false),
            Ok(before) if !units::is_ours(&before) => {
                return Err(ServiceError::NotOurs(path.display().to_string()));
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(file_error(path)(error)),
        }
        let writes = self.step(format!("write {}", path.display()));
        if !writes {
            self.report.lines.extend(text.lines().map(|line| format!("    {line}")));
        } else {
            let folder = path.parent().unwrap_or(Path::new("/"));
            std::fs::create_dir_all(folder).map_err(file_error(folder))?;
            switchboard_definitions::files::replace(path, text.as_bytes()).map_err(file_error(path))?;
        }
        Ok(true)
    }

    /// Deletes a file if it is ours; returns whether it was.
    fn delete(&mut self, path: &Path) -> Result<bool, ServiceError> {
        let Ok(text) = std::fs::read_to_string(path) else { return Ok(false) };
        if !units::is_ours(&text) {
            self.report
                .say(format!("left {}, which `switchboard service install` did not write", path.display()));
            return Ok(false);
        }
        if self.step(format!("delete {}", path.display())) {
            std::fs::remove_file(path).map_err(file_error(path))?;
        }
        Ok(true)
    }

    async fn systemctl(&mut self, args: &[&str]) -> Result<(), ServiceError> {
        if self.step(format!("systemctl --user {}", args.join(" "))) {
            systemctl(args).await.map_err(ServiceError::Manager)?;
        }
        Ok(())
    }
}

pub(super) async fn install(args: &Args, dry_run: bool) -> Result<ServiceReport, ServiceError> {
    let here = ServicePaths::of(args)?;
    let config = args
        .config
        .as_ref()
        .map(std::path::absolute)
        .transpose()
        .map_err(file_error(Path::new("--config")))?;
    let wanted = ServiceSpec { program: program()?, config, socket: here.paths.socket.clone() };
    let mut steps = InstallSteps::new(dry_run);
    if cfg!(target_os = "macos") {
        install_agent(&here, &wanted, &mut steps).await?;
    } else {
        install_units(&here, &wanted, &mut steps).await?;
    }
    Ok(steps.end("the service is installed; `switchboard service status` shows it"))
}

async fn install_units(
    here: &ServicePaths,
    wanted: &ServiceSpec,
    steps: &mut InstallSteps,
) -> Result<(), ServiceError> {
    let folder = systemd::folder(&here.home);
    let (socket, service) = match systemd::units().await {
        Ok(units) => units,
        Err(why) if steps.dry_run => {
            for (name, text) in [units::socket(wanted), units::service(wanted)] {
                steps.write(&folder.join(name), &text)?;
            }
            steps.report.say(ServiceError::NoManager(why));
            return Ok(());
        }
        Err(why) => return Err(ServiceError::NoManager(why)),
    };
    let is_packaged =
        |unit: &systemd::SystemdUnit| unit.file().is_some_and(|file| !file.starts_with(&folder));
    let (mut new_socket, mut new_service) = (false, false);
    if is_packaged(&socket) && is_packaged(&service) {
        steps.report.say(format!("the units are there, from a package: {}", socket.text("FragmentPath")));
    } else {
        let write =
            |steps: &mut InstallSteps, (name, text): (&str, String)| steps.write(&folder.join(name), &text);
        new_socket = write(steps, units::socket(wanted))?;
        new_service = write(steps, units::service(wanted))?;
    }
    if new_socket
        || new_service
        || socket.is("NeedDaemonReload", "yes")
        || service.is("NeedDaemonReload", "yes")
    {
        steps.systemctl(&["daemon-reload"]).await?;
    }
    if !socket.is_enabled() || !socket.is_active() {
        hand_over(here, &service, steps).await?;
    } else if new_socket {
        steps.systemctl(&["restart", SOCKET]).await?;
    } else if new_service {
        steps.systemctl(&["try-restart", SERVICE]).await?;
    }
    if systemd::lingers().await == Some(false) {
        steps.report.say("it stops when you log out; `loginctl enable-linger` keeps it running");
    }
    Ok(())
}

/// Replaces a running daemon by the socket that systemd holds. While the start lock is held, no shim starts
/// another daemon: it finds the old one, which drains, or the new socket.
async fn hand_over(
    here: &ServicePaths,
    service: &systemd::SystemdUnit,
    steps: &mut InstallSteps,
) -> Result<(), ServiceError> {
    let old = daemon::running(&here.paths).and_then(|told| u32::try_from(told["pid"].as_u64()?).ok());
    let old = old.filter(|pid| Some(*pid) != service.pid());
    let lock = if steps.dry_run { None } else { Some(daemon::start_lock(&here.paths).await?) };
    if let Some(pid) = old
        && steps.step(format!("have the daemon that runs (pid {pid}) finish its calls and exit"))
    {
        terminate(pid);
    }
    steps.systemctl(&["enable", "--now", SOCKET]).await?;
    if lock.is_some() {
        here.paths.forget_stop();
    }
    drop(lock);
    if let Some(pid) = old.filter(|_| !steps.dry_run) {
        gone(pid).await;
    }
    Ok(())
}

async fn install_agent(
    here: &ServicePaths,
    wanted: &ServiceSpec,
    steps: &mut InstallSteps,
) -> Result<(), ServiceError> {
    let (name, text) = units::agent(wanted, &here.home);
    let file = launchd::folder(&here.home).join(name);
    let written = steps.write(&file, &text)?;
    let loaded = launchd::is_loaded().await;
    if loaded && !written {
        return Ok(());
    }
    if !steps.dry_run {
        let folder = here.paths.socket.parent().unwrap_or(Path::new("/"));
        private_folder(folder).map_err(file_error(folder))?;
    }
    if loaded && steps.step("launchctl bootout".to_owned()) {
        launchd::unload().await.map_err(ServiceError::Manager)?;
    }
    let old = daemon::running(&here.paths).and_then(|told| u32::try_from(told["pid"].as_u64()?).ok());
    let lock = if steps.dry_run { None } else { Some(daemon::start_lock(&here.paths).await?) };
    if let Some(pid) = old.filter(|_| !loaded)
        && steps.step(format!("have the daemon that runs (pid {pid}) finish its calls and exit"))
    {
        terminate(pid);
        // launchd rejects a path that another process listens on.
        gone(pid).await;
    }
    if steps.step(format!("launchctl bootstrap {}", file.display())) {
        daemon::remove_dead_socket(&here.paths.socket)?;
        launchd::load(&file).await.map_err(ServiceError::Manager)?;
        here.paths.forget_stop();
    }
    drop(lock);
    Ok(())
}

pub(super) async fn remove(args: &Args, dry_run: bool) -> Result<ServiceReport, ServiceError> {
    let here = ServicePaths::of(args)?;
    let mut steps = InstallSteps::new(dry_run);
    let there = if cfg!(target_os = "macos") {
        remove_agent(&here, &mut steps).await?
    } else {
        remove_units(&here, &mut steps).await?
    };
    let last = "removed; from now on the first editor starts the daemon again";
    Ok(steps.end(if there { last } else { "there is no service to remove" }))
}

async fn remove_units(here: &ServicePaths, steps: &mut InstallSteps) -> Result<bool, ServiceError> {
    let folder = systemd::folder(&here.home);
    let known = systemd::units().await;
    let mut there = false;
    if let Ok((socket, service)) = &known
        && (socket.is_enabled() || socket.is_active() || service.is_active())
    {
        there = true;
        steps.systemctl(&["disable", "--now", SOCKET, SERVICE]).await?;
    }
    for name in [SOCKET, SERVICE] {
        there |= steps.delete(&folder.join(name))?;
    }
    match known {
        Ok(_) if there => {
            steps.systemctl(&["daemon-reload"]).await?;
            // Clears failed states; the error for a unit that did not fail is ignored.
            if !steps.dry_run {
                let _ = systemctl(&["reset-failed", SOCKET, SERVICE]).await;
            }
        }
        // Without a manager and without units there is no service.
        _ => {}
    }
    Ok(there)
}

async fn remove_agent(here: &ServicePaths, steps: &mut InstallSteps) -> Result<bool, ServiceError> {
    let file = launchd::folder(&here.home).join(format!("{}.plist", launchd::LABEL));
    let loaded = launchd::is_loaded().await;
    if loaded && steps.step("launchctl bootout".to_owned()) {
        launchd::unload().await.map_err(ServiceError::Manager)?;
    }
    Ok(steps.delete(&file)? || loaded)
}

/// The program to run: the name on the user's PATH, which an upgrade does not change.
fn program() -> Result<PathBuf, ServiceError> {
    let own = std::env::current_exe()
        .and_then(|path| path.canonicalize())
        .map(|path| path.with_file_name("switchboardd"))
        .map_err(file_error(Path::new("switchboardd")))?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    if folder.join("deps").is_dir() && folder.join("incremental").exists()
        || folder.join(".fingerprint").is_dir()
    {
        return Err(ServiceError::BuildFolder(own.display().to_string()));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("switchboardd"))
        .find(|named| named.canonicalize().is_ok_and(|named| named == own));
    Ok(named.unwrap_or(own))
}

/// Sends SIGTERM, as a service manager would: the daemon drains, and shims connect to the next one.
fn terminate(pid: u32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid.cast_signed()) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

async fn gone(pid: u32) {
    let until = tokio::time::Instant::now() + OLD_DAEMON_TIMEOUT;
    let lives = || {
        rustix::process::Pid::from_raw(pid.cast_signed())
            .is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
    };
    while lives() && tokio::time::Instant::now() < until {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
