//! Reads a [`Config`] from the members of the file. Tests compare the key lists with the schema.

mod introspection;
mod misplaced;
mod oauth;
mod permissions;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::{
    BudgetConfig, Config, ConfigOwner, Conflicts, DriftPolicy, Http, PoolConfig, RecordMode, Restrictions,
    Scope, Strategy, SuiteConfig, Timeouts, TimeoutsOverride, TrustConfig, Watch,
};
use crate::document::{Fields, Node};
use crate::suite_name;
pub(super) use introspection::INTROSPECTION;
use introspection::{introspection, summary};
pub(super) use misplaced::unread;
use misplaced::{
    NESTED_KEYS, STRICTEST_TRUST, closed, inside, misplaced_reason, mistyped, restrict_misplaced,
    restrict_misplaced_in_suites, strictest,
};
use oauth::oauth;
pub(super) use oauth::{CLIENT, OAUTH};

pub(super) const ROOT: [&str; 14] = [
    "$schema",
    "discoverGlobs",
    "projectFiles",
    "suites",
    "timeouts",
    "introspection",
    "conflicts",
    "http",
    "budget",
    "trust",
    "oauth",
    "watch",
    "record",
    "aggregate",
];
/// Keys that a workspace cannot set.
pub(super) const PERSONAL_ONLY_KEYS: [&str; 7] =
    ["http", "budget", "trust", "oauth", "watch", "record", "aggregate"];
pub(super) const AGGREGATE: [&str; 1] = ["find"];
pub(super) const TRUST: [&str; 3] = ["elicit", "roots", "drift"];
pub(super) const SUITE: [&str; 13] = [
    "suiteName",
    "description",
    "alwaysLoad",
    "expose",
    "summaryMaxChars",
    "timeouts",
    "pool",
    "redact",
    "validate",
    "split",
    "confirm",
    "show",
    "workspaces",
];
pub(super) const POOL: [&str; 4] = ["scope", "warm", "max", "idleMs"];
pub(super) const BUDGET: [&str; 2] = ["children", "memoryMb"];
pub(super) const EXPOSE: [&str; 2] = ["allow", "deny"];
pub(super) const TIMEOUTS: [&str; 3] = ["childSpawnMs", "rpcMs", "maxMs"];
pub(super) const CONFLICTS: [&str; 2] = ["strategy", "order"];
pub(super) const HTTP: [&str; 3] = ["listen", "openDiscovery", "allowedOrigins"];

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// Each glob is a walk through folders.
const MAX_GLOBS: usize = 64;
const MAX_POOL: u64 = 64;
const MAX_CHILDREN: u64 = 1024;
const MAX_MEMORY_MB: u64 = 1024 * 1024;

