//! How a model finds the right subtool: long lists, queries, refusals that help, and calls that are nearly right.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use proto_tests::TEST_TIMEOUT;
use proto_tests::bins::bins;
use proto_tests::home::Home;
use proto_tests::shim::Shim;
use proto_tests::wait::until_true;
use serde_json::{Value, json};

/// The text and whether it is an error, of one use of a suite.
fn used(shim: &mut Shim, suite: &str, arguments: &Value) -> (String, bool) {
    let answer = shim.request("tools/call", &json!({"name": suite, "arguments": arguments}).to_string());
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    (text, answer["result"]["isError"] == true)
}

#[test]
fn a_list_beyond_the_bound_is_compact_and_one_definition_is_whole() {
    let home = Home::new();
    home.child("k", &["echo"]);
    home.config(&json!({"introspection": {"maxBytes": 1000}}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let (all, _) = used(&mut shim, "k_suite", &json!({"action": "introspect"}));
    assert!(all.len() <= 1000 && all.starts_with("Left out: descriptions of arguments"), "{all}");
    assert!(all.contains("\nstrict(need: string, …1 optional)"), "{all}");
    let (one, _) = used(&mut shim, "k_suite", &json!({"action": "introspect", "subtool": "strict"}));
    let one: Value = serde_json::from_str(&one).unwrap();
    assert_eq!(one["tools"][0]["inputSchema"]["additionalProperties"], false);
    let full = json!({"action": "introspect", "args": {"verbosity": "full"}});
    let full: Value = serde_json::from_str(&used(&mut shim, "k_suite", &full).0).unwrap();
    for tool in full["tools"].as_array().unwrap() {
        assert!(all.contains(&format!("\n{}", tool["name"].as_str().unwrap())), "{tool}: {all}");
    }
}

#[test]
fn calls_that_can_be_read_in_one_way_run() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    for (arguments, received) in [
        (r#"{"subtool":"echo","args":{"z":1.50,"a":2}}"#, r#"{"z":1.50,"a":2}"#),
        (r#"{"action":"call","subtool":"echo","args":"{\"z\":1.50,\"a\":2}"}"#, r#"{"z":1.50,"a":2}"#),
        (r#"{"action":"call","subtool":"echo","z":1.50,"a":2}"#, r#"{"z":1.50,"a":2}"#),
        (r#"{"subtool":"echo","z":1.50}"#, r#"{"z":1.50}"#),
        (r#"{"subtool":"echo","args":{"z":1},"beside":2}"#, r#"{"z":1}"#),
        (r#"{"action":"call","subtool":"echo","args":""}"#, "{}"),
        (r#"{"action":"call","subtool":"echo","args":{"deep":"{\"a\":1}"}}"#, r#"{"deep":"{\"a\":1}"}"#),
        // `query` belongs to `introspect`, unless the subtool has an argument of that name.
        (r#"{"subtool":"echo","z":1.50,"query":"x"}"#, r#"{"z":1.50}"#),
        (r#"{"subtool":"echo","query":null,"z":1}"#, r#"{"z":1}"#),
    ] {
        let answer = shim.request("tools/call", &format!(r#"{{"name":"k_suite","arguments":{arguments}}}"#));
        assert!(answer.contains(&format!(r#""args":{received}"#)), "{arguments}: {answer}");
    }
    for wrong in [json!("[1]"), json!("{"), json!([1]), json!(7)] {
        let (text, is_error) = used(&mut shim, "k_suite", &json!({"subtool": "echo", "args": wrong}));
        assert!(is_error && text.contains("`args` must be an object"), "{wrong}: {text}");
    }
}

#[test]
fn a_flat_query_is_an_argument_where_the_subtool_has_one() {
    let home = Home::new();
    home.definition(
        "tavily",
        &json!({"mcpServers": {"tavily": home.entry(&bins().replay_child, &["tavily"], &[])}}).to_string(),
    );
    let _daemon = home.daemon();
    let mut shim = home.shim();
    for (arguments, received) in [
        (r#"{"subtool":"tavily_search","query":"x"}"#, r#"{"query":"x"}"#),
        (
            r#"{"action":"call","subtool":"tavily_search","query":"x","max_results":3}"#,
            r#"{"query":"x","max_results":3}"#,
        ),
        (r#"{"subtool":"tavily_search","query":"x","args":{"query":"y"}}"#, r#"{"query":"y"}"#),
    ] {
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let (text, is_error) = used(&mut shim, "tavily_suite", &arguments);
        let received: Value = serde_json::from_str(received).unwrap();
        assert_eq!((text, is_error), (format!("tavily_search {received}"), false), "{arguments}");
    }
    let found = json!({"action": "introspect", "subtool": "tavily_search", "query": "x"});
    assert!(used(&mut shim, "tavily_suite", &found).0.contains(r#""tools":[{"name":"tavily_search""#));
    // Without an argument of that name nothing was given.
    let (text, is_error) = used(&mut shim, "tavily_suite", &json!({"subtool": "tavily_map", "query": "x"}));
    assert!(is_error && text.contains("missing argument `url`"), "{text}");
}

#[test]
fn a_compact_list_is_always_one_line_each_if_the_user_wants_that() {
    let home = Home::new();
    home.child("k", &["echo"]);
    home.config(&json!({"introspection": {"mode": "compact"}}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let (all, _) = used(&mut shim, "k_suite", &json!({"action": "introspect"}));
    assert!(
        all.starts_with("Left out: descriptions of arguments")
            && all.contains("\nstrict(need: string, may?: "),
        "{all}"
    );
    assert!(!all.contains("inputSchema"), "{all}");
    let (one, _) = used(&mut shim, "k_suite", &json!({"action": "introspect", "subtool": "strict"}));
    assert!(one.starts_with(r#"{"tools":[{"#) && one.contains("inputSchema"), "{one}");
    let full = json!({"action": "introspect", "args": {"verbosity": "full"}});
    assert!(used(&mut shim, "k_suite", &full).0.contains("inputSchema"));
}

#[test]
fn a_refusal_has_what_the_next_try_needs() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let mut refused = |arguments: Value, words: &[&str]| {
        let (text, is_error) = used(&mut shim, "k_suite", &arguments);
        assert!(is_error, "{text}");
        words.iter().for_each(|word| assert!(text.contains(word), "{word}: {text}"));
    };
    let call = |subtool: &str| json!({"action": "call", "subtool": subtool, "args": {}});
    refused(
        call("strickt"),
        &["unknown subtool `strickt`", "did you mean `strict`?", "\nstrict(need: string, may?: "],
    );
    refused(call("k_suite.strict"), &["did you mean `strict`?"]);
    refused(call("k/echo"), &["did you mean `echo`?"]);
    refused(call("show_progress_steps"), &["`progress`", "progress(steps: any)"]);
    refused(
        call("strict"),
        &["missing argument `need` (string) in `args`", "strict(need: string, may?: ", "introspect"],
    );
    refused(
        json!({"action": "strict", "args": {}}),
        &["unknown action `strict`", r#"{"action":"call","subtool":"strict""#],
    );
    refused(json!({"action": "zzz"}), &["unknown action `zzz`", "`introspect`", "`call`"]);
    refused(json!({}), &["missing `action`"]);
}

/// Whether `query` is an argument, only the tools of a running server tell. The calls after it wait all the same.
#[test]
fn calls_reach_a_server_that_starts_in_their_order() {
    let home = Home::new();
    let query = json!({"type": "object", "properties": {"query": {"type": "string"}}});
    let list = home.write("k.tools", &json!({"tools": [{"name": "look", "inputSchema": query}]}).to_string());
    let server = home.entry(&bins().evil_child, &["annotated", list.to_str().unwrap()], &[]);
    let words = [&server["command"]].into_iter().chain(server["args"].as_array().unwrap());
    let words: Vec<&str> = words.map(|word| word.as_str().unwrap()).collect();
    let slowly = json!({"mcpServers": {"k": {
        "command": "sh", "args": ["-c", format!("sleep 1; exec {}", words.join(" "))], "env": server["env"]}}});
    home.definition("k", &slowly.to_string());
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let start = |shim: &mut Shim, arguments: &Value| {
        shim.start_request("tools/call", &json!({"name": "k_suite", "arguments": arguments}).to_string())
            .to_string()
    };
    let ids = [
        start(&mut shim, &json!({"action": "call", "subtool": "look", "query": "first"})),
        start(&mut shim, &json!({"action": "call", "subtool": "look", "args": {"query": "second"}})),
        start(&mut shim, &json!({"action": "call", "subtool": "look", "query": "third", "n": 3})),
    ];
    for id in ids {
        assert!(shim.answer_to(&id).contains(r#""ok":true"#));
    }
    let calls = std::fs::read_to_string(list.with_extension("calls")).unwrap();
    let expect =
        ["look {\"query\":\"first\"}", "look {\"query\":\"second\"}", "look {\"n\":3,\"query\":\"third\"}"];
    assert_eq!(calls.lines().collect::<Vec<_>>(), expect);
}

#[test]
fn a_query_finds_mistyped_words_and_hidden_tools_stay_hidden() {
    let home = Home::new();
    home.child("k", &["echo"]);
    home.config(&json!({"suites": {"k": {"expose": {"deny": ["progress"]}}}}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let mut found =
        |query: &str| used(&mut shim, "k_suite", &json!({"action": "introspect", "query": query})).0;
    assert!(found("strikt").starts_with("1. strict - "), "{}", found("strikt"));
    for query in ["progress", "zzz", "tell the progress in steps"] {
        assert!(!found(query).contains("progress") && found(query).contains("strict"), "{}", found(query));
    }
}

#[test]
fn one_tool_searches_all_suites_and_calls_none() {
    let home = Home::new();
    home.child("one", &["echo"]);
    home.child("two", &["echo"]);
    home.config(&json!({"aggregate": {"find": true}, "suites": {"two": {"expose": {"allow": ["echo"]}}}}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let listed: Value = serde_json::from_str(&shim.request("tools/list", "{}")).unwrap();
    assert_eq!(listed["result"]["tools"][0]["name"], "find", "{listed}");
    let (before, _) = used(&mut shim, "find", &json!({"query": "tell the progress"}));
    assert!(before.contains("never ran: one_suite, two_suite"), "{before}");
    assert_eq!(listed["result"]["tools"][0]["annotations"]["readOnlyHint"], true);
    for suite in ["one_suite", "two_suite"] {
        used(&mut shim, suite, &json!({"action": "introspect"}));
    }
    let (found, _) = used(&mut shim, "find", &json!({"query": "tell the progress"}));
    assert!(found.starts_with("1. one_suite: progress(steps: any) - Tells its progress"), "{found}");
    assert!(!found.contains("two_suite: progress"), "{found}");
    let (named, _) = used(&mut shim, "find", &json!({"query": "two gives its arguments back"}));
    assert!(named.starts_with("1. two_suite: echo"), "{named}");
    let (one, _) = used(&mut shim, "find", &json!({"suite": "two"}));
    assert!(one.contains(r#"{"tools":[{"name":"echo""#), "{one}");
    let (one, _) = used(&mut shim, "find", &json!({"suite": "two_suite", "subtool": "echo"}));
    assert!(one.contains("inputSchema"), "{one}");
    for wrong in [json!({}), json!({"query": " "}), json!({"suite": "three", "subtool": "x"})] {
        assert!(used(&mut shim, "find", &wrong).1, "{wrong}");
    }
    for (typed, near) in [("two_siute", "two_suite"), ("onee", "one_suite"), ("the-two-server", "two_suite")]
    {
        let (said, _) = used(&mut shim, "find", &json!({"suite": typed, "subtool": "x"}));
        assert!(said.contains(&format!("there is no suite `{typed}`; did you mean `{near}`?")), "{said}");
    }
}

/// Hosts that read the list once reach what is added later.
#[test]
fn a_server_that_was_added_later_is_found_and_called() {
    let home = Home::new();
    home.child("one", &["echo"]);
    home.config(&json!({"aggregate": {"find": true}}));
    let _daemon = home.daemon();
    let mut shim = home.raw_shim();
    let instructions = shim.initialize()["result"]["instructions"].as_str().unwrap().to_owned();
    assert!(instructions.contains("`find` searches all suites"), "{instructions}");
    assert_eq!(shim.tools().into_keys().collect::<Vec<_>>(), ["find", "one_suite"]);
    let list = home.path().join("later.tools");
    let tool = |name: &str, reads: bool| {
        json!({"name": name, "description": format!("{name} of a job"), "inputSchema":
            {"type": "object", "properties": {"z": {"type": "integer"}}, "required": ["z"]},
            "annotations": {"readOnlyHint": reads}})
    };
    let tools = [tool("progress", true), tool("change_progress", false)];
    std::fs::write(&list, json!({"tools": tools}).to_string()).unwrap();
    home.child("later", &["annotated", list.to_str().unwrap()]);
    home.child("broken", &["exit-at-start", "1"]);
    home.run_ok(&["reload"]);
    let (found, _) = used(&mut shim, "find", &json!({"query": "tell the progress of later"}));
    assert!(found.contains("never ran: ") && found.contains("later_suite"), "{found}");
    let (said, is_error) =
        used(&mut shim, "find", &json!({"suite": "later", "subtool": "progress", "args": {"z": 1}}));
    assert!(!is_error, "{said}");
    let (found, _) = used(&mut shim, "find", &json!({"query": "tell the progress of later"}));
    // This host's list has no such tool.
    assert!(found.starts_with("1. later_suite [here]: progress(z: integer)"), "{found}");
    assert!(found.contains("\n2. later_suite [new session]: change_progress("), "{found}");
    assert!(found.contains("call them with this tool: {\"suite\":…,\"subtool\":…,\"args\":{…}}"), "{found}");
    assert!(found.contains("the user must start a new session"), "{found}");
    let (refused, _) =
        used(&mut shim, "find", &json!({"suite": "later_suite", "subtool": "progress", "args": {}}));
    let advised = r#"{"suite":"later_suite","subtool":"progress"}"#;
    assert!(refused.contains("missing argument `z` (integer) in `args`"), "{refused}");
    assert!(refused.contains(advised), "{refused}");
    let (shown, is_error) = used(&mut shim, "find", &serde_json::from_str(advised).unwrap());
    assert!(!is_error && shown.contains(r#""inputSchema""#), "{shown}");
    // What it must not call is said before what its arguments lack.
    let (refused, _) =
        used(&mut shim, "find", &json!({"suite": "later", "subtool": "change_progress", "args": {}}));
    assert!(refused.contains("may write") && refused.contains("start a new session"), "{refused}");
    assert!(!refused.contains("missing argument"), "{refused}");
    let (refused, _) = used(&mut shim, "find", &json!({"action": "introspect", "subtool": "progress"}));
    assert!(refused.contains("missing `suite`"), "{refused}");
    // A server that cannot be used says so, with the remedy.
    assert!(!found.contains("Not available"), "{found}");
    used(&mut shim, "find", &json!({"suite": "broken"}));
    let (found, _) = used(&mut shim, "find", &json!({"query": "tell the progress"}));
    assert!(
        found.contains("\nbroken_suite: Not available: it exited with status 1 when it was started; see `switchboard logs broken_suite`."),
        "{found}"
    );
}

/// A user who allows `find` allows nothing that may write.
#[test]
fn find_calls_only_what_reads_of_a_split_server() {
    let home = Home::new();
    let list = home.path().join("fs.tools");
    let tool = |name: &str, reads: bool| {
        json!({"name": name, "description": format!("{name} a page"), "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": reads}})
    };
    let tools = json!({"tools": [tool("get", true), tool("remove", false)]});
    std::fs::write(&list, tools.to_string()).unwrap();
    home.child("fs", &["annotated", list.to_str().unwrap()]);
    home.config(&json!({"aggregate": {"find": true}}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    used(&mut shim, "fs_suite", &json!({"action": "introspect"}));
    until_true("two tools", TEST_TIMEOUT, || shim.tools().len() == 3);
    let (found, _) = used(&mut shim, "find", &json!({"query": "remove a page"}));
    assert!(found.starts_with("1. fs_suite_write: remove()"), "{found}");
    for subtool in ["get", "remove"] {
        for suite in ["fs", "fs_suite", "fs_suite_write"] {
            for call in [
                json!({"suite": suite, "subtool": subtool, "args": {}}),
                json!({"suite": suite, "subtool": subtool, "args": {"id": 1}}),
                json!({"suite": suite, "subtool": subtool, "action": "call"}),
                json!({"suite": suite, "subtool": subtool, "action": ["call"]}),
            ] {
                let (said, is_error) = used(&mut shim, "find", &call);
                assert_eq!(is_error, subtool == "remove", "{call}: {said}");
                assert!(!is_error || said.contains("call it with `fs_suite_write`"), "{call}: {said}");
            }
        }
    }
    // A member twice is read in one way only.
    let twice = r#"{"name":"find","arguments":{"suite":"fs_suite_write","action":"introspect","action":"call","subtool":"remove"}}"#;
    shim.request("tools/call", twice);
    let ran = std::fs::read_to_string(list.with_extension("calls")).unwrap();
    assert!(ran.contains("get") && !ran.contains("remove"), "{ran}");
}

#[test]
fn a_suite_named_find_keeps_its_name() {
    let home = Home::new();
    home.child("k", &["echo"]);
    home.config(&json!({"aggregate": {"find": true}, "suites": {"k": {"suiteName": "find"}}}));
    let _daemon = home.daemon();
    let listed: Value = serde_json::from_str(&home.shim().request("tools/list", "{}")).unwrap();
    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["find_tool", "find"]);
}

/// One tool with an absurd schema costs no more than others.
#[test]
fn answers_about_a_huge_tool_are_short() {
    let home = Home::new();
    let list = home.path().join("huge.tools");
    let name = |n: usize| format!("argument_{n}_{}", "x".repeat(60));
    let properties: serde_json::Map<String, Value> =
        (0..20_000).map(|n| (name(n), json!({"type": "string", "description": "y".repeat(20)}))).collect();
    let required: Vec<String> = (0..20_000).map(name).collect();
    let huge = json!({"name": "huge", "inputSchema":
        {"type": "object", "properties": properties, "required": required}});
    let others = (0..3000).map(|n| json!({"name": name(n), "inputSchema": {"type": "object"}}));
    let tools: Vec<Value> = std::iter::once(huge).chain(others).collect();
    std::fs::write(&list, json!({"tools": tools}).to_string()).unwrap();
    home.child("k", &["annotated", list.to_str().unwrap()]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let (said, is_error) =
        used(&mut shim, "k_suite", &json!({"action": "call", "subtool": "huge", "args": {}}));
    assert!(is_error && said.len() < 6000 && said.contains(" and 19980 more in `args`"), "{said:.3000}");
    let (found, _) = used(&mut shim, "k_suite", &json!({"action": "introspect", "query": "huge"}));
    assert!(found.starts_with("1. huge") && found.len() < 40_000, "{} bytes", found.len());
    assert!(
        found.contains(" more; {\"action\":\"introspect\"} names all"),
        "{}",
        &found[found.len() - 200..]
    );
}
