//! Adds Switchboard to a host's file, and removes it again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use switchboard_definitions::document::Problem;
use switchboard_definitions::files::others_can_write;
use switchboard_definitions::files::text::read_text;

use super::record::{HostFileRecord, HostFileRecords, RemovedServer, fingerprint};
use super::swap::{Edit, SwapOutcome, swap};
use super::{Change, Host, HostFileError};

/// What setting up or undoing would do to a file.
#[derive(Debug)]
pub struct Plan {
    pub before: Option<String>,
    /// `None`: the file is deleted.
    pub after: Option<String>,
    pub kind: SetupKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetupKind {
    /// Set up already.
    Already,
    /// Set up already, but disabled in the host.
    Disabled,
    Add,
    /// The shim's path changes.
    Move,
    /// The original text is restored.
    Restore,
    /// The host changed the file meanwhile: only our changes are removed.
    TakeOut,
    /// Nothing of ours is in it any more.
    NothingLeft,
    /// Imported servers are removed.
    RemoveImported,
}

impl Plan {
    pub fn changes(&self) -> bool {
        self.before != self.after
    }
}

/// Plans setting up. Writes nothing.
pub fn plan(host: &Host, file: &Path, shim: &str) -> Result<Plan, Problem> {
    let before = read_text(file).map_err(|why| Problem::of(file, why))?;
    let (kind, after) = added(host, file, before.as_deref(), shim).map_err(|refusal| refusal.of(file))?;
    Ok(Plan { after: after.map(|(text, _)| text).or_else(|| before.clone()), before, kind })
}

/// The kind of change; the new text with the number of keys on the path that existed before.
type SetupChange = (SetupKind, Option<(String, Option<usize>)>);

fn added(host: &Host, file: &Path, text: Option<&str>, shim: &str) -> Result<SetupChange, HostFileError> {
    // Continue reads its older file only while the new one does not exist.
    if text.is_none() && host.id == "continue" && file.with_extension("json").exists() {
        return Err(HostFileError::new(
            "does not exist, and would replace `config.json`; have Continue create it first",
        ));
    }
    Ok(match host.with_shim(text.unwrap_or_default(), shim)? {
        Change::Same { is_off: true } => (SetupKind::Disabled, None),
        Change::Same { is_off: false } => (SetupKind::Already, None),
        Change::Moved { text } => (SetupKind::Move, Some((text, None))),
        Change::Added { text, there_before } => (SetupKind::Add, Some((text, Some(there_before)))),
    })
}

/// How other users could change a host's file, and with it what the host starts; `None` if they cannot.
pub fn exposure(file: &Path) -> Option<String> {
    let there = file.ancestors().find_map(|path| path.canonicalize().ok())?;
    others_can_write(&there, &mut HashMap::new())
}

/// Sets a host up in one of its files.
pub fn set_up(records: &HostFileRecords, host: &Host, file: &Path, shim: &str) -> Result<SetupKind, Problem> {
    let known = records.of(file).map_err(|why| Problem::of(file, why))?;
    let folders = missing_folders(file);
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|error| Problem::of(file, format!("cannot be written: {error}")))?;
    }
    let mut kind = SetupKind::Already;
    let there_before = std::cell::Cell::new(None);
    let swapped = swap(
        file,
        |text| {
            let made = added(host, file, text, shim)?;
            kind = made.0;
            Ok(match made.1 {
                None => Edit::Keep,
                Some((text, there)) => {
                    there_before.set(there);
                    Edit::Write(text)
                }
            })
        },
        |before, after| {
            let mut record = base(host, file, before, known.as_ref());
            // An entry that the user wrote is theirs; then only its path is ours.
            record.there_before = there_before.get().or(record.there_before);
            record.written = after.map(fingerprint).unwrap_or_default();
            if record.original.is_none() && record.folders.is_empty() {
                record.folders.clone_from(&folders);
            }
            records.save(&record)
        },
    );
    if !matches!(swapped, Ok(SwapOutcome::Written)) {
        for folder in folders.iter().rev() {
            let _ = std::fs::remove_dir(folder);
        }
    }
    swapped.map(|_| kind)
}

/// The record to continue with. Its original is the text from before all our changes.
pub(super) fn base(
    host: &Host,
    file: &Path,
    before: Option<&str>,
    known: Option<&HostFileRecord>,
) -> HostFileRecord {
    let fresh = || HostFileRecord::new(host.id, file, before);
    let Some(known) = known else { return fresh() };
    // The only copy of something is kept, whatever happened to the file.
    let before = match before {
        Some(before) if !before.trim().is_empty() || !known.holds_something() => before,
        _ if known.holds_something() => return known.clone(),
        _ => return fresh(),
    };
    if known.is_ours(before) {
        return known.clone();
    }
    // The host changed it since: the original is that text without our changes.
    match without_ours(host, known, before) {
        Ok(Some(original)) => HostFileRecord { original: Some(original), ..known.clone() },
        _ => fresh(),
    }
}

