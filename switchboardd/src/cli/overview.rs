//! `switchboard` alone on a terminal: help and the state of things; and where the socket is.

use clap::CommandFactory;
use hyper::Method;

use super::Exit;
use super::ask::{Unanswered, ask};
use super::output::print;
use super::status::told;
use crate::args::Args;
use crate::daemon;

pub(super) async fn run(args: &Args) -> Exit {
    print(&Args::command().render_help().to_string());
    match ask(args, Method::GET, "/status", None).await {
        Ok(status) => print(&told(&status)),
        Err(unanswered @ Unanswered::NoDaemon(_)) => print(&unanswered.to_string()),
        Err(unanswered) => return unanswered.tell(),
    }
    Exit::Ok
}

pub(super) fn socket(args: &Args) -> Exit {
    match daemon::home() {
        Ok(home) => {
            print(&daemon::place(args, &home).socket.display().to_string());
            Exit::Ok
        }
        Err(fatal) => {
            eprintln!("switchboard: {fatal}");
            Exit::Error
        }
    }
}
