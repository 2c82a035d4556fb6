//! The protocol of the hop between shim and daemon, Switchboard's only own protocol.

use std::str::FromStr;

use serde_core::ser::SerializeMap as _;
use serde_core::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::envelope::{quoted, string};
use crate::members::Members;
use crate::raw::Raw;

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

/// On the answer to `tools/list`: a token of what the listed tools stand for. The shim does not read it, and gives it to
/// the next daemon, which judges the host's calls by the list that the host was shown.
pub const SHOWN_HEADER: &str = "switchboard-shown";

/// How long a mailbox poll waits for a message.
pub const POLL_WAIT_MS: u64 = 25_000;

/// Calls of one session that may be in flight at once; the rest wait in the shim.
pub const MAX_IN_FLIGHT: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionRange {
    pub min: u32,
    pub max: u32,
}

impl VersionRange {
    /// The newest version that both sides speak.
    pub fn newest_common(self, other: Self) -> Option<u32> {
        let newest = self.max.min(other.max);
        (newest >= self.min && newest >= other.min).then_some(newest)
    }

    pub fn parse(body: &[u8]) -> Option<Self> {
        Self::of(Raw::parse(body)?)
    }

    fn of(raw: Raw<'_>) -> Option<Self> {
        let members = Members::of(raw)?;
        Some(Self { min: number(&members, "min")?, max: number(&members, "max")? })
    }
}

impl Serialize for VersionRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut range = serializer.serialize_map(Some(2))?;
        range.serialize_entry("min", &self.min)?;
        range.serialize_entry("max", &self.max)?;
        range.end()
    }
}

#[derive(Debug)]
pub struct OpenSession<'a> {
    /// The absolute path of the directory that the host works in.
    pub workspace: Option<String>,
    /// The one child that the session shows unchanged; if `None`, all children as suites.
    pub child: Option<String>,
    pub version: String,
    pub hop: VersionRange,
    /// The host's own handshake, for a session that moves to a new daemon: whole messages in order. The
    /// daemon processes them without answering again.
    pub handshake: Vec<&'a RawValue>,
    /// The token of the last list of tools that the host was shown (`SHOWN_HEADER`).
    pub shown: Option<String>,
}

