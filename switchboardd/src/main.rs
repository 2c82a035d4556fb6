//! `switchboardd`: serves until it is stopped. Also the helper process that reads the login shell's environment.
//! All other command lines are for `switchboard-ctl`, which this process becomes then.

#![warn(clippy::print_stderr)]

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use switchboardd::DAEMON_HELP;
use switchboardd::daemon::ServeArgs;
use switchboardd::programs::{COMMANDS, GUARD};

#[expect(clippy::disallowed_methods, reason = "constant words, and the paths of our own programs")]
fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let first = words.next();
    if first.as_ref().is_some_and(|first| first == switchboardd::SHELL_ENV) {
        return switchboardd::run_shell(words);
    }
    let only = first.filter(|_| words.next().is_none());
    let is_only = |names: [&str; 2]| only.as_ref().is_some_and(|only| names.iter().any(|name| only == name));
    if is_only(["--version", "-V"]) {
        let _ = writeln!(std::io::stdout(), "switchboardd {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    let Some(args) = ServeArgs::parse(std::env::args_os().skip(1)) else {
        // By its path, so that it has its name in a list of processes.
        let mut commands = std::process::Command::new(COMMANDS.path());
        match is_only(["--help", "-h"]) {
            true => commands.arg(DAEMON_HELP),
            false => commands.args(std::env::args_os().skip(1)),
        };
        let error = commands.exec();
        let _ = writeln!(std::io::stderr(), "switchboardd: {}", COMMANDS.explain(&error));
        return ExitCode::FAILURE;
    };
    // Inherited descriptors must not reach children: a pipe that stays open keeps its reader waiting.
    close_fds::set_fds_cloexec(3, &[]);
    GUARD.open();
    COMMANDS.open();
    match switchboardd::runtime() {
        Ok(runtime) => runtime.block_on(switchboardd::daemon::main(&args)),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "switchboardd: {error}");
            ExitCode::FAILURE
        }
    }
}
