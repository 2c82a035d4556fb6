//! `switchboard pin`: writes the versions that run now into definitions that let a package runner choose one.

mod edit;
pub(crate) mod installed;

use std::io::IsTerminal;
use std::path::PathBuf;

use serde_json::{Value, json};
use switchboard_definitions::definition::{Definition, Launch};
use switchboard_definitions::files::replace;
use switchboard_definitions::trust::unpinned;
use switchboard_wire::printable;
use switchboard_wire::visible::visible;
use switchboardd::{Suite, daemon};

use super::CliExit;
use super::ask::tell_daemon;
use super::dry_run::OfflineDaemon;
use super::learn::{LearnedServer, NewServer, learn_imported};
use super::output::{complain, count, failed, print_json, say, tilde};
use super::prompt;
use super::setup::print_difference;
use crate::args::{Args, Pin};
use installed::PackageKind;

/// A definition that lets a runner choose the version.
pub(crate) struct UnpinnedServer {
    pub(crate) name: String,
    file: PathBuf,
    pub(crate) package: String,
    kind: PackageKind,
    /// The version that runs now, or why it is not known.
    pub(crate) version: Result<String, String>,
    pub(crate) has_run: bool,
}

impl UnpinnedServer {
    /// What is known of a server without starting it; `None` if it has no such package.
    fn of(suite: &Suite, home: &std::path::Path) -> Option<Self> {
        let Definition { name, file, launch, .. } = &*suite.definition;
        let (package, kind) = package_of(launch.as_ref().ok()?)?;
        let reported = suite.server_info().and_then(|info| {
            let server: Value = serde_json::from_str(info.server.get()).ok()?;
            server["version"].as_str().map(ToOwned::to_owned)
        });
        let version = running_version(&package, kind, reported.as_deref(), home);
        let has_run = reported.is_some();
        Some(Self { name: name.clone(), file: file.clone(), package, kind, version, has_run })
    }

    fn pinned(&self) -> Option<String> {
        self.version.as_ref().ok().map(|version| self.kind.pinned(&self.package, version))
    }
}

/// The package that this launch leaves without a version, and where such packages come from.
pub(crate) fn package_of(launch: &Launch) -> Option<(String, PackageKind)> {
    let Launch::Process(launch) = launch else { return None };
    let words: Vec<String> =
        std::iter::once(&launch.cmd).chain(&launch.args).map(ToString::to_string).collect();
    let package = unpinned(&words)?.to_owned();
    Some((package, PackageKind::of(&words)))
}

/// The version on disk of the package that the runner uses. What the server reports is often not its package's.
pub(crate) fn running_version(
    package: &str,
    kind: PackageKind,
    reported: Option<&str>,
    home: &std::path::Path,
) -> Result<String, String> {
    let on_disk = kind.installed(package, home);
    let Some(reported) = reported else {
        return Err("it has not run yet; `switchboard introspect` with its name starts it".to_owned());
    };
    if on_disk.iter().any(|version| version == reported) {
        return Ok(reported.to_owned());
    }
    match on_disk.as_slice() {
        [] => Err(format!("it reports {}, and the package was not found on disk", visible(reported))),
        [one] => Ok(one.clone()),
        several => {
            Err(format!("it reports {}, and on disk are {}", visible(reported), visible(&several.join(", "))))
        }
    }
}

/// The user's own servers without a fixed version.
pub(crate) fn find_unpinned(args: &Args) -> Result<Vec<UnpinnedServer>, String> {
    let OfflineDaemon { daemon, .. } = OfflineDaemon::open_everywhere(args)?;
    let home = daemon::home().map_err(|fatal| fatal.to_string())?;
    let catalog = daemon.workspaces.personal.catalog();
    Ok(catalog.suites.iter().filter_map(|suite| UnpinnedServer::of(suite, &home)).collect())
}

