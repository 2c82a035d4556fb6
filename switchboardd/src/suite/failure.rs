//! Everything that can fail on the way of a call, and how it is reported to the host.

use serde_json::json;
use switchboard_mcp::era::request_state::BadState;
use switchboard_mcp::era::{self, InvalidRequest, ProtocolEra, results};
use switchboard_mcp::error_codes::{LACKS_CAPABILITY, RESOURCE_NOT_FOUND, UNSUPPORTED_VERSION};
use switchboard_mcp::methods;
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;

use crate::child::ChildError;
use crate::child::value_resolver::NotLaunchable;
use crate::observe::metrics::failure_kind::FailureKind;
use crate::pool::PoolError;

/// Who caused a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    Host,
    Child,
    Daemon,
}

/// Why a call that needs the user's yes was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unconfirmed {
    Declined,
    /// `of_workspace`: whether the workspace's config asks for it, not the user's.
    CannotAsk {
        of_workspace: bool,
    },
}

impl Unconfirmed {
    fn sentence(self, child: &str, subtool: &str) -> String {
        match self {
            Self::Declined => {
                format!(
                    "the user did not allow this call of tool `{subtool}` (server `{child}`); it was not sent"
                )
            }
            Self::CannotAsk { of_workspace } => {
                let whose = if of_workspace { "the project's" } else { "the user's" };
                format!(
                    "tool `{subtool}` of server `{child}` needs the user's yes, and this editor cannot ask for it (no elicitation); the call was not sent. To allow it without a question, the user changes `suites.{child}.confirm` in {whose} `switchboard.config.json`"
                )
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("Method not found: {method}")]
    UnknownMethod { method: String },
    #[error("{0}")]
    InvalidParams(String),
    #[error("{0}")]
    InvalidRequest(#[from] InvalidRequest),
    #[error("Missing required client capability: {required}")]
    LacksCapability { required: &'static str },
    #[error("too many calls wait for their editors to come back with answers")]
    TooManySuspended,
    #[error("{0}")]
    BadState(#[from] BadState),
    #[error("server `{child}` {error}{}", of_subtool(.subtool.as_deref()))]
    Child { child: Box<str>, subtool: Option<Box<str>>, error: ChildError },
    #[error("server `{child}` {error}{}", of_subtool(.subtool.as_deref()))]
    Unavailable { child: Box<str>, subtool: Option<Box<str>>, error: PoolError },
    #[error("server `{child}` {} after {seconds} s{}; call again in a moment",
        if *.starts { "is still starting" } else { "has no free process" }, of_subtool(.subtool.as_deref()))]
    StillStarting { child: Box<str>, subtool: Option<Box<str>>, seconds: u64, starts: bool },
    #[error("server `{child}` is misconfigured: {why}; see `{file}`")]
    Misconfigured { child: Box<str>, why: String, file: String },
    #[error(
        "server `{child}` is held: `{file}` would run {what}; nothing of it runs until the user allows it with `{}` on a terminal",
        allowing(file)
    )]
    Held { child: Box<str>, what: String, file: String },
    #[error("there is no server `{child}`")]
    NoSuchChild { child: String },
    #[error("Resource not found: {uri}")]
    NoSuchResource { uri: String },
    #[error("tool `{subtool}` is not allowed by Switchboard (suite `{suite}`)")]
    NotAllowed { suite: String, subtool: String },
    #[error("tool `{subtool}` {does} and is not reached with `{called}`; {advice}")]
    WrongTool { subtool: Box<str>, does: &'static str, called: String, advice: String },
    #[error("{why}", why = .why.sentence(.child, .subtool))]
    NotConfirmed { child: Box<str>, subtool: Box<str>, why: Unconfirmed },
    #[error(
        "tool `{subtool}` of server `{child}` is held: the server changed or added it, and the user has not accepted that yet. They can see the difference and accept it with `switchboard allow {child}` on a terminal"
    )]
    ToolHeld { child: String, subtool: String },
    #[error("switchboardd is shutting down; the call may or may not have run")]
    ShuttingDown,
    #[error("switchboardd is shutting down and did not start this call; make it again in a moment")]
    NotStarted,
    #[error("this session has {limit} calls under way; wait for some of them")]
    TooManyCalls { limit: usize },
    #[error("switchboardd failed on this request; its log says why")]
    Panicked,
}