/// Reads as much as can be understood. A mistake never makes a setting laxer than what was written; if the
/// meaning is unclear, the strictest value is used.
pub(super) fn config(fields: &Fields<'_>, folder: &Path, extent: ConfigOwner) -> Config {
    fields.reject_unknown(&ROOT);
    let mut config = Config::defaults(folder);
    if extent == ConfigOwner::Workspace {
        for node in PERSONAL_ONLY_KEYS.iter().filter_map(|name| Some((name, fields.get(name)?))) {
            let (name, node) = node;
            node.complain(format!("`{name}` is for the personal config only"));
        }
    }
    let may_have = |name: &str| extent == ConfigOwner::Personal || !PERSONAL_ONLY_KEYS.contains(&name);
    let get = |name: &str| fields.get(name).filter(|_| may_have(name));
    // Only editors use it, but a schema that is no text is a mistake to them, too.
    let _ = fields.get("$schema").map(|node| node.text());
    if let Some(node) = fields.get("discoverGlobs") {
        config.discover_globs = self::globs(&node).unwrap_or_default();
    }
    if let Some(node) = fields.get("projectFiles") {
        config.project_files = node.flag().unwrap_or(false);
    }
    let suites = fields.get("suites");
    if let Some(node) = suites.as_ref().filter(|node| !node.is_object()) {
        strictest(&mut config, "suites", &node.location());
    }
    if let Some(suites) = suites.and_then(|node| node.object()) {
        let mut names = HashSet::new();
        for (child, node) in suites.entries() {
            let mut read = suite(&node, extent);
            if let Some(name) = read.suite_name.take_if(|name| !names.insert(name.clone()))
                && let Some(node) = node.object().and_then(|fields| fields.get("suiteName"))
            {
                node.complain(format!("two suites are named `{name}`"));
            }
            config.suites.insert(child.to_owned(), read);
        }
    }
    if let Some(node) = fields.get("timeouts") {
        let change = timeouts(&node);
        let base = config.timeouts;
        config.timeouts = Timeouts {
            child_spawn_ms: change.child_spawn_ms.unwrap_or(base.child_spawn_ms),
            rpc_ms: change.rpc_ms.unwrap_or(base.rpc_ms),
            max_ms: change.max_ms.unwrap_or(base.max_ms),
        };
    }
    if let Some(node) = get("introspection") {
        config.introspection = introspection(&node, config.introspection);
    }
    config.conflicts =
        fields.get("conflicts").and_then(|node| node.object()).map(|fields| conflicts(&fields));
    if let Some(node) = get("http") {
        config.http = http(&node, config.http);
    }
    if let Some(fields) = get("budget").and_then(|node| node.object()) {
        config.budget = budget(&fields, config.budget);
    }
    if let Some(node) = get("trust") {
        config.trust = trust(&node, folder);
    }
    if let Some(fields) = get("oauth").and_then(|node| node.object()) {
        config.oauth = oauth(&fields, folder);
    }
    if let Some(node) = get("watch") {
        let ways = [Watch::Events, Watch::Poll].map(|way| (way.as_str(), way));
        config.watch = node.word(&ways).unwrap_or_default();
    }
    if let Some(node) = get("record") {
        config.record =
            node.word(&RecordMode::ALL.map(|mode| (mode.as_str(), mode))).unwrap_or(RecordMode::Off);
    }
    if let Some(fields) = get("aggregate").and_then(|node| node.object()) {
        fields.reject_unknown(&AGGREGATE);
        config.find = fields.get("find").and_then(|node| node.flag()).unwrap_or(false);
    }
    let strangers = fields.unknown_members(&ROOT);
    for (name, near) in &strangers.first {
        let Some(node) = fields.get(name) else { continue };
        mistyped(&mut config, name, *near, &node);
    }
    if strangers.are_more {
        let place = fields.location();
        NESTED_KEYS.iter().for_each(|(_, outer)| strictest(&mut config, outer, &place));
    }
    if fields.problem_count() > 0 {
        for (key, node) in fields.entries().filter(|(key, _)| ROOT.contains(key)) {
            match key {
                "suites" if node.is_object() => restrict_misplaced_in_suites(&mut config, &node),
                _ => restrict_misplaced(&mut config, &node, inside(key)),
            }
        }
    }
    config
}

fn conflicts(fields: &Fields<'_>) -> Conflicts {
    fields.reject_unknown(&CONFLICTS);
    let strategies = [Strategy::Prefix, Strategy::First, Strategy::Refuse].map(|way| (way.as_str(), way));
    Conflicts {
        strategy: fields.get("strategy").and_then(|node| node.word(&strategies)).unwrap_or_default(),
        order: fields.get("order").and_then(|node| node.texts()).unwrap_or_default(),
    }
}

