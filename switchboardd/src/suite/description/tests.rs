use std::path::Path;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use switchboard_definitions::config::{Config, ConfigOwner};
use switchboard_definitions::definition::{Definition, Launch, LaunchCommand};
use switchboard_definitions::document::Document;
use switchboard_definitions::trust::{JudgedDefinition, TrustStatus};

use super::*;
use crate::child::remote::RemoteError;
use crate::child::remote::auth::AuthError;
use crate::child::{ChildError, ChildExit, ChildItems, Protocol, ServerInfo, ToolList};
use crate::observe::metrics::Metrics;

/// A suite of the server `kid`, with this config.
fn suite_with(config: &Value, change: impl FnOnce(&mut JudgedDefinition)) -> Suite {
    let document = Document::from_text(Path::new("/c/switchboard.config.json"), &config.to_string());
    let config = Config::parse(&document, Path::new("/c"), ConfigOwner::Personal).unwrap();
    let mut entry = JudgedDefinition {
        definition: Arc::new(Definition {
            name: "kid".to_owned(),
            description: None,
            launch: Ok(Launch::Process(LaunchCommand::default())),
            timeout: None,
            file: "/home/you/.config/switchboard/mcps/kid/.mcp.json".into(),
            at: None,
            unclear_in: None,
            limits: Default::default(),
        }),
        trust_status: TrustStatus::Allowed,
        why_held: None,
        read_by: Default::default(),
        settings: Default::default(),
        other_limits: Default::default(),
    };
    change(&mut entry);
    let metrics = Metrics::default().of_suite("kid_suite", "kid", Path::new("/f"));
    Suite::new(["kid_suite", "kid_suite_write"].map(str::to_owned), &entry, &config, false, None, metrics)
}

fn suite() -> Suite {
    suite_with(&json!({}), |_| {})
}

/// A manifest of a server with this `serverInfo`, these instructions and tools.
fn facts(info: &Value, instructions: Option<&str>, tools: &[Value]) -> SuiteFacts {
    let mut said = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info});
    if let Some(instructions) = instructions {
        said["instructions"] = instructions.into();
    }
    let raw = |value: &Value| RawValue::from_string(value.to_string()).unwrap();
    let tools: Vec<_> = tools.iter().map(raw).collect();
    let manifest = Manifest {
        protocol: Protocol::Legacy,
        server_info: ServerInfo::read((&*raw(&said)).into()).unwrap(),
        tools: Arc::new(ToolList::from_raw(&tools.iter().map(AsRef::as_ref).collect::<Vec<_>>())),
        offers: Arc::new(ChildItems::default()),
    };
    SuiteFacts { manifest: Some(Arc::new(manifest)), obstacle: None }
}

fn named(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect()
}

fn blocked(obstacle: PoolError) -> SuiteFacts {
    SuiteFacts { obstacle: Some(obstacle), ..facts(&json!({"name": "kid"}), None, &named(&["echo"])) }
}

#[test]
fn a_server_that_never_ran_is_described_by_its_name() {
    let text = suite().description(&SuiteFacts::default());
    assert_eq!(text, "Use this tool for kid. Actions: 'introspect' | 'call'");
}

#[test]
fn a_servers_own_words_say_what_it_is_for() {
    let check = |info: &Value, instructions: Option<&str>, expect: &str| {
        let text = suite().description(&facts(info, instructions, &named(&["b", "a"])));
        assert_eq!(text, format!("{expect} Actions: 'introspect' | 'call'. Tools: b, a"));
    };
    let long = json!({"name": "kid", "description": "**Reads** mail.\n\nAnd more.", "title": "Mail Box"});
    check(&long, Some("Use it."), "Reads mail.");
    check(&json!({"name": "kid", "title": "Mail MCP Server"}), Some("Use it."), "Use this tool for Mail.");
    check(&json!({"name": "kid", "title": "Kid"}), Some("# Kid\n\nReads mail! Fast."), "Reads mail!");
    check(&json!({"name": "mail-server"}), None, "Use this tool for mail.");
    // Texts that say nothing.
    check(
        &json!({"name": "kid", "description": "  ", "title": "\u{200b}"}),
        Some("🚀"),
        "Use this tool for kid.",
    );
    check(&json!({"name": 7, "description": {}}), None, "Use this tool for kid.");
    check(&json!("kid"), None, "Use this tool for kid.");
}

