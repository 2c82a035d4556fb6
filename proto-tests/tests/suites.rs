//! One tool per child: what hosts are shown, what introspect returns, and which calls are valid.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use proto_tests::shim::text_of;
use proto_tests::{Home, Shim};
use serde_json::{Value, json};

fn list(shim: &mut Shim) -> Vec<Value> {
    let answer: Value = serde_json::from_str(&shim.request("tools/list", "{}")).unwrap();
    answer["result"]["tools"].as_array().unwrap().clone()
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// Calls a suite with these arguments and returns the whole answer.
fn use_suite(shim: &mut Shim, suite: &str, arguments: &Value) -> String {
    shim.request("tools/call", &json!({"name": suite, "arguments": arguments}).to_string())
}

fn introspect(shim: &mut Shim, suite: &str, mut arguments: Value) -> Value {
    arguments["action"] = "introspect".into();
    let answer = use_suite(shim, suite, &arguments);
    let text = text_of(&answer);
    let parsed: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {answer}"));
    assert!(!text.contains('\n'), "not compact: {text}");
    parsed
}

/// Checks for a mistake that a model can fix: a result with `isError` and a sentence.
#[track_caller]
fn mistake(answer: &str, says: &[&str]) {
    let value: Value = serde_json::from_str(answer).unwrap();
    assert_eq!(value["result"]["isError"], true, "{answer}");
    let text = text_of(answer);
    for word in says {
        assert!(text.contains(word), "{word:?} is missing in {text:?}");
    }
}

#[test]
fn hosts_see_one_tool_per_child_and_nothing_else() {
    let home = Home::new();
    home.child("zebra", &["echo"]);
    home.child("ant", &["echo"]);
    home.servers("more", &[("bee", &["echo"]), ("cat", &["echo"])]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let tools = list(&mut shim);
    let mut sorted = names(&tools);
    sorted.sort_unstable();
    assert_eq!(sorted, ["ant_suite", "bee_suite", "cat_suite", "zebra_suite"]);
    assert_eq!(names(&tools), names(&list(&mut home.shim())), "the order is not stable");
    let zebra = tools.iter().find(|tool| tool["name"] == "zebra_suite").unwrap();
    assert_eq!(
        zebra["description"],
        "Use this tool for things that zebra does. Actions: 'introspect' | 'call'"
    );
    assert_eq!(
        zebra["inputSchema"],
        json!({
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ["introspect", "call"], "description": "find or run"},
                "subtool": {"type": "string", "description": "Its name"},
                "args": {"type": "object", "description": "Arguments", "additionalProperties": true},
                "query": {"type": "string", "description": "What to do"},
            },
            "required": ["action"],
        })
    );
    // Without a description, the name is used.
    let bee = tools.iter().find(|tool| tool["name"] == "bee_suite").unwrap();
    assert_eq!(bee["description"], "Use this tool for bee. Actions: 'introspect' | 'call'");
}

#[test]
fn overrides_rename_and_describe_a_suite() {
    let home = Home::new();
    home.child("gh", &["echo"]);
    home.config(
        &json!({"suites": {"gh": {"suiteName": "github", "description": "Ask about repositories."}}}),
    );
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let tools = list(&mut shim);
    assert_eq!(names(&tools), ["github"]);
    assert_eq!(tools[0]["description"], "Ask about repositories.");
    let answer =
        use_suite(&mut shim, "github", &json!({"action": "call", "subtool": "echo", "args": {"a": 1}}));
    assert!(answer.contains("\"ok\":true"), "{answer}");
    let unknown: Value =
        serde_json::from_str(&use_suite(&mut shim, "gh_suite", &json!({"action": "introspect"}))).unwrap();
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
}

#[test]
fn odd_names_become_valid_and_stay_distinct() {
    let home = Home::new();
    let long = "l".repeat(60);
    home.servers(
        "odd",
        &[
            ("my server!", &["echo"]),
            ("my server?", &["echo"]),
            (long.as_str(), &["echo"]),
            ("ünï", &["echo"]),
        ],
    );
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let tools = list(&mut shim);
    let mut seen = names(&tools);
    for name in &seen {
        assert!(name.len() <= 48, "{name}");
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{name}");
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 4, "{seen:?}");
    for name in seen {
        let answer = use_suite(&mut shim, name, &json!({"action": "call", "subtool": "echo", "args": {}}));
        assert!(answer.contains("\"ok\":true"), "{answer}");
    }
}

