//! Help as a newcomer reads it: what to type first, commands by what they are for.

use std::io::Write;

use clap::builder::styling::Style;
use clap::error::ErrorKind;
use clap::{Arg, Command, CommandFactory, FromArgMatches};

use super::Args;

/// Which command stands where. One that is in none of these stands at the end.
pub(super) const GROUPS: [(&str, &[&str]); 5] = [
    ("Start here", &["setup", "status", "doctor", "open"]),
    (
        "Servers",
        &[
            "add", "remove", "import", "ls", "explain", "check", "pin", "allow", "deny", "revoke", "secret",
            "login", "logout",
        ],
    ),
    ("Use them", &["introspect", "call", "calls", "logs", "savings"]),
    ("Daemon and editors", &["start", "stop", "restart", "reload", "service", "undo", "uninstall", "socket"]),
    ("Shell", &["completions", "man", "help"]),
];

const HEADING: Style = Style::new().bold().underline();
const NAME: Style = Style::new().bold();

/// Reads the command line of this process, or ends it with what is wrong with it.
pub fn parse() -> Args {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(std::env::args_os()).unwrap_or_else(|error| {
        let why = match error.kind() {
            ErrorKind::UnknownArgument | ErrorKind::MissingRequiredArgument => added_url(),
            ErrorKind::InvalidSubcommand => elsewhere(&error),
            _ => None,
        };
        match why {
            Some(why) => misuse(&command.error(error.kind(), why)),
            None => misuse(&error),
        }
    });
    let args = Args::from_arg_matches(&matches).unwrap_or_else(|error| misuse(&error.format(&mut command)));
    let of_shim = [("--child", args.child.is_some()), ("--no-start", args.no_start)];
    if let Some((flag, _)) = of_shim.into_iter().find(|(_, given)| *given) {
        let why = format!("`{flag}` is for the shim: `switchboard` without a command, its input piped");
        misuse(&command.error(ErrorKind::ArgumentConflict, why));
    }
    args
}

/// `add NAME URL`, which other programs take.
fn added_url() -> Option<String> {
    let words: Vec<String> = std::env::args().skip(1).take_while(|word| word != "--").collect();
    let at = words.iter().position(|word| word == "add")?;
    let is_url = |word: &&String| word.starts_with("https://") || word.starts_with("http://");
    let url = words[at + 1..].iter().find(is_url).filter(|_| !words.iter().any(|word| word == "--url"))?;
    let name = words[at + 1..].iter().find(|word| !word.starts_with('-') && *word != url);
    let name = name.map_or("NAME", String::as_str);
    Some(format!("a URL is given with `--url`: `switchboard add {name} --url {url}`"))
}

/// What other programs call a command, and what it is called here.
const ELSEWHERE: [(&str, &str); 16] = [
    ("ps", "status"),
    ("info", "status"),
    ("servers", "ls"),
    ("list", "ls"),
    ("tools", "introspect"),
    ("describe", "introspect"),
    ("run", "call"),
    ("exec", "call"),
    ("log", "logs"),
    ("history", "calls"),
    ("up", "start"),
    ("down", "stop"),
    ("rm", "remove"),
    ("delete", "remove"),
    ("init", "setup"),
    ("version", "--version"),
];

/// A command under its name in other programs.
fn elsewhere(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue};
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let (_, ours) = ELSEWHERE.iter().find(|(theirs, _)| theirs == word)?;
    Some(format!("there is no command `{word}`; here it is `switchboard {ours}`"))
}

/// Ends the process with what is wrong with its command line, in JSON too if that was asked for.
fn misuse(error: &clap::Error) -> ! {
    let as_json = std::env::args_os().skip(1).take_while(|arg| arg != "--").any(|arg| arg == "--json");
    if as_json && error.use_stderr() {
        let said = error.to_string();
        let said = said.strip_prefix("error: ").unwrap_or(&said).trim_end();
        let said = serde_json::json!({ "error": said }).to_string();
        #[expect(clippy::disallowed_methods, reason = "JSON without hidden characters")]
        let _ = writeln!(std::io::stdout(), "{}", switchboard_wire::visible::visible_json(&said));
    }
    error.exit()
}

/// Everything that can be typed, with its help.
pub fn command() -> Command {
    let mut command = Args::command();
    command.build();
    let template = template(&command);
    command.help_template(template)
}

