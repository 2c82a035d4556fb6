//! `switchboard revoke`: takes back what the user allowed. Works without a daemon; one that runs holds the servers
//! again at once, and ends those that run when their calls are done.

use std::path::{Path, PathBuf};

use serde_json::json;
use switchboard_definitions::suite_name;
use switchboard_definitions::trust::{Decision, TrustStatus};
use switchboard_wire::visible::visible;

use super::CliExit;
use super::allow::person::{now, who};
use super::ask::tell_daemon;
use super::local_config::LocalConfig;
use super::output::{failed, print_json, say};
use crate::args::Args;
use switchboardd::Layer;

/// One entry of one file.
type TrustEntry = (PathBuf, String);

/// Without names, everything is taken back.
pub(super) async fn run(args: &Args, what: &[String]) -> CliExit {
    let local = match LocalConfig::open(args) {
        Ok(local) => local,
        Err(exit) => return exit,
    };
    let mut entries = Vec::new();
    if what.is_empty() {
        entries.extend(allowed(&local).map(|(file, name)| (file.to_owned(), name.to_owned())));
    }
    // All names are looked up before anything is changed.
    for what in what {
        match meant(&local, args, what) {
            Ok(found) => entries.extend(found),
            Err(why) => return failed(&why),
        }
    }
    entries.sort();
    entries.dedup();
    let revoked = match local.locations.trust.revoke(&entries, &now(), &who()) {
        Ok(revoked) => revoked,
        Err(error) => return failed(&error),
    };
    if args.json {
        let revoked: Vec<_> =
            revoked.iter().map(|(file, name)| json!({ "name": name, "file": file })).collect();
        print_json(&json!({ "revoked": revoked }));
    } else if revoked.is_empty() {
        say!("nothing was allowed");
    } else {
        for (file, name) in &revoked {
            let file = file.display().to_string();
            say!("`{}` in {} is held again", visible(name), visible(&file));
        }
        for root in &local.trust.roots {
            if revoked.iter().any(|(file, _)| file.starts_with(root)) {
                let root = root.display().to_string();
                say!("but everything in {} is allowed by `trust.roots` or `--trust-root`", visible(&root));
            }
        }
    }
    if !revoked.is_empty() {
        tell_daemon(args).await;
    }
    CliExit::Ok
}

/// Everything that the user has allowed.
fn allowed(local: &LocalConfig) -> impl Iterator<Item = (&Path, &str)> {
    local.trust.records.iter().flat_map(|(file, names)| {
        let allowed = names.iter().filter(|(_, record)| matches!(record.verdict, Decision::Allow(_)));
        allowed.map(move |(name, _)| (file.as_path(), name.as_str()))
    })
}

/// The allowed entries that a word stands for: a server or suite here, a file, or a folder.
fn meant(local: &LocalConfig, args: &Args, what: &str) -> Result<Vec<TrustEntry>, String> {
    let here = local.here(args);
    let layers: Vec<Layer> = here.iter().map(|root| local.workspace(root)).collect();
    let layers = || layers.iter().chain([&local.personal]);
    let is_here = |file: &Path| layers().any(|layer| file.starts_with(&layer.config.folder));
    // A suite's name may be its own.
    let stands_for = |name: &str| {
        let chosen = layers().any(|layer| layer.config.suite(name).suite_name.as_deref() == Some(what));
        name == what || suite_name::derived(name) == what || chosen
    };
    let owned = |(file, name): (&Path, &str)| (file.to_owned(), name.to_owned());
    let named: Vec<(&Path, &str)> = allowed(local).filter(|(_, name)| stands_for(name)).collect();
    let found: Vec<TrustEntry> = named.iter().copied().filter(|(file, _)| is_here(file)).map(owned).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let shown = visible(what).into_owned();
    if let Ok(path) = Path::new(what).canonicalize() {
        let real = |file: &Path| file.canonicalize().unwrap_or_else(|_| file.to_owned());
        let in_path = |file: &Path| file.starts_with(what) || real(file).starts_with(&path);
        let found: Vec<TrustEntry> = allowed(local).filter(|(file, _)| in_path(file)).map(owned).collect();
        return if found.is_empty() { Err(format!("nothing of `{shown}` is allowed")) } else { Ok(found) };
    }
    // A file that is gone may still be allowed.
    let gone: Vec<TrustEntry> =
        allowed(local).filter(|(file, _)| *file == Path::new(what)).map(owned).collect();
    if !gone.is_empty() {
        return Ok(gone);
    }
    let mut entries = layers().flat_map(|layer| {
        let own = std::ptr::eq(layer, &local.personal);
        layer.entries.iter().map(move |entry| (own, entry))
    });
    let entry = entries.find(|(_, entry)| stands_for(&entry.definition.name));
    let denied = layers().flat_map(|layer| &layer.denied).any(|one| stands_for(&one.name));
    Err(match entry {
        _ if denied => format!("`{shown}` is denied; there is nothing to take back"),
        Some((true, entry)) if entry.trust_status == TrustStatus::Allowed => {
            format!(
                "`{shown}` is your own server and needs no approval; `switchboard remove {shown}` removes it"
            )
        }
        Some((false, entry)) if entry.trust_status == TrustStatus::Allowed => {
            let file = entry.definition.file.display().to_string();
            format!(
                "`{shown}` is allowed by a trusted root (`trust.roots` or `--trust-root`), not by you: {}",
                visible(&file)
            )
        }
        Some(_) => format!("`{shown}` is held already; there is nothing to take back"),
        None if !named.is_empty() => {
            let files: Vec<String> =
                named.iter().map(|(file, _)| format!("`{}`", visible(&file.display().to_string()))).collect();
            format!("`{shown}` is not allowed here, but in {}; name the file", files.join(", "))
        }
        None => format!(
            "there is no server `{shown}` here, and no such file; `switchboard allow --list` lists what is allowed"
        ),
    })
}
