//! Asks the host's user whether a held server may run. Only shim sessions are asked: their host can show the
//! question to a user. The answer is the only trust decision that the daemon itself stores.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::json;
use switchboard_definitions::config::Restrictions;
use switchboard_definitions::definition::{Definition, Launch, LaunchCommand};
use switchboard_definitions::own_limits::OwnLimits;
use switchboard_definitions::trust::view::{ShownValues, View};
use switchboard_definitions::trust::{Decision, JudgedSettings, TrustRecord, TrustStatus, project_files};
use switchboard_mcp::methods;
use switchboard_wire::envelope::Message;
use switchboard_wire::event_loop::run_blocking;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use tokio::sync::oneshot;

use crate::caller::Caller;
use crate::session::Session;
use crate::state::Daemon;
use crate::suite::Suite;

/// Hosts time out a call after a minute. The question stays open, and a later answer still counts.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(50);

const ALLOW: &str = "allow this version";
const NOT_NOW: &str = "not now";
const NEVER: &str = "never";

/// What the question was about when it was asked: the user allows exactly what was shown.
struct ConsentQuestion {
    definition: Arc<Definition>,
    /// Includes the program that was found for it.
    launch: Launch,
    restrictions: Restrictions,
    limits: OwnLimits,
    host: String,
}

/// Whether this caller can be asked about the suite.
pub(super) fn may_ask(daemon: &Daemon, session: &Session, caller: &Caller, suite: &Suite) -> bool {
    suite.pending().is_some()
        && session.is_shims
        && daemon.catalog().config().trust.elicit
        && caller.profile().client_capabilities.elicitation_form
}

/// True if the user has allowed the server and the call may go ahead. If an older, allowed version serves the
/// call, this does not wait for the answer.
pub(super) async fn ask(
    daemon: &Arc<Daemon>,
    session: &Arc<Session>,
    caller: &Arc<Caller>,
    suite: &Suite,
) -> bool {
    let Some(waiting) = suite.pending().filter(|_| may_ask(daemon, session, caller, suite)) else {
        return false;
    };
    let serves_on = matches!(suite.trust_status, TrustStatus::Outdated { .. });
    let before = suite.definition.launch.as_ref().ok().filter(|_| serves_on);
    let question = ConsentRequest {
        daemon: daemon.clone(),
        session: session.clone(),
        caller: caller.clone(),
        definition: suite.definition.clone(),
        waiting: waiting.clone(),
        limits: suite.trust_status.pending_limits(&suite.definition).clone(),
        before: before.cloned(),
        settings: suite.judged.clone(),
    };
    if serves_on {
        tokio::spawn(question.put());
        return false;
    }
    let Some(answered) = question.put().await else { return false };
    tokio::time::timeout(ANSWER_TIMEOUT, answered).await.is_ok_and(|allowed| allowed.unwrap_or(false))
}

struct ConsentRequest {
    daemon: Arc<Daemon>,
    session: Arc<Session>,
    caller: Arc<Caller>,
    definition: Arc<Definition>,
    waiting: Launch,
    limits: OwnLimits,
    before: Option<Launch>,
    settings: JudgedSettings,
}

