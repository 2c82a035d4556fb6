//! The workspace of a session whose folder cannot be one, such as HOME: the only root that its host names.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_mcp::methods;
use switchboard_wire::envelope::Message;
use switchboard_wire::raw::Raw;

use crate::session::Session;
use crate::state::Daemon;

/// Call this when a notification of a host has been handled.
pub fn ask(daemon: &Arc<Daemon>, session: &Arc<Session>, notification: &str) {
    let is_time = matches!(notification, methods::INITIALIZED | methods::ROOTS_CHANGED);
    let has_place = session.workspace().root.is_some() || session.folder.is_none();
    let may_ask = session.is_shims && session.caller.profile().client_capabilities.roots;
    if !is_time || has_place || !may_ask {
        return;
    }
    let request = json!({ "jsonrpc": "2.0", "id": "root", "method": methods::ROOTS_LIST }).to_string();
    let Ok(Message::Request { id, params, .. }) = Message::parse(request.as_bytes()) else { return };
    let (daemon, asked) = (daemon.clone(), session.clone());
    let heard = move |response: &[u8], _: Raw<'_>| {
        if let Some(folder) = only_root(response) {
            tokio::spawn(daemon.workspace_loader.clone().join_workspace(asked, folder));
        }
    };
    let _ = session.caller.ask(request.as_bytes(), id, methods::ROOTS_LIST, params, heard);
}

/// The folder of the only root in an answer.
fn only_root(response: &[u8]) -> Option<PathBuf> {
    let response: Value = serde_json::from_slice(response).ok()?;
    let [root] = response["result"]["roots"].as_array()?.as_slice() else { return None };
    let address = url::Url::parse(root["uri"].as_str()?).ok()?;
    (address.scheme() == "file").then(|| address.to_file_path().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_folder_is_a_choice() {
        for (roots, expect) in [
            (json!([{"uri": "file:///a/b%20c", "name": "x"}]), Some("/a/b c")),
            (json!([{"uri": "file:///a"}, {"uri": "file:///b"}]), None),
            (json!([]), None),
            (json!([{"uri": "https://h/a"}]), None),
            (json!([{"uri": "/a"}]), None),
            (json!(7), None),
        ] {
            let answer = json!({ "jsonrpc": "2.0", "id": 1, "result": { "roots": roots } }).to_string();
            assert_eq!(only_root(answer.as_bytes()), expect.map(PathBuf::from), "{answer}");
        }
    }
}
