//! Traces: a host's trace context reaches the child, and a collector gets the spans, whatever state it is in.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use flate2::read::GzDecoder;
use proto_tests::scripted_server::{self, RecordedRequest, Responder, ScriptedServer};
use proto_tests::shim::structured;
use proto_tests::streamable::{HttpHost, ModernHost};
use proto_tests::wait::{until, until_true};
use proto_tests::{DaemonProcess, Home, Request, TEST_TIMEOUT};
use rustix::process::Signal;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const HOST_SPAN: &str = "00f067aa0ba902b7";

fn parent() -> String {
    format!("00-{TRACE}-{HOST_SPAN}-01")
}

fn meta() -> Value {
    json!({"traceparent": parent(), "tracestate": "vendor=a:1", "baggage": "user=7"})
}

fn call(subtool: &str) -> Value {
    json!({"name": "kid_suite", "arguments": {"action": "call", "subtool": subtool, "args": {"password": "hunter2"}}, "_meta": meta()})
}

fn own(tool: &str) -> Value {
    json!({"name": tool, "arguments": {"password": "hunter2"}, "_meta": meta()})
}

fn message(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
}

/// The `_meta` of all `echo` calls that the evil child has received so far.
fn seen(daemon: &DaemonProcess) -> Vec<Value> {
    let look = json!({"name": "received", "arguments": {}});
    let answer = daemon.endpoint().post("/proxy/kid", &message("tools/call", &look)).text();
    let lines = structured(&answer)["lines"].as_array().unwrap().clone();
    let messages = lines.iter().map(|line| serde_json::from_str::<Value>(line.as_str().unwrap()).unwrap());
    messages.filter(|it| it["params"]["name"] == "echo").map(|it| it["params"]["_meta"].clone()).collect()
}

#[test]
fn the_hosts_trace_context_reaches_the_child_unchanged() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let (old, new) =
        (ScriptedServer::start(scripted_server::legacy), ScriptedServer::start(scripted_server::modern));
    home.definition(
        "far",
        &json!({"mcpServers": {
            "old": {"url": old.url()}, "new": {"url": new.url()}
        }})
        .to_string(),
    );
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.request("tools/call", &call("echo").to_string());
    let mut single = home.shim_of("kid");
    single.initialize();
    single.request("tools/call", &own("echo").to_string());
    let endpoint = daemon.endpoint();
    endpoint.post("/proxy", &message("tools/call", &call("echo")));
    endpoint.post("/proxy/kid", &message("tools/call", &own("echo")));
    HttpHost::open(daemon.endpoint(), "/mcp", "2025-11-25", &json!({})).ask("tools/call", &call("echo"));
    ModernHost::new(daemon.endpoint(), "/mcp/kid").ask("tools/call", &own("echo"));
    let all = seen(&daemon);
    assert_eq!(all.len(), 6);
    for meta in &all {
        for key in ["traceparent", "tracestate", "baggage"] {
            assert_eq!(meta[key], self::meta()[key], "{meta}");
        }
    }
    // Trace headers of a host are not passed on to a child.
    let bare = json!({"name": "echo", "arguments": {}});
    let request =
        Request::new("POST", "/proxy/kid").header("traceparent", &parent()).header("baggage", "user=8");
    endpoint.send(&request.body(message("tools/call", &bare)));
    assert_eq!(seen(&daemon).last().unwrap(), &Value::Null);

    for (name, server) in [("old", &old), ("new", &new)] {
        let mut through = call("echo");
        through["name"] = format!("{name}_suite").into();
        shim.request("tools/call", &through.to_string());
        ModernHost::new(daemon.endpoint(), &format!("/mcp/{name}")).ask("tools/call", &own("echo"));
        let calls: Vec<RecordedRequest> =
            server.asked().into_iter().filter(|asked| asked.what() == "tools/call").collect();
        assert_eq!(calls.len(), 2, "{name}");
        for asked in calls {
            let said = &asked.message()["params"]["_meta"];
            assert_eq!(
                (&said["traceparent"], &said["baggage"]),
                (&meta()["traceparent"], &meta()["baggage"])
            );
            assert_eq!((asked.header("traceparent"), asked.header("baggage")), (None, None), "{asked:?}");
        }
    }
}

