//! What Switchboard saves, recomputed here from the traffic.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::sync::OnceLock;

use proto_tests::http::Request;
use proto_tests::shim::text_of;
use proto_tests::wait::until;
use proto_tests::{DaemonProcess, Home, Shim, TEST_TIMEOUT, bins};
use serde_json::{Value, json};
use tiktoken_rs::CoreBPE;

fn tokens(text: &str) -> i64 {
    static TOKENIZER: OnceLock<CoreBPE> = OnceLock::new();
    let tokenizer = TOKENIZER.get_or_init(|| tiktoken_rs::o200k_base().unwrap());
    i64::try_from(tokenizer.encode_ordinary(text).len()).unwrap()
}

/// Tokens of a tool as a host shows it to a model.
fn tokens_of(tool: &Value) -> i64 {
    tokens(&shown(tool))
}

fn shown(tool: &Value) -> String {
    let mut seen = json!({"name": tool["name"], "inputSchema": tool["inputSchema"]});
    if let Some(description) = tool.get("description") {
        seen["description"] = description.clone();
    }
    seen.to_string()
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[track_caller]
fn savings(home: &Home) -> Value {
    let output = home.command(&["savings", "--json"]);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn of<'s>(savings: &'s Value, child: &str) -> &'s Value {
    let all = savings["suites"].as_array().unwrap();
    all.iter().find(|suite| suite["child"] == child).unwrap_or_else(|| panic!("no `{child}` in {savings}"))
}

/// Waits until the manifest of this child exists, and hosts are shown what it says.
#[track_caller]
fn once_known(home: &Home, child: &str) -> Value {
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    until("its description", TEST_TIMEOUT, || {
        let answer = proto_tests::Endpoint::unix(&home.socket()).post("/proxy", list).json();
        let tools = answer["result"]["tools"].as_array().unwrap();
        let suite = tools.iter().find(|tool| tool["name"] == format!("{child}_suite")).unwrap();
        suite["description"].as_str().unwrap().contains("Tools").then_some(())
    });
    until("its manifest", TEST_TIMEOUT, || Some(savings(home)).filter(|all| of(all, child)["known"] == true))
}

/// A session as a host opens it, with its first `tools/list`.
fn host(home: &Home) -> Shim {
    let mut shim = home.shim();
    shim.tools();
    shim
}