fn trust(node: &Node<'_>, folder: &Path) -> TrustConfig {
    let before = node.problem_count();
    let Some(fields) = node.object() else { return STRICTEST_TRUST };
    fields.reject_unknown(&TRUST);
    let roots = fields.get("roots").and_then(|node| {
        let roots = node.texts()?;
        if let Some(relative) = roots.iter().find(|root| !Path::new(root).is_absolute()) {
            node.complain(format!("`{relative}` is not an absolute path"));
        }
        Some(roots.iter().map(|root| folder.join(root)).collect())
    });
    let elicit = fields.get("elicit").and_then(|node| node.flag());
    let policies = [DriftPolicy::Warn, DriftPolicy::Hold].map(|policy| (policy.as_str(), policy));
    let drift = fields.get("drift").and_then(|node| node.word(&policies));
    if node.problem_count() > before {
        return TrustConfig { elicit: elicit.unwrap_or(false), ..STRICTEST_TRUST };
    }
    TrustConfig {
        elicit: elicit.unwrap_or(true),
        roots: roots.unwrap_or_default(),
        drift: drift.unwrap_or_default(),
    }
}

/// Keys of a suite that hide nothing: a mistake in one of them affects that key only.
const NON_RESTRICTING_KEYS: [&str; 9] = [
    "suiteName",
    "description",
    "alwaysLoad",
    "summaryMaxChars",
    "timeouts",
    "pool",
    "validate",
    "split",
    "show",
];

fn suite(node: &Node<'_>, extent: ConfigOwner) -> SuiteConfig {
    let Some(fields) = node.object() else {
        return SuiteConfig {
            unusable_reason: Some(misplaced_reason(&node.location())),
            ..SuiteConfig::default()
        };
    };
    fields.reject_unknown(&SUITE);
    let strangers = fields.unknown_members(&SUITE);
    let is_harmless = |near: Option<&str>| near.is_some_and(|near| NON_RESTRICTING_KEYS.contains(&near));
    let mut hides = strangers.are_more || strangers.first.iter().any(|(_, near)| !is_harmless(*near));
    let suite_name = fields.get("suiteName").and_then(|node| {
        let name = node.text()?;
        if !suite_name::is_valid(&name) {
            node.complain(format!(
                "`{name}` cannot be a suite's name: 1 to {} letters, digits, `_` or `-`",
                suite_name::MAX
            ));
            return None;
        }
        Some(name)
    });
    let split = permissions::split(&fields, &strangers);
    let mut restrictions = Restrictions { suite_name, split, ..Restrictions::default() };
    let before = node.problem_count();
    let redact = fields.get("redact").and_then(|node| node.texts()).unwrap_or_default();
    fields.get("expose").iter().for_each(|node| permissions::expose(node, &mut restrictions));
    fields.get("confirm").iter().for_each(|node| permissions::confirm(node, &mut restrictions));
    let workspaces = fields.get("workspaces").and_then(|node| match extent {
        ConfigOwner::Personal => workspaces(&node),
        ConfigOwner::Workspace => {
            node.complain("`workspaces` is for the personal config only");
            None
        }
    });
    hides |= node.problem_count() > before;
    let mut suite = SuiteConfig {
        description: fields.get("description").and_then(|node| node.text()),
        always_load: fields.get("alwaysLoad").and_then(|node| node.flag()).unwrap_or(false),
        summary_max_chars: fields.get("summaryMaxChars").and_then(|node| summary(&node)),
        timeouts: fields.get("timeouts").map_or_else(TimeoutsOverride::default, |node| timeouts(&node)),
        pool: fields.get("pool").map_or_else(PoolConfig::default, |node| pool(&node)),
        redact,
        validate: fields.get("validate").and_then(|node| node.flag()),
        show: permissions::show(&fields),
        workspaces,
        unusable_reason: hides.then(|| misplaced_reason(&node.location())),
        ..SuiteConfig::default()
    };
    suite.restrict(&restrictions);
    suite
}

/// Absolute paths of folders.
fn workspaces(node: &Node<'_>) -> Option<Vec<PathBuf>> {
    let folders = node.texts()?;
    if let Some(relative) = folders.iter().find(|folder| !Path::new(folder).is_absolute()) {
        node.complain(format!("`{relative}` is not an absolute path"));
    }
    Some(folders.into_iter().map(PathBuf::from).collect())
}

