//! What the user can allow or deny.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use switchboard_definitions::definition::{Definition, Launch};
use switchboard_definitions::own_limits::OwnLimits;
use switchboard_definitions::suite_name;
use switchboard_definitions::trust::{JudgedSettings, TrustStatus};
use switchboardd::{DuplicateDefinition, Layer};

/// A definition that the user can allow or deny.
pub(super) struct Candidate {
    pub(super) definition: Definition,
    /// What would run.
    pub(super) wanted: Launch,
    /// The limits on its tools that come with it.
    pub(super) limits: OwnLimits,
    /// What was allowed last.
    pub(super) before: Option<Launch>,
    pub(super) settings: JudgedSettings,
    pub(super) denied: bool,
    pub(super) root: PathBuf,
    pub(super) suite_names: BTreeSet<String>,
    /// The same launch in other files of the project: file, name, and whether it is denied there.
    pub(super) also: Vec<(PathBuf, String, bool)>,
    /// Whether another definition of that name waits and comes first.
    pub(super) is_second: bool,
}

impl Candidate {
    /// Whether the limits on its tools are those that count now.
    pub(super) fn has_same_limits(&self) -> bool {
        self.limits == self.definition.limits
    }

    /// Whether a file defines it.
    pub(super) fn is_in(&self, file: &Path) -> bool {
        let mut files = std::iter::once(&self.definition.file).chain(self.also.iter().map(|(file, ..)| file));
        files.any(|known| known.canonicalize().is_ok_and(|known| known == file))
    }
}

/// The names by which a server can be typed.
pub(super) fn names(layer: &Layer, definition: &Definition) -> BTreeSet<String> {
    let chosen = layer.config.suite(&definition.name).suite_name;
    let names = [Some(definition.name.clone()), Some(suite_name::derived(&definition.name)), chosen];
    names.into_iter().flatten().collect()
}

/// `own`: the layer is the user's, whose allowed definitions need no decision.
pub(super) fn candidates(layer: &Layer, own: bool) -> Vec<Candidate> {
    let candidate = |definition: &Definition, wanted: &Launch, before: Option<&Launch>, denied: bool| {
        let restrictions = layer.config.suite(&definition.name).restrictions();
        let stands_for =
            |one: &&DuplicateDefinition| one.of.0 == definition.file && one.of.1 == definition.name;
        let others: Vec<_> = layer.duplicates.iter().filter(stands_for).collect();
        let also = others
            .iter()
            .map(|one| (one.definition.file.clone(), one.definition.name.clone(), one.is_denied));
        Candidate {
            definition: definition.clone(),
            wanted: wanted.clone(),
            limits: definition.limits.clone(),
            before: before.cloned(),
            settings: JudgedSettings { wanted: restrictions, ..JudgedSettings::default() },
            denied,
            root: layer.config.folder.clone(),
            suite_names: others
                .iter()
                .flat_map(|one| names(layer, &one.definition))
                .chain(names(layer, definition))
                .collect(),
            also: also.collect(),
            is_second: false,
        }
    };
    let of_entries = layer.entries.iter().filter_map(|entry| {
        let definition = &entry.definition;
        let now = definition.launch.as_ref().ok();
        let found = match &entry.trust_status {
            TrustStatus::Held => Some(candidate(definition, now?, None, false)),
            TrustStatus::Outdated { pending: waiting, limits } => {
                let candidate = candidate(definition, waiting, now, false);
                Some(Candidate { limits: limits.clone(), ..candidate })
            }
            // Was allowed with a certain program, which may have changed since.
            TrustStatus::Allowed => (!own || definition.command()?.program.is_some())
                .then(|| now.map(|now| candidate(definition, now, Some(now), false)))
                .flatten(),
            TrustStatus::Denied => None,
        };
        found.map(|found| Candidate { settings: entry.settings.clone(), ..found })
    });
    let of_denied = layer
        .denied
        .iter()
        .filter_map(|definition| Some(candidate(definition, definition.launch.as_ref().ok()?, None, true)));
    let of_rivals = layer.rivals.iter().filter_map(|entry| {
        let definition = &entry.definition;
        let rival = candidate(definition, definition.launch.as_ref().ok()?, None, false);
        Some(Candidate { is_second: true, ..rival })
    });
    of_entries.chain(of_rivals).chain(of_denied).collect()
}

/// Whether this version, or its settings, is neither allowed nor denied.
pub(super) fn waits(candidate: &Candidate) -> bool {
    (is_other_version(candidate) || !candidate.has_same_limits() || candidate.settings.wait())
        && !candidate.denied
}

/// Whether something else would run than what was allowed.
pub(super) fn is_other_version(candidate: &Candidate) -> bool {
    candidate.before.as_ref().is_none_or(|before| before.digest() != candidate.wanted.digest())
}
