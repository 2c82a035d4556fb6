//! `switchboard logs`: the daemon's log, or what a server wrote to its standard error.

mod tail;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use hyper::Method;
use serde_json::{Value, json};
use switchboard_definitions::time::utc;
use switchboard_wire::printable;
use switchboard_wire::visible::Printable;

use super::CliExit;
use super::ask::{AskError, ask};
use super::local_time::with_local_time;
use super::output::{failed, print, print_json, print_json_line, remark, try_print};
use crate::args::Args;
use switchboardd::daemon;
use switchboardd::logging;

/// How long one request for more lines stays open.
const WAIT_MS: u64 = 25_000;
/// How often `--follow` checks for the next daemon.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Which lines of a log are wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogQuery {
    pub(super) follow: bool,
    pub(super) lines: usize,
    pub(super) since: Option<Duration>,
}

/// How many lines are shown if nobody says.
pub(super) const DEFAULT_LINES: usize = 100;

impl LogQuery {
    /// The earliest time that is wanted, as it stands in lines of a log.
    fn earliest(self) -> Option<String> {
        let since = SystemTime::now().checked_sub(self.since?).unwrap_or(SystemTime::UNIX_EPOCH);
        Some(utc(since))
    }
}

/// Whether a line with this time is wanted. Times are compared as text, to the second.
fn is_recent(at: &str, earliest: Option<&str>) -> bool {
    const SECONDS: usize = "2026-11-18T16:22:37".len();
    let cut = |text: &str| text.get(..SECONDS).map(ToOwned::to_owned);
    earliest.is_none_or(|earliest| cut(at) >= cut(earliest))
}

/// The time at the start of a line of the daemon's log, or in its JSON.
fn time_of(line: &str) -> Option<&str> {
    let at = match line.strip_prefix('{') {
        Some(_) => line.split_once("\"timestamp\":\"")?.1,
        None => line,
    };
    let is_time = |at: &&str| at.len() > 19 && at.as_bytes()[4] == b'-' && at.as_bytes()[10] == b'T';
    Some(at).filter(is_time)
}

/// The lines since the earliest time. A line without a time belongs to the one before it.
fn recent(lines: Vec<String>, earliest: Option<&str>) -> Vec<String> {
    let Some(earliest) = earliest else { return lines };
    let mut is_wanted = false;
    let mut keep = |line: &String| {
        if let Some(at) = time_of(line) {
            is_wanted = is_recent(at, Some(earliest));
        }
        is_wanted
    };
    lines.into_iter().filter(|line| keep(line)).collect()
}

pub(super) async fn run(args: &Args, suite: Option<&str>, wish: LogQuery) -> CliExit {
    match suite {
        Some(suite) => of_suite(args, suite, wish).await,
        None => of_daemon(args, wish).await,
    }
}

