//! `switchboard status`: the daemon, its sessions, suites and running servers, and the last error.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use switchboard_definitions::suite_name::derived;
use switchboard_wire::printable;
use switchboard_wire::visible::Printable;

use super::CliExit;
use super::ask::{about, ask_within};
use super::brief::brief;
use super::local_config::LocalConfig;
use super::output::{
    Cell, Paint, Table, Tone, age, cell, count, indented, memory, print, print_json, print_json_line,
    print_screen, tilde, toned, width, wrap,
};
use super::shell_word::shell_word;
use crate::args::Args;

/// Stands for subtools that no server has: callers choose such names freely.
const UNKNOWN_SUBTOOL: &str = "_other";

/// A daemon that takes longer is hung.
const STATUS_TIMEOUT: Duration = Duration::from_secs(20);

const WATCH_INTERVAL: Duration = Duration::from_secs(2);

pub(super) async fn run(args: &Args) -> CliExit {
    match fetch_status(args).await {
        Ok(status) if args.json => {
            print_json(&status);
            CliExit::Ok
        }
        Ok(status) => {
            print(&render(&status));
            CliExit::Ok
        }
        Err(unanswered) => unanswered.print(),
    }
}

/// Shows the status again and again until Ctrl-C, also while no daemon runs.
pub(super) async fn watch(args: &Args) -> CliExit {
    loop {
        let told = fetch_status(args).await;
        let printed = match (&told, args.json) {
            (Ok(status), true) => print_json_line(status),
            (Err(unanswered), true) => print_json_line(&json!({ "error": unanswered.to_string() })),
            (Ok(status), false) => print_screen(&render(status)),
            (Err(unanswered), false) => print_screen(&Printable::text(unanswered)),
        };
        if printed.is_err() {
            return CliExit::Ok;
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

/// The daemon's status for this command's project, with the reason for a pending restart.
pub(super) async fn fetch_status(args: &Args) -> Result<Value, super::ask::AskError> {
    let path = format!("/status{}", about(project(args).as_deref()));
    let mut status = ask_within(STATUS_TIMEOUT, args, Method::GET, &path).await?;
    match why_pending(&status["restartPending"]) {
        Some(why) => status["restartPending"]["why"] = json!(why),
        None => {
            let why = skew(&status, env!("CARGO_PKG_VERSION"), is_replaced(&status));
            status["restartPending"] = why.map_or(Value::Null, |why| json!({ "why": why }));
        }
    }
    Ok(status)
}

/// The project of a command: the nearest folder, from here upwards, that defines servers; else this folder.
pub(super) fn project(args: &Args) -> Option<PathBuf> {
    let folder = super::workspace(args);
    LocalConfig::open_if_possible(args).and_then(|local| local.here(args)).or(folder)
}

/// The pending restart of a daemon that noticed its successor.
fn why_pending(next: &Value) -> Option<String> {
    let binary = next["binary"].as_str()?;
    Some(match (next["problem"].as_str(), next["version"].as_str()) {
        (Some(problem), _) => format!("`{binary}` was replaced and cannot take over: {problem}"),
        (None, version) => {
            format!(
                "version {} is installed and takes over when nothing is under way",
                version.unwrap_or("?")
            )
        }
    })
}

/// Whether the running program is no longer the one on disk.
fn is_replaced(status: &Value) -> bool {
    status["replaced"] == true
}

/// Why the daemon should be restarted, if it should.
pub(super) fn skew(status: &Value, ours: &str, replaced: bool) -> Option<String> {
    let theirs = status["version"].as_str().unwrap_or("unknown");
    if theirs != ours {
        return Some(format!("the daemon is version {theirs}, this command {ours}"));
    }
    replaced.then(|| "its program was replaced since it was started".to_owned())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[][..], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("-").to_owned()
}

fn since(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), age)
}

/// The status as text.
pub(super) fn render(status: &Value) -> Printable {
    let paint = Paint::for_stdout();
    let mut lines = daemon(status, paint);
    let open = sessions(status);
    section(&mut lines, paint, &count(open.len(), "session"), &open, "no editor is connected");
    let workspaces = list(&status["workspaces"]);
    let of_projects: Vec<&Value> = workspaces.iter().flat_map(|one| list(&one["suites"])).collect();
    // One of the user's own that runs once for each project is listed with its projects.
    let is_same = |one: &Value, other: &Value| one["child"] == other["child"] && one["file"] == other["file"];
    let is_general = |suite: &&Value| !of_projects.iter().any(|other| is_same(other, suite));
    let personal: Vec<&Value> = list(&status["suites"]).iter().filter(is_general).collect();
    let all: Vec<&Value> = personal.iter().chain(&of_projects).copied().collect();
    let own = suites(personal.iter().copied());
    let if_empty = "no servers of your own; `switchboard import` or `switchboard add` defines some";
    if !own.is_empty() || of_projects.is_empty() {
        section(&mut lines, paint, &count(own.len(), "server"), &own, if_empty);
    }
    for workspace in workspaces.iter().filter(|one| !list(&one["suites"]).is_empty()) {
        let suites = suites(list(&workspace["suites"]).iter());
        let heading = format!(
            "{} of {}",
            count(list(&workspace["suites"]).len(), "server"),
            tilde(&text(&workspace["root"]))
        );
        lines.extend([Printable::default(), paint.on(Tone::Strong, heading)]);
        lines.extend(suites.lines(paint, width()));
    }
    let running = children(&all);
    if !running.is_empty() {
        section(&mut lines, paint, &format!("{} running", count(running.len(), "server")), &running, "");
    }
    if let Some(said) = last_error(status, &all) {
        lines.push(Printable::default());
        lines.extend(wrap(&said, width()).iter().map(|line| paint.on(Tone::Bad, line)));
    }
    let problems =
        list(&status["problems"]).iter().chain(workspaces.iter().flat_map(|one| list(&one["problems"])));
    let mut problems: Vec<_> = problems.filter_map(Value::as_str).collect();
    // A workspace that contains the config folder reports its problems again.
    let mut told = BTreeSet::new();
    problems.retain(|problem| told.insert(*problem));
    if !problems.is_empty() {
        lines.push(Printable::default());
    }
    for problem in problems {
        lines.push(printable!("{} {}", paint.on(Tone::Warning, "problem:"), indented(problem)));
    }
    Printable::lines(lines)
}

/// The last failed call, else the last server that failed.
fn last_error(status: &Value, suites: &[&Value]) -> Option<String> {
    if let Some(last) = list(&status["lastErrors"]).first() {
        let past = status["nowMs"].as_u64()?.saturating_sub(last["at"].as_u64()?);
        let of = [&last["suite"], &last["tool"]]
            .into_iter()
            .filter_map(Value::as_str)
            .filter(|name| *name != UNKNOWN_SUBTOOL);
        let server =
            |name: &str| suites.iter().find(|suite| suite["name"] == name).map(|suite| text(&suite["child"]));
        let mut of: Vec<_> =
            of.map(|name| format!("`{}`", server(name).unwrap_or(name.to_owned()))).collect();
        // Without a subtool, both names are the suite's.
        of.dedup();
        let of = if of.is_empty() { String::new() } else { format!(", {}", of.join(" ")) };
        return Some(format!(
            "last error, {} ago{of}: {}",
            age(past),
            brief(last["message"].as_str().unwrap_or("-"))
        ));
    }
    let failed = suites.iter().filter(|suite| suite["lastErrorAgeMs"].is_u64());
    let last = failed.min_by_key(|suite| suite["lastErrorAgeMs"].as_u64())?;
    let (past, name) = (since(&last["lastErrorAgeMs"]), text(&last["child"]));
    Some(format!(
        "last error, {past} ago: server `{name}` {}",
        brief(last["lastError"].as_str().unwrap_or("-"))
    ))
}

/// `9.7 ms`, `4.7 s`.
fn duration(ms: f64) -> String {
    if ms < 1000.0 { format!("{ms:.1} ms") } else { format!("{:.1} s", ms / 1e3) }
}

/// How many calls there were, and how long they took.
fn calls(calls: &Value) -> Option<String> {
    let total = calls["total"].as_u64().filter(|total| *total > 0)?;
    let ms = |key: &str| calls[key].as_f64().map_or_else(|| "-".to_owned(), duration);
    let refused = match calls["refused"].as_u64().unwrap_or(0) {
        0 => String::new(),
        refused => format!(", {refused} refused"),
    };
    Some(format!("{total}, {} failed{refused}; median {}, p99 {}", calls["errors"], ms("p50Ms"), ms("p99Ms")))
}

/// A table below its heading; without a row, what the user can do about that.
fn section(lines: &mut Vec<Printable>, paint: Paint, heading: &str, table: &Table, if_empty: &str) {
    lines.push(Printable::default());
    if table.is_empty() {
        lines.push(paint.on(Tone::Quiet, if_empty));
    } else {
        lines.push(paint.on(Tone::Strong, heading));
        lines.extend(table.lines(paint, width()));
    }
}

fn daemon(status: &Value, paint: Paint) -> Vec<Printable> {
    let state = match status["status"].as_str() {
        Some("ok") => paint.on(Tone::Good, "ok"),
        other => paint.on(Tone::Warning, other.unwrap_or("-")),
    };
    let taken = status["memoryKb"].as_u64().map_or(String::new(), |kib| format!("  {}", memory(kib)));
    let mut lines = vec![printable!(
        "{} {}  {state}  pid {}  up {}{taken}",
        paint.on(Tone::Strong, "switchboardd"),
        text(&status["version"]),
        status["pid"],
        since(&status["uptimeMs"])
    )];
    let mut facts = Table::default();
    let place = &status["whereabouts"];
    let mut fact = |name: &str, value: Cell| facts.row(vec![toned(Tone::Quiet, name), value]);
    fact("socket", cell(tilde(&text(&place["socket"]))));
    match (place["tcp"].as_str(), place["noTcp"].as_str()) {
        (Some(address), _) => {
            fact("tcp", cell(address));
            fact("token", cell(tilde(&text(&place["tokenFile"]))));
        }
        (None, Some("off")) => fact("tcp", cell("off")),
        (None, why) => {
            fact("tcp", toned(Tone::Warning, format!("none: {}", no_tcp(place, why.unwrap_or("unknown")))))
        }
    }
    let config = tilde(&text(&status["config"]));
    let there = status["config"].as_str().is_none_or(|file| Path::new(file).exists());
    fact("config", cell(if there { config } else { format!("none, defaults ({config} would be read)") }));
    fact(
        "log",
        cell(match &place["log"] {
            Value::String(journal) if journal == "journal" => {
                "the journal (`journalctl --user -u switchboardd`)".to_owned()
            }
            Value::Object(file) => file.get("file").map_or_else(String::new, |file| tilde(&text(file))),
            _ => "the standard error of the process that started it".to_owned(),
        }),
    );
    if let Some(calls) = calls(&status["calls"]) {
        fact("calls", cell(calls));
    }
    if let Some(why) = status["restartPending"]["why"].as_str() {
        fact("restart", toned(Tone::Warning, format!("pending: {why}; `switchboard restart`")));
    }
    lines.extend(facts.lines(paint, width()));
    lines
}

/// Why there is no TCP, and the fix: another port helps only if the port is the problem.
fn no_tcp(place: &Value, why: &str) -> String {
    match place["noToken"] == true {
        true => format!("{why}; fix that, then `switchboard restart`"),
        false => format!("{why}; set `http.listen` to another port, then `switchboard restart`"),
    }
}

fn sessions(status: &Value) -> Table {
    let mut table = Table::new(&["EDITOR", "REVISION", "AGE", "IN FLIGHT", "PROJECT"]);
    // `switchboard call` and `switchboard start` end, and leave their sessions behind for some seconds.
    let is_command = |session: &Value| {
        [switchboardd::CALL, switchboardd::START].iter().any(|one| session["client"] == *one)
    };
    let is_over = |session: &Value| is_command(session) && session["inFlight"] == 0;
    for session in list(&status["sessions"]).iter().filter(|session| !is_over(session)) {
        let version =
            session["clientVersion"].as_str().map_or(String::new(), |version| format!(" {version}"));
        let revision = match (session["revision"].as_str(), &session["modern"]) {
            (Some(revision), _) => revision.to_owned(),
            (None, Value::Bool(true)) => "modern".to_owned(),
            _ => "-".to_owned(),
        };
        table.row(vec![
            cell(format!("{}{version}", text(&session["client"]))),
            cell(revision),
            cell(since(&session["ageMs"])),
            cell(session["inFlight"].to_string()),
            cell(tilde(&text(&session["workspace"]))),
        ]);
    }
    table
}

/// The state as users read it; `resting` is a word of the JSON.
pub(super) fn state_word(state: &str) -> &str {
    if state == "resting" { "paused" } else { state }
}

pub(super) fn state(state: &Value) -> Cell {
    let state = text(state);
    let tone = match state.as_str() {
        "ready" => Tone::Good,
        "failed" | "misconfigured" => Tone::Bad,
        "held" | "resting" => Tone::Warning,
        _ => Tone::Quiet,
    };
    toned(tone, state_word(&state))
}

fn suites<'a>(suites: impl Iterator<Item = &'a Value>) -> Table {
    let mut table = Table::new(&["SERVER", "STATE", "TOOLS", "NOTE"]);
    for suite in suites {
        table.row(vec![cell(shown_name(suite)), state(&suite["state"]), cell(subtools(suite)), note(suite)]);
    }
    table
}

