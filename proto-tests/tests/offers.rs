//! The prompts and resources that children offer, on the aggregate face: merging, routing, and notifications.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use proto_tests::streamable::HttpHost;
use proto_tests::wait::{TEST_TIMEOUT, until, until_true};
use proto_tests::{DaemonProcess, Home, bins};
use serde_json::{Value, json};

const LATEST: &str = "2025-11-25";

/// A home with the era child under these names.
fn home(children: &[&str], config: &Value) -> Home {
    let home = Home::new();
    home.config(config);
    for child in children {
        let entry = home.entry(&bins().era_child, &["--era", "legacy", "--page", "2"], &[]);
        home.definition(child, &json!({"mcpServers": {*child: entry}}).to_string());
    }
    home
}

fn host(daemon: &DaemonProcess) -> HttpHost {
    HttpHost::open(daemon.endpoint(), "/mcp", LATEST, &json!({}))
}

/// Runs a child once, so that what it offers is known.
fn wake(daemon: &DaemonProcess, host: &HttpHost, child: &str) {
    let arguments = json!({"action": "call", "subtool": "test_simple_text"});
    let answer = host.ask("tools/call", &json!({"name": format!("{child}_suite"), "arguments": arguments}));
    assert!(answer.get("result").is_some(), "{answer}");
    // Once the daemon has its lists, a session that is opened now sees them.
    until_true("the lists of the child", TEST_TIMEOUT, || {
        let listed = daemon.endpoint().post("/proxy", r#"{"jsonrpc":"2.0","id":1,"method":"prompts/list"}"#);
        listed.json()["result"]["prompts"].as_array().unwrap().len() >= 4
    });
}

fn keys(answer: &Value, list: &str, key: &str) -> Vec<String> {
    let items = answer["result"][list].as_array().unwrap_or_else(|| panic!("{answer}"));
    items.iter().map(|item| item[key].as_str().unwrap().to_owned()).collect()
}

fn prompts(host: &HttpHost) -> Vec<String> {
    keys(&host.ask("prompts/list", &json!({})), "prompts", "name")
}

fn resources(host: &HttpHost) -> Vec<String> {
    keys(&host.ask("resources/list", &json!({})), "resources", "uri")
}

#[test]
fn prompts_and_resources_of_a_single_child_keep_their_names() {
    let home = home(&["era"], &json!({}));
    let daemon = home.daemon();
    let host = host(&daemon);
    let none = host.ask("prompts/list", &json!({}));
    assert_eq!(none["result"], json!({"prompts": []}));
    assert_eq!(daemon.starts("era"), 0);
    wake(&daemon, &host, "era");

    assert!(prompts(&host).contains(&"test_simple_prompt".to_owned()));
    assert!(resources(&host).contains(&"test://static-text".to_owned()));
    let templates = host.ask("resources/templates/list", &json!({}));
    assert_eq!(keys(&templates, "resourceTemplates", "uriTemplate"), ["test://template/{id}/data"]);

    let same = |method: &str, params: Value| {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let own = daemon.endpoint().post("/proxy/era", &request.to_string());
        assert_eq!(host.ask(method, &params), own.json(), "{method}");
        own.json()
    };
    let arguments = json!({"arg1": "x", "arg2": "y"});
    same("prompts/get", json!({"name": "test_prompt_with_arguments", "arguments": arguments}));
    same("resources/read", json!({"uri": "test://static-text"}));
    same("resources/read", json!({"uri": "test://template/7/data"}));
    let about = json!({"type": "ref/prompt", "name": "test_prompt_with_arguments"});
    let completed =
        same("completion/complete", json!({"ref": about, "argument": {"name": "arg1", "value": "p"}}));
    assert!(completed["result"]["completion"].is_object(), "{completed}");

    assert_eq!(host.ask("resources/read", &json!({"uri": "test://nothing"}))["error"]["code"], -32002);
    assert_eq!(host.ask("prompts/get", &json!({"name": "nothing"}))["error"]["code"], -32602);
    for cursor in [json!("garbage"), json!("000000000000.2"), json!(7)] {
        assert_eq!(host.ask("prompts/list", &json!({"cursor": cursor}))["error"]["code"], -32602);
    }
    let welcome = HttpHost::open(daemon.endpoint(), "/mcp", LATEST, &json!({}));
    assert!(welcome.session != host.session);
}

#[test]
fn lists_start_no_child() {
    let home = home(&["era"], &json!({}));
    let daemon = home.daemon();
    wake(&daemon, &host(&daemon), "era");
    drop(daemon);
    let daemon = home.daemon();
    let host = host(&daemon);
    assert!(!prompts(&host).is_empty() && !resources(&host).is_empty());
    host.ask("resources/templates/list", &json!({}));
    assert_eq!(daemon.starts("era"), 0);
    // Reading a resource starts the child.
    assert!(host.ask("resources/read", &json!({"uri": "test://static-text"})).get("result").is_some());
    assert_eq!(daemon.starts("era"), 1);
}

#[test]
fn clashing_names_are_prefixed_by_default() {
    let home = home(&["a", "b"], &json!({}));
    let daemon = home.daemon();
    let host = host(&daemon);
    wake(&daemon, &host, "a");
    wake(&daemon, &host, "b");
    until_true("both children's prompts", TEST_TIMEOUT, || {
        prompts(&host).contains(&"b_test_simple_prompt".to_owned())
    });
    assert!(prompts(&host).contains(&"a_test_simple_prompt".to_owned()));
    assert!(!prompts(&host).contains(&"test_simple_prompt".to_owned()));
    let own = daemon.endpoint().post(
        "/proxy/b",
        r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"test_simple_prompt"}}"#,
    );
    assert_eq!(host.ask("prompts/get", &json!({"name": "b_test_simple_prompt"})), own.json());
    let uri = "switchboard://b/test://static-text";
    assert!(resources(&host).contains(&uri.to_owned()));
    let read = host.ask("resources/read", &json!({"uri": uri}));
    assert_eq!(read["result"]["contents"][0]["uri"], uri);
    let templated = host.ask("resources/read", &json!({"uri": "switchboard://a/test://template/7/data"}));
    assert!(
        templated["result"]["contents"][0]["text"].as_str().unwrap().contains("Data for ID: 7"),
        "{templated}"
    );

    // Results of the child use the prefixed name, too.
    let arguments = json!({"resourceUri": "test://static-text"});
    let prompt = host
        .ask("prompts/get", &json!({"name": "b_test_prompt_with_embedded_resource", "arguments": arguments}));
    assert!(prompt["result"]["messages"].to_string().contains(&format!("\"{uri}\"")), "{prompt}");

    // Subscriptions use the prefixed name, too.
    let mut own = host.listen();
    let watched = json!({"uri": "switchboard://b/test://watched-resource"});
    assert_eq!(host.ask("resources/subscribe", &watched)["result"], json!({}));
    for child in ["a", "b"] {
        let arguments = json!({"action": "call", "subtool": "test_update_watched_resource"});
        host.ask("tools/call", &json!({"name": format!("{child}_suite"), "arguments": arguments}));
    }
    let update = loop {
        let message = own.message();
        if message["method"] == "notifications/resources/updated" {
            break message;
        }
    };
    assert_eq!(update["params"], watched);
}

