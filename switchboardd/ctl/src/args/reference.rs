//! Writes the reference part of `docs/commands.md` from the definition of the command line, and fails if the page
//! differs.

use std::fmt::Write as _;

use clap::{Arg, Command};

use super::help::{GROUPS, command, daemon_command};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");
const BEGIN: &str = "<!-- generated from the command line's definition: begin -->\n";
const END: &str = "<!-- generated: end -->\n";

#[test]
fn the_commands_page_follows_the_command_line() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("docs/commands.md has a generated part");
    let (_, after) = rest.split_once(END).expect("docs/commands.md has a generated part");
    let wanted = format!("{before}{BEGIN}\n{}{END}{after}", reference());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, &wanted).unwrap();
    } else {
        assert!(
            page == wanted,
            "docs/commands.md differs from the command line; renew it with `UPDATE_DOCS=1 cargo test -p switchboard-ctl reference`"
        );
    }
}

/// Each line of an example that begins with `switchboard` is one that clap takes.
#[test]
fn every_example_can_be_typed() {
    let mut lines = Vec::new();
    fn collect(command: &Command, lines: &mut Vec<String>) {
        lines.extend(examples(command));
        command.get_subcommands().for_each(|sub| collect(sub, lines));
    }
    collect(&command(), &mut lines);
    assert!(lines.len() > 40, "{lines:?}");
    for line in lines {
        for part in line.split(['|', '>']).flat_map(|part| part.split("&&")).map(str::trim) {
            let Some((_, part)) = part.split_once("switchboard ") else { continue };
            let part = part.trim_end_matches(")\" http://localhost/health");
            let words = shell_words(part);
            let words = std::iter::once("switchboard".to_owned()).chain(words);
            if let Err(error) = command().try_get_matches_from(words) {
                assert!(!error.use_stderr(), "{line}: {error}");
            }
        }
    }
}

/// The words of a line as a shell splits it.
#[expect(clippy::disallowed_methods, reason = "a shell that splits words in a test")]
fn shell_words(line: &str) -> Vec<String> {
    let script = format!("printf '%s\\n' {line}");
    let output = std::process::Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{line}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn reference() -> String {
    let whole = command();
    let mut text = String::new();
    let shown = |name: &str| whole.get_subcommands().find(|sub| sub.get_name() == name && !sub.is_hide_set());
    let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let others: Vec<&str> = whole
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set() && !grouped.contains(&sub.get_name()))
        .map(Command::get_name)
        .collect();
    let groups = GROUPS.iter().map(|(group, names)| (*group, names.to_vec())).chain([("More", others)]);
    for (group, names) in groups {
        let commands: Vec<&Command> = names.into_iter().filter_map(shown).collect();
        if commands.iter().all(|command| command.get_name() == "help") {
            continue;
        }
        write!(text, "## {group}\n\n").unwrap();
        for command in commands.into_iter().filter(|command| command.get_name() != "help") {
            one(command, &format!("switchboard {}", command.get_name()), &mut text);
        }
    }
    text.push_str("## Options of every command\n\n");
    options(whole.get_arguments().filter(|arg| arg.is_global_set()), &mut text);
    text.push_str("## The shim\n\n`switchboard` without a command, with its input piped, is the shim that an editor starts.\n\n");
    let of_shim = |arg: &&Arg| {
        arg.get_help_heading() == Some(super::AS_SHIM)
            || ["socket", "config", "workspace"].contains(&arg.get_id().as_str())
    };
    options(whole.get_arguments().filter(of_shim), &mut text);
    let daemon = daemon_command();
    text.push_str("## The daemon\n\n");
    write!(text, "{}\n\n", prose(&daemon)).unwrap();
    options(daemon.get_arguments(), &mut text);
    text
}

/// A command with its arguments and examples, and then those below it.
fn one(command: &Command, name: &str, text: &mut String) {
    write!(text, "### `{name}`\n\n{}\n\n", prose(command)).unwrap();
    if !command.has_subcommands() {
        let mut shown = command.clone().bin_name(name).disable_help_flag(true);
        let usage = shown.render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").trim().replace(" [OPTIONS]", "");
        if usage != name {
            write!(text, "```text\n{usage}\n```\n\n").unwrap();
        }
        let own = |arg: &&Arg| !arg.is_global_set() && !arg.is_hide_set() && arg.get_id().as_str() != "help";
        options(command.get_arguments().filter(own), text);
        let lines = examples(command);
        if !lines.is_empty() {
            write!(text, "```sh example\n{}\n```\n\n", lines.join("\n")).unwrap();
        }
    }
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        one(sub, &format!("{name} {}", sub.get_name()), text);
    }
}

/// What the command says of itself, with full stops.
fn prose(command: &Command) -> String {
    let text = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let paragraphs = text.split("\n\n").map(|paragraph| {
        let paragraph = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        if paragraph.ends_with('.') { paragraph } else { format!("{paragraph}.") }
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

fn options<'a>(args: impl Iterator<Item = &'a Arg>, text: &mut String) {
    let mut rows = String::new();
    for arg in args.filter(|arg| arg.get_id().as_str() != "version" && arg.get_id().as_str() != "help") {
        let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let help = if help.is_empty() { "–".to_owned() } else { help.replace('|', "\\|") };
        let mut defaults: Vec<_> =
            arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
        defaults.retain(|value| !value.is_empty() && value != "false");
        let default =
            if defaults.is_empty() { String::new() } else { format!(" [default: {}]", defaults.join(" ")) };
        writeln!(rows, "| `{}` | {help}{default} |", spelled(arg)).unwrap();
    }
    if !rows.is_empty() {
        write!(text, "| option | meaning |\n|---|---|\n{rows}\n").unwrap();
    }
}

/// `-n, --lines N`, or `SUITE`.
fn spelled(arg: &Arg) -> String {
    let names = arg.get_value_names().map(|names| names.join(" ")).unwrap_or_default();
    let names = if names.is_empty() { arg.get_id().as_str().to_uppercase() } else { names };
    let names = names.replace('|', "\\|");
    let Some(long) = arg.get_long() else { return names };
    let short = arg.get_short().map_or(String::new(), |short| format!("-{short}, "));
    let value = if arg.get_action().takes_values() { format!(" {names}") } else { String::new() };
    format!("{short}--{long}{value}")
}

/// The lines after `Examples:`, or the code in `Example: …`.
fn examples(command: &Command) -> Vec<String> {
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let Some((_, after)) = after.split_once("Example") else { return Vec::new() };
    let after = after.trim_start_matches('s').trim_start_matches(':');
    if after.starts_with('\n') {
        return after.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    }
    after.split('`').nth(1).map(str::to_owned).into_iter().collect()
}
