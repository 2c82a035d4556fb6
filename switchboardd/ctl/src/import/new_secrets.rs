//! The secrets that an import stores, and their names.

use std::collections::BTreeMap;

use switchboard_hosts::import::Literal;
use switchboardd::secrets::check_name;

/// Secrets to store, collected before anything is written.
pub(super) struct NewSecrets<'a> {
    /// Secrets that are already set.
    pub(super) kept: &'a BTreeMap<String, String>,
    pub(super) new: BTreeMap<String, String>,
}

impl NewSecrets<'_> {
    /// The name under which the value is stored, or will be.
    pub(super) fn name(
        &self,
        chosen: &mut BTreeMap<String, String>,
        literal: Literal,
    ) -> Result<String, String> {
        let Literal { name, value, variable } = literal;
        let suits = |name: &String| match (self.kept.get(name), chosen.get(name)) {
            (Some(kept), _) | (None, Some(kept)) => *kept == value,
            (None, None) => true,
        };
        // The same value of the same variable is not stored twice.
        let is_same = |(known, kept): &(&String, &String)| {
            let of = |variable: &String| known.strip_suffix(variable.as_str()).is_some_and(is_prefix);
            **kept == value && variable.as_ref().is_some_and(of)
        };
        let has_own = [self.kept, &*chosen].iter().any(|all| all.get(&name) == Some(&value));
        let shared = self.kept.iter().chain(chosen.iter()).find(is_same).filter(|_| !has_own);
        let numbered = (2..100).map(|number| format!("{name}_{number}"));
        let all = shared.map(|(known, _)| known.clone()).into_iter().chain([name.clone()]).chain(numbered);
        let found =
            all.into_iter().find(suits).ok_or_else(|| format!("no name is left for its secret `{name}`"))?;
        check_name(&found).map_err(|error| error.to_string())?;
        if !self.kept.contains_key(&found) {
            chosen.insert(found.clone(), value);
        }
        Ok(found)
    }
}

/// Whether this text may precede a variable in a secret's name.
fn is_prefix(text: &str) -> bool {
    text.is_empty() || text.ends_with('_')
}
