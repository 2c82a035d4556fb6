//! From the members of the file to a [`Config`]. The key lists are what the schema is held against.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::path::Path;

use url::Url;

use super::{
    BudgetConfig, ClientConfig, Config, Conflicts, Expose, Extent, Http, Introspection, Mode, OauthConfig,
    PoolConfig, Scope, Strategy, SuiteConfig, Timeouts, TimeoutsOverride, TrustConfig, Watch, glob_set,
};
use crate::document::{Fields, Node};
use crate::expand::{Places, Template};
use crate::suite_name;

pub(super) const ROOT: [&str; 11] = [
    "$schema",
    "discoverGlobs",
    "suites",
    "timeouts",
    "introspection",
    "conflicts",
    "http",
    "budget",
    "trust",
    "oauth",
    "watch",
];
/// What a workspace has no say in.
const PERSONAL: [&str; 5] = ["http", "budget", "trust", "oauth", "watch"];
pub(super) const TRUST: [&str; 2] = ["elicit", "roots"];
pub(super) const OAUTH: [&str; 2] = ["clientIdUrl", "clients"];
pub(super) const CLIENT: [&str; 5] = ["clientId", "clientSecret", "issuer", "scopes", "callbackPort"];
pub(super) const SUITE: [&str; 8] =
    ["suiteName", "description", "expose", "summaryMaxChars", "timeouts", "pool", "redact", "validate"];
pub(super) const POOL: [&str; 4] = ["scope", "warm", "max", "idleMs"];
pub(super) const BUDGET: [&str; 2] = ["children", "memoryMb"];
pub(super) const EXPOSE: [&str; 2] = ["allow", "deny"];
pub(super) const TIMEOUTS: [&str; 3] = ["childSpawnMs", "rpcMs", "maxMs"];
pub(super) const INTROSPECTION: [&str; 2] = ["mode", "summaryMaxChars"];
pub(super) const CONFLICTS: [&str; 2] = ["strategy", "order"];
pub(super) const HTTP: [&str; 3] = ["listen", "openDiscovery", "allowedOrigins"];

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
const SUMMARY: (u64, u64) = (8, 4096);
/// Each is a walk through folders.
const MAX_GLOBS: usize = 64;
const MAX_POOL: u64 = 64;
const MAX_CHILDREN: u64 = 1024;
const MAX_MEMORY_MB: u64 = 1024 * 1024;