#[test]
fn with_strategy_first_the_first_child_wins() {
    let home = home(&["a", "b"], &json!({"conflicts": {"strategy": "first", "order": ["b"]}}));
    let daemon = home.daemon();
    let host = host(&daemon);
    wake(&daemon, &host, "a");
    wake(&daemon, &host, "b");
    let simple = || prompts(&host).iter().filter(|name| *name == "test_simple_prompt").count();
    assert_eq!(simple(), 1);
    let before = daemon.starts("a");
    host.ask("prompts/get", &json!({"name": "test_simple_prompt"}));
    host.ask("resources/read", &json!({"uri": "test://static-text"}));
    assert_eq!(daemon.starts("a"), before);
    assert_eq!(simple(), 1);
}

#[test]
fn with_strategy_refuse_clashes_are_left_out_and_reported() {
    let home = home(&["a", "b"], &json!({"conflicts": {"strategy": "refuse"}}));
    let daemon = home.daemon();
    let host = host(&daemon);
    wake(&daemon, &host, "a");
    let arguments = json!({"action": "call", "subtool": "test_simple_text"});
    host.ask("tools/call", &json!({"name": "b_suite", "arguments": arguments}));
    let refused = until("the clash", TEST_TIMEOUT, || {
        let listed = host.ask("prompts/list", &json!({}));
        listed["result"]["prompts"].as_array().unwrap().is_empty().then_some(listed)
    });
    let named = refused["result"]["_meta"]["switchboard/incomplete"].to_string();
    assert!(named.contains("test_simple_prompt") && named.contains("a, b"), "{refused}");
    assert_eq!(host.ask("prompts/get", &json!({"name": "test_simple_prompt"}))["error"]["code"], -32602);
}

