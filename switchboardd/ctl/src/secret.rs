//! `switchboard secret`: values for `${NAME}` in definitions.

use std::io::{self, IsTerminal, Read};
use std::time::Duration;

use hyper::Method;
use serde_json::json;
use switchboard_wire::printable;

use super::CliExit;
use super::ask::{AskError, ask};
use super::output::{failed, indented, print_json, remark, say};
use super::prompt;
use crate::args::{Args, Secret};
use switchboardd::ChildEnvironment;
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
        Secret::Ls => ls(&secrets, args.json),
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
                false => say!("stored `{name}` in a private file (no keyring answered: {})", indented(why)),
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

fn ls(secrets: &Secrets, as_json: bool) -> CliExit {
    let list = match secrets.list() {
        Ok(list) => list,
        Err(error) => return failed(&error),
    };
    if as_json {
        let list: Vec<_> = list.iter().map(|(name, place)| json!({ "name": name, "in": place })).collect();
        print_json(&json!({ "secrets": list }));
        return CliExit::Ok;
    }
    if list.is_empty() {
        say!("no secrets are set; `switchboard secret set NAME` sets one");
    }
    let width = list.keys().map(String::len).max().unwrap_or(0);
    for (name, place) in list {
        let place = match place {
            SecretLocation::Keyring => "keyring",
            SecretLocation::File => "private file",
        };
        say!("{name:width$}  {place}");
    }
    CliExit::Ok
}

/// Makes a running daemon reload; any other reads the secrets when it starts.
async fn reload(args: &Args) {
    match tokio::time::timeout(RELOAD, ask(args, Method::POST, "/control/reload", None)).await {
        Ok(Ok(_) | Err(AskError::NoDaemon(_))) => {}
        Ok(Err(unanswered)) => remark!("switchboard: the daemon was not told: {unanswered}"),
        Err(_) => remark!("switchboard: the daemon was not told: no answer within {} s", RELOAD.as_secs()),
    }
}

/// This command's environment, which leads to the user's keyring.
pub(super) fn own_variables() -> ChildEnvironment {
    let own = std::env::vars_os();
    ChildEnvironment::from_all(
        own.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
    )
}
