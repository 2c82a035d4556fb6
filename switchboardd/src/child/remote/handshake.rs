//! Finds out which protocol a remote server speaks: the modern one, `initialize`, or the transport of
//! 2024-11-05. The one that worked last is tried first. Only an answer about the protocol itself leads to the
//! next attempt; refused credentials, failures and timeouts end the handshake.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderValue;
use switchboard_definitions::definition::Transport;
use switchboard_mcp::era::envelope::{Envelope, with_envelope};
use switchboard_mcp::error_codes;
use switchboard_mcp::methods;
use switchboard_wire::envelope::{Message, Outcome};
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;
use tokio::time::timeout;

use super::old_sse::{self, OldSseStart};
use super::{RemoteConnection, RemoteError, RemoteState, notification, stream};
use crate::child::calls::ChildResponse;
use crate::child::clip::clip;
use crate::child::handshake::{NO_TIMEOUT, names_modern, params, read};
use crate::child::{Child, ChildError, Limits, Ownership, Protocol, ServerInfo, millis};

/// No timeouts here: the whole start is bounded by the caller.
const LIMITS: Limits = Limits { spawn: NO_TIMEOUT, rpc: NO_TIMEOUT, max: NO_TIMEOUT };

/// Timeout of a new session.
const RENEWAL_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(15);

/// The result of trying one protocol.
enum ProbeOutcome {
    Initialized(ServerInfo),
    /// The server does not speak it; its error.
    Unsupported(ChildError),
}

pub(super) async fn run(
    child: &Arc<Child>,
    connection: &Arc<RemoteConnection>,
    remembered: Option<Protocol>,
) -> Result<ServerInfo, ChildError> {
    use Protocol::{Legacy, LegacySse, Modern};
    let ways = match (remembered, connection.transport) {
        (Some(Legacy), _) => [Legacy, Modern, LegacySse],
        (Some(LegacySse), _) | (None, Transport::Sse) => [LegacySse, Modern, Legacy],
        (Some(Modern), _) | (None, Transport::Http) => [Modern, Legacy, LegacySse],
    };
    let mut refusal = None;
    for protocol in ways {
        connection.change(|state| *state = RemoteState { protocol, ..RemoteState::default() });
        let attempt = match protocol {
            Modern => discover(child).await?,
            Legacy => initialize(child, connection).await?,
            LegacySse => match old_sse::open(child, connection).await? {
                OldSseStart::Stream(reading) => {
                    let attempt = initialize(child, connection).await?;
                    // The end of a stream that is not used must not end the child.
                    if let ProbeOutcome::Unsupported(_) = attempt {
                        reading.abort();
                    }
                    attempt
                }
                OldSseStart::None(refused) => ProbeOutcome::Unsupported(refused.into()),
            },
        };
        match attempt {
            ProbeOutcome::Initialized(server_info) => return Ok(server_info),
            // The answer to `initialize` is the most useful one for the user.
            ProbeOutcome::Unsupported(why) if protocol == Legacy || refusal.is_none() => refusal = Some(why),
            ProbeOutcome::Unsupported(_) => {}
        }
    }
    Err(refusal.expect("BUG: there are ways to try"))
}

/// A legacy server has forgotten the session `lost`: begins a new one, once for all requests that notice.
/// This continues if the request that noticed is cancelled, because others wait for it too.
pub(super) async fn reconnect(
    child: &Arc<Child>,
    connection: &Arc<RemoteConnection>,
    lost: &RemoteState,
) -> Result<(), ChildError> {
    let renewed = tokio::spawn(reinitialize(child.clone(), connection.clone(), lost.session.clone()));
    renewed.await.unwrap_or(Err(ChildError::Stopped))
}

async fn reinitialize(
    child: Arc<Child>,
    connection: Arc<RemoteConnection>,
    lost: Option<HeaderValue>,
) -> Result<(), ChildError> {
    let (child, connection) = (&child, &connection);
    let _turn = connection.handshake_lock.lock().await;
    // No session means that an earlier attempt failed: try again.
    let now = connection.state().session;
    if now != lost && now.is_some() {
        return Ok(());
    }
    tracing::info!(target: "server", server = child.name(), "its server forgot the session; a new one is begun");
    connection.change(|state| *state = RemoteState { protocol: state.protocol, ..RemoteState::default() });
    let begun = timeout(RENEWAL_HANDSHAKE_TIMEOUT, initialize(child, connection)).await;
    let server_info =
        match begun.map_err(|_| ChildError::Silent { ms: millis(RENEWAL_HANDSHAKE_TIMEOUT) })?? {
            ProbeOutcome::Initialized(server_info) => server_info,
            ProbeOutcome::Unsupported(why) => return Err(why),
        };
    if server_info.revision != child.server_info().revision {
        return Err(RemoteError::Changed { now: server_info.revision.to_owned() }.into());
    }
    child.on_reinitialized();
    stream::begin(child, connection);
    Ok(())
}

