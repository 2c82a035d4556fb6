//! The one tool that stands for a child: `introspect` tells what its subtools are, `call` runs one.
//!
//! Mistakes that a model can mend are answered as results with a sentence that says how; everything
//! else is a failure, of which `error.rs` makes a result too. A child's result passes through untouched.

mod arguments;
mod call;
mod context;
mod elicitation;
pub mod introspect;
pub mod login;
pub mod outgoing;
pub mod summary;
pub mod suspendable;

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::envelope::quoted;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;
use tokio::time::Instant;

use crate::caller::Caller;
use crate::child::{ChildError, ChildResponse, Limits, ServerInfo, Tool, ToolList};
use crate::config::{Config, Mode, Scope, SuiteConfig};
use crate::definition::{Definition, Launch};
use crate::document::nearest;
use crate::era::request_params::RequestParams;
use crate::error::Failure;
use crate::mailbox::MessageKind;
use crate::manifest::Manifest;
use crate::metrics::suite_metrics::SuiteMetrics;
use crate::metrics::{OperationNotes, names, outcome};
use crate::pool::{Lease, Pool, PoolError, PoolStatus};
use crate::savings_recorder::Fingerprint;
use crate::trust::{JudgedDefinition, TrustStatus, view};
use crate::visible::visible;

pub use context::CallContext;
use login::LoginOutcome;
pub use suspendable::{InputNeeded, SuspendableCall};

/// How often somebody who waits for a start hears of it.
const STARTING_NEWS: Duration = Duration::from_secs(5);
/// Hosts give up on a call after a minute; we say sooner that it should be made again.
const STILL_STARTING: Duration = Duration::from_secs(50);

/// Only these properties: hosts are known to refuse or drop what a tool does not declare.
const INPUT_SCHEMA: &str = r#"{"type":"object","properties":{"action":{"type":"string","enum":["introspect","call"]},"subtool":{"type":"string"},"args":{"type":"object"},"query":{"type":"string"}},"required":["action"]}"#;

/// As much of a command line as a model is told; a person is shown all of it.
const HELD_SHOWN: usize = 600;

/// All that is said of a server that nobody has allowed yet: nothing of its own words.
const HELD: &str = "Held by Switchboard: this server was found in the workspace, and nothing of it runs until a person allows it with `switchboard allow`.";

#[derive(Debug)]
pub struct Suite {
    pub name: String,
    pub definition: Definition,
    pub trust_status: TrustStatus,
    pub settings: SuiteConfig,
    pub limits: Limits,
    /// `None` for a definition that is held or cannot be started.
    pub pool: Option<Arc<Pool>>,
    /// Not the person's own.
    pub of_workspace: bool,
    /// What is counted of it, in this catalog and those before it.
    pub metrics: Arc<SuiteMetrics>,
    mode: Mode,
    summary_max_chars: usize,
}

/// What a suite reads of the `params` of its `tools/call`.
#[derive(Clone, Copy)]
struct HostParams<'a> {
    members: &'a Members<'a>,
    /// The progress token as the host wrote it, whatever it is.
    token: Option<Raw<'a>>,
    arguments: &'a Members<'a>,
}

/// What a suite answers with.
#[derive(Debug)]
pub enum SuiteReply {
    /// The child's own answer, to be passed on as it is.
    Child(ChildResponse),
    /// A result of ours, as JSON.
    Own(String),
    /// An error of somebody else's, as JSON.
    Error(String),
    /// A question to a modern host.
    NeedsInput(Box<InputNeeded>),
}

impl SuiteReply {
    /// What it says of how the operation went; `None` if all is well.
    pub fn error(&self) -> Option<&'static str> {
        match self {
            Self::Child(answer) => answer.error,
            Self::Own(result) => outcome::of_text(result),
            Self::Error(error) => Some(Raw::parse(error.as_bytes()).map_or(names::OTHER, outcome::of_error)),
            Self::NeedsInput(_) => None,
        }
    }
}

