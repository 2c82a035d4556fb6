//! `switchboard` alone on a terminal: help and status. Also prints the socket's path.

use serde_json::json;

use super::CliExit;
use super::ask::AskError;
use super::output::{failed, is_terminal, print, print_generated, print_json, say};
use super::status::{fetch_status, render};
use crate::args::Args;
use switchboardd::daemon;

pub(super) async fn run(args: &Args) -> CliExit {
    if args.json {
        return super::status::run(args).await;
    }
    let help = crate::args::command().render_help();
    let help = if is_terminal() { help.ansi().to_string() } else { help.to_string() };
    print_generated(format!("{help}\n").as_bytes());
    match fetch_status(args).await {
        Ok(status) => print(&render(&status)),
        Err(unanswered @ AskError::NoDaemon(_)) => say!("{unanswered}"),
        Err(unanswered) => return unanswered.print(),
    }
    CliExit::Ok
}

pub(super) fn socket(args: &Args) -> CliExit {
    match daemon::home() {
        Ok(home) => {
            let socket = daemon::runtime_paths_in_use(&args.of_daemon(), &home).socket;
            if args.json {
                print_json(&json!({ "socket": socket }));
            } else {
                say!("{}", socket.display());
            }
            CliExit::Ok
        }
        Err(fatal) => failed(&fatal),
    }
}
