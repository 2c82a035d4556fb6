//! `switchboardd`: the daemon, the guard of each of its children, and the commands a person types.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before anything else: a guard is started for every child and must stay tiny.
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == "--guard") {
        return switchboardd::child::guard::run(args);
    }
    switchboardd::cli::main()
}