pub(super) fn config(fields: &Fields<'_>, folder: &Path, extent: Extent) -> Config {
    fields.only(&ROOT);
    let mut config = Config::defaults(folder);
    if extent == Extent::Workspace {
        for node in PERSONAL.iter().filter_map(|name| Some((name, fields.get(name)?))) {
            let (name, node) = node;
            node.complain(format!("`{name}` has its place only in the personal config"));
        }
    }
    if let Some(globs) = fields.get("discoverGlobs").and_then(|node| self::globs(&node)) {
        config.discover_globs = globs;
    }
    if let Some(suites) = fields.get("suites").and_then(|node| node.object()) {
        let mut names = HashSet::new();
        for (child, node) in suites.entries() {
            let Some(read) = suite(&node) else { continue };
            if let Some(name) = &read.suite_name
                && !names.insert(name.clone())
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
    if let Some(fields) = fields.get("introspection").and_then(|node| node.object()) {
        config.introspection = introspection(&fields, config.introspection);
    }
    config.conflicts =
        fields.get("conflicts").and_then(|node| node.object()).map(|fields| conflicts(&fields));
    if let Some(fields) = fields.get("http").and_then(|node| node.object()) {
        config.http = http(&fields, config.http);
    }
    if let Some(fields) = fields.get("budget").and_then(|node| node.object()) {
        config.budget = budget(&fields, config.budget);
    }
    if let Some(fields) = fields.get("trust").and_then(|node| node.object()) {
        config.trust = trust(&fields, folder);
    }
    if let Some(fields) = fields.get("oauth").and_then(|node| node.object()) {
        config.oauth = oauth(&fields, folder);
    }
    if let Some(node) = fields.get("watch") {
        let ways = [Watch::Events, Watch::Poll].map(|way| (way.word(), way));
        config.watch = node.word(&ways).unwrap_or_default();
    }
    config
}

fn conflicts(fields: &Fields<'_>) -> Conflicts {
    fields.only(&CONFLICTS);
    let strategies = [Strategy::Prefix, Strategy::First, Strategy::Refuse].map(|way| (way.word(), way));
    Conflicts {
        strategy: fields.get("strategy").and_then(|node| node.word(&strategies)).unwrap_or_default(),
        order: fields.get("order").and_then(|node| node.texts()).unwrap_or_default(),
    }
}

fn trust(fields: &Fields<'_>, folder: &Path) -> TrustConfig {
    fields.only(&TRUST);
    let roots = fields.get("roots").and_then(|node| {
        let roots = node.texts()?;
        if let Some(relative) = roots.iter().find(|root| !Path::new(root).is_absolute()) {
            node.complain(format!("`{relative}` is not an absolute path"));
        }
        Some(roots.iter().map(|root| folder.join(root)).collect())
    });
    TrustConfig {
        elicit: fields.get("elicit").and_then(|node| node.flag()).unwrap_or(true),
        roots: roots.unwrap_or_default(),
    }
}

fn oauth(fields: &Fields<'_>, folder: &Path) -> OauthConfig {
    fields.only(&OAUTH);
    let client_id_url = fields.get("clientIdUrl").and_then(|node| {
        let url = node.text()?;
        if !is_document(&url) {
            node.complain(format!("`{url}` is no `https://` URL of a document"));
        }
        Some(url)
    });
    let mut clients = BTreeMap::new();
    for (child, node) in fields.get("clients").and_then(|node| node.object()).iter().flat_map(Fields::entries)
    {
        clients.extend(client(&node, folder).map(|client| (child.to_owned(), client)));
    }
    OauthConfig { client_id_url, clients }
}

/// Whether a URL can be the id of a client: that of a document, which anybody can fetch safely.
fn is_document(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        url.scheme() == "https" && url.path() != "/" && url.fragment().is_none() && url.username().is_empty()
    })
}

fn client(node: &Node<'_>, folder: &Path) -> Option<ClientConfig> {
    let fields = node.object()?;
    fields.only(&CLIENT);
    let text = |name| fields.get(name).and_then(|node| node.text());
    let client_secret = fields.get("clientSecret").and_then(|node| {
        let places = Places { folder: folder.to_owned(), root: folder.to_owned(), ..Places::default() };
        Template::parse(&node.text()?, &places).map_err(|why| node.complain(why)).ok()
    });
    if client_secret.is_some() && text("clientId").is_none() {
        node.complain("a `clientSecret` needs its `clientId`".to_owned());
    }
    // Without one, the server would decide who gets to see it.
    if client_secret.is_some() && text("issuer").is_none() {
        node.complain("a `clientSecret` needs the `issuer` that it is for".to_owned());
    }
    Some(ClientConfig {
        client_id: text("clientId"),
        client_secret,
        issuer: text("issuer"),
        scopes: fields.get("scopes").and_then(|node| node.texts()),
        callback_port: fields
            .get("callbackPort")
            .and_then(|node| node.number(1024, 65_535))
            .and_then(|port| u16::try_from(port).ok()),
    })
}

fn suite(node: &Node<'_>) -> Option<SuiteConfig> {
    let fields = node.object()?;
    fields.only(&SUITE);
    let suite_name = fields.get("suiteName").and_then(|node| {
        let name = node.text()?;
        if !suite_name::is_valid(&name) {
            node.complain(format!(
                "`{name}` cannot be a suite's name: 1 to {} letters, digits, `_` or `-`",
                suite_name::MAX
            ));
        }
        Some(name)
    });
    Some(SuiteConfig {
        suite_name,
        description: fields.get("description").and_then(|node| node.text()),
        expose: fields.get("expose").map_or_else(Expose::default, |node| expose(&node)),
        summary_max_chars: fields.get("summaryMaxChars").and_then(|node| summary(&node)),
        timeouts: fields.get("timeouts").map_or_else(TimeoutsOverride::default, |node| timeouts(&node)),
        pool: fields.get("pool").map_or_else(PoolConfig::default, |node| pool(&node)),
        redact: fields.get("redact").and_then(|node| node.texts()).unwrap_or_default(),
        validate: fields.get("validate").and_then(|node| node.flag()),
    })
}