/// The command for the user to run. A path that a shell could misread is left out.
fn allowing(file: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '@' | '+');
    if file.chars().all(plain) { format!("switchboard allow {file}") } else { "switchboard allow".to_owned() }
}

fn of_subtool(subtool: Option<&str>) -> String {
    subtool.map_or(String::new(), |subtool| format!(" (tool `{subtool}`)"))
}

impl Failure {
    pub fn blame(&self) -> Blame {
        match self {
            Self::UnknownMethod { .. }
            | Self::InvalidParams(_)
            | Self::InvalidRequest(_)
            | Self::LacksCapability { .. }
            | Self::BadState(BadState::NotOurs)
            | Self::NoSuchChild { .. }
            | Self::NoSuchResource { .. }
            | Self::NotAllowed { .. } => Blame::Host,
            Self::Child { .. } | Self::Misconfigured { .. } | Self::Held { .. } | Self::ToolHeld { .. } => {
                Blame::Child
            }
            Self::Unavailable { .. } | Self::StillStarting { .. } => Blame::Child,
            Self::ShuttingDown | Self::NotStarted | Self::Panicked => Blame::Daemon,
            Self::TooManyCalls { .. } | Self::TooManySuspended => Blame::Daemon,
            Self::WrongTool { .. } | Self::NotConfirmed { .. } => Blame::Daemon,
            Self::BadState(BadState::EarlierRun | BadState::Expired) => Blame::Daemon,
        }
    }

