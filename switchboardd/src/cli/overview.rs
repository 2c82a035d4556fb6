//! `switchboard` alone on a terminal: help and status. Also prints the socket's path.

use serde_json::json;

use super::Exit;
use super::ask::AskError;
use super::output::{failed, is_terminal, print, print_generated, print_json, say};
use super::status::{look, told};
use crate::args::Args;
use crate::daemon;

pub(super) async fn run(args: &Args) -> Exit {
    if args.json {
        return super::status::run(args).await;
    }
    let help = crate::args::command().render_help();
    let help = if is_terminal() { help.ansi().to_string() } else { help.to_string() };
    print_generated(format!("{help}\n").as_bytes());
    match look(args).await {
        Ok(status) => print(&told(&status)),
        Err(unanswered @ AskError::NoDaemon(_)) => say!("{unanswered}"),
        Err(unanswered) => return unanswered.tell(),
    }
    Exit::Ok
}

pub(super) fn socket(args: &Args) -> Exit {
    match daemon::home() {
        Ok(home) => {
            let socket = daemon::runtime_paths_in_use(args, &home).socket;
            if args.json {
                print_json(&json!({ "socket": socket }));
            } else {
                say!("{}", socket.display());
            }
            Exit::Ok
        }
        Err(fatal) => failed(&fatal),
    }
}