#[test]
fn a_workspace_cannot_redirect_the_users_own_prompts_and_resources() {
    let home = Home::new();
    home.config(&json!({"conflicts": {"strategy": "first", "order": ["trusted", "other"]}}));
    let project = home.project("work");
    let journal = |child: &str| home.path().join(format!("{child}.journal"));
    let entry = |child: &str| {
        let journal = journal(child);
        let env = [("ERA_JOURNAL", journal.to_str().unwrap())];
        home.entry(&bins().era_child, &["--era", "legacy"], &env)
    };
    for child in ["trusted", "other"] {
        home.definition(child, &json!({"mcpServers": {child: entry(child)}}).to_string());
    }
    project.define("evil", &entry("evil"));
    let daemon = DaemonProcess::start(&home, &["--listen", "off", "--trust-root", home.mark()]);
    let host = HttpHost::open(daemon.endpoint(), &format!("/mcp?{}", project.named()), LATEST, &json!({}));
    for child in ["trusted", "other", "evil"] {
        wake(&daemon, &host, child);
    }
    let asked = |child: &str, method: &str| {
        let said = std::fs::read_to_string(journal(child)).unwrap_or_default();
        said.matches(&format!("\"method\":\"{method}\"")).count()
    };
    let mut rules = vec![Value::Null];
    for strategy in ["refuse", "first", "prefix"] {
        rules.push(json!({"strategy": strategy, "order": ["evil", "other", "trusted"]}));
    }
    for (round, rule) in rules.into_iter().enumerate() {
        if !rule.is_null() {
            project.config(&json!({"conflicts": rule}));
        }
        home.run_ok(&["reload"]);
        let listed = prompts(&host);
        let own = listed.iter().filter(|name| *name == "test_simple_prompt").count();
        assert_eq!(own, 1, "{rule}: {listed:?}");
        host.ask("prompts/get", &json!({"name": "test_simple_prompt"}));
        host.ask("resources/read", &json!({"uri": "test://static-text"}));
        host.ask("resources/read", &json!({"uri": "test://template/7/data"}));
        assert_eq!(asked("trusted", "prompts/get"), round + 1, "{rule}");
        assert_eq!(asked("trusted", "resources/read"), 2 * (round + 1), "{rule}");
        for other in ["other", "evil"] {
            assert_eq!((asked(other, "prompts/get"), asked(other, "resources/read")), (0, 0), "{rule}");
        }
    }
    // Its prompts get a prefix, as its workspace's config says.
    until_true("the workspace's own", TEST_TIMEOUT, || {
        prompts(&host).contains(&"evil_test_simple_prompt".to_owned())
    });
}

