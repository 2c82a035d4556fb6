//! The answer to a query: the best tools, and the names of all others, so that none is ever missing.

use std::fmt::Write;

use switchboard_wire::envelope::quoted;

use super::compact::{self, ShownTool};
use super::introspect_options::IntrospectOptions;
use super::split::Marks;
use crate::search::{self, Ranking};
use crate::signature::{Detail, prune, written_name};

/// How many tools are described.
pub(super) const MAX_FOUND: usize = 3;
/// The longest schema that is shown, in bytes; a longer one is shown as a signature.
const MAX_SCHEMA: usize = 550;
/// How long a signature of the best tool and of the next ones may be before it shows less.
const MAX_FIRST: usize = 400;
const MAX_NEXT: usize = 120;
/// The longest summary of the next tools.
const NEXT_SUMMARY: usize = 60;
/// A tool with a lower part of the best one's score is only named.
const NEAR_BEST: f32 = 0.45;
/// How long the names of the others may be, in bytes.
const MAX_NAMES: usize = 32_000;
/// A list of up to this many tools is shown whole where nothing matches.
const FEW: usize = 8;

/// `ranking`: of indexes into `tools`.
pub(super) fn text(tools: &[ShownTool<'_>], ranking: &Ranking, options: IntrospectOptions<'_>) -> String {
    let summary_max_chars = options.summary_max_chars;
    let Ranking { matches, opposites } = ranking;
    let mut order: Vec<usize> = matches.iter().map(|found| found.at).collect();
    let mut is_opposite = vec![false; tools.len()];
    opposites.iter().for_each(|opposite| is_opposite[opposite.at] = true);
    order.extend(search::unmatched(tools.len(), matches).filter(|at| !is_opposite[*at]));
    // Those that do the opposite are only named.
    let described = order.len();
    order.extend(opposites.iter().map(|opposite| opposite.at));
    let best = matches.first().map_or(0.0, |best| best.score);
    let near = matches.iter().take(MAX_FOUND).filter(|found| found.score >= best * NEAR_BEST).count();
    let count = if matches.is_empty() && tools.len() <= FEW { described } else { near };
    let mut out = String::new();
    if matches.is_empty() {
        out.push_str("No subtool matches these words.\n");
    }
    for (place, at) in order.iter().take(count).enumerate() {
        let _ = write!(out, "{}. ", place + 1);
        if place == 0 {
            first(tools[*at], options, &mut out);
        } else {
            let (detail, summary) = (fitting(tools[*at], MAX_NEXT), NEXT_SUMMARY.min(summary_max_chars));
            compact::line(tools[*at], detail, summary, &mut out);
        }
        out.push('\n');
    }
    if let Some(name) = order.iter().take(count).find_map(|at| tools[*at].call_with) {
        let _ = writeln!(out, "Call those marked [writes] with `{name}`.");
    }
    let others = &order[count..];
    if others.is_empty() {
        out.push_str("There are no other subtools.");
    } else {
        names(tools, others, &mut out);
    }
    out
}

/// The best tool, with its schema or, where that is long, its signature.
fn first(shown: ShownTool<'_>, options: IntrospectOptions<'_>, out: &mut String) {
    let summary_max_chars = options.summary_max_chars;
    let ShownTool { tool, signature, .. } = shown;
    let schema = tool.input_schema.as_deref().filter(|_| signature.is_some());
    let schema = schema.map(|schema| prune::for_model(schema.into()));
    match schema {
        Some(schema) if schema.len() <= MAX_SCHEMA && !schema.contains('\n') => {
            compact::line(shown, None, summary_max_chars, out);
            let _ = write!(out, "\nargs: {schema}");
        }
        Some(_) => {
            compact::line(shown, fitting(shown, MAX_FIRST), summary_max_chars, out);
            let request = Marks::request(options.marks, &quoted(&tool.name));
            let _ = write!(out, "\n{request} shows its whole schema.");
        }
        None => compact::line(shown, None, summary_max_chars, out),
    }
}

/// As much detail as fits.
fn fitting(shown: ShownTool<'_>, max_bytes: usize) -> Option<Detail> {
    shown.signature.and_then(|signature| compact::fitting(signature, max_bytes))
}

/// The names of the others; of an absurd number of them the first ones, and how many more there are.
fn names(tools: &[ShownTool<'_>], others: &[usize], out: &mut String) {
    out.push_str("Other subtools: ");
    let start = out.len();
    for (place, at) in others.iter().enumerate() {
        let name = written_name(&tools[*at].tool.name);
        if out.len() - start + name.len() > MAX_NAMES {
            let more = others.len() - place;
            let _ = write!(out, " … and {more} more; {{\"action\":\"introspect\"}} names all");
            return;
        }
        if place > 0 {
            out.push_str(", ");
        }
        out.push_str(&name);
    }
}
