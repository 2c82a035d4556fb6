//! Handles a child that requires a login: the user is sent to the login page, if the host supports that, and
//! the call is repeated. This is safe: a server that asks for a login has not processed the call.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use switchboard_mcp::era::ProtocolEra;
use switchboard_mcp::methods;
use switchboard_wire::members::Members;
use switchboard_wire::rpc;

use super::{InputNeeded, Suite, SuiteReply};
use crate::caller::{Caller, SentAs, StatelessRequest};
use crate::child::remote::RemoteError;
use crate::child::remote::auth::AuthError;
use crate::child::{ChildError, ChildResponse};
use crate::oauth::Login;
use crate::oauth::login::Attempt;
use crate::suite::failure::Failure;

/// One login for access, and two for scopes that turn out to be missing.
pub const MAX_LOGINS: usize = 3;

/// The key of the question to a modern host.
const KEY: &str = "switchboard-login";

/// Hosts time out a call after a minute; a modern one is asked to retry before that.
const LOGIN_WAIT: Duration = Duration::from_secs(45);

/// The outcome of a call that requires a login.
pub enum LoginOutcome {
    /// The call may be repeated.
    LoggedIn,
    /// The user cannot be asked; the failure stands.
    NotPossible,
    /// The host must show the login page and retry.
    NeedsInput(SuiteReply),
}

impl Suite {
    /// Asks the caller's user to log in, if the call failed for lack of a login.
    pub async fn log_in(&self, caller: &Arc<Caller>, failure: &Failure) -> Result<LoginOutcome, Failure> {
        if !wants_login(failure) || !caller.profile().client_capabilities.elicitation_url {
            return Ok(LoginOutcome::NotPossible);
        }
        let Some(login) = self.login().await else { return Ok(LoginOutcome::NotPossible) };
        let attempt = login.begin(false).await.map_err(|error| self.login_failed(error))?;
        if caller.as_stateless().is_some() {
            return Ok(LoginOutcome::NeedsInput(login_question(self.child_name(), caller, &attempt)));
        }
        attempt
            .ask(caller, self.child_name())
            .await
            .map_err(|why| self.login_failed(AuthError::Failed { why }))?;
        Ok(LoginOutcome::LoggedIn)
    }

    /// Handles the retry of a modern host after the login page. Asks again if the login is not finished in
    /// time.
    pub async fn resume_after_login(
        &self,
        caller: &Arc<Caller>,
        params: &Members<'_>,
    ) -> Result<Option<SuiteReply>, Failure> {
        let Some(action) = action(params) else { return Ok(None) };
        let Some(login) = self.login().await else { return Ok(None) };
        let Some(attempt) = login.latest().await else { return Ok(None) };
        if action != "accept" && attempt.is_open() {
            return Err(self
                .login_failed(AuthError::Failed { why: format!("the login was answered with `{action}`") }));
        }
        match tokio::time::timeout(LOGIN_WAIT, attempt.wait_done()).await {
            Ok(Ok(())) => Ok(None),
            Ok(Err(why)) => Err(self.login_failed(AuthError::Failed { why })),
            Err(_) => Ok(Some(login_question(self.child_name(), caller, &attempt))),
        }
    }

    async fn login(&self) -> Option<Arc<Login>> {
        self.pool.as_ref()?.login().await.ok().flatten()
    }

    fn login_failed(&self, error: AuthError) -> Failure {
        self.failed(None, ChildError::Remote(RemoteError::Auth(error)))
    }
}

/// Whether the params answer a login question.
pub fn is_about_login(params: &Members<'_>) -> bool {
    action(params).is_some()
}

fn action(params: &Members<'_>) -> Option<String> {
    let response = params.get("inputResponses").and_then(Members::of)?.get(KEY)?;
    Some(Members::of(response)?.text("action")?.into_owned())
}

/// The params without the answer to the login question, which is not for a child.
pub fn without_login<'a>(params: &Members<'a>) -> Members<'a> {
    Members(params.0.iter().filter(|(key, _)| key != "inputResponses").cloned().collect())
}

fn wants_login(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Child { error: ChildError::Remote(RemoteError::Auth(AuthError::Login { .. })), .. }
    )
}

/// The question in the format of a modern child, so that it takes the same path.
fn login_question(child: &str, caller: &Caller, attempt: &Attempt) -> SuiteReply {
    let request = json!({ "method": methods::ELICITATION, "params": attempt.invitation(child) });
    let result = json!({ "resultType": "input_required", "inputRequests": { KEY: request } });
    let body = Bytes::from(rpc::result("0", &result.to_string()));
    let id = rpc::ID_START..rpc::ID_START + 1;
    // The user has said yes to the call, and it was not processed.
    let confirmed = caller.as_stateless().and_then(StatelessRequest::confirmed_key).map(Into::into);
    // No process has this id, so the retry may use any child.
    SuiteReply::NeedsInput(Box::new(InputNeeded::Child {
        answer: ChildResponse { body, id, era: ProtocolEra::Modern, error: None, asked: Duration::ZERO },
        sent_as: SentAs { confirmed, ..SentAs::default() },
    }))
}
