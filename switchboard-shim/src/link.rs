//! Opens a session: connects to the daemon and sends the hello. One attempt; the relay decides about retries.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;
use switchboard_wire::backoff::Backoff;
use switchboard_wire::hop::{self, Draining, OpenSession, SessionOpened};
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use tokio::time::timeout;

use crate::first::{Either, first};
use crate::post::{AnswerBody, Connection, DaemonAnswer, DaemonRequest, PostError};
use crate::start::{self, DaemonLink, DaemonTarget, LaunchError, StartingDaemon};

/// The timeout for the first answer: a new daemon may wait 10 s for the lock of one that drains.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub(crate) struct OpenedSession {
    pub(crate) session: Arc<str>,
    pub(crate) boot: String,
    pub(crate) connection: Option<Connection>,
    /// The socket that this daemon listens on.
    pub(crate) socket: Arc<Path>,
    /// Whether we started this daemon.
    pub(crate) started: bool,
}

#[derive(Debug)]
pub(crate) enum OpenError {
    Start(LaunchError),
    /// The daemon died before it answered; holds the reason.
    Died(String),
    Silent,
    Lost(PostError),
    Refused {
        status: u16,
    },
    /// The hop versions are incompatible; holds the daemon's message.
    Versions(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(error) => error.fmt(f),
            Self::Died(why) => write!(f, "cannot start switchboardd: {why}"),
            Self::Silent => {
                write!(f, "switchboardd did not answer within {} s", FIRST_ANSWER_TIMEOUT.as_secs())
            }
            Self::Lost(error) => write!(f, "switchboardd hung up: {error}"),
            Self::Refused { status } => write!(f, "switchboardd refused a session with HTTP status {status}"),
            Self::Versions(why) => write!(
                f,
                "this `switchboard` ({}) and the running switchboardd do not understand each other: {why}; run `switchboard stop`, then start again",
                env!("CARGO_PKG_VERSION")
            ),
        }
    }
}

/// Which servers a session shows its host.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionSpec {
    /// The directory whose servers the session shows too.
    pub(crate) workspace: Option<String>,
    /// The single server that the session shows unchanged, without a suite.
    pub(crate) child: Option<String>,
}

/// One attempt to open a session. `handshake`: the host's handshake messages to replay. `shown`: what an earlier daemon
/// said of the last list of tools.
pub(crate) async fn open(
    target: Arc<DaemonTarget>,
    may_start: bool,
    about: SessionSpec,
    handshake: Vec<Box<RawValue>>,
    shown: Option<Box<str>>,
) -> Result<OpenedSession, OpenError> {
    let request = DaemonRequest {
        path: hop::OPEN_SESSION,
        session: None,
        seq: None,
        body: open_session_body(about, &handshake, shown),
        limit: 64 * 1024,
    };
    timeout(FIRST_ANSWER_TIMEOUT, attempt(&target, may_start, &request))
        .await
        .unwrap_or(Err(OpenError::Silent))
}

async fn attempt(
    target: &DaemonTarget,
    may_start: bool,
    request: &DaemonRequest,
) -> Result<OpenedSession, OpenError> {
    let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(200));
    loop {
        let DaemonLink { mut connection, socket, starting } =
            start::connect_or_start(target, may_start).await.map_err(OpenError::Start)?;
        let started = starting.is_some();
        let (answer, reusable) = first_answer(&mut connection, starting, request).await?;
        if answer.status == 503 && answer.draining == Some(Draining::Stop) && stop_applies(target) {
            return Err(OpenError::Start(LaunchError::Stopped));
        }
        if answer.status == 503 && answer.draining.is_some() {
            // The old daemon drains; its successor, or one that we start, will open the session.
            tokio::time::sleep(backoff.next_pause()).await;
            continue;
        }
        let SessionOpened { session, boot, .. } = accepted(&answer)?;
        let connection = reusable.then_some(connection);
        return Ok(OpenedSession { session: session.into(), boot, connection, socket, started });
    }
}

/// Whether a stop in progress applies to us: not if this shim started after the stop was requested.
fn stop_applies(target: &DaemonTarget) -> bool {
    !target.paths.was_stopped_before(target.since)
}

/// `starting` holds the start lock until the daemon has answered.
async fn first_answer(
    connection: &mut Connection,
    starting: Option<StartingDaemon>,
    request: &DaemonRequest,
) -> Result<(DaemonAnswer, bool), OpenError> {
    let Some(mut starting) = starting else {
        return connection.exchange(request).await.map_err(OpenError::Lost);
    };
    let failed = match first(connection.exchange(request), starting.failed_launch()).await {
        Either::First(Ok(answer)) => return Ok(answer),
        Either::First(Err(error)) => error,
        Either::Second(why) => return Err(OpenError::Died(why)),
    };
    match starting.exit_reason().await {
        Some(why) => Err(OpenError::Died(why)),
        None => Err(OpenError::Lost(failed)),
    }
}

fn accepted(answer: &DaemonAnswer) -> Result<SessionOpened, OpenError> {
    let refused = OpenError::Refused { status: answer.status };
    let AnswerBody::Whole(body) = &answer.body else {
        return Err(refused);
    };
    match answer.status {
        200 => SessionOpened::parse(body).ok_or(refused),
        426 => {
            let members = Raw::parse(body).and_then(Members::of);
            let why = members.and_then(|members| Some(members.text("error")?.into_owned()));
            Err(why.map_or(refused, OpenError::Versions))
        }
        _ => Err(refused),
    }
}

fn open_session_body(about: SessionSpec, handshake: &[Box<RawValue>], shown: Option<Box<str>>) -> Bytes {
    let handshake: Vec<&RawValue> = handshake.iter().map(AsRef::as_ref).collect();
    let SessionSpec { workspace, child } = about;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let open =
        OpenSession { workspace, child, version, hop: hop::HOP, handshake, shown: shown.map(Into::into) };
    open.json().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handshake_is_sent_unchanged() {
        let body = r#"{"jsonrpc":"2.0", "id":1.0,"method":"initialize"}"#;
        let handshake = [RawValue::from_string(body.to_owned()).unwrap()];
        let hello = open_session_body(
            SessionSpec { workspace: Some("/w".to_owned()), child: None },
            &handshake,
            None,
        );
        let text = std::str::from_utf8(&hello).unwrap();
        assert!(text.contains(body), "{text}");
        assert!(
            !String::from_utf8(super::open_session_body(SessionSpec::default(), &[], None).to_vec())
                .unwrap()
                .contains("handshake")
        );
    }

    #[test]
    fn a_version_mismatch_differs_from_a_refusal() {
        let answer = |status, body: &'static str| DaemonAnswer {
            status,
            mailbox: 0,
            draining: None,
            shown: None,
            body: AnswerBody::Whole(Bytes::from_static(body.as_bytes())),
        };
        assert!(
            matches!(accepted(&answer(426, r#"{"error":"too old"}"#)), Err(OpenError::Versions(why)) if why == "too old")
        );
        assert!(matches!(accepted(&answer(500, "")), Err(OpenError::Refused { status: 500 })));
        assert!(accepted(&answer(200, r#"{"session":"s","boot":"b","hop":1,"more":2}"#)).is_ok());
    }
}
