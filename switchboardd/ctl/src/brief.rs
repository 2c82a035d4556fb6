//! Shortens errors to one line: of a server's last lines, the one that says what happened.

use switchboardd::child::{LAST_STDERR, is_detail};

/// The error on one line. The other lines are in `switchboard logs` and `switchboard explain`.
pub(super) fn brief(error: &str) -> String {
    let mut lines = error.lines();
    let first = lines.next().unwrap_or_default();
    let rest: Vec<&str> = lines.collect();
    let (Some((&last, between)), Some(at)) = (rest.split_last(), first.find(LAST_STDERR)) else {
        return error.lines().map(str::trim).collect::<Vec<_>>().join(" | ");
    };
    let (head, begin) = first.split_at(at + LAST_STDERR.len());
    // A tool in brackets may stand behind the quotation.
    let end = last.rfind("` (tool `").or_else(|| last.rfind('`')).unwrap_or(last.len());
    let (last, tail) = last.split_at(end);
    let mut quoted = std::iter::once(begin).chain(between.iter().copied()).chain([last]);
    let telling = quoted.rfind(|line| !is_detail(line)).unwrap_or(last);
    format!("{head}{}{tail}", telling.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_last_lines_the_telling_one_is_kept() {
        for (error, expected) in [
            ("could not be started", "could not be started"),
            ("exited; last stderr: `oh no`", "exited; last stderr: `oh no`"),
            (
                "exited; last stderr: `    ^^^\n  File \"x.py\", line 1\nKeyError: 'a' (in `b`)`",
                "exited; last stderr: `KeyError: 'a' (in `b`)`",
            ),
            (
                "exited; last stderr: `Error: boom\n    at x (y.js:1)\nNode.js v20.20.2` (tool `x`)",
                "exited; last stderr: `Error: boom` (tool `x`)",
            ),
            ("wrote `a`; last stderr: `  one\n  two`", "wrote `a`; last stderr: `two`"),
            ("two\n  lines", "two | lines"),
        ] {
            assert_eq!(brief(error), expected);
        }
    }
}
