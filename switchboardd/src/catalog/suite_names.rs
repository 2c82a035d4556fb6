//! The names of suites and of the tool that searches them.

use std::collections::HashSet;

use switchboard_definitions::document::Problem;
use switchboard_definitions::suite_name;
use switchboard_definitions::trust::{JudgedDefinition, TrustStatus};

use crate::catalog::layer::Layer;

/// Two names per suite, its own and that of its tool for what writes: configured names first, then derived ones,
/// with a stable suffix on a clash. The user's suites come before the tool that searches all suites, and both before a
/// workspace's. A configured name that is taken is reported.
pub(super) fn names(
    entries: &[(&Layer, &JudgedDefinition)],
    personal: &Layer,
) -> (Vec<[String; 2]>, Option<&'static str>, Vec<Problem>) {
    let mut taken = HashSet::new();
    let mut find_tool = None;
    let add_find_tool = |taken: &mut HashSet<String>| {
        let name = personal.config.find.then(|| find_tool_name(taken))?;
        taken.insert(name.to_owned());
        Some(name)
    };
    let (mut names, mut problems) = (Vec::with_capacity(entries.len()), Vec::new());
    let alike = |(one, a): &(&Layer, &JudgedDefinition), (other, b): &(&Layer, &JudgedDefinition)| {
        std::ptr::eq(*one, *other)
            && (a.trust_status == TrustStatus::Held) == (b.trust_status == TrustStatus::Held)
    };
    for entries in entries.chunk_by(alike) {
        if find_tool.is_none() && !std::ptr::eq(entries[0].0, personal) {
            find_tool = add_find_tool(&mut taken);
        }
        let chosen = entries.iter().map(|(layer, entry)| {
            let child = &entry.definition.name;
            // A project's is the one that the user allowed.
            let name = match std::ptr::eq(*layer, personal) {
                true => layer.config.suites.get(child)?.suite_name.clone()?,
                false => entry.settings.in_force.suite_name.clone()?,
            };
            if taken.insert(name.clone()) {
                return Some(name);
            }
            let message = format!("`suites.{child}.suiteName`: another tool is named `{name}`");
            problems.push(Problem::of(&layer.config.file, message));
            None
        });
        let chosen: Vec<Option<String>> = chosen.collect();
        let own = chosen.into_iter().zip(entries).map(|(chosen, (_, entry))| {
            chosen.unwrap_or_else(|| {
                let child = &entry.definition.name;
                let first = suite_name::derived(child);
                let free = if taken.contains(&first) { suite_name::marked(&first, child) } else { first };
                taken.insert(free.clone());
                free
            })
        });
        let own: Vec<String> = own.collect();
        names.extend(own.into_iter().map(|name| {
            let writing = suite_name::of_writing(&name, |name| taken.contains(name));
            taken.insert(writing.clone());
            [name, writing]
        }));
    }
    let find_tool = find_tool.or_else(|| add_find_tool(&mut taken));
    (names, find_tool, problems)
}