fn introspect(shim: &mut Shim, suite: &str, more: &str) -> String {
    let arguments = format!(r#"{{"action":"introspect"{more}}}"#);
    let answer = shim.request("tools/call", &format!(r#"{{"name":"{suite}","arguments":{arguments}}}"#));
    text_of(&answer)
}

/// A server with two small tools.
fn mock(home: &Home) {
    let entry = home.entry(&bins().mock_child, &[], &[]);
    home.definition("mock", &json!({"mcpServers": {"mock": entry}}).to_string());
}

/// Both tools of a split server count, and so does `find`.
#[test]
fn everything_that_a_host_is_shown_counts() {
    let home = Home::new();
    let list = home.path().join("fs.tools");
    let tool = |name: &str, reads: bool| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": reads}});
    fs::write(&list, json!({"tools": [tool("get", true), tool("rm", false)]}).to_string()).unwrap();
    home.child("fs", &["annotated", list.to_str().unwrap()]);
    home.config(&json!({"aggregate": {"find": true}}));
    let _daemon = home.daemon();
    introspect(&mut home.shim(), "fs_suite", "");
    let all = once_known(&home, "fs");
    let mut shim = home.raw_shim();
    let opened = shim.initialize();
    let tools = shim.tools();
    assert_eq!(tools.keys().collect::<Vec<_>>(), ["find", "fs_suite", "fs_suite_write"]);
    // Side by side in one list: a token can reach from one into the next.
    let both = ["fs_suite", "fs_suite_write"].map(|name| shown(&tools[name])).join(",");
    assert_eq!(number(&of(&all, "fs")["shown"]), tokens(&both), "{all}");
    let instructions = tokens(opened["result"]["instructions"].as_str().unwrap());
    let counted = number(&all["perSession"]["instructions"]);
    assert!(counted >= instructions + tokens_of(&tools["find"]) - 1, "{all}");
}

#[test]
fn the_figures_match_the_traffic() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    mock(&home);
    home.config(&json!({"suites": {"kid": {"expose": {"deny": ["crash", "die"]}}}}));
    let _daemon = home.daemon();
    let mut first = home.shim();
    first.call("kid", "echo", "{}");
    first.call("mock", "echo", "{}");
    once_known(&home, "kid");
    let all = once_known(&home, "mock");

    let mut shim = home.raw_shim();
    let opened = shim.initialize();
    let instructions = tokens(opened["result"]["instructions"].as_str().unwrap());
    let suites = shim.tools();
    let (mut listed, mut shown) = (0, instructions);
    for (child, hidden) in [("kid", 2), ("mock", 0)] {
        let told = of(&all, child);
        // A single-child face hides what `expose` denies, but a host without Switchboard would list that too.
        let manifest = manifest(&home, child);
        let tools = manifest["tools"].as_array().unwrap();
        let own: i64 = tools.iter().map(tokens_of).sum();
        let suite = tokens_of(&suites[&format!("{child}_suite")]);
        assert_eq!(number(&told["tools"]), i64::try_from(tools.len()).unwrap(), "{told}");
        assert_eq!(number(&told["hiddenTools"]), hidden, "{told}");
        assert_eq!((number(&told["listed"]), number(&told["shown"])), (own, suite), "{told}");
        assert_eq!(number(&told["saves"]), own - suite, "{told}");
        let text = introspect(&mut first, &format!("{child}_suite"), "");
        assert_eq!(number(&told["introspection"]), tokens(&text), "{told}");
        listed += own;
        shown += suite;
    }
    assert_eq!(number(&all["perSession"]["instructions"]), instructions, "{all}");
    assert_eq!(number(&all["perSession"]["listed"]), listed, "{all}");
    assert_eq!(number(&all["perSession"]["shown"]), shown, "{all}");
    assert_eq!(number(&all["perSession"]["saves"]), listed - shown, "{all}");
    assert_eq!(all["tokenizer"]["name"], "o200k_base");

    // A host that uses a single child saves nothing and loses nothing.
    let mut plain = home.shim_of("mock");
    plain.initialize();
    let all = savings(&home);
    let plain = all["sessions"].as_array().unwrap().iter().find(|one| one["child"] == "mock");
    assert_eq!(number(&plain.unwrap_or_else(|| panic!("{all}"))["saves"]), 0, "{all}");
}

/// The daemon's manifest of a child, from its file.
fn manifest(home: &Home, child: &str) -> Value {
    let files = std::fs::read_dir(home.state_folder().join("manifests")).unwrap().flatten();
    let all = files.map(|file| serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap());
    let name = if child == "mock" { "mock-child" } else { "evil-child" };
    let mut all = all.filter(|manifest: &Value| manifest["hello"].to_string().contains(name));
    all.next().unwrap_or_else(|| panic!("no manifest of `{name}`"))
}

#[test]
fn commands_do_not_count_as_sessions() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = host(&home);
    shim.call("kid", "echo", "{}");
    let before = once_known(&home, "kid");
    for command in
        [&["call", "kid", "echo", "{}"][..], &["call", "kid", "echo", "{}"], &["introspect", "kid"]]
    {
        let output = home.command(command);
        assert!(output.status.success(), "{output:?}");
    }
    let after = savings(&home);
    for same in ["tokens", "coldStarts", "processes"] {
        assert_eq!(after[same], before[same], "{same}");
    }
}

#[test]
fn introspections_are_subtracted_and_survive_a_restart() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon();
    let (mut one, mut other) = (host(&home), host(&home));
    one.call("kid", "echo", "{}");
    let before = once_known(&home, "kid");
    let saves = number(&of(&before, "kid")["saves"]);
    let instructions = number(&before["perSession"]["instructions"]);
    assert_eq!(number(&of(&before, "kid")["sessions"]), 2, "{before}");
    assert_eq!(number(&of(&before, "kid")["net"]), 2 * saves, "{before}");
    assert_eq!(number(&before["tokens"]["net"]), 2 * saves - 2 * instructions, "{before}");

    let mut fetched = 0;
    for more in ["", "", r#","query":"slow""#, r#","subtool":"echo""#, r#","args":{"verbosity":"full"}"#] {
        fetched += tokens(&introspect(&mut one, "kid_suite", more));
        let all = savings(&home);
        let told = of(&all, "kid");
        assert_eq!(number(&told["introspected"]), fetched, "{more}: {told}");
        assert_eq!(number(&told["net"]), 2 * saves - fetched, "{more}: {told}");
        assert_eq!(number(&all["tokens"]["net"]), 2 * saves - 2 * instructions - fetched, "{more}: {all}");
    }
    // Answers to mistakes and to commands are in no model's context.
    introspect(&mut one, "kid_suite", r#","subtool":"no-such""#);
    let by_hand = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "kid_suite", "arguments": {"action": "introspect"}}});
    assert_eq!(daemon.endpoint().post("/proxy", &by_hand.to_string()).status, 200);
    let all = savings(&home);
    assert_eq!(number(&of(&all, "kid")["introspections"]), 5, "{all}");
    let mut sessions: Vec<i64> =
        all["sessions"].as_array().unwrap().iter().map(|one| number(&one["saves"])).collect();
    sessions.sort_unstable();
    let spared = number(&all["perSession"]["saves"]);
    assert_eq!(sessions, [spared - fetched, spared], "{all}");

    introspect(&mut other, "kid_suite", "");
    let before = savings(&home);
    introspect(&mut other, "kid_suite", r#","query":"never counted before the end""#);
    drop((one, other, daemon));
    let _daemon = home.daemon();
    let after = savings(&home);
    let (before, after) = (of(&before, "kid"), of(&after, "kid"));
    for same in ["listed", "shown", "saves", "introspection", "sessions", "coldStarts"] {
        assert_eq!(after[same], before[same], "{same}");
    }
    assert_eq!(number(&after["introspections"]), number(&before["introspections"]) + 1);
    assert!(number(&after["introspected"]) > number(&before["introspected"]), "{after}");
    assert_eq!(number(&after["uncounted"]), 0, "{after}");
}