impl Suite {
    /// `config`: that of the place the definition comes from.
    pub fn new(
        name: String,
        entry: &JudgedDefinition,
        config: &Config,
        of_workspace: bool,
        pool: Option<Arc<Pool>>,
        metrics: Arc<SuiteMetrics>,
    ) -> Self {
        let JudgedDefinition { definition, trust_status, .. } = entry.clone();
        let settings = config.suite(&definition.name);
        let mut timeouts = settings.timeouts;
        let own = definition.timeout.and_then(|timeout| u64::try_from(timeout.as_millis()).ok());
        timeouts.rpc_ms = timeouts.rpc_ms.or(own);
        Self {
            limits: config.timeouts.limits(timeouts),
            mode: config.introspection.mode,
            summary_max_chars: settings.summary_max_chars.unwrap_or(config.introspection.summary_max_chars),
            name,
            definition,
            trust_status,
            settings,
            pool,
            of_workspace,
            metrics,
        }
    }

    /// Whether nothing of it runs until a person allows it.
    pub fn is_held(&self) -> bool {
        self.trust_status == TrustStatus::Held
    }

    /// What waits for a person's word: a new server, a new version of one, or another program for it.
    pub fn pending(&self) -> Option<&Launch> {
        match &self.trust_status {
            TrustStatus::Outdated { pending: waiting } => Some(waiting),
            TrustStatus::Held => self.definition.launch.as_ref().ok(),
            _ => self
                .definition
                .launch
                .as_ref()
                .ok()
                .filter(|_| self.pool.as_ref().is_some_and(|pool| pool.status() == PoolStatus::Held)),
        }
    }

    /// Its entry in `tools/list`.
    pub fn tool(&self) -> String {
        let described =
            if self.is_held() { Some(HELD.to_owned()) } else { self.settings.description.clone() };
        let description = described.unwrap_or_else(|| {
            let subject = self.definition.description.as_deref().unwrap_or(&self.definition.name);
            let subject = summary::summary(subject, 400);
            let subject = subject.trim_end_matches('.');
            format!("Use this tool for {subject}. Actions: 'introspect' | 'call'")
        });
        format!(
            r#"{{"name":{},"description":{},"inputSchema":{INPUT_SCHEMA}}}"#,
            quoted(&self.name),
            quoted(&description)
        )
    }

    /// The tools of `list` that may be seen, as the child wrote them, for a result that lists them.
    pub fn exposed(&self, list: &ToolList) -> String {
        let tools = list.tools.iter().filter(|tool| self.settings.expose.permits(&tool.name));
        tools.map(|tool| tool.raw.get()).collect::<Vec<_>>().join(",")
    }

    /// The tools of `list` that may be seen, for somebody who asks for all: without schemas if nobody is to see them.
    pub fn listed(&self, list: &ToolList) -> String {
        match self.mode {
            Mode::Redacted => introspect::entries(list, &self.settings.expose, self.wish()),
            Mode::Summary | Mode::Full => self.exposed(list),
        }
    }

    /// Whether its child runs elsewhere.
    pub fn is_remote(&self) -> bool {
        matches!(self.definition.launch, Ok(Launch::Remote(_)))
    }

    pub fn child_name(&self) -> &str {
        &self.definition.name
    }