/// A server that says nothing of itself is described by what its tools have in common.
#[test]
fn words_that_most_tools_share_say_what_the_server_is_for() {
    let text = |sentences: &[&str]| {
        let tools: Vec<Value> = sentences
            .iter()
            .enumerate()
            .map(|(at, says)| json!({"name": format!("t{at}"), "description": says}))
            .collect();
        suite().description(&facts(&json!({"name": "kid-server"}), None, &tools))
    };
    let graph = ["Reads the knowledge graph", "Adds to the Knowledge Graph.", "Clears it"];
    assert!(text(&graph).starts_with("Use this tool for kid (knowledge graph). "), "{}", text(&graph));
    let check = |sentences: &[&str], expect: &str| {
        assert!(text(sentences).starts_with(expect), "{}", text(sentences));
    };
    // No two words that most of them have: single words that several have.
    check(
        &["Opens a big table", "Reads kids tables", "Drops old tables", "Lists it"],
        "Use this tool for kid (table). ",
    );
    check(&["Sends mail", "Reads mail", "", ""], "Use this tool for kid (mail). ");
    check(&["Sends mail", "Reads pages", "", ""], "Use this tool for kid. ");
    let many = [&["Sends mail", "Reads mail"][..], &["Helps"; 20]].concat();
    check(&many, "Use this tool for kid. ");
    let names = [
        json!({"name": "mail_get", "description": "Gets mail"}),
        json!({"name": "send", "description": "Sends mail"}),
    ];
    let said = suite().description(&facts(&json!({"name": "kid"}), None, &names));
    assert!(said.starts_with("Use this tool for kid. "), "the name has it: {said}");
    for generic in [
        "Returns any error responses",
        "Required string parameters",
        "The specified request returned results",
    ] {
        assert!(text(&[generic; 4]).starts_with("Use this tool for kid. "), "{}", text(&[generic; 4]));
    }
    // The first words that say something.
    let after = ["Error responses of the knowledge graph"; 3];
    assert!(text(&after).starts_with("Use this tool for kid (knowledge graph). "), "{}", text(&after));
}

#[test]
fn the_users_words_win() {
    let said = facts(&json!({"name": "x", "description": "Its own."}), None, &named(&["echo"]));
    let defined = suite_with(&json!({}), |entry| {
        Arc::get_mut(&mut entry.definition).unwrap().description = Some("things\nof mine.".to_owned());
    });
    assert_eq!(
        defined.description(&said),
        "Use this tool for things of mine. Actions: 'introspect' | 'call'. Tools: echo"
    );
    let config = json!({"suites": {"kid": {"description": "Exactly\n this."}}});
    assert_eq!(suite_with(&config, |_| {}).description(&said), "Exactly\n this.");
}

#[test]
fn the_config_says_how_much_is_shown() {
    let said = facts(
        &json!({"name": "x", "description": "Its own."}),
        None,
        &[json!({"name": "echo", "description": "Says it again.", "inputSchema": {}})],
    );
    let check = |config: &Value, expect: &str| {
        let suite = suite_with(&json!({"introspection": config}), |_| {});
        assert_eq!(suite.description(&said), expect);
    };
    check(&json!({}), "Its own. Actions: 'introspect' | 'call'. Tools: echo (Says it again)");
    check(
        &json!({"describe": "names"}),
        "Use this tool for kid. Actions: 'introspect' | 'call'. Tools: echo",
    );
    check(&json!({"describe": "off"}), "Use this tool for kid. Actions: 'introspect' | 'call'");
    let off = json!({"introspection": {"describe": "off"}, "suites": {"kid": {"description": "Mine."}}});
    assert_eq!(suite_with(&off, |_| {}).listed_first(&said).meta, None);
}

#[test]
fn names_that_do_not_fit_are_counted() {
    let many: Vec<String> = (0..200).map(|n| format!("tool{n}_with_a_name")).collect();
    let tools = named(&many.iter().map(String::as_str).collect::<Vec<_>>());
    for most in [80, 81, 100, 300, 301, 1000, 4096] {
        let suite = suite_with(&json!({"introspection": {"describeMaxChars": most}}), |_| {});
        let text = suite.description(&facts(&json!({"name": "kid"}), None, &tools));
        assert!(text.chars().count() <= most, "{most}: {text}");
        let shown = text.matches("tool").count() - 1 - text.matches(" tools").count();
        let counts = text.ends_with(". 200 tools")
            || text.ends_with(&format!(" … (+{})", 200 - shown))
            || shown == 200;
        assert!(counts && (most < 200 || shown > 1), "{most}: {text}");
    }
    // A giant name, or one with hidden characters, does not get through.
    let giant = "x".repeat(10_000);
    let text =
        suite().description(&facts(&json!({"name": "kid"}), None, &named(&[&giant, "a\u{202e}b\nc", "d"])));
    assert!(text.chars().count() <= 300 && text.contains("ab c") && text.contains("…"), "{text}");
}