#[test]
fn unknown_figures_are_not_guessed() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    home.child("late", &["echo", "later"]);
    home.definition("broken", r#"{"name":"broken"}"#);
    let project = home.project("theirs");
    project.child("held", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = project.shim();
    shim.tools();
    shim.call("kid", "echo", "{}");
    let all = once_known(&home, "kid");
    for (child, why) in
        [("late", "it has not run yet"), ("broken", "it cannot be started"), ("held", "it is held")]
    {
        let told = of(&all, child);
        assert_eq!((&told["known"], &told["why"]), (&json!(false), &json!(why)), "{told}");
        for figure in ["listed", "shown", "saves", "net", "word"] {
            assert_eq!(told[figure], Value::Null, "{figure}: {told}");
        }
    }
    let own = &all["perSession"];
    assert_eq!((number(&own["suites"]), number(&own["unknown"]), number(&own["held"])), (1, 2, 0), "{own}");
    let kid = of(&all, "kid");
    assert_eq!(own["listed"], kid["listed"]);
    assert_eq!(number(&own["shown"]), number(&kid["shown"]) + number(&own["instructions"]));
    let theirs = all["workspaces"].as_array().unwrap().iter().find(|one| one["held"] == 1);
    assert_eq!(number(&theirs.unwrap_or_else(|| panic!("{all}"))["suites"]), 1, "{all}");
    let text = String::from_utf8(home.command(&["savings"]).stdout).unwrap();
    assert!(text.contains("not counted (it has not run yet): late"), "{text}");
    assert!(text.contains("not counted (it is held): held"), "{text}");
}

#[test]
fn sessions_that_share_a_child_avoid_processes_and_starts() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    home.child("own", &["echo", "own"]);
    // An editor would start this one as well, although nobody uses it.
    home.child("idle", &["echo", "idle"]);
    home.config(&json!({"suites": {"own": {"pool": {"scope": "session"}}}}));
    let _daemon = home.daemon();
    let mut hosts: Vec<Shim> = (0..3).map(|_| host(&home)).collect();
    for shim in &mut hosts {
        shim.call("kid", "echo", "{}");
        shim.call("kid", "echo", "{}");
        shim.call("own", "echo", "{}");
    }
    once_known(&home, "own");
    let all = once_known(&home, "kid");
    let (kid, own) = (of(&all, "kid"), of(&all, "own"));
    assert_eq!((number(&kid["sessionsNow"]), number(&kid["children"])), (3, 1), "{kid}");
    let idle = of(&all, "idle");
    assert_eq!((number(&idle["sessionsNow"]), number(&idle["sessionsShown"])), (0, 3), "{idle}");
    assert_eq!(number(&idle["childrenAvoided"]), 3, "{idle}");
    let headline = all["headline"].as_str().unwrap();
    assert!(headline.contains("; 5 processes"), "{headline}");
    let text = String::from_utf8(home.command(&["savings"]).stdout).unwrap();
    // Memory differs from one look to the next.
    let before_memory = headline.split_once(" processes").map(|(before, _)| before).unwrap();
    assert!(text.starts_with(before_memory), "{text}");
    assert!(text.contains("3 editor windows; without Switchboard they would run 9 servers, of which they have used 6; 4 servers run"), "{text}");
    assert!(!text.contains("_suite"), "{text}");
    assert_eq!(number(&kid["childrenAvoided"]), 2, "{kid}");
    assert_eq!((number(&own["sessionsNow"]), number(&own["children"])), (3, 3), "{own}");
    assert_eq!(number(&own["childrenAvoided"]), 0, "{own}");
    assert_eq!((number(&kid["coldStarts"]["avoided"]), number(&kid["coldStarts"]["added"])), (2, 0), "{kid}");
    assert_eq!((number(&own["coldStarts"]["avoided"]), number(&own["coldStarts"]["added"])), (0, 0), "{own}");
    // One start was measured; it counts for each of the two starts that were avoided.
    assert_eq!(number(&kid["coldStarts"]["avoidedMs"]), 2 * number(&kid["startMs"]), "{kid}");
    let processes = &all["processes"];
    assert_eq!(
        ["sessions", "without", "used", "running", "avoided"].map(|key| number(&processes[key])),
        [3, 9, 6, 4, 5],
        "{processes}"
    );
    assert!(number(&processes["peakAvoided"]) >= 2, "{processes}");
    let memory = &all["memory"];
    // A further copy would share its program's memory with the running one.
    let avoided = number(&kid["memoryAvoidedBytes"]);
    assert!(avoided > 0 && avoided < 2 * number(&kid["memoryBytes"]), "{kid}");
    assert!(number(&memory["childrenBytes"]) > 0 && number(&memory["shimsBytes"]) > 0, "{memory}");
    assert_eq!(
        number(&memory["netBytes"]),
        number(&memory["avoidedBytes"]) - number(&memory["daemonBytes"]) - number(&memory["shimsBytes"]),
        "{memory}"
    );

    // A session that used the child before and finds it stopped waits for a start that it would not have had.
    home.run_ok(&["restart", "kid_suite"]);
    let calls: Vec<u64> = (0..4).map(|_| hosts[0].start_call("kid", "echo", "{}")).collect();
    calls.iter().for_each(|call| drop(hosts[0].answer_to(&call.to_string())));
    let all = savings(&home);
    let cold = &of(&all, "kid")["coldStarts"];
    assert_eq!((number(&cold["avoided"]), number(&cold["added"])), (2, 1), "{cold}");

    // Sessions that ended no longer count, but the peak stays.
    let peak = number(&all["processes"]["peakAvoided"]);
    hosts.truncate(1);
    let left = until("their leaving", TEST_TIMEOUT, || {
        Some(savings(&home)).filter(|all| number(&all["processes"]["sessions"]) == 1)
    });
    assert_eq!(number(&of(&left, "kid")["childrenAvoided"]), 0, "{left}");
    assert!(number(&left["processes"]["peakAvoided"]) >= peak, "{left}");

    // Without an editor there is nothing to compare with.
    hosts.clear();
    until("their leaving", TEST_TIMEOUT, || {
        Some(savings(&home)).filter(|all| number(&all["processes"]["sessions"]) == 0)
    });
    let text = String::from_utf8(home.command(&["savings"]).stdout).unwrap();
    assert!(text.lines().next().unwrap().ends_with("; no editor is connected now"), "{text}");
    assert!(!text.contains("without Switchboard"), "{text}");
}

