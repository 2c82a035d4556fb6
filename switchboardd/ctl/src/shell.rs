//! `switchboard completions` and `switchboard man`, generated from the command line's definition.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use clap_mangen::Man;
use serde_json::json;

use super::CliExit;
use super::complete;
use super::output::{failed, is_terminal, print_generated, print_json, say};
use crate::args;

pub(super) fn completions(as_json: bool, shell: clap_complete::Shell) -> CliExit {
    let mut script = Vec::new();
    match complete::script(shell) {
        Some(text) => script.extend(text.as_bytes()),
        // These shells complete commands and flags only.
        None => clap_complete::generate(shell, &mut args::command(), "switchboard", &mut script),
    }
    if as_json {
        print_json(&json!({ "shell": shell.to_string(), "script": String::from_utf8_lossy(&script) }));
    } else {
        print_generated(&script);
    }
    CliExit::Ok
}

pub(super) fn daemon_help() -> std::process::ExitCode {
    match args::daemon_command().print_long_help() {
        Ok(()) => CliExit::Ok.into(),
        Err(_) => CliExit::Error.into(),
    }
}

pub(super) fn man(as_json: bool, page: Option<&str>, out: Option<&Path>) -> CliExit {
    let pages = pages();
    if let Some(folder) = out {
        return write(as_json, folder, &pages);
    }
    let wanted = match page {
        None | Some("switchboard") => "switchboard".to_owned(),
        Some("switchboardd") => "switchboardd".to_owned(),
        Some(name) => format!("switchboard-{}", name.replace(' ', "-")),
    };
    let Some((name, text)) = pages.iter().find(|(name, _)| *name == wanted) else {
        let names = pages.iter().map(|(name, _)| name.trim_start_matches("switchboard-"));
        let near = switchboard_definitions::document::nearest(page.unwrap_or_default(), names);
        let hint = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        return failed(&format!("there is no page `{wanted}`{hint}"));
    };
    if as_json {
        print_json(&json!({ "page": name, "roff": String::from_utf8_lossy(text) }));
    } else if !is_terminal() || !show_page(text) {
        print_generated(text);
    }
    CliExit::Ok
}

/// Has `man` show a page; false if there is none, or it cannot.
#[expect(clippy::disallowed_methods, reason = "the user's own pager, from the user's own command line")]
fn show_page(text: &[u8]) -> bool {
    let words: &[&str] = if cfg!(target_os = "macos") { &["mandoc", "-a"] } else { &["man", "-l", "-"] };
    let spawned = Command::new(words[0]).args(&words[1..]).stdin(Stdio::piped()).spawn();
    let Ok(mut viewer) = spawned else { return false };
    if let Some(mut stdin) = viewer.stdin.take() {
        // A reader that quits early is no error.
        let _ = stdin.write_all(text);
    }
    viewer.wait().is_ok_and(|status| status.success())
}

fn write(as_json: bool, folder: &Path, pages: &[(String, Vec<u8>)]) -> CliExit {
    let mut written = Vec::new();
    for (name, text) in pages {
        let file = folder.join(format!("{name}.1"));
        if let Err(error) = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&file, text)) {
            return failed(&format!("`{}` cannot be written: {error}", file.display()));
        }
        written.push(file);
    }
    if as_json {
        print_json(&json!({ "written": written }));
    } else {
        say!("{} pages in {}", written.len(), folder.display());
        if folder.file_name().is_none_or(|name| name != "man1") {
            say!("`man` finds them by name only in a folder that is called `man1`");
        }
    }
    CliExit::Ok
}

/// All pages by name: one per command, and the daemon's.
fn pages() -> Vec<(String, Vec<u8>)> {
    // clap's manual pages ignore our help groups and list every command.
    let mut whole = args::command().disable_help_subcommand(true);
    whole.build();
    let mut pages = Vec::new();
    add(&whole, "switchboard", &mut pages);
    pages.push(("switchboardd".to_owned(), rendered(args::daemon_command())));
    pages
}

fn add(command: &clap::Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) {
    // `build` has given the command its full name, `switchboard-secret-set`.
    pages.push((name.to_owned(), rendered(command.clone())));
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        add(sub, &format!("{name}-{}", sub.get_name()), pages);
    }
}

fn rendered(command: clap::Command) -> Vec<u8> {
    let mut text = Vec::new();
    // Writing to a `Vec` cannot fail.
    let source = concat!("switchboard ", env!("CARGO_PKG_VERSION"));
    let _ = Man::new(command).source(source).manual("Switchboard").render(&mut text);
    // clap_mangen's name for what follows the options.
    String::from_utf8_lossy(&text)
        .replace(".SH EXTRA\nExamples:\n", ".SH EXAMPLES\n")
        .replace(".SH EXTRA\n", ".SH NOTES\n")
        .into_bytes()
}
