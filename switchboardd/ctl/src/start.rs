//! `switchboard start`, `stop`, `restart` and `reload`: control the daemon, or restart one suite.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use switchboard_definitions::config::{ConfigOwner, LastGood};
use switchboard_definitions::document::Problem;
use switchboard_wire::runtime_paths::RuntimePaths;
use tokio::time::Instant;

use super::CliExit;
use super::ask::{AskError, ask_within, send_order};
use super::doctor::is_locked;
use super::output::{count, failed, indented, print_json, remark, say};
use super::service::ServiceManager;
use crate::args::Args;
use switchboardd::{daemon, page_access};

/// A stopping daemon gives calls in flight 10 s, then stops its children. No answer takes longer.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a daemon that no longer answers may take to exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(8);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// A longer wait is reported.
const NOTICE_AFTER: Duration = Duration::from_millis(700);

pub(super) async fn run(args: &Args) -> CliExit {
    match ask_within(STOP_TIMEOUT, args, Method::GET, "/status").await {
        Ok(status) => print_status(args, &status, "is running"),
        Err(AskError::NoDaemon(_)) => match start_daemon(args).await {
            Ok((status, how)) => print_status(args, &status, how),
            Err(exit) => exit,
        },
        Err(unanswered) => unanswered.print(),
    }
}

fn print_status(args: &Args, status: &Value, what: &str) -> CliExit {
    let (pid, version) = (&status["pid"], &status["version"]);
    let problems = mistakes(args, status);
    if args.json {
        let started = what != "is running";
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        print_json(&json!({
            "running": true, "started": started, "pid": pid, "version": version, "problems": problems,
        }));
    } else {
        say!("switchboardd {what} (pid {pid})");
        problems.iter().for_each(|problem| remark!("problem: {problem}"));
    }
    CliExit::Ok
}

/// Starts a daemon; returns its status and how it was started.
async fn start_daemon(args: &Args) -> Result<(Value, &'static str), CliExit> {
    if let Some(manager) = ServiceManager::to_start(args).await {
        let started = manager.start().await;
        started.map_err(|why| failed(&format!("the service did not start it: {why}")))?;
        let status = ask_within(STOP_TIMEOUT, args, Method::GET, "/status")
            .await
            .map_err(|unanswered| unanswered.print())?;
        return Ok((status, "started by the service"));
    }
    // A shim starts the daemon for its first message.
    let shim = spawn(args).map_err(|error| failed(&format!("`switchboard` could not be run: {error}")))?;
    let answer = tokio::time::timeout(STOP_TIMEOUT, shim.wait_with_output()).await;
    let status = ask_within(STOP_TIMEOUT, args, Method::GET, "/status").await;
    status.map(|status| (status, "started")).map_err(|unanswered| {
        let answer: Value =
            answer.ok().and_then(Result::ok).map_or(Value::Null, |answer| first_line(&answer.stdout));
        // The shim's error says more than a socket whose daemon is just exiting.
        match (answer["error"]["message"].as_str(), unanswered) {
            (Some(why), _) => failed(&why),
            (None, AskError::NoDaemon(_)) => {
                failed(&"switchboardd did not start; run `switchboardd` with the same flags to see more")
            }
            (None, unanswered) => unanswered.print(),
        }
    })
}

/// The shim's first message.
fn first_line(output: &[u8]) -> Value {
    let line = output.split(|byte| *byte == b'\n').next().unwrap_or_default();
    serde_json::from_slice(line).unwrap_or_default()
}

/// A shim with an empty conversation: it opens a session, which starts the daemon, and exits.
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
    // Its messages for users are in its answer, too.
    let mut shim = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    if let Some(mut stdin) = shim.stdin.take() {
        let hello = serde_json::json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": { "name": switchboardd::START, "version": env!("CARGO_PKG_VERSION") },
            },
        });
        let hello = format!("{hello}\n");
        tokio::spawn(async move {
            let _ = stdin.write_all(hello.as_bytes()).await;
        });
    }
    Ok(shim)
}

