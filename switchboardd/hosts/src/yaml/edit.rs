//! Adds and removes items of a YAML list by editing its lines: every other byte stays. The result is parsed,
//! and refused if anything else changed.

use saphyr::{MarkedYaml, YamlData};
use serde_json::Value;

use super::super::tree::{Tree, quoted};
use super::super::{HostFileError, KEY};
use super::{SERVERS, is_null, member, parse, text_of, to_value};

/// The members that Continue requires in a new file.
const HEAD: [&str; 3] = ["name: Local Config", "version: 1.0.0", "schema: v1"];

/// Adds our item to the list. Also returns whether the list existed before.
pub(in super::super) fn insert(text: &str, value: &Tree) -> Result<(String, bool), HostFileError> {
    insert_named(text, KEY, value)
}

/// The list with only this item.
pub(in super::super) fn snippet(value: &Tree) -> String {
    block(value, 2).join("\n")
}

/// Like `insert`, for a server of any name.
pub(in super::super) fn insert_named(
    text: &str,
    name: &str,
    value: &Tree,
) -> Result<(String, bool), HostFileError> {
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let documents = parse(text)?;
    let root = match documents.as_slice() {
        [] => None,
        [one] if is_null(one) => None,
        [one] => Some(one),
        _ => return Err(HostFileError::new("holds more than one document")),
    };
    let joined = |lines: Vec<String>| lines.join(newline);
    let Some(root) = root else {
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { newline };
        let lines = HEAD.iter().map(|line| (*line).to_owned()).chain(block(value, 2));
        return Ok((format!("{text}{gap}{}{newline}", joined(lines.collect())), false));
    };
    let after = match list(root)? {
        None => {
            let lines = joined(block(value, 2));
            if text.ends_with('\n') {
                format!("{text}{lines}{newline}")
            } else {
                format!("{text}{newline}{lines}")
            }
        }
        Some((key, list)) => {
            let start = offset(text, list.span.start.line(), list.span.start.col());
            let items = list.data.as_sequence().map_or(0, Vec::len);
            // Lines of a block list do not fit between brackets.
            if matches!(value, Tree::Raw(raw) if raw.trim_start().starts_with('-'))
                && text[start..].starts_with("[]")
            {
                let end = text[..start].trim_end_matches(' ').len();
                let bare = format!("{}{}", &text[..end], &text[start + 2..]);
                return insert_named(&bare, name, value).map(|(text, _)| (text, true));
            }
            if text[start..].starts_with('[') && !is_null(list) {
                let more = if items > 0 { ", " } else { "" };
                format!("{}{}{more}{}", &text[..=start], flow(value), &text[start + 1..])
            } else {
                let first = list.data.as_sequence().and_then(|items| dash(text, items.first()?));
                let column = first.map_or(key.span.start.col() + 2, |(_, column)| column);
                let mut end = offset(text, key.span.start.line() + 1, 0);
                let lines = item(value, column).into_iter().map(|line| line + newline).collect::<String>();
                let mut before = text[..end].to_owned();
                if !before.ends_with('\n') {
                    before.push_str(newline);
                    end = text.len();
                }
                format!("{before}{lines}{}", &text[end..])
            }
        }
    };
    verify(text, &after, name)?;
    Ok((after, member(root, SERVERS).is_some()))
}

