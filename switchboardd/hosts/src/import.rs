//! Converts a host's server to a definition: the same command or URL, with the host's placeholders written as
//! definitions have them.

mod workspace;

use serde_json::{Map, Value, json};
use switchboard_definitions::mask::{is_secret, is_secret_name, looks_secret, password};
use switchboard_definitions::trust::warnings::loads_code;

use super::placeholder_syntax::{PlaceholderReader, WORKSPACE};
use super::{Host, ServerEntry, TimeoutUnit, is_off, survey, url, words};

/// A converted entry.
#[derive(Debug, Clone, PartialEq)]
pub struct ConvertedEntry {
    /// In the shape of a single-server file, without its name.
    pub definition: Map<String, Value>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Whether it works on the project that is open: then it runs once for each project.
    pub in_workspace: bool,
}

/// A secret that must not stay in a file, and the name to store it under.
#[derive(Clone, PartialEq, Eq)]
pub struct Literal {
    pub name: String,
    pub value: String,
    /// The variable whose value it was.
    pub variable: Option<String>,
}

/// Never prints the value.
impl std::fmt::Debug for Literal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Literal").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Default and maximum of `timeouts.childSpawnMs`.
const USUAL_START_MS: f64 = 8000.0;
const MAX_START_MS: f64 = 600_000.0;

/// Converts an entry, or says why it is left out.
pub fn convert(host: &Host, entry: &ServerEntry, inputs: &Value) -> Result<ConvertedEntry, String> {
    if is_off(&entry.value) {
        return Err(format!("it is turned off in {}", host.name));
    }
    if survey::is_ours(entry) {
        return Err("it is Switchboard itself".to_owned());
    }
    let whole = &entry.value;
    let value = whole.get("transport").filter(|nested| nested.is_object()).unwrap_or(whole);
    let mut reader = PlaceholderReader::new(host, inputs);
    reader.project = entry.project.as_deref();
    for key in ["headersHelper", "http_headers_helper"] {
        if value.get(key).is_some() {
            return Err(format!("a program makes its headers (`{key}`)"));
        }
    }
    let mut definition = Map::new();
    if let Some(description) = whole["description"].as_str() {
        definition.insert("description".to_owned(), json!(description));
    }
    match url(value) {
        Some(address) => remote(host, value, address, &mut reader, &mut definition)?,
        None => process(entry, value, &mut reader, &mut definition)?,
    }
    if let Some(ms) = timeout(host, whole) {
        definition.insert("timeout".to_owned(), json!(ms));
    }
    let in_workspace = reader.names_workspace;
    let mut notes = reader.notes;
    if in_workspace {
        notes.push(
            "it works on the project that is open: it runs once for each project (`pool.scope` `workspace`)"
                .to_owned(),
        );
    }
    if ["oauth", "auth", "authProviderType"]
        .iter()
        .any(|key| value.get(key).is_some_and(|value| !value.is_null()))
    {
        notes.push("its login was not imported; `switchboard login` logs you in".to_owned());
    }
    Ok(ConvertedEntry { definition, notes, in_workspace })
}

