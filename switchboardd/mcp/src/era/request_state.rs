//! Signs `requestState`, which travels through an untrusted host: with a key of this daemon run, bound to the
//! request that it was issued for, and with an expiry.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use switchboard_wire::secret;

/// What a state refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateTarget {
    /// A suspended call, by its name.
    SuspendedCall(String),
    /// A question of a modern child, by its number, with the state that the child gave.
    Child { number: u64, state: Option<String> },
}

/// The request that a state was issued for.
#[derive(Debug, Clone, Copy)]
pub struct StateBinding<'a> {
    pub session: &'a str,
    pub face: &'a str,
    pub method: &'a str,
    pub fingerprint: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadState {
    #[error("`requestState` is of an earlier run of switchboardd; the call may or may not have run")]
    EarlierRun,
    #[error("`requestState` is not ours, was changed, or belongs to another request")]
    NotOurs,
    #[error("`requestState` was used before or has expired; the call may or may not have run")]
    Expired,
}

#[derive(Debug)]
pub struct StateSigner {
    run_id: Box<str>,
    key: Box<str>,
}

impl StateSigner {
    pub fn new(run_id: &str) -> Self {
        Self { run_id: run_id.into(), key: switchboard_wire::random::hex(32).into() }
    }

    /// `until`: the expiry, in seconds on the caller's clock.
    pub fn issue(&self, target: &StateTarget, binding: StateBinding<'_>, until: u64) -> String {
        let (kind, inner) = match target {
            StateTarget::SuspendedCall(name) => (format!("p{name}"), ""),
            StateTarget::Child { number, state: Some(state) } => (format!("c{number}"), state.as_str()),
            StateTarget::Child { number, state: None } => (format!("n{number}"), ""),
        };
        let mac = self.sign(&kind, inner, binding, until);
        format!("{}.{until}.{kind}.{mac}.{inner}", self.run_id)
    }

    pub fn verify(&self, state: &str, binding: StateBinding<'_>, now: u64) -> Result<StateTarget, BadState> {
        let mut parts = state.splitn(5, '.');
        let mut part = || parts.next().ok_or(BadState::NotOurs);
        let (run_id, until, kind, mac, inner) = (part()?, part()?, part()?, part()?, part()?);
        if run_id != &*self.run_id {
            let is_run_id =
                run_id.len() == self.run_id.len() && run_id.bytes().all(|byte| byte.is_ascii_hexdigit());
            return Err(if is_run_id { BadState::EarlierRun } else { BadState::NotOurs });
        }
        let until: u64 = until.parse().map_err(|_| BadState::NotOurs)?;
        if !secret::is_same(self.sign(kind, inner, binding, until).as_bytes(), mac.as_bytes()) {
            return Err(BadState::NotOurs);
        }
        if until < now {
            return Err(BadState::Expired);
        }
        let child = |number: &str, state: Option<String>| {
            Some(StateTarget::Child { number: number.parse().ok()?, state })
        };
        let target = match kind.split_at_checked(1) {
            Some(("p", name)) => Some(StateTarget::SuspendedCall(name.to_owned())),
            Some(("c", of)) => child(of, Some(inner.to_owned())),
            Some(("n", of)) => child(of, None),
            _ => None,
        };
        target.ok_or(BadState::NotOurs)
    }

    fn sign(&self, kind: &str, inner: &str, binding: StateBinding<'_>, until: u64) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.key.as_bytes()).expect("BUG: any key will do");
        let until = until.to_string();
        for part in [&until, kind, binding.session, binding.face, binding.method, binding.fingerprint, inner]
        {
            // Prefixed with their lengths, so that no two lists of parts have the same encoding.
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part.as_bytes());
        }
        switchboard_wire::hex::hex(&mac.finalize().into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BINDING: StateBinding<'_> =
        StateBinding { session: "s", face: "", method: "tools/call", fingerprint: "f" };

    #[test]
    fn what_was_issued_is_verified() {
        let signer = StateSigner::new("0a1b2c3d");
        for target in [
            StateTarget::SuspendedCall("abc".into()),
            StateTarget::Child { number: 3, state: Some("a.b.c \"…\" .".into()) },
            StateTarget::Child { number: u64::MAX, state: None },
        ] {
            assert_eq!(signer.verify(&signer.issue(&target, BINDING, 10), BINDING, 10), Ok(target));
        }
    }

    #[test]
    fn any_other_state_is_rejected() {
        let signer = StateSigner::new("0a1b2c3d");
        let target = StateTarget::Child { number: 1, state: Some("inner".into()) };
        let state = signer.issue(&target, BINDING, 10);
        assert_eq!(signer.verify(&state, BINDING, 11), Err(BadState::Expired));
        for other in [
            StateBinding { session: "t", ..BINDING },
            StateBinding { face: "x", ..BINDING },
            StateBinding { method: "prompts/get", ..BINDING },
            StateBinding { fingerprint: "g", ..BINDING },
        ] {
            assert_eq!(signer.verify(&state, other, 1), Err(BadState::NotOurs));
        }
        for at in 0..state.len() {
            let mut changed = state.clone().into_bytes();
            changed[at] = if changed[at] == b'1' { b'2' } else { b'1' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(signer.verify(&changed, BINDING, 1).is_err(), "{changed}");
        }
        assert!(signer.verify(&format!("{state}x"), BINDING, 1).is_err());
        for foreign in ["", "a.b", "tampered", "x.1.p1.00.00"] {
            assert_eq!(signer.verify(foreign, BINDING, 1), Err(BadState::NotOurs), "{foreign}");
        }
        let next = StateSigner::new("deadbeef");
        assert_eq!(next.verify(&state, BINDING, 1), Err(BadState::EarlierRun));
    }
}