    /// A child to use. Fails at once for a definition that cannot be started. While it starts, a
    /// caller that asked for progress hears of it, and nobody waits longer than hosts do.
    pub async fn lease(&self, call: CallContext<'_>) -> Result<Lease, Failure> {
        let CallContext { caller, asked, tool: subtool, token, .. } = call;
        let pool = self.pool()?;
        let mut lease = pin!(pool.lease_since(caller, self.limits, asked));
        loop {
            let news = (Instant::now() + STARTING_NEWS).min(asked + STILL_STARTING);
            tokio::select! {
                biased;
                lease = &mut lease => return lease.map_err(|error| self.unavailable(subtool, error)),
                () = tokio::time::sleep_until(news) => {}
            }
            let seconds = asked.elapsed().as_secs();
            let starts = pool.status() != PoolStatus::Ready;
            if asked.elapsed() >= STILL_STARTING {
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
                what: format!("`{}`", summary::summary(&view::mentioned(launch), HELD_SHOWN)),
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

    /// Who the child says it is: the one that runs, or the one that ran last.
    pub fn server_info(&self) -> Option<ServerInfo> {
        let pool = self.pool.as_ref()?;
        match pool.running().first() {
            Some(child) => Some(child.server_info().clone()),
            None => Some(pool.manifest()?.server_info.clone()),
        }
    }

    /// What is known of the child without starting it.
    pub fn manifest(&self) -> Option<Arc<Manifest>> {
        self.pool.as_ref().and_then(|pool| pool.manifest())
    }

    /// The tools as far as they are known without a start of the child: as a running one has them, else as it last said.
    pub fn tools_if_known(&self) -> Option<Arc<ToolList>> {
        let pool = self.pool.as_ref()?;
        let running = pool.running().iter().find_map(|child| child.known_tools());
        running.or_else(|| pool.manifest().map(|manifest| manifest.tools.clone()))
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

    /// Runs a `tools/call` of this suite.
    pub async fn run(
        &self,
        caller: &Arc<Caller>,
        params: &RequestParams<'_>,
        notes: Option<&OperationNotes>,
    ) -> Result<SuiteReply, Failure> {
        let token = params.progress_token().map(Raw::get);
        let written_token = params.written_token();
        let params = &params.members;
        let arguments = match params.get("arguments") {
            None => Members::default(),
            Some(raw) => match Members::of(raw) {
                Some(arguments) => arguments,
                None => return Ok(tool_error("`arguments` must be an object")),
            },
        };
        let subtool = match text_member(&arguments, "subtool") {
            Ok(subtool) => subtool,
            Err(sentence) => return Ok(tool_error(&sentence)),
        };
        let stripped_params = login::is_about_login(params).then(|| login::without_login(params));
        if stripped_params.is_some()
            && let Some(again) = self.resume_after_login(params).await?
        {
            return Ok(again);
        }
        let params = stripped_params.as_ref().unwrap_or(params);
        let params = HostParams { members: params, token: written_token, arguments: &arguments };
        let call = || CallContext { tool: subtool.as_deref(), token, ..CallContext::new(caller, notes) };
        let mut said = self.dispatch(call(), params).await;
        for _ in 0..login::LOGINS {
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
        match text_member(params.arguments, "action") {
            Err(sentence) => Ok(tool_error(&sentence)),
            Ok(Some(action)) if action == "introspect" => {
                call.notes.iter().for_each(|notes| notes.introspects());
                self.introspect(call, params.arguments).await
            }
            Ok(Some(action)) if action == "call" => {
                if let Some((notes, subtool)) = call.notes.zip(call.tool) {
                    notes.tool(subtool);
                }
                self.call(call, params).await
            }
            Ok(Some(action)) => Ok(tool_error(&format!(
                "unknown action `{action}`; use `introspect` to list the subtools of `{}`, or `call` to run one",
                self.name
            ))),
            Ok(None) => Ok(tool_error(&format!(
                "missing `action`; use {{\"action\":\"introspect\"}} to list the subtools of `{}`, or {{\"action\":\"call\",\"subtool\":…,\"args\":{{…}}}} to run one",
                self.name
            ))),
        }
    }

    async fn introspect(
        &self,
        call: CallContext<'_>,
        arguments: &Members<'_>,
    ) -> Result<SuiteReply, Failure> {
        let list = self.known_tools(call).await?;
        let (caller, wish) = (call.caller, self.wish());
        if let Some(subtool) = call.tool {
            let list = match list.find(subtool) {
                Some(_) => list,
                None => {
                    let lease = self.lease(CallContext { asked: Instant::now(), ..call }).await?;
                    lease.renew_tools(self.limits).await.map_err(|error| self.failed(Some(subtool), error))?
                }
            };
            return Ok(match list.find(subtool) {
                Some(_) if !self.settings.expose.permits(subtool) => self.not_allowed(subtool),
                Some(tool) => self.fetched(caller, &introspect::single(tool, wish)),
                None => self.unknown_subtool(subtool, &list),
            });
        }
        let query = match text_member(arguments, "query") {
            Ok(query) => query.filter(|query| !query.trim().is_empty()),
            Err(sentence) => return Ok(tool_error(&sentence)),
        };
        let verbosity = arguments.get("args").and_then(Members::of).and_then(|args| args.text("verbosity"));
        let wants_schemas = verbosity.as_deref() == Some("full");
        let mode = if wants_schemas && self.mode != Mode::Redacted { Mode::Full } else { self.mode };
        let wish = introspect::Wish { mode, query: query.as_deref(), wants_schemas, ..wish };
        Ok(self.fetched(caller, &introspect::text(&list, &self.settings.expose, wish)))
    }

    /// What `introspect` gives when it is asked for everything.
    pub fn introspection(&self, list: &ToolList) -> String {
        introspect::text(list, &self.settings.expose, self.wish())
    }

    fn wish(&self) -> introspect::Wish<'static> {
        introspect::Wish {
            mode: self.mode,
            summary_max_chars: self.summary_max_chars,
            query: None,
            wants_schemas: false,
        }
    }

    /// An answer that takes room in a model's context, and is noted for it. A stranger may be no model at all.
    fn fetched(&self, caller: &Arc<Caller>, text: &str) -> SuiteReply {
        if let Some(pool) = &self.pool
            && let Some(mut usage) = caller.usage()
        {
            let mark = Fingerprint::of(text);
            usage.record_fetch(mark);
            drop(usage);
            pool.savings_recorder().record_fetched(pool.fingerprint(), mark, text);
        }
        SuiteReply::Own(text_result(text, false))
    }

    /// The tools as the running child has them; of one that does not run but did before, as it last
    /// said, while it is started in the background for the call that is likely to follow.
    async fn known_tools(&self, call: CallContext<'_>) -> Result<Arc<ToolList>, Failure> {
        let pool = self.pool()?;
        // What another session's own child said is no use of it.
        let shares = pool.settings().scope != Scope::Session;
        if let Some(known) = pool.running().iter().find_map(|child| child.known_tools()) {
            if shares {
                pool.note_use(call.caller, true);
            }
            return Ok(known);
        }
        if let Some(manifest) = pool.manifest() {
            if shares {
                pool.note_use(call.caller, pool.status() == PoolStatus::Ready);
            }
            pool.warm_up(self.limits);
            return Ok(manifest.tools.clone());
        }
        let lease = self.lease(call).await?;
        lease.tools(self.limits, Instant::now()).await.map_err(|error| self.failed(call.tool, error))
    }

    /// Whether its child is known to have this tool.
    pub fn has_tool(&self, name: &str) -> bool {
        let Some(pool) = &self.pool else { return false };
        let has = |list: &ToolList| list.find(name).is_some();
        pool.running().iter().any(|child| child.known_tools().is_some_and(|list| has(&list)))
            || pool.manifest().is_some_and(|manifest| has(&manifest.tools))
    }

    pub fn not_allowed(&self, subtool: &str) -> SuiteReply {
        let refusal = Failure::NotAllowed { suite: self.name.clone(), subtool: subtool.to_owned() };
        tool_error(&refusal.to_string())
    }

    fn unknown_subtool(&self, subtool: &str, list: &ToolList) -> SuiteReply {
        let names: Vec<&str> = list
            .tools
            .iter()
            .map(|tool: &Tool| &*tool.name)
            .filter(|name| self.settings.expose.permits(name))
            .collect();
        let hint = match nearest(subtool, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if names.is_empty() => "it has none".to_owned(),
            None => {
                let some: Vec<_> = names.iter().take(20).map(|name| format!("`{name}`")).collect();
                format!("there are {}{}", some.join(", "), if names.len() > 20 { " and more" } else { "" })
            }
        };
        tool_error(&format!("unknown subtool `{subtool}` (suite `{}`); {hint}", self.name))
    }
}

/// A string member; absent and `null` are the same, anything else is a mistake.
fn text_member<'a>(members: &Members<'a>, name: &str) -> Result<Option<Cow<'a, str>>, String> {
    match members.get(name) {
        None => Ok(None),
        Some(raw) if raw.get() == "null" => Ok(None),
        Some(raw) => switchboard_wire::envelope::string(raw)
            .map(Some)
            .ok_or_else(|| format!("`{name}` must be a string")),
    }
}

fn tool_error(sentence: &str) -> SuiteReply {
    SuiteReply::Own(text_result(sentence, true))
}

fn text_result(text: &str, is_error: bool) -> String {
    let mark = if is_error { r#","isError":true"# } else { "" };
    format!("{{{}{mark}}}", rpc::text_content(text))
}