fn process(
    entry: &ServerEntry,
    value: &Value,
    reader: &mut PlaceholderReader<'_>,
    definition: &mut Map<String, Value>,
) -> Result<(), String> {
    let kind = value["type"].as_str().unwrap_or("stdio");
    if !matches!(kind, "stdio" | "local") {
        return Err(format!("`{kind}` is not a type of server that can be started or reached"));
    }
    if value.get("command").is_none_or(Value::is_null) && value.get("args").is_some() {
        return Err("it has arguments but no command".to_owned());
    }
    let all = words(value);
    let Some((cmd, args)) = all.split_first().filter(|(cmd, _)| !cmd.is_empty()) else {
        return Err("it has neither a command nor an address; an extension may start it".to_owned());
    };
    let mut args = args.iter().map(|arg| reader.text(arg)).collect::<Result<Vec<_>, _>>()?;
    let cmd = reader.text(cmd)?;
    if entry.project.is_none() {
        workspace::name_directory(&mut args, reader);
    }
    let mut command = Map::new();
    let mut env = Map::new();
    for variables in ["env", "environment"].iter().filter_map(|key| value[*key].as_object()) {
        for (name, value) in variables {
            let value = match value {
                Value::String(text) => {
                    let text = reader.text(text)?;
                    if text.contains(WORKSPACE) && loads_code(name) {
                        return Err(format!("its `{name}` would run code of whatever project is open"));
                    }
                    json!(text)
                }
                Value::Null => Value::Null,
                other => json!(other.to_string()),
            };
            env.insert(name.clone(), value);
        }
    }
    if !env.is_empty() {
        command.insert("env".to_owned(), Value::Object(env));
    }
    if let Some(file) = value["envFile"].as_str() {
        let file = reader.text(file)?;
        if !file.starts_with(['/', '~', '$']) || file.contains(WORKSPACE) {
            return Err(format!("its `envFile` `{file}` is relative to the project that is open"));
        }
        command.insert("envFile".to_owned(), json!(file));
    }
    let passed: Vec<&str> = value["env_vars"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str().or_else(|| name["name"].as_str()))
        .collect();
    if !passed.is_empty() {
        command.insert("passEnv".to_owned(), json!(passed));
    }
    let cwd = ["cwd", "workingDirectory"].iter().find_map(|key| value[*key].as_str());
    match cwd {
        Some("." | "./") if entry.project.is_none() => {
            reader.names_workspace = true;
            command.insert("cwd".to_owned(), json!(WORKSPACE));
        }
        Some(cwd) => {
            let cwd = reader.text(cwd)?;
            if !cwd.starts_with(['/', '~', '$']) {
                return Err(format!("its `cwd` `{cwd}` is relative to the project that is open"));
            }
            command.insert("cwd".to_owned(), json!(cwd));
        }
        None => place(entry, &cmd, &args, &mut command)?,
    }
    if entry.project.is_none() && !command.contains_key("cwd") && workspace::works_where_it_runs(&cmd, &args)
    {
        reader.names_workspace = true;
        if workspace::needs_directory(&cmd, &args) {
            command.insert("cwd".to_owned(), json!(WORKSPACE));
        }
    }
    let runs_there = command.get("cwd").and_then(Value::as_str).is_some_and(|cwd| cwd.contains(WORKSPACE));
    workspace::check(&cmd, &args, runs_there)?;
    command.insert("cmd".to_owned(), json!(cmd));
    command.insert("args".to_owned(), json!(args));
    definition.insert("command".to_owned(), Value::Object(command));
    Ok(())
}

/// Hosts start servers in the open project; a relative path means nothing in any other folder.
fn place(
    entry: &ServerEntry,
    cmd: &String,
    args: &[String],
    command: &mut Map<String, Value>,
) -> Result<(), String> {
    match (&entry.project, std::iter::once(cmd).chain(args).find(|word| is_relative(word))) {
        (Some(project), _) => {
            command.insert("cwd".to_owned(), json!(project));
        }
        (None, Some(word)) => return Err(format!("its `{word}` is relative to the project that is open")),
        (None, None) => {}
    }
    Ok(())
}

fn is_relative(word: &str) -> bool {
    matches!(word, "." | "..") || word.starts_with("./") || word.starts_with("../")
}

/// Whether a command line depends on its working directory.
pub fn has_relative(words: &[String]) -> bool {
    words.iter().any(|word| is_relative(word))
}

/// The host's start-up timeout in milliseconds, if it exceeds our default.
pub fn startup_ms(value: &Value) -> Option<u64> {
    let seconds = value["startup_timeout_sec"].as_f64().map(|seconds| seconds * 1000.0);
    let ms = seconds.or_else(|| value["startup_timeout_ms"].as_f64())?;
    (ms > USUAL_START_MS && ms <= MAX_START_MS).then_some(ms as u64)
}

fn remote(
    host: &Host,
    value: &Value,
    address: &str,
    reader: &mut PlaceholderReader<'_>,
    definition: &mut Map<String, Value>,
) -> Result<(), String> {
    let is_sse = match value["type"].as_str() {
        Some("sse") => true,
        Some("ws" | "websocket") => return Err("it is reached by WebSocket".to_owned()),
        Some(_) => false,
        // These hosts mean SSE by a bare `url`.
        None => matches!(host.id, "gemini" | "qwen" | "cline") && value.get("url").is_some(),
    };
    definition.insert("type".to_owned(), json!(if is_sse { "sse" } else { "http" }));
    definition.insert("url".to_owned(), json!(reader.text(address)?));
    let mut headers = Map::new();
    for given in [&value["headers"], &value["http_headers"], &value["requestOptions"]["headers"]] {
        for (name, value) in given.as_object().into_iter().flatten() {
            headers.insert(name.clone(), json!(reader.text(value.as_str().unwrap_or_default())?));
        }
    }
    for (name, variable) in value["env_http_headers"].as_object().into_iter().flatten() {
        headers.insert(name.clone(), json!(format!("${{{}}}", variable.as_str().unwrap_or_default())));
    }
    if let Some(variable) = value["bearer_token_env_var"].as_str() {
        headers.insert("Authorization".to_owned(), json!(format!("Bearer ${{{variable}}}")));
    }
    if let Some(key) = value["apiKey"].as_str() {
        headers.insert("Authorization".to_owned(), json!(format!("Bearer {}", reader.text(key)?)));
    }
    if !headers.is_empty() {
        definition.insert("headers".to_owned(), Value::Object(headers));
    }
    Ok(())
}