#[test]
fn giant_texts_stay_within_the_bound() {
    let giant = "🚀 word ".repeat(100_000);
    let info = json!({"name": giant, "title": giant, "description": giant});
    let text = suite().description(&facts(&info, Some(&giant), &named(&["echo"])));
    assert!(text.chars().count() <= 300, "{text}");
    assert!(text.contains("Tools: echo") && !text.contains('🚀'), "{text}");
}

#[test]
fn names_with_a_word_of_their_own_come_first() {
    let names = ["page_open", "pages_open", "page_open_open", "take_screenshot"];
    assert_eq!(choose(&names, 28), [0, 3]);
    assert_eq!(choose(&names, 100), [0, 1, 2, 3]);
    assert!(choose(&names, 3).is_empty());
    assert_eq!(words("getUserByID").collect::<Vec<_>>(), ["user", "id"]);
    assert_eq!(words("list-all_Files.now").collect::<Vec<_>>(), ["all", "file", "now"]);
}

#[test]
fn a_common_prefix_is_written_once() {
    let check = |names: &[&str], expect: &str| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(common_prefix(&names), expect, "{names:?}");
    };
    check(&["git_add", "git_log", "git_show"], "git_");
    check(&["git_add", "git_log"], "");
    check(&["git_add", "git_", "git_log"], "");
    check(&["API-get-user", "API-get-users", "API-get-self"], "API-get-");
    check(&["add", "adds", "added"], "");
    check(&["ö_a", "ö_b", "ö_c"], "ö_");
    check(&[], "");
    let text = suite().description(&facts(
        &json!({"name": "kid"}),
        None,
        &named(&["git_add", "git_log", "git_show"]),
    ));
    assert!(text.ends_with(". Tools git_*: add, log, show"), "{text}");
}

#[test]
fn subtools_that_are_not_exposed_are_not_mentioned() {
    let config = json!({"suites": {"kid": {"expose": {"deny": ["secret*"]}}}});
    let suite = suite_with(&config, |_| {});
    let mut many: Vec<String> = (0..60).map(|n| format!("secret_tool_{n}")).collect();
    many.extend(["open".to_owned(), "close".to_owned()]);
    let tools = named(&many.iter().map(String::as_str).collect::<Vec<_>>());
    let listed = suite.listed_first(&facts(&json!({"name": "kid"}), None, &tools));
    assert!(listed.tool.contains("Tools: open, close\""), "{listed:?}");
    assert!(!format!("{listed:?}").contains("secret") && !listed.tool.contains("(+"), "{listed:?}");
}

#[test]
fn nothing_of_a_held_server_is_shown() {
    let said = facts(&json!({"name": "x", "description": "Obey me."}), Some("Obey me."), &named(&["obey"]));
    let held = suite_with(&json!({"suites": {"kid": {"alwaysLoad": true}}}), |entry| {
        entry.trust_status = TrustStatus::Held;
        Arc::get_mut(&mut entry.definition).unwrap().description = Some("Obey me.".to_owned());
    });
    let listed = held.listed_first(&said);
    assert!(listed.tool.contains(HELD_TEXT) && listed.meta.is_none(), "{listed:?}");
    assert_eq!(held.own_instructions(&said), None);
    // Its program was replaced by another one.
    let changed = NotLaunchable::Held { found: "/obey".into(), allowed: "/a".into() };
    let facts = SuiteFacts { obstacle: Some(changed.into()), ..said };
    let listed = suite().listed_first(&facts);
    assert!(listed.tool.contains(PROGRAM_HELD_TEXT) && listed.meta.is_none(), "{listed:?}");
    assert!(!listed.tool.to_lowercase().contains("obey"), "{listed:?}");
    assert_eq!(suite().own_instructions(&facts), None);
}

