//! Who is told that something changed: lists (`list_changes`), and requests that stay open to be told
//! (`listen_requests`). Which host follows which resource is in `caller::subscriptions`, because children outlive it.

pub mod list_changes;
pub mod listen_requests;