fn pool(node: &Node<'_>) -> PoolConfig {
    let Some(fields) = node.object() else { return PoolConfig::default() };
    fields.reject_unknown(&POOL);
    let scopes =
        [Scope::Shared, Scope::Session, Scope::Call, Scope::Workspace].map(|scope| (scope.as_str(), scope));
    let strangers = fields.unknown_members(&POOL);
    let mistyped = strangers.are_more || strangers.first.iter().any(|(_, near)| *near == Some("scope"));
    let mut config = PoolConfig {
        // If the scope is unclear, no sessions share a child that may be meant for one.
        scope: match fields.get("scope") {
            Some(node) => node.word(&scopes).or(Some(Scope::Session)),
            None => mistyped.then_some(Scope::Session),
        },
        warm: fields.get("warm").and_then(|node| count(&node, 0, MAX_POOL)),
        max: fields.get("max").and_then(|node| count(&node, 1, MAX_POOL)),
        idle_ms: fields.get("idleMs").and_then(|node| node.number(1, DAY_MS)),
    };
    if let (Some(warm), Some(max)) = (config.warm, config.max)
        && warm > max
    {
        node.complain(format!("`warm` ({warm}) must not be more than `max` ({max})"));
        config.warm = None;
    }
    config
}

fn budget(fields: &Fields<'_>, base: BudgetConfig) -> BudgetConfig {
    fields.reject_unknown(&BUDGET);
    BudgetConfig {
        children: fields
            .get("children")
            .and_then(|node| count(&node, 1, MAX_CHILDREN))
            .unwrap_or(base.children),
        memory_mb: fields.get("memoryMb").and_then(|node| node.number(1, MAX_MEMORY_MB)).or(base.memory_mb),
    }
}

fn count(node: &Node<'_>, least: u64, most: u64) -> Option<usize> {
    node.number(least, most).and_then(|number| usize::try_from(number).ok())
}

fn timeouts(node: &Node<'_>) -> TimeoutsOverride {
    let Some(fields) = node.object() else { return TimeoutsOverride::default() };
    fields.reject_unknown(&TIMEOUTS);
    let millis = |name| fields.get(name).and_then(|node| node.number(1, DAY_MS));
    TimeoutsOverride {
        child_spawn_ms: millis("childSpawnMs"),
        rpc_ms: millis("rpcMs"),
        max_ms: millis("maxMs"),
    }
}

fn http(node: &Node<'_>, base: Http) -> Http {
    let before = node.problem_count();
    let Some(fields) = node.object() else { return closed() };
    fields.reject_unknown(&HTTP);
    let listen = fields.get("listen").and_then(|node| {
        let text = node.text()?;
        listen_problem(&text).map_or(Some(text), |problem| {
            node.complain(problem);
            None
        })
    });
    let open_discovery = fields.get("openDiscovery").and_then(|node| node.flag());
    let allowed_origins = fields.get("allowedOrigins").and_then(|node| origins(&node));
    let base = if node.problem_count() > before { closed() } else { base };
    Http {
        is_any_port: listen.is_none() && base.is_any_port,
        listen: listen.unwrap_or(base.listen),
        open_discovery: open_discovery.unwrap_or(base.open_discovery),
        allowed_origins: allowed_origins.unwrap_or(base.allowed_origins),
    }
}

/// Origins as browsers send them.
fn origins(node: &Node<'_>) -> Option<Vec<String>> {
    let is_origin = |text: &str| {
        text.split_once("://").is_some_and(|(scheme, host)| {
            let in_scheme = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+.-".contains(c);
            scheme.starts_with(|c: char| c.is_ascii_lowercase())
                && scheme.chars().all(in_scheme)
                && !host.is_empty()
                && !host.contains(['/', '?', '#', '@', ' '])
        })
    };
    let origins = node.texts()?;
    let Some(wrong) = origins.iter().find(|text| !is_origin(text)) else { return Some(origins) };
    node.complain(format!("`{wrong}` is not an origin such as `http://localhost:3000`"));
    None
}