    /// Whether the call certainly did not run and may succeed if repeated.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Child { error, .. } => {
                let unsent = matches!(error, ChildError::Remote(error) if error.is_unsent());
                unsent
                    || matches!(
                        error,
                        ChildError::Busy | ChildError::SpawnTimeout { .. } | ChildError::Unsent
                    )
            }
            Self::Unavailable { error: PoolError::NotLaunchable(_) | PoolError::NoWorkspace, .. } => false,
            Self::Unavailable { .. } | Self::StillStarting { .. } => true,
            Self::NotStarted | Self::TooManyCalls { .. } => true,
            _ => false,
        }
    }

    /// Whether only a session of a project can use the server.
    pub fn needs_project(&self) -> bool {
        matches!(self, Self::Unavailable { error: PoolError::NoWorkspace, .. })
    }

    /// A stable identifier for programs.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::UnknownMethod { .. } => FailureKind::UnknownMethod,
            Self::InvalidParams(_) | Self::InvalidRequest(InvalidRequest::Params(_)) => {
                FailureKind::InvalidParams
            }
            Self::InvalidRequest(InvalidRequest::UnsupportedVersion { .. }) => {
                FailureKind::UnsupportedVersion
            }
            Self::LacksCapability { .. } => FailureKind::LacksCapability,
            Self::BadState(_) => FailureKind::RequestState,
            Self::NoSuchChild { .. } => FailureKind::NoSuchChild,
            Self::NoSuchResource { .. } => FailureKind::NoSuchResource,
            Self::NotAllowed { .. } => FailureKind::NotAllowed,
            Self::WrongTool { .. } => FailureKind::WrongTool,
            Self::NotConfirmed { .. } => FailureKind::NotConfirmed,
            Self::Misconfigured { .. } => FailureKind::Misconfigured,
            Self::Held { .. } => FailureKind::Held,
            Self::ToolHeld { .. } => FailureKind::ToolHeld,
            Self::StillStarting { .. } => FailureKind::ChildStillStarting,
            Self::Unavailable { error, .. } => match error {
                PoolError::CoolingDown { .. } => FailureKind::ChildResting,
                PoolError::NoRoom(_) | PoolError::Full { .. } => FailureKind::NoRoom,
                PoolError::NoWorkspace => FailureKind::NoWorkspace,
                PoolError::Child(_) => FailureKind::ChildExited,
                PoolError::NotLaunchable(NotLaunchable::Misconfigured(_) | NotLaunchable::NoProgram(_)) => {
                    FailureKind::Misconfigured
                }
                PoolError::NotLaunchable(NotLaunchable::Held { .. }) => FailureKind::Held,
            },
            Self::ShuttingDown | Self::NotStarted => FailureKind::DaemonDraining,
            Self::TooManyCalls { .. } => FailureKind::Busy,
            Self::TooManySuspended => FailureKind::NoRoom,
            Self::Panicked => FailureKind::DaemonFailed,
            Self::Child { error, .. } => error.kind(),
        }
    }

    fn code(&self, era: ProtocolEra) -> i64 {
        use switchboard_wire::envelope::{INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND};
        match self {
            Self::UnknownMethod { .. } => METHOD_NOT_FOUND,
            Self::InvalidRequest(InvalidRequest::UnsupportedVersion { .. }) => UNSUPPORTED_VERSION,
            Self::LacksCapability { .. } => LACKS_CAPABILITY,
            Self::InvalidParams(_)
            | Self::InvalidRequest(InvalidRequest::Params(_))
            | Self::NoSuchChild { .. }
            | Self::NotAllowed { .. }
            | Self::BadState(_) => INVALID_PARAMS,
            // Legacy revisions have a code of their own for this.
            Self::NoSuchResource { .. } if era == ProtocolEra::Legacy => RESOURCE_NOT_FOUND,
            Self::NoSuchResource { .. } => INVALID_PARAMS,
            // All failures that the host did not cause. The modern era has no range of codes for servers.
            _ if era == ProtocolEra::Modern => INTERNAL_ERROR,
            _ => -32000,
        }
    }

    /// The whole response to a request. A failed `tools/call` is answered with a result, unless the host
    /// caused the failure: hosts repeat a call that ended with a protocol error, and this one may have run.
    pub fn answer(&self, era: ProtocolEra, method: &str, host_id: &str) -> Vec<u8> {
        if method == methods::TOOLS_CALL && self.blame() != Blame::Host {
            return rpc::result(host_id, &self.result(era));
        }
        self.fault(era, host_id)
    }

    /// The result of a call that failed.
    fn result(&self, era: ProtocolEra) -> String {
        let content = rpc::text_content(&self.to_string());
        let meta = json!({ "switchboard": self.about() });
        let result = format!(r#"{{{content},"isError":true,"_meta":{meta}}}"#);
        match (era, Raw::parse(result.as_bytes())) {
            (ProtocolEra::Modern, Some(raw)) => results::for_modern(raw, methods::TOOLS_CALL, era::SERVER),
            _ => result,
        }
    }

    /// For programs: what happened, to which child and subtool.
    fn about(&self) -> serde_json::Value {
        let mut about = json!({ "kind": self.kind().as_str(), "retryable": self.retryable() });
        let (child, subtool) = match self {
            Self::Child { child, subtool, .. }
            | Self::Unavailable { child, subtool, .. }
            | Self::StillStarting { child, subtool, .. } => (Some(&**child), subtool.as_deref()),
            Self::Misconfigured { child, .. } | Self::Held { child, .. } => (Some(&**child), None),
            Self::NoSuchChild { child } => (Some(child.as_str()), None),
            Self::NotAllowed { subtool, .. } => (None, Some(subtool.as_str())),
            Self::WrongTool { subtool, .. } => (None, Some(&**subtool)),
            Self::NotConfirmed { child, subtool, .. } => (Some(&**child), Some(&**subtool)),
            Self::ToolHeld { child, subtool } => (Some(child.as_str()), Some(subtool.as_str())),
            _ => (None, None),
        };
        if let Some(child) = child {
            about["child"] = child.into();
        }
        if let Some(subtool) = subtool {
            about["subtool"] = subtool.into();
        }
        about
    }

    fn fault(&self, era: ProtocolEra, host_id: &str) -> Vec<u8> {
        let mut error = json!({ "code": self.code(era), "message": self.to_string() });
        if self.blame() != Blame::Host {
            error["data"] = json!({ "switchboard": self.about() });
        }
        match self {
            Self::InvalidRequest(InvalidRequest::UnsupportedVersion { requested }) => {
                error["data"] = json!({ "supported": methods::MODERN_REVISIONS, "requested": requested });
            }
            Self::LacksCapability { required } => {
                let required: serde_json::Value = serde_json::from_str(required).unwrap_or_default();
                error["data"] = json!({ "requiredCapabilities": required });
            }
            Self::NoSuchResource { uri } => error["data"] = json!({ "uri": uri }),
            _ => {}
        }
        fault(host_id, &error)
    }
}

