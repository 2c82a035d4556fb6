//! Which way a remote server is spoken with: the modern one, `initialize`, or the transport of 2024-11-05. What
//! worked last is tried first. Only what a server says about the way itself leads to the next one; refused
//! credentials, failures and time-outs end the attempt.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderValue;
use switchboard_wire::envelope::{Message, Outcome};
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use tokio::time::timeout;

use super::old_sse::{self, Opened};
use super::{Link, RemoteError, Talk, post, stream};
use crate::child::calls::Answer;
use crate::child::failure::clip;
use crate::child::handshake::{PATIENT, names_modern, params, read};
use crate::child::{Child, ChildError, Hello, Limits, Manner, Tie, millis};
use crate::definition::Transport;
use crate::era::envelope::{Envelope, dressed};
use crate::methods;

/// Bounded by whoever starts the child.
const LIMITS: Limits = Limits { spawn: PATIENT, rpc: PATIENT, max: PATIENT };

/// How long a new session may take to begin.
const RENEWAL: Duration = Duration::from_secs(15);

/// What became of one way.
enum Tried {
    Hello(Hello),
    /// The server does not speak it; what it said.
    NotThisWay(ChildError),
}

pub(super) async fn shake(
    child: &Arc<Child>,
    link: &Arc<Link>,
    remembered: Option<Manner>,
) -> Result<Hello, ChildError> {
    use Manner::{Legacy, Modern, OldSse};
    let ways = match (remembered, link.transport) {
        (Some(Legacy), _) => [Legacy, Modern, OldSse],
        (Some(OldSse), _) | (None, Transport::Sse) => [OldSse, Modern, Legacy],
        (Some(Modern), _) | (None, Transport::Http) => [Modern, Legacy, OldSse],
    };
    let mut refusal = None;
    for manner in ways {
        link.change(|talk| *talk = Talk { manner, ..Talk::default() });
        let tried = match manner {
            Modern => discover(child).await?,
            Legacy => initialize(child, link).await?,
            OldSse => match old_sse::open(child, link).await? {
                Opened::Stream(reading) => {
                    let tried = initialize(child, link).await?;
                    // The end of a stream that serves nobody must not be the end of the child.
                    if let Tried::NotThisWay(_) = tried {
                        reading.abort();
                    }
                    tried
                }
                Opened::None(refused) => Tried::NotThisWay(refused.into()),
            },
        };
        match tried {
            Tried::Hello(hello) => return Ok(hello),
            // What it says to `initialize` tells a person most.
            Tried::NotThisWay(why) if manner == Legacy || refusal.is_none() => refusal = Some(why),
            Tried::NotThisWay(_) => {}
        }
    }
    Err(refusal.expect("BUG: there are ways to try"))
}

/// A legacy server has forgotten the session `lost`: a new one is begun, once for all who notice.
/// It goes on if the call that noticed is cancelled: others wait for it too.
pub(super) async fn renew(child: &Arc<Child>, link: &Arc<Link>, lost: &Talk) -> Result<(), ChildError> {
    let renewed = tokio::spawn(begin_anew(child.clone(), link.clone(), lost.session.clone()));
    renewed.await.unwrap_or(Err(ChildError::Stopped))
}

async fn begin_anew(child: Arc<Child>, link: Arc<Link>, lost: Option<HeaderValue>) -> Result<(), ChildError> {
    let (child, link) = (&child, &link);
    let _turn = link.turn.lock().await;
    // None at all is one that could not be begun: it is tried again.
    let now = link.talk().session;
    if now != lost && now.is_some() {
        return Ok(());
    }
    tracing::info!(target: "child", child = child.name(), "its server forgot the session; a new one is begun");
    link.change(|talk| *talk = Talk { manner: talk.manner, ..Talk::default() });
    let begun = timeout(RENEWAL, initialize(child, link)).await;
    let hello = match begun.map_err(|_| ChildError::Silent { ms: millis(RENEWAL) })?? {
        Tried::Hello(hello) => hello,
        Tried::NotThisWay(why) => return Err(why),
    };
    if hello.revision != child.hello().revision {
        return Err(RemoteError::Changed { now: hello.revision.to_owned() }.into());
    }
    child.is_new_again();
    stream::begin(child, link);
    Ok(())
}

