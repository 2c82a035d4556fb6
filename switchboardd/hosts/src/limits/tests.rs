use serde_json::json;

use super::super::table::by_id;
use super::rules::RuleFile;
use super::*;

fn file(text: &str) -> RuleFile {
    RuleFile { path: "/f".into(), project: None, text: text.to_owned() }
}

fn read(id: &str, entry: Value, own: &str, rules: &str) -> Result<ToolLimits, String> {
    let host = by_id(id).unwrap();
    let entry = ServerEntry { name: "my fs".to_owned(), project: None, value: entry };
    ToolLimits::read(host, &entry, &HostRules::read(host, &[file(own)], &[file(rules)]).unwrap())
}

/// The allowed globs (`None`: all) and the denied ones.
type Expected<'a> = (Option<&'a [&'a str]>, &'a [&'a str]);

#[track_caller]
fn check(id: &str, entry: Value, own: &str, rules: &str, expect: Expected<'_>) {
    let set = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect::<BTreeSet<_>>();
    let limits = read(id, entry, own, rules).unwrap();
    assert_eq!((limits.allow, limits.deny), (expect.0.map(set), set(expect.1)), "{own}{rules}");
}

#[test]
fn lists_in_entries_become_limits() {
    check(
        "gemini",
        json!({"includeTools": ["a", "b(x)"], "excludeTools": ["b"]}),
        "",
        "",
        (Some(&["a", "b"]), &["b"]),
    );
    check("codex", json!({"enabled_tools": ["a"], "disabled_tools": []}), "", "", (Some(&["a"]), &[]));
    check("codex", json!({"disabled_tools": ["a*"]}), "", "", (None, &["a\\*"]));
    check("copilot-cli", json!({"tools": ["*"]}), "", "", (None, &[]));
    check("copilot-cli", json!({"tools": ["a"]}), "", "", (Some(&["a"]), &[]));
    check("roo", json!({"disabledTools": ["a"], "alwaysAllow": ["b"]}), "", "", (None, &["a"]));
    check(
        "codex",
        json!({"tools": {"a": {"approval_mode": "prompt"}, "b": {"enabled": false}}}),
        "",
        "",
        (None, &["b"]),
    );
    assert!(
        read("copilot-cli", json!({"tools": []}), "", "").unwrap_err().contains("forbids all of its tools")
    );
    assert!(
        read("gemini", json!({"excludeTools": "a"}), "", "")
            .unwrap_err()
            .contains("`excludeTools` is not a list")
    );
}

#[test]
fn rules_of_hosts_become_limits() {
    let claude = |deny: &str| format!(r#"{{"permissions": {{"deny": [{deny}]}}}}"#);
    for (rule, deny) in [
        (r#""mcp__my_fs__write", "Bash(rm *)""#, &["write"][..]),
        (r#""mcp__my_fs__get_*""#, &["get_*"]),
        (r#""mcp__*__delete""#, &["*__delete", "__delete", "_delete", "delete"]),
        (r#""mcp__other__write""#, &[]),
    ] {
        check("claude-code", json!({}), "", &claude(rule), (None, deny));
    }
    for rule in [r#""mcp__my_fs""#, r#""mcp__my_fs__*""#, r#""mcp__*""#] {
        assert!(
            read("claude-code", json!({}), "", &claude(rule))
                .unwrap_err()
                .contains("forbids all of its tools")
        );
    }
    assert!(read("claude-code", json!({}), "", &claude(r#""mcp__my_fs__w(x)""#)).is_err());
    check(
        "cursor",
        json!({}),
        "",
        r#"{"permissions": {"deny": ["Mcp(my fs:write)", "Mcp(my fs, rm*)"]}}"#,
        (None, &["rm*", "write"]),
    );
    let zed = r#"{"agent": {"tool_permissions": {"tools": {"mcp:my fs:write": {"default": "deny"}}}}}"#;
    check("zed", json!({}), zed, "", (None, &["write"]));
    check(
        "gemini",
        json!({}),
        r#"{"tools": {"exclude": ["mcp_my_fs_write", "my_fs__rm"]}}"#,
        "",
        (None, &["rm", "write"]),
    );
}

#[test]
fn a_later_rule_of_opencode_takes_an_earlier_one_back() {
    let open = |own: &str, expect: Expected<'_>| check("opencode", json!({}), own, "", expect);
    open(r#"{"tools": {"my_fs_write": false}}"#, (None, &["write"]));
    open(r#"{"tools": {"my_fs*": false, "my_fs_read": true}}"#, (Some(&["read"]), &[]));
    open(
        r#"{"permission": {"*": "deny", "my_fs_read*": "allow", "my_fs_read_raw": "deny"}}"#,
        (Some(&["read*"]), &["read_raw"]),
    );
    open(r#"{"permission": {"my_fs_write": "deny", "my_fs_*": "ask"}}"#, (None, &[]));
    let why =
        read("opencode", json!({}), r#"{"permission": {"my_fs_w*": "deny", "my_fs_write": "allow"}}"#, "");
    assert!(why.unwrap_err().contains("permits `write` out of `w*`"));
    assert!(read("opencode", json!({}), r#"{"tools": {"my_fs_*": false}}"#, "").is_err());
}

#[test]
fn settings_that_are_not_carried_over_are_named() {
    let left = |id, entry, own, rules| read(id, entry, own, rules).unwrap().left_out;
    assert_eq!(left("cline", json!({"autoApprove": ["a"]}), "", ""), ["`autoApprove` of Cline"]);
    assert_eq!(
        left("gemini", json!({"trust": true, "excludeTools": ["a"]}), "", ""),
        ["`trust` of Gemini CLI"]
    );
    assert_eq!(left("gemini", json!({"trust": false}), "", ""), [""; 0]);
    let rules = r#"{"permissions": {"ask": ["mcp__my_fs__a"], "allow": ["mcp__my_fs__b", "Bash"]}}"#;
    let limits = read("claude-code", json!({}), "", rules).unwrap();
    assert_eq!(limits.left_out, ["`permissions.allow` of Claude Code"]);
    assert_eq!(
        left("codex", json!({"default_tools_approval_mode": "approve"}), "", ""),
        ["`default_tools_approval_mode` of Codex"]
    );
}

#[test]
fn what_a_host_asks_about_is_confirmed() {
    let asked = |id: &str, entry: Value, own: &str, rules: &str| {
        let limits = read(id, entry, own, rules).unwrap();
        let globs: Vec<String> = limits.confirm.into_iter().collect();
        (globs.join(" "), limits.confirm_sources.into_iter().collect::<Vec<_>>().join(" "), limits.left_out)
    };
    let expect = |globs: &str, source: &str, left_out: &[&str]| {
        let left_out = left_out.iter().map(|what| (*what).to_owned()).collect::<Vec<_>>();
        (globs.to_owned(), source.to_owned(), left_out)
    };
    let rules = r#"{"permissions": {"ask": ["mcp__my_fs__a", "mcp__my_fs__rm_*"]}}"#;
    assert_eq!(
        asked("claude-code", json!({}), "", rules),
        expect("a rm_*", "`permissions.ask` of Claude Code", &[])
    );
    let codex = |entry: Value| asked("codex", entry, "", "");
    assert_eq!(
        codex(json!({"tools": {"a": {"approval_mode": "prompt"}, "b": {"approval_mode": "approve"}}})),
        expect("a", "`tools` of Codex (`approval_mode`)", &["`tools` of Codex (`approval_mode`)"])
    );
    assert_eq!(
        codex(json!({"default_tools_approval_mode": "prompt"})),
        expect("*", "`default_tools_approval_mode` of Codex", &[])
    );
    let excepted =
        json!({"default_tools_approval_mode": "prompt", "tools": {"b": {"approval_mode": "approve"}}});
    assert_eq!(codex(excepted).0, "");
    let open = |own: &str| asked("opencode", json!({}), own, "");
    let source = "`permission` of OpenCode";
    assert_eq!(open(r#"{"permission": {"my_fs_w*": "ask"}}"#), expect("w*", source, &[]));
    // The last rule wins; where that cannot be said, the question stays.
    assert_eq!(open(r#"{"permission": {"my_fs_w": "ask", "my_fs_*": "allow"}}"#), expect("", "", &[]));
    assert_eq!(
        open(r#"{"permission": {"my_fs_*": "ask", "my_fs_r": "allow"}}"#),
        expect("*", source, &["`permission` of OpenCode (`r` without a question)"])
    );
}

#[test]
fn policies_of_gemini_become_limits() {
    let rule = |body: &str| format!("[[rule]]\n{body}\npriority = 100\n");
    let deny = |body: &str| rule(&format!("{body}\ndecision = \"deny\""));
    for (rules, denied) in [
        (deny("toolName = \"mcp_my_fs_rm\""), &["rm"][..]),
        (deny("toolName = [\"mcp_my_fs_rm\", \"my_fs__mv\"]"), &["mv", "rm"]),
        (deny("mcpName = \"my fs\"\ntoolName = \"rm*\"\ndenyMessage = \"no\""), &["rm*"]),
        (deny("mcpName = \"other\""), &[]),
        (deny("toolName = \"run_shell_command\"\ncommandPrefix = \"rm\""), &[]),
        (deny("toolName = \"mcp_my_fs_rm\"\nmodes = [\"yolo\"]"), &["rm"]),
    ] {
        check("gemini", json!({}), "", &rules, (None, denied));
    }
    let asked = read(
        "gemini",
        json!({}),
        "",
        &rule("mcpName = \"my fs\"\ntoolName = \"mv\"\ndecision = \"ask_user\""),
    );
    assert_eq!(asked.unwrap().confirm, ["mv".to_owned()].into());
    for rules in [
        deny("mcpName = \"my fs\""),
        deny("toolName = \"*\""),
        deny("mcpName = \"*\""),
        deny("toolName = \"mcp_my_fs_rm\"\nargsPattern = \"x\""),
        deny("toolName = \"mcp_my_fs_rm\"\nunknown = true"),
        rule("mcpName = \"my fs\"\ndecision = \"unknown\""),
    ] {
        assert!(read("gemini", json!({}), "", &rules).is_err(), "{rules}");
    }
    let allowed = read("gemini", json!({}), "", &rule("mcpName = \"my fs\"\ndecision = \"allow\"")).unwrap();
    assert_eq!(allowed.left_out, ["`policies` of Gemini CLI"]);
}

#[test]
fn what_a_part_of_a_host_forbids_is_forbidden() {
    let agent = |agent: &str| {
        format!(
            r#"{{"permission": {{"my_fs_*": "allow"}}, "agent": {{"a": {agent}, "b": {{"permission": {{"my_fs_*": "allow"}}}}}}}}"#
        )
    };
    for (of_agent, denied) in [
        (r#"{"tools": {"my_fs_w": false, "*": false}}"#, &["w"][..]),
        (r#"{"permission": {"my_fs_w": "deny", "bash": "deny"}}"#, &["w"]),
        (r#"{"tools": {"other_w": false}}"#, &[]),
    ] {
        check("opencode", json!({}), &agent(of_agent), "", (None, denied));
    }
    let asked = read("opencode", json!({}), &agent(r#"{"permission": {"my_fs_w": "ask"}}"#), "").unwrap();
    assert_eq!(asked.confirm, ["w".to_owned()].into());
    assert!(read("opencode", json!({}), &agent(r#"{"tools": {"my_fs_*": false}}"#), "").is_err());
    let zed = |profile: &str| format!(r#"{{"agent": {{"profiles": {{"write": {profile}}}}}}}"#);
    let of_server = r#""context_servers": {"my fs": {"tools": {"rm": false, "read": true}}}"#;
    check("zed", json!({}), &zed(&format!("{{{of_server}}}")), "", (None, &["rm"]));
    let only = zed(&format!(r#"{{"enable_all_context_servers": false, {of_server}}}"#));
    check("zed", json!({}), &only, "", (Some(&["read"]), &["rm"]));
    let confirm = r#"{"agent": {"tool_permissions": {"tools": {"mcp:my fs:mv": {"always_confirm": [{"pattern": "x"}]}}}}}"#;
    assert_eq!(read("zed", json!({}), confirm, "").unwrap().confirm, ["mv".to_owned()].into());
    let qwen = r#"{"permissions": {"deny": ["mcp__my_fs__rm"], "ask": ["mcp__my_fs__mv"]}}"#;
    check("qwen", json!({}), qwen, "", (None, &["rm"]));
    assert_eq!(read("qwen", json!({}), qwen, "").unwrap().confirm, ["mv".to_owned()].into());
}

#[test]
fn rules_in_yaml_that_may_forbid_a_tool_keep_the_servers_where_they_are() {
    for (rules, is_unclear) in [
        ("", false),
        ("allow:\n  - fs_read\nask: []\nexclude: []\n", false),
        ("# exclude: [x]\nallow: [x]\nexclude:\n", true),
        ("exclude:\n  - fs_rm\nask: []\nallow: []\n", true),
        ("exclude: [rm]\n", true),
        ("ask:\n- rm\n", true),
        ("{exclude: [rm]}", true),
    ] {
        assert_eq!(read("continue", json!({}), "", rules).is_err(), is_unclear, "{rules}");
    }
}
