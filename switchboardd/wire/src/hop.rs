//! The protocol of the hop between shim and daemon, Switchboard's only own protocol.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Hop versions that this build speaks. Independent of the crate's version: it changes only with the hop.
pub const HOP: VersionRange = VersionRange { min: 1, max: 1 };

pub const PROXY: &str = "/proxy";
pub const OPEN_SESSION: &str = "/hop/session";
pub const MAILBOX: &str = "/hop/mailbox";

/// On every POST of a session: the session, and the sequence number of the message, counted from 1.
pub const SESSION_HEADER: &str = "switchboard-session";
pub const SEQ_HEADER: &str = "switchboard-seq";
/// On every response: the number of the newest mailbox message that precedes it.
pub const MAILBOX_HEADER: &str = "switchboard-mailbox";
/// On a 503: the daemon is draining and did not start this message. Its value is a [`Draining::as_str`].
pub const DRAINING_HEADER: &str = "switchboard-draining";

/// How long a mailbox poll waits for a message.
pub const POLL_WAIT_MS: u64 = 25_000;

/// Calls of one session that may be in flight at once; the rest wait in the shim.
pub const MAX_IN_FLIGHT: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionRange {
    pub min: u32,
    pub max: u32,
}

impl VersionRange {
    /// The newest version that both sides speak.
    pub fn meet(self, other: Self) -> Option<u32> {
        let newest = self.max.min(other.max);
        (newest >= self.min && newest >= other.min).then_some(newest)
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenSession<'a> {
    /// The absolute path of the directory that the host works in.
    pub workspace: Option<String>,
    /// The one child that the session shows unchanged; if `None`, all children as suites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
    pub version: String,
    pub hop: VersionRange,
    /// The host's own handshake, for a session that moves to a new daemon: whole messages in order. The
    /// daemon processes them without answering again.
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    pub handshake: Vec<&'a RawValue>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct SessionOpened {
    pub session: String,
    pub boot: String,
    pub hop: u32,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MailboxPoll {
    /// The newest message that was received; the daemon may drop it and all earlier ones.
    pub after: u64,
    pub wait_ms: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct MailboxBatch<'a> {
    #[serde(borrow)]
    pub messages: Vec<&'a RawValue>,
    /// The number of the last message here.
    pub next: u64,
    /// The daemon is draining: the shim holds new messages until the next daemon serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draining: Option<Draining>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Draining {
    /// Another daemon is to follow: the shim starts it if nobody else does.
    Restart,
    /// The user stopped the daemon: the shim does not start it again.
    Stop,
}

impl Draining {
    /// The value in a header and in a mailbox batch.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Stop => "stop",
        }
    }

    /// An unknown word is from a newer daemon, of which only the draining is known.
    pub fn parse(word: &str) -> Self {
        if word == Self::Stop.as_str() { Self::Stop } else { Self::Restart }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_common_version_wins() {
        let ours = VersionRange { min: 2, max: 4 };
        assert_eq!(ours.meet(VersionRange { min: 1, max: 3 }), Some(3));
        assert_eq!(ours.meet(VersionRange { min: 4, max: 9 }), Some(4));
        assert_eq!(ours.meet(VersionRange { min: 5, max: 9 }), None);
        assert_eq!(ours.meet(VersionRange { min: 0, max: 1 }), None);
    }

    #[test]
    fn a_header_and_a_batch_say_draining_with_the_same_word() {
        for draining in [Draining::Restart, Draining::Stop] {
            assert_eq!(serde_json::to_string(&draining).unwrap(), format!("\"{}\"", draining.as_str()));
            assert_eq!(Draining::parse(draining.as_str()), draining);
        }
        assert_eq!(Draining::parse("nap"), Draining::Restart);
    }
}
