//! Adds and removes members of a JSON file by editing its text: every other byte stays.
//!
//! Not with the syntax tree of `jsonc_parser::cst`: it appends to an object on one line by breaking that object
//! into lines, and removing the member again leaves it broken, where `undo` has to bring back every byte.

use std::ops::Range;

use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;

use super::super::tree::{Tree, quoted};
use super::super::{HostFileError, KEY};
use super::{member, object, root};

/// Adds `name` to the object at `path`, creating missing objects. Also returns how many keys of the path
/// existed before.
pub(in super::super) fn insert(
    text: &str,
    path: &[&str],
    name: &str,
    value: &Tree,
) -> Result<(String, usize), HostFileError> {
    let nest = |keys: &[&str]| {
        let inner = Tree::Object(vec![(name.to_owned(), value.clone())]);
        keys.iter().rev().fold(inner, |inner, key| Tree::Object(vec![((*key).to_owned(), inner)]))
    };
    let Some(whole) = root(text)? else {
        let style = Style::of(text, None);
        let body = style.render(&nest(path), "");
        // A file with only comments keeps them.
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { style.newline };
        return Ok((format!("{text}{gap}{body}{}", style.newline), 0));
    };
    let style = Style::of(text, Some(&whole));
    let (mut here, mut depth) = (&whole, 0);
    while let Some(key) = path.get(depth) {
        let Some(found) = member(text, here, key)? else { break };
        here = object(text, found)?;
        depth += 1;
    }
    let (name, value) = match path.get(depth) {
        Some(key) => ((*key).to_owned(), nest(&path[depth + 1..])),
        None => (name.to_owned(), value.clone()),
    };
    Ok((style.append(text, here, depth == 0, &name, &value), depth))
}

/// Gives `name` in the object at `path` this value, whether it is there or not.
pub(in super::super) fn set(
    text: &str,
    path: &[&str],
    name: &str,
    value: &Tree,
) -> Result<String, HostFileError> {
    let Some(at) = range(text, path, name)? else { return Ok(insert(text, path, name, value)?.0) };
    let made = Style::of(text, root(text)?.as_ref()).render_inline(value);
    Ok(format!("{}{made}{}", &text[..at.start], &text[at.end..]))
}

/// Removes `name` from the object at `path`, and the objects that this leaves empty, unless they existed
/// before. `None` if there is no such member.
pub(in super::super) fn remove(
    text: &str,
    path: &[&str],
    name: &str,
    there_before: usize,
) -> Result<Option<String>, HostFileError> {
    let Some(whole) = root(text)? else { return Ok(None) };
    let mut chain = vec![&whole];
    for key in path {
        let Some(found) = member(text, chain[chain.len() - 1], key)? else { return Ok(None) };
        chain.push(object(text, found)?);
    }
    let mut target = name;
    if member(text, chain[chain.len() - 1], name)?.is_none() {
        return Ok(None);
    }
    while chain.len() > there_before + 1 && chain.len() > 1 && chain[chain.len() - 1].properties.len() == 1 {
        chain.pop();
        target = path[chain.len() - 1];
    }
    let holder = chain[chain.len() - 1];
    let at = holder.properties.iter().position(|property| property.name.as_str() == target);
    Ok(at.map(|at| cut(text, holder, at)))
}

/// The text of the value of `name` at `path`.
pub(in super::super) fn raw<'t>(
    text: &'t str,
    path: &[&str],
    name: &str,
) -> Result<Option<&'t str>, HostFileError> {
    Ok(range(text, path, name)?.map(|range| &text[range]))
}

/// Where the value of `name` at `path` stands.
fn range(text: &str, path: &[&str], name: &str) -> Result<Option<Range<usize>>, HostFileError> {
    let Some(whole) = root(text)? else { return Ok(None) };
    let mut here = &whole;
    for key in path {
        let Some(found) = member(text, here, key)? else { return Ok(None) };
        here = object(text, found)?;
    }
    Ok(member(text, here, name)?.map(|found| {
        let range = found.value.range();
        range.start..range.end
    }))
}

