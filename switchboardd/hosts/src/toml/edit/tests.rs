use super::*;

fn ours() -> Tree {
    Tree::Object(vec![
        ("command".to_owned(), Tree::Text("/b/switchboard".to_owned())),
        ("supports_parallel_tool_calls".to_owned(), Tree::Flag(true)),
    ])
}

#[track_caller]
fn round(before: &str) -> String {
    let after = insert(before, KEY, &ours()).unwrap();
    let (rest, taken) = remove(&after, KEY).unwrap().unwrap();
    assert_eq!(rest, before);
    assert!(taken.starts_with("[mcp_servers.switchboard]"), "{taken}");
    after
}

#[test]
fn a_table_is_appended_and_removed_without_a_trace() {
    assert_eq!(
        round("model = \"m\" # mine\n\n[mcp_servers.a]\ncommand = \"x\"\n"),
        "model = \"m\" # mine\n\n[mcp_servers.a]\ncommand = \"x\"\n\n[mcp_servers.switchboard]\ncommand = \"/b/switchboard\"\nsupports_parallel_tool_calls = true\n"
    );
    round("a = 1");
    round("a = 1\r\n[b]\r\nc = 2\r\n");
    round("# only a comment\n");
    round("[[x]]\ny = 1\n[mcp_servers]\n");
    assert_eq!(insert("", KEY, &ours()).unwrap().lines().next(), Some("[mcp_servers.switchboard]"));
}

#[test]
fn removing_a_server_removes_its_subtables_and_keeps_the_next_comment() {
    let text = "[mcp_servers.switchboard]\ncommand = \"/s\"\n\n[mcp_servers.switchboard.tools.x]\napproval_mode = \"auto\"\n\n# next\n[tui]\ntheme = \"t\"\n";
    let (rest, _) = remove(text, KEY).unwrap().unwrap();
    assert_eq!(rest.trim_start(), "# next\n[tui]\ntheme = \"t\"\n");
}

#[test]
fn servers_without_their_own_table_are_refused() {
    round("mcp_servers.a.command = \"x\"\n");
    for text in ["mcp_servers = { a = { command = \"x\" } }\n", "mcp_servers = 1\n"] {
        assert!(insert(text, KEY, &ours()).unwrap_err().why.contains("by hand"), "{text}");
    }
    let refusal = insert("a = \n", KEY, &ours()).unwrap_err();
    assert!(refusal.why.contains("by hand") || refusal.at == Some((1, 5)), "{refusal:?}");
    assert!(remove("mcp_servers = { switchboard = { command = \"x\" } }\n", KEY).is_err());
    assert_eq!(remove("a = 1\n", KEY), Ok(None));
}

#[test]
fn only_the_path_is_changed_when_the_shim_moves() {
    let text = "[mcp_servers.switchboard]\ncommand = '/old' # here\nenabled = true\n";
    assert_eq!(set_command(text, "/new").unwrap().unwrap(), text.replace("'/old'", "\"/new\""));
}

/// Parts of files that are more often right than wrong.
const PARTS: [&str; 30] = [
    "[a]\n",
    "[a.b]\n",
    "[b]\n",
    "[[a]]\n",
    "[[a.b]]\n",
    "[b.a.c]\n",
    "a = 1\n",
    "b = 'x'\n",
    "a.b = true\n",
    "a.b.c = 2\n",
    "b.c = []\n",
    "c = [1, [2], {a = 1}]\n",
    "d = {a.b = 1, c = 'y'}\n",
    "\"a\" = \"\\u0041\\n\"\n",
    "e = \"\"\"\nx\\\n  y\"\"\"\n",
    "f = 1_000\n",
    "g = -2.5\n",
    "# note\n",
    "\n",
    "\r\n",
    " ",
    "a",
    "=",
    "[",
    "]",
    "{",
    "}",
    ",",
    "'",
    "h = '''\nz'''\n",
];

proptest::proptest! {
    #[test]
    fn the_reader_and_the_editor_agree(parts in proptest::collection::vec(proptest::sample::select(&PARTS[..]), 0..12)) {
        let text = parts.concat();
        let editor = parse(&text).map(|document| to_value(document.as_item()));
        let reader = switchboard_definitions::document::parse_toml(&text);
        match (editor, reader) {
            (Ok(editor), Ok(reader)) => proptest::prop_assert_eq!(super::super::super::json::to_value(&reader), editor, "{}", text),
            (Err(_), Err(_)) => {}
            (editor, reader) => proptest::prop_assert!(false, "{text}: {editor:?} {reader:?}"),
        }
    }
}