pub(super) async fn stop(args: &Args) -> CliExit {
    // Before the daemon is told: a shim that finds no daemon must find this mark.
    let paths = daemon::home().ok().map(|home| daemon::runtime_paths(&args.of_daemon(), &home));
    match paths.as_ref().map(|paths| paths.mark_stopped()) {
        // Without the folder there never was a daemon.
        Some(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
            remark!("switchboard: editors that are open may bring it back: {}", indented(error));
        }
        _ => {}
    }
    if let Some(manager) = ServiceManager::to_stop(args).await {
        return match manager.stop().await {
            Ok(()) => gone_for_now(
                args,
                "switchboardd stopped, and its socket with it; `switchboard start` or the next login brings both back",
            ),
            Err(why) => {
                paths.iter().for_each(|paths| paths.forget_stop());
                failed(&format!("the service did not stop it: {why}"))
            }
        };
    }
    match ask_within(STOP_TIMEOUT, args, Method::POST, "/control/stop").await {
        Ok(_) => {}
        // Nothing to do. The mark stays: shims that are open do not start a daemon.
        Err(AskError::NoDaemon(_)) if paths.as_ref().is_none_or(|paths| daemon::running(paths).is_none()) => {
            return gone_for_now(args, "no switchboardd is running");
        }
        Err(unanswered) => {
            paths.iter().for_each(|paths| paths.forget_stop());
            return unanswered.print();
        }
    }
    if !wait_gone(args, None).await {
        return failed(&format!("switchboardd is still running after {} s", STOP_TIMEOUT.as_secs()));
    }
    // It no longer answers. It removes its file when everything is written, and its lock is free once it has
    // exited.
    let is_there = |paths: &RuntimePaths| daemon::running(paths).is_some() || is_locked(&paths.daemon_lock);
    let begun = Instant::now();
    while paths.as_ref().is_some_and(is_there) && begun.elapsed() < EXIT_TIMEOUT {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    gone_for_now(args, "switchboardd stopped")
}

fn gone_for_now(args: &Args, said: &str) -> CliExit {
    // A daemon that a service manager stopped, or that was killed, has ended no page's access.
    if let Ok(home) = daemon::home() {
        page_access::remove_bearers(&daemon::state_folder(&home));
    }
    if args.json {
        print_json(&json!({ "running": false }));
    } else {
        say!("{said}");
    }
    CliExit::Ok
}

/// Waits until the daemon is gone or has another `boot` id; prints what it waits for.
async fn wait_gone(args: &Args, boot: Option<&str>) -> bool {
    let begun = Instant::now();
    let mut said = String::new();
    while begun.elapsed() < STOP_TIMEOUT {
        match ask_within(STOP_TIMEOUT.saturating_sub(begun.elapsed()), args, Method::GET, "/status").await {
            Err(AskError::NoDaemon(_)) => return true,
            Ok(status) if boot.is_some_and(|boot| status["boot"] != boot) => return true,
            Ok(status) if begun.elapsed() > NOTICE_AFTER => {
                let waits = busy(&status);
                if waits != said {
                    remark!("switchboard: waiting for {waits}");
                    said = waits;
                }
            }
            _ => {}
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    false
}

/// What a stopping daemon still has to finish.
fn busy(status: &Value) -> String {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let workspaces = list(&status["workspaces"]);
    let suites =
        list(&status["suites"]).into_iter().chain(workspaces.iter().flat_map(|one| list(&one["suites"])));
    let mut names = Vec::new();
    let mut calls = 0;
    for suite in suites {
        let in_flight: u64 =
            list(&suite["children"]).iter().filter_map(|child| child["inFlight"].as_u64()).sum();
        if in_flight > 0 {
            calls += in_flight;
            names.push(format!("`{}`", suite["child"].as_str().unwrap_or("-")));
        }
    }
    if calls == 0 {
        return "servers to end".to_owned();
    }
    format!(
        "{} in flight ({})",
        count(usize::try_from(calls).unwrap_or(usize::MAX), "call"),
        names.join(", ")
    )
}

/// Restarts one suite, or the daemon.
pub(super) async fn restart(args: &Args, suite: Option<&str>) -> CliExit {
    let Some(suite) = suite else { return restart_daemon(args).await };
    match send_order(args, "restart", suite).await {
        Ok(answer) if args.json => {
            print_json(&answer);
            CliExit::Ok
        }
        Ok(answer) => {
            let word = if answer["restarted"] == true {
                "it restarts on the next call"
            } else {
                "it was not running; the next call starts it"
            };
            say!("`{}`: {word}", answer["server"].as_str().unwrap_or(suite));
            CliExit::Ok
        }
        Err(unanswered) => unanswered.print(),
    }
}

async fn restart_daemon(args: &Args) -> CliExit {
    let before = match ask_within(STOP_TIMEOUT, args, Method::GET, "/status").await {
        Ok(status) => status,
        Err(unanswered) => return unanswered.print(),
    };
    if let Err(unanswered) = ask_within(STOP_TIMEOUT, args, Method::POST, "/control/restart").await {
        return unanswered.print();
    }
    if !wait_gone(args, before["boot"].as_str()).await {
        return failed(&format!("switchboardd is still running after {} s", STOP_TIMEOUT.as_secs()));
    }
    // A shim that was connected, or a service manager, may have started the next one already.
    let status = match ask_within(STOP_TIMEOUT, args, Method::GET, "/status").await {
        Ok(status) => status,
        Err(_) => match start_daemon(args).await {
            Ok((status, _)) => status,
            Err(exit) => return exit,
        },
    };
    print_status(args, &status, "restarted")
}

/// Problems in the running daemon's config, and what it uses instead.
fn mistakes(args: &Args, running: &Value) -> Vec<Problem> {
    let (Some(file), Ok(home)) = (running["config"].as_str(), daemon::home()) else { return Vec::new() };
    let (_, state) = daemon::files_in_use(&args.of_daemon(), &home);
    LastGood::new(&state).usable(Path::new(file), ConfigOwner::Personal).problems
}

pub(super) async fn reload(args: &Args) -> CliExit {
    let answer = match ask_within(STOP_TIMEOUT, args, Method::POST, "/control/reload").await {
        Ok(answer) => answer,
        Err(unanswered) => return unanswered.print(),
    };
    let exit = if answer["configOk"] == false { CliExit::Error } else { CliExit::Ok };
    if args.json {
        print_json(&answer);
        return exit;
    }
    let number = |key: &str| usize::try_from(answer[key].as_u64().unwrap_or(0)).unwrap_or(usize::MAX);
    let (servers, open) = (count(number("suites"), "server"), count(number("workspaces"), "project"));
    say!("reloaded: {servers} of your own, {open} open");
    for problem in answer["problems"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        say!("problem: {}", indented(problem));
    }
    exit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_names_calls_in_flight() {
        let kid = json!({ "child": "kid", "children": [{ "inFlight": 2 }] });
        let idle = json!({ "child": "idle", "children": [{ "inFlight": 0 }] });
        let status = json!({ "suites": [kid, idle], "workspaces": [] });
        assert_eq!(busy(&status), "2 calls in flight (`kid`)");
        assert_eq!(busy(&json!({})), "servers to end");
    }
}
