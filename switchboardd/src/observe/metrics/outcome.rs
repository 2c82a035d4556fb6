//! Classifies responses for the `error_type` label. The values come from a fixed list, whatever a child
//! sends.

use std::sync::LazyLock;

use memchr::memmem;
use switchboard_wire::envelope::Outcome;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

/// A result that says `isError`.
pub const TOOL_ERROR: &str = "tool_error";
/// The host cancelled the request.
pub const CANCELLED: &str = "cancelled";
const OTHER: &str = "_other";

/// Classifies a response; `None` for success.
pub fn of(outcome: Outcome<'_>) -> Option<&'static str> {
    match outcome {
        Outcome::Error(error) => Some(of_error(error)),
        Outcome::Result(result) => of_result(result),
    }
}

/// Classifies a result that the daemon wrote itself.
pub fn of_text(result: &str) -> Option<&'static str> {
    IS_ERROR_KEY.find(result.as_bytes())?;
    of_result(Raw::parse(result.as_bytes())?)
}

/// Finds only a key: inside a JSON string the quotes would be escaped.
static IS_ERROR_KEY: LazyLock<memmem::Finder<'static>> =
    LazyLock::new(|| memmem::Finder::new(b"\"isError\""));

fn of_result(result: Raw<'_>) -> Option<&'static str> {
    // Most results do not contain it, or say `false`; they need not be searched for their members.
    let text = result.get();
    let says_true = |at: usize| {
        let value = text[at + IS_ERROR_KEY.needle().len()..].trim_ascii_start().strip_prefix(':');
        value.is_some_and(|value| value.trim_ascii_start().starts_with("true"))
    };
    IS_ERROR_KEY.find_iter(text.as_bytes()).find(|at| says_true(*at))?;
    let is_error = Members::of(result)?.get("isError")?;
    (is_error.get() == "true").then_some(TOOL_ERROR)
}

/// The error's code, if it is a known one.
pub fn of_error(error: Raw<'_>) -> &'static str {
    let code = Members::of(error).and_then(|error| error.get("code")?.get().parse::<i64>().ok());
    match code {
        Some(-32700) => "-32700",
        Some(-32600) => "-32600",
        Some(-32601) => "-32601",
        Some(-32602) => "-32602",
        Some(-32603) => "-32603",
        Some(-32000) => "-32000",
        Some(-32001) => "-32001",
        Some(-32002) => "-32002",
        Some(-32020) => "-32020",
        Some(-32021) => "-32021",
        Some(-32022) => "-32022",
        Some(-32042) => "-32042",
        _ => OTHER,
    }
}

#[cfg(test)]
mod tests {
    use switchboard_wire::envelope::Message;

    use super::*;

    #[test]
    fn a_response_is_classified_by_its_outcome() {
        for (outcome, wanted) in [
            (r#""result":{"content":[]}"#, None),
            (r#""result":{"isError":false}"#, None),
            (r#""result":{"a":{"isError":true},"isError" : false}"#, None),
            (r#""result":{"a":{"isError":false},"isError" : true }"#, Some(TOOL_ERROR)),
            (r#""result":{"isError":true,"content":[]}"#, Some(TOOL_ERROR)),
            (r#""result":{ "content":[{"isError":true}] }"#, None),
            (r#""result":{"content":[{"type":"text","text":"\"error\": \"isError\":true"}]}"#, None),
            (r#""error":{"code":-32602,"message":""}"#, Some("-32602")),
            (r#""error":{"code":4711,"message":""}"#, Some("_other")),
            (r#""error":{"code":"x"}"#, Some("_other")),
            (r#""error":null"#, Some("_other")),
        ] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,{outcome}}}"#);
            let Ok(Message::Response { outcome, .. }) = Message::parse(body.as_bytes()) else {
                panic!("{body}")
            };
            assert_eq!(of(outcome), wanted, "{body}");
        }
        assert_eq!(of_text(r#"{"content":[],"isError":true}"#), Some(TOOL_ERROR));
        assert_eq!(of_text(r#"{"tools":[]}"#), None);
    }
}
