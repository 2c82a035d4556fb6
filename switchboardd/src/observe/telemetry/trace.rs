//! Trace contexts by the W3C's `traceparent`, and sampling. Pure, except for random ids.

use std::fmt;

use switchboard_wire::envelope::range_of;
use switchboard_wire::hex::hex;
use switchboard_wire::members::{Members, insert_members};
use switchboard_wire::raw::Raw;

const KEY: &str = "traceparent";

/// The identity of one span within its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanContext {
    pub trace: [u8; 16],
    pub span: [u8; 8],
    pub sampled: bool,
}

impl SpanContext {
    /// `None` if the text is not a valid `traceparent`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let version = bytes::<1>(version)?[0];
        // Version 0 allows no further fields; later versions may.
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let found =
            Self { trace: bytes(trace)?, span: bytes(span)?, sampled: bytes::<1>(flags)?[0] & 1 == 1 };
        (found.trace != [0; 16] && found.span != [0; 8]).then_some(found)
    }

    /// The context in the `_meta` of a request.
    pub fn of(meta: &Members<'_>) -> Option<Self> {
        Self::parse(&meta.text(KEY)?)
    }

    /// A new span below this one.
    pub fn child(self) -> Self {
        Self { span: switchboard_wire::random::bytes(), ..self }
    }

    /// Writes `params` with this context in their `_meta.traceparent`.
    pub fn push_into(self, params: Option<Raw<'_>>, out: &mut Vec<u8>) {
        let Some(params) = params else {
            return out.extend_from_slice(format!(r#"{{"_meta":{{"{KEY}":"{self}"}}}}"#).as_bytes());
        };
        let meta = Members::of(params).and_then(|params| params.get("_meta"));
        let Some(meta) = meta.filter(|meta| meta.get().starts_with('{')) else {
            let meta = format!(r#""_meta":{{"{KEY}":"{self}"}}"#);
            return out.extend_from_slice(insert_members(params.get(), &meta).as_bytes());
        };
        let whole = params.get().as_bytes();
        let given = Members::of(meta).and_then(|meta| meta.get(KEY));
        let (place, text) = match given {
            Some(given) => (range_of(whole, given.get()), format!("\"{self}\"")),
            None => {
                (range_of(whole, meta.get()), insert_members(meta.get(), &format!(r#""{KEY}":"{self}""#)))
            }
        };
        out.extend_from_slice(&whole[..place.start]);
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(&whole[place.end..]);
    }
}

impl fmt::Display for SpanContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", hex(&self.trace), hex(&self.span), u8::from(self.sampled))
    }
}

/// Decodes exactly `N` bytes of lowercase hexadecimal.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |letter: u8| match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    };
    let pairs = text.as_bytes().chunks_exact(2);
    if text.len() != 2 * N {
        return None;
    }
    let mut all = [0; N];
    for (byte, pair) in all.iter_mut().zip(pairs) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(all)
}

/// Decides which traces are recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    /// Whether a host's own decision is followed.
    pub parent_based: bool,
    /// The fraction that is recorded where no host has decided.
    pub ratio: f64,
}

impl Sampler {
    /// The span of a request that came with `parent`.
    pub fn begin(self, parent: Option<SpanContext>) -> SpanContext {
        let (trace, said) = match parent {
            Some(parent) => (parent.trace, Some(parent.sampled).filter(|_| self.parent_based)),
            None => (switchboard_wire::random::bytes(), None),
        };
        SpanContext {
            trace,
            span: switchboard_wire::random::bytes(),
            sampled: said.unwrap_or_else(|| self.is_sampled(trace)),
        }
    }

    /// Decides by the trace id, so that all samplers with this ratio agree on a trace.
    fn is_sampled(self, trace: [u8; 16]) -> bool {
        let [.., a, b, c, d, e, f, g, h] = trace;
        let number = u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1;
        #[expect(clippy::cast_precision_loss, reason = "a few traces of 2^52 more or less")]
        let part = number as f64 / (1_u64 << 63) as f64;
        part < self.ratio
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn invalid_traceparents_are_rejected() {
        let right = SpanContext::parse(PARENT).unwrap();
        assert_eq!(right.to_string(), PARENT);
        assert!(!SpanContext::parse(&PARENT.replace("-01", "-00")).unwrap().sampled);
        // Later versions may have more fields.
        assert_eq!(SpanContext::parse(&format!("cc{}-what-else", &PARENT[2..])), Some(right));
        for wrong in [
            "",
            "00",
            &PARENT[1..],
            &PARENT.to_uppercase(),
            &format!("{PARENT}-more"),
            &format!("ff{}", &PARENT[2..]),
            &PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", "00000000000000000000000000000000"),
            &PARENT.replace("00f067aa0ba902b7", "0000000000000000"),
            &PARENT.replace("4bf9", "4bé"),
            &PARENT.replace("-01", "-1"),
        ] {
            assert_eq!(SpanContext::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn traceparent_is_written_and_nothing_else_changes() {
        let context = SpanContext::parse(PARENT).unwrap();
        let own = format!(r#""traceparent":"{PARENT}""#);
        for (before, after) in [
            (r#"{"a": 1}"#.to_owned(), format!(r#"{{"a": 1,"_meta":{{{own}}}}}"#)),
            (
                r#"{"_meta": {"k":[1.0]} ,"a":1}"#.to_owned(),
                format!(r#"{{"_meta": {{"k":[1.0],{own}}} ,"a":1}}"#),
            ),
            (
                r#"{"_meta":{"traceparent" : "x","tracestate":"a=b"},"traceparent":"y"}"#.to_owned(),
                format!(r#"{{"_meta":{{"traceparent" : "{PARENT}","tracestate":"a=b"}},"traceparent":"y"}}"#),
            ),
            (r#"{"_meta":{}}"#.to_owned(), format!(r#"{{"_meta":{{{own}}}}}"#)),
            ("{}".to_owned(), format!(r#"{{"_meta":{{{own}}}}}"#)),
        ] {
            let mut out = Vec::new();
            context.push_into(Raw::parse(before.as_bytes()), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), after);
        }
        let mut out = Vec::new();
        context.push_into(None, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), format!(r#"{{"_meta":{{{own}}}}}"#));
        let meta = format!(r#"{{"traceparent":"{PARENT}"}}"#);
        let of = |meta: &str| SpanContext::of(&Raw::parse(meta.as_bytes()).and_then(Members::of).unwrap());
        assert_eq!(of(&meta), Some(context));
        assert_eq!(of(r#"{"traceparent":7}"#), None);
    }

    #[test]
    fn the_sampler_follows_the_parent_or_the_ratio() {
        let parent = SpanContext::parse(PARENT).unwrap();
        let unkept = SpanContext { sampled: false, ..parent };
        let by_parent = Sampler { parent_based: true, ratio: 1.0 };
        assert!(by_parent.begin(None).sampled && !by_parent.begin(Some(unkept)).sampled);
        let begun = by_parent.begin(Some(parent));
        assert!(begun.sampled && begun.trace == parent.trace && begun.span != parent.span);
        let alone = Sampler { parent_based: false, ratio: 0.0 };
        assert!(!alone.begin(Some(parent)).sampled);
        let half = Sampler { parent_based: false, ratio: 0.5 };
        let kept = (0..2000).filter(|_| half.begin(None).sampled).count();
        assert!((800..1200).contains(&kept), "{kept}");
        assert_eq!(half.begin(Some(parent)).sampled, half.begin(Some(parent)).sampled);
    }
}
