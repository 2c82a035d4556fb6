//! Suites carry annotations that are true of all they reach, and a server that marks some tools as read-only is shown
//! as two: a host can allow one without the other.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::path::PathBuf;

use proto_tests::shim::{kind_of, structured, text_of};
use proto_tests::streamable::with_meta;
use proto_tests::wait::until_true;
use proto_tests::{Home, Shim, TEST_TIMEOUT, Terminal};
use serde_json::{Value, json};

const CHANGED: &str = "notifications/tools/list_changed";

fn tool(name: &str, annotations: &Value) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}, "annotations": annotations})
}

fn reads(name: &str) -> Value {
    tool(name, &json!({"readOnlyHint": true, "openWorldHint": false}))
}

fn writes(name: &str) -> Value {
    tool(name, &json!({"readOnlyHint": false, "destructiveHint": true, "openWorldHint": false}))
}

/// A server whose tools a test can change.
struct Server {
    list: PathBuf,
}

impl Server {
    fn new(home: &Home, name: &str, tools: &[Value]) -> Self {
        let list = home.path().join(format!("{name}.tools"));
        let server = Self { list };
        server.lists(tools);
        home.child(name, &["annotated", server.list.to_str().unwrap()]);
        server
    }

    fn lists(&self, tools: &[Value]) {
        std::fs::write(&self.list, json!({"tools": tools}).to_string()).unwrap();
    }

