//! What a user confirmed for the rest of a session. It is kept in memory only.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use super::{Caller, CallerKind};

#[derive(Debug, Default)]
pub(super) struct Confirmed {
    // A leaf lock: held for a lookup or an insert.
    what: Mutex<BTreeSet<Box<str>>>,
}

impl Caller {
    /// Remembers what the user confirmed, until the session ends. False if there is no session.
    pub fn confirm_for_session(self: &Arc<Self>, what: &str) -> bool {
        let CallerKind::Session(session) = &self.owner().kind else { return false };
        session.confirmed.what.lock().expect("BUG: bookkeeping panicked").insert(what.into());
        true
    }

    pub fn has_confirmed(self: &Arc<Self>, what: &str) -> bool {
        let CallerKind::Session(session) = &self.owner().kind else { return false };
        session.confirmed.what.lock().expect("BUG: bookkeeping panicked").contains(what)
    }
}
