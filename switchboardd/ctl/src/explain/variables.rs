//! The variables and headers that a definition sets.

use std::collections::BTreeSet;

use switchboard_definitions::definition::Launch;
use switchboard_definitions::expand::Template;
use switchboard_definitions::mask::placeholders_of;

/// A variable or header: its label and name, its masked value, and the placeholders in it.
pub(super) type Variable = (&'static str, String, String, BTreeSet<String>);

pub(super) fn variables(launch: &Launch) -> Vec<Variable> {
    let needed = |value: &Template| value.placeholders().map(|(name, _)| name.to_owned()).collect();
    match launch {
        Launch::Process(launch) => {
            let set = launch.env.iter().filter_map(|(name, value)| {
                let value = value.as_ref()?;
                Some(("sets", name.clone(), format!("={}", placeholders_of(value)), needed(value)))
            });
            let from_file = launch
                .env_file
                .keys()
                .map(|name| ("sets", name.clone(), "=••• (env file)".to_owned(), BTreeSet::new()));
            set.chain(from_file).collect()
        }
        Launch::Remote(remote) => {
            let header = |(name, value): (&String, &Template)| {
                ("header", name.clone(), format!(": {}", placeholders_of(value)), needed(value))
            };
            remote.headers.iter().map(header).collect()
        }
    }
}