impl<'a> OpenSession<'a> {
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        let members = Members::of(Raw::parse(body)?)?;
        Some(Self {
            workspace: optional_text(&members, "workspace")?,
            child: optional_text(&members, "child")?,
            version: members.text("version")?.into_owned(),
            hop: VersionRange::of(members.get("hop")?)?,
            handshake: members.get("handshake").map_or(Some(Vec::new()), messages)?,
            shown: optional_text(&members, "shown")?,
        })
    }

    pub fn json(&self) -> String {
        let VersionRange { min, max } = self.hop;
        let workspace = self.workspace.as_deref().map_or("null".to_owned(), quoted);
        let version = quoted(&self.version);
        let mut body =
            format!(r#"{{"workspace":{workspace},"version":{version},"hop":{{"min":{min},"max":{max}}}"#);
        if let Some(child) = &self.child {
            body.extend([r#","child":"#, &quoted(child)]);
        }
        if !self.handshake.is_empty() {
            let messages: Vec<&str> = self.handshake.iter().map(|message| message.get()).collect();
            body.extend([r#","handshake":["#, &messages.join(","), "]"]);
        }
        if let Some(shown) = &self.shown {
            body.extend([r#","shown":"#, &quoted(shown)]);
        }
        body.push('}');
        body
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct SessionOpened {
    pub session: String,
    pub boot: String,
    pub hop: u32,
}

impl SessionOpened {
    pub fn parse(body: &[u8]) -> Option<Self> {
        let members = Members::of(Raw::parse(body)?)?;
        Some(Self {
            session: members.text("session")?.into_owned(),
            boot: members.text("boot")?.into_owned(),
            hop: number(&members, "hop")?,
        })
    }

    pub fn json(&self) -> String {
        let Self { session, boot, hop } = self;
        format!(r#"{{"session":{},"boot":{},"hop":{hop}}}"#, quoted(session), quoted(boot))
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct MailboxPoll {
    /// The newest message that was received; the daemon may drop it and all earlier ones.
    pub after: u64,
    pub wait_ms: u64,
}

impl MailboxPoll {
    pub fn parse(body: &[u8]) -> Option<Self> {
        let members = Members::of(Raw::parse(body)?)?;
        Some(Self { after: number(&members, "after")?, wait_ms: number(&members, "waitMs")? })
    }

    pub fn json(&self) -> String {
        format!(r#"{{"after":{},"waitMs":{}}}"#, self.after, self.wait_ms)
    }
}

#[derive(Debug)]
pub struct MailboxBatch<'a> {
    pub messages: Vec<&'a RawValue>,
    /// The number of the last message here.
    pub next: u64,
    /// The daemon is draining: the shim holds new messages until the next daemon serves.
    pub draining: Option<Draining>,
}

impl<'a> MailboxBatch<'a> {
    /// Only the messages are checked to be JSON, once: they are nearly all of a batch.
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        let members = Members::of(Raw::unchecked(std::str::from_utf8(body).ok()?))?;
        Some(Self {
            messages: messages(members.get("messages")?)?,
            next: number(&members, "next")?,
            draining: optional_text(&members, "draining")?.map(|word| Draining::parse(&word)),
        })
    }
}

fn number<T: FromStr>(members: &Members<'_>, name: &str) -> Option<T> {
    members.get(name)?.get().parse().ok()
}

/// The outer `None` is a value that is neither a string nor `null`.
fn optional_text(members: &Members<'_>, name: &str) -> Option<Option<String>> {
    match members.get(name).filter(|value| !value.is_null()) {
        Some(value) => string(value).map(|text| Some(text.into_owned())),
        None => Some(None),
    }
}

fn messages(list: Raw<'_>) -> Option<Vec<&RawValue>> {
    serde_json::from_str(list.get()).ok()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
        assert_eq!(ours.newest_common(VersionRange { min: 1, max: 3 }), Some(3));
        assert_eq!(ours.newest_common(VersionRange { min: 4, max: 9 }), Some(4));
        assert_eq!(ours.newest_common(VersionRange { min: 5, max: 9 }), None);
        assert_eq!(ours.newest_common(VersionRange { min: 0, max: 1 }), None);
    }

    #[test]
    fn draining_is_the_same_word_in_a_header_and_a_batch() {
        for draining in [Draining::Restart, Draining::Stop] {
            let word = draining.as_str();
            let body = format!(r#"{{"messages":[],"next":3,"draining":"{word}"}}"#);
            assert_eq!(MailboxBatch::parse(body.as_bytes()).unwrap().draining, Some(draining));
            assert_eq!(Draining::parse(word), draining);
        }
        assert_eq!(Draining::parse("nap"), Draining::Restart);
    }

    #[test]
    fn what_one_side_writes_the_other_reads() {
        let message = r#"{"id": 1.0,"x":"\u00e9"}"#;
        let handshake = [serde_json::from_str(message).unwrap()].to_vec();
        let workspace = Some("/a \"b\"\n".to_owned());
        let (version, shown) = ("1.2".to_owned(), Some("t".to_owned()));
        let open = OpenSession { workspace, child: None, version, hop: HOP, handshake, shown }.json();
        let read = OpenSession::parse(open.as_bytes()).unwrap();
        assert_eq!((read.workspace.as_deref(), read.child), (Some("/a \"b\"\n"), None));
        assert_eq!((read.version.as_str(), read.hop), ("1.2", HOP));
        assert_eq!(read.shown.as_deref(), Some("t"));
        assert_eq!(read.handshake.iter().map(|raw| raw.get()).collect::<Vec<_>>(), [message]);

        let opened = SessionOpened { session: "s\"".into(), boot: "b".into(), hop: 7 };
        assert_eq!(SessionOpened::parse(opened.json().as_bytes()), Some(opened));
        let poll = MailboxPoll { after: u64::MAX, wait_ms: 25_000 };
        assert_eq!(MailboxPoll::parse(poll.json().as_bytes()), Some(poll));
        let hop = serde_json::to_vec(&HOP).unwrap();
        assert_eq!(VersionRange::parse(&hop), Some(HOP));
        let batch =
            format!(r#"{{ "messages" : [ {message} , 2 ], "next" : 9 , "draining" : null , "new": [] }}"#);
        let batch = MailboxBatch::parse(batch.as_bytes()).unwrap();
        assert_eq!(batch.messages.iter().map(|raw| raw.get()).collect::<Vec<_>>(), [message, "2"]);
        assert_eq!((batch.next, batch.draining), (9, None));
    }

    #[test]
    fn other_values_are_refused() {
        const RANGE: &str = r#""hop":{"min":1,"max":1}"#;
        for wrong in
            ["", "[]", "{}", &format!(r#"{{"version":1,{RANGE}}}"#), r#"{"version":"1","hop":{"min":1}}"#]
        {
            assert!(OpenSession::parse(wrong.as_bytes()).is_none(), "{wrong}");
        }
        for member in
            [r#""shown":1"#, r#""workspace":1"#, r#""child":{}"#, r#""handshake":{}"#, r#""handshake":null"#]
        {
            let body = format!(r#"{{"version":"1",{RANGE},{member}}}"#);
            assert!(OpenSession::parse(body.as_bytes()).is_none(), "{body}");
        }
        for wrong in [r#"{"after":-1,"waitMs":1}"#, r#"{"after":1}"#, r#"{"after":"1","waitMs":1}"#, "\u{0}"]
        {
            assert!(MailboxPoll::parse(wrong.as_bytes()).is_none(), "{wrong}");
        }
        for wrong in
            [r#"{"messages":[1,],"next":1}"#, r#"{"messages":[{]],"next":1}"#, r#"{"messages":[]}"#, "["]
        {
            assert!(MailboxBatch::parse(wrong.as_bytes()).is_none(), "{wrong}");
        }
        assert!(MailboxBatch::parse(b"{\"messages\":[\"\xff\"],\"next\":1}").is_none());
    }
}
