//! What changed between the version that was allowed and the one that waits: old → new, part by part.

use std::collections::BTreeMap;

use super::{ViewStyle, quoted, shown_in_file, shown_value};
use crate::definition::{Launch, LaunchCommand, Remote};
use crate::expand::Template;
use crate::mask::masked_words;

/// More arguments than this are compared by their place only: the comparison takes the square of it.
const MAX_ALIGNED: usize = 500;

/// The changes between two versions.
pub(super) fn difference(before: &Launch, after: &Launch, how: ViewStyle) -> Vec<String> {
    match (before, after) {
        (Launch::Process(before), Launch::Process(after)) => process_difference(before, after, how),
        (Launch::Remote(before), Launch::Remote(after)) => remote_difference(before, after, how),
        (Launch::Process(before), _) => vec![format!("was {}", (how.line)(before))],
        (Launch::Remote(before), _) => vec![format!("was {}", how.url(&before.url))],
    }
}

fn process_difference(before: &LaunchCommand, after: &LaunchCommand, how: ViewStyle) -> Vec<String> {
    let mut lines = Vec::new();
    argument_difference(before, after, how, &mut lines);
    if (&before.cwd, &before.base) != (&after.cwd, &after.base) {
        lines.push(format!("directory: {} → {}", before.shown_directory(), after.shown_directory()));
    }
    let shown = |name: &str, value: &Option<Template>| match value {
        Some(value) if how.shows() => Some(shown_value(name, value)),
        Some(_) => None,
        None => Some("unset".to_owned()),
    };
    named_difference("variable", "=", &before.env, &after.env, shown, &mut lines);
    if before.env_file_path != after.env_file_path {
        let path = |launch: &LaunchCommand| {
            launch.env_file_path.as_ref().map_or_else(|| "none".to_owned(), |path| path.display().to_string())
        };
        lines.push(format!("env file: {} → {}", path(before), path(after)));
    }
    let shown = |name: &str, value: &String| how.shows_of_file(name).then(|| shown_in_file(name, value));
    named_difference("env file", "=", &before.env_file, &after.env_file, shown, &mut lines);
    let (was, is) = (&before.pass_env, &after.pass_env);
    lines.extend(is.difference(was).map(|name| format!("now gets {name} of your environment")));
    lines.extend(was.difference(is).map(|name| format!("no longer gets {name} of your environment")));
    lines
}

/// Commands and arguments, each for itself. Positions are those of the new version, the command being 0.
fn argument_difference(
    before: &LaunchCommand,
    after: &LaunchCommand,
    how: ViewStyle,
    lines: &mut Vec<String>,
) {
    if (&before.cmd, &before.args) == (&after.cmd, &after.args) {
        return;
    }
    let words = |launch: &LaunchCommand| -> Vec<String> {
        std::iter::once(&launch.cmd).chain(&launch.args).map(ToString::to_string).collect()
    };
    let (was, is) = (words(before), words(after));
    let shown = |words: &[String]| -> Vec<String> {
        let masked = if how.is_masked { masked_words(words) } else { words.to_vec() };
        masked.iter().map(|word| quoted(word)).collect()
    };
    let (shown_was, shown_is) = (shown(&was), shown(&is));
    let named = |at: usize| if at == 0 { "command".to_owned() } else { format!("argument {at}") };
    for step in steps(&was, &is) {
        lines.push(match step {
            Step::Replaced(old, new) if shown_was[old] == shown_is[new] => {
                format!("another value for {}", named(new))
            }
            Step::Replaced(old, new) => format!("{}: {} → {}", named(new), shown_was[old], shown_is[new]),
            Step::Added(new) => format!("new {}: {}", named(new), shown_is[new]),
            Step::Removed(old) => format!("no more {}: {}", named(old), shown_was[old]),
        });
    }
}

enum Step {
    Replaced(usize, usize),
    Added(usize),
    Removed(usize),
}

