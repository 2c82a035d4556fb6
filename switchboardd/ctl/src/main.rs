//! `switchboard-ctl`: the commands a user types. Each asks the daemon over its socket, unless it needs none. Also
//! two helper processes of the daemon: for the keyring and for counting tokens.

#![warn(clippy::print_stderr)]
#![allow(unreachable_pub, reason = "`pub` in a module means that other modules use it")]

mod add;
mod allow;
mod args;
mod ask;
mod at_once;
mod brief;
mod browser;
mod call;
mod call_result;
mod calls;
mod check;
mod complete;
mod daemon_session;
mod definition_text;
mod doctor;
mod dry_run;
mod explain;
mod form;
mod import;
mod introspect;
mod keyring;
mod learn;
mod local_config;
mod local_time;
mod login;
mod logs;
mod ls;
mod open;
mod output;
mod overview;
mod pin;
mod prompt;
mod revoke;
mod savings;
mod secret;
mod service;
mod setup;
mod shell;
mod shell_word;
mod start;
mod status;
mod tokens;
mod uninstall;
mod unused_settings;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::args::{Args, Command};
use switchboardd::secrets::keyring::KEYRING;
use switchboardd::{COUNT_TOKENS, DAEMON_HELP, SHELL_ENV, daemon};

/// Exit codes that scripts rely on.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub enum CliExit {
    Ok = 0,
    Error = 1,
    Usage = 2,
    NoDaemon = 3,
    Held = 4,
    ChildFailed = 5,
    /// Ctrl-C, as shells report it.
    Interrupted = 130,
}

impl From<CliExit> for ExitCode {
    fn from(exit: CliExit) -> Self {
        Self::from(exit as u8)
    }
}

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    match words.next() {
        Some(first) if first == SHELL_ENV => return switchboardd::run_shell(words),
        Some(first) if first == KEYRING => return keyring::run(),
        Some(first) if first == COUNT_TOKENS => return tokens::run(),
        Some(first) if first == DAEMON_HELP => return shell::daemon_help(),
        Some(first) if first == complete::COMPLETE => return complete::run(words),
        _ => {}
    }
    let args = args::parse();
    match switchboardd::runtime() {
        Ok(runtime) => runtime.block_on(run(args)),
        Err(error) => {
            output::complain(&error);
            CliExit::Error.into()
        }
    }
}

