use proptest::prelude::*;

use super::*;

fn ours() -> Tree {
    let command = ("command".to_owned(), Tree::Text("/b/switchboard".to_owned()));
    Tree::Object(vec![command, ("args".to_owned(), Tree::List(Vec::new()))])
}

/// Checks the inserted text, and that removing the entry restores the original.
#[track_caller]
fn check(before: &str, after: &str) {
    let (found, depth) = insert(before, &["mcpServers"], KEY, &ours()).unwrap();
    assert_eq!(found, after);
    let back = remove(&found, &["mcpServers"], KEY, depth).unwrap().unwrap();
    assert_eq!(back, before);
}

#[test]
fn an_entry_is_laid_out_like_its_neighbours() {
    check(
        "{\n    \"mcpServers\": {\n        \"a\": { \"command\": \"x\" }\n    }\n}\n",
        "{\n    \"mcpServers\": {\n        \"a\": { \"command\": \"x\" },\n        \"switchboard\": {\n            \"command\": \"/b/switchboard\",\n            \"args\": []\n        }\n    }\n}\n",
    );
    check(
        "{\r\n\t// mine\r\n\t\"theme\": \"dark\", // last\r\n}",
        "{\r\n\t// mine\r\n\t\"theme\": \"dark\", // last\r\n\t\"mcpServers\": {\r\n\t\t\"switchboard\": {\r\n\t\t\t\"command\": \"/b/switchboard\",\r\n\t\t\t\"args\": []\r\n\t\t}\r\n\t},\r\n}",
    );
    check(
        r#"{"a":1,"mcpServers":{"b":{"command":"x"}}}"#,
        r#"{"a":1,"mcpServers":{"b":{"command":"x"},"switchboard":{"command":"/b/switchboard","args":[]}}}"#,
    );
    check(
        "{}",
        "{\n  \"mcpServers\": {\n    \"switchboard\": {\n      \"command\": \"/b/switchboard\",\n      \"args\": []\n    }\n  }\n}",
    );
    check(
        "{\n  \"mcpServers\": {},\n  \"z\": 1\n}\n",
        "{\n  \"mcpServers\": {\n    \"switchboard\": {\n      \"command\": \"/b/switchboard\",\n      \"args\": []\n    }\n  },\n  \"z\": 1\n}\n",
    );
    check(
        "{\n  \"a\": 1 // no comma\n}\n",
        "{\n  \"a\": 1, // no comma\n  \"mcpServers\": {\n    \"switchboard\": {\n      \"command\": \"/b/switchboard\",\n      \"args\": []\n    }\n  }\n}\n",
    );
}

#[test]
fn an_empty_file_becomes_a_whole_one() {
    let (made, depth) = insert("", &["mcp"], KEY, &ours()).unwrap();
    assert_eq!((root(&made).unwrap().is_some(), depth), (true, 0));
    assert!(made.ends_with("}\n"));
    assert_eq!(remove(&made, &["mcp"], KEY, 0).unwrap().unwrap(), "{}\n");
    let (made, _) = insert("// nothing yet", &["mcp"], KEY, &ours()).unwrap();
    assert!(made.starts_with("// nothing yet\n{"), "{made}");
}

