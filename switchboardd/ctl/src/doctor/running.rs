//! Checks the daemon: whether one runs, which one, whether it answers, and its servers.

use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use serde_json::Value;
use switchboard_definitions::config::Config;
use switchboard_wire::hop::{HOP, VersionRange};
use switchboard_wire::process;
use switchboard_wire::runtime_paths::RuntimePaths;
use switchboard_wire::visible::visible;

use super::Finding;
use super::repair::Repair;
use crate::ask::AskError;
use crate::brief::brief;
use crate::output::tilde;
use crate::shell_word::shell_word;
use switchboardd::child::StaleRuns;

/// Whether a daemon runs, by its socket, lock and file.
pub(super) fn presence(paths: &RuntimePaths, status: &Result<Value, AskError>) -> Vec<Finding> {
    let told: Value = std::fs::read(&paths.daemon_file)
        .ok()
        .and_then(|told| serde_json::from_slice(&told).ok())
        .unwrap_or_default();
    let pid = told["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    let lives = pid.is_some_and(|pid| process::is_same(pid, told["startTime"].as_u64()));
    let status = match status {
        Ok(status) => status,
        Err(AskError::NoDaemon(_)) => return absence(paths, pid, lives),
        Err(unanswered) => {
            let fix =
                pid.map_or("switchboard start".to_owned(), |pid| format!("kill {pid} && switchboard start"));
            return vec![Finding::error("daemon", unanswered.to_string(), fix)];
        }
    };
    let mut findings = Vec::new();
    let hop = VersionRange::parse(status["hop"].to_string().as_bytes());
    if hop.is_some_and(|hop| HOP.newest_common(hop).is_none()) {
        let what = format!(
            "the daemon speaks another version of the shim's protocol ({}) than the shim ({} to {})",
            status["hop"], HOP.min, HOP.max
        );
        findings.push(Finding::error("version", what, "switchboard restart"));
    } else if let Some(why) = status["restartPending"]["why"].as_str() {
        findings.push(Finding::warning(
            "version",
            format!("{why}; until then it keeps running"),
            "switchboard restart",
        ));
    }
    if told.is_null() {
        let what = format!(
            "{} is missing: commands may look for its files in another place",
            shown(&paths.daemon_file)
        );
        findings.push(Finding::warning("daemon", what, "switchboard restart"));
    }
    if findings.is_empty() {
        let what = format!(
            "switchboardd {} runs (pid {})",
            status["version"].as_str().unwrap_or("-"),
            status["pid"]
        );
        findings.push(Finding::fine("daemon", what));
    }
    findings
}

fn absence(paths: &RuntimePaths, pid: Option<u32>, lives: bool) -> Vec<Finding> {
    if lives && let Some(pid) = pid {
        let what = format!("switchboardd (pid {pid}) runs and does not answer on {}", shown(&paths.socket));
        return vec![Finding::error("daemon", what, format!("kill {pid} && switchboard start"))];
    }
    if is_locked(&paths.daemon_lock) {
        let what = format!(
            "{} is locked, but no daemon answers on {}",
            shown(&paths.daemon_lock),
            shown(&paths.socket)
        );
        return vec![Finding::error(
            "lock",
            what,
            format!("fuser -k {} && switchboard start", shell_word(&paths.daemon_lock)),
        )];
    }
    let mut findings = Vec::new();
    if pid.is_some() {
        let what = format!("{} belongs to a daemon that was killed, or crashed", shown(&paths.daemon_file));
        let repair = Repair::ForgetDaemon { file: paths.daemon_file.clone(), socket: paths.socket.clone() };
        findings.push(Finding::warning("daemon", what, "switchboard start").with_repair(repair));
    }
    if paths.stopped.exists() {
        let what = "switchboardd was stopped; editors that were open then do not start it again";
        findings.push(Finding::warning("daemon", what, "switchboard start"));
    }
    if findings.is_empty() {
        findings.push(Finding::fine("daemon", "no switchboardd runs; the first editor starts one"));
    }
    findings
}

/// Whether a daemon holds this lock.
pub(crate) fn is_locked(lock: &Path) -> bool {
    let Ok(file) = std::fs::File::open(lock) else { return false };
    flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK)
}

