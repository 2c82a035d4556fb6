//! Rewrites resource URIs in results. A URI that several children use is renamed on the aggregate face, so
//! results must contain the new name too.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem;
use serde_json::value::RawValue;
use switchboard_wire::envelope::{Message, Outcome, quoted, range_of, string};
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

use crate::catalog::Catalog;
use crate::suite::SuiteReply;

/// Finds the key of every member that holds a URI.
static URI_KEY: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(b"\"uri\""));

/// Rewrites the renamed URIs in a reply of `child`; every other byte stays.
pub(super) fn rewrite_uris(catalog: &Catalog, child: &str, said: SuiteReply) -> SuiteReply {
    let body = match &said {
        SuiteReply::Child(answer) => &answer.body[..],
        SuiteReply::Own(result) => result.as_bytes(),
        SuiteReply::Refused { .. }
        | SuiteReply::Error(_)
        | SuiteReply::NeedsInput(_)
        | SuiteReply::Confirmed(_) => return said,
    };
    // Fast path: most results contain no URI.
    if URI_KEY.find(body).is_none() {
        return said;
    }
    let merged = catalog.offers();
    if !merged.renames(child) {
        return said;
    }
    let name = |own: &str| merged.shown(child, own);
    match &said {
        SuiteReply::Child(answer) => match Message::parse(&answer.body) {
            Ok(Message::Response { outcome: Outcome::Result(result), .. }) => match rename(result, name) {
                Some(result) => SuiteReply::Child(answer.with_result(&result)),
                None => said,
            },
            _ => said,
        },
        SuiteReply::Own(result) => {
            let other = Raw::parse(result.as_bytes()).and_then(|result| rename(result, name));
            other.map_or(said, SuiteReply::Own)
        }
        SuiteReply::Refused { .. }
        | SuiteReply::Error(_)
        | SuiteReply::NeedsInput(_)
        | SuiteReply::Confirmed(_) => said,
    }
}

/// `None` if nothing is renamed.
fn rename(result: Raw<'_>, name: impl Fn(&str) -> Option<String>) -> Option<String> {
    let whole = result.get();
    let mut changes: Vec<(Range<usize>, String)> = Vec::new();
    for uri in uris(result) {
        if let Some(shown) = string(uri).and_then(|own| name(&own)) {
            changes.push((range_of(whole.as_bytes(), uri.get()), quoted(&shown).to_string()));
        }
    }
    if changes.is_empty() {
        return None;
    }
    changes.sort_by_key(|(place, _)| place.start);
    let (mut out, mut done) = (String::with_capacity(whole.len() + 64 * changes.len()), 0);
    for (place, shown) in changes {
        out.push_str(&whole[done..place.start]);
        out.push_str(&shown);
        done = place.end;
    }
    out.push_str(&whole[done..]);
    Some(out)
}

/// The URIs in the contents of a resource, in the content of a result, and in the messages of a prompt.
fn uris(result: Raw<'_>) -> Vec<Raw<'_>> {
    let Some(members) = Members::of(result) else { return Vec::new() };
    let mut blocks: Vec<Raw<'_>> = Vec::new();
    blocks.extend(members.get("contents").map(items).unwrap_or_default());
    blocks.extend(members.get("content").map(items).unwrap_or_default());
    for message in members.get("messages").map(items).unwrap_or_default() {
        let content = Members::of(message).and_then(|message| message.get("content"));
        blocks.extend(content.map(items).unwrap_or_default());
    }
    blocks.into_iter().filter_map(uri).collect()
}

fn uri(block: Raw<'_>) -> Option<Raw<'_>> {
    let block = Members::of(block)?;
    block.get("uri").or_else(|| Members::of(block.get("resource")?)?.get("uri"))
}

/// The items of an array, or the single value in its place.
fn items(raw: Raw<'_>) -> Vec<Raw<'_>> {
    if !raw.get().starts_with('[') {
        return vec![raw];
    }
    let items: Vec<&RawValue> = serde_json::from_str(raw.get()).unwrap_or_default();
    items.into_iter().map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(result: &str, expect: Option<&str>) {
        let name = |own: &str| own.strip_prefix("a:").map(|rest| format!("s://c/a:{rest}"));
        assert_eq!(rename(Raw::parse(result.as_bytes()).unwrap(), name).as_deref(), expect, "{result}");
    }

    #[test]
    fn uris_are_renamed_everywhere_and_nothing_else_is() {
        check(
            r#"{"z": 1.0,"contents":[{"uri":"a:1","text":"a:1"},{"x":1,"uri":"b:2"},{"uri":"a:1"}]}"#,
            Some(
                r#"{"z": 1.0,"contents":[{"uri":"s://c/a:1","text":"a:1"},{"x":1,"uri":"b:2"},{"uri":"s://c/a:1"}]}"#,
            ),
        );
        check(
            r#"{"content":[{"type":"resource_link","uri":"a:1"},{"type":"resource","resource":{"uri":"a:2"}},{"type":"text","text":"a:1"}]}"#,
            Some(
                r#"{"content":[{"type":"resource_link","uri":"s://c/a:1"},{"type":"resource","resource":{"uri":"s://c/a:2"}},{"type":"text","text":"a:1"}]}"#,
            ),
        );
        check(
            r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"a:1"}}}]}"#,
            Some(
                r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"s://c/a:1"}}}]}"#,
            ),
        );
        check(r#"{"content":[{"uri":"b:1"}],"structuredContent":{"uri":"a:1"}}"#, None);
        check("[]", None);
    }
}
