//! `switchboard secret`: values for `${NAME}` in definitions.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Read};
use std::time::Duration;

use hyper::Method;
use serde_json::json;
use switchboard_wire::printable;

use super::CliExit;
use super::ask::{AskError, ask};
use super::local_config::LocalConfig;
use super::output::{
    Paint, Table, Tone, cell, failed, indented, print, print_json, remark, say, toned, width,
};
use super::prompt;
use crate::args::{Args, Secret};
use switchboardd::ChildEnvironment;
use switchboardd::child::value_resolver::Origin;
use switchboardd::daemon;
use switchboardd::secrets::{READ_LIMIT, SecretLocation, Secrets, StoreOutcome, check_name};

/// How long to wait for the daemon; a slower one reads the secrets at its next reload.
const RELOAD: Duration = Duration::from_secs(5);

pub(super) async fn run(args: &Args, what: &Secret) -> CliExit {
    let secrets = match daemon::home() {
        Ok(home) => Secrets::new(&daemon::files_in_use(&args.of_daemon(), &home).1),
        Err(fatal) => return failed(&fatal),
    };
    match what {
        Secret::Set { name } => set(args, &secrets, name).await,
        Secret::Ls => ls(args, &secrets).await,
        Secret::Rm { name } => match secrets.remove(name, &own_variables()).await {
            Ok(()) => {
                match args.json {
                    true => print_json(&json!({ "removed": name })),
                    false => say!("removed `{name}`"),
                }
                reload(args).await;
                CliExit::Ok
            }
            Err(error) => failed(&error),
        },
    }
}

async fn set(args: &Args, secrets: &Secrets, name: &str) -> CliExit {
    // Fails before the user types a value.
    if let Err(error) = check_name(name) {
        return failed(&error);
    }
    let value = match value(name).await {
        Ok(value) => value,
        Err(error) => return failed(&format!("no value was read: {error}")),
    };
    // The reason is news only for the first of them.
    let is_known = secrets.list().is_ok_and(|all| all.values().any(|place| *place == SecretLocation::File));
    match secrets.set(name, &value, &own_variables()).await {
        Ok(StoreOutcome::InKeyring) if args.json => {
            print_json(&json!({ "stored": name, "in": SecretLocation::Keyring }))
        }
        Ok(StoreOutcome::InKeyring) => say!("stored `{name}` in the keyring"),
        Ok(StoreOutcome::InFile { why, stale }) => {
            match args.json {
                true => print_json(
                    &json!({ "stored": name, "in": SecretLocation::File, "noKeyring": why.to_string() }),
                ),
                false => say!("stored `{name}` in a file that only you can read"),
            }
            if !args.json && !is_known {
                say!("the keyring can't be used: {}", indented(why));
            }
            if stale {
                remark!("switchboard: the keyring still holds an older value of `{name}`");
            }
        }
        Err(error) => return failed(&error),
    }
    reload(args).await;
    CliExit::Ok
}

async fn value(name: &str) -> io::Result<String> {
    if io::stdin().is_terminal() {
        return prompt::hidden(&printable!("value for {name} (not shown): ")).await;
    }
    let mut bytes = Vec::new();
    io::stdin().lock().take(READ_LIMIT).read_to_end(&mut bytes)?;
    // The error is dropped: it contains the bytes.
    let mut value = String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))?;
    if value.ends_with('\n') {
        value.pop();
        if value.ends_with('\r') {
            value.pop();
        }
    }
    Ok(value)
}

/// The servers that need each name, and whether it has a value anywhere.
async fn needs(args: &Args) -> BTreeMap<String, (Vec<String>, bool)> {
    let mut needs: BTreeMap<String, (Vec<String>, bool)> = BTreeMap::new();
    let Some(local) = LocalConfig::open_if_possible(args) else { return needs };
    let project = local.here(args).map(|root| local.workspace(&root));
    for entry in local.personal.entries.iter().chain(project.iter().flat_map(|project| &project.entries)) {
        let Ok(launch) = &entry.definition.launch else { continue };
        for (name, origin) in local.resolver.origins(launch).await {
            let (users, is_missing) = needs.entry(name).or_default();
            users.push(entry.definition.name.clone());
            *is_missing |= matches!(origin, Origin::Nowhere);
        }
    }
    needs
}

/// Secrets among these names that no server needs.
pub(super) async fn unneeded(args: &Args, names: &[String]) -> Vec<String> {
    let Ok(home) = daemon::home() else { return Vec::new() };
    let secrets = Secrets::new(&daemon::files_in_use(&args.of_daemon(), &home).1);
    let (stored, needs) = (secrets.list().unwrap_or_default(), needs(args).await);
    names.iter().filter(|name| stored.contains_key(*name) && !needs.contains_key(*name)).cloned().collect()
}

async fn ls(args: &Args, secrets: &Secrets) -> CliExit {
    let list = match secrets.list() {
        Ok(list) => list,
        Err(error) => return failed(&error),
    };
    let needs = needs(args).await;
    let users = |name: &str| needs.get(name).map_or_else(Vec::new, |(users, _)| users.clone());
    let missing: Vec<&String> = needs
        .iter()
        .filter(|(name, (_, missing))| *missing && !list.contains_key(*name))
        .map(|(name, _)| name)
        .collect();
    if args.json {
        let one = |(name, place): (&String, &SecretLocation)| json!({ "name": name, "in": place, "usedBy": users(name) });
        let list: Vec<_> = list.iter().map(one).collect();
        let missing: Vec<_> =
            missing.iter().map(|name| json!({ "name": name, "usedBy": users(name) })).collect();
        print_json(&json!({ "secrets": list, "missing": missing }));
        return CliExit::Ok;
    }
    if list.is_empty() && missing.is_empty() {
        say!("no secrets are set; `switchboard secret set NAME` sets one");
        return CliExit::Ok;
    }
    let mut table = Table::new(&["NAME", "KEPT IN", "USED BY"]);
    for (name, place) in &list {
        let place = match place {
            SecretLocation::Keyring => "keyring",
            SecretLocation::File => "private file",
        };
        let used = users(name).join(", ");
        table.row(vec![
            cell(name),
            cell(place),
            if used.is_empty() { toned(Tone::Quiet, "no server") } else { cell(used) },
        ]);
    }
    for name in &missing {
        table.row(vec![cell(name), toned(Tone::Bad, "missing"), cell(users(name).join(", "))]);
    }
    table.lines(Paint::for_stdout(), width()).iter().for_each(print);
    CliExit::Ok
}

/// Makes a running daemon reload; any other reads the secrets when it starts.
async fn reload(args: &Args) {
    match tokio::time::timeout(RELOAD, ask(args, Method::POST, "/control/reload", None)).await {
        Ok(Ok(_) | Err(AskError::NoDaemon(_))) => {}
        Ok(Err(unanswered)) => {
            remark!("switchboard: the daemon has not read the secrets again: {unanswered}")
        }
        Err(_) => remark!(
            "switchboard: the daemon did not answer within {} s; `switchboard reload` has it read the secrets again",
            RELOAD.as_secs()
        ),
    }
}

/// This command's environment, which leads to the user's keyring.
pub(super) fn own_variables() -> ChildEnvironment {
    let own = std::env::vars_os();
    ChildEnvironment::from_all(
        own.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
    )
}