/// A collector that accepts everything.
fn collector() -> ScriptedServer {
    ScriptedServer::start(|_, back| back.json(200, &json!({})))
}

fn base(collector: &ScriptedServer) -> String {
    format!("http://127.0.0.1:{}", collector.port())
}

fn bodies(collector: &ScriptedServer, path: &str) -> Vec<Value> {
    collector.asked().iter().filter(|asked| asked.target == path).map(RecordedRequest::message).collect()
}

fn spans(collector: &ScriptedServer) -> Vec<Value> {
    let of = |body: Value| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
    bodies(collector, "/v1/traces").into_iter().flat_map(of).collect()
}

fn attributes(of: &Value) -> BTreeMap<String, String> {
    let pair = |one: &Value| {
        (one["key"].as_str().unwrap().to_owned(), one["value"]["stringValue"].as_str().unwrap().to_owned())
    };
    of["attributes"].as_array().unwrap().iter().map(pair).collect()
}

fn wanted<'a>(home: &'a Home, variables: &[(&'a str, &'a str)]) -> DaemonProcess {
    let quick = [("OTEL_BSP_SCHEDULE_DELAY", "50"), ("OTEL_METRIC_EXPORT_INTERVAL", "100")];
    let all: Vec<_> = quick.iter().chain(variables).copied().collect();
    DaemonProcess::start_with(home, &["--listen", "off"], &all)
}

#[test]
fn a_call_makes_two_spans_and_the_child_gets_its_parent_span() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let collector = collector();
    let daemon = wanted(
        &home,
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &base(&collector)),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc"),
            ("OTEL_SERVICE_NAME", "my-switchboard"),
            ("OTEL_RESOURCE_ATTRIBUTES", "team=a%2Cb"),
        ],
    );
    let mut shim = home.shim();
    shim.request("tools/call", &call("echo").to_string());
    let named = |name: &str| {
        let name = name.to_owned();
        until(&name, TEST_TIMEOUT, || {
            let found: Vec<Value> =
                spans(&collector).into_iter().filter(|span| span["name"] == *name).collect();
            (found.len() == 2).then_some(found)
        })
    };
    let found = named("tools/call echo");
    let of_kind = |kind: u64| found.iter().find(|span| span["kind"] == kind).unwrap();
    let (server, client) = (of_kind(2), of_kind(3));
    assert_eq!((&server["traceId"], &server["parentSpanId"]), (&json!(TRACE), &json!(HOST_SPAN)));
    assert_eq!((&client["traceId"], &client["parentSpanId"]), (&json!(TRACE), &server["spanId"]));
    let told = &seen(&daemon)[0];
    let span = client["spanId"].as_str().unwrap();
    assert_eq!(told["traceparent"], format!("00-{TRACE}-{span}-01"));
    assert_eq!((&told["tracestate"], &told["baggage"]), (&meta()["tracestate"], &meta()["baggage"]));
    let of_server = attributes(server);
    for (key, value) in [
        ("mcp.method.name", "tools/call"),
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "echo"),
        ("switchboard.suite", "kid_suite"),
        ("switchboard.face", "shim"),
    ] {
        assert_eq!(of_server.get(key).map(String::as_str), Some(value), "{of_server:?}");
    }
    assert_eq!(attributes(client)["network.transport"], "pipe");
    let time = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
    assert!(time(server, "startTimeUnixNano") <= time(client, "startTimeUnixNano") + 1_000_000);
    assert!(time(client, "endTimeUnixNano") <= time(server, "endTimeUnixNano") + 1_000_000);

    // A failing call of a host without trace context gets its own trace.
    shim.call("kid", "crash", "{}");
    let crashed = named("tools/call crash");
    assert!(
        crashed.iter().all(|span| span["status"]["code"] == 2 && span["traceId"] != TRACE),
        "{crashed:?}"
    );
    let root = crashed.iter().find(|span| span["kind"] == 2).unwrap();
    assert_eq!(
        (&root["parentSpanId"], attributes(root)["error.type"].as_str()),
        (&Value::Null, "child_exited")
    );

    // The header is used if the message has no trace context.
    let header = format!("00-{TRACE}-00000000000000aa-01");
    let bare = json!({"name": "count", "arguments": {}});
    let request = Request::new("POST", "/proxy/kid").header("traceparent", &header);
    daemon.endpoint().send(&request.body(message("tools/call", &bare)));
    let counted = named("tools/call count");
    assert!(counted.iter().any(|span| span["parentSpanId"] == "00000000000000aa"), "{counted:?}");

    let asked = collector.asked();
    let traces = asked.iter().find(|asked| asked.target == "/v1/traces").unwrap();
    assert_eq!(traces.header("authorization"), Some("Bearer abc"));
    assert_eq!(traces.header("content-type"), Some("application/json"));
    let resource = attributes(&traces.message()["resourceSpans"][0]["resource"]);
    assert_eq!((resource["service.name"].as_str(), resource["team"].as_str()), ("my-switchboard", "a,b"));
    assert!(asked.iter().all(|asked| !asked.body.contains("hunter2")), "arguments are nobody's business");
    assert!(!daemon.log().contains("abc"));

    // The exported metrics match `/metrics`.
    let count = || {
        let metrics = bodies(&collector, "/v1/metrics").pop()?;
        let metrics = metrics["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array()?.clone();
        let operations =
            metrics.into_iter().find(|metric| metric["name"] == "mcp.server.operation.duration")?;
        assert_eq!(
            (&operations["unit"], &operations["histogram"]["aggregationTemporality"]),
            (&json!("s"), &json!(2))
        );
        let points = operations["histogram"]["dataPoints"].as_array()?.clone();
        let echo = points
            .into_iter()
            .find(|point| attributes(point).get("gen_ai.tool.name").is_some_and(|tool| tool == "echo"))?;
        echo["count"].as_str()?.parse::<u64>().ok()
    };
    until_true("the figures", TEST_TIMEOUT, || count() == Some(1));
}

