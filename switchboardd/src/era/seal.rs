//! `requestState` on its way through a host, which may do with it what it likes: signed with a key that lives as
//! long as this daemon, bound to the request that it was given for, and good for some time only.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// What a state leads back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leads {
    /// A call that waits here, by its name.
    ToParked(String),
    /// The child that asked, by its process, with the state that it gave.
    ToChild { pid: u32, state: Option<String> },
}

/// The request that a state was given for.
#[derive(Debug, Clone, Copy)]
pub struct Bound<'a> {
    pub session: &'a str,
    pub face: &'a str,
    pub method: &'a str,
    pub fingerprint: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    #[error("`requestState` is of an earlier run of switchboardd; the call may or may not have run")]
    EarlierBoot,
    #[error("`requestState` is not ours, was changed, or belongs to another request")]
    NotOurs,
    #[error("`requestState` was used before or has expired; the call may or may not have run")]
    Expired,
}

#[derive(Debug)]
pub struct Seal {
    boot: Box<str>,
    key: Box<str>,
}

impl Seal {
    pub fn new(boot: &str) -> Self {
        Self { boot: boot.into(), key: crate::random::hex(32).into() }
    }

    /// `until` in seconds.
    pub fn close(&self, leads: &Leads, bound: Bound<'_>, until: u64) -> String {
        let (way, inner) = match leads {
            Leads::ToParked(name) => (format!("p{name}"), ""),
            Leads::ToChild { pid, state: Some(state) } => (format!("c{pid}"), state.as_str()),
            Leads::ToChild { pid, state: None } => (format!("n{pid}"), ""),
        };
        let mac = self.sign(&way, inner, bound, until);
        format!("{}.{until}.{way}.{mac}.{inner}", self.boot)
    }

    pub fn open(&self, state: &str, bound: Bound<'_>, now: u64) -> Result<Leads, Broken> {
        let mut parts = state.splitn(5, '.');
        let mut part = || parts.next().ok_or(Broken::NotOurs);
        let (boot, until, way, mac, inner) = (part()?, part()?, part()?, part()?, part()?);
        if boot != &*self.boot {
            let is_boot = boot.len() == self.boot.len() && boot.bytes().all(|byte| byte.is_ascii_hexdigit());
            return Err(if is_boot { Broken::EarlierBoot } else { Broken::NotOurs });
        }
        let until: u64 = until.parse().map_err(|_| Broken::NotOurs)?;
        if !is_same(&self.sign(way, inner, bound, until), mac) {
            return Err(Broken::NotOurs);
        }
        if until < now {
            return Err(Broken::Expired);
        }
        let pid = |text: &str| text.parse().map_err(|_| Broken::NotOurs);
        match way.split_at_checked(1) {
            Some(("p", name)) => Ok(Leads::ToParked(name.to_owned())),
            Some(("c", of)) => Ok(Leads::ToChild { pid: pid(of)?, state: Some(inner.to_owned()) }),
            Some(("n", of)) => Ok(Leads::ToChild { pid: pid(of)?, state: None }),
            _ => Err(Broken::NotOurs),
        }
    }

    fn sign(&self, way: &str, inner: &str, bound: Bound<'_>, until: u64) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.key.as_bytes()).expect("BUG: any key will do");
        let until = until.to_string();
        for part in [&until, way, bound.session, bound.face, bound.method, bound.fingerprint, inner] {
            // With their lengths, so that no two lists of parts read the same.
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part.as_bytes());
        }
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// In a time that does not tell where they differ.
fn is_same(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Bound<'_> = Bound { session: "s", face: "", method: "tools/call", fingerprint: "f" };

    #[test]
    fn what_was_sealed_leads_back() {
        let seal = Seal::new("0a1b2c3d");
        for leads in [
            Leads::ToParked("abc".into()),
            Leads::ToChild { pid: 7, state: Some("a.b.c \"…\" .".into()) },
            Leads::ToChild { pid: 7, state: None },
        ] {
            assert_eq!(seal.open(&seal.close(&leads, BOUND, 10), BOUND, 10), Ok(leads));
        }
    }

    #[test]
    fn nothing_else_does() {
        let seal = Seal::new("0a1b2c3d");
        let leads = Leads::ToChild { pid: 7, state: Some("inner".into()) };
        let state = seal.close(&leads, BOUND, 10);
        assert_eq!(seal.open(&state, BOUND, 11), Err(Broken::Expired));
        for other in [
            Bound { session: "t", ..BOUND },
            Bound { face: "x", ..BOUND },
            Bound { method: "prompts/get", ..BOUND },
            Bound { fingerprint: "g", ..BOUND },
        ] {
            assert_eq!(seal.open(&state, other, 1), Err(Broken::NotOurs));
        }
        for at in 0..state.len() {
            let mut changed = state.clone().into_bytes();
            changed[at] = if changed[at] == b'1' { b'2' } else { b'1' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(seal.open(&changed, BOUND, 1).is_err(), "{changed}");
        }
        assert!(seal.open(&format!("{state}x"), BOUND, 1).is_err());
        for foreign in ["", "a.b", "tampered", "x.1.p1.00.00"] {
            assert_eq!(seal.open(foreign, BOUND, 1), Err(Broken::NotOurs), "{foreign}");
        }
        let next = Seal::new("deadbeef");
        assert_eq!(next.open(&state, BOUND, 1), Err(Broken::EarlierBoot));
    }
}
