//! `switchboard savings`: prints the savings report.

use hyper::Method;
use serde_json::Value;
use switchboard_wire::printable;
use switchboard_wire::visible::Printable;

use super::CliExit;
use super::ask::ask;
use super::local_time::with_local_time;
use super::output::{Paint, Tone, columns_of, indented, print, print_json, width, wrap};
use crate::args::Args;

pub(super) async fn run(args: &Args) -> CliExit {
    let workspace = super::workspace(args).map(|folder| folder.to_string_lossy().into_owned());
    let query: String = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(workspace.iter().map(|folder| ("workspace", folder)))
        .finish();
    match ask(args, Method::GET, &format!("/savings?{query}"), None).await {
        Ok(savings) if args.json => {
            print_json(&savings);
            CliExit::Ok
        }
        Ok(savings) => {
            print(&render(&savings, Paint::for_stdout()));
            CliExit::Ok
        }
        Err(unanswered) => unanswered.print(),
    }
}

/// The name of a suite's server, and whether its own tools are shown in place of the suite.
fn name(suite: &Value) -> String {
    let name = text(&suite["child"]);
    if suite["shownAs"] == "tools" { format!("{name} (as tools)") } else { name }
}

/// The report as text.
fn render(savings: &Value, paint: Paint) -> Printable {
    let suites = savings["suites"].as_array().map_or(&[][..], Vec::as_slice);
    let (known, unknown): (Vec<&Value>, Vec<&Value>) =
        suites.iter().partition(|suite| suite["known"] == true);
    let mut lines = vec![
        paint.on(Tone::Good, text(&savings["headline"])),
        Printable::default(),
        paint.on(Tone::Strong, "tokens that a session begins with"),
    ];
    let whole = &savings["perSession"];
    let head = ["", "tools", "listed", "shown", "saves", "introspect"].map(str::to_owned);
    let mut table = vec![head];
    for suite in &known {
        table.push([
            name(suite),
            tools(suite),
            count(&suite["listed"]),
            count(&suite["shown"]),
            count(&suite["saves"]),
            count(&suite["introspection"]),
        ]);
    }
    let nothing = String::new;
    table.push([
        "instructions".to_owned(),
        nothing(),
        nothing(),
        count(&whole["instructions"]),
        nothing(),
        nothing(),
    ]);
    let of_whole = |key: &str| count(&whole[key]);
    let in_all = if known.iter().all(|suite| suite["workspace"].is_null()) { "in all" } else { "your own" };
    table.push([
        in_all.to_owned(),
        nothing(),
        of_whole("listed"),
        of_whole("shown"),
        of_whole("saves"),
        nothing(),
    ]);
    lines.extend(columns(&table));
    let has_own = |workspace: &&Value| {
        suites
            .iter()
            .any(|suite| suite["workspace"].is_string() && suite["workspace"] == workspace["workspace"])
    };
    for workspace in savings["workspaces"].as_array().into_iter().flatten().filter(has_own) {
        lines.push(printable!(
            "  with those of {}: {} listed, {} shown, {} saved",
            text(&workspace["workspace"]),
            count(&workspace["listed"]),
            count(&workspace["shown"]),
            count(&workspace["saves"])
        ));
    }
    lines.push(paint.on(
        Tone::Quiet,
        "  listed: each tool alone; shown: the one tool in their place; introspect: all of it, once fetched",
    ));
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for suite in unknown {
        let (why, server) = (text(&suite["why"]), text(&suite["child"]));
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, servers)) => servers.push(server),
            None => reasons.push((why, vec![server])),
        }
    }
    for (why, servers) in reasons {
        let text = format!("not counted ({why}): {}", servers.join(", "));
        let wrapped = wrap(&text, width().saturating_sub(2));
        lines.extend(wrapped.iter().map(|line| paint.on(Tone::Quiet, printable!("  {line}"))));
    }

    lines.extend([
        Printable::default(),
        paint.on(Tone::Strong, format!("so far, since {}", with_local_time(&text(&savings["since"])))),
    ]);
    let past = &savings["tokens"];
    lines.push(printable!(
        "  {} begun; {} fetched {} tokens; {}",
        plural(&past["sessions"], "session has", "sessions have"),
        plural(&past["introspections"], "introspection", "introspections"),
        count(&past["introspected"]),
        match past["net"].as_i64().unwrap_or(0) {
            cost @ ..0 => format!("{} tokens more than without Switchboard", -cost),
            saved => format!("{saved} tokens saved in all"),
        },
    ));
    if past["uncounted"].as_u64().unwrap_or(0) > 0 {
        lines.push(printable!(
            "  {} could not be counted",
            plural(&past["uncounted"], "introspection", "introspections")
        ));
    }
    let cold = &savings["coldStarts"];
    lines.push(printable!(
        "  waited {} less for servers that already ran ({}), {} more for servers that had been stopped ({})",
        seconds(&cold["avoidedMs"]),
        plural(&cold["avoided"], "start", "starts"),
        seconds(&cold["addedMs"]),
        plural(&cold["added"], "start", "starts"),
    ));

    lines.extend([Printable::default(), paint.on(Tone::Strong, "now")]);
    lines.extend(now(&savings["processes"], &savings["memory"], paint));

    lines.push(Printable::default());
    let words: Vec<&str> = suites.iter().filter_map(|suite| suite["word"].as_str()).collect();
    lines.extend(once(&words).iter().map(|word| paint.on(Tone::Warning, word)));
    if let Some(problem) = savings["problem"].as_str() {
        lines.push(paint.on(Tone::Bad, printable!("problem: {}", indented(problem))));
    }
    lines.push(paint.on(Tone::Quiet, text(&savings["tokenizer"]["note"])));
    Printable::lines(lines)
}

