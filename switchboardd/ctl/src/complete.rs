//! Completion in shells: the scripts that `switchboard completions` prints, and the helper that they ask for words.
//!
//! The helper reads files only. It starts no server and no daemon, and a daemon that hangs does not hold up a shell.

mod values;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCompleter, complete};

use super::output::print_generated;
use crate::args;
use values::{CompletionSource, candidates};

/// The first word of a command line that asks for words: `switchboard complete SHELL -- WORDS`.
pub(super) const COMPLETE: &str = "complete";

const BASH: &str = r#"# Completion of switchboard for bash, from `switchboard completions bash`.
_switchboard() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(switchboard complete bash -- "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -gt 0 && ${COMPREPLY[0]} == *[=/] ]]; then
        compopt -o nospace
    fi
}
complete -F _switchboard switchboard
"#;

const ZSH: &str = r#"#compdef switchboard
# Completion of switchboard for zsh, from `switchboard completions zsh`.
_switchboard() {
    local -a closed open
    local line
    for line in "${(@f)$(switchboard complete zsh -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
        [[ -z $line ]] && continue
        if [[ ${line%%$'\t'*} == *[=/] ]]; then
            open+=("${line#*$'\t'}")
        else
            closed+=("${line#*$'\t'}")
        fi
    done
    (( $#closed )) && _describe -V switchboard closed
    (( $#open )) && _describe -V switchboard open -S ''
}
if [ "$funcstack[1]" = "_switchboard" ]; then
    _switchboard "$@"
else
    compdef _switchboard switchboard
fi
"#;

const FISH: &str = r#"# Completion of switchboard for fish, from `switchboard completions fish`.
complete -c switchboard -f -a '(switchboard complete fish -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
"#;

/// The script for a shell that has values completed; `None` for a shell without one.
pub(super) fn script(shell: clap_complete::Shell) -> Option<&'static str> {
    match shell {
        clap_complete::Shell::Bash => Some(BASH),
        clap_complete::Shell::Zsh => Some(ZSH),
        clap_complete::Shell::Fish => Some(FISH),
        _ => None,
    }
}

/// Prints what can stand at the end of a command line. `words` are `SHELL -- WORDS`; bash gives one line of text.
pub(super) fn run(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let shell = words.next().and_then(|shell| shell.into_string().ok()).unwrap_or_default();
    let mut words: Vec<OsString> = words.skip_while(|word| word == "--").collect();
    let mut replaced = 0;
    if shell == "bash" {
        let line = words.pop().and_then(|line| line.into_string().ok()).unwrap_or_default();
        let typed = split(&line);
        // bash replaces only what follows the last of these.
        replaced = typed.last().and_then(|word| word.rfind(['=', ':'])).map_or(0, |at| at + 1);
        words = typed.into_iter().skip(1).map(OsString::from).collect();
    }
    if words.is_empty() {
        words.push(OsString::new());
    }
    let typed: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let at = words.len();
    let words = std::iter::once(OsString::from("switchboard")).chain(words).collect();
    let found = complete(&mut with_values(args::command(), &typed), words, at, None).unwrap_or_default();
    let current = typed.last().map_or("", String::as_str);
    let mut text = String::new();
    for candidate in found.iter().filter(|candidate| !candidate.is_hide_set() || current.starts_with('-')) {
        let value = candidate.get_value().to_string_lossy();
        if value.chars().any(switchboard_wire::visible::is_hidden) {
            continue;
        }
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        let help = switchboardd::summary(&help, 60);
        text.push_str(&match shell.as_str() {
            "bash" => value.get(replaced..).unwrap_or(&value).to_owned(),
            "zsh" => format!("{value}\t{}:{help}", value.replace(':', "\\:")),
            _ => format!("{value}\t{help}"),
        });
        text.push('\n');
    }
    print_generated(text.as_bytes());
    ExitCode::SUCCESS
}

/// The words of a line up to the cursor; the last is the one that is being typed. Quotes and backslashes are removed.
fn split(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_word, mut quote) = (Vec::new(), String::new(), false, None);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, ' ' | '\t') => {
                if std::mem::take(&mut is_word) {
                    words.push(std::mem::take(&mut word));
                }
                continue;
            }
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None | Some('"'), '\\') => word.extend(chars.next()),
            _ => word.push(c),
        }
        is_word = true;
    }
    words.push(word);
    words
}

/// The commands, with a source of values for each argument that has one. `typed`: the words after `switchboard`.
fn with_values(command: Command, typed: &[String]) -> Command {
    command.mut_subcommands(|sub| {
        let name = sub.get_name().to_owned();
        let sub = sub.mut_subcommands(|inner| {
            let path = format!("{name} {}", inner.get_name());
            let typed = typed.to_vec();
            inner.mut_args(move |arg| with_source(arg, &path, &typed))
        });
        let typed = typed.to_vec();
        sub.mut_args(move |arg| with_source(arg, &name, &typed))
    })
}

fn with_source(arg: Arg, command: &str, typed: &[String]) -> Arg {
    let Some(source) = CompletionSource::of(command, arg.get_id().as_str()) else { return arg };
    let typed = typed.to_vec();
    arg.add(ArgValueCompleter::new(move |current: &std::ffi::OsStr| {
        candidates(source, &typed, &current.to_string_lossy())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_as_a_shell_splits_it() {
        for (line, words) in [
            ("switchboard ", &["switchboard", ""][..]),
            ("switchboard call ti", &["switchboard", "call", "ti"]),
            (r#"switchboard call "two words" a\ b 'c"#, &["switchboard", "call", "two words", "a b", "c"]),
            ("switchboard  call '' ", &["switchboard", "call", "", ""]),
        ] {
            assert_eq!(split(line), words, "{line}");
        }
    }
}