pub(super) async fn run(args: &Args, wish: &Pin) -> CliExit {
    let mut servers = match find_unpinned(args) {
        Ok(servers) => servers,
        Err(why) => return failed(&why),
    };
    let is_named = |server: &UnpinnedServer, name: &String| {
        server.name == *name || switchboard_definitions::suite_name::derived(&server.name) == *name
    };
    for name in &wish.suite {
        if !servers.iter().any(|server| is_named(server, name)) {
            return failed(&format!(
                "`{name}` is not a server of your own that runs a package without a version"
            ));
        }
    }
    servers.retain(|server| wish.suite.is_empty() || wish.suite.iter().any(|name| is_named(server, name)));
    let can_ask = std::io::stdin().is_terminal() && !args.json;
    if !servers.is_empty() && !wish.dry_run && !wish.yes && !can_ask {
        complain(
            &"not a terminal, so you can't be asked: use `--yes`, or `--dry-run` to see what would be changed",
        );
        return CliExit::Usage;
    }
    let mut told = Vec::new();
    let mut changed = Vec::new();
    let mut exit = CliExit::Ok;
    for server in &servers {
        let result = match pin_one(args, wish, server) {
            Ok(result) => result,
            Err(why) => {
                exit = failed(&format!("`{}`: {why}", visible(&server.name)));
                "failed"
            }
        };
        if result == "pinned" {
            changed.push(server.name.clone());
        }
        told.push(json!({
            "server": server.name, "file": server.file, "package": server.package, "pinned": server.pinned(),
            "result": result, "why": server.version.as_ref().err(),
        }));
    }
    if !servers.is_empty() && servers.iter().all(|server| server.version.is_err()) {
        exit = CliExit::Error;
    }
    let mut learned = Vec::new();
    if !changed.is_empty() {
        tell_daemon(args).await;
        learned = learn_imported(args, &NewServer::named(args, &changed)).await;
    }
    if args.json {
        let starts: Vec<_> = learned.iter().map(LearnedServer::as_json).collect();
        print_json(&json!({ "dryRun": wish.dry_run, "servers": told, "starts": starts }));
        return exit;
    }
    let unknown = servers.iter().filter(|server| server.version.is_err()).count();
    match (servers.len(), wish.dry_run) {
        (0, _) => say!("nothing to do: every package of your servers has a fixed version"),
        (all, true) => say!("{} of {} can be pinned", all - unknown, count(all, "server")),
        (all, false) => say!("pinned {} of {}", changed.len(), count(all, "server")),
    }
    exit
}

/// Shows the change, asks, and writes it. Returns a word for what was done.
fn pin_one(args: &Args, wish: &Pin, server: &UnpinnedServer) -> Result<&'static str, String> {
    let file = tilde(&server.file.display().to_string());
    let Some(pinned) = server.pinned() else {
        let why = server.version.as_ref().err().map_or("", String::as_str);
        if !args.json {
            let what = format!("the version of `{}` is not known: {why}", server.package);
            let fix = match server.has_run {
                true => format!("; write `{}` in {file}", server.kind.pinned(&server.package, "VERSION")),
                false => String::new(),
            };
            say!("{}: {}", visible(&server.name), visible(&format!("{what}{fix}")));
        }
        return Ok("unknown");
    };
    let failed = |error: std::io::Error| format!("`{file}` cannot be changed: {error}");
    // Behind a symlink, the target is rewritten.
    let real = server.file.canonicalize().map_err(failed)?;
    let before = std::fs::read_to_string(&real).map_err(failed)?;
    let after = edit::with_word(&before, &server.name, &server.package, &pinned)
        .map_err(|why| format!("`{file}` cannot be changed: {why}; write `{pinned}` there"))?;
    if !args.json {
        print_difference(&server.name, &server.file, &before, &after);
    }
    if wish.dry_run {
        return Ok("would be pinned");
    }
    if !wish.yes && !prompt::yes(&printable!("change {}? [y/N] ", visible(&file))) {
        return Ok("declined");
    }
    replace(&real, after.as_bytes()).map_err(failed)?;
    Ok("pinned")
}