/// The problem with a `listen` address, if there is one.
pub fn listen_problem(listen: &str) -> Option<String> {
    if listen == "off" {
        return None;
    }
    match listen.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => None,
        Ok(address) => {
            Some(format!("`{address}` is not a loopback address; others could reach your tools there"))
        }
        Err(_) => Some(format!("`{listen}` is neither `ADDRESS:PORT` nor `off`")),
    }
}

/// Drops globs that are invalid or leave the folder of the file.
fn globs(node: &Node<'_>) -> Option<Vec<String>> {
    let mut globs = node.texts()?;
    if globs.len() > MAX_GLOBS {
        node.complain(format!("more than {MAX_GLOBS} globs"));
        globs.truncate(MAX_GLOBS);
    }
    globs.retain(|glob| {
        if glob.starts_with('/') || glob.split('/').any(|part| part == "..") {
            node.complain(format!("`{glob}` must stay inside the folder of this file"));
            return false;
        }
        let wrong = globset::Glob::new(glob).err();
        wrong.iter().for_each(|error| node.complain(format!("`{glob}` is not a glob: {error}")));
        wrong.is_none()
    });
    Some(globs)
}

#[cfg(test)]
mod tests {
    use super::super::Mode;
    use super::*;
    use crate::document::Document;

    fn understood(text: &str) -> Config {
        let document = Document::from_text(Path::new("/c/switchboard.config.json"), text);
        let (config, problems) = Config::of_document(&document, Path::new("/c"), ConfigOwner::Personal);
        assert!(!problems.is_empty(), "{text}");
        config
    }

