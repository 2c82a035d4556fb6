//! Runs `systemctl --user` and `loginctl`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

pub(super) const SOCKET: &str = "switchboardd.socket";
pub(super) const SERVICE: &str = "switchboardd.service";

/// Properties of one of our units.
#[derive(Debug, Clone, Default)]
pub(super) struct SystemdUnit {
    properties: HashMap<String, String>,
}

impl SystemdUnit {
    /// Parses one block of `show`. A property with several values has several lines.
    fn read(block: &str) -> Self {
        let mut properties: HashMap<String, String> = HashMap::new();
        for (name, value) in block.lines().filter_map(|line| line.split_once('=')) {
            let values = properties.entry(name.to_owned()).or_default();
            if !values.is_empty() {
                values.push('\n');
            }
            values.push_str(value);
        }
        Self { properties }
    }

    pub(super) fn is(&self, property: &str, value: &str) -> bool {
        self.text(property) == value
    }

    pub(super) fn text(&self, property: &str) -> &str {
        self.properties.get(property).map_or("", String::as_str)
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.is("LoadState", "loaded")
    }

    pub(super) fn is_active(&self) -> bool {
        ["active", "activating", "reloading"].contains(&self.text("ActiveState"))
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.text("UnitFileState").starts_with("enabled")
    }

    pub(super) fn file(&self) -> Option<PathBuf> {
        Some(self.text("FragmentPath")).filter(|path| !path.is_empty()).map(PathBuf::from)
    }

    pub(super) fn listens_at(&self, path: &Path) -> bool {
        let stream = format!("{} (Stream)", path.display());
        self.text("Listen").lines().any(|line| line == stream)
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.text("MainPID").parse().ok().filter(|pid| *pid != 0)
    }
}

/// Both units, in their current state. The error says why systemd cannot be asked.
pub(super) async fn units() -> Result<(SystemdUnit, SystemdUnit), String> {
    const SHOWN_PROPERTIES: &str =
        "LoadState,ActiveState,UnitFileState,FragmentPath,MainPID,StatusText,Listen,NeedDaemonReload";
    let shown = systemctl(&["show", "--property", SHOWN_PROPERTIES, SOCKET, SERVICE]).await?;
    let mut units = shown.split("\n\n").map(SystemdUnit::read);
    Ok((units.next().unwrap_or_default(), units.next().unwrap_or_default()))
}

/// The folder of the user's own units.
pub(super) fn folder(home: &Path) -> PathBuf {
    let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    config.unwrap_or_else(|| home.join(".config")).join("systemd/user")
}

/// Runs `systemctl --user`; returns its output, or why it failed.
pub(super) async fn systemctl(args: &[&str]) -> Result<String, String> {
    let said = tokio::process::Command::from(command("systemctl"))
        .arg("--user")
        .args(args)
        .stdin(Stdio::null())
        .output()
        .await
        .map_err(|error| format!("`systemctl` cannot be run: {error}"))?;
    if said.status.success() {
        return Ok(String::from_utf8_lossy(&said.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&said.stderr).trim().to_owned();
    Err(if why.is_empty() { format!("`systemctl --user {}` failed", args.join(" ")) } else { why })
}

/// Whether the user's services outlive their logins; `None` if unknown.
pub(super) async fn lingers() -> Option<bool> {
    let uid = rustix::process::getuid().as_raw().to_string();
    let said = tokio::process::Command::from(command("loginctl"))
        .args(["show-user", &uid, "--property", "Linger", "--value"])
        .stdin(Stdio::null())
        .output()
        .await
        .ok()?;
    match String::from_utf8_lossy(&said.stdout).trim() {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

#[expect(clippy::disallowed_methods, reason = "the command line asks systemd, which is no child")]
fn command(program: &str) -> std::process::Command {
    let mut command = std::process::Command::new(program);
    // After `su` or `ssh` it may be unset although the manager runs.
    if std::env::var_os("XDG_RUNTIME_DIR").is_none() {
        let folder = format!("/run/user/{}", rustix::process::getuid().as_raw());
        if Path::new(&folder).is_dir() {
            command.env("XDG_RUNTIME_DIR", folder);
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_read_from_what_systemctl_shows() {
        let unit = SystemdUnit::read(
            "LoadState=loaded\nActiveState=active\nUnitFileState=enabled\nMainPID=0\nFragmentPath=/u/s.socket\n\
             Listen=/run/user/7/s=1 (Stream)\nListen=127.0.0.1:7420 (Stream)\n",
        );
        assert!(unit.is_loaded() && unit.is_active() && unit.is_enabled() && unit.pid().is_none());
        assert_eq!(unit.file().as_deref(), Some(Path::new("/u/s.socket")));
        assert!(
            unit.listens_at(Path::new("/run/user/7/s=1")) && !unit.listens_at(Path::new("/run/user/7/s"))
        );
        let nothing = SystemdUnit::read("LoadState=not-found\nActiveState=inactive\nUnitFileState=");
        assert!(!nothing.is_loaded() && !nothing.is_active() && !nothing.is_enabled());
    }
}
