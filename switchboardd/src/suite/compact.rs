//! A list of tools, one line each, made to fit a number of bytes. What does not fit is left out from the inside: inner
//! objects, optional arguments, summaries. Names always stay.

use super::introspect_options::IntrospectOptions;
use super::split::Marks;
use super::summary::summary;
use crate::child::Tool;
use crate::signature::{Detail, Omissions, Signature, written_name};

/// A summary that gave way.
const SHORT_SUMMARY: usize = 60;

/// How long the names of required arguments may be, in bytes.
const MAX_NAMES: usize = 4000;

/// A tool as it is shown in one line.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShownTool<'t> {
    pub(super) tool: &'t Tool,
    /// `None` if schemas are hidden.
    pub(super) signature: Option<&'t Signature>,
    /// The tool of the host's list that calls it, if not the suite's own.
    pub(super) call_with: Option<&'t str>,
}

/// Marks a subtool that the suite's tool for what writes calls.
const WRITES: &str = " [writes]";

/// One way to show all tools.
struct LineStyle {
    detail: Option<Detail>,
    summary: usize,
    /// What it leaves out of summaries.
    left_out: &'static str,
}

/// The text, within `max_bytes` if the names alone allow that.
pub(super) fn text(tools: &[ShownTool<'_>], options: IntrospectOptions<'_>) -> String {
    let IntrospectOptions { summary_max_chars, max_bytes, marks, .. } = options;
    let short = SHORT_SUMMARY.min(summary_max_chars);
    let omissions =
        tools.iter().filter_map(|shown| shown.signature).map(Signature::omissions).reduce(Omissions::and);
    let style = |detail, summary, left_out| LineStyle { detail, summary, left_out };
    let (whole, flat, required) = (Some(Detail::Whole), Some(Detail::Flat), Some(Detail::Required));
    let styles = if omissions.is_some() {
        vec![
            style(whole, summary_max_chars, ""),
            style(flat, summary_max_chars, ""),
            style(required, summary_max_chars, ""),
            style(required, short, "parts of summaries"),
            style(required, 0, "summaries"),
            style(Some(Detail::Names), 0, "summaries"),
            style(None, 0, "summaries"),
        ]
    } else {
        vec![
            style(None, summary_max_chars, ""),
            style(None, short, "parts of summaries"),
            style(None, 0, "summaries"),
        ]
    };
    let mut text = String::new();
    for style in &styles {
        text = head(style, omissions, marks);
        if let Some(name) = tools.iter().find_map(|shown| shown.call_with) {
            text.push_str(&format!(" Call those marked{WRITES} with `{name}`."));
        }
        for tool in tools {
            text.push('\n');
            line(*tool, style.detail, style.summary, &mut text);
        }
        if text.len() <= max_bytes {
            break;
        }
    }
    text
}

/// Says what is left out: `None` if schemas are hidden.
fn head(style: &LineStyle, omissions: Option<Omissions>, marks: Option<&Marks>) -> String {
    let mut left_out = match omissions {
        Some(omissions) => arguments_left_out(style.detail, omissions),
        None => vec!["schemas, by the user's wish"],
    };
    left_out.extend(Some(style.left_out).filter(|summaries| !summaries.is_empty()));
    let mut text = format!("Left out: {}.", left_out.join(", "));
    if omissions.is_some() {
        let request = Marks::request(marks, "NAME");
        text.push_str(&format!(
            " {request} shows a whole definition; with \"query\" instead, the subtools for a task."
        ));
    }
    text
}

fn arguments_left_out(detail: Option<Detail>, omissions: Omissions) -> Vec<&'static str> {
    let Some(detail) = detail else { return vec!["all arguments"] };
    let mut all = vec!["descriptions of arguments"];
    if detail == Detail::Names {
        all.extend(["types", "optional arguments"]);
    } else {
        let objects = if detail == Detail::Whole { "parts of objects" } else { "what is in objects" };
        let is_flat = detail > Detail::Whole;
        all.extend((omissions.objects || is_flat).then_some(objects));
        all.extend((detail >= Detail::Required).then_some("optional arguments"));
        all.extend(omissions.values.then_some("parts of enums"));
        all.extend(omissions.defaults.then_some("some defaults"));
        all.extend(omissions.limits.then_some("limits and formats"));
    }
    all.extend(omissions.rules.then_some("rules about several arguments (…)"));
    all
}

/// As much detail as fits; the names of required arguments always, unless there are absurdly many.
pub(super) fn fitting(signature: &Signature, max_bytes: usize) -> Option<Detail> {
    let details = [Detail::Whole, Detail::Flat, Detail::Required, Detail::Names];
    let length = |detail: Detail| signature.to_text(detail).len();
    let fits = details.into_iter().find(|detail| length(*detail) <= max_bytes);
    fits.or_else(|| (length(Detail::Names) <= MAX_NAMES).then_some(Detail::Names))
}

/// `name(arguments) - summary`.
pub(super) fn line(
    ShownTool { tool, signature, call_with }: ShownTool<'_>,
    detail: Option<Detail>,
    summary_chars: usize,
    out: &mut String,
) {
    match (signature, detail) {
        (Some(signature), Some(detail)) => signature.write(detail, out),
        _ => out.push_str(&written_name(&tool.name)),
    }
    if call_with.is_some() {
        out.push_str(WRITES);
    }
    let says = tool.description.as_deref().filter(|_| summary_chars > 0).unwrap_or_default();
    let says = summary(says, summary_chars);
    if !says.is_empty() {
        out.push_str(" - ");
        out.push_str(&says);
    }
}
