//! The `params` of requests to children: as the host wrote them, except for ids, progress tokens, and names
//! that differ at the child.

use switchboard_mcp::methods;
use switchboard_wire::envelope::{quoted, range_of, splice_into};
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;
use switchboard_wire::single_line::push_single_line;

use crate::child::ChildId;

/// Progress while a call waits for its child, under the host's token. The value is far below any that the
/// child will send, because progress must not decrease.
pub(super) fn waiting(token: &str, starts: bool, child: &str, seconds: u64) -> Vec<u8> {
    let doing = if starts { "starting" } else { "waiting for a free process of" };
    let message = quoted(&format!("{doing} `{child}`: {seconds} s"));
    let progress = seconds as f64 / 1e6;
    let params = format!(r#"{{"progressToken":{token},"progress":{progress},"message":{message}}}"#);
    rpc::notification(methods::PROGRESS, Some(&params))
}

/// The `params` of a request to a child. They are written once the request's id is known.
#[derive(Debug, Clone, Copy)]
pub enum OutgoingParams<'a> {
    /// Those of a suite's `tools/call`, with the child's own tool and the inner arguments.
    Call { params: &'a Members<'a>, token: Option<Raw<'a>>, subtool: &'a str, args: Option<Raw<'a>> },
    /// The host's params, with the progress token and `swap` replaced.
    Forward { params: Option<Raw<'a>>, token: Option<Raw<'a>>, swap: Option<&'a Swap<'a>> },
}

/// A value within `params` that is replaced when the request is forwarded.
#[derive(Debug)]
pub struct Swap<'a> {
    pub raw: Raw<'a>,
    /// The new value, as JSON.
    pub with: String,
}

impl<'a> OutgoingParams<'a> {
    /// The same call with other arguments.
    pub(super) fn with_args(self, args: Option<Raw<'a>>) -> Self {
        match self {
            Self::Call { params, token, subtool, .. } => Self::Call { params, token, subtool, args },
            Self::Forward { .. } => self,
        }
    }

    pub fn write(&self, id: ChildId, out: &mut Vec<u8>) {
        match *self {
            Self::Call { params, token, subtool, args } => {
                let name = quoted(subtool);
                let own = [name.as_str(), args.map_or("{}", Raw::get)];
                call_params(params, token, own, id, out);
            }
            Self::Forward { params: Some(params), token, swap } => {
                forwarded_params(params, token, swap, id, out)
            }
            Self::Forward { params: None, .. } => {}
        }
    }
}

fn forwarded_params(
    params: Raw<'_>,
    token: Option<Raw<'_>>,
    swap: Option<&Swap<'_>>,
    id: ChildId,
    out: &mut Vec<u8>,
) {
    let whole = params.get().as_bytes();
    let id = id.0.to_string();
    let mut changes =
        [token.map(|token| (token, id.as_str())), swap.map(|swap| (swap.raw, swap.with.as_str()))]
            .map(|change| change.map(|(raw, with)| (range_of(whole, raw.get()), with)));
    changes.sort_by_key(|change| change.as_ref().map(|(place, _)| place.start));
    let mut done = 0;
    for (place, with) in changes.into_iter().flatten() {
        push_single_line(&whole[done..place.start], out);
        out.extend_from_slice(with.as_bytes());
        done = place.end;
    }
    push_single_line(&whole[done..], out);
}

/// The child's `params`: its own tool's name, the inner arguments, our progress token in place of the host's.
fn call_params(
    params: &Members<'_>,
    token: Option<Raw<'_>>,
    [name, arguments]: [&str; 2],
    id: ChildId,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(br#"{"name":"#);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(br#","arguments":"#);
    push_single_line(arguments.as_bytes(), out);
    let mut is_first_meta = true;
    for (key, value) in &params.0 {
        if matches!(&**key, "name" | "arguments") {
            continue;
        }
        let key_text = quoted(key);
        out.push(b',');
        out.extend_from_slice(key_text.as_bytes());
        out.push(b':');
        if &**key == "_meta" {
            // `token` comes from the first `_meta`. A duplicate `_meta` key may have another.
            let other = || Members::of(*value).and_then(|members| members.get("progressToken"));
            let token = if std::mem::take(&mut is_first_meta) { token } else { other() };
            push_meta(*value, token, id, out);
        } else {
            push_single_line(value.get().as_bytes(), out);
        }
    }
    out.push(b'}');
}

/// `_meta` with the host's progress token replaced by ours, which is the call's id.
fn push_meta(meta: Raw<'_>, token: Option<Raw<'_>>, id: ChildId, out: &mut Vec<u8>) {
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
    use switchboard_mcp::era::request_params::RequestParams;

    #[track_caller]
    fn check(params: &str, args: Option<&str>, expect: &str) {
        let raw = Raw::parse(params.as_bytes()).unwrap();
        let args = args.map(|args| Raw::parse(args.as_bytes()).unwrap());
        let mut out = Vec::new();
        let params = RequestParams::read(Some(raw));
        let token = params.raw_progress_token();
        let outgoing = OutgoingParams::Call { params: &params.members, token, subtool: "find", args };
        outgoing.write(ChildId(7), &mut out);
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
    fn only_the_progress_token_is_replaced() {
        check(
            r#"{"_meta":{"x/y":1.0,"progressToken":"abc","traceparent":"00"},"task":{"ttl":5},"name":"s"}"#,
            None,
            r#"{"name":"find","arguments":{},"_meta":{"x/y":1.0,"progressToken":7,"traceparent":"00"},"task":{"ttl":5}}"#,
        );
        check(
            r#"{"_meta":{"progressToken":1},"_meta":{"progressToken":"abc"}}"#,
            None,
            r#"{"name":"find","arguments":{},"_meta":{"progressToken":7},"_meta":{"progressToken":7}}"#,
        );
    }
    #[test]
    fn only_token_and_name_are_swapped() {
        let params = r#"{"z": 1.0,"_meta":{"progressToken":"t","k":[]},"name":"a_b","x":"a_b"}"#;
        let params = Raw::parse(params.as_bytes()).unwrap();
        let read = RequestParams::read(Some(params));
        let token = read.progress_token();
        let swap = Swap { raw: read.members.get("name").unwrap(), with: "\"b\"".to_owned() };
        let mut out = Vec::new();
        forwarded_params(params, token, Some(&swap), ChildId(7), &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"z": 1.0,"_meta":{"progressToken":7,"k":[]},"name":"b","x":"a_b"}"#
        );
        let mut out = Vec::new();
        forwarded_params(params, None, None, ChildId(7), &mut out);
        assert_eq!(out, params.get().as_bytes());
    }
}
