//! `switchboard calls`: what hosts called, when, and what came of it. Reads the files of the record, so it works
//! without a daemon, and follows them across restarts.

mod reader;
mod row;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::Method;
use serde_json::{Value, json};
use switchboard_definitions::time::utc;
use switchboard_wire::printable;
use switchboard_wire::visible::Printable;

use super::CliExit;
use super::ask::{AskError, ask};
use super::output::{count, failed, print_json, print_json_line, remark, try_print};
use crate::args::{Args, CallsQuery};
use reader::{Follower, read_all};
use row::Columns;
use switchboardd::{CallRecord, Folder, RecordEntry, RecordFiles, daemon};

/// Calls that are shown if nobody says how many.
const LINES: usize = 50;
/// How often `--follow` looks, in case a change of the file is not reported.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

pub(super) async fn run(args: &Args, query: &CallsQuery) -> CliExit {
    let home = match daemon::home() {
        Ok(home) => home,
        Err(fatal) => return failed(&fatal),
    };
    let files = RecordFiles::new(&daemon::files_in_use(&args.of_daemon(), &home).1);
    // The daemon writes what it still has in memory. One that cannot do that costs the last moment only.
    let told = ask(args, Method::POST, "/control/calls", Some(&json!({}))).await;
    let filter = CallFilter::new(query);
    let Some((mut entries, follower)) = read_all(&files, |text| filter.is_too_old(text)) else {
        if let Err(AskError::NoDaemon(_)) = &told
            && !query.follow
            && !files.folder().exists()
        {
            return told.map_or_else(|error| error.print(), |_| CliExit::Ok);
        }
        return follow_or_end(args, query, &files, &filter, Follower::default(), &told).await;
    };
    entries.retain(|line| filter.permits(line));
    let most = query.lines.unwrap_or(if query.since.is_some() { usize::MAX } else { LINES });
    entries.drain(..entries.len().saturating_sub(most));
    if args.json && !query.follow {
        let calls: Vec<Value> =
            entries.iter().filter_map(|line| Some(to_json(&RecordEntry::parse(line)?))).collect();
        let (lost, calls): (Vec<Value>, Vec<Value>) =
            calls.into_iter().partition(|call| !call["lost"].is_null());
        let lost: u64 = lost.iter().filter_map(|gap| gap["lost"].as_u64()).sum();
        if calls.is_empty() {
            note_empty(&told, query);
        }
        note_problem(&told);
        print_json(&json!({ "file": files.newest(), "calls": calls, "lost": lost }));
        return CliExit::Ok;
    }
    let mut columns = Columns::default();
    let known: Vec<RecordEntry<'_>> = entries.iter().filter_map(|line| RecordEntry::parse(line)).collect();
    known.iter().for_each(|entry| columns.widen(entry));
    if !known.is_empty() && !args.json && try_print(&columns.heading()).is_err() {
        return CliExit::Ok;
    }
    for entry in &known {
        if show(args, &mut columns, entry).is_err() {
            return CliExit::Ok;
        }
    }
    let found = known.len();
    drop(known);
    if found == 0 {
        note_empty(&told, query);
    }
    note_problem(&told);
    if !query.follow {
        return CliExit::Ok;
    }
    follow(args, &files, &filter, follower, columns).await
}

async fn follow_or_end(
    args: &Args,
    query: &CallsQuery,
    files: &RecordFiles,
    filter: &CallFilter,
    follower: Follower,
    told: &Result<Value, AskError>,
) -> CliExit {
    if args.json && !query.follow {
        print_json(&json!({ "file": files.newest(), "calls": [], "lost": 0 }));
    }
    note_empty(told, query);
    note_problem(told);
    if query.follow { follow(args, files, filter, follower, Columns::default()).await } else { CliExit::Ok }
}

/// Prints calls as they are written, until the reader goes away.
async fn follow(
    args: &Args,
    files: &RecordFiles,
    filter: &CallFilter,
    mut follower: Follower,
    mut columns: Columns,
) -> CliExit {
    let watched = files.create_folder().and_then(|()| Folder::watch(files.folder()));
    let mut changes = match watched {
        Ok(changes) => changes,
        Err(error) => return failed(&format!("`{}` cannot be followed: {error}", files.folder().display())),
    };
    loop {
        for line in follower.next(files) {
            if filter.permits(&line)
                && let Some(entry) = RecordEntry::parse(&line)
                && show(args, &mut columns, &entry).is_err()
            {
                return CliExit::Ok;
            }
        }
        let _ = tokio::time::timeout(LOOK_INTERVAL, changes.next()).await;
    }
}

