//! A list of tools, one line each, made to fit a number of bytes. What does not fit is left out from the inside: inner
//! objects, optional arguments, summaries. Names always stay.

use super::summary::summary;
use crate::child::Tool;
use crate::signature::{Detail, Signature, written_name};

/// A summary that gave way.
const SHORT_SUMMARY: usize = 60;

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
    /// What it leaves out, beside the descriptions of arguments.
    left_out: &'static str,
}

/// The text, within `max_bytes` if the names alone allow that.
pub(super) fn text(tools: &[ShownTool<'_>], summary_max_chars: usize, max_bytes: usize) -> String {
    let short = SHORT_SUMMARY.min(summary_max_chars);
    let has_schemas = tools.iter().any(|shown| shown.signature.is_some());
    let style = |detail, summary, left_out| LineStyle { detail, summary, left_out };
    let (whole, flat, required) = (Some(Detail::Whole), Some(Detail::Flat), Some(Detail::Required));
    let styles = if has_schemas {
        vec![
            style(whole, summary_max_chars, ""),
            style(flat, summary_max_chars, ", what is in objects"),
            style(required, summary_max_chars, ", what is in objects, optional arguments"),
            style(required, short, ", what is in objects, optional arguments, parts of summaries"),
            style(required, 0, ", what is in objects, optional arguments, summaries"),
            style(Some(Detail::Names), 0, ", types, optional arguments, summaries"),
            style(None, 0, ", all arguments, summaries"),
        ]
    } else {
        vec![
            style(None, summary_max_chars, ""),
            style(None, short, " and parts of summaries"),
            style(None, 0, " and summaries"),
        ]
    };
    let mut text = String::new();
    for style in &styles {
        text = head(style, has_schemas);
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

fn head(style: &LineStyle, has_schemas: bool) -> String {
    if has_schemas {
        format!(
            "Left out: descriptions of arguments{}. {{\"action\":\"introspect\",\"subtool\":NAME}} shows a whole definition; with \"query\" instead, the subtools for a task.",
            style.left_out
        )
    } else {
        format!("Left out: schemas, by the user's wish{}.", style.left_out)
    }
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
