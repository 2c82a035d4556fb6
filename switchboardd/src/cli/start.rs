//! `switchboard start` and `switchboard stop`.

use std::process::Stdio;
use std::time::Duration;

use hyper::Method;

use super::Exit;
use super::ask::{Unanswered, ask};
use super::output::print;
use super::service::Keeper;
use crate::args::Args;
use crate::daemon;

const PATIENCE: Duration = Duration::from_secs(15);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub(super) async fn run(args: &Args) -> Exit {
    match ask(args, Method::GET, "/health", None).await {
        Ok(_) => {
            print("switchboardd is running");
            return Exit::Ok;
        }
        Err(Unanswered::NoDaemon(_)) => {}
        Err(unanswered) => return unanswered.tell(),
    }
    if let Some(keeper) = Keeper::to_start(args).await {
        return match keeper.start().await {
            Ok(()) => {
                print("switchboardd started, by the service");
                Exit::Ok
            }
            Err(why) => {
                eprintln!("switchboard: the service did not start it: {why}");
                Exit::Error
            }
        };
    }
    // The shim knows how to start a daemon; it does so for its first message.
    let started = match spawn(args) {
        Ok(mut shim) => tokio::time::timeout(PATIENCE, shim.wait()).await,
        Err(error) => {
            eprintln!("switchboard: `switchboard` could not be run: {error}");
            return Exit::Error;
        }
    };
    drop(started);
    match ask(args, Method::GET, "/health", None).await {
        Ok(_) => {
            print("switchboardd started");
            Exit::Ok
        }
        // The shim has said why.
        Err(Unanswered::NoDaemon(_)) => {
            eprintln!(
                "switchboard: switchboardd did not start; run `switchboardd` with the same flags to see more"
            );
            Exit::Error
        }
        Err(unanswered) => unanswered.tell(),
    }
}

/// A shim with an empty conversation: it opens a session, which starts the daemon, and ends.
#[expect(clippy::disallowed_methods, reason = "the command line starts the shim, which is no child")]
fn spawn(args: &Args) -> std::io::Result<tokio::process::Child> {
    use tokio::io::AsyncWriteExt;
    let shim = std::env::current_exe()?.with_file_name("switchboard");
    let mut command = tokio::process::Command::from(std::process::Command::new(shim));
    if let Some(socket) = &args.socket {
        command.arg("--socket").arg(socket);
    }
    if let Some(config) = &args.config {
        command.arg("--config").arg(config);
    }
    let mut shim = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    if let Some(mut stdin) = shim.stdin.take() {
        let hello = concat!(
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","#,
            r#""capabilities":{},"clientInfo":{"name":"switchboard start","version":"0"}}}"#,
            "\n"
        );
        tokio::spawn(async move {
            let _ = stdin.write_all(hello.as_bytes()).await;
        });
    }
    Ok(shim)
}

pub(super) async fn stop(args: &Args) -> Exit {
    // Before the daemon hears of it: a shim that finds no daemon must find this.
    let place = daemon::home().ok().map(|home| daemon::place(args, &home));
    match place.as_ref().map(|place| place.mark_stopped()) {
        // Where there is no folder there never was a daemon.
        Some(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
            eprintln!("switchboard: running shims may bring it back: {error}");
        }
        _ => {}
    }
    if let Some(keeper) = Keeper::to_stop(args).await {
        return match keeper.stop().await {
            Ok(()) => {
                print(
                    "switchboardd stopped, and its socket with it; `switchboard start` or the next login brings both back",
                );
                Exit::Ok
            }
            Err(why) => {
                place.iter().for_each(|place| place.forget_stop());
                eprintln!("switchboard: the service did not stop it: {why}");
                Exit::Error
            }
        };
    }
    if let Err(unanswered) = ask(args, Method::POST, "/control/stop", None).await {
        if let Some(place) = &place {
            place.forget_stop();
        }
        return unanswered.tell();
    }
    let until = tokio::time::Instant::now() + PATIENCE;
    while tokio::time::Instant::now() < until {
        match ask(args, Method::GET, "/health", None).await {
            Err(Unanswered::NoDaemon(_)) => {
                print("switchboardd stopped");
                return Exit::Ok;
            }
            _ => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
    eprintln!("switchboard: switchboardd is still finishing calls after {} s", PATIENCE.as_secs());
    Exit::Error
}
