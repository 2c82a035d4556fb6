//! The `params` of a host's request, parsed once for all readers.

use switchboard_wire::envelope::string;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

#[derive(Debug, Default)]
pub struct RequestParams<'a> {
    /// As the host wrote them.
    pub raw: Option<Raw<'a>>,
    /// Empty if the `params` are not an object.
    pub members: Members<'a>,
    /// The members of their `_meta`.
    pub meta: Members<'a>,
}

impl<'a> RequestParams<'a> {
    pub fn read(raw: Option<Raw<'a>>) -> Self {
        let members = raw.and_then(Members::of).unwrap_or_default();
        let meta = members.get("_meta").and_then(Members::of).unwrap_or_default();
        Self { raw, members, meta }
    }

    /// The host's progress token, unchanged and not validated.
    pub fn raw_progress_token(&self) -> Option<Raw<'a>> {
        self.meta.get("progressToken")
    }

    /// The host's progress token, if it asked for progress.
    pub fn progress_token(&self) -> Option<Raw<'a>> {
        self.raw_progress_token()
            .filter(|token| string(*token).is_some() || token.get().parse::<f64>().is_ok())
    }
}
