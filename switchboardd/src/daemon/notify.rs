//! Reports our state to the service manager, by sd_notify(3). Implemented here because a send must never
//! block the event loop, whatever the reader does.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram as StdDatagram};
use std::time::Duration;

use tokio::net::UnixDatagram;

use crate::state::Daemon;

/// A send that takes longer is dropped.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);
/// Counts change in bursts; one status line a second is enough.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// The service manager, if it wants notifications.
pub(super) struct SdNotify {
    socket: Option<UnixDatagram>,
    /// The manager kills us if it hears nothing for this long.
    watchdog: Option<Duration>,
}

impl SdNotify {
    /// Reads the environment, and leaves it as it is: children get an environment of their own.
    pub(super) fn from_env() -> Self {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let socket = variable("NOTIFY_SOCKET").and_then(|name| match connect(&name) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::warn!(target: "daemon", "`NOTIFY_SOCKET` is `{}`, which cannot be used: {error}", name.display());
                None
            }
        });
        let text = |name: &str| variable(name).and_then(|value| value.into_string().ok());
        let watchdog = watchdog_timeout(text("WATCHDOG_USEC"), text("WATCHDOG_PID"), std::process::id());
        Self { watchdog: watchdog.filter(|_| socket.is_some()), socket }
    }

    pub(super) async fn send(&self, state: &str) {
        let Some(socket) = &self.socket else { return };
        match tokio::time::timeout(SEND_TIMEOUT, socket.send(state.as_bytes())).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::debug!(target: "daemon", "the service manager was not told: {error}"),
            Err(_) => tracing::debug!(target: "daemon", "the service manager does not listen"),
        }
    }

    pub(super) async fn ready(&self, daemon: &Daemon) {
        self.send(&format!("READY=1\nSTATUS={}", counts(daemon))).await;
    }

    pub(super) async fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=finishing what is under way").await;
    }

    /// Sends the keep-alive twice per watchdog period; never resolves. It runs on the thread that dispatches
    /// every call, so that a blocked event loop sends nothing.
    pub(super) async fn run_watchdog(&self) {
        let Some(watchdog) = self.watchdog else { return std::future::pending().await };
        loop {
            self.send("WATCHDOG=1").await;
            tokio::time::sleep(watchdog / 2).await;
        }
    }

    /// Sends the numbers of suites and sessions when they change; never resolves.
    pub(super) async fn run_status_updates(&self, daemon: &Daemon) {
        if self.socket.is_none() {
            return std::future::pending().await;
        }
        let mut told = counts(daemon);
        loop {
            let changed = daemon.sessions.changed();
            let now = counts(daemon);
            if now == told {
                changed.await;
                continue;
            }
            self.send(&format!("STATUS={now}")).await;
            told = now;
            tokio::time::sleep(STATUS_INTERVAL).await;
        }
    }
}

fn counts(daemon: &Daemon) -> String {
    let of = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    format!("{}, {}", of(daemon.catalog().suites.len(), "suite"), of(daemon.sessions.count(), "session"))
}

/// `WATCHDOG_USEC`, if it is meant for this process.
fn watchdog_timeout(microseconds: Option<String>, pid: Option<String>, ours: u32) -> Option<Duration> {
    let for_us = pid.is_none_or(|pid| pid.parse() == Ok(ours));
    let time = microseconds?.parse().ok().filter(|time| *time > 0).map(Duration::from_micros);
    time.filter(|_| for_us)
}

fn connect(name: &OsStr) -> io::Result<UnixDatagram> {
    let socket = StdDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect_addr(&address(name.as_bytes())?)?;
    UnixDatagram::from_std(socket)
}

/// A path or an abstract name.
fn address(name: &[u8]) -> io::Result<SocketAddr> {
    match name {
        [b'/', ..] => SocketAddr::from_pathname(OsStr::from_bytes(name)),
        #[cfg(target_os = "linux")]
        [b'@', rest @ ..] => <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(rest),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a path nor an abstract name")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_of_another_process_is_ignored() {
        let check = |time: Option<&str>, pid: Option<&str>| {
            watchdog_timeout(time.map(Into::into), pid.map(Into::into), 7).map(|time| time.as_micros())
        };
        assert_eq!(check(Some("30000000"), Some("7")), Some(30_000_000));
        assert_eq!(check(Some("30000000"), None), Some(30_000_000));
        for (time, pid) in
            [(Some("5"), Some("8")), (Some("0"), None), (Some("soon"), None), (None, Some("7"))]
        {
            assert_eq!(check(time, pid), None, "{time:?} {pid:?}");
        }
    }

    #[test]
    fn an_address_is_a_path_or_abstract() {
        assert!(address(b"/run/notify").unwrap().as_pathname().is_some());
        assert!(address(b"relative").is_err() && address(b"").is_err());
        #[cfg(target_os = "linux")]
        assert!(address(b"@abstract").unwrap().is_unnamed().eq(&false));
    }
}