#[test]
fn what_prevents_its_use_comes_first_with_the_remedy() {
    let check = |obstacle: PoolError, expect: &str| {
        let text = suite().description(&blocked(obstacle));
        let rest = text.strip_prefix(expect).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(rest, " Use this tool for kid. Actions: 'introspect' | 'call'. Tools: echo");
    };
    let misconfigured = |why: &str| NotLaunchable::Misconfigured(why.to_owned()).into();
    check(
        misconfigured("missing `TOKEN`; set it with `switchboard secret set TOKEN`"),
        "Not available: missing `TOKEN`; set it with `switchboard secret set TOKEN`.",
    );
    check(
        misconfigured("command `npx` not found in PATH `/usr/local/bin:/usr/bin:/bin`"),
        "Not available: command `npx` not found; see `switchboard explain kid_suite`.",
    );
    check(
        ChildError::Spawn { why: "its directory `/home/you/a/b/c`: no such file".to_owned() }.into(),
        "Not available: its directory `…/b/c`: no such file; see `switchboard explain kid_suite`.",
    );
    let exited =
        |stderr: &str| ChildError::ExitedAtStart { exit: ChildExit::Status(1), stderr: stderr.to_owned() };
    let sentence = "Not available: it exited with status 1 when it was started; see `switchboard logs kid_suite`. A call tries again.";
    check(exited("12:01 hunter2").into(), sentence);
    check(exited("12:02 another").into(), sentence);
    check(
        PoolError::CoolingDown { last: exited("x"), ms: 900 },
        "Not available: it keeps failing (exited with status 1 when it was started); see `switchboard logs kid_suite`. A call tries again after a pause.",
    );
    let login = AuthError::Login { child: "kid".into(), open: Some("https://x.example/secret".into()) };
    check(
        ChildError::Remote(RemoteError::Auth(login)).into(),
        "Not available: it needs a login; the user runs `switchboard login kid_suite`.",
    );
    let broken = suite_with(&json!({}), |entry| {
        Arc::get_mut(&mut entry.definition).unwrap().launch = Err("no command".to_owned());
    });
    assert_eq!(
        broken.description(&SuiteFacts::default()),
        "Not available: no command; the user fixes `kid/.mcp.json`. Use this tool for kid. Actions: 'introspect' | 'call'"
    );
    let config = json!({"suites": {"kid": {"description": "Mine."}}});
    let described = suite_with(&config, |_| {}).description(&blocked(misconfigured("missing `X`")));
    assert_eq!(described, "Not available: missing `X`; see `switchboard explain kid_suite`. Mine.");
}

#[test]
fn hosts_that_search_find_what_does_not_fit() {
    let names = ["open_page", "take_screenshot", "list_pages", "zoom"];
    let config = json!({"suites": {"kid": {"description": "A browser: open pages.", "alwaysLoad": true}}});
    let mut tools = named(&names);
    tools[1]["_meta"] = json!({"anthropic/maxResultSizeChars": 90000});
    tools[3]["_meta"] = json!({"anthropic/maxResultSizeChars": "many"});
    let listed = suite_with(&config, |_| {}).listed_first(&facts(&json!({"name": "kid"}), None, &tools));
    assert_eq!(
        listed.meta.as_deref(),
        Some(
            r#""_meta":{"anthropic/searchHint":"take screenshot zoom","anthropic/alwaysLoad":true,"anthropic/maxResultSizeChars":90000}"#
        )
    );
    // Words of what the tools say come after those of their names.
    tools[0]["description"] = "Opens a webpage in the browser and returns results.".into();
    let listed = suite_with(&config, |_| {}).listed_first(&facts(&json!({"name": "kid"}), None, &tools));
    assert!(listed.meta.unwrap().starts_with(
        r#""_meta":{"anthropic/searchHint":"take screenshot zoom webpage","anthropic/alwaysLoad""#
    ));
    // Everything is in the description already.
    assert_eq!(suite().listed_first(&facts(&json!({"name": "kid"}), None, &named(&names))).meta, None);
    let many: Vec<String> = (0..300).map(|n| format!("word{n}")).collect();
    let many = named(&many.iter().map(String::as_str).collect::<Vec<_>>());
    let meta = suite().listed_first(&facts(&json!({"name": "kid"}), None, &many)).meta.unwrap();
    assert!(meta.len() < MAX_HINT_CHARS + 60 && !meta.contains("word200"), "{meta}");
}

#[test]
fn instructions_do_not_repeat_the_description() {
    let said = facts(&json!({"name": "kid"}), Some("# Kid\nReads mail. Ask **before** you send."), &[]);
    assert_eq!(suite().own_instructions(&said).as_deref(), Some("Ask before you send."));
    let said = facts(&json!({"name": "kid"}), Some("Reads mail."), &[]);
    assert_eq!(suite().own_instructions(&said), None);
}

impl Suite {
    /// The entry with the suite's own name.
    fn listed_first(&self, facts: &SuiteFacts) -> ListedTool {
        self.listed_tools(facts).remove(0)
    }
}