    /// The calls that it got.
    fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.list.with_extension("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

fn call(shim: &mut Shim, tool: &str, subtool: &str) -> String {
    let params = json!({"name": tool, "arguments": {"action": "call", "subtool": subtool, "args": {}}});
    shim.request("tools/call", &params.to_string())
}

fn introspect(shim: &mut Shim, tool: &str, more: &Value) -> Value {
    let mut arguments = json!({"action": "introspect"});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let answer = shim.request("tools/call", &json!({"name": tool, "arguments": arguments}).to_string());
    serde_json::from_str(&text_of(&answer)).unwrap_or_else(|_| panic!("{answer}"))
}

/// Starts the server and waits until its list is known.
fn run_once(shim: &mut Shim, child: &str) {
    let suite = format!("{child}_suite");
    introspect(shim, &suite, &json!({}));
    let known = |shim: &mut Shim| {
        let status = shim.tools();
        status[&suite].get("annotations").is_some()
    };
    until_true("the list to be known", TEST_TIMEOUT, || known(shim));
}

#[track_caller]
fn ran(answer: &str, subtool: &str) {
    assert_eq!(structured(answer)["name"], subtool, "{answer}");
}

#[track_caller]
fn is_refused(answer: &str, right: &str) {
    assert_eq!(kind_of(answer).as_deref(), Some("wrong_tool"), "{answer}");
    assert!(text_of(answer).ends_with(right), "{answer}");
}

#[test]
fn a_suite_says_only_what_is_true_of_all_its_tools() {
    let home = Home::new();
    let closed = json!({"readOnlyHint": true, "openWorldHint": false, "idempotentHint": true});
    let reading = [tool("a", &closed), tool("b", &closed)];
    Server::new(&home, "reading", &reading);
    let safe = json!({"readOnlyHint": false, "destructiveHint": false});
    Server::new(&home, "safe", &[tool("a", &safe), tool("b", &safe)]);
    let silent =
        [tool("a", &json!({"destructiveHint": false, "openWorldHint": true})), tool("b", &json!({}))];
    Server::new(&home, "silent", &silent);
    Server::new(&home, "hidden", &[reads("a"), writes("rm_all")]);
    Server::new(&home, "never_ran", &reading);
    home.config(&json!({"suites": {"hidden": {"expose": {"deny": ["rm_*"]}}}}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    for suite in ["reading", "safe", "hidden"] {
        run_once(&mut shim, suite);
    }
    introspect(&mut shim, "silent_suite", &json!({}));
    let tools = shim.tools();
    assert_eq!(tools.len(), 5, "{tools:?}");
    assert_eq!(tools["reading_suite"]["annotations"], closed);
    assert_eq!(tools["safe_suite"]["annotations"], safe);
    assert_eq!(tools["hidden_suite"]["annotations"], json!({"readOnlyHint": true, "openWorldHint": false}));
    for nothing in ["silent_suite", "never_ran_suite"] {
        assert!(tools[nothing].get("annotations").is_none(), "{}", tools[nothing]);
    }
    // Known without a start, in the next daemon too.
    drop(_daemon);
    let _daemon = home.daemon();
    assert_eq!(home.shim().tools()["reading_suite"]["annotations"], closed);
    assert!(home.children().is_empty());
}

#[test]
fn a_server_that_marks_some_tools_is_shown_as_two() {
    let home = Home::new();
    let server = Server::new(&home, "fs", &[reads("get"), writes("rm"), tool("silent", &json!({}))]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    assert_eq!(shim.tools().keys().collect::<Vec<_>>(), ["fs_suite"]);
    run_once(&mut shim, "fs");
    let tools = shim.tools();
    assert_eq!(tools.keys().collect::<Vec<_>>(), ["fs_suite", "fs_suite_write"]);
    assert_eq!(tools["fs_suite"]["annotations"], json!({"readOnlyHint": true, "openWorldHint": false}));
    assert!(tools["fs_suite_write"].get("annotations").is_none(), "one is silent");
    let properties = |tool: &str| -> Vec<String> {
        tools[tool]["inputSchema"]["properties"].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(properties("fs_suite"), ["action", "args", "query", "subtool"]);
    assert_eq!(properties("fs_suite_write"), ["action", "args", "subtool"]);
    ran(&call(&mut shim, "fs_suite", "get"), "get");
    ran(&call(&mut shim, "fs_suite_write", "rm"), "rm");
    ran(&call(&mut shim, "fs_suite_write", "silent"), "silent");
    is_refused(&call(&mut shim, "fs_suite", "rm"), "call it with `fs_suite_write`");
    is_refused(&call(&mut shim, "fs_suite", "silent"), "call it with `fs_suite_write`");
    is_refused(&call(&mut shim, "fs_suite_write", "get"), "call it with `fs_suite`");
    assert_eq!(server.calls(), ["get {}", "rm {}", "silent {}"]);
    // Both list all, with a mark.
    let marked = json!([
        {"name": "get", "access": "read-only", "callWith": "fs_suite"},
        {"name": "rm", "access": "destructive", "callWith": "fs_suite_write"},
        {"name": "silent", "access": "writes", "callWith": "fs_suite_write"},
    ]);
    for suite in ["fs_suite", "fs_suite_write"] {
        for more in [json!({}), json!({"args": {"verbosity": "full"}})] {
            let mut listed = introspect(&mut shim, suite, &more)["tools"].clone();
            for entry in listed.as_array_mut().unwrap() {
                let keep = ["name", "access", "callWith"];
                entry.as_object_mut().unwrap().retain(|key, _| keep.contains(&key.as_str()));
            }
            assert_eq!(listed, marked, "{suite} {more}");
        }
        let one = introspect(&mut shim, suite, &json!({"subtool": "rm"}));
        assert_eq!(one["tools"][0]["callWith"], "fs_suite_write", "{one}");
    }
    // Our own command names the server.
    let output = home.command(&["call", "fs", "rm"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(server.calls().len(), 4);
}

#[test]
fn the_config_says_whether_a_server_is_split() {
    let home = Home::new();
    let mixed = [reads("get"), writes("rm")];
    for name in ["never", "auto"] {
        Server::new(&home, name, &mixed);
    }
    Server::new(&home, "always", &[reads("get")]);
    Server::new(&home, "unmarked", &[tool("x", &json!({}))]);
    home.config(&json!({"suites": {
        "never": {"split": false}, "auto": {"split": "auto"}, "always": {"split": true}, "unmarked": {"split": true},
    }}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let names = |shim: &mut Shim| shim.tools().into_keys().collect::<Vec<_>>();
    // With `true` it does not depend on what the server says.
    let first = [
        "always_suite",
        "always_suite_write",
        "auto_suite",
        "never_suite",
        "unmarked_suite",
        "unmarked_suite_write",
    ];
    assert_eq!(names(&mut shim), first);
    is_refused(&call(&mut shim, "unmarked_suite", "x"), "call it with `unmarked_suite_write`");
    ran(&call(&mut shim, "unmarked_suite_write", "x"), "x");
    introspect(&mut shim, "always_suite", &json!({}));
    run_once(&mut shim, "auto");
    run_once(&mut shim, "never");
    let tools = shim.tools();
    assert_eq!(tools.len(), 7);
    assert_eq!(tools["unmarked_suite"]["annotations"], json!({"readOnlyHint": true}));
    assert_eq!(tools["never_suite"]["annotations"]["readOnlyHint"], false);
    ran(&call(&mut shim, "never_suite", "rm"), "rm");
    is_refused(&call(&mut shim, "auto_suite", "rm"), "call it with `auto_suite_write`");
    // What a session was shown holds for it.
    home.config(&json!({"suites": {"never": {"split": true}, "auto": {"split": false}}}));
    home.run_ok(&["reload"]);
    shim.notification(CHANGED);
    ran(&call(&mut shim, "never_suite", "rm"), "rm");
    is_refused(&call(&mut shim, "auto_suite", "rm"), "call it with `auto_suite_write`");
    ran(&call(&mut shim, "auto_suite_write", "rm"), "rm");
    assert_eq!(shim.tools().len(), 5);
    is_refused(&call(&mut shim, "never_suite", "rm"), "call it with `never_suite_write`");
    ran(&call(&mut shim, "auto_suite", "rm"), "rm");
}

#[test]
fn a_session_is_judged_by_the_list_it_was_shown() {
    let home = Home::new();
    let server = Server::new(&home, "fs", &[reads("get"), writes("rm"), tool("change", &json!({}))]);
    let daemon = home.daemon();
    let (mut deaf, mut second) = (home.shim(), home.shim());
    assert_eq!(deaf.tools().len(), 1);
    run_once(&mut second, "fs");
    assert_eq!(second.tools().len(), 2);
    second.notification(CHANGED);
    // The first host does not follow `list_changed`: it still has the one tool.
    deaf.notification(CHANGED);
    ran(&call(&mut deaf, "fs_suite", "rm"), "rm");
    is_refused(&call(&mut second, "fs_suite", "rm"), "call it with `fs_suite_write`");
    // A host that lists nothing, and one without a session, are judged by the list as it is.
    is_refused(&call(&mut home.shim(), "fs_suite", "rm"), "call it with `fs_suite_write`");
    let post = |tool: &str| {
        let params = json!({"name": tool, "arguments": {"action": "call", "subtool": "rm", "args": {}}});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        daemon.endpoint().post("/proxy", &request.to_string()).text()
    };
    is_refused(&post("fs_suite"), "call it with `fs_suite_write`");
    ran(&post("fs_suite_write"), "rm");
    // The change of the split was announced once.
    assert!(deaf.take_notifications().iter().all(|line| !line.contains(CHANGED)));
    // All tools write now: what was shown as read-only does not become one that writes.
    server.lists(&[writes("get"), writes("rm"), tool("change", &json!({}))]);
    call(&mut second, "fs_suite_write", "change");
    second.notification(CHANGED);
    is_refused(&call(&mut second, "fs_suite", "get"), "call it with `fs_suite_write`");
    ran(&call(&mut second, "fs_suite_write", "get"), "get");
    assert_eq!(second.tools().len(), 2);
    is_refused(&call(&mut second, "fs_suite", "get"), "call it with `fs_suite_write`");
    deaf.notification(CHANGED);
    deaf.request("ping", "{}");
    assert!(deaf.take_notifications().iter().all(|line| !line.contains(CHANGED)));
}

/// Of a changed definition no list is known. What its name was allowed for stays what it reaches.
#[test]
fn a_changed_definition_reaches_no_more_than_before() {
    let home = Home::new();
    let server = Server::new(&home, "fs", &[reads("get"), writes("rm")]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    run_once(&mut shim, "fs");
    drop((shim, daemon));
    server.lists(&[tool("get", &json!({})), tool("rm", &json!({}))]);
    home.child("fs", &["annotated", server.list.to_str().unwrap(), "of another version"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    is_refused(&call(&mut shim, "fs_suite", "rm"), "call it with `fs_suite_write`");
    assert_eq!(shim.tools().len(), 2);
    ran(&call(&mut shim, "fs_suite_write", "rm"), "rm");
    is_refused(&call(&mut home.shim(), "fs_suite", "rm"), "call it with `fs_suite_write`");
}

/// The next daemon judges a host by the list that an earlier one showed it.
#[test]
fn a_list_that_was_shown_holds_across_daemons() {
    let home = Home::new();
    Server::new(&home, "fs", &[reads("get"), writes("rm")]);
    let reading = Server::new(&home, "r", &[reads("get"), reads("list")]);
    let daemon = home.daemon();
    let (mut deaf, mut second) = (home.shim(), home.shim());
    assert_eq!(deaf.tools().len(), 2);
    run_once(&mut second, "fs");
    run_once(&mut second, "r");
    assert_eq!(second.tools().len(), 3);
    ran(&call(&mut deaf, "fs_suite", "rm"), "rm");
    for _ in 0..2 {
        home.run_ok(&["restart"]);
        // It never saw that there are two tools.
        ran(&call(&mut deaf, "fs_suite", "rm"), "rm");
        is_refused(&call(&mut second, "fs_suite", "rm"), "call it with `fs_suite_write`");
        ran(&call(&mut second, "fs_suite_write", "rm"), "rm");
        is_refused(&call(&mut home.shim(), "fs_suite", "rm"), "call it with `fs_suite_write`");
    }
    // The other direction: what was shown as read-only, and one tool by the user's wish since then.
    reading.lists(&[reads("get"), reads("list"), writes("rm")]);
    home.config(&json!({"suites": {"r": {"split": false}, "fs": {"split": false}}}));
    home.run_ok(&["restart"]);
    assert_eq!(kind_of(&call(&mut second, "r_suite", "rm")).as_deref(), Some("wrong_tool"));
    is_refused(&call(&mut second, "fs_suite", "rm"), "call it with `fs_suite_write`");
    // Until it lists its tools again, and the list follows the server's.
    until_true("the new list", TEST_TIMEOUT, || {
        let tools = second.tools();
        tools.len() == 2 && tools["r_suite"]["annotations"]["readOnlyHint"] != true
    });
    ran(&call(&mut second, "r_suite", "rm"), "rm");
    ran(&call(&mut second, "fs_suite", "rm"), "rm");
    drop(daemon);
}

/// A tool that was shown as read-only stays that, also for a host that does not list the tools again.
#[test]
fn what_is_added_does_not_slip_into_a_read_only_tool() {
    let home = Home::new();
    let server = Server::new(&home, "a", &[reads("get"), reads("change")]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    run_once(&mut shim, "a");
    assert_eq!(shim.tools()["a_suite"]["annotations"]["readOnlyHint"], true);
    shim.notification(CHANGED);
    server.lists(&[reads("get"), reads("change"), writes("rm")]);
    call(&mut shim, "a_suite", "change");
    shim.notification(CHANGED);
    is_refused(&call(&mut shim, "a_suite", "rm"), "call it with `a_suite_write`");
    ran(&call(&mut shim, "a_suite_write", "rm"), "rm");
}

/// A server cannot move a tool to what is already allowed by saying that it only reads.
#[test]
fn a_tool_that_turns_read_only_stays_where_it_was() {
    let home = Home::new();
    let server = Server::new(&home, "a", &[reads("get"), writes("rm"), writes("change")]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    run_once(&mut shim, "a");
    shim.tools();
    server.lists(&[reads("get"), reads("rm"), writes("change"), reads("new")]);
    call(&mut shim, "a_suite_write", "change");
    until_true("the new list", TEST_TIMEOUT, || {
        introspect(&mut shim, "a_suite", &json!({}))["tools"].as_array().unwrap().len() == 4
    });
    is_refused(&call(&mut shim, "a_suite", "rm"), "call it with `a_suite_write`");
    ran(&call(&mut shim, "a_suite_write", "rm"), "rm");
    // A new tool says so itself, too: a person accepts it first.
    is_refused(&call(&mut shim, "a_suite", "new"), "call it with `a_suite_write`");
    ran(&call(&mut shim, "a_suite_write", "new"), "new");
    assert_eq!(introspect(&mut shim, "a_suite", &json!({"subtool": "rm"}))["tools"][0]["access"], "writes");
    // Nor between two starts.
    server.lists(&[reads("get"), writes("rm")]);
    home.run_ok(&["restart", "a"]);
    ran(&call(&mut shim, "a_suite", "get"), "get");
    until_true("the manifest", TEST_TIMEOUT, || {
        introspect(&mut shim, "a_suite", &json!({}))["tools"].as_array().unwrap().len() == 2
    });
    drop(daemon);
    server.lists(&[reads("get"), reads("rm")]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    assert_eq!(shim.tools().len(), 2);
    is_refused(&call(&mut shim, "a_suite", "rm"), "call it with `a_suite_write`");
    assert_eq!(shim.tools().len(), 2);
}

/// A host's user may have allowed the read-only tool for good: it stays read-only until the user accepts that the
/// server says less.
#[test]
fn a_server_that_says_less_stays_split_until_the_user_accepts_it() {
    let silent = |name: &str| tool(name, &json!({}));
    for (before, after) in [
        (vec![reads("get"), writes("rm")], vec![silent("get"), silent("rm")]),
        (vec![reads("get"), writes("rm")], vec![writes("rm")]),
        (vec![reads("get"), reads("rm")], vec![silent("get"), silent("rm")]),
        (vec![reads("get"), reads("rm")], vec![silent("rm")]),
    ] {
        let home = Home::new();
        let server = Server::new(&home, "fs", &before);
        let daemon = home.daemon();
        let mut shim = home.shim();
        run_once(&mut shim, "fs");
        assert_eq!(shim.tools()["fs_suite"]["annotations"]["readOnlyHint"], true);
        server.lists(&after);
        home.run_ok(&["restart", "fs"]);
        // Whoever still has the old list, and whoever lists nothing.
        is_refused(&call(&mut shim, "fs_suite", "rm"), "call it with `fs_suite_write`");
        until_true("the new list", TEST_TIMEOUT, || daemon.suite("fs")["drift"].is_object());
        let stays = |shim: &mut Shim| {
            // The list is made aside. Until then, calls are refused all the same.
            until_true("two tools", TEST_TIMEOUT, || shim.tools().len() == 2);
            let tools = shim.tools();
            assert_eq!(tools.keys().collect::<Vec<_>>(), ["fs_suite", "fs_suite_write"], "{after:?}");
            assert_eq!(tools["fs_suite"]["annotations"]["readOnlyHint"], true);
            is_refused(&call(shim, "fs_suite", "rm"), "call it with `fs_suite_write`");
            ran(&call(shim, "fs_suite_write", "rm"), "rm");
        };
        is_refused(&call(&mut home.shim(), "fs_suite", "rm"), "call it with `fs_suite_write`");
        stays(&mut home.shim());
        until_true("the split to be kept", TEST_TIMEOUT, || {
            daemon.suite("fs")["drift"]["keepsSplit"] == true
        });
        let status = String::from_utf8(home.command(&["status"]).stdout).unwrap();
        assert!(status.contains("stays two tools until then"), "{status}");
        assert!(daemon.log().contains("what was shown as read-only does not write until then"));
        // In the next daemon, too.
        drop((shim, daemon));
        let _daemon = home.daemon();
        stays(&mut home.shim());
        let screen = Terminal::start(&home, &home.workspace(), &["allow", "fs"], &[]).answer_all("y\n");
        assert_eq!(screen.code, Some(0), "{}", screen.text);
        let mut shim = home.shim();
        until_true("one tool", TEST_TIMEOUT, || shim.tools().len() == 1);
        assert_ne!(shim.tools()["fs_suite"]["annotations"]["readOnlyHint"], true);
        ran(&call(&mut shim, "fs_suite", "rm"), "rm");
    }
}

#[test]
fn both_eras_and_every_face_agree() {
    let home = Home::new();
    let server = Server::new(&home, "fs", &[reads("get"), writes("rm")]);
    let _daemon = home.daemon();
    let mut shim = home.raw_shim();
    let ask = |shim: &mut Shim, method: &str, params: &Value| -> Value {
        serde_json::from_str(&shim.request(method, &with_meta(params).to_string())).unwrap()
    };
    let params = |tool: &str, subtool: &str| json!({"name": tool, "arguments": {"action": "call", "subtool": subtool, "args": {}}});
    let count =
        |shim: &mut Shim| ask(shim, "tools/list", &json!({}))["result"]["tools"].as_array().unwrap().len();
    assert_eq!(count(&mut shim), 1);
    let called = ask(&mut shim, "tools/call", &params("fs_suite", "rm"));
    assert_eq!(called["result"]["structuredContent"]["name"], "rm", "{called}");
    until_true("the split", TEST_TIMEOUT, || count(&mut shim) == 2);
    let refused = ask(&mut shim, "tools/call", &params("fs_suite", "rm"));
    assert_eq!(refused["result"]["_meta"]["switchboard"]["kind"], "wrong_tool", "{refused}");
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    let called = ask(&mut shim, "tools/call", &params("fs_suite_write", "rm"));
    assert_eq!(called["result"]["structuredContent"]["name"], "rm", "{called}");
    // The face of one server shows its own tools.
    let mut one = home.shim_of("fs");
    one.initialize();
    assert_eq!(one.tools().into_keys().collect::<Vec<_>>(), ["get", "rm"]);
    ran(&one.request("tools/call", r#"{"name":"rm","arguments":{}}"#), "rm");
    assert_eq!(server.calls().len(), 3);
}

#[test]
fn names_do_not_clash() {
    let home = Home::new();
    Server::new(&home, "a", &[reads("get"), writes("rm")]);
    Server::new(&home, "b", &[reads("get")]);
    let long = "x".repeat(48);
    Server::new(&home, "c", &[reads("get"), writes("rm")]);
    home.config(
        &json!({"suites": {"b": {"suiteName": "a_suite_write"}, "c": {"suiteName": long, "split": true}}}),
    );
    let _daemon = home.daemon();
    let mut shim = home.shim();
    run_once(&mut shim, "a");
    let tools = shim.tools();
    assert_eq!(tools.len(), 5, "{tools:?}");
    assert!(tools.keys().all(|name| name.len() <= 48), "{tools:?}");
    let other = tools.keys().find(|name| name.starts_with("a_suite_") && *name != "a_suite_write").unwrap();
    ran(&call(&mut shim, other, "rm"), "rm");
    ran(&call(&mut shim, "a_suite_write", "get"), "get");
    is_refused(&call(&mut shim, "a_suite", "rm"), &format!("call it with `{other}`"));
}

/// A held server is one tool with a fixed text, whatever the workspace's settings say.
#[test]
fn a_held_server_is_one_tool() {
    let home = Home::new();
    let project = home.project("work");
    project.child("k", &[]);
    std::fs::write(project.path().join("switchboard.config.json"), r#"{"suites":{"k":{"split":true}}}"#)
        .unwrap();
    let _daemon = home.daemon();
    let tools = project.mute_shim().tools();
    assert_eq!(tools.keys().collect::<Vec<_>>(), ["k_suite"]);
    assert!(tools["k_suite"].get("annotations").is_none());
}

#[test]
fn the_first_calls_of_a_new_server_are_judged_by_its_list() {
    for split in [json!(true), json!("auto")] {
        let home = Home::new();
        let server = Server::new(&home, "k", &[reads("get"), writes("put")]);
        home.config(&json!({"suites": {"k": {"split": split}}}));
        let _daemon = home.daemon();
        let mut shim = home.shim();
        ran(&call(&mut shim, "k_suite", "get"), "get");
        assert_eq!(server.calls(), ["get {}"]);
    }
    let home = Home::new();
    let _server = Server::new(&home, "k", &[reads("get"), writes("put")]);
    home.config(&json!({"suites": {"k": {"split": true}}}));
    let _daemon = home.daemon();
    let shown = introspect(&mut home.shim(), "k_suite", &json!({"args": {"verbosity": "full"}}));
    let right = |at: usize| shown["tools"][at]["callWith"].as_str().unwrap_or_else(|| panic!("{shown}"));
    assert_eq!((right(0), right(1)), ("k_suite", "k_suite_write"));
}
