//! Nothing is lost between host and child, in either era: compares the bytes of results, errors and
//! notifications.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use proto_tests::Home;
use proto_tests::streamable::{HttpHost, ModernHost};
use serde_json::{Value, json};

const ODD: &str =
    r#""z": 1.0,"big":123456789012345678901234567890,"a":{"y":-0.0,"x":[ 1.50e+3 ]},"é\/\u00e9":null"#;
const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;

/// A child of the given era that answers `tools/call` with exactly these lines; `ID` stands for the call's
/// id.
fn home(modern: bool, said: &[&str]) -> Home {
    home_with(modern, "tools/call", said)
}

/// Like `home`, for any method.
fn home_with(modern: bool, method: &str, said: &[&str]) -> Home {
    let home = Home::new();
    let discovered = if modern {
        r#""result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"private"}"#
    } else {
        r#""error":{"code":-32601,"message":"no"}"#
    };
    let hello = r#""result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#;
    let list = r#""result":{"tools":[{"name":"t"}]}"#;
    let says = |body: &str| format!(r#"printf '{{"jsonrpc":"2.0","id":%s,%s}}\n' "$id" '{body}'"#);
    let lines: Vec<String> =
        said.iter().map(|line| format!(r#"printf '%s\n' '{line}' | sed "s/ID/$id/""#)).collect();
    let script = format!(
        r#"while read -r line; do id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p'); case "$line" in *'"{method}"'*) {};; *server/discover*) {};; *'"initialize"'*) {};; *tools/list*) {};; *'"id"'*) {};; esac; done"#,
        lines.join("; "),
        says(discovered),
        says(hello),
        says(list),
        says(r#""result":{}"#),
    );
    let entry = home.entry("/bin/sh".as_ref(), &["-c", &script], &[]);
    home.definition("era", &json!({"mcpServers": {"era": entry}}).to_string());
    home
}

/// Checks what a host hears if the child says `said`, over the shim and over `/proxy/{child}`.
#[track_caller]
fn check(modern_host: bool, modern_child: bool, said: &str, heard: &str) {
    let home = home(modern_child, &[said]);
    let daemon = home.daemon();
    let meta = if modern_host { format!(r#","_meta":{{{META}}}"#) } else { String::new() };
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":"h","method":"tools/call","params":{{"name":"t","arguments":{{}}{meta}}}}}"#
    );
    assert_eq!(daemon.endpoint().post("/proxy/era", &body).text(), heard);
    let mut shim = if modern_host { home.raw_shim() } else { home.shim() };
    let call = r#"{"action":"call","subtool":"t","args":{}}"#;
    shim.send(&format!(
        r#"{{"jsonrpc":"2.0","id":"h","method":"tools/call","params":{{"name":"era_suite","arguments":{call}{meta}}}}}"#
    ));
    let suite = shim.answer_to("\"h\"");
    // In a suite, Switchboard's server info replaces the child's.
    let server = r#"{"name":"switchboard","title":"Switchboard","version":"0.1.0"}"#;
    let sorted = suite.replace(server, r#"{"name":"s","version":"1"}"#);
    assert_eq!(sorted, heard);
}

#[test]
fn results_pass_unchanged_within_one_era() {
    let legacy = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0", {ODD},"id":{id},"result":{{"content":[],{ODD},"_meta":{{"x/y":1.0}}}}}}"#
        )
    };
    check(false, false, &legacy("ID"), &legacy("\"h\""));
    let modern = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0", {ODD},"id":{id},"result":{{"resultType":"complete","content":[],{ODD},"_meta":{{"x/y":1.0}}}}}}"#
        )
    };
    check(true, true, &modern("ID"), &modern("\"h\""));
}

#[test]
fn results_cross_eras_with_everything_that_is_not_era_specific() {
    check(
        false,
        true,
        &format!(
            r#"{{"jsonrpc":"2.0","id":ID,"result":{{"resultType":"complete","content":[],{ODD},"_meta":{{"x/y":1.0,"io.modelcontextprotocol/serverInfo":{{}}}}}}}}"#
        ),
        &format!(r#"{{"jsonrpc":"2.0","id":"h","result":{{"content":[],{ODD},"_meta":{{"x/y":1.0}}}}}}"#),
    );
    check(
        true,
        false,
        &format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"content":[],{ODD}}}}}"#),
        &format!(
            r#"{{"jsonrpc":"2.0","id":"h","result":{{"content":[],{ODD},"resultType":"complete","_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"s","version":"1"}}}}}}}}"#
        ),
    );
}

#[test]
fn errors_pass_between_all_eras() {
    let error = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32050,"message":"own","data":{{{ODD}}},"more":1.0}}}}"#
        )
    };
    for (modern_host, modern_child) in [(false, false), (false, true), (true, false), (true, true)] {
        check(modern_host, modern_child, &error("ID"), &error("\"h\""));
    }
    let missing = |id: &str, code: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"gone","data":{{{ODD}}}}}}}"#
        )
    };
    check(true, false, &missing("ID", "-32002"), &missing("\"h\"", "-32602"));
    check(false, false, &missing("ID", "-32002"), &missing("\"h\"", "-32002"));
}

