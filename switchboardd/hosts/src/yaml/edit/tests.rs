use proptest::prelude::*;

use super::*;

fn ours() -> Tree {
    Tree::Object(vec![
        ("name".to_owned(), Tree::Text(KEY.to_owned())),
        ("command".to_owned(), Tree::Text("/b/switchboard".to_owned())),
    ])
}

#[track_caller]
fn round(before: &str) -> String {
    let (after, was_there) = insert(before, &ours()).unwrap();
    let (rest, _) = remove(&after, KEY, was_there).unwrap().unwrap();
    assert_eq!(rest, before, "{after}");
    after
}

#[test]
fn an_item_is_laid_out_like_its_neighbours() {
    assert_eq!(
        round(
            "name: Mine\nmcpServers:\n    # first\n    - name: a\n      command: x\nrules:\n  - |\n    long\n"
        ),
        "name: Mine\nmcpServers:\n    - name: switchboard\n      command: \"/b/switchboard\"\n    # first\n    - name: a\n      command: x\nrules:\n  - |\n    long\n"
    );
    assert_eq!(
        round("name: Mine\r\nmodels: []"),
        "name: Mine\r\nmodels: []\r\nmcpServers:\r\n  - name: switchboard\r\n    command: \"/b/switchboard\""
    );
    round("mcpServers:\n- name: a\n  command: x\nmodels: []\n");
    round("name: x\nmcpServers: [] # none yet\nversion: 1\n");
    round("mcpServers: [{name: a, command: x}]\n");
    round("models:\n  - &m\n    name: größe\nother: *m\n");
}

#[test]
fn an_empty_file_becomes_a_whole_one() {
    for text in ["", "# mine\n"] {
        let (made, was_there) = insert(text, &ours()).unwrap();
        assert!(
            made.starts_with(text) && made.contains("schema: v1\nmcpServers:\n  - name: switchboard\n"),
            "{made}"
        );
        assert!(!was_there);
    }
}

#[test]
fn removing_a_middle_item_keeps_its_neighbours() {
    let text = "mcpServers:\n  - name: a\n    command: x\n  # ours\n  -\n    name: switchboard\n    command: /s\n\n  # b\n  - name: b\n    command: y\n";
    let (rest, taken) = remove(text, KEY, true).unwrap().unwrap();
    assert_eq!(
        rest,
        "mcpServers:\n  - name: a\n    command: x\n  # ours\n\n  # b\n  - name: b\n    command: y\n"
    );
    assert_eq!(taken, "  -\n    name: switchboard\n    command: /s\n");
    assert_eq!(remove("name: x\n", KEY, true), Ok(None));
    let (rest, _) =
        remove("mcpServers: # all\n  - name: switchboard\n    command: /s\n", KEY, true).unwrap().unwrap();
    assert_eq!(rest, "mcpServers: [] # all\n");
}

#[test]
fn text_that_cannot_be_edited_safely_is_refused() {
    for text in [
        "{name: x}\n",
        "mcpServers:\n  a:\n    command: x\n",
        "a: 1\n---\nb: 2\n",
        "- a\n",
        "a: 1\n...\n",
        "mcpServers: null\n",
    ] {
        assert!(insert(text, &ours()).is_err(), "{text}");
    }
    let refusal = insert("a: [1\nb: 2\n", &ours()).unwrap_err();
    assert!(refusal.at.is_some() && refusal.why.contains("not valid YAML"), "{refusal:?}");
}

#[test]
fn only_the_path_is_changed_when_the_shim_moves() {
    let text = "mcpServers:\n  - name: switchboard\n    command: /old # here\n    env: {}\n";
    assert_eq!(set_command(text, "/new").unwrap().unwrap(), text.replace("/old", "\"/new\""));
}

/// Top-level members of a config, as people write them.
fn documents() -> impl Strategy<Value = String> {
    let member = prop_oneof![
        Just("models:\n  - name: m\n    provider: p\n".to_owned()),
        Just("# a comment: with a colon\n".to_owned()),
        Just("\n".to_owned()),
        Just("text: |\n  mcpServers:\n    - name: switchboard\n\n".to_owned()),
        Just("quoted: \"- name: x # no comment\"\n".to_owned()),
        Just("flow: {a: [1, 2], b: 'it''s'}\n".to_owned()),
        Just("empty:\n".to_owned()),
    ];
    let servers = prop_oneof![
        Just(String::new()),
        Just("mcpServers: []\n".to_owned()),
        Just("mcpServers:\n  - name: a\n    command: x\n    env:\n      K: v\n".to_owned()),
        Just("mcpServers:\n- name: a\n  command: x\n\n# b\n- name: b\n  url: https://u\n".to_owned()),
        Just("mcpServers:\n    -   name: a\n        args:\n        - x\n".to_owned()),
    ];
    (prop::collection::vec(member, 0..5), servers, 0..5_usize, any::<bool>()).prop_map(
        |(members, servers, at, crlf)| {
            let mut seen = std::collections::BTreeSet::new();
            let is_new = |member: &String| {
                !member.contains(": ") && !member.ends_with(":\n") && !member.contains(":\n")
                    || seen.insert(member.clone())
            };
            let mut members: Vec<String> = members.into_iter().filter(is_new).collect();
            members.insert(at.min(members.len()), servers);
            let text = format!("name: Mine\n{}", members.concat());
            if crlf { text.replace('\n', "\r\n") } else { text }
        },
    )
}

proptest! {
    #[test]
    fn inserting_and_removing_restores_the_text(text in documents()) {
        let (after, was_there) = insert(&text, &ours()).unwrap();
        let contents = super::super::read(&after).unwrap();
        prop_assert_eq!(contents.entries.iter().filter(|entry| entry.name == KEY).count(), 1);
        prop_assert_eq!(remove(&after, KEY, was_there).unwrap().unwrap().0, text);
    }
}