/// The timeout of a call in milliseconds. Below 1000 it could be mistaken for seconds and is ignored.
fn timeout(host: &Host, value: &Value) -> Option<u64> {
    let seconds = value["tool_timeout_sec"].as_f64().map(|seconds| seconds * 1000.0);
    let given = value["timeout"].as_f64();
    let ms = match host.timeout {
        TimeoutUnit::Milliseconds => given,
        TimeoutUnit::Seconds => given.map(|seconds| seconds * 1000.0),
        TimeoutUnit::Nothing => None,
    };
    // A day is longer than any call takes.
    seconds.or(ms).filter(|ms| (1000.0..=86_400_000.0).contains(ms)).map(|ms| ms as u64)
}

/// Replaces each literal secret in a definition by what `keep` returns for it.
pub fn hide_secrets(
    server: &str,
    definition: &mut Map<String, Value>,
    keep: &mut dyn FnMut(Literal) -> Result<String, String>,
) -> Result<(), String> {
    let prefix = variable_name(server);
    let mut keep = |name: &str, value: &str, variable: Option<&str>| {
        let variable = variable.map(variable_name);
        keep(Literal { name: variable_name(name), value: value.to_owned(), variable })
    };
    if let Some(command) = definition.get_mut("command").and_then(Value::as_object_mut) {
        for (name, value) in command.get_mut("env").and_then(Value::as_object_mut).into_iter().flatten() {
            if let Some(text) = value.as_str().filter(|text| !text.contains("${") && is_secret(name, text)) {
                // Under its bare name, every other server that uses this name would get it.
                *value = json!(keep(&secret_name(&prefix, name), text, Some(name))?);
            }
        }
        let mut hide = |name: &str, value: &str| keep(name, value, None);
        let mut flag: Option<String> = None;
        for arg in command.get_mut("args").and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(text) = arg.as_str().map(ToOwned::to_owned) else { continue };
            let behind = flag.take();
            match text.split_once('=') {
                _ if text.contains("${") => {}
                Some((name, value)) if name.starts_with('-') && is_secret(name, value) => {
                    let hidden = hide(&secret_name(&prefix, name), value)?;
                    *arg = json!(format!("{name}={hidden}"));
                }
                _ if text.starts_with('-') => {
                    flag = is_secret_name(&text).then(|| text.trim_start_matches('-').to_owned());
                }
                _ => {
                    let name = behind.filter(|name| is_secret(name, &text));
                    if name.is_some() || looks_secret(&text) {
                        let name = name.unwrap_or_else(|| "KEY".to_owned());
                        *arg = json!(hide(&secret_name(&prefix, &name), &text)?);
                    } else if let Some((name, value)) =
                        text.split_once([':', '=']).filter(|(name, value)| is_secret(name, value.trim()))
                    {
                        // Such as `--header "Authorization: Bearer …"`.
                        let (scheme, secret) = scheme(value);
                        let hidden = hide(&secret_name(&prefix, name), secret)?;
                        *arg = json!(format!("{}{scheme}{hidden}", &text[..text.len() - value.len()]));
                    }
                }
            }
        }
    }
    let mut hide = |name: &str, value: &str| keep(name, value, None);
    for (name, value) in definition.get_mut("headers").and_then(Value::as_object_mut).into_iter().flatten() {
        let Some(text) = value.as_str().filter(|text| !text.contains("${")).map(ToOwned::to_owned) else {
            continue;
        };
        let (scheme, secret) = scheme(&text);
        if is_secret(name, secret) {
            let name = if name.eq_ignore_ascii_case("authorization") { "TOKEN" } else { name.as_str() };
            *value = json!(format!("{scheme}{}", hide(&secret_name(&prefix, name), secret)?));
        }
    }
    if let Some(text) = definition.get("url").and_then(Value::as_str).map(ToOwned::to_owned)
        && let Some(hidden) = hide_in_url(&prefix, &text, &mut hide)?
    {
        definition.insert("url".to_owned(), json!(hidden));
    }
    Ok(())
}