/// How many subtools a suite has, and whether editors see them themselves.
pub(super) fn subtools(suite: &Value) -> String {
    let number = suite["subtools"].as_u64().map_or_else(|| "-".to_owned(), |number| number.to_string());
    if suite["show"]["as"] == "tools" { format!("{number}, as tools") } else { number }
}

/// A note for the user: pending approval, last error, or a remote server's URL.
pub(super) fn note(suite: &Value) -> Cell {
    if let Some(waiting) = suite["waiting"].as_str() {
        let what = if suite["state"] == "held" { "would run" } else { "an update would run" };
        let name = shell_word(suite["child"].as_str().unwrap_or("-"));
        let said = format!("{what} {waiting}; `switchboard allow {name}`");
        return toned(Tone::Warning, said);
    }
    if let Some(changed) = suite["drift"]["summary"].as_str() {
        let held = if suite["drift"]["held"] == true { ", refused until then" } else { "" };
        let name = shell_word(suite["child"].as_str().unwrap_or("-"));
        let split = if suite["drift"]["keepsSplit"] == true { ", stays two tools until then" } else { "" };
        return toned(Tone::Warning, format!("{changed}; `switchboard allow {name}`{held}{split}"));
    }
    match suite["lastError"].as_str() {
        Some(error) if suite["state"] == "ready" => toned(Tone::Quiet, format!("earlier: {}", brief(error))),
        Some(error) => toned(Tone::Bad, brief(error)),
        None => match (suite["url"].as_str(), not_for_all(suite)) {
            (_, Some(said)) => toned(Tone::Quiet, said),
            (Some(url), None) => toned(Tone::Quiet, url),
            (None, None) => cell(""),
        },
    }
}

