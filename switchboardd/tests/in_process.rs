//! A whole daemon in this process, with virtual time: minutes of pauses, limits and idle time pass in milliseconds.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

#[path = "sim/simulation.rs"]
mod simulation;

use std::time::Duration;

use serde_json::{Value, json};
use simulation::SimulatedDaemon;
use switchboard_wire::hop::Draining;
use switchboardd::daemon::Stop;
use switchboardd::daemon::simulation::Peer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep};

const MINUTE: Duration = Duration::from_secs(60);

fn two_servers() -> SimulatedDaemon {
    SimulatedDaemon::start(&json!({}), &["alpha", "beta"])
}

#[tokio::test(start_paused = true)]
async fn a_session_lists_looks_and_calls() {
    let mut daemon = two_servers();
    let host = daemon.host().await;
    let listed = host.request("tools/list", &json!({})).await;
    let names: Vec<&str> =
        listed["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["alpha_suite", "beta_suite"]);
    assert!(daemon.record.events().is_empty(), "a list starts nobody");

    let introspect = json!({"name": "alpha_suite", "arguments": {"action": "introspect"}});
    let looked = host.request("tools/call", &introspect).await;
    let text = looked["content"][0]["text"].as_str().unwrap();
    let subtools: Value = serde_json::from_str(text).unwrap();
    assert!(["echo", "sleep", "hang", "crash"].iter().all(|tool| text.contains(tool)), "{subtools}");

    let (one_args, other_args) = (json!({"x": 1}), json!({}));
    let (one, other) = tokio::join!(
        host.call("alpha_suite", "echo", &one_args),
        host.call("beta_suite", "echo", &other_args)
    );
    assert_eq!((one.unwrap(), other.unwrap()), (r#"alpha: {"x":1}"#.to_owned(), "beta: {}".to_owned()));
    assert_eq!(daemon.record.events(), ["alpha started", "beta started"]);
    let status = host.get("/status").await;
    assert_eq!(status["budget"]["running"], 2);
    assert_eq!(status["sessions"].as_array().map(Vec::len), Some(1));
    daemon.stop(Stop::Drain(Draining::Stop));
    let record = daemon.gone().await;
    assert_eq!(record.times("alpha saw the end of its input").len(), 1);
    assert_eq!(record.times("beta saw the end of its input").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_crashes_is_started_again_after_its_pause() {
    let daemon = two_servers();
    let host = daemon.host().await;
    for crash in 1..=5 {
        let crashed = host.call("alpha_suite", "crash", &json!({})).await.unwrap_err();
        assert!(
            crashed.contains("exited with status 3 before answering; last stderr: `cannot go on`"),
            "{crashed}"
        );
        let pause = [200, 400, 800, 1600, 30_000][crash - 1];
        if pause > 200 {
            // The back-off is longer than a call waits, so the call is refused.
            let refused = host.call("alpha_suite", "echo", &json!({})).await.unwrap_err();
            assert!(refused.contains(&format!("is not started again for {pause} ms")), "{refused}");
            // The next call waits for the rest of the back-off.
            sleep(Duration::from_millis(pause - 100)).await;
        }
        assert_eq!(daemon.record.times("alpha started").len(), crash);
    }
    assert_eq!(host.call("alpha_suite", "echo", &json!({})).await.unwrap(), "alpha: {}");
    assert_eq!(host.call("beta_suite", "echo", &json!({})).await.unwrap(), "beta: {}");
    let starts = daemon.record.times("alpha started");
    let pauses: Vec<u128> = starts.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect();
    assert_eq!(pauses, [200, 400, 800, 1600, 30_000]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_answered_ends_after_a_minute() {
    let daemon = two_servers();
    let host = daemon.host().await;
    let begin = Instant::now();
    let late = host.call("alpha_suite", "hang", &json!({})).await.unwrap_err();
    assert!(late.contains("was silent for 60000 ms"), "{late}");
    assert!((MINUTE..MINUTE + Duration::from_secs(1)).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    sleep(Duration::from_secs(10)).await;
    assert_eq!(daemon.record.events(), ["alpha started", "alpha heard of a cancelled call"]);
    assert_eq!(host.call("alpha_suite", "echo", &json!({})).await.unwrap(), "alpha: {}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_nobody_uses_goes_after_its_idle_time() {
    let config = json!({"suites": {"alpha": {"pool": {"idleMs": 180_000}}}});
    let daemon = SimulatedDaemon::start(&config, &["alpha", "beta"]);
    let host = daemon.host().await;
    for suite in ["alpha_suite", "beta_suite"] {
        host.call(suite, "echo", &json!({})).await.unwrap();
    }
    sleep(2 * MINUTE).await;
    assert_eq!(daemon.record.events(), ["alpha started", "beta started"]);
    sleep(2 * MINUTE).await;
    assert_eq!(daemon.record.times("alpha saw the end of its input"), [3 * MINUTE]);
    assert!(daemon.record.times("beta saw the end of its input").is_empty());
    assert_eq!(host.call("alpha_suite", "echo", &json!({})).await.unwrap(), "alpha: {}");
    assert_eq!(daemon.record.times("alpha started").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_the_call_in_flight() {
    let mut daemon = two_servers();
    let host = daemon.host().await;
    let call = tokio::spawn({
        let host = host.clone();
        async move { host.call("alpha_suite", "sleep", &json!({"ms": 5000})).await }
    });
    sleep(Duration::from_secs(1)).await;
    let begin = Instant::now();
    daemon.stop(Stop::Drain(Draining::Stop));
    let told = host.poll(0, 25_000).await;
    assert_eq!(told["draining"], "stop");
    let refused = host.send(json!({"jsonrpc": "2.0", "id": 0, "method": "tools/list"})).await;
    assert_eq!(refused.status, 503);
    assert!(call.await.unwrap().unwrap().starts_with("alpha: "));
    let record = daemon.gone().await;
    assert!((4..8).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    assert_eq!(record.events(), ["alpha started", "alpha saw the end of its input"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_at_once_ends_the_call_in_flight() {
    let mut daemon = two_servers();
    let host = daemon.host().await;
    let call = tokio::spawn({
        let host = host.clone();
        async move { host.call("alpha_suite", "hang", &json!({})).await }
    });
    sleep(Duration::from_secs(1)).await;
    let begin = Instant::now();
    daemon.stop(Stop::AtOnce);
    assert!(call.await.unwrap().is_err());
    daemon.gone().await;
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_is_known_of_a_peer_decides_what_it_may() {
    async fn ask(daemon: &SimulatedDaemon, peer: Peer, token: &str) -> String {
        let mut connection = daemon.connect_as(peer).await;
        let request = format!(
            "GET /metrics HTTP/1.1\r\nhost: 127.0.0.1:7420\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
        );
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let _ = connection.read_to_string(&mut answer).await;
        answer.lines().next().unwrap_or_default().to_owned()
    }
    let daemon = two_servers();
    let own = daemon.peer.uid.unwrap();
    let tcp = || Peer::tcp("127.0.0.1:7420".parse().unwrap());
    assert_eq!(ask(&daemon, Peer::process(own + 1, None), "").await, "", "another user gets no answer");
    assert_eq!(ask(&daemon, tcp(), "wrong").await, "HTTP/1.1 401 Unauthorized");
    assert_eq!(ask(&daemon, tcp(), simulation::TOKEN).await, "HTTP/1.1 200 OK");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_arrives_after_its_number_was_given_up_is_answered_once() {
    let daemon = two_servers();
    let host = daemon.host().await;
    host.call("alpha_suite", "echo", &json!({})).await.unwrap();
    let arguments = |n: u32| json!({"action": "call", "subtool": "echo", "args": {"n": n}});
    let call = |n: u32| json!({"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": {"name": "alpha_suite", "arguments": arguments(n)}});
    let late = host.next_number();
    let began = Instant::now();
    let answer = host.send(call(2)).await;
    assert_eq!(answer.body["result"]["content"][0]["text"], r#"alpha: {"n":2}"#, "{answer:?}");
    assert_eq!(began.elapsed().as_secs(), 10, "it waited for the number before it");
    let answer = host.send_numbered(late, call(1)).await;
    assert_eq!(answer.body["result"]["content"][0]["text"], r#"alpha: {"n":1}"#, "{answer:?}");
    // The same number again is not run, and whoever sent it is told so.
    let again = host.send_numbered(late, call(1)).await;
    assert_eq!(again.status, 409, "{again:?}");
    assert!(again.body["error"]["message"].as_str().unwrap().contains("has arrived before"), "{again:?}");
}