async fn run(args: Args) -> ExitCode {
    let named = args.config.as_ref().filter(|_| args.dry_run || args.command.is_some());
    if let Some(file) = named.filter(|file| !file.is_file()) {
        output::complain(&format!("there is no config file `{}`", file.display()));
        return output::close(args.json, CliExit::Error).into();
    }
    if args.dry_run {
        let state = daemon::home().map(|home| daemon::state_folder(&home));
        let exit = match state.map_or(Ok(()), |state| check_state(&state)) {
            Ok(()) => dry_run::run(&args).await,
            Err(exit) => exit,
        };
        return output::close(args.json, exit).into();
    }
    let Some(command) = &args.command else {
        return serve(&args).into();
    };
    if let Some(folder) = args.workspace.as_ref().filter(|folder| !folder.is_dir()) {
        output::complain(&format!("`--workspace {}` is not a directory", folder.display()));
        return output::close(args.json, CliExit::Usage).into();
    }
    if uses_state(command)
        // Without HOME each command reports that itself.
        && let Ok(home) = daemon::home()
        && let Err(exit) = check_state(&daemon::files_in_use(&args.of_daemon(), &home).1)
    {
        return output::close(args.json, exit).into();
    }
    let exit = match command {
        Command::Overview => overview::run(&args).await,
        Command::Socket => overview::socket(&args),
        Command::Status { watch: true } => status::watch(&args).await,
        Command::Status { watch: false } => status::run(&args).await,
        Command::Savings => savings::run(&args).await,
        Command::Start => start::run(&args).await,
        Command::Stop => start::stop(&args).await,
        Command::Ls => ls::run(&args).await,
        Command::Introspect { suite, query, full } => {
            introspect::run(&args, suite, query.as_deref(), *full).await
        }
        Command::Call { suite, subtool, arguments } => call::run(&args, suite, subtool, arguments).await,
        Command::Calls(query) => calls::run(&args, query).await,
        Command::Completions { shell } => shell::completions(args.json, *shell),
        Command::Man { page, out } => shell::man(args.json, page.as_deref(), out.as_deref()),
        Command::Reload => start::reload(&args).await,
        Command::Allow { list: true, .. } => allow::list(&args),
        Command::Allow { what, all, .. } => allow::run(&args, what.as_deref(), *all).await,
        Command::Deny { what } => allow::deny(&args, what).await,
        Command::Revoke { what, .. } => revoke::run(&args, what).await,
        Command::Add(add) => add::run(&args, add).await,
        Command::Remove { name } => add::remove(&args, name).await,
        Command::Check { files } => check::run(&args, files),
        Command::Setup(setup) => setup::run(&args, setup),
        Command::Import(import) => import::run(&args, import).await,
        Command::Undo(undo) => setup::undo(&args, undo),
        Command::Uninstall(wish) => uninstall::run(&args, wish).await,
        Command::Pin(wish) => pin::run(&args, wish).await,
        Command::Restart { suite } => start::restart(&args, suite.as_deref()).await,
        Command::Secret(what) => secret::run(&args, what).await,
        Command::Service(what) => service::run(&args, *what).await,
        Command::Login { child, no_browser } => login::run(&args, child, *no_browser).await,
        Command::Open { no_browser } => open::run(&args, *no_browser).await,
        Command::Logout { child } => login::leave(&args, child).await,
        Command::Logs { suite, follow, lines, since } => {
            let lines = lines.unwrap_or(if since.is_some() { usize::MAX } else { logs::DEFAULT_LINES });
            let wish = logs::LogQuery { follow: *follow, lines, since: *since };
            logs::run(&args, suite.as_deref(), wish).await
        }
        Command::Explain { suite } => explain::run(&args, suite).await,
        Command::Doctor { fix } => doctor::run(&args, *fix).await,
    };
    output::close(args.json, exit).into()
}

/// Whether a command uses the state folder. Commands that diagnose, or stop the daemon, work without it.
fn uses_state(command: &Command) -> bool {
    !matches!(
        command,
        Command::Doctor { .. }
            | Command::Overview
            | Command::Socket
            | Command::Status { .. }
            | Command::Stop
            | Command::Completions { .. }
            | Command::Man { .. }
            | Command::Check { .. }
    )
}

/// Refuses a state folder that other users could change: it holds consent, secrets and logins.
fn check_state(state: &Path) -> Result<(), CliExit> {
    switchboard_definitions::files::state::check(state)
        .map_err(|error| output::failed(&daemon::Fatal::State(error)))
}

/// Becomes the daemon, for a command line that the daemon itself does not read (`--socket=PATH`).
#[expect(clippy::disallowed_methods, reason = "the daemon, which this process becomes")]
fn serve(args: &Args) -> CliExit {
    let program = switchboardd::programs::own_binary().with_file_name("switchboardd");
    let (wanted, words) = (args.of_daemon(), args.of_daemon().words());
    // Otherwise the daemon would start this program again, and so on.
    if daemon::ServeArgs::parse(words.iter().cloned()).as_ref() != Some(&wanted) {
        output::complain(&"a value is empty or begins with `-`; see `switchboardd --help`");
        return CliExit::Usage;
    }
    let error = std::process::Command::new(&program).args(words).exec();
    output::complain(&format!("`{}` could not be started: {error}", program.display()));
    CliExit::Error
}

/// The directory a command applies to: `--workspace`, else the current one.
fn workspace(args: &Args) -> Option<PathBuf> {
    let named = args.workspace.as_ref().and_then(|named| std::path::absolute(named).ok());
    named.or_else(|| std::env::current_dir().ok())
}