#[test]
fn removing_a_middle_member_keeps_its_neighbours() {
    let text = "{ \"mcpServers\": {\n  \"a\": 1, // a\n  \"switchboard\": {}, // ours\n  \"b\": 2\n} }";
    let rest = remove(text, &["mcpServers"], KEY, 1).unwrap().unwrap();
    assert_eq!(rest, "{ \"mcpServers\": {\n  \"a\": 1, // a // ours\n  \"b\": 2\n} }");
    let rest =
        remove(r#"{"mcpServers": {"switchboard": {}, "b": 2}}"#, &["mcpServers"], KEY, 0).unwrap().unwrap();
    assert_eq!(rest, r#"{"mcpServers": {"b": 2}}"#);
    assert_eq!(remove("{}", &["mcpServers"], KEY, 0), Ok(None));
}

#[test]
fn a_refusal_has_a_position() {
    for (text, at, why) in [
        ("{\n  \"a\": tru\n}", Some((2, 8)), "not valid JSON"),
        ("[]", Some((1, 1)), "must be a JSON object"),
        ("{\"mcpServers\": []}", Some((1, 2)), "`mcpServers` must be an object"),
        ("{\"mcpServers\": {},\n\"mcpServers\": {}}", Some((2, 1)), "appears twice"),
    ] {
        let refusal = insert(text, &["mcpServers"], KEY, &ours()).unwrap_err();
        assert!(refusal.at == at && refusal.why.contains(why), "{text}: {refusal:?}");
    }
}

#[test]
fn only_the_path_is_changed_when_the_shim_moves() {
    let text = "{\"mcpServers\": {\"switchboard\": {\"env\": {}, \"command\": \"/old\" /* here */}}}";
    let moved = set_command(text, "mcpServers", "/new").unwrap().unwrap();
    assert_eq!(moved, text.replace("/old", "/new"));
    let text = r#"{"mcp": {"switchboard": {"command": ["/old", "--workspace", "w"]}}}"#;
    assert_eq!(set_command(text, "mcp", "/new").unwrap().unwrap(), text.replace("/old", "/new"));
    assert_eq!(set_command("{}", "mcp", "/new"), Ok(None));
}

/// JSON as people and hosts write it: comments, trailing commas, any layout.
fn documents() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("1".to_owned()),
        Just("true".to_owned()),
        Just("\"a, // } \\\" b\"".to_owned()),
        Just("[1, /* { */ 2]".to_owned()),
        Just("{}".to_owned()),
    ];
    let blank = prop_oneof![
        Just(String::new()),
        Just(" ".to_owned()),
        Just("\n".to_owned()),
        Just("\r\n\t".to_owned()),
        Just(" // } , {\n  ".to_owned()),
        Just(" /* , \" */ ".to_owned()),
    ];
    let value = leaf.prop_recursive(3, 24, 4, move |inner| {
        let member = ("[a-f]{1,3}", inner, blank.clone(), blank.clone());
        (prop::collection::vec(member, 1..4), any::<bool>(), blank.clone()).prop_map(
            |(members, comma, end)| {
                let count = members.len();
                let members = members.into_iter().enumerate().map(|(at, (name, value, before, behind))| {
                    let comma = if at + 1 < count || comma { "," } else { "" };
                    format!("{before}\"{name}{at}\": {value}{behind}{comma}")
                });
                format!("{{{}{end}}}", members.collect::<String>())
            },
        )
    });
    let servers = prop_oneof![Just(false), Just(true)];
    (value, servers, any::<bool>()).prop_map(|(value, servers, newline)| {
        let end = if newline { "\n" } else { "" };
        match servers {
            true if value.starts_with('{') => format!("{{\n  \"x\": 1,\n  \"mcpServers\": {value}\n}}{end}"),
            _ if value.starts_with('{') => format!("{value}{end}"),
            _ => format!("{{\"y\": {value}}}{end}"),
        }
    })
}

proptest! {
    #[test]
    fn inserting_and_removing_restores_the_text(text in documents()) {
        let whole = root(&text).unwrap().unwrap();
        let names: Vec<_> = whole.properties.iter().map(|property| property.name.as_str().to_owned()).collect();
        let (after, depth) = insert(&text, &["mcpServers"], KEY, &ours()).unwrap();
        let contents = super::super::read(&after, "mcpServers", false).unwrap();
        prop_assert_eq!(contents.entries.iter().filter(|entry| entry.name == KEY).count(), 1);
        let again = root(&after).unwrap().unwrap();
        for name in names {
            prop_assert!(again.properties.iter().any(|property| property.name.as_str() == name));
        }
        prop_assert_eq!(remove(&after, &["mcpServers"], KEY, depth).unwrap().unwrap(), text);
    }
}
