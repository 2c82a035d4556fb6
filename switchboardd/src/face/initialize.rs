//! `initialize`, the first request of a legacy host.

use switchboard_mcp::client_capabilities::ClientCapabilities;
use switchboard_mcp::methods::{LATEST_LEGACY, LEGACY_REVISIONS};
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

use crate::caller::Caller;

/// Records the host's profile and returns the revision to speak: the requested one if we know it, else our
/// newest legacy one. Members that the host leaves out get the most restrictive default.
pub(super) fn negotiate(caller: &Caller, params: Option<Raw<'_>>) -> &'static str {
    let params = params.and_then(Members::of).unwrap_or_default();
    let wanted = params.text("protocolVersion");
    let revision =
        LEGACY_REVISIONS.into_iter().find(|known| Some(*known) == wanted.as_deref()).unwrap_or(LATEST_LEGACY);
    let info = params.get("clientInfo").filter(|info| info.get().starts_with('{'));
    let client = info.and_then(Members::of).and_then(|client| client.text("name"));
    let client_capabilities = params.get("capabilities").map(ClientCapabilities::parse).unwrap_or_default();
    caller.update(|profile| {
        profile.client = client.map(Into::into);
        profile.client_info = info.map(|info| info.get().into());
        profile.revision = Some(revision);
        profile.client_capabilities = client_capabilities;
    });
    revision
}
