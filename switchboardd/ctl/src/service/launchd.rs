//! Runs `launchctl` for our agent.

use std::path::{Path, PathBuf};
use std::process::Stdio;

pub(super) const LABEL: &str = "dev.switchboard.switchboardd";

pub(super) fn folder(home: &Path) -> PathBuf {
    home.join("Library/LaunchAgents")
}

/// The domain of the logged-in user.
fn domain() -> String {
    format!("gui/{}", rustix::process::getuid().as_raw())
}

/// Whether launchd has loaded the agent.
pub(super) async fn is_loaded() -> bool {
    launchctl(&["print", &format!("{}/{LABEL}", domain())]).await.is_ok()
}

pub(super) async fn load(file: &Path) -> Result<(), String> {
    launchctl(&["bootstrap", &domain(), &file.display().to_string()]).await
}

pub(super) async fn unload() -> Result<(), String> {
    launchctl(&["bootout", &format!("{}/{LABEL}", domain())]).await
}

#[expect(clippy::disallowed_methods, reason = "the command line tells launchd, which is no child")]
async fn launchctl(args: &[&str]) -> Result<(), String> {
    let said = tokio::process::Command::from(std::process::Command::new("launchctl"))
        .args(args)
        .stdin(Stdio::null())
        .output()
        .await
        .map_err(|error| format!("`launchctl` cannot be run: {error}"))?;
    if said.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&said.stderr).trim().to_owned();
    Err(format!("`launchctl {}` failed: {why}", args.join(" ")))
}
