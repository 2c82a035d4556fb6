//! The notification that tells a child that a request is cancelled.

use switchboard_mcp::methods;
use switchboard_wire::rpc;

use super::calls::ChildId;

/// The notification that cancels a request.
pub(super) fn cancelled(ChildId(id): ChildId) -> Vec<u8> {
    let params = format!(r#"{{"requestId":{id},"reason":"the caller no longer waits"}}"#);
    rpc::notification(methods::CANCELLED, Some(&params))
}
