//! The record of calls: complete, in order, bounded, kept across restarts, and without what nobody asked to keep.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use proto_tests::proof::{counted, measured};
use proto_tests::shim::{ShimOptions, call_params};
use proto_tests::streamable::{HttpHost, ModernHost};
use proto_tests::wait::{until, until_true};
use proto_tests::{Home, Request, Shim, TEST_TIMEOUT, bins};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Part of every argument and result that must not be recorded.
const CANARY: &str = "canary";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What `switchboard calls --json ARGS` shows.
#[track_caller]
fn calls(home: &Home, args: &[&str]) -> Vec<Value> {
    shown(home, args)["calls"].as_array().unwrap().clone()
}

#[track_caller]
fn shown(home: &Home, args: &[&str]) -> Value {
    let output = command(home, args);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn command(home: &Home, args: &[&str]) -> Output {
    home.command(&[&["calls", "--json"], args].concat())
}

/// Suite, tool and outcome of each call.
fn brief(calls: &[Value]) -> Vec<String> {
    let word = |call: &Value, key: &str| call[key].as_str().unwrap_or("-").to_owned();
    calls.iter().map(|call| ["suite", "tool", "outcome"].map(|key| word(call, key)).join(" ")).collect()
}

fn folder(home: &Home) -> PathBuf {
    home.state_folder().join("calls")
}

fn newest(home: &Home) -> PathBuf {
    folder(home).join("calls.jsonl")
}

/// Everything in the files of the record.
fn on_disk(home: &Home) -> String {
    let files = fs::read_dir(folder(home)).into_iter().flatten().flatten();
    files.map(|file| text(&fs::read(file.path()).unwrap())).collect()
}

/// A host with this name, behind a shim.
fn host(home: &Home, name: &str) -> Shim {
    let mut shim = home.raw_shim();
    let info = json!({"name": name, "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    shim.initialize_as(&params.to_string());
    shim
}

#[test]
fn every_end_of_a_call_is_recorded() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    home.child("bad", &["exit-at-start", "1"]);
    let limits = json!({"rpcMs": 2000});
    home.config(&json!({"suites": {"kid": {"expose": {"deny": ["fork"]}, "timeouts": limits}}}));
    let daemon = home.daemon();
    let mut shim = host(&home, "Some Host");
    shim.call("kid", "echo", "{}");
    shim.call("kid", "raise", &json!({"json": r#"{"code":-32050,"message":"x"}"#}).to_string());
    shim.call("kid", "raw", &json!({"json": r#"{"content":[],"isError":true}"#}).to_string());
    shim.call("kid", "fork", "{}");
    shim.call("kid", "ehco", "{}");
    shim.call("kid", "strict", "{}");
    shim.request("tools/call", r#"{"name":"kid_suite","arguments":{"action":"dance"}}"#);
    shim.request("tools/call", r#"{"name":"no_suite","arguments":{"action":"call"}}"#);
    shim.introspect("kid");
    shim.call("kid", "hang", "{}");
    let id = shim.start_call("kid", "slow", r#"{"ms":60000}"#);
    // It must be seen and cancelled before its time is over: starting a command would take too long.
    until_true("the call", TEST_TIMEOUT, || daemon.status()["sessions"][0]["inFlight"] == 1);
    shim.send(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
    ));
    shim.call("kid", "crash", "{}");
    shim.call("bad", "echo", "{}");
    let all = until("all calls", TEST_TIMEOUT, || Some(calls(&home, &[])).filter(|all| all.len() == 13));
    assert_eq!(
        brief(&all),
        [
            "kid_suite echo ok",
            "kid_suite raise error",
            "kid_suite raw error",
            "kid_suite fork refused",
            "kid_suite ehco refused",
            "kid_suite strict refused",
            "kid_suite - refused",
            "no_suite - refused",
            "kid_suite - ok",
            "kid_suite hang timed out",
            "kid_suite slow cancelled",
            "kid_suite crash crashed",
            "bad_suite echo crashed",
        ]
    );
    let kinds: Vec<_> = all.iter().map(|call| call["kind"].as_str().unwrap_or("-")).collect();
    assert_eq!(
        kinds,
        [
            "-",
            "_other",
            "tool_error",
            "not_allowed",
            "unknown_tool",
            "invalid_arguments",
            "invalid_call",
            "invalid_params",
            "-",
            "rpc_timeout",
            "cancelled",
            "child_exited",
            "child_exited"
        ]
    );
    assert_eq!(all[8]["what"], "introspect");
    let workspace = home.workspace().canonicalize().unwrap();
    for call in &all {
        assert_eq!((&call["host"], &call["via"]), (&json!("Some Host"), &json!("shim")), "{call}");
        assert_eq!(
            PathBuf::from(call["workspace"].as_str().unwrap()).canonicalize().unwrap(),
            workspace,
            "{call}"
        );
        assert!(call["at"].as_u64().unwrap() > 1_700_000_000_000 && call["time"].is_string(), "{call}");
    }
    assert!(all[9]["ms"].as_f64().unwrap() >= 300.0, "{}", all[9]);
    // People get a table, and filters take the names that they know.
    let table = text(&home.command(&["calls"]).stdout);
    assert_eq!(table.lines().count(), 14, "{table}");
    let column = |line: &str| line.find(if line.contains("WHEN") { "EDITOR" } else { "Some Host" });
    assert!(table.lines().all(|line| column(line) == column(table.lines().next().unwrap())), "{table}");
    assert!(table.contains("refused (not_allowed)") && table.contains("(introspect)"), "{table}");
    for (args, count) in [
        (&["--suite", "kid"][..], 11),
        (&["--suite", "bad_suite"], 1),
        (&["--suite", "no"], 0),
        (&["--host", "some-host"], 13),
        (&["--host", "Cursor"], 0),
        (&["-n", "2"], 2),
        (&["--since", "1h"], 13),
        (&["--since", "0s"], 0),
        (&["--since", "2d", "--suite", "kid", "-n", "4"], 4),
    ] {
        assert_eq!(calls(&home, args).len(), count, "{args:?}");
    }
    let none = home.command(&["calls", "-n", "0"]);
    assert_eq!((text(&none.stdout), text(&none.stderr)), (String::new(), String::new()));
    for wrong in ["1", "h", "1x", "-1h", ""] {
        let output = home.command(&["calls", "--since", wrong]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
    assert!(text(&home.command(&["calls", "--since", "1x"]).stderr).contains("90s, 15m, 1h or 2d"));
}

#[test]
fn calls_by_every_route_are_recorded() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon();
    let (suite, own) = (call_params("kid", "echo", "{}"), r#"{"name":"echo","arguments":{}}"#);
    let post = |path: &str, params: &str| {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        assert_eq!(daemon.endpoint().post(path, &body).status, 200);
    };
    home.shim().call("kid", "echo", "{}");
    let mut one = home.shim_of("kid");
    one.initialize();
    one.request("tools/call", own);
    post("/proxy", &suite);
    post("/proxy/kid", own);
    for (path, params) in [("/mcp", suite.as_str()), ("/mcp/kid", own)] {
        let params: Value = serde_json::from_str(params).unwrap();
        HttpHost::open(daemon.endpoint(), path, "2025-11-25", &json!({})).ask("tools/call", &params);
        ModernHost::new(daemon.endpoint(), path).ask("tools/call", &params);
    }
    home.run_ok(&["call", "kid", "echo"]);
    let all = calls(&home, &[]);
    let seen: Vec<_> = all
        .iter()
        .map(|call| [&call["via"], &call["host"]].map(|word| word.as_str().unwrap_or("-")))
        .collect();
    assert_eq!(
        seen,
        [
            ["shim", "proto-tests"],
            ["shim", "proto-tests"],
            ["proxy", "-"],
            ["proxy", "-"],
            ["registry", "test-host"],
            ["registry", "test-host"],
            ["registry", "test-host"],
            ["registry", "test-host"],
            ["shim", "switchboard call"],
        ]
    );
    assert!(brief(&all).iter().all(|call| call == "kid_suite echo ok"), "{all:?}");
    assert!(all.iter().all(|call| call["server"] == "kid"), "{all:?}");
}

#[test]
fn a_modern_call_that_is_continued_counts_once() {
    for era in ["legacy", "modern"] {
        let home = Home::new();
        let entry = home.entry(&bins().era_child, &["--era", era], &[]);
        home.definition("era", &json!({"mcpServers": {"era": entry}}).to_string());
        let daemon = home.daemon();
        let host = ModernHost::new(daemon.endpoint(), "/mcp");
        let tool =
            if era == "modern" { "test_input_required_result_elicitation" } else { "test_elicitation" };
        let mut params: Value =
            serde_json::from_str(&call_params("era", tool, r#"{"message":"canary"}"#)).unwrap();
        let asked = host.ask("tools/call", &params);
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let requests = asked["result"]["inputRequests"].as_object().unwrap();
        let answer =
            json!({"action": "accept", "content": {"name": "x", "username": "x", "email": "x@example.com"}});
        let answers: serde_json::Map<_, _> =
            requests.keys().map(|key| (key.clone(), answer.clone())).collect();
        params["inputResponses"] = answers.into();
        params["requestState"] = asked["result"]["requestState"].clone();
        let done = host.ask("tools/call", &params);
        assert_eq!(done["result"]["resultType"], "complete", "{done}");
        let all = calls(&home, &[]);
        assert_eq!(brief(&all), [format!("era_suite {tool} asked"), format!("era_suite {tool} ok")]);
        assert_eq!((&all[0]["retry"], &all[1]["retry"]), (&Value::Null, &json!(true)), "{all:?}");
        assert!(!on_disk(&home).contains(CANARY));
    }
}

#[test]
fn what_is_held_or_asked_is_recorded() {
    let home = Home::new();
    let project = home.project("p");
    project.child("k", &["echo"]);
    let _daemon = home.daemon();
    // A host that cannot ask, and one whose user says no.
    let options = || ShimOptions { workspace: Some(project.path().to_owned()), ..ShimOptions::default() };
    let mut mute = Shim::start(&home, options());
    let silent = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "mute", "version": "1"}});
    mute.initialize_as(&silent.to_string());
    mute.call("k", "echo", "{}");
    let mut asking = Shim::start(&home, options());
    asking.initialize();
    let id = asking.start_call("k", "echo", "{}");
    let question = asking.notification("elicitation/create");
    let decline = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}});
    asking.send(&decline.to_string());
    asking.answer_to(&id.to_string());
    let all = calls(&home, &[]);
    assert_eq!(brief(&all), ["k_suite echo held", "k_suite echo held"], "{all:?}");
    assert_eq!((&all[0]["asked"], &all[1]["asked"]), (&Value::Null, &json!(true)), "{all:?}");
    assert_eq!(all[0]["workspace"].as_str(), project.path().to_str());
}

#[test]
fn what_switchboard_refuses_holds_or_asks_has_its_own_outcome() {
    let home = Home::new();
    let file = home.path().join("tools.json");
    let says = |name: &str, words: &str, reads: bool| {
        json!({"name": name, "description": words, "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": reads}})
    };
    let lists = |words: &str| {
        let tools = [says("get", "Reads", true), says("put", "Writes", false), says("rm", words, false)];
        let draft = file.with_extension("new");
        fs::write(&draft, json!({"version": "1", "tools": tools}).to_string()).unwrap();
        fs::rename(draft, &file).unwrap();
    };
    lists("Removes");
    home.child("k", &["tools-of", file.to_str().unwrap()]);
    home.child("w", &["echo"]);
    home.config(&json!({
        "trust": {"drift": "hold"},
        "suites": {"k": {"split": true, "confirm": ["put"]}, "w": {"pool": {"scope": "workspace"}}},
    }));
    let daemon = home.daemon();
    let mut mute = host(&home, "mute");
    let call = |tool: &str| json!({"name": "k_suite_write", "arguments": {"action": "call", "subtool": tool, "args": {}}});
    let wrong = json!({"name": "k_suite", "arguments": {"action": "call", "subtool": "rm", "args": {}}});
    assert!(mute.request("tools/call", &call("rm").to_string()).contains("it ran"));
    mute.request("tools/call", &wrong.to_string());
    mute.request("tools/call", &call("put").to_string());
    // A host that can ask: its user says no, then yes.
    let mut asking = home.shim();
    for decision in ["no", "once"] {
        let id = asking.start_request("tools/call", &call("put").to_string());
        let question = asking.notification("elicitation/create");
        let said = json!({"action": "accept", "content": {"decision": decision}});
        asking.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": said}).to_string());
        asking.answer_to(&id.to_string());
    }
    // A modern host gets the question as its result.
    let modern = ModernHost::new(daemon.endpoint(), "/mcp");
    let asked = modern.ask("tools/call", &call("put"));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let mut no = call("put");
    no["requestState"] = asked["result"]["requestState"].clone();
    no["inputResponses"] = json!({"confirm": {"action": "decline"}});
    modern.ask("tools/call", &no);
    home.run_ok(&["restart", "k"]);
    lists("Removes everything");
    mute.request("tools/call", &call("rm").to_string());
    let nowhere = ShimOptions { workspace: Some(home.path()), ..ShimOptions::default() };
    let mut homeless = Shim::start(&home, nowhere);
    homeless.initialize();
    homeless.call("w", "echo", "{}");
    let all = until("all calls", TEST_TIMEOUT, || Some(calls(&home, &[])).filter(|all| all.len() == 9));
    let told: Vec<String> = brief(&all)
        .into_iter()
        .zip(&all)
        .map(|(brief, call)| {
            let asked = if call["asked"] == true { " asked" } else { "" };
            format!("{brief} {}{asked}", call["kind"].as_str().unwrap_or("-"))
        })
        .collect();
    assert_eq!(
        told,
        [
            "k_suite rm ok -",
            "k_suite rm refused wrong_tool",
            "k_suite put refused not_confirmed",
            "k_suite put declined not_confirmed asked",
            "k_suite put ok - asked",
            "k_suite put asked - asked",
            "k_suite put declined not_confirmed",
            "k_suite rm held tool_held",
            "w_suite echo refused no_workspace",
        ]
    );
}

#[test]
fn calls_that_a_stopping_daemon_refuses_or_fails_are_recorded() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let mut daemon = home.daemon();
    let host = HttpHost::open(daemon.endpoint(), "/mcp", "2025-11-25", &json!({}));
    let params: Value = serde_json::from_str(&call_params("kid", "echo", "{}")).unwrap();
    host.ask("tools/call", &params);
    let slow: Value = serde_json::from_str(&call_params("kid", "hang", "{}")).unwrap();
    let open = host.post(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": slow}));
    daemon.signal(Signal::TERM);
    until_true("the drain", TEST_TIMEOUT, || daemon.log().contains("draining"));
    // Refused: the daemon waits for the call in flight.
    host.ask("tools/call", &params);
    ModernHost::new(daemon.endpoint(), "/mcp").ask("tools/call", &params);
    // The second signal ends the wait.
    daemon.signal(Signal::TERM);
    daemon.ended(TEST_TIMEOUT);
    drop(open);
    let all = calls(&home, &[]);
    let seen: Vec<String> = all.iter().map(|call| format!("{} {}", call["tool"], call["outcome"])).collect();
    assert_eq!(
        seen,
        [r#""echo" "ok""#, r#""echo" "stopped""#, r#""echo" "stopped""#, r#""hang" "stopped""#],
        "{all:?}"
    );
    assert!(all.iter().all(|call| call["host"] == "test-host" && call["suite"] == "kid_suite"), "{all:?}");
}

#[test]
fn the_record_outlives_the_daemon() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let mut daemon = home.daemon();
    let mut shim = host(&home, "first");
    for _ in 0..3 {
        shim.call("kid", "echo", "{}");
    }
    drop(shim);
    home.run_ok(&["stop"]);
    daemon.ended(TEST_TIMEOUT);
    // Without a daemon, too.
    assert_eq!(calls(&home, &[]).len(), 3);
    let mut daemon = home.daemon();
    let mut shim = host(&home, "second");
    for _ in 0..20 {
        shim.call("kid", "count", "{}");
    }
    // Killed, the daemon loses the last moment at most.
    std::thread::sleep(Duration::from_secs(1));
    daemon.kill();
    drop(shim);
    let all = calls(&home, &[]);
    assert_eq!(all.len(), 23, "{all:?}");
    // Half a line and other garbage spoil nothing.
    let mut file = fs::OpenOptions::new().append(true).open(newest(&home)).unwrap();
    file.write_all(b"not json\n\xff\xfe\n{}\n{\"at\":17").unwrap();
    let daemon = home.daemon();
    host(&home, "third").call("kid", "echo", "{}");
    let hosts: Vec<String> =
        calls(&home, &[]).iter().map(|call| call["host"].as_str().unwrap().to_owned()).collect();
    assert_eq!(hosts, [vec!["first"; 3], vec!["second"; 20], vec!["third"]].concat());
    // The page shows calls from before the restart.
    let recent = daemon.status()["recentCalls"].clone();
    let recent: Vec<_> = recent.as_array().unwrap().iter().map(|call| call["host"].clone()).collect();
    assert_eq!((recent.len(), &recent[0], &recent[23]), (24, &json!("third"), &json!("first")));
    // Nobody else can read it.
    assert_eq!(fs::metadata(newest(&home)).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(fs::metadata(folder(&home)).unwrap().mode() & 0o7777, 0o700);
}

/// Lines of a command that goes on, as they come.
fn following(home: &Home, args: &[&str]) -> (Child, Receiver<String>) {
    let mut child = Command::new(&bins().switchboard)
        .args(["calls", "-f", "--json"])
        .args(args)
        .env_clear()
        .envs(home.environment())
        .env("SWITCHBOARD_SOCKET", home.socket())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let (tell, lines) = channel();
    std::thread::spawn(move || out.lines().map_while(Result::ok).for_each(|line| drop(tell.send(line))));
    (child, lines)
}

#[test]
fn a_follower_sees_calls_as_they_end_across_daemons() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    // Before anything was ever recorded.
    let (mut child, lines) = following(&home, &["--host", "wanted"]);
    let next = || {
        let line = lines.recv_timeout(TEST_TIMEOUT).unwrap();
        let call: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(call["host"], "wanted", "{call}");
        call["tool"].as_str().unwrap().to_owned()
    };
    let mut daemon = home.daemon();
    let (mut wanted, mut other) = (host(&home, "wanted"), host(&home, "other"));
    other.call("kid", "echo", "{}");
    wanted.call("kid", "echo", "{}");
    let asked = Instant::now();
    assert_eq!(next(), "echo");
    assert!(asked.elapsed() < Duration::from_secs(5));
    drop((wanted, other));
    home.run_ok(&["stop"]);
    daemon.ended(TEST_TIMEOUT);
    let _daemon = home.daemon();
    let mut wanted = host(&home, "wanted");
    wanted.call("kid", "count", "{}");
    assert_eq!(next(), "count");
    // Somebody deletes the record.
    fs::remove_dir_all(folder(&home)).unwrap();
    let _ = fs::create_dir(folder(&home));
    fs::set_permissions(folder(&home), fs::Permissions::from_mode(0o700)).unwrap();
    wanted.call("kid", "where", "{}");
    assert_eq!(next(), "where");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn no_argument_and_no_result_is_recorded_unless_asked_for() {
    let home = Home::new();
    home.child_with("kid", &["echo"], &[("API_TOKEN", "server-secret-value")]);
    let config = |record: &str| {
        home.config(&json!({"record": record, "suites": {"kid": {"redact": ["note"]}}}));
    };
    config("calls");
    let daemon = home.daemon();
    // A workspace cannot turn it on.
    let project = home.project("p");
    project.config(&json!({"record": "arguments"}));
    let mut shim = project.shim();
    let secret = r#"{"plain":"canary-1","note":{"x":"canary-2"},"password":"canary-3","list":[{"apiKey":"canary-4"}],"text":"see ghp_canary0123456789abcdefghij and server-secret-value"}"#;
    let call = |shim: &mut Shim| {
        shim.call("kid", "echo", secret);
        shim.call("kid", "fork_canary", secret);
        shim.call("kid", "raise", r#"{"json":"{\"code\":1,\"message\":\"canary\"}"}"#);
        shim.request(
            "tools/call",
            &format!(r#"{{"name":"kid_suite","arguments":{{"action":"call","canary":{secret}}}}}"#),
        );
        shim.request(
            "tools/call",
            &format!(r#"{{"name":"kid_suite","arguments":{{"action":"canary","args":{secret}}}}}"#),
        );
        shim.request("resources/read", r#"{"uri":"file:///canary"}"#);
    };
    call(&mut shim);
    let all = calls(&home, &[]);
    assert!(all.len() >= 5 && all.iter().all(|call| call.get("arguments").is_none()), "{all:?}");
    // The name of a tool is no argument, even if there is no such tool.
    let disk = on_disk(&home).replace("fork_canary", "");
    assert!(!disk.contains(CANARY) && !disk.contains("server-secret"), "{disk}");
    let page = daemon.status()["recentCalls"].to_string().replace("fork_canary", "");
    assert!(!page.contains(CANARY), "{page}");

    config("arguments");
    until_true("the new config", TEST_TIMEOUT, || daemon.status()["record"]["mode"] == "arguments");
    call(&mut shim);
    let all = until("the arguments", TEST_TIMEOUT, || {
        Some(calls(&home, &["-n", "100"])).filter(|all| all.iter().any(|call| call["arguments"].is_object()))
    });
    let call_of_echo = all.iter().find(|call| call["arguments"].is_object()).unwrap();
    assert_eq!(
        call_of_echo["arguments"],
        json!({"plain": "canary-1", "note": "•••", "password": "•••", "list": [{"apiKey": "•••"}], "text": "see ••• and •••"}),
        "{call_of_echo}"
    );
    let disk = on_disk(&home);
    for hidden in ["canary-2", "canary-3", "canary-4", "ghp_", "server-secret"] {
        assert!(!disk.contains(hidden), "{hidden}");
    }
    assert!(!daemon.status()["recentCalls"].to_string().contains("canary-1"));

    config("off");
    until_true("the new config", TEST_TIMEOUT, || daemon.status()["record"]["mode"] == "off");
    let before = on_disk(&home);
    call(&mut shim);
    assert!(text(&command(&home, &["--host", "nobody"]).stderr).contains("is \"off\""));
    assert_eq!(on_disk(&home), before);
    drop(shim);
}

#[test]
fn a_record_that_cannot_be_written_costs_no_call() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    // A folder in place of the file.
    fs::create_dir_all(newest(&home)).unwrap();
    fs::set_permissions(folder(&home), fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(home.state_folder(), fs::Permissions::from_mode(0o700)).unwrap();
    let daemon = home.daemon();
    let mut shim = host(&home, "host");
    for _ in 0..5 {
        assert!(shim.call("kid", "echo", "{}").contains("structuredContent"));
    }
    let why = until("the problem", TEST_TIMEOUT, || {
        daemon.status()["record"]["problem"].as_str().map(str::to_owned)
    });
    assert!(why.contains("calls.jsonl"), "{why}");
    let output = home.command(&["calls"]);
    assert!(text(&output.stderr).contains("calls are not recorded"), "{output:?}");
    assert!(text(&home.command(&["status"]).stdout).contains("calls are not recorded"));
    assert!(text(&home.command(&["doctor"]).stdout).contains("calls are not recorded"));
    // Said once, however often it is tried.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(daemon.log().matches("calls are not recorded").count(), 1, "{}", daemon.log());
    // As soon as it can be written, nothing is missing.
    fs::remove_dir(newest(&home)).unwrap();
    shim.call("kid", "count", "{}");
    let all = until("the record", TEST_TIMEOUT, || Some(calls(&home, &[])).filter(|all| all.len() == 6));
    assert_eq!(all[5]["tool"], "count", "{all:?}");
    assert_eq!(daemon.status()["record"]["problem"], Value::Null);
}

/// A disk that is really full. Needs the right to mount.
#[test]
fn a_full_disk_costs_no_call() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    fs::create_dir_all(folder(&home)).unwrap();
    fs::set_permissions(home.state_folder(), fs::Permissions::from_mode(0o700)).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k,mode=0700", "tmpfs"])
        .arg(folder(&home))
        .stderr(Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("skipped: nothing can be mounted here");
        return;
    }
    struct Mounted(PathBuf);
    impl Drop for Mounted {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        }
    }
    let _mounted = Mounted(folder(&home));
    let daemon = home.daemon();
    let mut shim = host(&home, "host");
    for number in 0..1000 {
        let args = format!(r#"{{"n":{number}}}"#);
        assert!(shim.call("kid", "echo", &args).contains("structuredContent"));
    }
    until_true("the problem", TEST_TIMEOUT, || daemon.status()["record"]["problem"].is_string());
    // Nothing half is left, and nothing is missing once there is room.
    let whole = text(&fs::read(newest(&home)).unwrap());
    assert!(whole.is_empty() || whole.ends_with('\n'));
    let status = Command::new("mount").args(["-o", "remount,size=4m"]).arg(folder(&home)).status();
    assert!(status.unwrap().success());
    until_true("the record", TEST_TIMEOUT, || calls(&home, &["-n", "5000"]).len() == 1000);
}

#[test]
fn nothing_of_the_record_is_shown_without_the_token() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon_on_tcp();
    host(&home, "private-host\u{1b}[31m\u{202e}").call("kid", "echo", "{}");
    calls(&home, &[]);
    let get = |target: &str, token: Option<&str>| {
        let request = Request::new("GET", target);
        let request = match token {
            Some(token) => request.header("Authorization", &format!("Bearer {token}")),
            None => request,
        };
        daemon.tcp().send(&request).text()
    };
    for target in ["/status", "/suites", "/", "/page/calls.js"] {
        let text = get(target, None);
        assert!(!text.contains("private-host") && !text.contains("calls.jsonl"), "{target}: {text}");
    }
    assert!(get("/status", Some(&daemon.token())).contains("private-host"));
    // The order to write the record is for the unix socket only.
    let token = format!("Bearer {}", daemon.token());
    let order = Request::new("POST", "/control/calls").header("Authorization", &token).body("{}");
    assert_eq!(daemon.tcp().send(&order).status, 403);
    // A terminal gets no control characters of a host's name.
    for args in [&["calls"][..], &["calls", "--json"]] {
        let shown = text(&home.command(args).stdout);
        assert!(shown.contains("private-host") && !shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
    }
}

#[test]
fn two_hosts_at_once_are_told_apart() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let _daemon = home.daemon();
    std::thread::scope(|scope| {
        for (name, tool) in [("one", "echo"), ("two", "count")] {
            let home = &home;
            scope.spawn(move || {
                let mut shim = host(home, name);
                for _ in 0..200 {
                    shim.call("kid", tool, "{}");
                }
            });
        }
    });
    let all = calls(&home, &["-n", "1000"]);
    assert_eq!(all.len(), 400);
    for (name, tool) in [("one", "echo"), ("two", "count")] {
        let own: Vec<_> = all.iter().filter(|call| call["host"] == name).collect();
        assert!(own.len() == 200 && own.iter().all(|call| call["tool"] == tool));
    }
    let ends: Vec<f64> =
        all.iter().map(|call| call["at"].as_f64().unwrap() + call["ms"].as_f64().unwrap()).collect();
    // `at` is in whole milliseconds.
    assert!(ends.windows(2).all(|pair| pair[0] <= pair[1] + 2.0), "not in order");
}

/// Many calls: all recorded, in order, bounded, without arguments.
#[test]
fn a_long_record_is_complete_in_order_and_bounded() {
    let count: usize = match std::env::var("SWITCHBOARD_RECORD_CALLS") {
        Ok(count) => count.parse().unwrap(),
        Err(_) => 20_000,
    };
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon();
    let mut shim = host(&home, "host");
    // The name of a tool that does not exist is recorded as it was called, so it can carry a number.
    shim.call("kid", "echo", "{}");
    let memory = || daemon.status()["memoryKb"].as_u64().unwrap();
    let before = memory();
    const AT_ONCE: usize = 64;
    let mut open = std::collections::VecDeque::new();
    for number in 0..count {
        let args = format!(r#"{{"text":"canary-{number}"}}"#);
        let tool = if number % 2 == 0 { "echo".to_owned() } else { format!("made_up_{number}") };
        open.push_back(shim.start_call("kid", if number % 10 == 1 { &tool } else { "echo" }, &args));
        if open.len() >= AT_ONCE {
            shim.answer_to(&open.pop_front().unwrap().to_string());
        }
    }
    for id in open {
        shim.answer_to(&id.to_string());
    }
    let shown = shown(&home, &["-n", "100000000"]);
    assert_eq!(shown["lost"], 0);
    let all = shown["calls"].as_array().unwrap();
    let files: Vec<_> =
        fs::read_dir(folder(&home)).unwrap().flatten().map(|file| file.metadata().unwrap().len()).collect();
    assert!(files.len() <= 6 && files.iter().all(|bytes| *bytes <= 10 << 20), "{files:?}");
    let mut made_up: Vec<usize> =
        all.iter().filter_map(|call| call["tool"].as_str()?.strip_prefix("made_up_")?.parse().ok()).collect();
    // Calls that overlap may end in another order.
    assert!(made_up.windows(2).all(|pair| pair[0] < pair[1] + AT_ONCE), "not in order");
    made_up.sort_unstable();
    // About 250,000 calls fit; the oldest go first.
    if count <= 200_000 {
        assert_eq!(all.len(), count + 1);
        let wanted: Vec<usize> = (0..count).filter(|number| number % 10 == 1).collect();
        assert_eq!(made_up, wanted, "each call is there once");
    } else {
        assert!(all.len() > 200_000, "{} of {count}", all.len());
        assert!(
            made_up[AT_ONCE..].windows(2).all(|pair| pair[0] + 10 == pair[1]),
            "each of the last calls is there once"
        );
    }
    assert!(!on_disk(&home).contains(CANARY));
    let after = memory();
    assert!(after < before + 8 * 1024, "{before} KiB, then {after} KiB");
    counted("S9", "calls recorded once, in order and without an argument", all.len() as u64);
    measured("S9", "more memory, KiB", after.saturating_sub(before) as f64);
    daemon.signal(Signal::TERM);
}
