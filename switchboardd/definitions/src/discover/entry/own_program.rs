//! Recognizes an entry that would start Switchboard, or connect to it, as a child of itself.

use crate::document::{Fields, Node};

/// Programs that run the command in their arguments.
const WRAPPERS: [&str; 13] = [
    "env", "sh", "bash", "zsh", "dash", "fish", "nohup", "setsid", "nice", "timeout", "exec", "sudo",
    "stdbuf",
];
const OWN_PROGRAMS: [&str; 4] = ["switchboard", "switchboardd", "switchboard-ctl", "switchboard-guard"];

/// Whether the command is Switchboard itself, or a wrapper that would run it.
pub(super) fn would_start_switchboard(argv: &[String]) -> bool {
    let base = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let is_ours = |word: &str| OWN_PROGRAMS.contains(&base(word).as_str());
    let Some((command, args)) = argv.split_first() else { return false };
    if is_ours(command) {
        return true;
    }
    WRAPPERS.contains(&base(command).as_str())
        && args.iter().any(|arg| arg.split([' ', ';', '&', '|', '(', ')', '"', '\'']).any(is_ours))
}

/// Where the daemon answers hosts that speak HTTP, unless the user chose another port.
const OWN_ADDRESSES: [&str; 3] =
    ["http://127.0.0.1:7420/mcp", "http://localhost:7420/mcp", "http://[::1]:7420/mcp"];

/// Whether an entry of a host is Switchboard itself. Reports no mistakes.
pub(in super::super) fn is_switchboard(node: &Node<'_>) -> bool {
    let Some(fields) = node_fields(node) else { return false };
    let nested = fields.get("transport").and_then(|nested| node_fields(&nested));
    let fields = nested.unwrap_or(fields);
    let url = ["url", "httpUrl", "serverUrl"].into_iter().find_map(|key| fields.get(key));
    let is_our_url = |url: &str| OWN_ADDRESSES.iter().any(|own| url.split(['?', '#']).next() == Some(*own));
    if url.filter(Node::is_text).and_then(|url| url.text()).is_some_and(|url| is_our_url(&url)) {
        return true;
    }
    let argv: Vec<String> = ["command", "args"]
        .into_iter()
        .filter_map(|key| fields.get(key))
        .flat_map(|node| words(&node))
        .collect();
    would_start_switchboard(&argv)
}

fn node_fields<'d>(node: &Node<'d>) -> Option<Fields<'d>> {
    if node.is_object() { node.object() } else { None }
}

fn words(node: &Node<'_>) -> Vec<String> {
    let items = if node.is_array() { node.items() } else { None };
    let texts =
        |items: Vec<Node<'_>>| items.iter().filter(|item| item.is_text()).filter_map(Node::text).collect();
    match items {
        Some(items) => texts(items),
        None if node.is_text() => node.text().into_iter().collect(),
        None => Vec::new(),
    }
}