impl ConsentRequest {
    async fn put(self) -> Option<oneshot::Receiver<bool>> {
        let (launch, program) = match self.waiting {
            Launch::Process(launch) => {
                // A missing program cannot be allowed; the call's failure reports it.
                let program = self.daemon.services.value_resolver.find_program(&launch).await.ok()?;
                (Launch::Process(LaunchCommand { program: Some(program.clone()), ..launch }), Some(program))
            }
            remote => (remote, None),
        };
        // Ask once per session for each version of a server and each program that was found for it.
        let Definition { file, name, .. } = &*self.definition;
        if !self.session.may_ask(&format!(
            "{file:?} {name:?} {} {program:?} {:?} {}",
            launch.digest(),
            self.settings.wanted,
            self.limits
        )) {
            return None;
        }
        let root = self.session.workspace().root.clone().unwrap_or_default();
        let given = self.daemon.services.value_resolver.given(&launch).await;
        let (of, in_root) = (launch.clone(), root.clone());
        let files = run_blocking(move || project_files(&of, of.allowed_program(), &in_root)).await;
        let view = View {
            definition: &self.definition,
            launch: &launch,
            program: program.as_deref().map(Ok),
            before: self.before.as_ref(),
            limits: &self.limits,
            root: &root,
            is_masked: false,
            values: ShownValues::Definition,
            given: &given,
            project_files: &files,
            settings: &self.settings,
        };
        let message = format!(
            "Switchboard: a server of this workspace waits for your approval. This version of it does not run until you allow it.\n\n{}",
            view.lines().join("\n")
        );
        let host = self.caller.profile().client_name().unwrap_or_else(|| "a host".to_owned());
        let (restrictions, limits) = (self.settings.wanted, self.limits);
        let asked = ConsentQuestion { definition: self.definition, launch, restrictions, limits, host };
        let (told, answered) = oneshot::channel();
        put(&self.daemon, &self.caller, &message, asked, told).then_some(answered)
    }
}

/// Sends the question. The answer is handled whenever it comes.
fn put(
    daemon: &Arc<Daemon>,
    caller: &Caller,
    message: &str,
    asked: ConsentQuestion,
    decided: oneshot::Sender<bool>,
) -> bool {
    let params = json!({
        "message": message,
        "requestedSchema": {
            "type": "object",
            "properties": { "decision": {
                "type": "string",
                "title": "May it run?",
                "enum": [ALLOW, NOT_NOW, NEVER],
            } },
            "required": ["decision"],
        },
    });
    let request =
        json!({ "jsonrpc": "2.0", "id": "consent", "method": methods::ELICITATION, "params": params })
            .to_string();
    let Ok(Message::Request { id, params, .. }) = Message::parse(request.as_bytes()) else { return false };
    let daemon = daemon.clone();
    let heard = move |response: &[u8], _: Raw<'_>| {
        let decision = decision(response);
        tokio::spawn(async move {
            let _ = decided.send(note(&daemon, asked, decision.as_deref()).await);
        });
    };
    caller.ask(request.as_bytes(), id, methods::ELICITATION, params, heard).is_some()
}

/// The user's choice; `None` if the user made none.
fn decision(response: &[u8]) -> Option<String> {
    let response: Members<'_> = Raw::parse(response).and_then(Members::of)?;
    let result = response.get("result").and_then(Members::of)?;
    if result.text("action").as_deref() != Some("accept") {
        return None;
    }
    Some(result.get("content").and_then(Members::of)?.text("decision")?.into_owned())
}

async fn note(daemon: &Arc<Daemon>, asked: ConsentQuestion, decision: Option<&str>) -> bool {
    let verdict = match decision {
        Some(ALLOW) => Decision::Allow(Box::new(asked.launch)),
        Some(NEVER) => Decision::Deny,
        _ => return false,
    };
    let allows = verdict != Decision::Deny;
    let by = format!("the user in {:?}, asked there", asked.host);
    let at = switchboard_definitions::time::utc(SystemTime::now());
    let record = TrustRecord { verdict, restrictions: asked.restrictions, limits: asked.limits, at, by };
    let (store, definition) = (daemon.workspace_loader.locations.trust.clone(), asked.definition);
    let (file, name) = (definition.file.clone(), definition.name.clone());
    let (shown, child) = (file.display().to_string(), name.clone());
    match run_blocking(move || store.record(&file, &name, record)).await {
        Ok(()) => {
            let word = if allows { "allowed" } else { "denied" };
            tracing::info!(target: "trust", server = child, file = shown, "{word} by the user in their editor");
            daemon.reload_requests.reload().await;
            allows
        }
        Err(error) => {
            tracing::warn!(target: "trust", server = child, "{error}");
            false
        }
    }
}