/// Hides secrets in the query, and a password before the host.
fn hide_in_url(
    prefix: &str,
    url: &str,
    hide: &mut dyn FnMut(&str, &str) -> Result<String, String>,
) -> Result<Option<String>, String> {
    let mut address = url.to_owned();
    let mut changed = false;
    if let Some(at) = password(&address) {
        let hidden = hide(&format!("{prefix}_PASSWORD"), &address[at.clone()])?;
        address.replace_range(at, &hidden);
        changed = true;
    }
    let Some((address, query)) = address.split_once('?') else { return Ok(changed.then_some(address)) };
    let mut parts = Vec::new();
    for part in query.split('&') {
        match part.split_once('=') {
            Some((name, value)) if !value.contains("${") && is_secret(name, value) => {
                parts.push(format!("{name}={}", hide(&secret_name(prefix, name), value)?));
                changed = true;
            }
            _ => parts.push(part.to_owned()),
        }
    }
    Ok(changed.then(|| format!("{address}?{}", parts.join("&"))))
}

/// Splits off `Bearer ` and the like.
fn scheme(value: &str) -> (&str, &str) {
    let bare = value.trim_start();
    let blank = value.len() - bare.len();
    let end =
        ["Bearer ", "bearer ", "Basic ", "Token ", "token "].iter().find(|begin| bare.starts_with(**begin));
    value.split_at(blank + end.map_or(0, |begin| begin.len()))
}

/// Makes a valid variable name.
fn variable_name(name: &str) -> String {
    let clean: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    let clean = clean.trim_matches('_');
    match clean.chars().next() {
        Some(first) if !first.is_ascii_digit() => clean.chars().take(64).collect(),
        _ => format!("MCP_{clean}").chars().take(64).collect(),
    }
}

/// The name to store a server's secret under. It repeats no word (`BRAVE_SEARCH_BRAVE_API_KEY`), and is never the bare name of
/// the variable: every other server that uses that name would get the value.
fn secret_name(server: &str, name: &str) -> String {
    let name = variable_name(name);
    let first = server.split('_').next().unwrap_or_default();
    match name.split('_').any(|word| word == first) {
        false => format!("{server}_{name}"),
        true if first == "MCP" => format!("SECRET_{name}"),
        true => format!("MCP_{name}"),
    }
}

/// Makes a server's name usable as a folder name.
pub fn folder_name(name: &str) -> String {
    let clean: String =
        name.trim().chars().filter(|c| !switchboard_wire::visible::is_hidden(*c) || *c == ' ').collect();
    let clean = clean.replace('/', "-");
    let clean = clean.trim_start_matches(['.', '@']).trim();
    let short: String = clean.chars().take(60).collect();
    if short.is_empty() { "server".to_owned() } else { short }
}

#[cfg(test)]
mod tests {
    use super::super::table::by_id;
    use super::*;

    /// The definition without its secrets, and the secrets with their names.
    fn hidden(definition: Value) -> (Value, Vec<(String, String)>) {
        let Value::Object(mut definition) = definition else { panic!("no object") };
        let mut kept = Vec::new();
        hide_secrets("my server", &mut definition, &mut |Literal { name, value, .. }| {
            kept.push((name.clone(), value));
            Ok(format!("${{{name}}}"))
        })
        .unwrap();
        (Value::Object(definition), kept)
    }

    #[track_caller]
    fn check(definition: Value, expect: &Value, names: &[(&str, &str)]) {
        let (found, kept) = hidden(definition);
        let names: Vec<_> =
            names.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!((&found, kept), (expect, names));
    }