/// The fields of a protobuf message: their numbers, and their content or value in bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let (byte, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        number
    }
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = match tag & 7 {
            0 => varint(&mut bytes).to_le_bytes().to_vec(),
            1 => bytes.split_off(..8).unwrap().to_vec(),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).unwrap();
                bytes.split_off(..length).unwrap().to_vec()
            }
            other => panic!("wire type {other}"),
        };
        all.push((tag >> 3, value));
    }
    all
}

#[track_caller]
fn only(message: &[u8], number: u64) -> Vec<u8> {
    fields(message).into_iter().find(|(found, _)| *found == number).map(|(_, value)| value).unwrap()
}

#[test]
fn protobuf_is_used_unless_json_is_configured() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let collector = collector();
    let traces = format!("{}/own/path", base(&collector));
    let _daemon = wanted(&home, &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &traces)]);
    let mut shim = home.shim();
    shim.request("tools/call", &call("echo").to_string());
    let trace: Vec<u8> =
        (0..16).map(|at| u8::from_str_radix(&TRACE[2 * at..2 * at + 2], 16).unwrap()).collect();
    until_true("a span", TEST_TIMEOUT, || {
        collector.asked().iter().any(|asked| {
            assert_eq!(asked.target, "/own/path");
            assert_eq!(asked.header("content-type"), Some("application/x-protobuf"));
            let scope_spans = only(&only(&asked.bytes, 1), 2);
            let spans = fields(&scope_spans).into_iter().filter(|(number, _)| *number == 2);
            spans.map(|(_, span)| span).any(|span| {
                only(&span, 1) == trace
                    && only(&span, 5) == b"tools/call echo"
                    && only(&span, 6) == 3_u64.to_le_bytes()
                    && only(&span, 2).len() == 8
            })
        })
    });
}

#[test]
fn an_unsampled_trace_is_propagated_but_not_exported() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let collector = collector();
    let daemon = wanted(
        &home,
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &base(&collector)),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_METRICS_EXPORTER", "none"),
            ("OTEL_TRACES_SAMPLER", "always_off"),
        ],
    );
    let mut shim = home.shim();
    shim.request("tools/call", &call("echo").to_string());
    let told = seen(&daemon)[0]["traceparent"].as_str().unwrap().to_owned();
    assert!(told.starts_with(&format!("00-{TRACE}-")) && told.ends_with("-00"), "{told}");
    assert!(!told.contains(HOST_SPAN), "{told}");
    drop(shim);
    drop(daemon);
    assert_eq!(collector.asked().len(), 0);
}