/// Changes the shim that our entry starts, and nothing else.
pub(in super::super) fn set_command(
    text: &str,
    key: &str,
    shim: &str,
) -> Result<Option<String>, HostFileError> {
    let Some(whole) = root(text)? else { return Ok(None) };
    let Some(servers) = member(text, &whole, key)? else { return Ok(None) };
    let Some(ours) = member(text, object(text, servers)?, KEY)? else { return Ok(None) };
    let entry = object(text, ours)?;
    let nested = entry.properties.iter().find(|property| property.name.as_str() == "transport");
    let entry = nested.and_then(|nested| nested.value.as_object()).unwrap_or(entry);
    let Some(command) = member(text, entry, "command")? else { return Ok(None) };
    let range = match &command.value {
        Value::StringLit(text) => text.range,
        Value::Array(list) => match list.elements.first() {
            Some(first) => first.range(),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some(format!("{}{}{}", &text[..range.start], quoted(shim), &text[range.end..])))
}

/// The layout of a file.
struct Style {
    newline: &'static str,
    unit: String,
    /// A file on one line stays on one line.
    is_inline: bool,
    is_spaced: bool,
}

impl Style {
    fn of(text: &str, root: Option<&Object<'_>>) -> Self {
        let inner = root.map_or("", |root| &text[root.range.start..root.range.end]);
        let first = root.and_then(|root| root.properties.first());
        let unit = first.and_then(|first| own_line(text, first)).filter(|unit| !unit.is_empty());
        Self {
            newline: if text.contains("\r\n") { "\r\n" } else { "\n" },
            unit: unit.unwrap_or("  ").to_owned(),
            is_inline: first.is_some() && !inner.contains('\n'),
            is_spaced: inner.contains("\": ") || first.is_none(),
        }
    }

    fn append(&self, text: &str, object: &Object<'_>, is_root: bool, name: &str, value: &Tree) -> String {
        let (open, close) = (object.range.start + 1, object.range.end - 1);
        let outer = indent_of(text, object.range.start);
        let is_inline = match object.properties.is_empty() {
            true => self.is_inline && !is_root,
            false => !text[open..close].contains('\n'),
        };
        if is_inline {
            return self.append_inline(text, object, name, value);
        }
        let first = object.properties.first().and_then(|first| own_line(text, first));
        let indent = first.map_or_else(|| format!("{outer}{}", self.unit), ToOwned::to_owned);
        let mut piece = format!("{}{indent}{}: {}", self.newline, quoted(name), self.render(value, &indent));
        let from = object.properties.last().map_or(open, |last| last.range.end);
        let trivia = Trivia::between(text, from, close);
        if object.properties.is_empty() {
            if !text[trivia.end..close].contains('\n') {
                piece.push_str(self.newline);
                piece.push_str(outer);
            }
            return format!("{}{piece}{}", &text[..trivia.end], &text[trivia.end..]);
        }
        match trivia.comma {
            // A trailing comma stays.
            Some(_) => format!("{}{piece},{}", &text[..trivia.end], &text[trivia.end..]),
            None => format!("{},{}{piece}{}", &text[..from], &text[from..trivia.end], &text[trivia.end..]),
        }
    }

    fn append_inline(&self, text: &str, object: &Object<'_>, name: &str, value: &Tree) -> String {
        let gap = if self.is_spaced { " " } else { "" };
        let member = format!("{}:{gap}{}", quoted(name), self.render_inline(value));
        let Some(last) = object.properties.last() else {
            let open = object.range.start + 1;
            return format!("{}{member}{}", &text[..open], &text[open..]);
        };
        let end = last.range.end;
        match Trivia::between(text, end, object.range.end - 1).comma {
            Some(comma) => format!("{}{gap}{member},{}", &text[..=comma], &text[comma + 1..]),
            None => format!("{},{gap}{member}{}", &text[..end], &text[end..]),
        }
    }

    fn render(&self, value: &Tree, indent: &str) -> String {
        let Tree::Object(members) = value else { return self.render_inline(value) };
        let inner = format!("{indent}{}", self.unit);
        let lines: Vec<String> = members
            .iter()
            .map(|(name, value)| format!("{inner}{}: {}", quoted(name), self.render(value, &inner)))
            .collect();
        let newline = self.newline;
        format!("{{{newline}{}{newline}{indent}}}", lines.join(&format!(",{newline}")))
    }

    fn render_inline(&self, value: &Tree) -> String {
        let gap = if self.is_spaced { " " } else { "" };
        match value {
            Tree::Text(text) => quoted(text),
            Tree::Flag(flag) => flag.to_string(),
            Tree::Raw(raw) => raw.clone(),
            Tree::List(items) => {
                let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
                format!("[{}]", items.join(&format!(",{gap}")))
            }
            Tree::Object(members) => {
                let members: Vec<String> = members
                    .iter()
                    .map(|(name, value)| format!("{}:{gap}{}", quoted(name), self.render_inline(value)))
                    .collect();
                format!("{{{}}}", members.join(&format!(",{gap}")))
            }
        }
    }
}

/// Removes one member, its comma and its line.
fn cut(text: &str, object: &Object<'_>, at: usize) -> String {
    let (open, close) = (object.range.start + 1, object.range.end - 1);
    let property = &object.properties[at];
    let before = at.checked_sub(1).map(|at| object.properties[at].range.end);
    let lead = Trivia::between(text, before.unwrap_or(open), property.range.start);
    let next = object.properties.get(at + 1).map_or(close, |next| next.range.start);
    let tail = Trivia::between(text, property.range.end, next);
    let mut end = tail.comma.map_or(property.range.end, |comma| comma + 1);
    // On a single line, the space after its comma goes, too.
    if before.is_none() && !text[lead.end..property.range.start].contains('\n') {
        end += text[end..].len() - text[end..].trim_start_matches(' ').len();
    }
    let is_last = at + 1 == object.properties.len();
    let rest = match lead.comma {
        // The comma before it separated it from the previous member.
        Some(comma) if is_last && tail.comma.is_none() => {
            format!("{}{}{}", &text[..comma], &text[comma + 1..lead.end], &text[end..])
        }
        _ => format!("{}{}", &text[..lead.end], &text[end..]),
    };
    let removed = text.len() - rest.len();
    let inner = &rest[open..close - removed];
    if object.properties.len() == 1 && inner.trim().is_empty() {
        return format!("{}{}", &rest[..open], &rest[close - removed..]);
    }
    rest
}

/// The text between two values: blanks, comments and perhaps a comma.
struct Trivia {
    comma: Option<usize>,
    /// After the last character that is not blank.
    end: usize,
}

impl Trivia {
    fn between(text: &str, from: usize, to: usize) -> Self {
        let bytes = text.as_bytes();
        let mut trivia = Self { comma: None, end: from };
        let mut at = from;
        while at < to {
            let rest = &text[at..to];
            let length = match bytes[at] {
                b'/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
                b'/' => rest.find("*/").map_or(rest.len(), |end| end + 2),
                b',' => {
                    trivia.comma = Some(at);
                    1
                }
                byte if byte.is_ascii_whitespace() => {
                    at += 1;
                    continue;
                }
                _ => 1,
            };
            // A line comment may end in a carriage return, which is not part of it.
            trivia.end = at + rest[..length].trim_end().len();
            at += length;
        }
        trivia
    }
}

/// The indentation of a member that begins its line.
fn own_line<'t>(text: &'t str, property: &ObjectProp<'_>) -> Option<&'t str> {
    let start = property.range.start;
    let line = text[..start].rfind('\n')? + 1;
    Some(&text[line..start]).filter(|blanks| blanks.trim().is_empty())
}

/// The indentation of the line at this offset.
fn indent_of(text: &str, at: usize) -> &str {
    let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let length = text[line..].len() - text[line..].trim_start_matches([' ', '\t']).len();
    &text[line..line + length.min(at - line)]
}

#[cfg(test)]
mod tests;
