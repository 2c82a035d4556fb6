//! From the suite's `tools/call` to the child's: another name and arguments, everything else as the
//! host wrote it.

use switchboard_wire::envelope::{quoted, range_of, splice_into, string};
use switchboard_wire::framing::push_single_line;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;

use crate::child::ChildId;
use crate::methods;

/// The host's progress token, if it asked for progress.
pub fn progress_token<'a>(params: &Members<'a>) -> Option<Raw<'a>> {
    let meta = params.get("_meta").and_then(Members::of)?;
    let token = meta.get("progressToken")?;
    (string(token).is_some() || token.get().parse::<f64>().is_ok()).then_some(token)
}

/// The news that a call still waits for its child, as progress on the host's own token. The value stays far
/// below any that the child itself will send, because progress may only grow.
pub(super) fn waiting(token: &str, starts: bool, child: &str, seconds: u64) -> Vec<u8> {
    let doing = if starts { "starting" } else { "waiting for a free process of" };
    let message = quoted(&format!("{doing} `{child}`: {seconds} s"));
    let progress = seconds as f64 / 1e6;
    let params = format!(r#"{{"progressToken":{token},"progress":{progress},"message":{message}}}"#);
    rpc::notification(methods::PROGRESS, Some(&params))
}

/// The child's `params`: its own tool's name, the inner arguments, our progress token.
pub(super) fn call_params(
    params: &Members<'_>,
    subtool: &str,
    args: Option<Raw<'_>>,
    id: ChildId,
    out: &mut Vec<u8>,
) {
    let name = quoted(subtool);
    out.extend_from_slice(br#"{"name":"#);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(br#","arguments":"#);
    push_single_line(args.map_or("{}", Raw::get).as_bytes(), out);
    for (key, value) in &params.0 {
        if matches!(&**key, "name" | "arguments") {
            continue;
        }
        let key_text = quoted(key);
        out.push(b',');
        out.extend_from_slice(key_text.as_bytes());
        out.push(b':');
        if &**key == "_meta" {
            push_meta(*value, id, out);
        } else {
            push_single_line(value.get().as_bytes(), out);
        }
    }
    out.push(b'}');
}

/// `_meta` with the host's progress token replaced by ours, which is the call's id.
fn push_meta(meta: Raw<'_>, id: ChildId, out: &mut Vec<u8>) {
    let token = Members::of(meta).and_then(|members| members.get("progressToken"));
    let whole = meta.get().as_bytes();
    match token {
        None => push_single_line(whole, out),
        Some(token) => {
            splice_into(whole, range_of(whole, token.get()), id.0.to_string().as_bytes(), out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(params: &str, args: Option<&str>, expect: &str) {
        let raw = Raw::parse(params.as_bytes()).unwrap();
        let args = args.map(|args| Raw::parse(args.as_bytes()).unwrap());
        let mut out = Vec::new();
        call_params(&Members::of(raw).unwrap(), "find", args, ChildId(7), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expect);
    }

    #[test]
    fn arguments_pass_with_their_bytes() {
        check(
            r#"{"name":"x_suite","arguments":{"action":"call"}}"#,
            Some("{\"z\": 1.0,\n\"a\":123456789012345678901234567890}"),
            r#"{"name":"find","arguments":{"z": 1.0,"a":123456789012345678901234567890}}"#,
        );
        check("{}", None, r#"{"name":"find","arguments":{}}"#);
    }

    #[test]
    fn the_token_is_ours_and_the_rest_the_hosts() {
        check(
            r#"{"_meta":{"x/y":1.0,"progressToken":"abc","traceparent":"00"},"task":{"ttl":5},"name":"s"}"#,
            None,
            r#"{"name":"find","arguments":{},"_meta":{"x/y":1.0,"progressToken":7,"traceparent":"00"},"task":{"ttl":5}}"#,
        );
    }
}