#[test]
fn the_last_spans_are_sent_before_the_daemon_exits() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let collector = collector();
    let endpoint = format!("OTEL_EXPORTER_OTLP_ENDPOINT={}\n", base(&collector));
    let more = "OTEL_EXPORTER_OTLP_PROTOCOL=http/json\nOTEL_BSP_SCHEDULE_DELAY=3600000\nOTEL_METRIC_EXPORT_INTERVAL=3600000\n";
    // A daemon that a shim starts can only be configured there.
    let file = home.write(".config/switchboard/env", &format!("{endpoint}{more}"));
    std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let mut daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("kid", "echo", "{}");
    assert_eq!(collector.asked().len(), 0);
    drop(shim);
    daemon.signal(Signal::TERM);
    daemon.ended(TEST_TIMEOUT);
    assert!(spans(&collector).iter().any(|span| span["name"] == "tools/call echo"));
    assert_eq!(bodies(&collector, "/v1/metrics").len(), 1);
}

/// A broken collector costs spans and nothing else.
#[track_caller]
fn endures(what: &str, endpoint: &str) {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let mut daemon = wanted(
        &home,
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "200"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "8"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4"),
        ],
    );
    let mut shim = home.shim();
    for _ in 0..60 {
        let answer = shim.call("kid", "echo", "{}");
        assert!(answer.contains("result"), "{what}: {answer}");
    }
    let dropped = || {
        let text = daemon.endpoint().get("/metrics").text();
        let line = text.lines().find(|line| line.starts_with("switchboard_spans_total{result=\"dropped\"}"));
        line.and_then(|line| line.rsplit_once(' ')).and_then(|(_, count)| count.parse::<u64>().ok())
    };
    until_true("spans to be dropped", TEST_TIMEOUT, || dropped().is_some_and(|count| count >= 60));
    until_true("a word of it", TEST_TIMEOUT, || daemon.log().contains("takes no spans"));
    assert_eq!(daemon.log().matches("takes no spans").count(), 1, "{what}: {}", daemon.log());
    drop(shim);
    daemon.signal(Signal::TERM);
    daemon.ended(TEST_TIMEOUT);
}

#[test]
fn an_absent_collector_costs_nothing_but_spans() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    endures("refusing", &format!("http://127.0.0.1:{port}"));
}

#[test]
fn a_collector_that_hangs_costs_nothing_but_spans() {
    let over = Arc::new(AtomicBool::new(false));
    let held = Arc::new(Mutex::new(Vec::<Responder>::new()));
    let (stop, hold) = (over.clone(), held.clone());
    let hanging = ScriptedServer::start(move |_, back| {
        if !stop.load(Ordering::Relaxed) {
            hold.lock().unwrap().push(back.again());
            back.is_left();
        }
    });
    endures("hanging", &base(&hanging));
    over.store(true, Ordering::Relaxed);
    held.lock().unwrap().clear();
}

#[test]
fn a_collector_that_fails_or_answers_garbage_costs_nothing_but_spans() {
    endures("failing", &base(&ScriptedServer::start(|_, back| back.empty(500))));
    let babbling = ScriptedServer::start(|_, back| {
        back.raw("what?\r\n\r\n");
    });
    endures("babbling", &base(&babbling));
}

#[test]
fn an_unsupported_protocol_is_named_in_a_warning() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let collector = collector();
    let daemon = wanted(
        &home,
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", &base(&collector)), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
    );
    until_true("a warning", TEST_TIMEOUT, || {
        daemon.log().contains("`OTEL_EXPORTER_OTLP_PROTOCOL` is `grpc`")
    });
    let mut shim = home.shim();
    shim.request("tools/call", &call("echo").to_string());
    // Nothing is traced, so the trace context is passed on unchanged.
    assert_eq!(seen(&daemon)[0]["traceparent"], parent());
    drop(shim);
    drop(daemon);
    assert_eq!(collector.asked().len(), 0);
}