/// What can be done about small suites is the same for each, and said once.
fn once(words: &[&str]) -> Vec<String> {
    let what: Vec<&str> = words.iter().map(|word| word.split("; `suites.").next().unwrap_or(word)).collect();
    if what.iter().zip(words).filter(|(what, word)| what.len() < word.len()).count() < 2 {
        return words.iter().map(|word| (*word).to_owned()).collect();
    }
    let instead = "`suites.NAME.show: \"tools\"` shows a server's own tools instead; or name it in the config of the editor that uses it, as `switchboard --child NAME`";
    what.into_iter().chain([instead]).map(ToOwned::to_owned).collect()
}

/// What runs now, against what the open editors would have started.
fn now(processes: &Value, memory: &Value, paint: Paint) -> Vec<Printable> {
    let own = format!("the daemon takes {}", mib(&memory["daemonBytes"]));
    let running = plural(&processes["running"], "server runs", "servers run");
    let takes = mib(&memory["childrenBytes"]);
    if processes["sessions"] == 0 {
        return vec![printable!("  no editor is connected; {running}, with {takes}; {own}")];
    }
    let mut lines = vec![printable!(
        "  {}; without Switchboard they would run {}, of which they have used {}; {running}",
        plural(&processes["sessions"], "editor window", "editor windows"),
        plural(&processes["without"], "server", "servers"),
        count(&processes["used"]),
    )];
    let avoided = memory["avoidedBytes"].as_i64().unwrap_or(0).max(0);
    let unknown = match memory["unknownServers"].as_u64().unwrap_or(0) {
        0 => String::new(),
        1 => ", not counting 1 that does not run".to_owned(),
        many => format!(", not counting {many} that do not run"),
    };
    lines.push(printable!(
        "  memory: {takes}; without Switchboard about {} more{unknown}; {own}, its shims {}",
        mib(&Value::from(avoided)),
        mib(&memory["shimsBytes"]),
    ));
    lines.push(paint.on(
        Tone::Quiet,
        "  an estimate: what a further copy of a server takes is what the one that runs shares with nobody",
    ));
    lines
}

/// Aligns the first column to the left, the others to the right.
fn columns<const N: usize>(table: &[[String; N]]) -> Vec<Printable> {
    let width = |column: usize| table.iter().map(|row| columns_of(&row[column])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |row: &[String; N]| {
        let pad = |cell: &str, width: usize| " ".repeat(width - columns_of(cell));
        let mut line = format!("  {}{}", row[0], pad(&row[0], widths[0]));
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            line.push_str(&format!("  {}{cell}", pad(cell, *width)));
        }
        printable!("{}", line.trim_end())
    };
    table.iter().map(line).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("-").to_owned()
}

fn count(value: &Value) -> String {
    value.as_i64().map_or_else(|| "-".to_owned(), |number| number.to_string())
}

fn tools(suite: &Value) -> String {
    match suite["hiddenTools"].as_u64() {
        Some(hidden) if hidden > 0 => format!("{} ({hidden} hidden)", count(&suite["tools"])),
        _ => count(&suite["tools"]),
    }
}

fn plural(number: &Value, one: &str, more: &str) -> String {
    format!("{} {}", count(number), if *number == 1 { one } else { more })
}

fn seconds(ms: &Value) -> String {
    format!("{:.1} s", ms.as_f64().unwrap_or(0.0) / 1000.0)
}

fn mib(bytes: &Value) -> String {
    bytes.as_f64().map_or_else(|| "-".to_owned(), |bytes| format!("{:.1} MiB", bytes / 1_048_576.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_helps_every_small_suite_is_said_once() {
        let one = "a costs; `suites.a.show: x";
        assert_eq!(once(&[one, "b is busy"]), [one, "b is busy"]);
        let told = once(&[one, "b costs; `suites.b.show: x"]);
        assert_eq!(told[..2], ["a costs", "b costs"]);
        assert!(told.len() == 3 && told[2].contains("`suites.NAME.show: \"tools\"`"));
    }
}