#[test]
fn progress_passes_between_all_eras_except_for_its_token() {
    let progress = |token: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1.50,{ODD}}}}}"#
        )
    };
    for (modern_host, modern_child) in [(false, false), (false, true), (true, false), (true, true)] {
        let home =
            home(modern_child, &[&progress("ID"), r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}"#]);
        let _daemon = home.daemon();
        let mut shim = if modern_host { home.raw_shim() } else { home.shim() };
        let meta = if modern_host { format!(r#",{META}"#) } else { String::new() };
        let call = r#"{"action":"call","subtool":"t","args":{}}"#;
        shim.send(&format!(
            r#"{{"jsonrpc":"2.0","id":"h","method":"tools/call","params":{{"name":"era_suite","arguments":{call},"_meta":{{"progressToken":"own"{meta}}}}}}}"#
        ));
        shim.answer_to("\"h\"");
        assert_eq!(shim.take_notifications_of_calls(), [progress("\"own\"")], "{modern_host} {modern_child}");
    }
}

/// Sends a request to one child over `/proxy`, `/mcp` and the shim: each host must hear exactly what the
/// child says.
#[track_caller]
fn passes(modern: bool, method: &str, params: &str, said: impl Fn(&str) -> String) {
    let meta = if modern { format!(r#""_meta":{{{META}}}"#) } else { String::new() };
    let all: Vec<&str> = [params, &meta].into_iter().filter(|part| !part.is_empty()).collect();
    let params = format!("{{{}}}", all.join(","));
    let body = format!(r#"{{"jsonrpc":"2.0","id":"h","method":"{method}","params":{params}}}"#);
    let parsed: Value = serde_json::from_str(&params).unwrap();

    let home = home_with(modern, method, &[&said("ID")]);
    let daemon = home.daemon();
    assert_eq!(daemon.endpoint().post("/proxy/era", &body).text(), said("\"h\""), "/proxy {method}");
    let request = if modern {
        ModernHost::new(daemon.endpoint(), "/mcp/era").message(&json!("h"), method, &parsed)
    } else {
        HttpHost::open(daemon.endpoint(), "/mcp/era", "2025-11-25", &json!({}))
            .message("POST")
            .body(body.clone())
    };
    assert_eq!(daemon.endpoint().send(&request).text(), said("\"h\""), "/mcp {method}");
    let mut shim = home.shim_of("era");
    shim.send(&body);
    assert_eq!(shim.answer_to("\"h\""), said("\"h\""), "shim {method}");
}

#[test]
fn lists_resources_and_prompts_of_one_child_pass_unchanged() {
    for modern in [false, true] {
        let kind = if modern { r#""resultType":"complete","ttlMs":5,"cacheScope":"public","# } else { "" };
        let result = |member: &'static str| {
            move |id: &str| {
                format!(
                    r#"{{"jsonrpc":"2.0", {ODD},"id":{id},"result":{{{kind}"{member}":[{{"name":"n","uri":"u:1",{ODD}}}],{ODD},"_meta":{{"x/y":1.0}}}}}}"#
                )
            }
        };
        passes(modern, "tools/list", "", result("tools"));
        passes(modern, "resources/list", "", result("resources"));
        passes(modern, "resources/templates/list", "", result("resourceTemplates"));
        passes(modern, "prompts/list", "", result("prompts"));
        passes(modern, "resources/read", r#""uri":"u:1""#, result("contents"));
        passes(modern, "prompts/get", r#""name":"n""#, result("messages"));
        // Methods that Switchboard does not know.
        passes(modern, "x/unknown", r#""z": 1.0"#, result("x"));
        passes(modern, "tasks/get", r#""taskId":"t""#, result("x"));
    }
}

#[test]
fn log_messages_and_updates_pass_unchanged() {
    let log = format!(
        r#"{{"jsonrpc":"2.0", {ODD},"method":"notifications/message","params":{{"level":"error","data":{{{ODD}}},{ODD}}}}}"#
    );
    let update = format!(
        r#"{{"jsonrpc":"2.0", {ODD},"method":"notifications/resources/updated","params":{{{ODD},"uri":"u:1"}}}}"#
    );
    let home = home_with(false, "x/speak", &[&log, &update, r#"{"jsonrpc":"2.0","id":ID,"result":{}}"#]);
    let _daemon = home.daemon();
    let mut shim = home.shim_of("era");
    shim.initialize();
    shim.request("resources/subscribe", r#"{"uri":"u:1"}"#);
    shim.request("x/speak", "{}");
    assert_eq!(shim.take_notifications_of_calls(), [log, update]);
}