#[test]
fn introspect_returns_name_summary_and_schema() {
    let home = Home::new();
    home.child("i", &["schema-as-written"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let answer = use_suite(&mut shim, "i_suite", &json!({"action": "introspect"}));
    let schema =
        r#"{"type":"object","x-z":1.0,"x-a":123456789012345678901234567890,"properties":{"z":{},"a":{}}}"#;
    assert_eq!(
        text_of(&answer),
        format!(r#"{{"tools":[{{"name":"echo","summary":"","inputSchema":{schema}}}]}}"#)
    );
}

#[test]
fn introspection_modes_show_more_or_less() {
    let written = r#"{"zeta":1,"name":"echo","inputSchema":{"type":"object","x-z":1.0,"x-a":123456789012345678901234567890,"properties":{"z":{},"a":{}}},"alpha":2}"#;
    for (mode, expect) in [
        ("full", format!(r#"{{"tools":[{written}]}}"#)),
        ("redacted", r#"{"tools":[{"name":"echo","summary":""}]}"#.to_owned()),
    ] {
        let home = Home::new();
        home.child("i", &["schema-as-written"]);
        home.config(&json!({"introspection": {"mode": mode}}));
        let _daemon = home.daemon();
        let answer = use_suite(&mut home.shim(), "i_suite", &json!({"action": "introspect"}));
        assert_eq!(text_of(&answer), expect, "{mode}");
    }
    let home = Home::new();
    home.child("i", &["schema-as-written"]);
    let _daemon = home.daemon();
    let once = json!({"action": "introspect", "args": {"verbosity": "full"}});
    assert_eq!(
        text_of(&use_suite(&mut home.shim(), "i_suite", &once)),
        format!(r#"{{"tools":[{written}]}}"#)
    );
}

#[test]
fn redacted_mode_reveals_no_schema() {
    let home = Home::new();
    home.child("i", &["echo"]);
    home.config(&json!({"introspection": {"mode": "redacted"}}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    for asked in [
        json!({}),
        json!({"subtool": "strict"}),
        json!({"args": {"verbosity": "full"}}),
        json!({"subtool": "strict", "args": {"verbosity": "full"}}),
        json!({"query": "strict", "args": {"verbosity": "full"}}),
    ] {
        let shown = introspect(&mut shim, "i_suite", asked.clone());
        assert!(names(shown["tools"].as_array().unwrap()).contains(&"strict"), "{asked}: {shown}");
        for word in ["inputSchema", "additionalProperties", "properties"] {
            assert!(!shown.to_string().contains(word), "{asked}: {shown}");
        }
        let told = shown["hint"].as_str().is_some_and(|hint| hint.contains("no schema is shown"));
        assert_eq!(told, asked.get("subtool").is_some() || asked.get("args").is_some(), "{shown}");
    }
    let found =
        text_of(&use_suite(&mut shim, "i_suite", &json!({"action": "introspect", "query": "strict"})));
    assert!(found.starts_with("1. strict - ") && !found.contains("roperties"), "{found}");
    // The words of a schema find nothing.
    let found =
        text_of(&use_suite(&mut shim, "i_suite", &json!({"action": "introspect", "query": "stderr"})));
    assert!(!found.contains("(") && !found.contains("args:"), "{found}");
    // A validation error would reveal the schema, so the server has to check the arguments itself.
    let forwarded = shim.call("i", "strict", r#"{"extra":1}"#);
    assert!(forwarded.contains("\"ok\":true"), "{forwarded}");
    mistake(&shim.call("i", "stric", "{}"), &["`strict`"]);
    let listed = daemon.endpoint().get("/suites/i_suite/tools").json();
    assert!(names(listed["tools"].as_array().unwrap()).contains(&"strict"), "{listed}");
    let command = home.command(&["introspect", "i", "strict"]);
    let told = String::from_utf8(command.stdout).unwrap();
    assert!(told.contains("`introspection.mode` is `redacted`") && !told.contains("no arguments"), "{told}");
    let full = String::from_utf8(home.command(&["introspect", "i", "--full"]).stdout).unwrap();
    for told in [listed.to_string(), told, full] {
        assert!(!told.contains("roperties") && !told.contains("inputSchema"), "{told}");
    }
}

#[test]
fn a_subtool_or_a_query_narrows_an_introspection() {
    let home = Home::new();
    home.child("i", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let all = introspect(&mut shim, "i_suite", json!({}));
    assert!(all["tools"].as_array().unwrap().len() > 15);
    let one = introspect(&mut shim, "i_suite", json!({"subtool": "strict"}));
    assert_eq!(names(one["tools"].as_array().unwrap()), ["strict"]);
    assert_eq!(one["tools"][0]["inputSchema"]["additionalProperties"], false);
    let found = use_suite(&mut shim, "i_suite", &json!({"action": "introspect", "query": "progress"}));
    let found = text_of(&found);
    assert!(found.starts_with("1. progress - Tells its progress"), "{found}");
    for name in names(all["tools"].as_array().unwrap()) {
        assert!(found.contains(name), "{name}: {found}");
    }
    let full = json!({"query": "progress", "args": {"verbosity": "full"}});
    let full = introspect(&mut shim, "i_suite", full);
    assert_eq!(full["tools"][0]["name"], "progress");
    assert!(full["others"].as_array().unwrap().len() > 10, "{full}");
    let unknown = use_suite(&mut shim, "i_suite", &json!({"action": "introspect", "subtool": "progres"}));
    mistake(&unknown, &["progres", "`progress`"]);
}

#[test]
fn summaries_are_one_line_and_never_split_a_grapheme() {
    let family = "👨‍👩‍👧‍👦";
    let home = Home::new();
    home.child("i", &["long-words"]);
    home.child("p", &["poisoned-words"]);
    home.config(
        &json!({"introspection": {"summaryMaxChars": 20}, "suites": {"p": {"summaryMaxChars": 200}}}),
    );
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let long = introspect(&mut shim, "i_suite", json!({}));
    let summary = long["tools"][0]["summary"].as_str().unwrap();
    let families = summary.strip_suffix('…').expect("an ellipsis");
    assert!(!families.is_empty() && families.replace(family, "").is_empty(), "{summary:?}");
    let poisoned = introspect(&mut shim, "p_suite", json!({}));
    let summary = poisoned["tools"][0]["summary"].as_str().unwrap();
    assert!(!summary.contains(['\n', '\u{1b}', '\u{202e}', '\u{7}', '\u{200b}']), "{summary:?}");
}

#[test]
fn allow_and_deny_apply_to_introspect_and_call() {
    let home = Home::new();
    home.child("e", &["echo"]);
    home.config(
        &json!({"suites": {"e": {"expose": {"allow": ["echo", "s*", "count"], "deny": ["st*", "count"]}}}}),
    );
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let shown = introspect(&mut shim, "e_suite", json!({}));
    let mut shown = names(shown["tools"].as_array().unwrap());
    shown.sort_unstable();
    assert_eq!(shown, ["echo", "say", "slow"]);
    assert!(shim.call("e", "echo", "{}").contains("\"ok\":true"));
    for refused in ["strict", "count", "hang", "stderr"] {
        let sentence = format!("tool `{refused}` is not allowed by Switchboard (suite `e_suite`)");
        mistake(&shim.call("e", refused, "{}"), &[&sentence]);
    }
    // Errors do not reveal hidden subtools.
    let unknown = text_of(&shim.call("e", "coun", "{}"));
    assert!(!unknown.contains("`count`"), "{unknown}");
}

#[test]
fn wrong_use_gets_a_helpful_message() {
    let home = Home::new();
    home.child("w", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let mut used = |arguments: Value| use_suite(&mut shim, "w_suite", &arguments);
    mistake(&used(json!({})), &["action", "introspect", "call"]);
    mistake(&used(json!({"action": "run"})), &["run", "introspect", "call"]);
    mistake(&used(json!({"action": 7})), &["action"]);
    mistake(&used(json!({"action": "call"})), &["subtool"]);
    mistake(&used(json!({"action": "call", "subtool": "ecko"})), &["ecko", "`echo`", "w_suite"]);
    mistake(&used(json!({"action": "call", "subtool": "strict", "args": {}})), &["strict", "need"]);
    mistake(
        &used(json!({"action": "call", "subtool": "strict", "args": {"need": "x", "extra": 1}})),
        &["extra"],
    );
    mistake(&used(json!({"action": "call", "subtool": "strict", "args": "need"})), &["args"]);
    let fine = used(json!({"action": "call", "subtool": "strict", "args": {"need": "x", "may": "y"}}));
    assert!(fine.contains("\"ok\":true"), "{fine}");
    // Missing `args` mean no arguments.
    assert!(used(json!({"action": "call", "subtool": "echo"})).contains(r#""args":{}"#));
}

#[test]
fn validation_can_be_turned_off() {
    let home = Home::new();
    home.child("w", &["echo"]);
    home.config(&json!({"suites": {"w": {"validate": false}}}));
    let _daemon = home.daemon();
    let answer = home.shim().call("w", "strict", r#"{"extra":1}"#);
    assert!(answer.contains("\"ok\":true"), "{answer}");
}

#[test]
fn the_list_is_refetched_before_a_subtool_is_reported_unknown() {
    let home = Home::new();
    home.child("g", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    mistake(&shim.call("g", "grown", "{}"), &["grown"]);
    shim.call("g", "change", "{}");
    assert!(shim.call("g", "grown", "{}").contains("\"ok\":true"));
}

#[test]
fn unknown_tools_and_unknown_methods_are_errors() {
    let home = Home::new();
    home.child("u", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let code = |answer: String| serde_json::from_str::<Value>(&answer).unwrap()["error"]["code"].clone();
    assert_eq!(code(shim.request("tools/call", r#"{"name":"nobody_suite","arguments":{}}"#)), -32602);
    assert_eq!(code(shim.request("tools/call", "{}")), -32602);
    assert_eq!(code(shim.request("no/such/method", "{}")), -32601);
}

#[test]
fn initialize_declares_version_and_capabilities() {
    let home = Home::new();
    let _daemon = home.daemon();
    for (asked, answered) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2024-11-05"),
        ("2099-12-31", "2025-11-25"),
        ("nonsense", "2025-11-25"),
    ] {
        let mut shim = home.raw_shim();
        let params = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let answer = shim.initialize_as(&params.to_string());
        assert_eq!(answer["result"]["protocolVersion"], answered, "{answer}");
        for capability in ["tools", "logging"] {
            assert!(answer["result"]["capabilities"][capability].is_object(), "{capability}: {answer}");
        }
        assert_eq!(answer["result"]["serverInfo"]["name"], "switchboard");
        assert!(shim.request("logging/setLevel", r#"{"level":"debug"}"#).contains("\"result\""));
    }
}