/// The name of the tool that searches all suites. The user's suites keep their names.
fn find_tool_name(taken: &HashSet<String>) -> &'static str {
    let names = ["find", "find_tool", "find_any_tool"];
    names.into_iter().find(|name| !taken.contains(*name)).unwrap_or("switchboard_find_tool")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::sync::{Arc, Mutex};
    use switchboard_definitions::config::Config;
    use switchboard_definitions::config::SuiteConfig;
    use switchboard_definitions::definition::Definition;
    use switchboard_definitions::discover::WatchedPaths;
    use switchboard_definitions::discover::host_files::HostSet;
    use switchboard_definitions::trust::JudgedSettings;

    fn layer(children: &[&str], chosen: &[(&str, &str)]) -> Layer {
        let mut config = Config::defaults(Path::new("/"));
        for (child, name) in chosen {
            let suite = SuiteConfig { suite_name: Some((*name).to_owned()), ..SuiteConfig::default() };
            config.suites.insert((*child).to_owned(), suite);
        }
        let entry = |name: &&str| JudgedDefinition {
            definition: Arc::new(Definition {
                name: (*name).to_owned(),
                description: None,
                launch: Err("no command".to_owned()),
                timeout: None,
                file: "/f".into(),
                at: None,
                unclear_in: None,
                limits: Default::default(),
            }),
            trust_status: TrustStatus::Allowed,
            why_held: None,
            read_by: HostSet::default(),
            settings: JudgedSettings {
                in_force: config.suite(name).restrictions(),
                ..JudgedSettings::default()
            },
            other_limits: Default::default(),
        };
        let entries = children.iter().map(entry).collect();
        Layer {
            config,
            entries,
            denied: Vec::new(),
            duplicates: Vec::new(),
            rivals: Vec::new(),
            problems: Vec::new(),
            watched: WatchedPaths::default(),
            manifests: Mutex::default(),
        }
    }

    fn all_names(layers: &[&Layer]) -> (Vec<[String; 2]>, Vec<Problem>) {
        let entries: Vec<_> =
            layers.iter().flat_map(|layer| layer.entries.iter().map(|entry| (*layer, entry))).collect();
        let (names, _, problems) = names(&entries, layers[0]);
        (names, problems)
    }

    #[test]
    fn a_workspace_does_not_rename_the_tool_that_searches() {
        let mut personal = layer(&["a"], &[]);
        personal.config.find = true;
        let own = layer(&["x"], &[("x", "find")]);
        let entries: Vec<_> = [&personal, &own]
            .into_iter()
            .flat_map(|layer| layer.entries.iter().map(move |entry| (layer, entry)))
            .collect();
        let (workspace_names, find_tool, problems) = names(&entries, &personal);
        assert_eq!((find_tool, &*workspace_names[1][0]), (Some("find"), "x_suite"));
        assert_eq!(problems.len(), 1);
        // A suite of the user keeps its name.
        let mut personal = layer(&["a"], &[("a", "find")]);
        personal.config.find = true;
        let entries: Vec<_> = personal.entries.iter().map(|entry| (&personal, entry)).collect();
        assert_eq!(names(&entries, &personal).1, Some("find_tool"));
    }

    /// The suites' own names.
    fn named(layers: &[&Layer]) -> (Vec<String>, Vec<Problem>) {
        let (names, problems) = all_names(layers);
        (names.into_iter().map(|[name, _]| name).collect(), problems)
    }

    #[test]
    fn a_workspace_cannot_take_the_name_of_a_writing_tool() {
        let personal = layer(&["a", "b"], &[("b", "a_suite_write")]);
        let (names, problems) = all_names(&[&personal, &layer(&["x"], &[("x", "a_suite_write")])]);
        assert_eq!((names[1][0].as_str(), names[2][0].as_str()), ("a_suite_write", "x_suite"));
        assert_eq!(problems.len(), 1, "{problems:?}");
        let (plain, problems) = all_names(&[&layer(&["a"], &[]), &layer(&["x"], &[("x", "a_suite_write")])]);
        assert_eq!(plain, [["a_suite", "a_suite_write"], ["x_suite", "x_suite_write"]]);
        assert_eq!(problems.len(), 1, "{problems:?}");
        let all: HashSet<_> = names.iter().flatten().collect();
        assert_eq!(all.len(), 6, "{names:?}");
    }

    #[test]
    fn configured_names_win_and_clashes_get_a_suffix() {
        let (names, problems) = named(&[&layer(&["a", "b", "c"], &[("a", "b_suite")])]);
        assert!(problems.is_empty());
        assert_eq!(names[0], "b_suite");
        assert!(
            names[1].starts_with("b_") && names[1] != "b_suite" && suite_name::is_valid(&names[1]),
            "{names:?}"
        );
        assert_eq!(names[2], "c_suite");
    }

    #[test]
    fn a_workspace_cannot_take_a_name_of_the_users_servers() {
        let personal = layer(&["a", "b"], &[("a", "mine")]);
        let (names, problems) = named(&[&personal, &layer(&["x", "y"], &[("x", "mine"), ("y", "b_suite")])]);
        assert_eq!(names[..3], ["mine", "b_suite", "x_suite"]);
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), 4, "{names:?}");
        assert_eq!(problems.len(), 2, "{problems:?}");
    }
}