    #[test]
    fn secrets_are_found_wherever_people_put_them() {
        check(
            json!({"command": {"cmd": "x", "args": ["--api-key", "abcdef", "--token=ghijkl", "--verbose", "plain",
                "ghp_0123456789abcdefghij", "--header", "Authorization: Bearer mnopqr", "--key", "${KEPT}"]}}),
            &json!({"command": {"cmd": "x", "args": ["--api-key", "${MY_SERVER_API_KEY}", "--token=${MY_SERVER_TOKEN}",
                "--verbose", "plain", "${MY_SERVER_KEY}", "--header",
                "Authorization: Bearer ${MY_SERVER_AUTHORIZATION}", "--key", "${KEPT}"]}}),
            &[
                ("MY_SERVER_API_KEY", "abcdef"),
                ("MY_SERVER_TOKEN", "ghijkl"),
                ("MY_SERVER_KEY", "ghp_0123456789abcdefghij"),
                ("MY_SERVER_AUTHORIZATION", "mnopqr"),
            ],
        );
        check(
            json!({"command": {"cmd": "x", "env": {"API_KEY": "abcdef", "KEY_FILE": "/run/key", "TOKEN": "${T}", "A": "b"}}}),
            &json!({"command": {"cmd": "x", "env": {"API_KEY": "${MY_SERVER_API_KEY}", "KEY_FILE": "/run/key", "TOKEN": "${T}", "A": "b"}}}),
            &[("MY_SERVER_API_KEY", "abcdef")],
        );
        check(
            json!({"command": {"cmd": "x", "args": ["postgresql://u:hunter2@h/d", "-e", "DB=postgres://u:hunter3@h/d"],
                "env": {"DATABASE_URL": "postgres://u:hunter4@h/d"}}}),
            &json!({"command": {"cmd": "x", "args": ["${MY_SERVER_KEY}", "-e", "DB=${MY_SERVER_DB}"],
                "env": {"DATABASE_URL": "${MY_SERVER_DATABASE_URL}"}}}),
            &[
                ("MY_SERVER_DATABASE_URL", "postgres://u:hunter4@h/d"),
                ("MY_SERVER_KEY", "postgresql://u:hunter2@h/d"),
                ("MY_SERVER_DB", "postgres://u:hunter3@h/d"),
            ],
        );
        check(
            json!({"url": "https://u:hunter2@h/mcp"}),
            &json!({"url": "https://u:${MY_SERVER_PASSWORD}@h/mcp"}),
            &[("MY_SERVER_PASSWORD", "hunter2")],
        );
        check(
            json!({"url": "https://h/mcp?key=abcdef&page=2", "headers": {"authorization": "Bearer ghijkl", "X-Page": "2"}}),
            &json!({"url": "https://h/mcp?key=${MY_SERVER_KEY}&page=2",
                "headers": {"authorization": "Bearer ${MY_SERVER_TOKEN}", "X-Page": "2"}}),
            &[("MY_SERVER_TOKEN", "ghijkl"), ("MY_SERVER_KEY", "abcdef")],
        );
    }

    #[test]
    fn entries_that_cannot_be_imported_are_refused() {
        let why = |host: &str, value: Value| {
            let entry = ServerEntry { name: "x".to_owned(), project: None, value };
            convert(by_id(host).unwrap(), &entry, &Value::Null).unwrap_err()
        };
        assert!(why("claude-code", json!({"type": "ws", "url": "wss://h"})).contains("WebSocket"));
        assert!(
            why("claude-code", json!({"url": "https://h", "headersHelper": "x"})).contains("`headersHelper`")
        );
        assert!(why("cursor", json!({"command": "./serve"})).contains("the project that is open"));
        for path in ["..", "./x", "../x"] {
            assert!(why("cursor", json!({"command": "npx", "args": ["fs", path]})).contains("that is open"));
        }
        assert!(
            why("cursor", json!({"command": "x", "envFile": ".env"})).contains("the project that is open")
        );
        assert!(why("cline", json!({"command": "x", "disabled": true})).contains("turned off in Cline"));
        assert!(why("cursor", json!({"args": ["x"]})).contains("arguments but no command"));
        assert!(why("zed", json!({"settings": {}})).contains("neither a command nor an address"));
        assert!(why("zed", json!({"command": "/x/switchboard"})).contains("Switchboard itself"));
    }

    #[test]
    fn names_of_secrets_repeat_no_word() {
        for (server, name, expect) in [
            ("BRAVE_SEARCH", "BRAVE_API_KEY", "MCP_BRAVE_API_KEY"),
            ("CONTEXT7", "CONTEXT7_API_KEY", "MCP_CONTEXT7_API_KEY"),
            ("FIGMA", "X-Figma-Token", "MCP_X_FIGMA_TOKEN"),
            ("GITHUB", "TOKEN", "GITHUB_TOKEN"),
            ("NOTES", "--api-key", "NOTES_API_KEY"),
            ("MCP_X", "MCP_X_KEY", "SECRET_MCP_X_KEY"),
        ] {
            assert_eq!(secret_name(server, name), expect);
        }
    }

    #[test]
    fn names_fit_into_folders() {
        assert_eq!(folder_name("@scope/my server"), "scope-my server");
        assert_eq!(folder_name("../..\u{202e}"), "-..");
        assert_eq!(folder_name(" . "), "server");
    }
}