/// Removes an item and also returns its text; removes the list, too, if that leaves it empty and it did not
/// exist before. `None` if there is no such item.
pub(in super::super) fn remove(
    text: &str,
    name: &str,
    was_there: bool,
) -> Result<Option<(String, String)>, HostFileError> {
    let documents = parse(text)?;
    let Some(root) = documents.first() else { return Ok(None) };
    let Some((key, list)) = list(root)? else { return Ok(None) };
    let Some(items) = list.data.as_sequence() else { return Ok(None) };
    let is_it = |item: &&MarkedYaml<'_>| member(item, "name").and_then(text_of) == Some(name);
    let Some(at) = items.iter().position(|item| is_it(&item)) else { return Ok(None) };
    let start = offset(text, list.span.start.line(), list.span.start.col());
    if text[start..].starts_with('[') {
        return remove_flow(text, start, name);
    }
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let dash = |item: &MarkedYaml<'_>| Some(dash(text, item)?.0);
    let by_hand =
        || HostFileError::new(format!("`{name}` is written in a way that is better taken out by hand"));
    let first = dash(&items[at]).ok_or_else(by_hand)?;
    let next = match items.get(at + 1) {
        Some(next) => dash(next).ok_or_else(by_hand)?,
        None => behind(root, key, lines.len()),
    };
    let is_content = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let last = first + lines[first..next].iter().rposition(|line| is_content(line)).ok_or_else(by_hand)?;
    let taken: String = lines[first..=last].concat();
    let mut rest: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    rest.drain(first..=last);
    if items.len() == 1 {
        let line = key.span.start.line() - 1;
        let (head, ending) = split_ending(&rest[line]);
        if was_there {
            let colon = head.find(':').ok_or_else(by_hand)? + 1;
            rest[line] = format!("{} []{}{ending}", &head[..colon], &head[colon..]);
        } else {
            rest.remove(line);
        }
    }
    let mut rest: String = rest.concat();
    // A file that does not end in a line break did not before our change, either.
    if !text.ends_with('\n') && last + 1 == lines.len() {
        rest.truncate(split_ending(&rest).0.len());
    }
    verify(&rest, text, name)?;
    Ok(Some((rest, taken)))
}

/// Changes the shim that our item starts, and nothing else.
pub(in super::super) fn set_command(text: &str, shim: &str) -> Result<Option<String>, HostFileError> {
    let documents = parse(text)?;
    let Some(list) = documents.first().and_then(|root| member(root, SERVERS)) else { return Ok(None) };
    let ours = list.data.as_sequence().into_iter().flatten();
    let mut ours = ours.filter(|item| member(item, "name").and_then(text_of) == Some(KEY));
    let Some(command) = ours.next().and_then(|item| member(item, "command")) else { return Ok(None) };
    let start = offset(text, command.span.start.line(), command.span.start.col());
    let end = offset(text, command.span.end.line(), command.span.end.col());
    let after = format!("{}{}{}", &text[..start], quoted(shim), &text[end..]);
    let same = |text: &str| remove(text, KEY, true).map(|found| found.map(|(rest, _)| rest));
    match same(text)? == same(&after)? {
        true => Ok(Some(after)),
        false => {
            Err(HostFileError::new(format!("`{KEY}` is written in a way that is better changed by hand")))
        }
    }
}

/// The key and its list.
fn list<'n, 't>(
    root: &'n MarkedYaml<'t>,
) -> Result<Option<(&'n MarkedYaml<'t>, &'n MarkedYaml<'t>)>, HostFileError> {
    let YamlData::Mapping(members) = &root.data else { return Err(HostFileError::new("must be a mapping")) };
    let Some((key, list)) = members.iter().find(|(key, _)| text_of(key) == Some(SERVERS)) else {
        return Ok(None);
    };
    match &list.data {
        YamlData::Sequence(_) => Ok(Some((key, list))),
        _ if is_null(list) => Ok(Some((key, list))),
        _ => Err(HostFileError::new(format!("`{SERVERS}` must be a list"))),
    }
}

/// Removes an item from a list in brackets, if it is written as we write it.
fn remove_flow(text: &str, start: usize, name: &str) -> Result<Option<(String, String)>, HostFileError> {
    let begin = format!("{{name: {name}, ");
    let by_hand =
        || HostFileError::new(format!("`{name}` is written in a way that is better taken out by hand"));
    let at = start + text[start..].find(&begin).ok_or_else(by_hand)?;
    let mut end = at + text[at..].find('}').ok_or_else(by_hand)? + 1;
    let taken = text[at..end].to_owned();
    if text[end..].starts_with(", ") {
        end += 2;
    }
    let rest = format!("{}{}", &text[..at], &text[end..]);
    verify(&rest, text, name)?;
    Ok(Some((rest, taken)))
}