#[test]
fn a_body_is_compressed_if_asked_for() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let collector = collector();
    let daemon = wanted(
        &home,
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &base(&collector)),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "none"),
        ],
    );
    let mut shim = home.shim();
    shim.request("tools/call", &call("echo").to_string());
    let sent =
        |path: &str| collector.asked().into_iter().filter(|asked| asked.target == path).collect::<Vec<_>>();
    let spans = |traces: &RecordedRequest| {
        assert_eq!(traces.header("content-encoding"), Some("gzip"));
        let mut text = String::new();
        GzDecoder::new(traces.bytes.as_slice()).read_to_string(&mut text).unwrap();
        let body: Value = serde_json::from_str(&text).unwrap();
        body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
    };
    until_true("the span of the call", TEST_TIMEOUT, || {
        sent("/v1/traces").iter().flat_map(spans).any(|span| span["traceId"] == TRACE)
    });
    let metrics = until("metrics", TEST_TIMEOUT, || sent("/v1/metrics").pop());
    assert_eq!(metrics.header("content-encoding"), None);
    assert!(metrics.message()["resourceMetrics"][0].is_object(), "{metrics:?}");
    assert!(!daemon.log().contains("COMPRESSION"), "{}", daemon.log());
}

fn vector(name: &str) -> String {
    format!("{}/vectors/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A port that speaks TLS and hands the bytes on to `port`. The certificate is for `localhost` only.
fn tls_before(port: u16, wants_client: bool) -> u16 {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider.clone());
    let config = config.with_safe_default_protocol_versions().unwrap();
    let certificate = |name: &str| CertificateDer::from_pem_file(vector(name)).unwrap();
    let config = if wants_client {
        let mut roots = RootCertStore::empty();
        roots.add(certificate("ca.pem")).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        config.with_client_cert_verifier(verifier.unwrap())
    } else {
        config.with_no_client_auth()
    };
    let key = PrivateKeyDer::from_pem_file(vector("server.key")).unwrap();
    let config = config.with_single_cert(vec![certificate("server.pem")], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let front = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut outside = acceptor.accept(stream).await?;
                    let mut inside = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
                    tokio::io::copy_bidirectional(&mut outside, &mut inside).await
                });
            }
        });
    });
    front
}

#[test]
fn only_the_given_certificates_are_trusted() {
    let (ca, own, key) = (vector("ca.pem"), vector("client.pem"), vector("client.key"));
    let trusted = ("OTEL_EXPORTER_OTLP_CERTIFICATE", ca.as_str());
    let known = [
        ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", own.as_str()),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", key.as_str()),
    ];
    for (wants_client, variables, arrives) in [
        (false, vec![trusted], true),
        (false, vec![], false),
        (false, vec![("OTEL_EXPORTER_OTLP_CERTIFICATE", own.as_str())], false),
        (true, vec![trusted], false),
        (true, vec![trusted, known[0], known[1]], true),
    ] {
        let home = Home::new();
        home.child("kid", &["echo"]);
        let collector = collector();
        let url = format!("https://localhost:{}", tls_before(collector.port(), wants_client));
        let mut all = vec![
            ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_METRICS_EXPORTER", "none"),
        ];
        all.extend(&variables);
        let daemon = wanted(&home, &all);
        home.shim().request("tools/call", &call("echo").to_string());
        until_true(&format!("an outcome of {variables:?}"), TEST_TIMEOUT, || {
            !spans(&collector).is_empty() || daemon.log().contains("takes no spans")
        });
        assert_eq!(!spans(&collector).is_empty(), arrives, "{variables:?}: {}", daemon.log());
    }
}

#[test]
fn a_file_that_holds_no_certificate_is_named() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let (key, absent) = (vector("server.key"), home.path().join("absent.pem"));
    for (file, why) in
        [(key.as_str(), "it has no certificate"), (absent.to_str().unwrap(), "it does not exist")]
    {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://localhost:9"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", file),
        ];
        let daemon = wanted(&home, &variables);
        home.shim().request("tools/call", &call("echo").to_string());
        let said = format!("takes no spans: `OTEL_EXPORTER_OTLP_CERTIFICATE` `{file}` cannot be used: {why}");
        until_true(&said, TEST_TIMEOUT, || daemon.log().contains(&said));
    }
}
