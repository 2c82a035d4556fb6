//! `notifications/cancelled` from the host.

use serde_json::json;

use crate::host::Host;

#[test]
fn a_call_in_flight_loses_its_connection_and_its_answer() {
    let (mut host, daemon, _folder) = Host::with_daemon();
    host.request(1, "tools/call");
    let call = daemon.expect("tools/call");
    host.cancel(1);
    assert!(call.closes());
    // The filler carries the call's sequence number, in case the call never arrived.
    let filler = daemon.expect("notifications/cancelled");
    assert_eq!((filler.seq, filler.json()["params"]["requestId"].as_u64()), (call.seq, Some(1)));
    filler.accepted();
    call.result(&json!({}));
    host.ping();
    host.request(2, "tools/call");
    let next = daemon.expect("tools/call");
    assert_eq!(next.seq, 2);
    next.result(&json!({}));
    host.expect_result(2);
}

#[test]
fn a_cancelled_queued_call_uses_no_sequence_number() {
    let (mut host, daemon, _folder) = Host::with_daemon();
    for id in 0..66 {
        host.request(id, "tools/call");
    }
    let first: Vec<_> = (0..64).map(|_| daemon.call()).collect();
    host.cancel(64);
    host.ping();
    first[0].result(&json!({}));
    host.expect_result(first[0].json()["id"].clone());
    let next = daemon.expect("tools/call");
    assert_eq!((next.seq, next.json()["id"].as_u64()), (65, Some(65)));
}

#[test]
fn ids_are_compared_as_raw_json() {
    let (mut host, daemon, _folder) = Host::with_daemon();
    host.request("1", "tools/call");
    let call = daemon.expect("tools/call");
    host.cancel(1);
    host.cancel("unknown");
    host.ping();
    call.result(&json!({}));
    host.expect_result("1");
}

#[test]
fn initialize_is_not_cancellable() {
    let (mut host, daemon, _folder) = Host::with_daemon();
    host.request(0, "initialize");
    let call = daemon.expect("initialize");
    host.cancel(0);
    host.ping();
    call.result(&json!({}));
    host.expect_result(0);
}

#[test]
fn an_answer_that_waits_for_the_mailbox_can_still_be_cancelled() {
    let (mut host, daemon, _folder) = Host::with_daemon();
    host.request(1, "tools/call");
    daemon.expect("tools/call").result_after(&json!({}), 1);
    host.ping();
    host.cancel(1);
    host.ping();
    daemon.mail(&json!({"jsonrpc": "2.0", "method": "notifications/x"}));
    assert_eq!(host.expect_message()["method"], "notifications/x");
    host.ping();
}

#[test]
fn a_call_that_the_host_did_not_cancel_is_answered_even_if_the_daemon_dropped_it() {
    let (mut host, daemon, _folder) = Host::with_daemon();
    host.request(1, "tools/call");
    daemon.expect("tools/call").answer(204, "", "");
    let told = host.expect_message();
    assert_eq!((told["id"].as_u64(), told["result"]["isError"].as_bool()), (Some(1), Some(true)), "{told}");
    // What has no effect is asked again.
    host.request(2, "tools/list");
    daemon.expect("tools/list").answer(204, "", "");
    daemon.expect("tools/list").result(&json!({}));
    host.expect_result(2);
}

#[test]
fn a_call_whose_number_was_used_gets_the_reason() {
    let (mut host, daemon, _folder) = Host::with_daemon();
    host.request(1, "tools/call");
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"has arrived before"}}"#;
    daemon.expect("tools/call").answer(409, "", error);
    let told = host.expect_message();
    assert_eq!(told["result"]["content"][0]["text"], "has arrived before", "{told}");
    assert_eq!(told["result"]["_meta"]["switchboard"], json!({"kind": "refused", "retryable": false}));
}
