//! Runs the suite against a real daemon with the era child behind it.

use std::path::Path;

use serde_json::{Value, json};

use super::server::{FrontServer, adapter, forwarder};
use crate::bins::bins;
use crate::wait::{TEST_TIMEOUT, until_true};
use crate::{DaemonProcess, Home, Request};

const CHILD: &str = "era";

/// A daemon with one child, and the adapter or forwarder in front of it; ended on drop.
pub struct DaemonUnderTest {
    served: FrontServer,
    path: String,
    _daemon: DaemonProcess,
    _home: Home,
}

impl DaemonUnderTest {
    /// Over HTTP; `args` are the era child's.
    pub fn registry(args: &[&str]) -> Result<Self, String> {
        let home = home(args);
        let daemon = home.daemon_on_tcp();
        let token_file = daemon.daemon_file()["tokenFile"].as_str().unwrap_or_default().to_owned();
        let target = daemon.tcp_address().port();
        let served = forwarder(&bins().stdio_adapter, target, Path::new(&token_file))?;
        // The suite's origin is the forwarder's address, which is known only now.
        let origin = format!("http://localhost:{}", served.port());
        home.config(&config(Some(&origin)));
        until_true("the origin to be allowed", TEST_TIMEOUT, || {
            let request = Request::new("GET", "/health").header("Origin", &origin);
            daemon.tcp().send(&request).status == 200
        });
        Ok(Self { served, path: format!("/mcp/{CHILD}"), _daemon: daemon, _home: home })
    }

    /// Over stdio: the adapter drives a shim as a host would.
    pub fn shim(args: &[&str]) -> Result<Self, String> {
        let home = home(args);
        let daemon = home.daemon();
        let (shim, socket) = (&bins().switchboard, home.socket());
        let command = [shim.as_os_str(), "--child".as_ref(), CHILD.as_ref(), "--socket".as_ref()];
        let command: Vec<_> = command.into_iter().chain([socket.as_os_str()]).collect();
        let command: Vec<&str> = command.iter().filter_map(|part| part.to_str()).collect();
        let served = adapter(&bins().stdio_adapter, &command)?;
        Ok(Self { served, path: "/mcp".to_owned(), _daemon: daemon, _home: home })
    }

    /// The URL of the child, for the suite.
    pub fn url(&self) -> String {
        self.served.url(&self.path)
    }
}

fn home(args: &[&str]) -> Home {
    let home = Home::new();
    home.config(&config(None));
    let servers = json!({ "mcpServers": { CHILD: home.entry(&bins().era_child, args, &[]) } });
    home.definition(CHILD, &servers.to_string());
    home
}

/// Session scope, because only a child that belongs to one session is told roots.
fn config(origin: Option<&str>) -> Value {
    let origins: Vec<&str> = origin.into_iter().collect();
    json!({ "http": { "allowedOrigins": origins }, "suites": { CHILD: { "pool": { "scope": "session" } } } })
}
