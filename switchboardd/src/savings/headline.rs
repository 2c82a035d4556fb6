//! The report in one sentence (pure). Nothing is called a saving that is none: where Switchboard costs more, the sentence
//! says why.

use serde_json::Value;

/// From the parts of the report.
pub(super) fn headline(per_session: &Value, processes: &Value, memory: &Value) -> String {
    let tokens = tokens(per_session);
    let sessions = processes["sessions"].as_i64().unwrap_or(0);
    if sessions == 0 {
        return format!("{tokens}; no editor is connected now");
    }
    format!("{tokens}; {}", now(processes, memory))
}

fn tokens(per_session: &Value) -> String {
    let saves = per_session["saves"].as_i64().unwrap_or(0);
    match (per_session["suites"].as_u64(), saves) {
        (None | Some(0), _) => "no server has run yet, so nothing is known of its tokens".to_owned(),
        (_, 0) => "a session begins with as many tokens as without Switchboard".to_owned(),
        (_, 1..) => format!("saves {} tokens a session", grouped(saves)),
        _ => format!("costs {} tokens a session, because your servers have few tools", grouped(-saves)),
    }
}

fn now(processes: &Value, memory: &Value) -> String {
    let fewer = processes["avoided"].as_i64().unwrap_or(0);
    let sessions = processes["sessions"].as_i64().unwrap_or(0);
    let net = memory["netBytes"].as_i64().unwrap_or(0);
    let mib = (net.abs() + (1 << 19)) >> 20;
    let least = if memory["unknownServers"].as_u64().unwrap_or(0) > 0 { "at least " } else { "" };
    let processes = if fewer.abs() == 1 { "process" } else { "processes" };
    match (fewer, net) {
        (1.., _) if net > 0 && mib > 0 => {
            format!("{} {processes} and {least}{} MiB now", grouped(fewer), grouped(mib))
        }
        (1.., _) if mib == 0 => format!("{} {processes} now", grouped(fewer)),
        (1.., _) => format!(
            "{} {processes} now, and {} MiB more are in use: the daemon and its shims, until more servers are shared",
            grouped(fewer),
            grouped(mib)
        ),
        (0, _) if sessions == 1 => "no process now, as one editor window shares with nobody".to_owned(),
        (0, _) => "no process now, as no server is shared".to_owned(),
        _ => format!(
            "{} {processes} more run now than these editors would start: servers that run several at a time, or that \
             wait for their next call",
            grouped(-fewer)
        ),
    }
}

/// With a comma after each three digits.
fn grouped(number: i64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && at % 3 == first {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check([sessions, suites, saves, fewer, net]: [i64; 5], unknown: i64, wanted: &str) {
        let told = headline(
            &json!({ "saves": saves, "suites": suites }),
            &json!({ "sessions": sessions, "avoided": fewer }),
            &json!({ "netBytes": net << 20, "unknownServers": unknown }),
        );
        assert_eq!(told, wanted);
    }

    #[test]
    fn a_saving_is_said_in_one_sentence() {
        check([2, 9, 6328, 24, 310], 0, "saves 6,328 tokens a session; 24 processes and 310 MiB now");
        check([2, 9, 477, 1, 31], 3, "saves 477 tokens a session; 1 process and at least 31 MiB now");
        check([2, 9, 1_234_567, 24, 0], 0, "saves 1,234,567 tokens a session; 24 processes now");
        check([0, 9, 477, -2, -80], 0, "saves 477 tokens a session; no editor is connected now");
    }

    #[test]
    fn what_costs_says_why() {
        check(
            [1, 9, 477, 0, -8],
            0,
            "saves 477 tokens a session; no process now, as one editor window shares with nobody",
        );
        check([3, 9, 477, 0, -8], 0, "saves 477 tokens a session; no process now, as no server is shared");
        let more = "saves 477 tokens a session; 3 processes now, and 5 MiB more are in use: the daemon and its shims, until more servers are shared";
        check([3, 9, 477, 3, -5], 2, more);
        let run = "costs 12 tokens a session, because your servers have few tools; 2 processes more run now than these editors would start: servers that run several at a time, or that wait for their next call";
        check([1, 2, -12, -2, -5], 0, run);
        check(
            [0, 0, -55, 0, 0],
            0,
            "no server has run yet, so nothing is known of its tokens; no editor is connected now",
        );
    }
}