fn pool(node: &Node<'_>) -> PoolConfig {
    let Some(fields) = node.object() else { return PoolConfig::default() };
    fields.only(&POOL);
    let scopes = [("shared", Scope::Shared), ("session", Scope::Session), ("call", Scope::Call)];
    let config = PoolConfig {
        scope: fields.get("scope").and_then(|node| node.word(&scopes)),
        warm: fields.get("warm").and_then(|node| count(&node, 0, MAX_POOL)),
        max: fields.get("max").and_then(|node| count(&node, 1, MAX_POOL)),
        idle_ms: fields.get("idleMs").and_then(|node| node.number(1, DAY_MS)),
    };
    if let (Some(warm), Some(max)) = (config.warm, config.max)
        && warm > max
    {
        node.complain(format!("`warm` ({warm}) must not be more than `max` ({max})"));
    }
    config
}

fn budget(fields: &Fields<'_>, base: BudgetConfig) -> BudgetConfig {
    fields.only(&BUDGET);
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

fn expose(node: &Node<'_>) -> Expose {
    let Some(fields) = node.object() else { return Expose::default() };
    fields.only(&EXPOSE);
    let set = |name| {
        let node = fields.get(name)?;
        let patterns = node.texts()?;
        glob_set(&patterns).map_err(|error| node.complain(format!("not a glob: {error}"))).ok()
    };
    Expose { allow: set("allow"), deny: set("deny") }
}

fn timeouts(node: &Node<'_>) -> TimeoutsOverride {
    let Some(fields) = node.object() else { return TimeoutsOverride::default() };
    fields.only(&TIMEOUTS);
    let millis = |name| fields.get(name).and_then(|node| node.number(1, DAY_MS));
    TimeoutsOverride {
        child_spawn_ms: millis("childSpawnMs"),
        rpc_ms: millis("rpcMs"),
        max_ms: millis("maxMs"),
    }
}

fn introspection(fields: &Fields<'_>, base: Introspection) -> Introspection {
    fields.only(&INTROSPECTION);
    let modes = [("summary", Mode::Summary), ("full", Mode::Full), ("redacted", Mode::Redacted)];
    Introspection {
        mode: fields.get("mode").and_then(|node| node.word(&modes)).unwrap_or(base.mode),
        summary_max_chars: fields
            .get("summaryMaxChars")
            .and_then(|node| summary(&node))
            .unwrap_or(base.summary_max_chars),
    }
}

fn summary(node: &Node<'_>) -> Option<usize> {
    count(node, SUMMARY.0, SUMMARY.1)
}

fn http(fields: &Fields<'_>, base: Http) -> Http {
    fields.only(&HTTP);
    let listen = fields.get("listen").and_then(|node| {
        let text = node.text()?;
        listen_problem(&text).map_or(Some(text), |problem| {
            node.complain(problem);
            None
        })
    });
    Http {
        listen: listen.unwrap_or(base.listen),
        open_discovery: fields
            .get("openDiscovery")
            .and_then(|node| node.flag())
            .unwrap_or(base.open_discovery),
        allowed_origins: fields
            .get("allowedOrigins")
            .and_then(|node| node.texts())
            .unwrap_or(base.allowed_origins),
    }
}

/// What is wrong with an address to listen on, if anything.
pub(crate) fn listen_problem(listen: &str) -> Option<String> {
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

/// Globs that stay inside the folder of the file.
fn globs(node: &Node<'_>) -> Option<Vec<String>> {
    let mut globs = node.texts()?;
    if globs.len() > MAX_GLOBS {
        node.complain(format!("more than {MAX_GLOBS} globs"));
        globs.truncate(MAX_GLOBS);
    }
    for glob in &globs {
        if glob.starts_with('/') || glob.split('/').any(|part| part == "..") {
            node.complain(format!("`{glob}` must stay inside the folder of this file"));
        } else if let Err(error) = globset::Glob::new(glob) {
            node.complain(format!("`{glob}` is not a glob: {error}"));
        }
    }
    Some(globs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_urls_are_documents() {
        assert!(is_document("https://me.example/client.json"));
        for text in
            ["https://me.example/", "http://me.example/c", "https://u@me.example/c", "me", "https://m/c#f"]
        {
            assert!(!is_document(text), "{text}");
        }
    }
}