#[test]
fn a_failed_child_is_reported_and_the_others_are_listed() {
    let home = home(&["era"], &json!({}));
    home.definition(
        "gone",
        &json!({"mcpServers": {"gone": {"command": "/nonexistent/program"}}}).to_string(),
    );
    let daemon = home.daemon();
    let host = host(&daemon);
    wake(&daemon, &host, "era");
    let arguments = json!({"action": "call", "subtool": "x"});
    host.ask("tools/call", &json!({"name": "gone_suite", "arguments": arguments}));
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/list"});
    let messages = host.post(&request).all();
    let (response, logged) = messages.split_last().unwrap();
    assert!(response["result"]["resources"].as_array().unwrap().len() >= 3, "{response}");
    assert_eq!(response["result"]["_meta"]["switchboard/incomplete"][0]["child"], "gone");
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert_eq!(logged[0]["method"], "notifications/message");
    assert!(logged[0]["params"]["data"].as_str().unwrap().contains("`gone`"));
    // It is logged only once per session.
    assert!(host.call(&request).json().get("result").is_some());
}

#[test]
fn hosts_are_notified_of_changes_they_can_see() {
    let home = home(&["era"], &json!({}));
    let daemon = home.daemon();
    let host = host(&daemon);
    let mut own = host.listen();
    assert!(prompts(&host).is_empty());
    wake(&daemon, &host, "era");
    let mut changed = [own.message(), own.message(), own.message()]
        .map(|message| message["method"].as_str().unwrap().to_owned());
    changed.sort_unstable();
    assert_eq!(
        changed,
        [
            "notifications/prompts/list_changed",
            "notifications/resources/list_changed",
            "notifications/tools/list_changed"
        ]
    );
    let arguments = json!({"action": "call", "subtool": "test_trigger_resource_change"});
    host.ask("tools/call", &json!({"name": "era_suite", "arguments": arguments}));
    assert_eq!(own.message()["method"], "notifications/resources/list_changed");
    // Its tools are those that the suite's description names already.
    let arguments = json!({"action": "call", "subtool": "test_trigger_tool_change"});
    host.ask("tools/call", &json!({"name": "era_suite", "arguments": arguments}));
    let arguments = json!({"action": "call", "subtool": "test_trigger_prompt_change"});
    host.ask("tools/call", &json!({"name": "era_suite", "arguments": arguments}));
    assert_eq!(own.message()["method"], "notifications/prompts/list_changed");
}

#[test]
fn children_log_at_the_most_verbose_level_of_all_hosts() {
    let home = home(&["era"], &json!({}));
    let daemon = home.daemon();
    let (curious, quiet) = (host(&daemon), host(&daemon));
    wake(&daemon, &curious, "era");
    let heard = |host: &HttpHost| {
        let arguments = json!({"action": "call", "subtool": "test_logging_tool"});
        let params = json!({"name": "era_suite", "arguments": arguments});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let mut stream = host.post(&request);
        if stream.is_events() { stream.all().len() - 1 } else { 0 }
    };
    assert_eq!(heard(&curious), 2);
    assert_eq!(quiet.ask("logging/setLevel", &json!({"level": "error"}))["result"], json!({}));
    assert_eq!(curious.ask("logging/setLevel", &json!({"level": "debug"}))["result"], json!({}));
    assert_eq!((heard(&curious), heard(&quiet)), (3, 0));
    // The next process gets the level, too.
    home.run_ok(&["restart", "era"]);
    assert_eq!((heard(&curious), heard(&quiet)), (3, 0));
}

/// A host whose call changes something sees the change in the next list that it asks for.
#[test]
fn a_list_shows_what_the_call_before_it_changed() {
    let home = home(&["era"], &json!({}));
    let daemon = home.daemon();
    let host = host(&daemon);
    wake(&daemon, &host, "era");
    for changes in 1..=4 {
        let arguments = json!({"action": "call", "subtool": "test_trigger_resource_change"});
        let answer = host.ask("tools/call", &json!({"name": "era_suite", "arguments": arguments}));
        assert!(answer.get("result").is_some(), "{answer}");
        let listed = host.ask("resources/list", &json!({}));
        let wanted = format!("changes of the list so far: {changes})");
        assert!(listed.to_string().contains(&wanted), "{wanted}: {listed}");
    }
}
