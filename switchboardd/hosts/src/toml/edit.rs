//! Adds and removes tables of a TOML file by editing its text: every other byte stays. The result is parsed
//! and compared before it is used.

use toml_edit::{Document, Item, Table};

use super::super::tree::{Tree, quoted};
use super::super::{HostFileError, KEY};
use super::{SERVERS, parse, to_value};

/// Appends `[mcp_servers.NAME]`.
pub(in super::super) fn insert(text: &str, name: &str, value: &Tree) -> Result<String, HostFileError> {
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let body = match value {
        Tree::Raw(raw) => raw.clone(),
        Tree::Object(members) => {
            let lines = members.iter().map(|(name, value)| format!("{newline}{name} = {}", rendered(value)));
            format!("[{SERVERS}.{}]{}", key(name), lines.collect::<String>())
        }
        _ => return Err(HostFileError::new("no table")),
    };
    let after = if text.trim().is_empty() {
        format!("{text}{body}{newline}")
    } else if text.ends_with('\n') {
        format!("{text}{newline}{body}{newline}")
    } else {
        format!("{text}{newline}{newline}{body}")
    };
    verify(text, &after, name)?;
    Ok(after)
}

/// Removes a server's tables and also returns their text; `None` if there are none.
pub(in super::super) fn remove(text: &str, name: &str) -> Result<Option<(String, String)>, HostFileError> {
    let document = parse(text)?;
    let Some(server) = document.get(SERVERS).and_then(|servers| servers.get(name)) else { return Ok(None) };
    let by_hand =
        || HostFileError::new(format!("`{SERVERS}.{name}` is not a table of its own; remove it by hand"));
    let mut all = Vec::new();
    headers(document.as_table(), &mut all);
    all.sort_unstable();
    let mut ours = Vec::new();
    headers_of(server, &mut ours);
    if ours.is_empty() {
        return Err(by_hand());
    }
    ours.sort_unstable();
    let (mut rest, mut taken) = (text.to_owned(), Vec::new());
    for start in ours.into_iter().rev() {
        let next = all.iter().copied().find(|other| *other > start).unwrap_or(text.len());
        let end = start + last_line(&text[start..next]);
        taken.push(text[start..end].trim_end().to_owned());
        rest = without(&rest, start, end);
    }
    taken.reverse();
    verify(&rest, text, name)?;
    Ok(Some((rest, taken.join("\n\n"))))
}

/// Changes the shim that our table starts, and nothing else.
pub(in super::super) fn set_command(text: &str, shim: &str) -> Result<Option<String>, HostFileError> {
    let document = parse(text)?;
    let command =
        document.get(SERVERS).and_then(|servers| servers.get(KEY)).and_then(|ours| ours.get("command"));
    let Some(span) = command.and_then(Item::span) else { return Ok(None) };
    let after = format!("{}{}{}", &text[..span.start], quoted(shim), &text[span.end..]);
    verify(&without_ours(text)?, &after, KEY)?;
    Ok(Some(after))
}

fn without_ours(text: &str) -> Result<String, HostFileError> {
    Ok(remove(text, KEY)?.map_or_else(|| text.to_owned(), |(rest, _)| rest))
}

/// Removes these lines, and one of the blank lines before them.
fn without(text: &str, start: usize, end: usize) -> String {
    let (mut before, after) = (&text[..start], &text[end..]);
    let shorter = |text: &'_ str| text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).map(str::len);
    let is_blank =
        shorter(before).is_some_and(|length| before[..length].is_empty() || before[..length].ends_with('\n'));
    if is_blank && (after.is_empty() || after.starts_with(['\n', '\r'])) {
        before = &before[..shorter(before).unwrap_or(0)];
    }
    // A file that does not end in a line break did not before our change, either.
    if after.is_empty() && !text[start..end].ends_with('\n') {
        before = &before[..shorter(before).unwrap_or(before.len())];
    }
    format!("{before}{after}")
}

/// The end of the last line that is neither blank nor a comment: those belong to the next table.
fn last_line(section: &str) -> usize {
    let mut end = 0;
    let mut at = 0;
    for line in section.split_inclusive('\n') {
        at += line.len();
        let bare = line.trim();
        if !bare.is_empty() && !bare.starts_with('#') {
            end = at;
        }
    }
    end
}

/// The offset of each table's header.
fn headers(table: &Table, found: &mut Vec<usize>) {
    if !table.is_implicit()
        && !table.is_dotted()
        && let Some(span) = table.span()
    {
        found.push(span.start);
    }
    for (_, item) in table.iter() {
        headers_of(item, found);
    }
}

fn headers_of(item: &Item, found: &mut Vec<usize>) {
    match item {
        Item::Table(table) => headers(table, found),
        Item::ArrayOfTables(tables) => tables.iter().for_each(|table| headers(table, found)),
        _ => {}
    }
}

/// Checks that `longer` equals `shorter` plus this server.
fn verify(shorter: &str, longer: &str, name: &str) -> Result<(), HostFileError> {
    let by_hand =
        || HostFileError::new(format!("`{SERVERS}` is written in a way that is better changed by hand"));
    let read = |text: &str| Document::parse(text.to_owned()).map(|document| to_value(document.as_item()));
    let (shorter, mut longer) = (read(shorter).map_err(|_| by_hand())?, read(longer).map_err(|_| by_hand())?);
    let had = longer[SERVERS].as_object_mut().and_then(|servers| servers.remove(name));
    let is_same = |one: &serde_json::Value, other: &serde_json::Value| {
        let bare = |value: &serde_json::Value| {
            let mut value = value.clone();
            if value[SERVERS].as_object().is_some_and(serde_json::Map::is_empty) {
                value.as_object_mut().map(|members| members.remove(SERVERS));
            }
            value
        };
        bare(one) == bare(other)
    };
    if had.is_some() && is_same(&shorter, &longer) { Ok(()) } else { Err(by_hand()) }
}

fn rendered(value: &Tree) -> String {
    match value {
        Tree::Text(text) => quoted(text),
        Tree::Flag(flag) => flag.to_string(),
        Tree::List(items) => {
            format!("[{}]", items.iter().map(|item| quoted(item)).collect::<Vec<_>>().join(", "))
        }
        Tree::Raw(raw) => raw.clone(),
        Tree::Object(_) => unreachable!("BUG: no entry has tables of its own"),
    }
}

fn key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !name.is_empty() && name.bytes().all(is_bare) { name.to_owned() } else { quoted(name) }
}

#[cfg(test)]
mod tests;