async fn discover(child: &Arc<Child>) -> Result<ProbeOutcome, ChildError> {
    let mut params = Vec::new();
    with_envelope(None, &Envelope::ours(), &mut params);
    let mut asked = call(child, methods::DISCOVER, &params).await?;
    // It refused the revision but lists it as supported: ask once more.
    if let Ok(answer) = &asked
        && let Some(Outcome::Error(error)) = outcome(answer)
        && names_modern(error)
    {
        asked = call(child, methods::DISCOVER, &params).await?;
    }
    let answer = match asked {
        Ok(answer) => answer,
        Err(refused) => return Ok(ProbeOutcome::Unsupported(refused)),
    };
    match outcome(&answer) {
        Some(Outcome::Result(result)) => Ok(match ServerInfo::from_discover(result) {
            Some(server_info) => ProbeOutcome::Initialized(server_info),
            None => ProbeOutcome::Unsupported(unusable(methods::DISCOVER, result)),
        }),
        Some(Outcome::Error(error)) if is_modern(error) && !is_unsupported(error) => {
            Err(unusable(methods::DISCOVER, error))
        }
        Some(Outcome::Error(error)) => Ok(ProbeOutcome::Unsupported(unusable(methods::DISCOVER, error))),
        None => Ok(ProbeOutcome::Unsupported(RemoteError::Unanswered.into())),
    }
}

async fn initialize(
    child: &Arc<Child>,
    connection: &Arc<RemoteConnection>,
) -> Result<ProbeOutcome, ChildError> {
    let params = params(!matches!(child.ownership(), Ownership::Shared));
    let answer = match call(child, methods::INITIALIZE, params.as_bytes()).await? {
        Ok(answer) => answer,
        Err(refused) => return Ok(ProbeOutcome::Unsupported(refused)),
    };
    let server_info = match (read(&answer), outcome(&answer)) {
        (Ok(server_info), _) => server_info,
        (Err(refused), Some(Outcome::Error(_))) => return Ok(ProbeOutcome::Unsupported(refused)),
        (Err(wrong), _) => return Err(wrong),
    };
    connection.change(|state| state.revision = Some(server_info.revision));
    let ready = rpc::notification(methods::INITIALIZED, None);
    notification::send_notification(child, connection, ready.into()).await;
    Ok(ProbeOutcome::Initialized(server_info))
}

/// The inner error means that the server does not speak this protocol.
async fn call(
    child: &Arc<Child>,
    method: &str,
    params: &[u8],
) -> Result<Result<ChildResponse, ChildError>, ChildError> {
    let call = child.request(method, params)?;
    match call.answer(LIMITS).await {
        Ok(answer) => Ok(Ok(answer)),
        Err(ChildError::Remote(error)) if error.is_about_protocol() => Ok(Err(error.into())),
        Err(error) => Err(error),
    }
}

fn outcome(answer: &ChildResponse) -> Option<Outcome<'_>> {
    match Message::parse(&answer.body) {
        Ok(Message::Response { outcome, .. }) => Some(outcome),
        _ => None,
    }
}

/// Whether the code of an error exists only in the modern era.
fn is_modern(error: Raw<'_>) -> bool {
    let code = Members::of(error).and_then(|error| error.get("code")?.get().parse::<i64>().ok());
    code.is_some_and(error_codes::is_modern)
}

/// Whether the error refuses our revision and names none that we know.
fn is_unsupported(error: Raw<'_>) -> bool {
    let code = Members::of(error).and_then(|error| error.get("code"));
    code.is_some_and(|code| code.get() == error_codes::UNSUPPORTED_VERSION.to_string())
        && !names_modern(error)
}

fn unusable(method: &str, said: Raw<'_>) -> ChildError {
    ChildError::Unusable { why: format!("refused `{method}`: {}", clip(said.get())) }
}