async fn of_suite(args: &Args, suite: &str, wish: LogQuery) -> CliExit {
    let mut answer = match more(args, suite, &Value::Null, 0).await {
        Ok(answer) => answer,
        Err(unanswered) => return unanswered.print(),
    };
    let earliest = wish.earliest();
    let is_wanted = |line: &&Value| is_recent(line["at"].as_str().unwrap_or_default(), earliest.as_deref());
    let lines: Vec<Value> = lines(&answer).iter().filter(is_wanted).cloned().collect();
    let last = &lines[lines.len().saturating_sub(wish.lines)..];
    if args.json && !wish.follow {
        print_json(&json!({ "suite": answer["suite"], "server": answer["server"], "lines": last }));
        return CliExit::Ok;
    }
    if lines.is_empty() {
        let what = match (answer["remote"] == true, wish.since) {
            (_, Some(_)) => "wrote nothing in this time",
            (true, None) => "was not connected to yet",
            (false, None) => "wrote nothing to its standard error yet",
        };
        remark!("switchboard: server `{}` {what}", answer["server"].as_str().unwrap_or(suite));
    }
    if show(args, last).is_err() || !wish.follow {
        return CliExit::Ok;
    }
    let mut gone = false;
    loop {
        let next = match more(args, suite, &answer, WAIT_MS).await {
            Ok(next) => next,
            Err(AskError::NoDaemon(_) | AskError::Broken(_)) => {
                if !std::mem::replace(&mut gone, true) {
                    remark!("switchboard: switchboardd is gone; waiting for the next one");
                }
                tokio::time::sleep(POLL_INTERVAL).await;
                continue;
            }
            Err(unanswered) => return unanswered.print(),
        };
        gone = false;
        if show(args, self::lines(&next)).is_err() {
            return CliExit::Ok;
        }
        if next["draining"] == true {
            // A draining daemon answers at once until it is gone.
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        answer = next;
    }
}

/// Fetches the lines after those of an earlier answer.
async fn more(args: &Args, suite: &str, earlier: &Value, wait_ms: u64) -> Result<Value, AskError> {
    let after = earlier["next"].as_u64().unwrap_or(0);
    let workspace = super::workspace(args);
    let body = json!({
        "suite": suite,
        "workspace": workspace,
        "after": after,
        "boot": earlier["boot"],
        "waitMs": wait_ms,
    });
    ask(args, Method::POST, "/control/logs", Some(&body)).await
}

fn lines(answer: &Value) -> &[Value] {
    answer["lines"].as_array().map_or(&[][..], Vec::as_slice)
}

/// An error means that the reader went away.
fn show(args: &Args, lines: &[Value]) -> std::io::Result<()> {
    for line in lines {
        if args.json {
            print_json_line(line)?;
        } else {
            let text = |key: &str| line[key].as_str().unwrap_or_default();
            let mark = if line["stream"] == "stdout" { "stdout: " } else { "" };
            try_print(&printable!("{} {}{}", with_local_time(text("at")), mark, text("text")))?;
        }
    }
    Ok(())
}

async fn of_daemon(args: &Args, wish: LogQuery) -> CliExit {
    let status = match ask(args, Method::GET, "/status", None).await {
        Ok(status) => Some(status),
        Err(AskError::NoDaemon(_)) => None,
        Err(unanswered) => return unanswered.print(),
    };
    let place = status.as_ref().map(|status| &status["whereabouts"]["log"]);
    match place {
        Some(Value::String(journal)) if journal == "journal" => journalctl(args, wish),
        Some(Value::Object(file)) => {
            let file = file.get("file").and_then(Value::as_str).unwrap_or_default();
            of_file(args, &PathBuf::from(file), wish).await
        }
        Some(_) => {
            let pid = &status.as_ref().map_or(&Value::Null, |status| &status["pid"]);
            failed(&format!(
                "switchboardd (pid {pid}) was started in the foreground and writes its log there; to have it write a file, run `switchboard stop` and `switchboard start`"
            ))
        }
        None => {
            let home = match daemon::home() {
                Ok(home) => home,
                Err(fatal) => return failed(&fatal),
            };
            let file = logging::file(&daemon::files_in_use(&args.of_daemon(), &home).1);
            if !file.exists() {
                let socket =
                    daemon::runtime_paths_in_use(&args.of_daemon(), &home).socket.display().to_string();
                return AskError::NoDaemon(socket).print();
            }
            of_file(args, &file, wish).await
        }
    }
}

async fn of_file(args: &Args, file: &Path, wish: LogQuery) -> CliExit {
    let mut last = match tail::last(file, wish.lines) {
        Ok(last) => last,
        Err(error) => return failed(&format!("`{}` cannot be read: {error}", file.display())),
    };
    last.lines = recent(last.lines, wish.earliest().as_deref());
    if args.json && !wish.follow {
        print_json(&json!({ "file": file, "lines": last.lines }));
        return CliExit::Ok;
    }
    last.lines.iter().for_each(|line| match args.json {
        true => drop(print_json_line(&json!({ "text": line }))),
        false => print(&Printable::text(with_local_time(line))),
    });
    if !wish.follow {
        return CliExit::Ok;
    }
    match tail::follow(file, last.end, args.json).await {
        Ok(()) => CliExit::Ok,
        Err(error) => failed(&format!("`{}` cannot be followed: {error}", file.display())),
    }
}

/// Replaces this process with `journalctl`.
#[expect(clippy::disallowed_methods, reason = "the person's own log, from the person's own command line")]
fn journalctl(args: &Args, wish: LogQuery) -> CliExit {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new("journalctl");
    let lines = if wish.lines == usize::MAX { "all".to_owned() } else { wish.lines.to_string() };
    command.args(["--user", "--unit", "switchboardd", "--lines", &lines]);
    if let Some(since) = wish.since {
        command.arg(format!("--since=-{}s", since.as_secs()));
    }
    if wish.follow {
        command.arg("--follow");
    }
    if args.json {
        command.args(["--output", "json"]);
    }
    let error = command.exec();
    failed(&format!(
        "the log is in the journal, and `journalctl --user -u switchboardd` could not be run: {error}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_since_then_are_shown() {
        let lines = [
            "2026-11-18T10:00:00.000001Z  INFO daemon: old",
            "  its second line",
            "2026-11-18T10:00:05.5Z  INFO daemon: new",
            "  its second line, too",
            r#"{"timestamp":"2026-11-18T10:00:09.1Z","level":"INFO"}"#,
            r#"{"timestamp":"2026-11-18T09:00:00.1Z","level":"INFO"}"#,
        ];
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        assert_eq!(recent(lines.clone(), None), lines);
        assert_eq!(recent(lines.clone(), Some("2026-11-18T10:00:05Z")), lines[2..5]);
        assert!(recent(lines, Some("2026-11-18T10:00:10Z")).is_empty());
    }
}