/// A JSON-RPC error response.
pub fn fault(host_id: &str, error: &serde_json::Value) -> Vec<u8> {
    rpc::error(host_id, &error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(failure: &Failure, era: ProtocolEra, method: &str) -> serde_json::Value {
        serde_json::from_slice(&failure.answer(era, method, "\"a\"")).unwrap()
    }

    fn silent() -> Failure {
        let error = ChildError::Silent { ms: 60_000 };
        Failure::Child { child: "github".into(), subtool: Some("search".into()), error }
    }

    #[test]
    fn a_failure_names_child_and_subtool() {
        let about =
            json!({"kind": "rpc_timeout", "child": "github", "subtool": "search", "retryable": false});
        let answer = answered(&silent(), ProtocolEra::Legacy, "prompts/get");
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("a"), &json!(-32000)));
        assert_eq!(answer["error"]["data"], json!({"switchboard": about}));
        assert_eq!(answered(&silent(), ProtocolEra::Modern, "prompts/get")["error"]["code"], -32603);
        let answer = answered(&silent(), ProtocolEra::Legacy, "tools/call");
        let text = json!([{"type": "text", "text": silent().to_string()}]);
        let result = json!({"content": text, "isError": true, "_meta": {"switchboard": about}});
        assert_eq!(answer, json!({"jsonrpc": "2.0", "id": "a", "result": result}));
        let answer = answered(&silent(), ProtocolEra::Modern, "tools/call");
        assert_eq!(answer["result"]["resultType"], "complete");
        assert_eq!(answer["result"]["_meta"]["switchboard"], about);
        assert_eq!(answer["result"]["_meta"][era::SERVER_KEY]["name"], "switchboard");
    }

    #[test]
    fn a_host_error_keeps_its_code() {
        for (failure, code) in [
            (Failure::InvalidParams("Unknown tool: x".into()), -32602),
            (Failure::UnknownMethod { method: "x".into() }, -32601),
            (Failure::NoSuchChild { child: "x".into() }, -32602),
            (InvalidRequest::UnsupportedVersion { requested: "x".into() }.into(), -32022),
            (Failure::LacksCapability { required: r#"{"sampling":{}}"# }, -32021),
            (Failure::BadState(BadState::NotOurs), -32602),
        ] {
            for era in [ProtocolEra::Legacy, ProtocolEra::Modern] {
                assert_eq!(answered(&failure, era, "tools/call")["error"]["code"], code, "{failure}");
            }
        }
    }

    #[test]
    fn a_failed_call_is_answered_with_a_result() {
        for failure in [
            silent(),
            Failure::ShuttingDown,
            Failure::NotStarted,
            Failure::Panicked,
            Failure::TooManySuspended,
            Failure::TooManyCalls { limit: 1 },
            Failure::BadState(BadState::EarlierRun),
            Failure::BadState(BadState::Expired),
            Failure::Held { child: "x".into(), what: "y".into(), file: "z".into() },
            Failure::ToolHeld { child: "x".into(), subtool: "y".into() },
            Failure::Misconfigured { child: "x".into(), why: "y".into(), file: "z".into() },
        ] {
            for era in [ProtocolEra::Legacy, ProtocolEra::Modern] {
                let answer = answered(&failure, era, "tools/call");
                assert_eq!(answer["result"]["isError"], true, "{failure}");
                let kind = &answer["result"]["_meta"]["switchboard"]["kind"];
                assert_eq!(kind, failure.kind().as_str(), "{failure}");
            }
        }
    }
}
