//! Notifies hosts of changed lists (`list_changes`) and answers `subscriptions/listen` requests
//! (`listen_requests`). Which host subscribes to which resource is in `caller::subscriptions`, because
//! subscriptions outlive children.

pub mod list_changes;
pub mod listen_requests;
