//! Checks server definitions for errors and risks.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use switchboard_definitions::definition::{Definition, Launch};
use switchboard_definitions::discover::host_files::{marks_project, unread_files};
use switchboard_definitions::expand::Template;
use switchboard_definitions::trust::{JudgedDefinition, TrustStatus, secrets_in_arguments};
use switchboard_wire::visible::visible;

use super::Finding;
use super::repair::Repair;
use crate::args::Args;
use crate::at_once::run_all;
use crate::local_config::LocalConfig;
use crate::output::tilde;
use crate::pin::{find_unpinned, package_of};
use crate::shell_word::shell_word;
use switchboardd::Layer;
use switchboardd::RootsOf;

/// Words in names of variables and headers that hold secrets.
const SECRET_WORDS: [&str; 9] = [
    "token",
    "secret",
    "password",
    "passwd",
    "api_key",
    "apikey",
    "authorization",
    "credential",
    "private_key",
];
/// Prefixes of well-known tokens.
const SECRET_BEGINNINGS: [&str; 10] =
    ["ghp_", "gho_", "github_pat_", "glpat-", "sk-", "xoxb-", "xoxp-", "AKIA", "eyJ", "Bearer "];

/// `own_servers`: whether editors have servers that could be imported.
pub(super) async fn check(
    args: &Args,
    local: &LocalConfig,
    project: Option<&Layer>,
    own_servers: bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    // The versions that run now, as far as they are known.
    let versions: BTreeMap<String, Option<String>> = find_unpinned(args)
        .unwrap_or_default()
        .into_iter()
        .filter(|server| server.has_run)
        .map(|server| (server.name, server.version.ok()))
        .collect();
    for layer in std::iter::once(&local.personal).chain(project) {
        for problem in &layer.problems {
            let fix = format!("switchboard check {}", shell_word(&problem.file));
            findings.push(Finding::warning("definition", problem.to_string(), fix));
        }
        let is_own = std::ptr::eq(layer, &local.personal);
        let jobs = layer.entries.iter().map(|entry| {
            let version = versions.get(&entry.definition.name).filter(|_| is_own);
            (entry.definition.name.clone(), one(local, entry, is_own, version))
        });
        let found = run_all("checking", jobs.collect()).await;
        for (entry, found) in layer.entries.iter().zip(found) {
            findings.extend(found);
            findings.extend(missed_roots(layer, entry));
        }
    }
    findings.extend(project.into_iter().flat_map(|layer| unread(local, layer)));
    let servers = local.personal.entries.len() + project.map_or(0, |project| project.entries.len());
    if servers == 0 {
        let what = "no server is defined, so editors see no tools";
        let fix = match own_servers {
            true => "switchboard import",
            false => "switchboard add time -- uvx mcp-server-time@2026.10.19",
        };
        findings.push(Finding::warning("definition", what, fix));
    } else if findings.is_empty() {
        findings.push(Finding::fine("definition", format!("{servers} defined, nothing wrong with them")));
    }
    findings
}

/// Servers of the project that are not read: those in files of another format, and all if the user said so.
fn unread(local: &LocalConfig, layer: &Layer) -> Vec<Finding> {
    if !layer.config.project_files && marks_project(&layer.config.folder) {
        let config = match local.personal.config.project_files {
            true => &layer.config.file,
            false => &local.personal.config.file,
        };
        let what = format!(
            "the files in which editors keep servers of this project are not read: `projectFiles` is false in {}",
            shown(config)
        );
        return vec![Finding::fine("definition", what)];
    }
    let files = unread_files(&layer.config.folder);
    let finding = |file: &PathBuf| {
        let what = format!("{} is not read: of an editor's project files, JSON and TOML are", shown(file));
        let fix = format!("${{EDITOR:-vi}} {}  # write it as JSON", shell_word(file));
        Finding::warning("definition", what, fix)
    };
    files.iter().map(finding).collect()
}

