//! Checks our own folders and files: owner, permissions, and whether they can be written.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use switchboard_definitions::config::{ConfigOwner, LastGood};
use switchboard_definitions::document::Problem;
use switchboard_definitions::files::state::{CHILD_FOLDERS, FOLDERS};
use switchboard_definitions::trust::TrustStore;
use switchboard_wire::folder::{check_itself, is_ours_alone};
use switchboard_wire::runtime_paths::RuntimePaths;

use super::Finding;
use super::repair::Repair;
use crate::output::tilde;
use crate::shell_word::shell_word;
use crate::unused_settings::unused_settings as settings_of;
use switchboardd::Layer;

/// Checks the socket's folder, the state folder and the secrets in it.
pub(super) fn places(paths: &RuntimePaths, state: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let socket_folder = paths.socket.parent().unwrap_or(Path::new("/"));
    let mut folders = vec![socket_folder, state];
    folders.dedup();
    for folder in folders {
        let mut finding = closed(folder, 0o700);
        // A folder that somebody chose with `--socket` may be for other things as well.
        let is_ours = folder == state || folder.file_name().is_some_and(|name| name == "switchboard");
        if let Some(finding) = finding.as_mut().filter(|_| !is_ours) {
            finding.repair = None;
        }
        findings.extend(finding);
        findings.extend(above(folder));
    }
    for folder in FOLDERS.iter().chain(&CHILD_FOLDERS) {
        findings.extend(closed(&state.join(folder), 0o700));
    }
    for file in ["token", "trust/trust.json", "secrets/secrets.json"] {
        findings.extend(closed(&state.join(file), 0o600));
    }
    findings.extend(closed(&paths.socket, 0o600));
    findings.extend(writable(state));
    if findings.is_empty() {
        let what = format!("{} and {} are yours alone", shown(&paths.socket), shown(state));
        findings.push(Finding::fine("modes", what));
    }
    findings
}

fn shown(path: &Path) -> String {
    tilde(&path.display().to_string())
}

/// A parent folder in which other users could replace ours.
fn above(folder: &Path) -> Option<Finding> {
    let real = folder.parent()?.canonicalize().ok()?;
    real.ancestors().find_map(|above| {
        let meta = above.metadata().ok()?;
        let why = is_ours_alone(&meta).err()?;
        let what = format!("{} is not safe from others: {}: {why}", shown(folder), shown(above));
        let word = shell_word(above);
        let is_ours = meta.uid() == rustix::process::geteuid().as_raw();
        let fix = if is_ours { format!("chmod go-w {word}") } else { format!("sudo chown root {word}") };
        Some(Finding::error("modes", what, fix))
    })
}

/// Checks owner and mode. A path that does not exist yet is fine.
fn closed(path: &Path, mode: u32) -> Option<Finding> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    let word = shell_word(path);
    if meta.is_symlink() {
        let what = format!("{} is a link, which is not followed", shown(path));
        return Some(Finding::error("modes", what, format!("rm {word}")));
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        let what = format!("{} belongs to another user (uid {})", shown(path), meta.uid());
        return Some(Finding::error("modes", what, format!("sudo chown -R \"$USER\" {word}")));
    }
    if meta.mode() & 0o077 & !mode == 0 {
        return None;
    }
    let what = format!("{} is open to others (mode {:o})", shown(path), meta.mode() & 0o777);
    let repair = Repair::Close { path: path.to_owned(), mode };
    Some(Finding::error("modes", what, format!("chmod {mode:o} {word}")).with_repair(repair))
}

/// Checks that a file can be created there, by creating one.
fn writable(state: &Path) -> Option<Finding> {
    if !state.exists() {
        return None;
    }
    let probe = state.join(format!(".doctor-{}", std::process::id()));
    let written = std::fs::write(&probe, [0; 4096]);
    let _ = std::fs::remove_file(&probe);
    let error = written.err()?;
    let fix = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            format!("df -h {}", shell_word(state))
        }
        _ => format!("chmod u+rwx {}", shell_word(state)),
    };
    Some(Finding::error("state", format!("{} cannot be written: {error}", shown(state)), fix))
}

pub(super) fn config(file: &Path, state: &Path) -> Vec<Finding> {
    let mut problems = LastGood::new(state).usable(file, ConfigOwner::Personal).problems;
    // The last one says what is used in place of the file.
    let Some(used) = problems.pop() else {
        let fine = format!("{} is fine", shown(file));
        let none = "no config file: the defaults are used".to_owned();
        return vec![Finding::fine("config", if file.exists() { fine } else { none })];
    };
    let last = problems.len().saturating_sub(1);
    let finding = |(at, problem): (usize, &Problem)| {
        let check = format!("switchboard check {}", shell_word(&problem.file));
        let note = if at == last { format!("\n{}", used.message) } else { String::new() };
        Finding::error("config", format!("{problem}{note}"), check)
    };
    problems.iter().enumerate().map(finding).collect()
}

/// Settings for unknown servers, each with its file. Only a warning: the server may be defined later.
pub(super) fn unused_settings(personal: &Layer, project: Option<&Layer>) -> Vec<(PathBuf, Finding)> {
    let own = settings_of(personal, project);
    let theirs = project.map_or_else(Vec::new, |project| settings_of(project, Some(personal)));
    let finding = |problem: Problem| {
        let fix = format!("${{EDITOR:-vi}} {}", shell_word(&problem.file));
        (problem.file.clone(), Finding::warning("config", problem.to_string(), fix))
    };
    own.into_iter().chain(theirs).map(finding).collect()
}

/// Checks that the trust store can be read.
pub(super) fn trust(state: &Path) -> Option<Finding> {
    let store = TrustStore::new(state);
    let error = store.read().err()?;
    let file = shell_word(&store.file());
    // Its permissions are reported already, with a milder fix.
    let is_exposed = std::fs::metadata(store.file()).is_ok_and(|meta| meta.mode() & 0o022 != 0);
    if is_exposed || check_itself(store.folder()).is_err() {
        return None;
    }
    let what = format!("{error}; every server of a project is held until you allow it again");
    Some(Finding::error("trust", what, format!("mv {file} {file}.damaged")))
}