/// An error means that the reader went away.
fn show(args: &Args, columns: &mut Columns, entry: &RecordEntry<'_>) -> std::io::Result<()> {
    if args.json { print_json_line(&to_json(entry)) } else { try_print(&columns.line(entry)) }
}

fn to_json(entry: &RecordEntry<'_>) -> Value {
    let mut value = match entry {
        RecordEntry::Call(call) => json!(call),
        RecordEntry::Lost { at, count } => json!({ "at": at, "lost": count }),
    };
    value["time"] = utc(time_of(entry.at())).into();
    value
}

fn time_of(unix_ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(unix_ms)
}

/// Says why nothing is shown.
fn note_empty(told: &Result<Value, AskError>, query: &CallsQuery) {
    if query.lines == Some(0) {
        return;
    }
    let is_off = matches!(told, Ok(told) if told["mode"] == "off");
    let text = match (is_off, &query.host, &query.suite, query.since) {
        (true, ..) => printable!("switchboard: nothing is recorded: `record` is \"off\" in your config"),
        (_, Some(_), ..) | (_, _, Some(_), _) | (.., Some(_)) => {
            printable!("switchboard: no such call is recorded")
        }
        _ => printable!("switchboard: no call is recorded yet"),
    };
    super::output::print_remark(&text);
}

fn note_problem(told: &Result<Value, AskError>) {
    if let Ok(told) = told
        && let Some(problem) = told["problem"].as_str()
    {
        remark!("switchboard: calls are not recorded: {problem}");
    }
}

/// Which calls are wanted.
struct CallFilter {
    suite: Option<String>,
    host: Option<String>,
    /// In milliseconds since 1970.
    since: Option<f64>,
}

impl CallFilter {
    fn new(query: &CallsQuery) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            suite: query.suite.clone(),
            host: query.host.as_deref().map(plain),
            since: query.since.map(|since| (now.as_secs_f64() - since.as_secs_f64()) * 1e3),
        }
    }

    /// Whether a call that has this line ended too long ago. Earlier lines are of calls that ended earlier.
    fn is_too_old(&self, line: &str) -> bool {
        let ended = |entry| match entry {
            RecordEntry::Call(call) => ended(&call),
            #[expect(clippy::cast_precision_loss, reason = "a time of this century")]
            RecordEntry::Lost { at, .. } => at as f64,
        };
        self.since.is_some_and(|since| RecordEntry::parse(line).is_some_and(|entry| ended(entry) < since))
    }

    fn permits(&self, line: &str) -> bool {
        let Some(entry) = RecordEntry::parse(line) else { return false };
        let RecordEntry::Call(call) = entry else { return !self.is_too_old(line) };
        let is_of_suite = |wanted: &String| {
            [&call.suite, &call.server].into_iter().flatten().any(|name| name.as_ref() == wanted.as_str())
        };
        let is_of_host =
            |wanted: &String| call.host.as_deref().is_some_and(|host| plain(host).contains(wanted.as_str()));
        self.since.is_none_or(|since| ended(&call) >= since)
            && self.suite.as_ref().is_none_or(is_of_suite)
            && self.host.as_ref().is_none_or(is_of_host)
    }
}

/// When a call ended, in milliseconds since 1970.
#[expect(clippy::cast_precision_loss, reason = "a time of this century")]
fn ended(call: &CallRecord<'_>) -> f64 {
    call.at as f64 + call.ms
}

/// `Claude Code` and `claude-code` are the same host.
fn plain(host: &str) -> String {
    host.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// What a gap says to a user.
fn lost_words(lost: u64) -> Printable {
    printable!("{} could not be recorded", count(usize::try_from(lost).unwrap_or(usize::MAX), "call"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_named_as_users_see_it() {
        assert_eq!(plain("Claude Code"), plain("claude-code"));
        assert!(plain("codex-mcp-client").contains(&plain("Codex")));
    }
}
