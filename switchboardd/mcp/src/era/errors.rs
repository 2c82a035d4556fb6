//! Maps errors of legacy children that the modern era does not have. All others pass unchanged.

use switchboard_wire::envelope::{INVALID_PARAMS, quoted, range_of};
use switchboard_wire::members::{Members, remove_members};
use switchboard_wire::raw::Raw;

use crate::error_codes::{RESOURCE_NOT_FOUND, URL_ELICITATION_REQUIRED};

#[derive(Debug, PartialEq, Eq)]
pub enum MappedError {
    AsItIs,
    /// The new error object.
    Error(String),
    /// A question in the modern era: the whole result.
    NeedsInput(String),
}

pub fn for_modern(error: Raw<'_>) -> MappedError {
    let Some(members) = Members::of(error) else { return MappedError::AsItIs };
    let Some(code) = members.get("code") else { return MappedError::AsItIs };
    match code.get().parse() {
        Ok(RESOURCE_NOT_FOUND) => {
            let place = range_of(error.get().as_bytes(), code.get());
            let (before, after) = (&error.get()[..place.start], &error.get()[place.end..]);
            MappedError::Error(format!("{before}{INVALID_PARAMS}{after}"))
        }
        Ok(URL_ELICITATION_REQUIRED) => asks(&members).map_or(MappedError::AsItIs, MappedError::NeedsInput),
        _ => MappedError::AsItIs,
    }
}

/// The `input_required` result for `data.elicitations`; each of them is a URL to open.
fn asks(error: &Members<'_>) -> Option<String> {
    let data = error.get("data").and_then(Members::of)?;
    let list: Vec<&serde_json::value::RawValue> =
        serde_json::from_str(data.get("elicitations")?.get()).ok()?;
    let mut requests = Vec::new();
    for (at, one) in list.iter().enumerate() {
        let key = Members::of(*one)?.text("elicitationId").map_or_else(|| format!("url-{at}"), Into::into);
        let params = remove_members((*one).into(), |key| key == "elicitationId");
        requests.push(format!(r#"{}:{{"method":"elicitation/create","params":{params}}}"#, quoted(&key)));
    }
    (!requests.is_empty())
        .then(|| format!(r#"{{"resultType":"input_required","inputRequests":{{{}}}}}"#, requests.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(error: &str) -> MappedError {
        for_modern(Raw::parse(error.as_bytes()).unwrap())
    }

    #[test]
    fn only_codes_that_the_modern_era_lacks_are_changed() {
        let own = r#"{"code":-32000,"message":"m","data":{"n":1.0}}"#;
        assert_eq!(mapped(own), MappedError::AsItIs);
        let missing = r#"{"code":-32002,"message":"Resource not found","data":{"uri":"x:y"}}"#;
        assert_eq!(mapped(missing), MappedError::Error(missing.replace("-32002", "-32602")));
    }

    #[test]
    fn a_url_elicitation_error_becomes_a_question() {
        let error = r#"{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://x","message":"open"}]}}"#;
        assert_eq!(
            mapped(error),
            MappedError::NeedsInput(
                r#"{"resultType":"input_required","inputRequests":{"e1":{"method":"elicitation/create","params":{"mode":"url","url":"https://x","message":"open"}}}}"#
                    .to_owned()
            )
        );
        assert_eq!(mapped(r#"{"code":-32042,"message":"m"}"#), MappedError::AsItIs);
    }
}
