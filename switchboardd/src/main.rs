//! `switchboardd`: the daemon, the commands that users type, the guard of each child, and three helper
//! processes: for the login shell's environment, the keyring and counting tokens.

#![warn(clippy::print_stderr)]

use std::process::ExitCode;

use switchboardd::savings::tokens::COUNT_TOKENS;
use switchboardd::system::environment::SHELL_ENV;
use switchboardd::system::secrets::keyring::KEYRING;

fn main() -> ExitCode {
    // Before anything else: a guard is started for every child and must stay tiny.
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(first) if first == "--guard" => switchboardd::child::guard::run(),
        Some(first) if first == SHELL_ENV => switchboardd::system::environment::run_shell(args),
        Some(first) if first == KEYRING => switchboardd::system::secrets::keyring::run(),
        Some(first) if first == COUNT_TOKENS => switchboardd::savings::tokens::run(),
        _ => switchboardd::cli::main(),
    }
}
