//! The `/mcp` endpoints: sessions, streams and statuses of Streamable HTTP, in front of a real child.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use proto_tests::streamable::HttpHost;
use proto_tests::{DaemonProcess, Endpoint, Home, Request, bins};
use serde_json::{Value, json};

const LATEST: &str = "2025-11-25";

struct TestSetup {
    daemon: DaemonProcess,
    _home: Home,
}

/// A daemon with the era child behind `/mcp/era`.
fn setup(config: &Value) -> TestSetup {
    let home = Home::new();
    home.config(config);
    let entry = home.entry(&bins().era_child, &["--era", "legacy"], &[]);
    home.definition("era", &json!({"mcpServers": {"era": entry}}).to_string());
    TestSetup { daemon: home.daemon(), _home: home }
}

impl TestSetup {
    fn endpoint(&self) -> Endpoint {
        self.daemon.endpoint()
    }

    fn host(&self, revision: &str, capabilities: &Value) -> HttpHost {
        HttpHost::open(self.endpoint(), "/mcp/era", revision, capabilities)
    }
}

fn call(id: u64, tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

fn post(body: &str) -> Request {
    Request::new("POST", "/mcp/era")
        .header("Accept", "application/json, text/event-stream")
        .header("Content-Type", "application/json")
        .body(body)
}

const PING: &str = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;

#[test]
fn every_invalid_request_gets_its_http_status() {
    let stage = setup(&json!({}));
    let host = stage.host(LATEST, &json!({}));
    let status = |request: &Request| stage.endpoint().send(request);
    let bare = |method: &str| Request::new(method, "/mcp/era");

    assert_eq!(status(&bare("POST").header("Content-Type", "application/json").body(PING)).status, 406);
    let only_json =
        bare("POST").header("Accept", "application/json").header("Content-Type", "application/json");
    assert_eq!(status(&only_json.body(PING)).status, 406);
    let text = bare("POST").header("Accept", "*/*").header("Content-Type", "text/plain");
    assert_eq!(status(&text.body(PING)).status, 415);
    let unreadable = status(&post("{\"incomplete\": json"));
    assert_eq!((unreadable.status, unreadable.json()["error"]["code"].clone()), (400, json!(-32700)));
    let no_message = status(&post("{}"));
    assert_eq!((no_message.status, no_message.json()["error"]["code"].clone()), (400, json!(-32600)));
    let no_session = status(&post(PING));
    assert_eq!((no_session.status, no_session.json()["id"].clone()), (400, json!(7)));
    assert_eq!(status(&post(PING).header("Mcp-Session-Id", "nobody")).status, 404);
    assert_eq!(status(&host.message("POST").body(PING)).status, 200);
    let version =
        |version: &str| status(&host.message("POST").header("MCP-Protocol-Version", version).body(PING));
    assert_eq!(version("2025-06-18").status, 200);
    assert_eq!(version("1999-01-01").status, 400);
    assert_eq!(status(&host.message("POST").body(vec![b' '; (16 << 20) + 1])).status, 413);
    assert_eq!(status(&bare("GET").header("Accept", "text/event-stream")).status, 405);
    assert_eq!(status(&bare("PUT")).header("allow"), Some("POST, GET, DELETE, OPTIONS"));
    assert_eq!(status(&bare("OPTIONS")).header("allow"), Some("POST, GET, DELETE, OPTIONS"));
    let json_only = bare("GET").header("Accept", "application/json").header("Mcp-Session-Id", &host.session);
    assert_eq!(status(&json_only).status, 406);
    assert_eq!(
        stage
            .endpoint()
            .send(
                &Request::new("POST", "/mcp/nobody")
                    .header("Accept", "*/*")
                    .header("Content-Type", "application/json")
                    .body(PING)
            )
            .status,
        404
    );
    // A session belongs to the face it was opened on.
    let elsewhere = Request::new("POST", "/mcp")
        .header("Accept", "*/*")
        .header("Content-Type", "application/json")
        .header("Mcp-Session-Id", &host.session)
        .body(PING);
    assert_eq!(status(&elsewhere).status, 404);
    // It is not valid as a hop session either.
    let hop = Request::new("POST", "/proxy").header("Switchboard-Session", &host.session).body(PING);
    assert_eq!(status(&hop).status, 404);
}

#[test]
fn a_session_can_be_ended_only_once() {
    let stage = setup(&json!({}));
    let host = stage.host(LATEST, &json!({}));
    assert!(host.session.bytes().all(|byte| byte.is_ascii_graphic()) && host.session.len() >= 32);
    let mut own = host.listen();
    assert_eq!(host.end().status, 204);
    assert_eq!(host.end().status, 404);
    assert_eq!(host.call(&serde_json::from_str(PING).unwrap()).status, 404);
    assert!(own.all().is_empty());
}

#[test]
fn messages_of_a_call_come_on_its_own_stream_only() {
    let stage = setup(&json!({}));
    let host = stage.host(LATEST, &json!({}));
    let mut own = host.listen();
    assert!(own.is_events());
    assert_eq!(own.head.header("x-accel-buffering"), Some("no"));
    let priming = own.event().unwrap();
    assert!(priming.id.is_some() && priming.retry.is_some() && priming.message.is_null());

    let mut request = call(5, "test_tool_with_progress", &json!({}));
    request["params"]["_meta"] = json!({"progressToken": "mine"});
    let mut stream = host.post(&request);
    let messages = stream.all();
    let progress: Vec<_> = messages.iter().map(|message| message["params"]["progress"].as_u64()).collect();
    assert_eq!(progress, [Some(0), Some(50), Some(100), None], "{messages:?}");
    assert!(messages[..3].iter().all(|message| message["params"]["progressToken"] == "mine"));
    assert_eq!(messages[3]["id"], 5);

    let logged = host.post(&call(6, "test_tool_with_logging", &json!({}))).all();
    assert_eq!(logged.len(), 4, "{logged:?}");
    // A call that is answered at once needs no stream.
    let mut plain = host.post(&call(7, "test_simple_text", &json!({})));
    assert!(!plain.is_events());
    assert_eq!(plain.json()["id"], 7);

    // A changed list belongs to no call.
    assert!(host.ask("tools/call", &json!({"name": "test_trigger_prompt_change"})).get("result").is_some());
    assert_eq!(own.message()["method"], "notifications/prompts/list_changed");
}

#[test]
fn questions_come_on_the_stream_of_the_call_and_answers_are_posted() {
    let stage = setup(&json!({}));
    let host = stage.host(LATEST, &json!({"elicitation": {}, "sampling": {}}));
    let mut stream = host.post(&call(1, "test_elicitation", &json!({"message": "Who?"})));
    let question = stream.message();
    assert_eq!(question["method"], "elicitation/create");
    let content = json!({"username": "a", "email": "a@example.com"});
    let answer =
        json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": content}});
    assert_eq!(host.call(&answer).status, 202);
    let response = stream.last();
    assert!(response["result"]["content"][0]["text"].as_str().unwrap().contains("accept"), "{response}");

    // A host without the capability is not asked.
    let deaf = stage.host(LATEST, &json!({}));
    let declined =
        deaf.ask("tools/call", &json!({"name": "test_elicitation", "arguments": {"message": "?"}}));
    assert!(declined["result"]["content"][0]["text"].as_str().unwrap().contains("decline"), "{declined}");
}

#[test]
fn roots_are_asked_for_on_the_stream_of_the_call() {
    let stage = setup(&json!({"suites": {"era": {"pool": {"scope": "session"}}}}));
    let host = stage.host(LATEST, &json!({"roots": {}}));
    let mut stream = host.post(&call(1, "test_input_required_result_list_roots", &json!({})));
    let question = stream.message();
    assert_eq!(question["method"], "roots/list");
    let roots = json!({"roots": [{"uri": "file:///r"}]});
    host.call(&json!({"jsonrpc": "2.0", "id": question["id"], "result": roots}));
    assert!(stream.last().to_string().contains("file:///r"));
}

#[test]
fn a_lost_connection_cancels_nothing_and_the_stream_can_be_resumed() {
    let stage = setup(&json!({}));
    let host = stage.host(LATEST, &json!({}));
    let mut stream = host.post(&call(1, "test_wait", &json!({"seconds": 1})));
    let mark = stream.event().unwrap().id.unwrap();
    drop(stream);
    let mut rest = host.resume(&mark);
    assert_eq!(rest.last()["result"]["content"][0]["text"], "Waited.");
    // It can be resumed again: the stream is kept for a while.
    assert_eq!(host.resume(&mark).last()["id"], 1);
    assert_eq!(
        host.ask("tools/call", &json!({"name": "test_report"}))["result"]["structuredContent"]["cancelled"],
        0
    );
    let unknown = host.resume("99.0");
    assert_eq!(unknown.head.status, 400);
}

#[test]
fn a_call_is_cancelled_by_a_cancelled_notification() {
    let stage = setup(&json!({}));
    let host = stage.host(LATEST, &json!({}));
    let mut stream = host.post(&call(9, "test_wait", &json!({"seconds": 60})));
    assert!(stream.event().unwrap().message.is_null());
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}});
    assert_eq!(host.call(&cancel).status, 202);
    assert!(stream.all().is_empty());
    assert_eq!(
        host.ask("tools/call", &json!({"name": "test_report"}))["result"]["structuredContent"]["cancelled"],
        1
    );
}