/// The first use of a server is no start that was added, even if a model read its tools before.
#[test]
fn a_first_call_after_an_introspection_is_no_added_start() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon();
    host(&home).call("kid", "echo", "{}");
    once_known(&home, "kid");
    drop(daemon);
    let _daemon = home.daemon();
    let mut shim = host(&home);
    introspect(&mut shim, "kid_suite", "");
    shim.call("kid", "echo", "{}");
    let cold = of(&savings(&home), "kid")["coldStarts"].clone();
    assert_eq!(number(&cold["added"]), 0, "{cold}");
}

#[test]
fn a_suite_that_costs_more_than_it_saves_is_reported() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    mock(&home);
    let _daemon = home.daemon();
    let mut shim = host(&home);
    shim.call("kid", "echo", "{}");
    shim.call("mock", "echo", "{}");
    once_known(&home, "kid");
    let all = once_known(&home, "mock");
    assert_eq!(of(&all, "kid")["word"], Value::Null, "{all}");
    let word = of(&all, "mock")["word"].as_str().unwrap_or_else(|| panic!("{all}"));
    assert!(word.contains("the suite of `mock` is so small that it costs more "), "{word}");
    assert!(word.contains("`switchboard --child mock`"), "{word}");
    let text = String::from_utf8(home.command(&["savings"]).stdout).unwrap();
    assert!(text.lines().any(|line| line == word), "{text}");
    assert!(text.contains("Claude's tokenizer is not public"), "{text}");
    // Less than nothing: its own two tools would take fewer tokens than the suite.
    let long =
        "clicks and echoes and everything that one could want of a server with two small tools, ".repeat(3);
    home.config(&json!({"suites": {"mock": {"description": long}}}));
    home.run_ok(&["reload"]);
    let all = savings(&home);
    let told = of(&all, "mock");
    assert!(number(&told["saves"]) < 0, "{told}");
    let figures = format!("its 2 tools take {} tokens, the suite {}", told["listed"], told["shown"]);
    assert!(told["word"].as_str().unwrap().contains(&figures), "{told}");
}

