//! Arguments that a model put in the wrong place or form, where there is only one way to read them.

use switchboard_wire::envelope::{quoted, string};
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

/// The arguments that a suite itself takes.
const OWN: [&str; 4] = ["action", "subtool", "args", "query"];

const NOT_AN_OBJECT: &str = "`args` must be an object with the arguments of the subtool";

/// Whether `query` stands where an argument of the subtool could: a call has no query of its own.
pub(super) fn has_query(given: &Members<'_>) -> bool {
    given.get("query").is_some_and(|query| !query.is_null())
}

/// The arguments of a call whose `args` is not an object: those in a JSON string, or, without `args`, those that stand
/// beside `subtool`. `None` if there are none. Beside `args`, such arguments are not read. `takes_query`: whether
/// `query` is one of the subtool's.
pub(super) fn arguments(
    given: &Members<'_>,
    args: Option<Raw<'_>>,
    takes_query: bool,
) -> Result<Option<String>, &'static str> {
    let Some(args) = args else {
        let flat: Vec<String> = given
            .0
            .iter()
            .filter(|(name, _)| !OWN.contains(&&**name) || (takes_query && &**name == "query"))
            .map(|(name, value)| format!("{}:{}", quoted(name), value.get()))
            .collect();
        return Ok((!flat.is_empty()).then(|| format!("{{{}}}", flat.join(","))));
    };
    let text = string(args).ok_or(NOT_AN_OBJECT)?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    let inner = Raw::parse(text.as_bytes()).filter(|inner| inner.get().starts_with('{'));
    inner.map(|inner| Some(inner.get().to_owned())).ok_or(NOT_AN_OBJECT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(given: &str, expect: Result<Option<&str>, &'static str>) {
        check_query(given, false, expect);
    }

    #[track_caller]
    fn check_query(given: &str, takes_query: bool, expect: Result<Option<&str>, &'static str>) {
        let given = Members::of(Raw::parse(given.as_bytes()).unwrap()).unwrap();
        let args = given.get("args").filter(|args| args.get() != "null");
        assert_eq!(arguments(&given, args, takes_query), expect.map(|args| args.map(str::to_owned)));
    }

    #[test]
    fn a_string_is_read_as_the_object_that_it_is() {
        check(r#"{"args":"{\"a\":1.0,\"b\":\"\\u00e9\"}"}"#, Ok(Some(r#"{"a":1.0,"b":"\u00e9"}"#)));
        check(r#"{"args":" "}"#, Ok(None));
        for wrong in
            [r#"{"args":"[1]"}"#, r#"{"args":"need"}"#, r#"{"args":[1]}"#, r#"{"args":7}"#, r#"{"args":"{"}"#]
        {
            check(wrong, Err(NOT_AN_OBJECT));
        }
    }

    #[test]
    fn arguments_beside_the_subtool_are_taken_byte_for_byte() {
        check(
            r#"{"action":"call","subtool":"x","z":1.50,"a\n":{ "b" : 2 }}"#,
            Ok(Some(r#"{"z":1.50,"a\n":{ "b" : 2 }}"#)),
        );
        check(r#"{"action":"call","subtool":"x","args":null,"q":1}"#, Ok(Some(r#"{"q":1}"#)));
        check(r#"{"action":"call","subtool":"x","query":"y"}"#, Ok(None));
    }

    #[test]
    fn a_query_is_an_argument_of_a_subtool_that_takes_one() {
        check_query(r#"{"subtool":"x","query":"y","n":1}"#, true, Ok(Some(r#"{"query":"y","n":1}"#)));
        check_query(r#"{"subtool":"x","query":"y","args":{}}"#, true, Err(NOT_AN_OBJECT));
    }
}
