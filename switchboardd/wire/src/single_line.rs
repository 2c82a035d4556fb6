//! Writes JSON on one line. JSON strings cannot contain raw line breaks, so only those between tokens are
//! dropped.

/// Appends `body` without its raw line breaks.
pub fn push_single_line(body: &[u8], out: &mut Vec<u8>) {
    let mut rest = body;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}
