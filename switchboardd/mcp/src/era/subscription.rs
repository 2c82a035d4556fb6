//! Messages of a subscription that a modern host opened with `subscriptions/listen`: each carries the id of that request.

use switchboard_wire::envelope::quoted;
use switchboard_wire::members::{Members, insert_members, remove_members};
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;

use super::SUBSCRIPTION_KEY;
use crate::methods;

/// A notification for the subscription `id`. `members` come before `_meta`, each followed by a comma.
pub fn notification(method: &str, members: &str, id: &str) -> Vec<u8> {
    let meta = format!(r#""_meta":{{"{SUBSCRIPTION_KEY}":{id}}}"#);
    rpc::notification(method, Some(&format!("{{{members}{meta}}}")))
}

/// The end of the subscription `id`, as the result of its request.
pub fn ended(id: &str) -> Vec<u8> {
    let meta = format!(r#""_meta":{{"{SUBSCRIPTION_KEY}":{id}}}"#);
    rpc::result(id, &format!(r#"{{"resultType":"complete",{meta}}}"#))
}

/// A child's update of a resource, with the URI `shown` and the id of the listen request, if any. All other
/// members stay as the child wrote them.
pub fn resource_updated(params: Raw<'_>, shown: &str, listen: Option<&str>) -> Vec<u8> {
    let members = Members::of(params).unwrap_or_default();
    let rest = remove_members(params, |key| matches!(key, "uri" | "_meta"));
    let given = members.get("_meta").map(|meta| remove_members(meta, |key| key == SUBSCRIPTION_KEY));
    let meta = match (given, listen) {
        (given, Some(id)) => {
            insert_members(given.as_deref().unwrap_or("{}"), &format!(r#""{SUBSCRIPTION_KEY}":{id}"#))
        }
        (given, None) => given.unwrap_or_else(|| "{}".to_owned()),
    };
    let is_empty = Raw::parse(meta.as_bytes()).and_then(Members::of).is_none_or(|meta| meta.0.is_empty());
    let meta = if is_empty { String::new() } else { format!(r#","_meta":{meta}"#) };
    let params = insert_members(&rest, &format!(r#""uri":{}{meta}"#, quoted(shown)));
    rpc::notification(methods::RESOURCE_UPDATED, Some(&params))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(params: &str, listen: Option<&str>, expect: &str) {
        let told = resource_updated(Raw::parse(params.as_bytes()).unwrap(), "s:1", listen);
        let told = String::from_utf8(told).unwrap();
        let prefix = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":"#;
        assert_eq!(told.strip_prefix(prefix), Some(&*format!("{expect}}}")));
    }

    #[test]
    fn an_update_carries_only_the_id_of_its_own_listen_request() {
        let modern = r#"{"uri":"a:1","x": 1.0,"_meta":{"io.modelcontextprotocol/subscriptionId":7,"k":[ ]}}"#;
        check(modern, None, r#"{"x": 1.0,"uri":"s:1","_meta":{"k":[ ]}}"#);
        check(
            modern,
            Some("\"1\""),
            r#"{"x": 1.0,"uri":"s:1","_meta":{"k":[ ],"io.modelcontextprotocol/subscriptionId":"1"}}"#,
        );
        let alone = r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"uri":"a:1"}"#;
        check(alone, None, r#"{"uri":"s:1"}"#);
        check(
            r#"{"uri":"a:1"}"#,
            Some("4"),
            r#"{"uri":"s:1","_meta":{"io.modelcontextprotocol/subscriptionId":4}}"#,
        );
    }

    #[test]
    fn the_end_names_the_subscription() {
        let ended: serde_json::Value = serde_json::from_slice(&ended("\"1\"")).unwrap();
        assert_eq!(ended["result"]["_meta"][SUBSCRIPTION_KEY], "1");
        assert_eq!(ended["id"], "1");
    }
}
