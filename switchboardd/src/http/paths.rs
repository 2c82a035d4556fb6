//! Paths, and methods that routes allow, which several modules must know.

/// Where the status page exchanges its code for a bearer.
pub(super) const PAGE_SESSION: &str = "/page/session";
/// Where the status page finds out whether it talks to its daemon.
pub(super) const PAGE_PROOF: &str = "/page/proof";
/// Where the status page receives status updates.
pub(super) const PAGE_FEED: &str = "/status/events";

/// Where hosts that speak HTTP post their messages.
pub(super) const STREAMABLE: &str = "/mcp";
/// The methods of `/mcp` and `/mcp/{child}`.
pub(super) const STREAMABLE_METHODS: &str = "POST, GET, DELETE, OPTIONS";
