//! The tool that stands for a child: `introspect` lists its subtools, `call` runs one. With `split` there are two, one
//! for what only reads (`split.rs`).
//!
//! Mistakes that a model can fix are answered with a tool error that says how. Everything else is a
//! `Failure`; `failure.rs` turns it into a result or, if the host caused it, into a protocol error. A child's
//! result passes through unchanged.

mod acceptance;
mod annotations;
mod arguments;
mod call;
mod compact;
mod confirm;
mod context;
pub mod description;
mod drift;
mod elicitation;
pub mod failure;
pub mod find_tool;
mod found;
pub mod introspect;
mod introspect_call;
mod introspect_options;
mod judged_call;
mod known_tools;
mod lenient;
pub mod login;
mod obstacle;
pub mod outgoing;
mod own_tools;
pub mod own_words;
mod purpose;
mod recorded_call;
mod refusal;
mod reply;
mod sent_call;
mod shown_arguments;
mod split;
pub mod summary;
pub mod suspendable;

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use switchboard_definitions::config::{Config, Describe, Mode, SuiteConfig};
use switchboard_definitions::definition::{Definition, Launch};
use switchboard_definitions::discover::host_files::HostSet;
use switchboard_definitions::trust::{JudgedDefinition, JudgedSettings, TrustStatus, view};
use switchboard_mcp::era::request_params::RequestParams;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use switchboard_wire::visible::visible;
use tokio::time::Instant;

use crate::caller::Caller;
use crate::caller::mailbox::MessageKind;
use crate::child::{ChildError, Limits, ToolList};
use crate::observe::metrics::OperationNotes;
use crate::observe::metrics::suite_metrics::SuiteMetrics;
use crate::pool::baseline::ToolBaseline;
use crate::pool::{Lease, Pool, PoolError, PoolStatus};
use crate::suite::failure::Failure;

pub use context::{CallContext, CallTarget, ListedName};
pub use judged_call::CallArguments;
use login::LoginOutcome;
pub use own_tools::{ListedSuite, ShownForm};
pub use refusal::MAX_ECHO;
pub use reply::SuiteReply;
use reply::{refusal, tool_error};
pub use split::SuitePart;
pub use suspendable::{InputNeeded, SuspendableCall};

/// Interval of progress messages to a caller that waits for a child.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);
/// Hosts time out a call after a minute; we answer sooner that the call should be repeated.
const START_ANSWER_TIMEOUT: Duration = Duration::from_secs(50);

/// No other properties: some hosts refuse or drop arguments that a tool does not declare. Some rewrite an object
/// without properties unless it says that it takes any.
const INPUT_SCHEMA: &str = r#"{"type":"object","properties":{"action":{"type":"string","enum":["introspect","call"],"description":"find or run"},"subtool":{"type":"string","description":"Its name"},"args":{"type":"object","description":"Arguments","additionalProperties":true},"query":{"type":"string","description":"What to do"}},"required":["action"]}"#;

/// How much of a command line a model is shown, in characters; a user is shown all of it.
const MAX_SHOWN_COMMAND: usize = 600;

#[derive(Debug, Clone)]
pub struct Suite {
    pub name: String,
    /// The name of the tool for what writes, if the suite is split.
    pub writing_name: String,
    pub definition: Arc<Definition>,
    pub trust_status: TrustStatus,
    pub settings: SuiteConfig,
    /// What these settings forbid, and what the configuration wants.
    pub judged: JudgedSettings,
    pub limits: Limits,
    /// `None` for a definition that is held or cannot be started.
    pub pool: Option<Arc<Pool>>,
    /// Whether the definition comes from the workspace, not from the user.
    pub of_workspace: bool,
    /// The hosts that read the definition themselves, from a file of the project.
    pub read_by: HostSet,
    /// Its metrics, carried over from catalog to catalog.
    pub metrics: Arc<SuiteMetrics>,
    /// What the user accepted of its tools.
    pub baseline: Option<Arc<ToolBaseline>>,
    mode: Mode,
    summary_max_chars: usize,
    describe: Describe,
    describe_max_chars: usize,
    max_bytes: usize,
}

