//! `switchboard` alone on a terminal: help and the state of things; and where the socket is.

use std::io::IsTerminal;

use serde_json::json;

use super::Exit;
use super::ask::Unanswered;
use super::output::{failed, print, print_json};
use super::status::{look, told};
use crate::args::Args;
use crate::daemon;

pub(super) async fn run(args: &Args) -> Exit {
    if args.json {
        return super::status::run(args).await;
    }
    let help = crate::args::command().render_help();
    print(&if std::io::stdout().is_terminal() { help.ansi().to_string() } else { help.to_string() });
    match look(args).await {
        Ok(status) => print(&told(&status)),
        Err(unanswered @ Unanswered::NoDaemon(_)) => print(&unanswered.to_string()),
        Err(unanswered) => return unanswered.tell(),
    }
    Exit::Ok
}

pub(super) fn socket(args: &Args) -> Exit {
    match daemon::home() {
        Ok(home) => {
            let socket = daemon::place(args, &home).socket;
            if args.json {
                print_json(&json!({ "socket": socket }));
            } else {
                print(&socket.display().to_string());
            }
            Exit::Ok
        }
        Err(fatal) => failed(&fatal),
    }
}