/// Which editors or sessions do not see a suite.
fn not_for_all(suite: &Value) -> Option<String> {
    let texts = |key: &str| -> Vec<String> { list(&suite[key]).iter().map(text).collect() };
    let (hosts, folders) = (texts("readBy"), texts("workspaces"));
    if !hosts.is_empty() {
        return Some(format!("not shown to {}, where its file is read already", hosts.join(", ")));
    }
    let folders: Vec<String> = folders.iter().map(|folder| tilde(folder)).collect();
    (!folders.is_empty()).then(|| format!("shown in {} only", folders.join(", ")))
}

/// The server, and its suite if that has a name of its own.
pub(super) fn shown_name(suite: &Value) -> String {
    let (server, name) = (text(&suite["child"]), text(&suite["name"]));
    if derived(&server) == name { server } else { format!("{server} (suite {name})") }
}

fn children(suites: &[&Value]) -> Table {
    let mut table = Table::new(&["SERVER", "PID", "REVISION", "AGE", "IDLE", "IN FLIGHT", "MEMORY"]);
    for suite in suites {
        for child in list(&suite["children"]) {
            let idle = match child["inFlight"].as_u64() {
                Some(0) => since(&child["idleMs"]),
                _ => "-".to_owned(),
            };
            table.row(vec![
                cell(text(&suite["child"])),
                cell(child["pid"].as_u64().map_or_else(|| "remote".to_owned(), |pid| pid.to_string())),
                cell(text(&child["revision"])),
                cell(since(&child["ageMs"])),
                cell(idle),
                cell(child["inFlight"].to_string()),
                cell(child["memoryKb"].as_u64().map_or_else(|| "-".to_owned(), memory)),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_or_program_asks_for_a_restart() {
        let status = json!({ "version": "1.2.3" });
        assert_eq!(skew(&status, "1.2.3", false), None);
        assert!(skew(&status, "1.3.0", false).unwrap().contains("1.2.3"));
        assert!(skew(&status, "1.2.3", true).unwrap().contains("replaced"));
    }

    #[test]
    fn a_command_that_has_ended_is_no_session() {
        let session = |client: &str, calls: u64| json!({ "client": client, "inFlight": calls });
        let ended = [session("cursor", 0), session(switchboardd::CALL, 0), session(switchboardd::START, 0)];
        let status = json!({ "sessions": ended });
        assert!(render(&status).as_str().contains("1 session"));
        let status = json!({ "sessions": [session("cursor", 0), session(switchboardd::CALL, 1)] });
        assert!(render(&status).as_str().contains("2 sessions"));
    }

    #[test]
    fn the_last_error_names_the_server_and_the_telling_line() {
        let last = json!({ "at": 5_000, "suite": "pg_suite", "tool": "query", "message": "ended; last stderr: `  at x\nKeyError`" });
        let suites = json!([{ "name": "pg_suite", "child": "pg" }]);
        let shown = render(&json!({ "nowMs": 8_000, "lastErrors": [last], "suites": suites }));
        assert!(
            shown.as_str().contains("last error, 3 s ago, `pg` `query`: ended; last stderr: `KeyError`"),
            "{shown}"
        );
    }

    #[test]
    fn a_problem_is_shown_once() {
        let status = json!({ "problems": ["x: y"], "workspaces": [{ "problems": ["x: y", "z: y"] }] });
        assert_eq!(render(&status).as_str().matches("x: y").count(), 1);
        assert!(render(&status).as_str().contains("z: y"));
    }

    #[test]
    fn a_taken_port_is_shown() {
        let status = json!({ "whereabouts": { "noTcp": "127.0.0.1:7420 is taken by another program" } });
        assert!(render(&status).as_str().contains("127.0.0.1:7420 is taken"));
    }
}