fn shown(path: &Path) -> String {
    tilde(&path.display().to_string())
}

/// Whether the daemon's program is this one.
pub(super) fn programs(status: Option<&Value>) -> Option<Finding> {
    let status = status?;
    let theirs = status["whereabouts"]["program"].as_str()?;
    let ours = std::env::current_exe().ok()?.with_file_name("switchboardd");
    if Path::new(theirs) == ours || status["replaced"] == true {
        return None;
    }
    let what = format!("the daemon is {}, this command {}", visible(theirs), ours.display());
    Some(Finding::warning("version", what, "switchboard restart"))
}

/// A configured TCP address that cannot be used.
pub(super) fn port(status: Option<&Value>, config: &Config) -> Option<Finding> {
    let why = match status {
        Some(status) => status["whereabouts"]["noTcp"].as_str().filter(|why| *why != "off")?.to_owned(),
        None if config.http.listen == "off" || config.http.is_any_port => return None,
        None => {
            let error = std::net::TcpListener::bind(&config.http.listen).err()?;
            format!("{}: {error}", config.http.listen)
        }
    };
    if status.is_some_and(|status| status["whereabouts"]["noToken"] == true) {
        let what = format!("no TCP: {why}; the unix socket works");
        return Some(Finding::warning("port", what, "switchboard restart  # once it can be written"));
    }
    let file = shell_word(&config.file);
    let fix = format!(
        "${{EDITOR:-vi}} {file} && switchboard restart  # \"http\": {{\"listen\": \"127.0.0.1:7421\"}}, or \"off\""
    );
    Some(Finding::warning("port", format!("no TCP: {why}; the unix socket works"), fix))
}

/// A record of calls that cannot be written.
pub(super) fn record(status: Option<&Value>) -> Option<Finding> {
    let record = &status?["record"];
    let why = record["problem"].as_str()?;
    let folder = Path::new(record["file"].as_str()?).parent()?;
    let fix = format!("df -h {0}; ls -la {0}", shell_word(folder));
    Some(Finding::warning("record", format!("calls are not recorded: {why}"), fix))
}

/// Servers that do not work, as the daemon sees them; without `known`, which are reported already.
pub(super) fn suites(status: Option<&Value>, known: &[&str]) -> Vec<Finding> {
    let Some(status) = status else { return Vec::new() };
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let workspaces = list(&status["workspaces"]);
    let all =
        list(&status["suites"]).into_iter().chain(workspaces.iter().flat_map(|one| list(&one["suites"])));
    let finding = |suite: Value| {
        let plain = suite["child"].as_str().unwrap_or("-");
        let (name, word) = (visible(plain), shell_word(plain));
        if matches!(suite["state"].as_str(), Some("failed" | "resting")) {
            if known.contains(&plain) {
                return None;
            }
            let why = brief(suite["lastError"].as_str().unwrap_or("failed"));
            let fix = format!("switchboard logs {word}; switchboard restart {word}");
            return Some(Finding::error("server", format!("server `{name}` {why}"), fix));
        }
        let lines: u64 =
            list(&suite["children"]).iter().filter_map(|child| child["stdoutLines"].as_u64()).sum();
        let wrote = match lines {
            1 => "1 line to stdout that is not JSON-RPC; it belongs on stderr".to_owned(),
            lines => format!("{lines} lines to stdout that are not JSON-RPC; they belong on stderr"),
        };
        let what = format!("server `{name}` works, but wrote {wrote}");
        (lines > 0).then(|| Finding::warning("server", what, format!("switchboard logs {word}")))
    };
    all.filter_map(finding).collect()
}

/// Processes left by a daemon that was killed together with its guards.
pub(super) fn orphans(paths: &RuntimePaths, runs: bool) -> Option<Finding> {
    // A running daemon clears orphans itself, and its own children would be found here.
    if runs {
        return None;
    }
    let left = StaleRuns::of(&paths.daemon_file.with_extension("ledger")).processes();
    if left.is_empty() {
        return None;
    }
    let pids: Vec<String> = left.iter().map(|process| process.id.to_string()).collect();
    let what = format!("processes of an earlier daemon are left: {}", pids.join(", "));
    Some(Finding::error("orphans", what, "switchboard start"))
}
