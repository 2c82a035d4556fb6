//! The service manager, for `switchboard start` and `stop`: a daemon stopped without it would be started
//! again by the next connection.

use super::systemd::{self, SERVICE, SOCKET, systemctl};
use super::{launchd, units};
use crate::args::Args;
use switchboardd::daemon;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceManager {
    Systemd,
    Launchd,
}

impl ServiceManager {
    /// The manager that should start the daemon.
    pub(crate) async fn to_start(args: &Args) -> Option<Self> {
        if args.socket.is_some() || args.config.is_some() {
            return None;
        }
        if cfg!(target_os = "macos") {
            let home = daemon::home().ok()?;
            let file = launchd::folder(&home).join(format!("{}.plist", launchd::LABEL));
            let ours = std::fs::read_to_string(file).is_ok_and(|text| units::is_ours(&text));
            return ours.then_some(Self::Launchd);
        }
        let (socket, _) = systemd::units().await.ok()?;
        (is_ours(args, &socket) && (socket.is_enabled() || socket.is_active())).then_some(Self::Systemd)
    }

    /// The manager that runs the daemon now.
    pub(crate) async fn to_stop(args: &Args) -> Option<Self> {
        if args.socket.is_some() {
            return None;
        }
        if cfg!(target_os = "macos") {
            return launchd::is_loaded().await.then_some(Self::Launchd);
        }
        let (socket, service) = systemd::units().await.ok()?;
        (is_ours(args, &socket) && (socket.is_active() || service.is_active())).then_some(Self::Systemd)
    }

    pub(crate) async fn start(self) -> Result<(), String> {
        match self {
            Self::Systemd => systemctl(&["start", SOCKET, SERVICE]).await.map(drop),
            Self::Launchd => {
                let home = daemon::home().map_err(|fatal| fatal.to_string())?;
                let file = launchd::folder(&home).join(format!("{}.plist", launchd::LABEL));
                if launchd::is_loaded().await { Ok(()) } else { launchd::load(&file).await }
            }
        }
    }

    pub(crate) async fn stop(self) -> Result<(), String> {
        match self {
            Self::Systemd => systemctl(&["stop", SOCKET, SERVICE]).await.map(drop),
            Self::Launchd => launchd::unload().await,
        }
    }
}

/// Whether the unit listens on the socket that our shims use: another HOME may have another.
fn is_ours(args: &Args, socket: &systemd::SystemdUnit) -> bool {
    let paths = daemon::home().map(|home| daemon::runtime_paths_in_use(&args.of_daemon(), &home));
    paths.is_ok_and(|paths| socket.listens_at(&paths.socket))
}