/// What the daemon's own page is about: its flags, and no commands.
pub fn daemon_command() -> Command {
    let whole = Args::command();
    let of_daemon = |arg: &&Arg| {
        let heading = arg.get_help_heading();
        heading == Some(super::AS_DAEMON) || matches!(arg.get_id().as_str(), "config" | "socket" | "dry_run")
    };
    let flags: Vec<Arg> = whole.get_arguments().filter(of_daemon).cloned().collect();
    Command::new("switchboardd")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Serves your MCP servers to all your editors, in the foreground")
        .long_about(
            "Serves your MCP servers to all your editors, in the foreground. You rarely start it yourself: the first \
             `switchboard` that an editor starts does, or systemd. It takes the commands of switchboard(1), too.",
        )
        .args(flags)
}

fn template(command: &Command) -> String {
    let mut text = String::from("{before-help}{about-with-newline}\n");
    text.push_str(&format!("{HEADING}Usage:{HEADING:#}\n"));
    let usages = [
        ("switchboard COMMAND", "one of the commands below"),
        (
            "switchboard [--workspace DIR] [--child NAME] [--no-start] [--socket PATH] [--config FILE]",
            "the stdio shim: what an editor starts",
        ),
        ("switchboardd [OPTIONS]", "the daemon, in the foreground"),
    ];
    for (usage, what) in usages {
        text.push_str(&format!("  {NAME}{usage}{NAME:#}\n      {what}\n"));
    }
    let shown = || command.get_subcommands().filter(|command| !command.is_hide_set());
    let width = shown().map(|command| command.get_name().len()).max().unwrap_or(0);
    let line = |command: &Command| {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        format!("  {NAME}{:width$}{NAME:#}  {about}\n", command.get_name())
    };
    for (group, names) in GROUPS {
        let lines: String =
            names.iter().filter_map(|name| shown().find(|one| one.get_name() == *name)).map(line).collect();
        text.push_str(&format!("\n{HEADING}{group}:{HEADING:#}\n{lines}"));
    }
    let grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let others: String = shown().filter(|one| !grouped(one.get_name())).map(line).collect();
    if !others.is_empty() {
        text.push_str(&format!("\n{HEADING}More:{HEADING:#}\n{others}"));
    }
    let headings = [None, Some(super::AS_SHIM), Some(super::AS_DAEMON)];
    let flags = |heading: Option<&'static str>| {
        command.get_arguments().filter(move |arg| !arg.is_hide_set() && arg.get_help_heading() == heading)
    };
    let width =
        headings.into_iter().flat_map(flags).map(|arg| spelled(arg).chars().count()).max().unwrap_or(0);
    for heading in headings {
        text.push_str(&format!("\n{HEADING}{}:{HEADING:#}\n", heading.unwrap_or("Options")));
        for arg in flags(heading) {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("  {NAME}{:width$}{NAME:#}  {help}\n", spelled(arg)));
        }
    }
    text + "\n`switchboard COMMAND --help` has examples of each.{after-help}"
}

/// `--config FILE`.
fn spelled(arg: &Arg) -> String {
    let long = arg.get_long().unwrap_or_default();
    let short = arg.get_short().map_or(String::new(), |short| format!("-{short}, "));
    let takes = arg.get_action().takes_values();
    let value = arg.get_value_names().and_then(|names| names.first()).filter(|_| takes);
    format!("{short}--{long}{}", value.map_or(String::new(), |value| format!(" {value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_listed_and_has_an_example() {
        let whole = command();
        let help = command().render_help().to_string();
        fn check(command: &Command, path: &str) {
            for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
                let path = format!("{path} {}", sub.get_name());
                let after = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(after.contains("Example"), "`{path}` has no example");
                assert!(after.contains("switchboard"), "`{path}`: {after}");
                assert!(sub.get_about().is_some(), "`{path}` says nothing of itself");
                check(sub, &path);
            }
        }
        check(&whole, "switchboard");
        for sub in whole.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            assert!(help.contains(&format!("  {}", sub.get_name())), "{}: {help}", sub.get_name());
        }
        assert!(help.contains("values of `${NAME}`"), "{help}");
        for flag in ["--child", "--no-start", "--workspace", "--json", "--listen"] {
            assert!(help.contains(flag), "{flag}: {help}");
        }
        whole.debug_assert();
    }
}
