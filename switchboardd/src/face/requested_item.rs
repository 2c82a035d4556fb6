//! The name or URI of the item that a request is about.

use switchboard_wire::envelope::{quoted, string};
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

use crate::suite::failure::Failure;
use crate::suite::outgoing::Swap;

/// A name or URI in a request.
pub(super) struct RequestedItem<'a> {
    pub(super) text: String,
    raw: Raw<'a>,
}

impl<'a> RequestedItem<'a> {
    /// The replacement that makes the request say `own`; `None` if it does already.
    pub(super) fn swapped(&self, own: &str) -> Option<Swap<'a>> {
        (self.text != own).then(|| Swap { raw: self.raw, with: quoted(own) })
    }
}

/// A string member; an error if it is missing or repeated.
pub(super) fn member<'a>(object: &Members<'a>, name: &str) -> Result<RequestedItem<'a>, Failure> {
    let mut found = object.0.iter().filter(|(key, _)| key == name);
    let raw = match (found.next(), found.next()) {
        (Some((_, raw)), None) => string(*raw).map(|text| RequestedItem { text: text.into(), raw: *raw }),
        _ => None,
    };
    raw.ok_or_else(|| Failure::InvalidParams(format!("`{name}` must be there once, and a string")))
}