    #[test]
    fn a_mistake_affects_only_its_own_part() {
        let config = understood(
            r#"{"nonsense": 1, "timeouts": {"rpcMs": 5, "maxMs": "x"}, "watch": "poll", "suites": {"a": {"suiteName": "x y", "description": "d"}}}"#,
        );
        assert_eq!((config.timeouts.rpc_ms, config.timeouts.max_ms), (5, 1_800_000));
        assert_eq!(config.watch, Watch::Poll);
        let suite = config.suite("a");
        assert_eq!((suite.suite_name, suite.description.as_deref()), (None, Some("d")));
        assert_eq!(config.unusable_reason("a"), None);
        assert_eq!((&*config.http.listen, config.trust.elicit), ("127.0.0.1:7420", true));
        let globs = understood(r#"{"discoverGlobs": ["a/*", "../b", "/c", "["]}"#).discover_globs;
        assert_eq!(globs, ["a/*"]);
    }

    #[test]
    fn a_server_whose_tools_may_be_hidden_is_not_shown() {
        for suite in [
            r#"{"expose": {"alow": ["x"]}}"#,
            r#"{"expose": {"deny": "x"}}"#,
            r#"{"expose": {"deny": ["["]}}"#,
            r#"{"expose": []}"#,
            r#"{"expsoe": {}}"#,
            r#"{"deny": ["x"]}"#,
            r#"{"redact": "token"}"#,
            r#"{"redcat": ["token"]}"#,
            r#"{"workspaces": "/w"}"#,
            r#"{"workspaces": ["w"]}"#,
            r#"{"workspace": ["/w"]}"#,
            "[]",
            "null",
        ] {
            let config = understood(&format!(r#"{{"suites": {{"a": {suite}, "b": {{"validate": 1}}}}}}"#));
            let why = config.unusable_reason("a").unwrap_or_else(|| panic!("{suite}"));
            assert!(why.contains("/c/switchboard.config.json:1:18"), "{why}");
            assert_eq!(config.unusable_reason("b"), None, "{suite}");
        }
        for (text, of_b) in [
            (r#"{"suite": {"a": {"expose": {"deny": ["x"]}}}}"#, false),
            (r#"{"expose": {"deny": ["x"]}}"#, true),
            (r#"{"deny": ["x"]}"#, true),
            (r#"{"suites": {"a": {"expose": {"deny": ["x"]}}}"#, true),
            (r#"{"suites": {"a": {"expose": {}}}, "watch": "poll", "watch": "poll"}"#, true),
        ] {
            let config = understood(text);
            assert!(config.unusable_reason("a").is_some(), "{text}");
            assert_eq!(config.unusable_reason("b").is_some(), of_b, "{text}");
        }
        assert_eq!(understood("{").unusable_reason("a"), None);
        assert_eq!(understood(r#"{"suite": {}}"#).unusable_reason("a"), None);
        // The number of mistakes does not matter.
        let many: String = (0..200).map(|n| format!(r#""k{n}": {{"timeouts": {{"x": 1}}}},"#)).collect();
        let config = understood(&format!(r#"{{"suites": {{{many} "last": {{"expose": {{"x": 1}}}}}}}}"#));
        assert!(config.unusable_reason("last").is_some() && config.unusable_reason("k1").is_none());
    }

    #[test]
    fn misplaced_suites_make_all_servers_unclear() {
        for text in [
            r#"{"suites": [{"a": {"expose": {"deny": ["x"]}}}]}"#,
            r#"{"suites": null}"#,
            r#"{"switchboard": {"suites": {"a": {"expose": {"deny": ["x"]}}}}}"#,
        ] {
            assert!(understood(text).unusable_reason("a").is_some(), "{text}");
        }
        assert_eq!(understood(r#"{"nonsense": {"b": {"c": 1}}}"#).unusable_reason("a"), None);
    }

    #[test]
    fn misplaced_settings_apply_the_strictest_value() {
        let settings = r#"{"http": {"listen": "off"}, "trust": {"elicit": false}, "introspection": {"mode": "redacted"},
            "suites": {"a": {"expose": {"deny": ["x"]}, "pool": {"scope": "session"}}}, "discoverGlobs": ["mine/*"]}"#;
        for text in [
            format!(r#"{{"switchboard": {settings}}}"#),
            format!(r#"{{"config": [{settings}]}}"#),
            format!(r#"{{"a": {{"b": [[{{"c": {settings}}}]]}}}}"#),
            format!(r#"{{"timeouts": {settings}}}"#),
            format!(r#"{{"watch": [{settings}]}}"#),
        ] {
            let config = understood(&text);
            assert_eq!((&config.http, &config.trust), (&closed(), &STRICTEST_TRUST), "{text}");
            assert_eq!(config.introspection.mode, Mode::Redacted, "{text}");
            assert_eq!(config.suite("b").pool.scope, Some(Scope::Session), "{text}");
            assert!(config.unusable_reason("a").is_some() && config.discover_globs.is_empty(), "{text}");
        }
        // Each setting by itself affects only its own part.
        for (inner, outer) in NESTED_KEYS {
            for text in [
                format!(r#"{{"switchboard": {{"{inner}": []}}}}"#),
                format!(r#"{{"settings": [{{"{inner}": []}}]}}"#),
                format!(r#"{{"budget": {{"{inner}": []}}}}"#),
            ] {
                let config = understood(&text);
                let is_strict = |part: &str| match part {
                    "suites" => config.unusable_reason.is_some(),
                    "pool" => config.scope.is_some(),
                    "trust" => !config.trust.elicit,
                    "http" => config.http == closed(),
                    _ => config.introspection.mode == Mode::Redacted,
                };
                for part in ["suites", "pool", "trust", "http", "introspection"] {
                    assert_eq!(is_strict(part), part == outer, "{text}: {part}");
                }
            }
        }
    }

    #[test]
    fn misplaced_settings_in_a_suite_affect_that_suite_only() {
        for text in [
            r#"{"suites": {"a": {"timeouts": {"deny": ["x"]}}, "b": {}}}"#,
            r#"{"suites": {"a": {"pool": {"expose": {"deny": ["x"]}}}, "b": {}}}"#,
            r#"{"suites": {"a": {"pol": {"redact": ["x"]}}, "b": {}}}"#,
        ] {
            let config = understood(text);
            assert!(config.unusable_reason("a").is_some() && config.unusable_reason("b").is_none(), "{text}");
            assert_eq!((&*config.http.listen, config.trust.elicit), ("127.0.0.1:7420", true), "{text}");
        }
        for scope in [r#"{"pol": {"scope": "session"}}"#, r#"{"timeouts": {"scope": "session"}}"#] {
            let config = understood(&format!(r#"{{"suites": {{"a": {scope}, "b": {{}}}}}}"#));
            let scopes = ["a", "b"].map(|child| config.suite(child).pool.scope);
            assert_eq!(scopes, [Some(Scope::Session), None], "{scope}");
        }
        let config = understood(r#"{"suites": {"http": {"listen": "off"}}}"#);
        assert_eq!(config.http, closed());
        // Servers may have any name, and a mistake elsewhere does not affect correctly placed settings.
        let config = understood(
            r#"{"nonsense": 1, "suites": {"http": {"expose": {"deny": ["x"]}, "pool": {"scope": "call"}}, "trust": {}},
                "oauth": {"clients": {"mode": {"clientId": "x"}}}, "introspection": {"mode": "full"}}"#,
        );
        assert_eq!((config.unusable_reason("http"), config.introspection.mode), (None, Mode::Full));
        assert_eq!((&*config.http.listen, config.trust.elicit, config.scope), ("127.0.0.1:7420", true, None));
        assert_eq!(config.suite("http").pool.scope, Some(Scope::Call));
    }

    #[test]
    fn too_many_unknown_keys_apply_the_strictest_values() {
        let many: String = (0..64).map(|n| format!(r#""k{n}": 1, "#)).collect();
        let config = understood(&format!(r#"{{{many} "nonsense": 1}}"#));
        assert_eq!((&config.http, &config.trust), (&closed(), &STRICTEST_TRUST));
        assert_eq!((config.introspection.mode, config.scope), (Mode::Redacted, Some(Scope::Session)));
        assert!(config.unusable_reason("a").is_some());
        let timeouts: String = (0..64).map(|n| format!(r#""timeout{n}": 1, "#)).collect();
        let config = understood(&format!(
            r#"{{"suites": {{"a": {{{timeouts} "expsoe": {{}}}}, "b": {{"pool": {{{many} "scop": "session"}}}}}}}}"#
        ));
        assert!(config.unusable_reason("a").is_some() && config.unusable_reason("b").is_none());
        assert_eq!(config.suite("b").pool.scope, Some(Scope::Session));
        let chars: String = (0..64).map(|n| format!(r#""summaryMaxChars{n}": 1, "#)).collect();
        let config = understood(&format!(r#"{{"introspection": {{{chars} "mod": "redacted"}}}}"#));
        assert_eq!(config.introspection.mode, Mode::Redacted);
    }

    #[test]
    fn a_mistake_never_makes_a_setting_laxer() {
        for (text, listen) in [
            (r#"{"http": {"listen": "Off"}}"#, "off"),
            (r#"{"http": {"lisen": "off"}}"#, "off"),
            (r#"{"http": {"listen": "127.0.0.1:1", "openDiscovry": false}}"#, "127.0.0.1:1"),
            (r#"{"htp": {"openDiscovery": false}}"#, "off"),
            (r#"{"http": 1}"#, "off"),
            (r#"{"listen": "off"}"#, "off"),
            (r#"{"http": {"listen": "off""#, "off"),
        ] {
            let http = understood(text).http;
            assert_eq!(http.listen, listen, "{text}");
            assert!(!http.open_discovery && http.allowed_origins.is_empty(), "{text}");
        }
        for text in [
            r#"{"trust": {"elict": false, "roots": ["/x"]}}"#,
            r#"{"trust": {"elicit": "no"}}"#,
            r#"{"trust": {"elicit": false, "roots": ["relative"]}}"#,
            r#"{"trsut": {"elicit": false}}"#,
            r#"{"trust": {"elicit": false"#,
            r#"{"trust": []}"#,
        ] {
            assert_eq!(understood(text).trust, STRICTEST_TRUST, "{text}");
        }
        for text in [
            r#"{"introspection": {"mode": "redact"}}"#,
            r#"{"introspection": {"mod": "redacted"}}"#,
            r#"{"introspecton": {"mode": "redacted"}}"#,
            r#"{"introspection": {"mode": "redacted"}"#,
        ] {
            assert_eq!(understood(text).introspection.mode, Mode::Redacted, "{text}");
        }
        let pool =
            |pool: &str| understood(&format!(r#"{{"suites": {{"a": {{"pool": {pool}}}}}}}"#)).suite("a").pool;
        assert_eq!(pool(r#"{"scope": "sesion"}"#).scope, Some(Scope::Session));
        assert_eq!(pool(r#"{"scop": "session"}"#).scope, Some(Scope::Session));
        assert_eq!(pool(r#"{"max": "x"}"#).scope, None);
        for text in [r#"{"suites": {"a": {"pool": {"scope": "session"}"#, r#"{"scope": "session"}"#] {
            assert_eq!(understood(text).suite("a").pool.scope, Some(Scope::Session), "{text}");
        }
        assert_eq!(understood("{").suite("a").pool.scope, None);
        for text in [
            r#"{"discoverGlobs": ["mine/*/.mcp.json"]"#,
            r#"{"discoverGlob": ["mine/*/.mcp.json"]}"#,
            r#"{"discoverGlobs": "mine/*/.mcp.json"}"#,
        ] {
            assert!(understood(text).discover_globs.is_empty(), "{text}");
        }
        assert_eq!(understood("{").discover_globs, ["mcps/*/.mcp.json"]);
        for text in [
            r#"{"projectFiles": "no"}"#,
            r#"{"projectFile": true}"#,
            r#"{"http": {"projectFiles": false}}"#,
            r#"{"projectFiles": false"#,
        ] {
            assert!(!understood(text).project_files, "{text}");
        }
        assert!(understood("{").project_files);
    }

    #[test]
    fn a_workspace_sets_nothing_of_the_users_own() {
        let text = r#"{"http": {"listen": "127.0.0.1:1"}, "trust": {"roots": ["/"]}, "budget": {"children": 1}, "watch": "poll", "record": "arguments"}"#;
        let document = Document::from_text(Path::new("/w/switchboard.config.json"), text);
        let (config, problems) = Config::of_document(&document, Path::new("/w"), ConfigOwner::Workspace);
        assert_eq!(problems.len(), 5);
        let defaults = Config::defaults(Path::new("/w"));
        assert_eq!((config.http, config.trust), (defaults.http, defaults.trust));
        assert_eq!((config.budget, config.watch), (defaults.budget, defaults.watch));
        assert_eq!(config.record, RecordMode::Calls);
    }

    #[test]
    fn a_mistake_never_makes_the_record_say_more() {
        for mode in RecordMode::ALL {
            let text = format!(r#"{{"record": "{}"}}"#, mode.as_str());
            let document = Document::from_text(Path::new("/c/switchboard.config.json"), &text);
            let config = Config::parse(&document, Path::new("/c"), ConfigOwner::Personal).unwrap();
            assert_eq!(config.record, mode);
        }
        for text in [
            r#"{"record": "of"}"#,
            r#"{"record": false}"#,
            r#"{"recrod": "off"}"#,
            r#"{"http": {"record": "off"}}"#,
            r#"{"record": "off""#,
        ] {
            assert_eq!(understood(text).record, RecordMode::Off, "{text}");
        }
    }
}