async fn discover(child: &Arc<Child>) -> Result<Tried, ChildError> {
    let mut params = Vec::new();
    dressed(None, &Envelope::ours(), &mut params);
    let mut asked = ask(child, methods::DISCOVER, &params).await?;
    // It refused the revision and then names it among those that it has: it may as well be asked once more.
    if let Ok(answer) = &asked
        && let Some(Outcome::Error(error)) = outcome(answer)
        && names_modern(error)
    {
        asked = ask(child, methods::DISCOVER, &params).await?;
    }
    let answer = match asked {
        Ok(answer) => answer,
        Err(refused) => return Ok(Tried::NotThisWay(refused)),
    };
    match outcome(&answer) {
        Some(Outcome::Result(result)) => Ok(match Hello::discovered(result) {
            Some(hello) => Tried::Hello(hello),
            None => Tried::NotThisWay(unusable(methods::DISCOVER, result)),
        }),
        Some(Outcome::Error(error)) if is_modern(error) && !is_unsupported(error) => {
            Err(unusable(methods::DISCOVER, error))
        }
        Some(Outcome::Error(error)) => Ok(Tried::NotThisWay(unusable(methods::DISCOVER, error))),
        None => Ok(Tried::NotThisWay(RemoteError::Unanswered.into())),
    }
}

async fn initialize(child: &Arc<Child>, link: &Arc<Link>) -> Result<Tried, ChildError> {
    let params = params(!matches!(child.tie(), Tie::Nobody));
    let answer = match ask(child, methods::INITIALIZE, params.as_bytes()).await? {
        Ok(answer) => answer,
        Err(refused) => return Ok(Tried::NotThisWay(refused)),
    };
    let hello = match (read(&answer), outcome(&answer)) {
        (Ok(hello), _) => hello,
        (Err(refused), Some(Outcome::Error(_))) => return Ok(Tried::NotThisWay(refused)),
        (Err(wrong), _) => return Err(wrong),
    };
    link.change(|talk| talk.revision = Some(hello.revision));
    let ready = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    post::tell(child, link, ready.as_slice().into()).await;
    Ok(Tried::Hello(hello))
}

/// The inner error is what a server says that does not speak this way.
async fn ask(
    child: &Arc<Child>,
    method: &str,
    params: &[u8],
) -> Result<Result<Answer, ChildError>, ChildError> {
    let call = child.call(None, method, None, |_, out| out.extend_from_slice(params))?;
    match call.answer(LIMITS).await {
        Ok(answer) => Ok(Ok(answer)),
        Err(ChildError::Remote(error)) if error.is_about_manner() => Ok(Err(error.into())),
        Err(error) => Err(error),
    }
}

fn outcome(answer: &Answer) -> Option<Outcome<'_>> {
    match Message::parse(&answer.body) {
        Ok(Message::Response { outcome, .. }) => Some(outcome),
        _ => None,
    }
}

/// Whether the code of an error is one that only the modern era has.
fn is_modern(error: Raw<'_>) -> bool {
    let code = Members::of(error).and_then(|error| error.get("code")?.get().parse::<i64>().ok());
    code.is_some_and(|code| (-32022..=-32020).contains(&code))
}

/// Whether it refuses the revision, and names none that we know.
fn is_unsupported(error: Raw<'_>) -> bool {
    let code = Members::of(error).and_then(|error| error.get("code"));
    code.is_some_and(|code| code.get() == crate::error::UNSUPPORTED_VERSION.to_string())
        && !names_modern(error)
}

fn unusable(method: &str, said: Raw<'_>) -> ChildError {
    ChildError::Unusable { why: format!("refused `{method}`: {}", clip(said.get())) }
}