async fn one(
    local: &LocalConfig,
    JudgedDefinition { definition, trust_status, read_by, .. }: &JudgedDefinition,
    is_own: bool,
    version: Option<&Option<String>>,
) -> Vec<Finding> {
    let Definition { name, file, launch, .. } = &**definition;
    let word = shell_word(name);
    let launch = match launch {
        Ok(launch) => launch,
        Err(why) => {
            let what = format!("server `{name}` is misconfigured: {why}");
            return vec![Finding::error(
                "definition",
                what,
                format!("switchboard check {}", shell_word(definition.to_fix())),
            )];
        }
    };
    // Nothing of a held server runs, and `switchboard allow` will show the rest.
    if *trust_status == TrustStatus::Held {
        let of_editor = match read_by.is_empty() {
            true => String::new(),
            false => format!(" (of {}, which {read_by} reads)", shown(file)),
        };
        let what = format!("server `{name}` is held: you have not allowed it{of_editor}");
        let finding = Finding::warning("held", what, format!("switchboard allow {word}"));
        return vec![finding.with_fold(
            "servers are held, you have not allowed them",
            name,
            "switchboard allow",
        )];
    }
    let mut findings = Vec::new();
    if let TrustStatus::Outdated { .. } = trust_status {
        let what = format!(
            "server `{name}`: a changed version waits for you; the one that you allowed keeps running"
        );
        findings.push(Finding::warning("held", what, format!("switchboard allow {word}")));
    }
    if let Launch::Process(launch) = launch {
        if let Err(why) = local.resolver.find_program(launch).await {
            let what = format!("server `{name}` cannot be started: {why}");
            let program = launch.program_name();
            findings.push(Finding::error("program", what, install(&program)).with_server(name));
        }
        if let Some((package, _)) = package_of(&Launch::Process(launch.clone())) {
            // It has run, and the version is still not known.
            let is_unclear = version == Some(&None);
            let version = version.and_then(Option::as_ref);
            let now = version.map_or(String::new(), |version| format!(" ({version} runs now)"));
            let what =
                format!("server `{name}`: `{package}`{now} has no fixed version; any start may run another");
            findings.push(match is_own && !is_unclear {
                true => Finding::warning("unpinned", what, format!("switchboard pin {word}")).with_fold(
                    "servers run a package without a fixed version, so that any start may run another",
                    format!(
                        "{name} (`{package}`{})",
                        version.map_or(String::new(), |version| format!(", now {version}"))
                    ),
                    "switchboard pin",
                ),
                false => {
                    let fix =
                        format!("${{EDITOR:-vi}} {}  # write the version of `{package}`", shell_word(file));
                    Finding::warning("unpinned", what, fix)
                }
            });
        }
        if let Some(why) = secrets_in_arguments(launch) {
            let what = format!("server `{name}` {}", visible(&why));
            let fix = format!("${{EDITOR:-vi}} {}", shell_word(file));
            findings.push(Finding::warning("arguments", what, fix));
        }
    }
    for (variable, origin) in local.resolver.origins(launch).await {
        if matches!(origin, switchboardd::child::value_resolver::Origin::Nowhere) {
            let what = format!("server `{name}` needs `{variable}`, which is not set");
            findings.push(Finding::error("value", what, format!("switchboard secret set {variable}")));
        }
    }
    findings.extend(secrets(name, file, launch));
    findings
}

/// A server that follows roots but gets none, because the config has editors share it.
fn missed_roots(layer: &Layer, JudgedDefinition { definition, .. }: &JudgedDefinition) -> Option<Finding> {
    let Definition { name, launch, .. } = &**definition;
    let settings = layer.config.suite(name);
    let of = RootsOf::children(launch.as_ref().ok()?, settings.pool);
    (of == RootsOf::Nobody { missed: true }).then(|| {
        let what =
            format!("server `{name}` follows the roots of its editor, but editors share it, so it gets none");
        let fix = format!(
            "switchboard explain {}  # then remove `suites.{name}.pool.scope` from {}",
            shell_word(name),
            shown(&layer.config.file)
        );
        Finding::warning("roots", what, fix)
    })
}

fn shown(file: &Path) -> String {
    tilde(&file.display().to_string())
}

/// How to install a package runner.
fn install(program: &str) -> String {
    match program {
        "uv" | "uvx" => "curl -LsSf https://astral.sh/uv/install.sh | sh".to_owned(),
        "npx" | "npm" | "node" => "sudo apt install nodejs npm  # or nodejs.org".to_owned(),
        "docker" => "sudo apt install docker.io  # or docs.docker.com".to_owned(),
        _ => "switchboard reload  # once it is installed and your login shell finds it".to_owned(),
    }
}

/// Literal values in the file that look like secrets.
fn secrets(name: &str, file: &Path, launch: &Launch) -> Vec<Finding> {
    let values: Vec<(&String, &Template)> = match launch {
        Launch::Process(launch) => {
            launch.env.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))).collect()
        }
        Launch::Remote(remote) => remote.headers.iter().collect(),
    };
    let plain = values
        .into_iter()
        .filter(|(name, value)| value.literal().is_some_and(|value| is_secret(name, value)));
    let plain: Vec<&String> = plain.map(|(name, _)| name).collect();
    let mut findings = Vec::new();
    for variable in &plain {
        let set = variable.replace('-', "_").to_uppercase();
        let what = format!("server `{name}`: the value of `{variable}` is written in {}", shown(file));
        let fix = format!("switchboard secret set {set}  # then write `${{{set}}}` there");
        findings.push(Finding::warning("secret", what, fix).with_fold(
            "values that look like secrets are written in files",
            format!("`{variable}` of {name}"),
            "switchboard secret set NAME  # then write `${NAME}` in its place",
        ));
    }
    if !plain.is_empty() && std::fs::metadata(file).is_ok_and(|meta| meta.mode() & 0o044 != 0) {
        let what = format!("{} holds a secret, and others can read it", shown(file));
        let is_ours =
            std::fs::metadata(file).is_ok_and(|meta| meta.uid() == rustix::process::geteuid().as_raw());
        let finding = Finding::error("secret", what, format!("chmod 600 {}", shell_word(file)));
        findings.push(match is_ours {
            true => finding.with_repair(Repair::Close { path: file.to_owned(), mode: 0o600 }),
            false => finding,
        });
    }
    findings
}

fn is_secret(name: &str, value: &str) -> bool {
    let name = name.to_lowercase().replace('-', "_");
    let by_name = SECRET_WORDS.iter().any(|word| name.contains(word)) && value.len() >= 8;
    by_name || SECRET_BEGINNINGS.iter().any(|begin| value.starts_with(begin) && value.len() >= 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_their_names_and_looks() {
        for (name, value) in [
            ("GITHUB_TOKEN", "0123456789ab"),
            ("X", "ghp_0123456789abcdef"),
            ("Authorization", "Bearer abcdefghijkl"),
        ] {
            assert!(is_secret(name, value), "{name}");
        }
        for (name, value) in
            [("LOG_LEVEL", "debug"), ("TOKEN", "short"), ("URL", "https://example.com/a/long/path")]
        {
            assert!(!is_secret(name, value), "{name}");
        }
    }
}