/// The line, counted from 0, and the column of an item's dash.
fn dash(text: &str, item: &MarkedYaml<'_>) -> Option<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let line = item.span.start.line().min(lines.len());
    (0..line).rev().find_map(|line| {
        let bare = lines[line].trim_start_matches(' ');
        bare.starts_with('-').then(|| (line, lines[line].len() - bare.len()))
    })
}

/// The line of the next key, or the end.
fn behind(root: &MarkedYaml<'_>, key: &MarkedYaml<'_>, end: usize) -> usize {
    let YamlData::Mapping(members) = &root.data else { return end };
    let lines = members.keys().map(|other| other.span.start.line());
    lines.filter(|line| *line > key.span.start.line()).min().map_or(end, |line| line - 1)
}

/// Checks that `longer` equals `shorter` plus this server.
fn verify(shorter: &str, longer: &str, name: &str) -> Result<(), HostFileError> {
    let by_hand =
        || HostFileError::new(format!("`{SERVERS}` is written in a way that is better changed by hand"));
    let read = |text: &str| -> Result<(Value, Vec<Value>), HostFileError> {
        let documents = parse(text).map_err(|_| by_hand())?;
        let mut value = match documents.as_slice() {
            [] => Value::Null,
            [one] => to_value(one),
            _ => return Err(by_hand()),
        };
        let list = value.as_object_mut().and_then(|members| members.remove(SERVERS)).unwrap_or_default();
        Ok((value, list.as_array().cloned().unwrap_or_default()))
    };
    let ((was, before), (is, mut after)) = (read(shorter)?, read(longer)?);
    let ours = after.iter().position(|item| item["name"] == name).ok_or_else(by_hand)?;
    after.remove(ours);
    if was == is && before == after { Ok(()) } else { Err(by_hand()) }
}

/// The list with one item, as lines.
fn block(value: &Tree, column: usize) -> Vec<String> {
    std::iter::once(format!("{SERVERS}:")).chain(item(value, column)).collect()
}

fn item(value: &Tree, column: usize) -> Vec<String> {
    let indent = " ".repeat(column);
    match value {
        Tree::Object(members) => {
            let line = |(at, (name, value)): (usize, &(String, Tree))| {
                format!("{indent}{} {name}: {}", if at == 0 { "-" } else { " " }, rendered(value))
            };
            members.iter().enumerate().map(line).collect()
        }
        Tree::Raw(raw) => {
            // As it was, with the dash aligned with the others.
            let was = raw.len() - raw.trim_start_matches(' ').len();
            raw.lines().map(|line| format!("{indent}{}", line.get(was..).unwrap_or_default())).collect()
        }
        _ => Vec::new(),
    }
}

fn flow(value: &Tree) -> String {
    let members = match value {
        Tree::Object(members) => members,
        Tree::Raw(raw) => return raw.clone(),
        _ => return String::new(),
    };
    let members: Vec<String> =
        members.iter().map(|(name, value)| format!("{name}: {}", rendered(value))).collect();
    format!("{{{}}}", members.join(", "))
}

fn rendered(value: &Tree) -> String {
    match value {
        Tree::Text(text) if text == KEY => text.clone(),
        Tree::Text(text) => quoted(text),
        Tree::Flag(flag) => flag.to_string(),
        Tree::List(items) => {
            format!("[{}]", items.iter().map(|item| quoted(item)).collect::<Vec<_>>().join(", "))
        }
        Tree::Raw(raw) => raw.clone(),
        Tree::Object(_) => unreachable!("BUG: no entry has members of members"),
    }
}

fn split_ending(line: &str) -> (&str, &str) {
    let bare = line.strip_suffix('\n').map_or(line, |line| line.strip_suffix('\r').unwrap_or(line));
    line.split_at(bare.len())
}

/// The offset of a line (from 1) and a column (from 0).
fn offset(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    text[start..].char_indices().nth(column).map_or(text.len(), |(at, _)| start + at)
}

#[cfg(test)]
mod tests;