#[test]
fn one_connection_at_a_time_reads_the_sessions_own_stream() {
    let stage = setup(&json!({}));
    let host = stage.host(LATEST, &json!({}));
    let mut first = host.listen();
    let mark = first.event().unwrap().id.unwrap();
    assert_eq!(host.listen().head.status, 409);
    // A host may lose the stream before the daemon notices.
    let mut second = host.resume(&mark);
    assert!(second.event().unwrap().message.is_null());
    assert!(first.all().is_empty());
    // Messages that arrive while nobody reads are queued.
    drop(second);
    host.ask("tools/call", &json!({"name": "test_trigger_tool_change"}));
    let mut third = loop {
        let stream = host.listen();
        if stream.head.status == 200 {
            break stream;
        }
    };
    assert_eq!(third.message()["method"], "notifications/tools/list_changed");
}

#[test]
fn batches_are_accepted_only_in_revision_2025_03_26() {
    let stage = setup(&json!({}));
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        call(2, "test_simple_text", &json!({})),
    ]);
    let old = stage.host("2025-03-26", &json!({}));
    let answers = old.call(&batch).json();
    let mut ids: Vec<_> =
        answers.as_array().unwrap().iter().map(|answer| answer["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2]);
    assert_eq!(old.call(&json!([{"jsonrpc": "2.0", "method": "notifications/x"}])).status, 202);
    assert_eq!(old.call(&json!([])).status, 400);
    let streamed = old
        .post(&json!([
            call(3, "test_tool_with_logging", &json!({})),
            call(4, "test_simple_text", &json!({}))
        ]))
        .all();
    assert_eq!(streamed.iter().filter(|message| message.get("id").is_some()).count(), 2);
    // An invalid message gets its own error; the other messages still run.
    let mixed = old.call(&json!([
        {"jsonrpc": "2.0", "id": 5, "method": "ping"},
        {"jsonrpc": "2.0", "id": 6, "method": "initialize", "params": {}},
        {"jsonrpc": "1.0", "id": 7, "method": "ping"},
        8,
    ]));
    let mixed = mixed.json();
    let of = |id: Value| mixed.as_array().unwrap().iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(of(json!(5))["result"], json!({}), "{mixed}");
    for id in [json!(6), json!(7), Value::Null] {
        assert_eq!(of(id)["error"]["code"], -32600, "{mixed}");
    }
    assert_eq!(old.call(&json!([8])).json()[0]["error"]["code"], -32600);
    let many = vec![json!({"jsonrpc": "2.0", "method": "notifications/x"}); 321];
    let refused = old.call(&json!(many));
    assert_eq!((refused.status, refused.text().contains("at most 320")), (400, true), "{}", refused.text());
    for revision in ["2024-11-05", "2025-06-18", LATEST] {
        let refused = stage.host(revision, &json!({})).call(&batch);
        assert_eq!(
            (refused.status, refused.json()["error"]["code"].clone()),
            (400, json!(-32600)),
            "{revision}"
        );
    }
}

#[test]
fn older_revisions_get_no_priming_event() {
    let stage = setup(&json!({}));
    for revision in ["2025-03-26", "2025-06-18"] {
        let host = stage.host(revision, &json!({}));
        let mut stream = host.post(&call(1, "test_tool_with_logging", &json!({})));
        assert!(!stream.event().unwrap().message.is_null(), "{revision}");
        assert_eq!(stream.all().len(), 3);
    }
}

#[test]
fn only_subscribers_of_a_resource_get_its_updates() {
    let stage = setup(&json!({}));
    let watched = json!({"uri": "test://watched-resource"});
    let (follower, other) = (stage.host(LATEST, &json!({})), stage.host(LATEST, &json!({})));
    let (mut followers, mut others) = (follower.listen(), other.listen());
    assert_eq!(follower.ask("resources/subscribe", &watched)["result"], json!({}));
    assert_eq!(other.ask("resources/subscribe", &watched)["result"], json!({}));
    assert_eq!(other.ask("resources/unsubscribe", &watched)["result"], json!({}));
    follower.ask("tools/call", &json!({"name": "test_update_watched_resource"}));
    let update = followers.message();
    assert_eq!(
        (update["method"].as_str(), &update["params"]),
        (Some("notifications/resources/updated"), &watched)
    );
    // When the last subscriber leaves, the daemon unsubscribes at the child.
    assert_eq!(follower.ask("resources/unsubscribe", &watched)["result"], json!({}));
    follower.ask("tools/call", &json!({"name": "test_update_watched_resource"}));
    follower.ask("tools/call", &json!({"name": "test_trigger_prompt_change"}));
    assert_eq!(followers.message()["method"], "notifications/prompts/list_changed");
    assert_eq!(others.message()["method"], "notifications/prompts/list_changed");
}

/// The two kinds of routes differ in streams, sessions and DELETE, and in nothing else.
#[test]
fn proxy_and_registry_answer_alike() {
    let stage = setup(&json!({}));
    let host = stage.host(LATEST, &json!({}));
    let requests = [
        json!({"jsonrpc": "2.0", "id": "a", "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "prompts/list"}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "resources/list"}),
        json!({"jsonrpc": "2.0", "id": 4, "method": "resources/templates/list"}),
        json!({"jsonrpc": "2.0", "id": 5, "method": "resources/read", "params": {"uri": "test://static-text"}}),
        json!({"jsonrpc": "2.0", "id": 6, "method": "resources/read", "params": {"uri": "test://nothing"}}),
        json!({"jsonrpc": "2.0", "id": 7, "method": "prompts/get", "params": {"name": "test_simple_prompt"}}),
        call(8, "test_multiple_content_types", &json!({})),
        call(9, "nothing", &json!({})),
        json!({"jsonrpc": "2.0", "id": 10, "method": "no/such/method"}),
        json!({"jsonrpc": "2.0", "id": 11, "method": "tools/call", "params": {}}),
    ];
    for request in requests {
        let proxied = stage.endpoint().post("/proxy/era", &request.to_string());
        let registered = host.call(&request);
        assert_eq!((proxied.status, proxied.text()), (registered.status, registered.text()), "{request}");
    }
    for (body, status) in [("{", 400), ("{}", 400), (r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, 202)]
    {
        let proxied = stage.endpoint().post("/proxy/era", body);
        let registered = stage.endpoint().send(&host.message("POST").body(body));
        assert_eq!((proxied.status, registered.status), (status, status), "{body}");
        assert_eq!(proxied.text(), registered.text(), "{body}");
    }
    // A stream on the one is a single response on the other, and DELETE is for sessions.
    let logging = call(12, "test_tool_with_logging", &json!({}));
    let proxied = stage.endpoint().post("/proxy/era", &logging.to_string());
    assert_eq!(proxied.json(), host.post(&logging).last());
    assert_eq!(stage.endpoint().send(&Request::new("DELETE", "/proxy/era")).status, 405);
    assert_eq!(host.end().status, 204);
}

#[test]
fn the_registry_checks_host_origin_and_token_too() {
    let home = Home::new();
    home.config(&json!({"http": {"allowedOrigins": ["http://page.example"]}}));
    let daemon = home.daemon_on_tcp();
    let endpoint = daemon.tcp();
    let request = |origin: Option<&str>, token: Option<&str>| {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
        let mut request = Request::new("POST", "/mcp").header("Accept", "*/*");
        request = request.header("Content-Type", "application/json").body(body);
        if let Some(origin) = origin {
            request = request.header("Origin", origin);
        }
        if let Some(token) = token {
            request = request.bearer(token);
        }
        endpoint.send(&request)
    };
    let token = daemon.token();
    assert_eq!(request(None, None).status, 401);
    assert_eq!(request(Some("http://evil.example"), Some(&token)).status, 403);
    let page = request(Some("http://page.example"), Some(&token));
    assert_eq!(page.status, 200);
    assert_eq!(page.header("access-control-expose-headers"), Some("mcp-session-id"));
    assert_eq!(endpoint.send(&Request::new("GET", "/mcp").header("Accept", "text/event-stream")).status, 401);
    assert_eq!(
        endpoint.send(&Request::new("POST", "/mcp").header("Host", "evil.example").bearer(&token)).status,
        403
    );
}

#[test]
fn a_daemon_that_exits_ends_its_streams() {
    let mut stage = setup(&json!({}));
    let host = stage.host(LATEST, &json!({}));
    let mut own = host.listen();
    assert!(own.event().is_some());
    stage.daemon.signal(rustix::process::Signal::TERM);
    assert!(own.all().is_empty());
    assert!(stage.daemon.ended(proto_tests::TEST_TIMEOUT).success());
}

/// A call that still waits for one of its session's slots when the daemon exits gets an error.
#[test]
fn a_queued_call_gets_an_error_when_the_daemon_exits() {
    let home = Home::new();
    let journal = home.path().join("journal");
    home.child_with("kid", &["echo"], &[("EVIL_JOURNAL", journal.to_str().unwrap())]);
    let mut daemon = home.daemon();
    let host = HttpHost::open(daemon.endpoint(), "/mcp", LATEST, &json!({}));
    let hang = json!({"name": "kid_suite", "arguments": {"action": "call", "subtool": "hang", "args": {}}});
    // One more than the limit of calls that run at once.
    let mut open: Vec<_> = (1..=65)
        .map(|id| {
            let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": hang});
            let mut connection = daemon.endpoint().connect().unwrap();
            connection.write(&host.message("POST").body(body.to_string()).bytes("localhost"));
            connection
        })
        .collect();
    proto_tests::wait::until_true("as many calls as run at once", proto_tests::TEST_TIMEOUT, || {
        let text = std::fs::read_to_string(&journal).unwrap_or_default();
        text.lines().filter(|line| line.contains("\"hang\"")).count() >= 64
    });
    let mut heads = Vec::new();
    for connection in &mut open {
        heads.push(connection.head().unwrap());
    }
    daemon.signal(rustix::process::Signal::TERM);
    for (connection, head) in open.iter_mut().zip(&mut heads) {
        connection.rest(head).unwrap();
        let said = head.text();
        assert!(said.contains("shutting_down") || said.contains("shutting down"), "{said}");
    }
    assert!(daemon.ended(proto_tests::TEST_TIMEOUT).success());
}
