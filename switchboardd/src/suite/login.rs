//! A child that wants its person to log in: whoever called is sent to the page, where their host can do that, and
//! what they called is tried again. A server that asked for a login has taken nothing of the call.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use switchboard_wire::members::Members;
use switchboard_wire::rpc;

use super::{InputNeeded, Suite, SuiteReply};
use crate::caller::Caller;
use crate::child::remote::RemoteError;
use crate::child::remote::auth::AuthError;
use crate::child::{ChildError, ChildResponse};
use crate::era::ProtocolEra;
use crate::error::Failure;
use crate::methods;
use crate::oauth::Login;
use crate::oauth::login::Attempt;

/// One to get in, and two for scopes that turn out to be missing.
pub const LOGINS: usize = 3;

/// The question to a modern host, by its key.
const KEY: &str = "switchboard-login";

/// Hosts give up on a call after a minute; a modern one is asked to come back before that.
const LOGIN_WAIT: Duration = Duration::from_secs(45);

/// What became of a call that wants a login.
pub enum LoginOutcome {
    /// It may be tried again.
    LoggedIn,
    /// Nobody can be asked: the failure stands.
    NotPossible,
    /// The host is to show a page, and to come back.
    NeedsInput(SuiteReply),
}

impl Suite {
    /// Has the person behind a caller log in, if that is what a call failed for.
    pub async fn log_in(&self, caller: &Arc<Caller>, failure: &Failure) -> Result<LoginOutcome, Failure> {
        if !wants_login(failure) || !caller.profile().client_capabilities.elicitation_url {
            return Ok(LoginOutcome::NotPossible);
        }
        let Some(login) = self.login().await else { return Ok(LoginOutcome::NotPossible) };
        let attempt = login.begin(false).await.map_err(|error| self.login_failed(error))?;
        if caller.as_stateless().is_some() {
            return Ok(LoginOutcome::NeedsInput(login_question(self.child_name(), &attempt)));
        }
        attempt
            .ask(caller, self.child_name())
            .await
            .map_err(|why| self.login_failed(AuthError::Failed { why }))?;
        Ok(LoginOutcome::LoggedIn)
    }

    /// A modern host that came back from the page: whether its person is in. One who is not yet is asked once more.
    pub async fn resume_after_login(&self, params: &Members<'_>) -> Result<Option<SuiteReply>, Failure> {
        let Some(action) = action(params) else { return Ok(None) };
        let Some(login) = self.login().await else { return Ok(None) };
        let Some(attempt) = login.latest().await else { return Ok(None) };
        if action != "accept" && attempt.is_open() {
            return Err(self
                .login_failed(AuthError::Failed { why: format!("the login was answered with `{action}`") }));
        }
        match tokio::time::timeout(LOGIN_WAIT, attempt.done()).await {
            Ok(Ok(())) => Ok(None),
            Ok(Err(why)) => Err(self.login_failed(AuthError::Failed { why })),
            Err(_) => Ok(Some(login_question(self.child_name(), &attempt))),
        }
    }

    async fn login(&self) -> Option<Arc<Login>> {
        self.pool.as_ref()?.login().await.ok().flatten()
    }

    fn login_failed(&self, error: AuthError) -> Failure {
        self.failed(None, ChildError::Remote(RemoteError::Auth(error)))
    }
}

/// Whether these are a modern host's words about a login.
pub fn is_about_login(params: &Members<'_>) -> bool {
    action(params).is_some()
}

fn action(params: &Members<'_>) -> Option<String> {
    let response = params.get("inputResponses").and_then(Members::of)?.get(KEY)?;
    Some(Members::of(response)?.text("action")?.into_owned())
}

/// The same without those words, which are not for a child.
pub fn without_login<'a>(params: &Members<'a>) -> Members<'a> {
    Members(params.0.iter().filter(|(key, _)| key != "inputResponses").cloned().collect())
}

fn wants_login(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Child { error: ChildError::Remote(RemoteError::Auth(AuthError::Login { .. })), .. }
    )
}

/// The question as a modern child would put it, so that it goes the way of theirs.
fn login_question(child: &str, attempt: &Attempt) -> SuiteReply {
    let request = json!({ "method": methods::ELICITATION, "params": attempt.invitation(child) });
    let result = json!({ "resultType": "input_required", "inputRequests": { KEY: request } });
    let body = Bytes::from(rpc::result("0", &result.to_string()));
    let id = rpc::ID_START..rpc::ID_START + 1;
    // No process has this number: whichever child there is then will do.
    SuiteReply::NeedsInput(Box::new(InputNeeded::Child {
        answer: ChildResponse { body, id, era: ProtocolEra::Modern, error: None },
        pid: 0,
    }))
}
