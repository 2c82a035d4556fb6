//! The well-behaved server that every behaviour modifies.

use std::sync::atomic::Ordering;

use super::peer::{Incoming, Peer};
use super::tools;

/// How a message is handled.
pub(crate) enum Handling {
    /// As a well-behaved server does.
    Usual,
    /// Not at all: the behaviour has handled it.
    Taken,
    /// Stop serving and return.
    Leave,
}

/// Serves until the end of input, or until `bend` returns [`Handling::Leave`]. `bend` sees each message first.
pub(crate) fn serve(peer: &Peer, mut bend: impl FnMut(&Peer, &Incoming) -> Handling) {
    while let Some(message) = peer.read() {
        match bend(peer, &message) {
            Handling::Usual => answer(peer, &message),
            Handling::Taken => {}
            Handling::Leave => return,
        }
    }
}

/// For [`serve`]: no deviation.
pub(crate) fn usual(_: &Peer, _: &Incoming) -> Handling {
    Handling::Usual
}

/// Overrides the handling of one method.
pub(crate) fn bend(peer: &Peer, method: &str, mut bent: impl FnMut(&Peer, &Incoming)) {
    serve(peer, |peer, message| {
        if !message.is(method) {
            return Handling::Usual;
        }
        bent(peer, message);
        Handling::Taken
    });
}

pub(crate) fn answer(peer: &Peer, message: &Incoming) {
    let id = message.id();
    match message.method.as_deref().unwrap_or_default() {
        "initialize" => peer.result(id, &initialize_result(&asked_version(message))),
        "ping" | "logging/setLevel" => peer.result(id, "{}"),
        "tools/list" => peer.result(id, &tools::list(peer.changed.load(Ordering::Relaxed))),
        "tools/call" => tools::call(peer, message),
        "notifications/cancelled" => {
            if let Some(id) = message.param("requestId") {
                peer.cancelled.lock().unwrap().insert(id);
            }
        }
        method if message.id.is_some() => {
            peer.error(id, &format!(r#"{{"code":-32601,"message":"evil child knows no {method}"}}"#));
        }
        _ => {}
    }
}

/// Raw JSON, with its quotes.
pub(crate) fn asked_version(message: &Incoming) -> String {
    message.param("protocolVersion").unwrap_or_else(|| "\"2025-11-25\"".into())
}

pub(crate) fn initialize_result(version: &str) -> String {
    format!(
        r#"{{"protocolVersion":{version},"capabilities":{{"tools":{{"listChanged":true}},"logging":{{}}}},"serverInfo":{{"name":"evil-child","version":"6.6.6"}}}}"#
    )
}
