//! `switchboard add` and `switchboard remove`: the user's own definitions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::CstRootNode;
use serde_json::{Value, json};
use switchboard_definitions::config::Config;
use switchboard_definitions::definition::{Definition, Launch};
use switchboard_definitions::discover::shapes::SERVER_MAPS;
use switchboard_definitions::discover::{LastGoodDefinitions, SearchScope, discover, walk};
use switchboard_definitions::files::replace;
use switchboard_hosts::import::{Literal, hide_secrets};
use switchboard_wire::visible::{is_hidden, visible};

use super::CliExit;
use super::ask::tell_daemon;
use super::check::reachable;
use super::definition_text::definition_text;
use super::learn::{NewServer, learn};
use super::output::{complain, print_json, say};
use super::secret::unneeded;
use crate::args::{Add, Args};
use switchboardd::child::value_resolver::ValueResolver;
use switchboardd::daemon;

/// The user's own config and folders.
pub(super) struct PersonalConfig {
    pub(super) config: Config,
    pub(super) home: PathBuf,
    pub(super) data: PathBuf,
}

impl PersonalConfig {
    pub(super) fn open(args: &Args) -> Result<Self, Vec<String>> {
        let home = daemon::home().map_err(|error| vec![error.to_string()])?;
        let (config_file, state) = daemon::files_in_use(&args.of_daemon(), &home);
        let config = Config::load(&config_file)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        let data = state.join("data");
        Ok(Self { config, home, data })
    }

    pub(super) fn definitions(&self) -> (Vec<Definition>, Vec<String>) {
        let search_scope =
            SearchScope { config: &self.config, confined: false, home: &self.home, data: &self.data };
        let found = discover(search_scope, &mut LastGoodDefinitions::default());
        // The last good versions are gone, so nobody shares them.
        let definitions = found.definitions.into_iter().map(Arc::unwrap_or_clone).collect();
        (definitions, found.problems.iter().map(ToString::to_string).collect())
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.config.folder.join("mcps").join(name).join(".mcp.json")
    }

    /// Writes a definition into its own file, if the daemon would accept it.
    pub(super) fn define(&self, name: &str, definition: &Value) -> Result<PathBuf, String> {
        let file = self.file(name);
        let folder = file.parent().unwrap_or(Path::new("/"));
        let failed = |error: std::io::Error| format!("`{}` cannot be written: {error}", file.display());
        let earlier = std::fs::read(&file).ok();
        std::fs::create_dir_all(folder).map_err(failed)?;
        replace(&file, definition_text(definition).as_bytes()).map_err(failed)?;
        // Read back as the daemon will read it; a definition that it would reject is not left there.
        let (after, problems) = self.definitions();
        let found = after.iter().find(|known| known.name == name && known.file == file);
        let globs = &self.config.discover_globs;
        let complaint = match found.map(|known| known.launch.clone().and_then(reachable)) {
            Some(Ok(_)) => return Ok(file),
            Some(Err(why)) => format!("`{name}` would be misconfigured: {why}"),
            None if !walk::walk(&self.config.folder, globs, false).files.contains(&file) => {
                let config = self.config.file.display();
                format!("the `discoverGlobs` of `{config}` do not find `{}`", file.display())
            }
            None => problems
                .into_iter()
                .find(|problem| problem.contains(&*file.to_string_lossy()))
                .unwrap_or_default(),
        };
        let _ = match earlier {
            Some(earlier) => replace(&file, &earlier),
            None => std::fs::remove_file(&file).and_then(|()| std::fs::remove_dir(folder)),
        };
        Err(complaint)
    }
}

pub(super) async fn run(args: &Args, add: &Add) -> CliExit {
    match write(args, add) {
        Ok(file) => {
            let mut notes: Vec<String> = note(args, &add.name).await.into_iter().collect();
            let is_unready = !notes.is_empty();
            notes.extend(secrets(add).into_iter().map(|secret| {
                format!(
                    "that file now contains a secret: store it with `switchboard secret set {secret}`, then write \
                     `${{{secret}}}` in its place"
                )
            }));
            if !args.json {
                say!("added `{}` in {}", add.name, file.display());
                notes.iter().for_each(|note| say!("note: {note}"));
            }
            tell_daemon(args).await;
            let names = if add.no_start || is_unready { Vec::new() } else { vec![add.name.clone()] };
            let learned = learn(args, &NewServer::named(args, &names)).await.pop();
            if args.json {
                let start = learned.map(|learned| learned.as_json());
                print_json(&json!({ "added": add.name, "file": file, "notes": notes, "start": start }));
            } else if let Some(learned) = learned {
                say!("it {}", learned.sentence());
            }
            CliExit::Ok
        }
        Err(complaints) => refuse(&complaints),
    }
}