#[test]
fn the_tokenizer_is_never_loaded_into_the_daemon() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon_on_tcp();
    let mut shim = host(&home);
    shim.call("kid", "echo", "{}");
    // Concurrent requests wait for the same computation.
    let asked: Vec<_> = (0..8)
        .map(|_| {
            let endpoint = daemon.endpoint();
            std::thread::spawn(move || endpoint.get("/savings"))
        })
        .collect();
    for answer in asked {
        assert_eq!(answer.join().unwrap().status, 200);
    }
    once_known(&home, "kid");
    assert!(owned_mib(&daemon) < 16, "{} MiB", owned_mib(&daemon));
    assert!(home.daemons().len() == 1, "{:#?}", home.daemons());
    // For the user only: over TCP it needs the token.
    assert_eq!(daemon.tcp().get("/savings").status, 401);
    let with = Request::new("GET", "/savings").bearer(&daemon.token());
    assert_eq!(daemon.tcp().send(&with).status, 200);
    assert_eq!(daemon.endpoint().post("/savings", "").status, 405);
}

/// The daemon's anonymous memory.
fn owned_mib(daemon: &DaemonProcess) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    anonymous.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
}

#[test]
fn savings_needs_a_running_daemon() {
    let home = Home::new();
    for args in [&["savings"][..], &["savings", "--json"]] {
        let output = home.command(args);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let is_json = args.contains(&"--json");
        let error =
            serde_json::from_slice::<Value>(&output.stdout).is_ok_and(|told| told["error"].is_string());
        assert!(if is_json { error } else { output.stdout.is_empty() }, "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("switchboard start"), "{output:?}");
    }
    let daemon = home.daemon();
    let text = home.command(&["savings"]);
    assert!(text.status.success(), "{text:?}");
    let all: Value = daemon.endpoint().get("/savings").json();
    assert_eq!((number(&all["perSession"]["listed"]), number(&all["tokens"]["sessions"])), (0, 0), "{all}");
}