/// The `params` of a suite's `tools/call`.
#[derive(Clone, Copy)]
struct HostParams<'a> {
    members: &'a Members<'a>,
    /// The host's progress token, unchanged and not validated.
    token: Option<Raw<'a>>,
    arguments: &'a Members<'a>,
}

impl Suite {
    /// `config`: the config of the layer that the definition comes from.
    pub fn new(
        [name, writing_name]: [String; 2],
        entry: &JudgedDefinition,
        config: &Config,
        of_workspace: bool,
        pool: Option<Arc<Pool>>,
        metrics: Arc<SuiteMetrics>,
    ) -> Self {
        let JudgedDefinition { definition, trust_status, read_by, settings: judged, .. } = entry.clone();
        let mut settings = config.suite(&definition.name);
        if of_workspace {
            settings.restrict(&judged.in_force);
        }
        // Those of all files with this server hold.
        let mut limits = definition.limits.clone();
        limits.restrict(&entry.other_limits);
        settings.limit(&limits);
        let mut timeouts = settings.timeouts;
        let own = definition.timeout.and_then(|timeout| u64::try_from(timeout.as_millis()).ok());
        timeouts.rpc_ms = timeouts.rpc_ms.or(own);
        Self {
            limits: config.timeouts.limits(timeouts),
            baseline: None,
            mode: config.introspection.mode,
            describe: config.introspection.describe,
            describe_max_chars: config.introspection.describe_max_chars,
            max_bytes: config.introspection.max_bytes,
            summary_max_chars: settings.summary_max_chars.unwrap_or(config.introspection.summary_max_chars),
            name,
            writing_name,
            definition,
            trust_status,
            settings,
            judged,
            pool,
            of_workspace,
            read_by,
            metrics,
        }
    }

    /// Whether something of its server's own words may be shown: neither it nor its program is held.
    pub fn may_be_shown(&self) -> bool {
        !self.is_held() && !self.facts().is_held()
    }

    /// Whether it must not run until a user allows it.
    pub fn is_held(&self) -> bool {
        self.trust_status == TrustStatus::Held
    }

    /// What awaits a user's decision: a new server, a new version, or a changed program.
    pub fn pending(&self) -> Option<&Launch> {
        match &self.trust_status {
            TrustStatus::Outdated { pending: waiting, .. } => Some(waiting),
            TrustStatus::Held => self.definition.launch.as_ref().ok(),
            _ => self
                .definition
                .launch
                .as_ref()
                .ok()
                .filter(|_| self.pool.as_ref().is_some_and(|pool| pool.status() == PoolStatus::Held)),
        }
    }

    /// The exposed tools of `list`, as the child wrote them, joined for a JSON array.
    pub fn exposed(&self, list: &ToolList) -> String {
        let tools = list.tools.iter().filter(|tool| self.shows(&tool.name));
        tools.map(|tool| tool.raw.get()).collect::<Vec<_>>().join(",")
    }

    /// The exposed tools of `list`; without schemas if the mode is redacted.
    pub fn listed(&self, list: &Arc<ToolList>) -> String {
        match self.mode {
            Mode::Redacted => {
                let marks = self.marks_of(self.acceptance(Some(list)), self.current_part(), None);
                let list = drift::without_held(list, self.held_if_known(list).as_deref());
                introspect::entries(&list, &self.settings.expose, self.introspect_options(&marks))
            }
            Mode::Summary | Mode::Compact | Mode::Full => self.exposed(list),
        }
    }