/// Names for the secrets in this definition, which `import` would move out of the file.
fn secrets(add: &Add) -> Vec<String> {
    let mut names = Vec::new();
    if let Ok(Value::Object(mut definition)) = definition(add) {
        let _ = hide_secrets(&add.name, &mut definition, &mut |Literal { name, .. }| {
            names.push(name);
            Ok(String::new())
        });
    }
    names
}

/// Why a server that was just defined cannot work yet.
async fn note(args: &Args, name: &str) -> Option<String> {
    let own = PersonalConfig::open(args).ok()?;
    let (definitions, _) = own.definitions();
    let launch = definitions.into_iter().find(|known| known.name == name)?.launch.ok()?;
    let state = own.data.parent().unwrap_or(&own.data);
    let resolver = ValueResolver::new(&own.config.folder, state);
    if let Err(unready) = resolver.fill(&launch).await {
        return Some(format!("it {unready}"));
    }
    match &launch {
        Launch::Process(launch) => resolver.find_program(launch).await.err(),
        Launch::Remote(_) => None,
    }
}

fn write(args: &Args, add: &Add) -> Result<PathBuf, Vec<String>> {
    let one = |complaint: String| vec![complaint];
    let own = PersonalConfig::open(args)?;
    if add.name.is_empty()
        || add.name.starts_with('.')
        || add.name.contains('/')
        || add.name.chars().count() > 64
        || add.name.chars().any(is_hidden)
    {
        return Err(one(format!(
            "`{}` cannot be a server's name here: 1 to 64 printable characters, no `/`, no `.` in front",
            visible(&add.name)
        )));
    }
    // Allowed in files, since editors allow it, but nobody would type the suite's name that comes of it.
    if !add.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        let hint = match plain_name(&add.name) {
            plain if plain.is_empty() => String::new(),
            plain => format!("; `{plain}` would do"),
        };
        return Err(one(format!(
            "`{}` is not a valid name for a server: use letters, digits, `-`, `_` and `.`{hint}",
            visible(&add.name)
        )));
    }
    let file = own.file(&add.name);
    let (before, _) = own.definitions();
    if let Some(known) = before.iter().find(|known| known.name == add.name)
        && (!add.force || known.file != file)
    {
        let hint = match known.file == file {
            true => "`--force` replaces it".to_owned(),
            false => format!("remove it first with `switchboard remove {}`", add.name),
        };
        return Err(one(format!("`{}` is already defined in `{}`; {hint}", add.name, known.file.display())));
    }
    if file.exists() && !add.force {
        return Err(one(format!("`{}` exists already; `--force` replaces it", file.display())));
    }
    // Other servers in the same file must not be overwritten.
    if let Some(other) = before.iter().find(|known| known.file == file && known.name != add.name) {
        return Err(one(format!("`{}` defines `{}` as well; edit it by hand", file.display(), other.name)));
    }
    let definition = definition(add).map_err(one)?;
    own.define(&add.name, &definition).map_err(one)
}

