//! `/metrics`: what Prometheus scrapes, with exact numbers.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proto_tests::scripted_server::{self, ScriptedServer};
use proto_tests::streamable::{HttpHost, ModernHost};
use proto_tests::wait::until_true;
use proto_tests::{DaemonProcess, Endpoint, Home, Request, TEST_TIMEOUT};
use serde_json::{Value, json};

/// Samples by name and labels, as a parser of the format sees them.
type Samples = BTreeMap<String, f64>;

#[track_caller]
fn scrape(daemon: &DaemonProcess) -> Samples {
    let answer = daemon.endpoint().get("/metrics");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    samples(&answer.text())
}

fn samples(text: &str) -> Samples {
    let lines = text.split_terminator('\n').filter(|line| !line.starts_with('#'));
    let pairs = lines.map(|line| line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}")));
    let mut all = Samples::new();
    for (name, value) in pairs {
        assert!(all.insert(name.to_owned(), value.parse().unwrap()).is_none(), "twice: {name}");
    }
    all
}

/// The sum over all samples with this name whose labels contain all of these.
fn sum(samples: &Samples, name: &str, labels: &[&str]) -> f64 {
    let matches = |sample: &&String| {
        let (found, rest) = sample.split_once('{').unwrap_or((sample, ""));
        found == name && labels.iter().all(|label| rest.contains(label))
    };
    samples.iter().filter(|(sample, _)| matches(sample)).map(|(_, value)| value).sum()
}

const SERVER: &str = "mcp_server_operation_duration_seconds_count";
const CLIENT: &str = "mcp_client_operation_duration_seconds_count";
const CALL: &str = r#"mcp_method_name="tools/call""#;

