//! The suite against a real daemon with the era child behind it: what an HTTP host of Switchboard gets.

use std::path::Path;

use serde_json::json;

use super::server::{Served, forwarder};
use crate::bins::bins;
use crate::wait::{PATIENCE, until_true};
use crate::{Daemon, Home, Request};

/// A daemon with one child, and the forwarder in front of it; ends when dropped.
pub struct Through {
    served: Served,
    _daemon: Daemon,
    _home: Home,
}

/// The name of the child.
const CHILD: &str = "era";

impl Through {
    /// `args` are the era child's.
    pub fn start(args: &[&str]) -> Result<Self, String> {
        let home = Home::new();
        let servers = json!({ "mcpServers": { CHILD: home.entry(&bins().era_child, args, &[]) } });
        home.definition(CHILD, &servers.to_string());
        let daemon = home.daemon_on_tcp();
        let token_file = daemon.told()["tokenFile"].as_str().unwrap_or_default().to_owned();
        let target = daemon.tcp_address().port();
        let served = forwarder(&bins().stdio_adapter, target, Path::new(&token_file))?;
        // The suite comes from the forwarder's address, which is known only now.
        let origin = format!("http://localhost:{}", served.port());
        home.config(&json!({ "http": { "allowedOrigins": [origin] } }));
        until_true("the origin to be allowed", PATIENCE, || {
            let request = Request::new("GET", "/health").header("Origin", &origin);
            daemon.tcp().send(&request).status == 200
        });
        Ok(Self { served, _daemon: daemon, _home: home })
    }

    /// Where the suite finds the child.
    pub fn url(&self) -> String {
        self.served.url(&format!("/mcp/{CHILD}"))
    }
}
