//! Bytes on a connection of the HTTP API, to a whole daemon with virtual time.

use std::cell::RefCell;
use std::time::Duration;

use serde_json::json;
use switchboardd::daemon::simulation::Peer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;

use super::Target;
use crate::simulation::SimulatedDaemon;

thread_local! {
    static SERVING: RefCell<Option<(SimulatedDaemon, Runtime)>> = const { RefCell::new(None) };
}

pub(crate) const REQUESTS: Target = Target {
    name: "http",
    parts: &[
        "GET ",
        "POST ",
        "OPTIONS ",
        "CONNECT ",
        "/proxy",
        "/mcp",
        "/status",
        "/health",
        "/control/stop",
        "/hop/session",
        "/page/",
        "/",
        "?",
        "%",
        "#",
        "..",
        " HTTP/1.1\r\n",
        " HTTP/1.0\r\n",
        "\r\n",
        "\n",
        "Host: 127.0.0.1:7420\r\n",
        "Host: evil.example\r\n",
        "Origin: https://evil.example\r\n",
        "Authorization: Bearer ",
        "Content-Length: ",
        "Transfer-Encoding: chunked\r\n",
        "5\r\nhello\r\n",
        "0\r\n\r\n",
        "99999999999999999999",
        "Mcp-Session-Id: x\r\n",
        "Connection: close\r\n",
        "Expect: 100-continue\r\n",
        "Upgrade: h2c\r\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
        ":",
        " ",
        "\0",
    ],
    most: 30,
    seeds: || {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let post = format!(
            "POST /proxy HTTP/1.1\r\nHost: 127.0.0.1:7420\r\nContent-Length: {}\r\n\r\n{ping}",
            ping.len()
        );
        vec![post, "GET /health HTTP/1.1\r\nHost: 127.0.0.1:7420\r\n\r\n".to_owned()]
    },
    run: |input| {
        SERVING.with_borrow_mut(|serving| {
            let (daemon, runtime) = serving.get_or_insert_with(|| {
                let mut builder = tokio::runtime::Builder::new_current_thread();
                let runtime = builder.enable_all().start_paused(true).build().expect("a runtime");
                let daemon = runtime.block_on(async { SimulatedDaemon::start(&json!({}), &["alpha"]) });
                (daemon, runtime)
            });
            runtime.block_on(exchange(daemon, input));
        });
    },
};

/// Whatever another local user sends over TCP without the token, nothing is called and the daemon serves the next.
async fn exchange(daemon: &SimulatedDaemon, input: &[u8]) {
    let mut connection = daemon.connect_as(Peer::tcp("127.0.0.1:7420".parse().expect("an address"))).await;
    let _ = connection.write_all(input).await;
    let _ = connection.shutdown().await;
    let mut answer = Vec::new();
    // Longer than a connection without the token may live.
    let read = tokio::time::timeout(Duration::from_secs(60), connection.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "it is never closed");
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1."), "{answer}");
    assert!(!answer.contains(r#""result""#), "{answer}");
    let mut next = daemon.connect_as(daemon.peer.clone()).await;
    let _ = next.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    let mut answer = Vec::new();
    let _ = next.read_to_end(&mut answer).await;
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
}
