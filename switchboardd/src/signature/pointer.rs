//! The steps of a reference into the same document, as in `#/definitions/My%20Type`.

use percent_encoding::percent_decode_str;

/// `None` if it refers to anything else.
pub(super) fn pointer(reference: &str) -> Option<Vec<String>> {
    let path = reference.strip_prefix("#/")?;
    let decoded = |step: &str| Some(percent_decode_str(step).decode_utf8().ok()?.into_owned());
    path.split('/').map(|step| Some(decoded(step)?.replace("~1", "/").replace("~0", "~"))).collect()
}