    /// The tools of `list` that may be shown, each with the summary of its description.
    pub fn summaries<'l>(
        &'l self,
        list: &'l ToolList,
    ) -> impl Iterator<Item = (&'l str, Option<String>)> + use<'l> {
        let tools = list.tools.iter().filter(|tool| self.shows(&tool.name));
        tools.map(|tool| {
            let text = tool.description.as_deref();
            (&*tool.name, text.map(|text| summary::summary(text, self.summary_max_chars)))
        })
    }

    pub fn is_remote(&self) -> bool {
        matches!(self.definition.launch, Ok(Launch::Remote(_)))
    }

    pub fn child_name(&self) -> &str {
        &self.definition.name
    }

    /// Leases a child. Fails at once for a definition that cannot be started. While the caller waits it gets
    /// progress, if it asked for it; the wait ends before hosts time out.
    pub async fn lease(&self, call: CallContext<'_>) -> Result<Lease, Failure> {
        let CallContext { caller, asked, tool: subtool, token, .. } = call;
        let pool = self.pool()?;
        let mut lease = pin!(pool.lease_since(caller, self.limits, asked));
        loop {
            let pause = async {
                let news = (Instant::now() + PROGRESS_INTERVAL).min(asked + START_ANSWER_TIMEOUT);
                tokio::time::sleep_until(news).await;
            };
            tokio::select! {
                biased;
                lease = &mut lease => return lease.map_err(|error| self.unavailable(subtool, error)),
                // The clock is read only if no child is free.
                () = pause => {}
            }
            let seconds = asked.elapsed().as_secs();
            let starts = pool.status() != PoolStatus::Ready;
            if asked.elapsed() >= START_ANSWER_TIMEOUT {
                let (child, subtool) = (self.child_name().into(), subtool.map(Into::into));
                return Err(Failure::StillStarting { child, subtool, seconds, starts });
            }
            if let Some(token) = token {
                let news = outgoing::waiting(token, starts, self.child_name(), seconds);
                caller.push(MessageKind::Progress(token.into()), news);
            }
        }
    }

    fn pool(&self) -> Result<&Arc<Pool>, Failure> {
        self.pool.as_ref().ok_or_else(|| self.why_no_pool())
    }

    fn why_no_pool(&self) -> Failure {
        let (child, file) = (self.child_name().into(), self.definition.file.display().to_string());
        match &self.definition.launch {
            Ok(launch) if self.is_held() => Failure::Held {
                child,
                what: format!("`{}`", summary::summary(&view::mentioned(launch), MAX_SHOWN_COMMAND)),
                file: visible(&file).into_owned(),
            },
            Ok(Launch::Process(_)) => Failure::Misconfigured { child, why: "no command".to_owned(), file },
            Ok(Launch::Remote(_)) => Failure::Misconfigured { child, why: "no url".to_owned(), file },
            Err(why) => {
                let file = self.definition.to_fix().display().to_string();
                Failure::Misconfigured { child, why: why.clone(), file }
            }
        }
    }

    pub fn unavailable(&self, subtool: Option<&str>, error: PoolError) -> Failure {
        match error {
            PoolError::Child(error) => self.failed(subtool, error),
            error => Failure::Unavailable {
                child: self.child_name().into(),
                subtool: subtool.map(Into::into),
                error,
            },
        }
    }

    pub fn failed(&self, subtool: Option<&str>, error: ChildError) -> Failure {
        Failure::Child { child: self.child_name().into(), subtool: subtool.map(Into::into), error }
    }

    /// Runs a `tools/call` of this suite, or of one of the server's own tools.
    pub async fn run(
        &self,
        caller: &Arc<Caller>,
        params: &RequestParams<'_>,
        target: CallTarget<'_>,
        notes: Option<&OperationNotes>,
    ) -> Result<SuiteReply, Failure> {
        let token = params.progress_token().map(Raw::get);
        let written_token = params.raw_progress_token();
        let params = &params.members;
        let given = params.get("arguments").filter(|given| target.own.is_none() || !given.is_null());
        let arguments = match given {
            None => Members::default(),
            // As if the suite had been called with them.
            Some(raw) if target.own.is_some() => Members(vec![("args".into(), raw)]),
            Some(raw) => match Members::of(raw) {
                Some(arguments) => arguments,
                None => return Ok(tool_error("`arguments` must be an object")),
            },
        };
        let subtool = match target
            .own
            .map_or_else(|| text_member(&arguments, "subtool"), |own| Ok(Some(Cow::Borrowed(own))))
        {
            Ok(subtool) => subtool,
            Err(sentence) => return Ok(tool_error(&sentence)),
        };
        let stripped_params = login::is_about_login(params).then(|| login::without_login(params));
        if stripped_params.is_some()
            && let Some(again) = self.resume_after_login(caller, params).await?
        {
            return Ok(again);
        }
        let params = stripped_params.as_ref().unwrap_or(params);
        let params = HostParams { members: params, token: written_token, arguments: &arguments };
        let call = || CallContext {
            tool: subtool.as_deref(),
            token,
            part: target.part,
            by_own_name: target.own.is_some(),
            search: target.search,
            instead: target.instead,
            ..CallContext::new(caller, notes)
        };
        let mut said = self.dispatch(call(), params).await;
        for _ in 0..login::MAX_LOGINS {
            let Err(failure) = &said else { break };
            said = match self.log_in(caller, failure).await {
                Ok(LoginOutcome::LoggedIn) => self.dispatch(call(), params).await,
                Ok(LoginOutcome::NeedsInput(asks)) => Ok(asks),
                Ok(LoginOutcome::NotPossible) => break,
                Err(failure) => Err(failure),
            };
        }
        said
    }

    async fn dispatch(&self, call: CallContext<'_>, params: HostParams<'_>) -> Result<SuiteReply, Failure> {
        let action = match call.by_own_name {
            true => Ok(Some(Cow::Borrowed("call"))),
            false => text_member(params.arguments, "action"),
        };
        match action {
            Err(sentence) => Ok(tool_error(&sentence)),
            Ok(Some(action)) if action == "introspect" => {
                call.notes.iter().for_each(|notes| notes.introspects());
                self.introspect(call, params.arguments).await
            }
            Ok(Some(action)) if action == "call" => {
                if let Some((notes, subtool)) = call.notes.zip(call.tool) {
                    notes.tool(subtool);
                }
                if let Some(notes) = call.notes.filter(|notes| notes.wants_arguments) {
                    self.note_arguments(params.arguments.get("args"), notes);
                }
                self.call(call, params).await
            }
            Ok(Some(action)) => Ok(self.unknown_action(&action)),
            Ok(None) if call.tool.is_some_and(|subtool| !subtool.is_empty()) => {
                call.notes.iter().for_each(|notes| call.tool.iter().for_each(|subtool| notes.tool(subtool)));
                self.call(call, params).await
            }
            Ok(None) => Ok(tool_error(&format!(
                "missing `action`; use {{\"action\":\"introspect\"}} to list the subtools of `{}`, or {{\"action\":\"call\",\"subtool\":…,\"args\":{{…}}}} to run one",
                self.name
            ))),
        }
    }

    pub fn not_allowed(&self, subtool: &str) -> SuiteReply {
        let failure = Failure::NotAllowed { suite: self.name.clone(), subtool: subtool.to_owned() };
        refusal(failure.kind(), &failure.to_string())
    }
}

/// A string member. Absent and `null` are the same; any other type is an error.
fn text_member<'a>(members: &Members<'a>, name: &str) -> Result<Option<Cow<'a, str>>, String> {
    match members.get(name) {
        None => Ok(None),
        Some(raw) if raw.get() == "null" => Ok(None),
        Some(raw) => switchboard_wire::envelope::string(raw)
            .map(Some)
            .ok_or_else(|| format!("`{name}` must be a string")),
    }
}
