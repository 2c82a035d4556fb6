//! The names under which servers' own tools are listed. They depend on the servers only, not on the order in which they
//! became known. Pure.

use std::collections::{HashMap, HashSet};

use switchboard_definitions::suite_name;

/// The tools of one server that stand in the list themselves.
#[derive(Debug, Clone)]
pub struct OwnToolNames<'a> {
    pub child: &'a str,
    /// Whether the server comes from the workspace, not from the user.
    pub of_workspace: bool,
    pub tools: Vec<&'a str>,
}

/// A name for each tool of each server. A tool keeps its own name, unless hosts would refuse it, a suite has it
/// (`is_reserved`), or another server's tool has it, too, or it begins with the name of another server: then it gets the
/// name of its own server in front. The names of the user's servers do not depend on a workspace's.
pub fn assign(servers: &[OwnToolNames<'_>], is_reserved: impl Fn(&str) -> bool) -> Vec<Vec<String>> {
    let mut names: Vec<Vec<String>> = vec![Vec::new(); servers.len()];
    let mut taken: HashSet<String> = HashSet::new();
    for of_workspace in [false, true] {
        let side = || servers.iter().enumerate().filter(|(_, server)| server.of_workspace == of_workspace);
        let mut count: HashMap<&str, usize> = HashMap::new();
        for tool in side().flat_map(|(_, server)| &server.tools) {
            *count.entry(tool).or_default() += 1;
        }
        // A server must not take the name that another one's tool has, or gets one day.
        let is_named_after_other = |tool: &str| {
            let mut others = side().filter(|(_, server)| !server.tools.contains(&tool));
            let rest = |child: &str| tool.strip_prefix(child).is_some_and(|rest| rest.starts_with('_'));
            others.any(|(_, server)| rest(server.child))
        };
        let keeps = |tool: &str, taken: &HashSet<String>| {
            count.get(tool) == Some(&1)
                && !is_named_after_other(tool)
                && suite_name::is_valid_tool(tool)
                && !is_reserved(tool)
                && !taken.contains(tool)
        };
        let kept: HashSet<&str> = count.keys().copied().filter(|tool| keeps(tool, &taken)).collect();
        taken.extend(kept.iter().map(|tool| (*tool).to_owned()));
        for (at, server) in side() {
            for tool in &server.tools {
                let name = if kept.contains(tool) {
                    (*tool).to_owned()
                } else {
                    let is_taken = |name: &str| is_reserved(name) || taken.contains(name);
                    suite_name::of_tool(server.child, tool, is_taken)
                };
                taken.insert(name.clone());
                names[at].push(name);
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server<'a>(child: &'a str, of_workspace: bool, tools: &[&'a str]) -> OwnToolNames<'a> {
        OwnToolNames { child, of_workspace, tools: tools.to_vec() }
    }

    #[test]
    fn only_names_that_clash_are_changed() {
        let servers = [
            server("a", false, &["get", "search", "find"]),
            server("b", false, &["put", "search", "a_search"]),
            server("w", true, &["get", "other", "w_get"]),
        ];
        let names = assign(&servers, |name| name == "find");
        assert_eq!(names[0][0], "get");
        // The name is `a`'s, although a tool of `b` is called so.
        assert_eq!(names[0][1..], ["a_search", "a_find"]);
        assert_eq!(names[1], ["put", "b_search", "b_a_search"]);
        assert_eq!(&names[2][1..], ["other", "w_get"]);
        assert!(names[2][0].starts_with("w_get_"), "{names:?}");
        let all: HashSet<&String> = names.iter().flatten().collect();
        assert_eq!(all.len(), 9);
        // The user's names are the same without the workspace.
        assert_eq!(assign(&servers[..2], |name| name == "find"), names[..2]);
    }

    #[test]
    fn every_name_is_valid_for_every_host() {
        let long = "x".repeat(100);
        let names = assign(&[server("kid", false, &["a.b", "a/b", &long, "", "ok"])], |_| false);
        assert!(names[0].iter().all(|name| suite_name::is_valid_tool(name)), "{names:?}");
        assert_eq!(names[0][4], "ok");
        assert_eq!(names[0].iter().collect::<HashSet<_>>().len(), 5);
    }
}