fn message(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn call(subtool: &str) -> Value {
    json!({"name": "kid_suite", "arguments": {"action": "call", "subtool": subtool, "args": {}}})
}

fn own(tool: &str) -> Value {
    json!({"name": tool, "arguments": {}})
}

#[track_caller]
fn posts(endpoint: &Endpoint, path: &str, method: &str, params: &Value) {
    assert_eq!(endpoint.post(path, &message(1, method, params)).status, 200);
}

#[test]
fn calls_are_counted_per_face_and_match_the_status() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    let mut single = home.shim_of("kid");
    single.initialize();
    let endpoint = daemon.endpoint();
    let legacy = HttpHost::open(daemon.endpoint(), "/mcp", "2025-11-25", &json!({}));
    let modern = ModernHost::new(daemon.endpoint(), "/mcp/kid");
    for _ in 0..2 {
        shim.call("kid", "echo", "{}");
    }
    for _ in 0..3 {
        single.request("tools/call", &own("echo").to_string());
    }
    for _ in 0..4 {
        posts(&endpoint, "/proxy", "tools/call", &call("echo"));
    }
    for _ in 0..5 {
        posts(&endpoint, "/proxy/kid", "tools/call", &own("echo"));
    }
    for _ in 0..6 {
        legacy.ask("tools/call", &call("echo"));
    }
    for _ in 0..7 {
        modern.ask("tools/call", &own("echo"));
    }
    shim.introspect("kid");
    shim.call("kid", "raise", r#"{"json":"{\"code\":-32602,\"message\":\"no\"}"}"#);

    let seen = scrape(&daemon);
    let counted = |labels: &[&str]| sum(&seen, SERVER, &[&[CALL, r#"suite="kid_suite""#], labels].concat());
    let echo = r#"gen_ai_tool_name="echo""#;
    for (face, shows, wanted) in [
        ("shim", "suites", 2.0),
        ("shim", "child", 3.0),
        ("proxy", "suites", 4.0),
        ("proxy", "child", 5.0),
        ("registry", "suites", 6.0),
        ("registry", "child", 7.0),
    ] {
        let (face_label, shows_label) = (format!("face=\"{face}\""), format!("shows=\"{shows}\""));
        assert_eq!(counted(&[&face_label, &shows_label, echo]), wanted, "{face} {shows}");
    }
    assert_eq!(counted(&[r#"gen_ai_tool_name="raise""#, r#"error_type="-32602""#]), 1.0);
    // An `introspect` counts under the suite's own tool name.
    assert_eq!(counted(&[r#"gen_ai_tool_name="kid_suite""#]), 1.0);
    assert_eq!(sum(&seen, "switchboard_introspections_total", &["kid_suite"]), 1.0);
    assert_eq!(sum(&seen, CLIENT, &[CALL, r#"child="kid""#, r#"network_transport="pipe""#, echo]), 27.0);
    assert_eq!(sum(&seen, CLIENT, &[r#"mcp_method_name="initialize""#, r#"child="kid""#]), 1.0);
    assert_eq!(sum(&seen, "switchboard_child_starts_total", &[r#"child="kid""#, r#"reason="call""#]), 1.0);
    assert_eq!(sum(&seen, "switchboard_child_up", &[r#"child="kid""#]), 1.0);
    assert_eq!(sum(&seen, "switchboard_pool_size", &[r#"child="kid""#]), 1.0);
    assert_eq!(sum(&seen, "switchboard_sessions", &[r#"face="shim""#]), 2.0);
    assert_eq!(sum(&seen, "switchboard_sessions", &[r#"face="registry""#]), 1.0);

    let status = daemon.status();
    let calls = &daemon.suite("kid")["calls"];
    assert_eq!(calls["total"], 28);
    assert_eq!(status["calls"]["total"], 28);
    let failed = counted(&[r#"error_type=""#]);
    // Arguments that the server calls wrong are counted apart.
    let refused = calls["refused"].as_f64().unwrap();
    assert_eq!((calls["errors"].as_f64().map(|errors| errors + refused), refused), (Some(failed), 1.0));
    let slowest = sum(&seen, "mcp_server_operation_duration_seconds_bucket", &[CALL, r#"le="+Inf""#]);
    assert_eq!(slowest, 29.0);
    let took = sum(&seen, "mcp_server_operation_duration_seconds_sum", &[CALL, echo]);
    assert!(took > 0.0 && took < 600.0, "{took}");
}

#[test]
fn ended_sessions_and_children_are_counted_with_their_reason() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("kid", "echo", "{}");
    shim.call("kid", "crash", "{}");
    shim.call("kid", "echo", "{}");
    let legacy = HttpHost::open(daemon.endpoint(), "/mcp", "2025-11-25", &json!({}));
    legacy.end();
    let name = "mcp_client_session_duration_seconds_count";
    until_true("the end of the first", TEST_TIMEOUT, || {
        sum(&scrape(&daemon), name, &[r#"child="kid""#, r#"error_type="child_exited""#]) == 1.0
    });
    let seen = scrape(&daemon);
    assert_eq!(sum(&seen, "switchboard_child_restarts_total", &[r#"child="kid""#]), 1.0);
    assert_eq!(sum(&seen, "switchboard_child_starts_total", &[r#"child="kid""#]), 2.0);
    assert_eq!(sum(&seen, "mcp_server_session_duration_seconds_count", &[r#"face="registry""#]), 1.0);
    assert_eq!(
        sum(&seen, CLIENT, &[CALL, r#"gen_ai_tool_name="crash""#, r#"error_type="child_exited""#]),
        1.0
    );
    drop(shim);
    until_true("the shim's session", TEST_TIMEOUT, || {
        sum(&scrape(&daemon), "mcp_server_session_duration_seconds_count", &[r#"face="shim""#]) == 1.0
    });
}

#[test]
fn unknown_names_add_no_series() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon();
    let mut connection = daemon.endpoint().connect().unwrap();
    let mut post = |path: &str, method: &str, params: &Value| {
        let request = Request::new("POST", path).body(message(1, method, params));
        connection.write(&request.bytes("localhost"));
        assert_eq!(connection.response(false).unwrap().status, 200);
    };
    post("/proxy", "tools/call", &call("echo"));
    post("/proxy", "tools/call", &call("made up"));
    post("/proxy/kid", "tools/call", &own("made up"));
    post("/proxy", "made/up", &json!({}));
    let before: BTreeSet<String> = scrape(&daemon).into_keys().collect();
    for number in 0..5000 {
        match number % 3 {
            0 => post("/proxy", "tools/call", &call(&format!("made up {number}"))),
            1 => post("/proxy/kid", "tools/call", &own(&format!("made up {number}"))),
            _ => post("/proxy", &format!("made/up/{number}"), &json!({})),
        }
    }
    let seen = scrape(&daemon);
    let after: BTreeSet<String> = seen.keys().cloned().collect();
    let new: Vec<_> = after.difference(&before).collect();
    assert!(new.is_empty(), "{new:?}");
    assert_eq!(sum(&seen, SERVER, &[r#"mcp_method_name="_other""#]), 1667.0);
    assert_eq!(sum(&seen, SERVER, &[CALL, r#"gen_ai_tool_name="_other""#]), 2.0 + 1667.0 + 1667.0);
}

#[test]
fn names_with_special_characters_are_escaped() {
    let home = Home::new();
    let far = ScriptedServer::start(scripted_server::legacy);
    let child = "a\"b\\c é} 7 # EOF";
    home.definition("odd", &json!({"mcpServers": {child: {"url": far.url()}}}).to_string());
    let daemon = home.daemon();
    let tool = "t\"\\\n# EOF\nswitchboard_child_up 9\r{x=\"";
    // Any face would do; this one passes the tool's name unchanged.
    let path = "/proxy/a%22b%5Cc%20%C3%A9%7D%207%20%23%20EOF";
    posts(&daemon.endpoint(), path, "tools/call", &json!({"name": tool, "arguments": {}}));
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let text = daemon.endpoint().get("/metrics").text();
    let seen = samples(&text);
    assert_eq!(seen[&format!("switchboard_child_up{{child=\"{}\"}}", escaped(child))], 1.0, "{text}");
    let labels = [format!("child=\"{}\"", escaped(child)), format!("gen_ai_tool_name=\"{}\"", escaped(tool))];
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    assert_eq!(sum(&seen, CLIENT, &labels), 1.0, "{text}");
    assert!(!seen.contains_key("switchboard_child_up"), "{text}");
}

#[test]
fn metrics_need_the_token_and_support_head() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon_on_tcp();
    let tcp = daemon.tcp();
    let refused = tcp.get("/metrics");
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")));
    assert!(!refused.text().contains("switchboard_"));
    assert_eq!(tcp.send(&Request::new("GET", "/metrics").bearer("wrong")).status, 401);
    let with = |method: &str| Request::new(method, "/metrics").bearer(&daemon.token());
    let full = tcp.send(&with("GET"));
    assert_eq!(full.status, 200);
    assert!(full.text().contains("switchboard_build_info{version=\""), "{}", full.text());
    let head = tcp.send(&with("HEAD"));
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-type"), full.header("content-type"));
    let wrong = tcp.send(&with("POST"));
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("GET, HEAD")));
    let open =
        tcp.send(&with("GET").header("Accept", "application/openmetrics-text;version=1.0.0,*/*;q=0.1"));
    assert_eq!(
        open.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(open.text().ends_with("# EOF\n") && open.text().contains("# TYPE switchboard_reload counter"));
}

#[test]
fn held_servers_are_counted_but_not_named() {
    let home = Home::new();
    let project = home.project("work");
    project.child("stranger", &["echo"]);
    let daemon = home.daemon();
    let _shim = project.shim();
    until_true("it to wait", TEST_TIMEOUT, || sum(&scrape(&daemon), "switchboard_trust_pending", &[]) == 1.0);
    assert!(!daemon.endpoint().get("/metrics").text().contains("stranger"));
}

#[test]
fn two_scrapes_without_activity_are_equal() {
    let home = Home::new();
    home.child("a", &["echo"]);
    home.child("b", &["echo"]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    for child in ["a", "b", "a"] {
        shim.call(child, "echo", "{}");
        shim.call(child, "count", "{}");
    }
    // Their lists are fetched in the background.
    let lists = || sum(&scrape(&daemon), CLIENT, &[r#"mcp_method_name="tools/list""#]);
    until_true("the lists", TEST_TIMEOUT, || lists() >= 2.0);
    let steady = |text: &str| -> Vec<String> {
        let moves =
            |line: &&str| !line.starts_with("process_") && !line.starts_with("switchboard_child_memory");
        text.lines().filter(moves).map(str::to_owned).collect()
    };
    let look = || steady(&daemon.endpoint().get("/metrics").text());
    until_true("quiet", TEST_TIMEOUT, || look() == look());
}

/// The dashboard and the alert rules use only metrics that exist.
#[test]
fn dashboard_and_rules_use_existing_metrics() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("kid", "echo", "{}");
    shim.call("kid", "crash", "{}");
    HttpHost::open(daemon.endpoint(), "/mcp", "2025-11-25", &json!({})).end();
    until_true("the end", TEST_TIMEOUT, || {
        let seen = scrape(&daemon);
        sum(&seen, "mcp_client_session_duration_seconds_count", &[]) == 1.0
            && sum(&seen, "switchboard_child_memory_bytes", &[]) >= 0.0
    });
    let known: BTreeSet<String> = {
        let text = daemon.endpoint().get("/metrics").text();
        let families: Vec<(String, String)> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "))
            .map(|line| line.split_once(' ').map(|(name, sort)| (name.to_owned(), sort.to_owned())).unwrap())
            .collect();
        let spread = |(name, sort): (String, String)| match sort.as_str() {
            "histogram" => ["_bucket", "_sum", "_count"].map(|suffix| format!("{name}{suffix}")).to_vec(),
            _ => vec![name],
        };
        families.into_iter().flat_map(spread).collect()
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("deploy");
    let dashboard = std::fs::read_to_string(root.join("grafana/switchboard.json")).unwrap();
    let parsed: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = parsed["panels"].as_array().unwrap();
    assert!(
        panels
            .iter()
            .filter(|panel| panel["type"] != "row")
            .all(|panel| panel["targets"][0]["expr"].is_string())
    );
    let rules = std::fs::read_to_string(root.join("prometheus/alerts.yml")).unwrap();
    let mut asked = BTreeSet::new();
    for text in [&dashboard, &rules] {
        for word in text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_') {
            let ours = ["mcp_server_", "mcp_client_", "switchboard_", "process_"];
            if ours.iter().any(|prefix| word.starts_with(prefix)) {
                asked.insert(word.to_owned());
            }
        }
    }
    let missing: Vec<_> = asked.difference(&known).collect();
    assert!(missing.is_empty(), "{missing:?} of {known:?}");
    assert!(asked.len() >= 20, "{asked:?}");
}
