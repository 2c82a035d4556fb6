//! Why a request failed in the daemon or on its way, in one word for programs. The record of calls, metrics and
//! `_meta` of a failed call have these words.

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $word:literal,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum FailureKind {
            $($(#[$doc])* $kind,)*
        }

        impl FailureKind {
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $word,)*
                }
            }
        }
    };
}

kinds! {
    UnknownMethod = "unknown_method",
    InvalidParams = "invalid_params",
    UnsupportedVersion = "unsupported_version",
    LacksCapability = "lacks_capability",
    RequestState = "request_state",
    NoSuchChild = "no_such_child",
    NoSuchResource = "no_such_resource",
    NotAllowed = "not_allowed",
    /// Called with the tool for what reads instead of that for what writes, or the other way round.
    WrongTool = "wrong_tool",
    UnknownTool = "unknown_tool",
    InvalidArguments = "invalid_arguments",
    InvalidCall = "invalid_call",
    /// The user said no, or could not be asked.
    NotConfirmed = "not_confirmed",
    Held = "held",
    ToolHeld = "tool_held",
    NoWorkspace = "no_workspace",
    NoRoom = "no_room",
    Busy = "busy",
    Misconfigured = "misconfigured",
    ChildResting = "child_resting",
    ChildStillStarting = "child_still_starting",
    ChildSpawnFailed = "child_spawn_failed",
    ChildSpawnTimeout = "child_spawn_timeout",
    ChildUnusable = "child_unusable",
    ChildExited = "child_exited",
    ChildStopped = "child_stopped",
    ChildUnresponsive = "child_unresponsive",
    ChildBusy = "child_busy",
    ChildUnreachable = "child_unreachable",
    ChildChanged = "child_changed",
    RpcTimeout = "rpc_timeout",
    AnswerTooLong = "answer_too_long",
    BadAnswer = "bad_answer",
    ConnectionLost = "connection_lost",
    NeedsLogin = "needs_login",
    CredentialsRefused = "credentials_refused",
    Redirected = "redirected",
    DaemonDraining = "daemon_draining",
    DaemonFailed = "daemon_failed",
}

impl FailureKind {
    pub fn find(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == word)
    }
}
