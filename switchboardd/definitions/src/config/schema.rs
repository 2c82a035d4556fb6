//! Tests that keep `switchboard.config.schema.json`, the accepted keys, the defaults and the configuration page in
//! agreement.

use std::path::Path;

use serde_json::Value;

use super::read::{
    AGGREGATE, BUDGET, CLIENT, CONFLICTS, EXPOSE, HTTP, INTROSPECTION, OAUTH, POOL, ROOT, SUITE, TIMEOUTS,
    TRUST,
};
use super::{Config, ConfigOwner, Mode, Strategy};
use crate::document::Document;

const SCHEMA: &str = include_str!("../../../../switchboard.config.schema.json");
const PAGE: &str = include_str!("../../../../docs/configuration.md");

fn schema() -> Value {
    serde_json::from_str(SCHEMA).unwrap()
}

fn at<'s>(schema: &'s Value, path: &[&str]) -> &'s Value {
    path.iter().fold(schema, |node, name| match *name {
        "*" => &node["additionalProperties"],
        name => &node["properties"][name],
    })
}

#[test]
fn the_schema_has_exactly_the_keys_that_are_read() {
    let schema = schema();
    let id = schema["$id"].as_str().unwrap();
    assert!(PAGE.contains(&format!("\"$schema\": \"{id}\"")), "docs/configuration.md does not name {id}");
    let groups: [(&[&str], &[&str]); 14] = [
        (&[], &ROOT),
        (&["suites", "*"], &SUITE),
        (&["suites", "*", "expose"], &EXPOSE),
        (&["suites", "*", "timeouts"], &TIMEOUTS),
        (&["suites", "*", "pool"], &POOL),
        (&["budget"], &BUDGET),
        (&["timeouts"], &TIMEOUTS),
        (&["introspection"], &INTROSPECTION),
        (&["conflicts"], &CONFLICTS),
        (&["http"], &HTTP),
        (&["trust"], &TRUST),
        (&["oauth"], &OAUTH),
        (&["aggregate"], &AGGREGATE),
        (&["oauth", "clients", "*"], &CLIENT),
    ];
    for (path, keys) in groups {
        let object = at(&schema, path);
        let mut described: Vec<&str> =
            object["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        let mut read = keys.to_vec();
        described.sort_unstable();
        read.sort_unstable();
        assert_eq!(described, read, "{path:?}");
        if path.last() != Some(&"*") {
            assert_eq!(object["additionalProperties"], false, "{path:?}");
        }
    }
    assert_eq!(at(&schema, &["suites", "*"])["additionalProperties"], false);
}

#[test]
fn the_schemas_defaults_are_the_defaults() {
    let schema = schema();
    let config = Config::defaults(Path::new("/"));
    let mode = match config.introspection.mode {
        Mode::Summary => "summary",
        Mode::Compact => "compact",
        Mode::Full => "full",
        Mode::Redacted => "redacted",
    };
    let expect: [(&[&str], Value); 21] = [
        (&["discoverGlobs"], config.discover_globs.into()),
        (&["projectFiles"], config.project_files.into()),
        (&["timeouts", "childSpawnMs"], config.timeouts.child_spawn_ms.into()),
        (&["timeouts", "rpcMs"], config.timeouts.rpc_ms.into()),
        (&["timeouts", "maxMs"], config.timeouts.max_ms.into()),
        (&["introspection", "mode"], mode.into()),
        (&["introspection", "summaryMaxChars"], config.introspection.summary_max_chars.into()),
        (&["introspection", "describe"], config.introspection.describe.as_str().into()),
        (&["introspection", "describeMaxChars"], config.introspection.describe_max_chars.into()),
        (&["introspection", "maxBytes"], config.introspection.max_bytes.into()),
        (&["conflicts", "strategy"], Strategy::default().as_str().into()),
        (&["conflicts", "order"], Value::Array(Vec::new())),
        (&["budget", "children"], config.budget.children.into()),
        (&["http", "listen"], config.http.listen.into()),
        (&["http", "openDiscovery"], config.http.open_discovery.into()),
        (&["trust", "elicit"], config.trust.elicit.into()),
        (&["aggregate", "find"], config.find.into()),
        (&["trust", "drift"], config.trust.drift.as_str().into()),
        (&["watch"], config.watch.as_str().into()),
        (&["record"], config.record.as_str().into()),
        (&["http", "allowedOrigins"], config.http.allowed_origins.into()),
    ];
    for (path, default) in expect {
        assert_eq!(at(&schema, path)["default"], default, "{path:?}");
    }
}

/// The schema's limits are the reader's: each bound is accepted, and a value beyond it is not.
#[test]
fn the_schemas_bounds_are_the_readers() {
    let schema = schema();
    let numbers: [&[&str]; 16] = [
        &["oauth", "clients", "*", "callbackPort"],
        &["budget", "children"],
        &["budget", "memoryMb"],
        &["suites", "*", "pool", "warm"],
        &["suites", "*", "pool", "max"],
        &["suites", "*", "pool", "idleMs"],
        &["timeouts", "childSpawnMs"],
        &["timeouts", "rpcMs"],
        &["timeouts", "maxMs"],
        &["introspection", "summaryMaxChars"],
        &["introspection", "describeMaxChars"],
        &["introspection", "maxBytes"],
        &["suites", "*", "summaryMaxChars"],
        &["suites", "*", "timeouts", "childSpawnMs"],
        &["suites", "*", "timeouts", "rpcMs"],
        &["suites", "*", "timeouts", "maxMs"],
    ];
    for path in numbers {
        let least = at(&schema, path)["minimum"].as_i64().unwrap();
        let most = at(&schema, path)["maximum"].as_i64().unwrap();
        for (value, accepted) in [(least, true), (most, true), (least - 1, false), (most + 1, false)] {
            let text = path.iter().rev().fold(value.to_string(), |inner, name| {
                format!(r#"{{"{}":{inner}}}"#, if *name == "*" { "some-child" } else { name })
            });
            let document = Document::from_text(Path::new("c.json"), &text);
            assert_eq!(
                Config::parse(&document, Path::new("/"), ConfigOwner::Personal).is_ok(),
                accepted,
                "{text}"
            );
        }
    }
}

/// Documents that a schema validator and the reader once judged differently. What JSON Schema cannot express stays
/// different: invalid globs, two suites of one name, `warm` above `max`.
#[test]
fn the_reader_judges_like_the_schema() {
    let client = |rest: &str| format!(r#"{{"oauth":{{"clients":{{"a":{{"clientSecret":"s"{rest}}}}}}}}}"#);
    let globs = format!(r#"{{"discoverGlobs":[{}"a"]}}"#, r#""a","#.repeat(64));
    let documents = [
        (r#"{"$schema":5}"#, false),
        (r#"{"$schema":"x"}"#, true),
        (r#"{"timeouts":{"rpcMs":60000.0}}"#, true),
        (r#"{"timeouts":{"rpcMs":60000.5}}"#, false),
        (r#"{"timeouts":{"rpcMs":0.0}}"#, false),
        (r#"{"discoverGlobs":["/x"]}"#, false),
        (r#"{"discoverGlobs":["../x"]}"#, false),
        (r#"{"discoverGlobs":["a/..b/x"]}"#, true),
        (&globs, false),
        (r#"{"http":{"listen":"localhost:7420"}}"#, false),
        (r#"{"http":{"listen":"10.0.0.1:1"}}"#, false),
        (r#"{"http":{"listen":"[::1]:7420"}}"#, true),
        (r#"{"http":{"listen":"off"}}"#, true),
        (r#"{"http":{"listen":"127.0.0.1:65535"}}"#, true),
        (r#"{"http":{"listen":"127.0.0.1:70000"}}"#, false),
        (r#"{"http":{"allowedOrigins":["nonsense"]}}"#, false),
        (r#"{"http":{"allowedOrigins":["http://localhost:3000/"]}}"#, false),
        (r#"{"http":{"allowedOrigins":["http://localhost:3000"]}}"#, true),
        (r#"{"trust":{"roots":["rel"]}}"#, false),
        (r#"{"projectFiles":false}"#, true),
        (r#"{"projectFiles":"no"}"#, false),
        (r#"{"suites":{"a":{"workspaces":["/w"]}}}"#, true),
        (r#"{"suites":{"a":{"workspaces":["rel"]}}}"#, false),
        (r#"{"suites":{"a":{"workspaces":"/w"}}}"#, false),
        (r#"{"oauth":{"clientIdUrl":"http://example.com/c"}}"#, false),
        (&client(""), false),
        (&client(r#","clientId":"i","issuer":"https://example.com""#), true),
        (&client(r#","clientId":"i","issuer":"http://127.0.0.1:80/t""#), true),
        (&client(r#","clientId":"i","issuer":"http://example.com""#), false),
        (&client(r#","clientId":"i","issuer":"nonsense""#), false),
    ];
    for (text, accepted) in documents {
        let document = Document::from_text(Path::new("c.json"), text);
        let read = Config::parse(&document, Path::new("/"), ConfigOwner::Personal);
        assert_eq!(read.is_ok(), accepted, "{text}: {read:?}");
    }
}

#[test]
fn the_configuration_page_explains_every_key() {
    for key in [
        &ROOT[..],
        &SUITE,
        &EXPOSE,
        &TIMEOUTS,
        &POOL,
        &BUDGET,
        &INTROSPECTION,
        &CONFLICTS,
        &HTTP,
        &TRUST,
        &OAUTH,
        &AGGREGATE,
        &CLIENT,
    ]
    .concat()
    {
        assert!(PAGE.contains(&format!("`{key}`")), "`{key}` is missing in docs/configuration.md");
    }
}