/// Removes our entry and puts removed servers back; `None` if there is nothing to undo.
fn without_ours(host: &Host, record: &HostFileRecord, text: &str) -> Result<Option<String>, HostFileError> {
    let mut rest = match record.there_before {
        Some(there_before) => host.without_shim(text, there_before)?,
        None => None,
    };
    for RemovedServer { project, name, raw } in &record.taken {
        let from = rest.as_deref().unwrap_or(text);
        if let Some(with) = host.with_server(from, project.as_deref(), name, raw)? {
            rest = Some(with);
        }
    }
    Ok(rest)
}

fn undone(
    host: &Host,
    record: &HostFileRecord,
    text: Option<&str>,
) -> Result<(SetupKind, Option<String>), HostFileError> {
    let is_gone = text.is_none_or(|text| text.trim().is_empty());
    if let Some(original) = record.original.as_ref().filter(|_| is_gone && record.holds_something()) {
        // The record holds the only copy.
        return Ok((SetupKind::Restore, Some(original.clone())));
    }
    let Some(text) = text else { return Ok((SetupKind::NothingLeft, None)) };
    if record.is_ours(text) {
        return Ok((SetupKind::Restore, record.original.clone()));
    }
    if record.original.as_deref() == Some(text) {
        return Ok((SetupKind::NothingLeft, Some(text.to_owned())));
    }
    Ok(match without_ours(host, record, text)? {
        Some(rest) => (SetupKind::TakeOut, Some(rest)),
        None => (SetupKind::NothingLeft, Some(text.to_owned())),
    })
}

/// Plans an undo. Writes nothing.
pub fn plan_undo(host: &Host, record: &HostFileRecord) -> Result<Plan, Problem> {
    let before = read_text(&record.file).map_err(|why| Problem::of(&record.file, why))?;
    let (kind, after) =
        undone(host, record, before.as_deref()).map_err(|refusal| refusal.of(&record.file))?;
    Ok(Plan { before, after, kind })
}

/// Undoes our changes to a file.
pub fn undo(records: &HostFileRecords, host: &Host, record: &HostFileRecord) -> Result<SetupKind, Problem> {
    let mut kind = SetupKind::NothingLeft;
    if let Some(folder) = record.file.parent().filter(|_| record.holds_something()) {
        std::fs::create_dir_all(folder)
            .map_err(|error| Problem::of(&record.file, format!("cannot be written: {error}")))?;
    }
    swap(
        &record.file,
        |text| {
            let (now, after) = undone(host, record, text)?;
            kind = now;
            Ok(match after {
                after if after.as_deref() == text => Edit::Keep,
                Some(after) => Edit::Write(after),
                None => Edit::Delete,
            })
        },
        |_, _| Ok(()),
    )?;
    if record.original.is_none() {
        for folder in record.folders.iter().rev() {
            // Fails for folders that are not empty.
            let _ = std::fs::remove_dir(folder);
        }
    }
    records
        .forget(&record.file)
        .map_err(|error| Problem::of(&record.file, format!("cannot be forgotten: {error}")))?;
    Ok(kind)
}

/// The folders that do not exist yet, outermost first.
fn missing_folders(file: &Path) -> Vec<PathBuf> {
    let above = file.ancestors().skip(1).take_while(|folder| !folder.exists());
    let mut missing: Vec<PathBuf> = above.map(Path::to_owned).collect();
    missing.reverse();
    missing
}

/// A server's project and name.
pub type ServerKey = (Option<PathBuf>, String);

fn without_servers(
    host: &Host,
    text: &str,
    servers: &[ServerKey],
) -> Result<(String, Vec<RemovedServer>), HostFileError> {
    let (mut rest, mut taken) = (text.to_owned(), Vec::new());
    for (project, name) in servers {
        if let Some((without, raw)) = host.without_server(&rest, project.as_deref(), name)? {
            rest = without;
            taken.push(RemovedServer { project: project.clone(), name: name.clone(), raw });
        }
    }
    Ok((rest, taken))
}

/// Plans removing servers from a file. Writes nothing.
pub fn plan_removal(host: &Host, file: &Path, servers: &[ServerKey]) -> Result<Plan, Problem> {
    let before = read_text(file).map_err(|why| Problem::of(file, why))?;
    let after = without_servers(host, before.as_deref().unwrap_or_default(), servers)
        .map_err(|refusal| refusal.of(file))?;
    Ok(Plan { after: before.is_some().then_some(after.0), before, kind: SetupKind::RemoveImported })
}

/// Removes servers from a file.
pub fn take_out(
    records: &HostFileRecords,
    host: &Host,
    file: &Path,
    servers: &[ServerKey],
) -> Result<SetupKind, Problem> {
    let known = records.of(file).map_err(|why| Problem::of(file, why))?;
    let taken = std::cell::RefCell::new(Vec::new());
    swap(
        file,
        |text| {
            let Some(text) = text else { return Ok(Edit::Keep) };
            let (rest, out) = without_servers(host, text, servers)?;
            taken.replace(out);
            Ok(if rest == text { Edit::Keep } else { Edit::Write(rest) })
        },
        |before, after| {
            let mut record = base(host, file, before, known.as_ref());
            record.taken.extend(taken.borrow().iter().cloned());
            record.written = after.map(fingerprint).unwrap_or_default();
            records.save(&record)
        },
    )?;
    Ok(SetupKind::RemoveImported)
}