/// The steps from one list of words to the other; words that stayed are left out.
fn steps(was: &[String], is: &[String]) -> Vec<Step> {
    let start = was.iter().zip(is).take_while(|(a, b)| a == b).count();
    let rest = was.len().min(is.len()) - start;
    let end = was.iter().rev().zip(is.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let (old, new) = (&was[start..was.len() - end], &is[start..is.len() - end]);
    let mut kept = Vec::new();
    if old.len().max(new.len()) <= MAX_ALIGNED {
        kept = common(old, new);
    }
    kept.push((old.len(), new.len()));
    let (mut steps, mut from, mut to) = (Vec::new(), 0, 0);
    for (old_at, new_at) in kept {
        // Between two words that stayed: what left and what came, pair by pair.
        while from < old_at || to < new_at {
            steps.push(match (from < old_at, to < new_at) {
                (true, true) => Step::Replaced(start + from, start + to),
                (true, false) => Step::Removed(start + from),
                _ => Step::Added(start + to),
            });
            from += usize::from(from < old_at);
            to += usize::from(to < new_at);
        }
        (from, to) = (old_at + 1, new_at + 1);
    }
    steps
}

/// Positions of a longest common subsequence.
fn common(old: &[String], new: &[String]) -> Vec<(usize, usize)> {
    let mut lengths = vec![vec![0usize; new.len() + 1]; old.len() + 1];
    for (i, a) in old.iter().enumerate().rev() {
        for (j, b) in new.iter().enumerate().rev() {
            lengths[i][j] =
                if a == b { lengths[i + 1][j + 1] + 1 } else { lengths[i + 1][j].max(lengths[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < old.len() && j < new.len() {
        if old[i] == new[j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if lengths[i + 1][j] >= lengths[i][j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

fn remote_difference(before: &Remote, after: &Remote, how: ViewStyle) -> Vec<String> {
    let mut lines = Vec::new();
    if (&before.url, before.transport) != (&after.url, after.transport) {
        let (was, is) = (how.url(&before.url), how.url(&after.url));
        lines.push(match was == is {
            true => format!("was {was}, other in what is not shown of it"),
            false => format!("url: {was} → {is}"),
        });
    }
    let shown = |name: &str, value: &Template| how.shows().then(|| shown_value(name, value));
    named_difference("header", ": ", &before.headers, &after.headers, shown, &mut lines);
    lines
}

/// `shown` returns the value if it may be shown; `is` stands between a name and its value.
fn named_difference<V: PartialEq>(
    what: &str,
    is: &str,
    before: &BTreeMap<String, V>,
    after: &BTreeMap<String, V>,
    shown: impl Fn(&str, &V) -> Option<String>,
    lines: &mut Vec<String>,
) {
    for (name, value) in after {
        let now = shown(name, value);
        match before.get(name) {
            None => lines.push(match now {
                Some(now) => format!("new {what} {name}{is}{now}"),
                None => format!("new {what} {name}"),
            }),
            Some(old) if old != value => lines.push(match (shown(name, old), now) {
                (Some(was), Some(now)) if was != now => format!("{what} {name}: {was} → {now}"),
                _ => format!("another value for {what} {name}"),
            }),
            Some(_) => {}
        }
    }
    for (name, old) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
        lines.push(match shown(name, old) {
            Some(was) => format!("no more {what} {name} (was {was})"),
            None => format!("no more {what} {name}"),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::view::{ShownValues, command_line};

    fn launch(words: &[&str]) -> LaunchCommand {
        LaunchCommand {
            cmd: Template::text(words[0]),
            args: words[1..].iter().map(|word| Template::text(*word)).collect(),
            ..LaunchCommand::default()
        }
    }

    #[track_caller]
    fn check(before: &[&str], after: &[&str], expected: &[&str]) {
        let how = ViewStyle { line: command_line, is_masked: false, values: ShownValues::All };
        assert_eq!(
            process_difference(&launch(before), &launch(after), how),
            expected,
            "{before:?} {after:?}"
        );
    }

    #[test]
    fn each_argument_is_compared_for_itself() {
        check(&["x", "1"], &["x", "1"], &[]);
        check(&["x", "1"], &["y", "1"], &["command: x → y"]);
        check(&["x", "a", "b", "c"], &["x", "a", "B", "c"], &["argument 2: b → B"]);
        check(&["x", "a", "c"], &["x", "a", "b", "c"], &["new argument 2: b"]);
        check(&["x", "a", "b", "c"], &["x", "a", "c"], &["no more argument 2: b"]);
        check(
            &["x", "-y", "p@1", "--ro"],
            &["x", "-y", "p@2"],
            &["argument 2: p@1 → p@2", "no more argument 3: --ro"],
        );
        check(&["x", "a", "b"], &["x", "b", "c"], &["no more argument 1: a", "new argument 2: c"]);
        let many: Vec<String> = (0..2000).map(|at| at.to_string()).collect();
        let old: Vec<&str> = many.iter().map(String::as_str).collect();
        let new: Vec<&str> = old.iter().rev().copied().collect();
        let how = ViewStyle { line: command_line, is_masked: false, values: ShownValues::All };
        assert_eq!(process_difference(&launch(&old), &launch(&new), how).len(), 2000);
    }

    #[test]
    fn a_masked_argument_shows_no_value() {
        let how = ViewStyle { line: command_line, is_masked: true, values: ShownValues::None };
        let (before, after) =
            (launch(&["x", "--token=hunter2hunter2"]), launch(&["x", "--token=hunter3hunter3"]));
        let told = process_difference(&before, &after, how).join("\n");
        assert_eq!(told, "another value for argument 1");
    }
}