/// The nearest name that can be typed.
fn plain_name(name: &str) -> String {
    let words = name.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

fn definition(add: &Add) -> Result<Value, String> {
    let mut definition = json!({ "name": add.name });
    if let Some(description) = &add.description {
        definition["description"] = json!(description);
    }
    if add.url.is_none() && !add.header.is_empty() {
        return Err("`--header` is for servers with `--url`".to_owned());
    }
    if let Some(url) = &add.url {
        definition["type"] = json!("http");
        definition["url"] = json!(url);
        for header in &add.header {
            let (name, value) = header.split_once(':').ok_or("`--header` must be NAME: VALUE")?;
            definition["headers"][name.trim()] = json!(value.trim());
        }
        return Ok(definition);
    }
    let (command, rest) = add.command.split_first().ok_or("no command")?;
    // A relative path would mean something else from the definition's folder.
    let here = |path: &Path| std::path::absolute(path).map(|path| path.display().to_string());
    let is_path = command.contains('/') && !command.starts_with(['~', '$']);
    let command =
        if is_path { here(Path::new(command)).map_err(|error| error.to_string())? } else { command.clone() };
    definition["command"] = json!({ "cmd": command, "args": rest });
    for variable in &add.env {
        let (name, value) = variable
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or("`--env` must be NAME=VALUE")?;
        definition["command"]["env"][name] = json!(value);
    }
    for (key, path) in [("envFile", &add.env_file), ("cwd", &add.cwd)] {
        if let Some(path) = path {
            definition["command"][key] = json!(here(path).map_err(|error| error.to_string())?);
        }
    }
    Ok(definition)
}

pub(super) async fn remove(args: &Args, name: &str) -> CliExit {
    match take_out(args, name) {
        Ok((server, file, names)) => {
            let unneeded = unneeded(args, &names).await;
            match args.json {
                true => print_json(&json!({ "removed": server, "file": file, "unneededSecrets": unneeded })),
                false => {
                    say!("removed `{server}` from {}", file.display());
                    for name in unneeded {
                        say!(
                            "no server needs the secret `{name}` any more; `switchboard secret rm {name}` deletes it"
                        );
                    }
                }
            }
            tell_daemon(args).await;
            CliExit::Ok
        }
        Err(complaints) => refuse(&complaints),
    }
}

/// Returns the server's name, the file it was in, and the names of values that it needed.
fn take_out(args: &Args, name: &str) -> Result<(String, PathBuf, Vec<String>), Vec<String>> {
    let one = |complaint: String| vec![complaint];
    let own = PersonalConfig::open(args)?;
    let (definitions, _) = own.definitions();
    let by_suite = |known: &&Definition| switchboard_definitions::suite_name::derived(&known.name) == name;
    let by_name = definitions.iter().find(|known| known.name == name);
    let Some(known) = by_name.or_else(|| definitions.iter().find(by_suite)) else {
        let near = switchboard_definitions::document::nearest(
            name,
            definitions.iter().map(|known| known.name.as_str()),
        );
        let hint = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        return Err(one(format!("you have no server `{name}`{hint}")));
    };
    let file = known.file.clone();
    let failed = |error: std::io::Error| one(format!("`{}` cannot be changed: {error}", file.display()));
    let text = std::fs::read_to_string(&file).map_err(failed)?;
    match without(&text, &known.name)
        .map_err(|why| one(format!("`{}` cannot be changed: {why}", file.display())))?
    {
        None => std::fs::remove_file(&file).map_err(failed)?,
        // Behind a symlink, the target is rewritten.
        Some(rest) => file.canonicalize().and_then(|real| replace(&real, rest.as_bytes())).map_err(failed)?,
    }
    // Fails if anything else is in the folder.
    if !file.exists()
        && let Some(folder) = file.parent()
    {
        let _ = std::fs::remove_dir(folder);
    }
    let needed = known.launch.as_ref().map(Launch::placeholders).unwrap_or_default();
    Ok((known.name.clone(), file, needed.into_iter().collect()))
}

/// The text without this entry, otherwise unchanged; `None` if the whole file defines this server.
fn without(text: &str, name: &str) -> Result<Option<String>, String> {
    let body = text.trim_start_matches('\u{feff}');
    let root = CstRootNode::parse(body, &ParseOptions::default()).map_err(|error| error.to_string())?;
    let object = root.object_value().ok_or("it is not a JSON object")?;
    let many = SERVER_MAPS.into_iter().find_map(|key| object.object_value(key));
    let is_alone = many.is_none()
        && object
            .get("name")
            .is_some_and(|name| name.value().is_some_and(|name| name.as_string_lit().is_some()));
    if is_alone {
        return Ok(None);
    }
    let entry = many.unwrap_or(object).get(name).ok_or("its entry was not found")?;
    entry.remove();
    Ok(Some(format!("{}{root}", &text[..text.len() - body.len()])))
}

fn refuse(complaints: &[String]) -> CliExit {
    complaints.iter().for_each(|complaint| complain(complaint));
    CliExit::Error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_taken_out_and_the_rest_stays() {
        let text = "{\n  // mine\n  \"mcpServers\": {\n    \"a\": { \"command\": \"x\" }, // first\n    \"b\": { \"command\": \"y\" },\n  }\n}\n";
        let rest = without(text, "a").unwrap().unwrap();
        assert!(
            rest.contains("// mine")
                && rest.contains("\"b\": { \"command\": \"y\" }")
                && !rest.contains("\"a\""),
            "{rest}"
        );
        assert_eq!(without(r#"{"name": "a", "command": {"cmd": "x"}}"#, "a"), Ok(None));
        assert_eq!(
            without("\u{feff}{\"a\": {\"command\": \"x\"}, \"b\": {\"command\": \"y\"}}", "a")
                .unwrap()
                .unwrap(),
            "\u{feff}{ \"b\": {\"command\": \"y\"}}"
        );
        assert!(without("{", "a").is_err() && without(r#"{"mcpServers": {}}"#, "a").is_err());
    }
}
