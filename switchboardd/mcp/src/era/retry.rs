//! A modern request that is retried with answers: its additional members, and the fingerprint of the first
//! try.

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use switchboard_wire::envelope::{quoted, range_of, string};
use switchboard_wire::members::{Members, insert_members, remove_members};
use switchboard_wire::raw::Raw;

use crate::era::InvalidRequest;

/// The members that a retry has in addition to the first try.
#[derive(Debug)]
pub struct Retry<'a> {
    pub responses: Members<'a>,
    pub state: Option<String>,
}

impl<'a> Retry<'a> {
    /// `None` if the request is no retry.
    pub fn of(params: Option<Raw<'a>>) -> Result<Option<Self>, InvalidRequest> {
        let Some(params) = params.filter(|params| {
            params.get().contains("inputResponses") || params.get().contains("requestState")
        }) else {
            return Ok(None);
        };
        let members = Members::of(params).unwrap_or_default();
        let (responses, state) = (members.get("inputResponses"), members.get("requestState"));
        if responses.is_none() && state.is_none() {
            return Ok(None);
        }
        let responses = match responses {
            None => Members::default(),
            Some(given) => Members::of(given)
                .ok_or_else(|| InvalidRequest::Params("`inputResponses` must be an object".to_owned()))?,
        };
        let state = match state {
            None => None,
            Some(state) => Some(
                string(state)
                    .ok_or_else(|| InvalidRequest::Params("`requestState` must be a string".to_owned()))?
                    .into_owned(),
            ),
        };
        Ok(Some(Self { responses, state }))
    }
}

/// `params` with another `requestState`, or without one.
pub fn with_state(params: Raw<'_>, state: Option<&str>) -> String {
    match (Members::of(params).and_then(|params| params.get("requestState")), state) {
        (None, _) => params.get().to_owned(),
        (Some(_), None) => remove_members(params, |key| key == "requestState"),
        (Some(old), Some(state)) => {
            let place = range_of(params.get().as_bytes(), old.get());
            format!("{}{}{}", &params.get()[..place.start], quoted(state), &params.get()[place.end..])
        }
    }
}

/// The `params` of the first try with the members of a retry.
pub fn with_answers(params: &str, responses: &[(String, String)], state: Option<Raw<'_>>) -> String {
    let mut more = Vec::new();
    if !responses.is_empty() {
        let all: Vec<String> =
            responses.iter().map(|(key, value)| format!("{}:{value}", quoted(key))).collect();
        more.push(format!(r#""inputResponses":{{{}}}"#, all.join(",")));
    }
    if let Some(state) = state {
        more.push(format!(r#""requestState":{}"#, state.get()));
    }
    insert_members(if params.is_empty() { "{}" } else { params }, &more.join(","))
}

/// A fingerprint of the request, equal for a request and its retry: without the members that may differ, and
/// independent of the order of keys.
pub fn fingerprint(params: Option<Raw<'_>>) -> String {
    let asked = params.map_or_else(
        || "{}".to_owned(),
        |params| remove_members(params, |key| matches!(key, "_meta" | "inputResponses" | "requestState")),
    );
    let mut plain = String::with_capacity(asked.len());
    if let Some(asked) = Raw::parse(asked.as_bytes()) {
        push_plain(asked, 0, &mut plain);
    }
    switchboard_wire::hex::hex(&Sha256::digest(plain.as_bytes()))
}

/// From this depth on, a value is used as it is written.
const MAX_COMPARE_DEPTH: usize = 32;

/// Writes a value with sorted keys and without whitespace; numbers and strings as they are written.
fn push_plain(value: Raw<'_>, depth: usize, out: &mut String) {
    let text = value.get();
    if let Some(mut members) = Members::of(value).filter(|_| depth < MAX_COMPARE_DEPTH) {
        members.0.sort_by(|(one, _), (other, _)| one.cmp(other));
        out.push('{');
        for (key, value) in members.0 {
            out.push_str(&quoted(&key));
            out.push(':');
            push_plain(value, depth + 1, out);
            out.push(',');
        }
        out.push('}');
        return;
    }
    let items: Option<Vec<&RawValue>> = Some(text)
        .filter(|text| text.starts_with('[') && depth < MAX_COMPARE_DEPTH)
        .and_then(|text| serde_json::from_str(text).ok());
    match items {
        Some(items) => {
            out.push('[');
            for item in items {
                push_plain(item.into(), depth + 1, out);
                out.push(',');
            }
            out.push(']');
        }
        None => out.push_str(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw<'_> {
        Raw::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_retry_is_recognised_by_its_members() {
        assert!(Retry::of(Some(raw(r#"{"arguments":{"inputResponses":1}}"#))).unwrap().is_none());
        let retry =
            Retry::of(Some(raw(r#"{"inputResponses":{"a":{}},"requestState":"s\n"}"#))).unwrap().unwrap();
        assert_eq!((retry.responses.0.len(), retry.state.as_deref()), (1, Some("s\n")));
        assert!(Retry::of(Some(raw(r#"{"inputResponses":7}"#))).is_err());
        assert!(Retry::of(Some(raw(r#"{"requestState":7}"#))).is_err());
    }

    #[test]
    fn the_childs_state_replaces_ours() {
        let params = raw(r#"{"n": 1.0,"requestState":"ours","z":2}"#);
        assert_eq!(with_state(params, Some("th\"eirs")), r#"{"n": 1.0,"requestState":"th\"eirs","z":2}"#);
        assert_eq!(with_state(params, None), r#"{"n": 1.0,"z":2}"#);
    }

    #[test]
    fn answers_are_appended_to_the_params() {
        let answers = [("a".to_owned(), r#"{"action":"accept"}"#.to_owned())];
        assert_eq!(
            with_answers(r#"{"n":1.0}"#, &answers, Some(raw(r#""s""#))),
            r#"{"n":1.0,"inputResponses":{"a":{"action":"accept"}},"requestState":"s"}"#
        );
    }

    #[test]
    fn a_retry_has_the_fingerprint_of_its_first_try() {
        let first =
            fingerprint(Some(raw(r#"{"name":"t","arguments":{"a":1,"b":2},"_meta":{"progressToken":1}}"#)));
        let retry = r#"{"arguments":{"b":2,"a":1},"name":"t","inputResponses":{},"requestState":"x"}"#;
        assert_eq!(fingerprint(Some(raw(retry))), first);
        assert_ne!(fingerprint(Some(raw(r#"{"name":"t","arguments":{"a":1,"b":3}}"#))), first);
        let deep = |inner: &str| {
            let nested = format!("{}{inner}{}", "[".repeat(140), "]".repeat(140));
            fingerprint(Some(raw(&format!(r#"{{"arguments":{nested}}}"#))))
        };
        assert_ne!(deep("1"), deep("2"));
        let number = |number: &str| fingerprint(Some(raw(&format!(r#"{{"n":[{number}]}}"#))));
        assert_ne!(number("123456789012345678901234567890"), number("123456789012345678901234567891"));
    }
}
