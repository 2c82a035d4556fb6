//! `switchboard import` keeps what people decided: what a host forbids of a server's tools stays forbidden.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::path::PathBuf;

use proto_tests::{Home, Shim, bins};
use serde_json::{Value, json};

#[track_caller]
fn said(home: &Home, args: &[&str], code: i32) -> String {
    let output = home.command(args);
    let said = String::from_utf8([&output.stdout[..], &output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    said
}

fn config_file(home: &Home) -> PathBuf {
    home.config_folder().join("switchboard.config.json")
}

/// What the config says about a server now.
fn suite(home: &Home, server: &str) -> Value {
    let text = fs::read_to_string(config_file(home)).unwrap();
    // Without the comments and the comma at the end that a test wrote.
    let bare: String = text.replace("// mine", "").replace("// too", "").replace("},\n}", "}\n}");
    serde_json::from_str::<Value>(&bare).unwrap()["suites"][server].clone()
}

fn tools(shim: &mut Shim, server: &str) -> Vec<String> {
    let arguments = json!({"action": "introspect", "args": {"verbosity": "summary"}});
    let params = json!({"name": format!("{server}_suite"), "arguments": arguments});
    let answer = shim.request("tools/call", &params.to_string());
    let text = proto_tests::shim::text_of(&answer);
    let value: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{answer}"));
    let tools = value["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Six hosts run the same server, and each forbids other tools of it in its own way.
fn six_hosts(home: &Home) -> Vec<PathBuf> {
    let entry = home.entry(&bins().evil_child, &["echo"], &[]);
    let with = |more: &[(&str, Value)]| {
        let mut entry = entry.clone();
        more.iter().for_each(|(key, value)| entry[*key] = value.clone());
        entry
    };
    let servers = |entry: Value| json!({"mcpServers": {"fs": entry}}).to_string();
    let argv: Vec<_> = std::iter::once(&entry["command"]).chain(entry["args"].as_array().unwrap()).collect();
    let opencode = json!({
        "mcp": {"files": {"type": "local", "command": argv, "environment": entry["env"]}},
        "tools": {"files_fork": false},
        "permission": {"files_close-*": "deny", "files_env": "ask"},
    });
    let mark = &entry["env"];
    let codex = format!(
        "[mcp_servers.fs]\ncommand = {}\nargs = [\"echo\"]\ndisabled_tools = [\"crash\", \"die\"]\ndefault_tools_approval_mode = \"approve\"\n\n[mcp_servers.fs.env]\nSWITCHBOARD_TEST = {}\n",
        entry["command"], mark["SWITCHBOARD_TEST"]
    );
    home.write(
        ".claude/settings.json",
        r#"{"permissions": {"deny": ["mcp__fs__eat", "Bash(rm *)"], "allow": ["mcp__fs__echo"]}}"#,
    );
    vec![
        home.write(".claude.json", &servers(entry.clone())),
        home.write(".gemini/settings.json", &servers(with(&[("excludeTools", json!(["raw", "raise"]))]))),
        home.write(".codex/config.toml", &codex),
        home.write(".config/opencode/opencode.json", &opencode.to_string()),
        home.write(
            ".copilot/mcp-config.json",
            &servers(with(&[(
                "tools",
                json!(["echo", "env", "where", "crash", "eat", "raw", "hang", "fork", "close-stdout"]),
            )])),
        ),
        home.write(
            ".cline/data/settings/cline_mcp_settings.json",
            &servers(with(&[("disabledTools", json!(["hang"])), ("autoApprove", json!(["echo"]))])),
        ),
    ]
}

/// Adds Switchboard to the editors' files.
fn set_up(home: &Home) {
    home.run_ok(&["setup", "--yes", "--shim", bins().switchboard.to_str().unwrap()]);
}

#[test]
fn what_six_hosts_forbid_stays_forbidden() {
    let home = Home::new();
    let files = six_hosts(&home);
    let comment =
        "{\n  // mine\n  \"http\": {\"listen\": \"off\"},\n  \"timeouts\": {\"rpcMs\": 50000}, // too\n}\n";
    fs::write(config_file(&home), comment).unwrap();
    let dry = said(&home, &["import", "--remove", "--dry-run"], 0);
    assert_eq!(fs::read_to_string(config_file(&home)).unwrap(), comment);
    set_up(&home);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let told = said(&home, &["import", "--remove", "--yes"], 0);
    for text in [&dry, &told] {
        for part in [
            "`eat` cannot be used, as `permissions.deny` of Claude Code says",
            "`raise` and `raw` cannot be used, as `excludeTools` of Gemini CLI says",
            "`crash` and `die` cannot be used, as `disabled_tools` of Codex says",
            "`close-*` and `fork` cannot be used, as `permission` of OpenCode, `tools` of OpenCode says",
            "can be used, as `tools` of Copilot CLI says",
            "`hang` cannot be used, as `disabledTools` of Cline says",
            "`autoApprove` of Cline is left out",
            "`default_tools_approval_mode` of Codex is left out",
            "`permissions.allow` of Claude Code is left out",
            "you are asked before each call of `env`, as `permission` of OpenCode says",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    assert_eq!(
        suite(&home, "fs")["expose"],
        json!({"allow": ["close-stdout", "crash", "eat", "echo", "env", "fork", "hang", "raw", "where"],
               "deny": ["close-*", "crash", "die", "eat", "fork", "hang", "raise", "raw"]})
    );
    assert_eq!(suite(&home, "fs")["confirm"], json!(["env"]));
    let written = fs::read_to_string(config_file(&home)).unwrap();
    assert!(written.contains("// mine") && written.contains("// too"), "{written}");
    assert_eq!(tools(&mut shim, "fs"), ["echo", "env", "where"]);
    for tool in ["eat", "raw", "raise", "crash", "die", "fork", "close-stdout", "hang", "slow", "received"] {
        let answer = shim.call("fs", tool, "{}");
        assert!(answer.contains("not allowed by Switchboard"), "{tool}: {answer}");
    }
    assert!(shim.call("fs", "echo", "{}").contains("\"ok\":true"));
    assert!(files.iter().all(|file| !fs::read_to_string(file).unwrap().contains("evil-child")));
    // A second time, nothing is left to do.
    said(&home, &["import", "--remove", "--yes"], 0);
    assert_eq!(fs::read_to_string(config_file(&home)).unwrap(), written);
    // The servers go back with what was forbidden there; the definition stays, and so does what it hides.
    said(&home, &["undo", "--yes"], 0);
    assert!(files.iter().all(|file| fs::read_to_string(file).unwrap().contains("evil-child")));
    assert_eq!(tools(&mut shim, "fs"), ["echo", "env", "where"]);
}

#[test]
fn the_limits_of_a_host_that_comes_later_are_added() {
    let home = Home::new();
    let entry = home.entry(&bins().evil_child, &["echo"], &[]);
    let servers = |more: &Value| {
        let mut entry = entry.clone();
        more.as_object().unwrap().iter().for_each(|(key, value)| entry[key] = value.clone());
        json!({"mcpServers": {"fs": entry}}).to_string()
    };
    home.write(".cursor/mcp.json", &servers(&json!({})));
    said(&home, &["import"], 0);
    assert_eq!(suite(&home, "fs"), Value::Null);
    home.config(&json!({"suites": {"fs": {"description": "mine", "expose": {"deny": ["crash"], "allow": ["e*", "where"]}}}}));
    home.write(
        ".gemini/settings.json",
        &servers(&json!({"includeTools": ["echo", "where", "eat"], "excludeTools": ["eat"]})),
    );
    set_up(&home);
    let told = said(&home, &["import", "--remove", "--yes"], 0);
    assert!(told.contains("fs (Gemini CLI): already there as `fs`\n  only `eat`, `echo` and `where` can be used, and `eat` cannot"), "{told}");
    let now = suite(&home, "fs");
    assert_eq!(now["expose"], json!({"allow": ["eat", "echo", "where"], "deny": ["crash", "eat"]}));
    assert_eq!(now["description"], "mine");
}

#[test]
fn what_hosts_ask_about_is_asked_by_switchboard() {
    let home = Home::new();
    let entry = home.entry(&bins().evil_child, &["echo"], &[]);
    home.write(".claude.json", &json!({"mcpServers": {"fs": entry}}).to_string());
    home.write(".claude/settings.json", r#"{"permissions": {"ask": ["mcp__fs__env", "mcp__fs__e*"]}}"#);
    for (before, after, note) in [
        (
            json!({}),
            json!(["e*", "env"]),
            "you are asked before each call of `e*` and `env`, as `permissions.ask`",
        ),
        (json!({"confirm": ["crash"]}), json!(["crash", "e*", "env"]), "you are asked before each call"),
        (json!({"confirm": ["e*", "env", "x"]}), json!(["e*", "env", "x"]), "you are asked before each call"),
        (json!({"confirm": "destructive"}), json!("destructive"), "left out: you are asked before each call"),
    ] {
        home.config(&json!({"suites": {"fs": before}}));
        let told = said(&home, &["import"], 0);
        assert!(told.contains(note), "{told}");
        assert_eq!(suite(&home, "fs")["confirm"], after);
    }
    // More than "destructive" asks about.
    home.write(".claude/settings.json", r#"{"permissions": {"ask": ["mcp__fs"]}}"#);
    said(&home, &["import"], 0);
    assert_eq!(suite(&home, "fs")["confirm"], json!(["*"]));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let id = shim.start_call("fs", "echo", "{}");
    let question = shim.notification("elicitation/create");
    let yes = json!({"action": "accept", "content": {"decision": "once"}});
    shim.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": yes}).to_string());
    assert!(shim.answer_to(&id.to_string()).contains("\"ok\":true"));
}

#[test]
fn a_server_whose_limits_cannot_be_carried_over_stays_in_every_host() {
    let home = Home::new();
    let entry = home.entry(&bins().evil_child, &["echo"], &[("API_KEY", "sk-CANARY0123456789abcdef")]);
    let servers =
        |entry: &Value| json!({"mcpServers": {"fs": entry, "time": {"command": "/bin/time"}}}).to_string();
    let argv = json!([entry["command"], "echo"]);
    let open = |rules: Value| {
        let mut file =
            json!({"mcp": {"fs": {"type": "local", "command": argv, "environment": entry["env"]}}});
        file["permission"] = rules;
        file.to_string()
    };
    let cursor = home.write(".cursor/mcp.json", &servers(&entry));
    for (rules, why) in [
        (
            json!({"fs_w*": "deny", "fs_where": "allow"}),
            "`permission` of OpenCode permits `where` out of `w*`",
        ),
        (json!({"fs_*": "deny"}), "OpenCode forbids all of its tools (`permission` of OpenCode)"),
        (json!({"fs_echo": {"*.env": "deny"}}), "forbids some of its calls only: `fs_echo`"),
    ] {
        let before = fs::read_to_string(&cursor).unwrap();
        let opencode = home.write(".config/opencode/opencode.json", &open(rules.clone()));
        // `time` does not answer.
        let told = said(&home, &["import", "--remove", "--yes"], 1);
        for host in ["Cursor", "OpenCode"] {
            let line =
                told.lines().find(|line| line.starts_with(&format!("fs ({host}): skipped: "))).unwrap();
            assert!(line.contains(why) && line.ends_with("it stays where it is"), "{line}");
        }
        assert_eq!(fs::read_to_string(&opencode).unwrap(), open(rules));
        assert!(fs::read_to_string(&cursor).unwrap().contains("evil-child"));
        assert!(!home.config_folder().join("mcps/fs").exists());
        assert!(!said(&home, &["secret", "ls"], 0).contains("FS_API_KEY"));
        fs::write(&cursor, before).unwrap();
    }
    // Rules that cannot be read may forbid anything.
    fs::remove_file(home.path().join(".config/opencode/opencode.json")).unwrap();
    fs::remove_dir_all(home.config_folder().join("mcps/time")).unwrap();
    home.write(".cursor/cli-config.json", "{\"permissions\": ");
    let told = said(&home, &["import", "--remove", "--yes"], 1);
    assert!(
        told.contains("the rules of Cursor about tools cannot be read")
            && told.contains("cli-config.json:1:"),
        "{told}"
    );
    assert!(fs::read_to_string(&cursor).unwrap().contains("/bin/time"));
}

#[test]
fn servers_that_are_off_by_name_are_left_out() {
    let home = Home::new();
    let gemini = json!({"mcp": {"excluded": ["b"]}, "mcpServers": {"a": {"command": "/bin/a"}, "b": {"command": "/bin/b"}}});
    home.write(".gemini/settings.json", &gemini.to_string());
    let claude = json!({
        "mcpServers": {"c": {"command": "/bin/c"}},
        "projects": {"/p": {"disabledMcpServers": ["c", "d"], "mcpServers": {"d": {"command": "/bin/d"}}}},
    });
    home.write(".claude.json", &claude.to_string());
    let told = said(&home, &["import"], 0);
    assert!(told.contains("a (Gemini CLI): imported as `a`"), "{told}");
    assert!(
        told.contains("b (Gemini CLI): skipped: it is turned off in Gemini CLI (`mcp.excluded`)"),
        "{told}"
    );
    assert!(
        told.contains("c (Claude Code): imported as `c`\n  it is turned off for /p in Claude Code"),
        "{told}"
    );
    assert!(
        told.contains("d (Claude Code, /p): skipped: it is turned off in Claude Code (`disabledMcpServers`)"),
        "{told}"
    );
}

#[test]
fn a_deny_rule_of_a_project_counts() {
    let home = Home::new();
    let project = home.workspace();
    fs::create_dir_all(project.join(".claude")).unwrap();
    fs::write(
        project.join(".claude/settings.local.json"),
        r#"{"permissions": {"deny": ["mcp__wide__x", "mcp__own__y"]}}"#,
    )
    .unwrap();
    let servers = |name: &str| json!({name: {"command": format!("/bin/{name}")}});
    let claude = json!({"mcpServers": servers("wide"), "projects": {project.to_str().unwrap(): {"mcpServers": servers("own")}}});
    home.write(".claude.json", &claude.to_string());
    let told = said(&home, &["import"], 0);
    let place = project.display();
    assert!(
        told.contains(&format!("`x` cannot be used, as `permissions.deny` of Claude Code in {place} says")),
        "{told}"
    );
    assert!(told.contains("`y` cannot be used, as `permissions.deny` of Claude Code says"), "{told}");
    assert_eq!(suite(&home, "wide")["expose"], json!({"deny": ["x"]}));
    assert_eq!(suite(&home, "own")["expose"], json!({"deny": ["y"]}));
}

#[test]
fn the_time_to_start_is_taken_over() {
    let home = Home::new();
    home.write(
        ".codex/config.toml",
        "[mcp_servers.slow]\ncommand = \"/bin/slow\"\nstartup_timeout_sec = 30\n",
    );
    said(&home, &["import"], 0);
    assert_eq!(suite(&home, "slow"), json!({"timeouts": {"childSpawnMs": 30000}}));
}

#[test]
fn rules_beside_the_servers_count_and_those_that_are_not_read_keep_the_server() {
    let home = Home::new();
    let entry = |name: &str| home.entry(&bins().evil_child, &["echo", name], &[]);
    let servers = |name: &str, more: Value| {
        let mut all = more;
        all["mcpServers"][name] = entry(name);
        all.to_string()
    };
    home.write(".gemini/settings.json", &servers("gem", json!({})));
    home.write(
        ".gemini/policies/a.toml",
        "[[rule]]\ntoolName = \"mcp_gem_crash\"\ndecision = \"deny\"\npriority = 100\n\n[[rule]]\nmcpName = \"gem\"\ntoolName = \"die\"\ndecision = \"ask_user\"\npriority = 100\n",
    );
    home.write(".gemini/policies/note.txt", "[[rule]\n");
    home.write(
        ".qwen/settings.json",
        &servers("qw", json!({"permissions": {"deny": ["mcp__qw__crash"], "ask": ["mcp__qw__die"]}})),
    );
    let zed = json!({
        "context_servers": {"zd": entry("zd")},
        "agent": {"profiles": {"write": {"context_servers": {"zd": {"tools": {"crash": false}}}}}},
    });
    home.write(".config/zed/settings.json", &zed.to_string());
    let oc = entry("oc");
    let argv = json!([oc["command"], "echo", "oc"]);
    let opencode = json!({
        "mcp": {"oc": {"type": "local", "command": argv, "environment": oc["env"]}},
        "agent": {"build": {"tools": {"oc_crash": false}, "permission": {"oc_die": "ask"}}},
    });
    home.write(".config/opencode/opencode.json", &opencode.to_string());
    let yaml = format!(
        "name: x\nversion: 1.0.0\nschema: v1\nmcpServers:\n  - name: ct\n    command: {}\n    args: [echo]\n",
        oc["command"]
    );
    let continued = home.write(".continue/config.yaml", &yaml);
    home.write(".continue/permissions.yaml", "exclude:\n  - ct_crash\nask: []\nallow: []\n");
    let told = said(&home, &["import", "--remove", "--yes", "--no-start"], 1);
    for (server, asks) in [("gem", true), ("qw", true), ("zd", false), ("oc", true)] {
        let suite = suite(&home, server);
        assert_eq!(suite["expose"], json!({"deny": ["crash"]}), "{server}: {told}");
        assert_eq!(suite["confirm"], if asks { json!(["die"]) } else { Value::Null }, "{server}: {told}");
    }
    assert!(told.contains("ct (Continue): skipped: ") && told.contains("permissions.yaml"), "{told}");
    assert_eq!(fs::read_to_string(continued).unwrap(), yaml);
    assert!(!home.config_folder().join("mcps/ct").exists());
}
