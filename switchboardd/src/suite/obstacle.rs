//! What a suite's description says of a server that cannot be used, and what a person does about it. The text
//! is the same for every failure of one kind: a server that fails again and again does not change the list.

use crate::child::ChildError;
use crate::child::remote::RemoteError;
use crate::child::remote::auth::AuthError;
use crate::child::value_resolver::NotLaunchable;
use crate::pool::PoolError;

/// The description of a server that is not allowed yet; contains no text of the server's own.
pub const HELD_TEXT: &str = "Held by Switchboard: this server was found in the workspace, and nothing of it runs until the user allows it with `switchboard allow`.";

/// The description of a server whose program is not the allowed one any more.
pub const PROGRAM_HELD_TEXT: &str = "Held by Switchboard: its program is another one than the user allowed, and nothing of it runs until the user allows it with `switchboard allow`.";

const MAX_REASON_CHARS: usize = 110;

/// A sentence about why the server cannot be used; `None` if nothing is known to prevent it.
pub fn sentence(suite: &str, obstacle: &PoolError) -> Option<String> {
    Some(match obstacle {
        PoolError::NotLaunchable(NotLaunchable::Misconfigured(why) | NotLaunchable::NoProgram(why)) => {
            misconfigured(why, &format!("see `switchboard explain {suite}`"))
        }
        PoolError::NotLaunchable(NotLaunchable::Held { .. }) => PROGRAM_HELD_TEXT.to_owned(),
        PoolError::CoolingDown { last, .. } => format!(
            "Not available: it keeps failing ({}); see `switchboard logs {suite}`. A call tries again after a pause.",
            reason(last)
        ),
        PoolError::Child(ChildError::Remote(RemoteError::Auth(AuthError::Login { .. }))) => {
            format!("Not available: it needs a login; the user runs `switchboard login {suite}`.")
        }
        PoolError::Child(ChildError::Remote(RemoteError::Auth(AuthError::Failed { .. }))) => {
            format!("Not available: the login to it failed; the user runs `switchboard login {suite}`.")
        }
        PoolError::Child(ChildError::Spawn { why }) => {
            misconfigured(why, &format!("see `switchboard explain {suite}`"))
        }
        PoolError::Child(error) => {
            let more = if matches!(error, ChildError::Remote(_)) { "explain" } else { "logs" };
            format!(
                "Not available: it {}; see `switchboard {more} {suite}`. A call tries again.",
                reason(error)
            )
        }
        PoolError::NoWorkspace => {
            "Not available: it works on a project, and this session has none; the user opens the editor in a project's folder."
                .to_owned()
        }
        PoolError::NoRoom(_) | PoolError::Full { .. } => return None,
    })
}

/// For a definition or a value that a person has to fix; `remedy` is used if the reason names no command.
pub fn misconfigured(why: &str, remedy: &str) -> String {
    // The folders of a PATH say nothing to a model.
    let why = why.split(" in PATH `").next().unwrap_or(why);
    let why = super::own_words::cut(&short_paths(why), MAX_REASON_CHARS);
    let remedy = if why.contains("`switchboard ") { String::new() } else { format!("; {remedy}") };
    format!("Not available: {why}{remedy}.")
}

/// One line in which a long path is only its last two parts.
fn short_paths(text: &str) -> String {
    let short = |word: &str| {
        let start = word.find('/').filter(|_| word.matches('/').count() > 2 && !word.contains("://"));
        let Some(start) = start else { return word.to_owned() };
        let last: Vec<&str> = word[start..].rsplit('/').take(2).collect();
        format!("{}…/{}/{}", &word[..start], last[1], last[0])
    };
    super::summary::summary(text, 1000).split(' ').map(short).collect::<Vec<_>>().join(" ")
}

/// What happened, without the server's own words: they differ each time.
fn reason(error: &ChildError) -> String {
    match error {
        ChildError::Spawn { .. } => "could not be started".to_owned(),
        ChildError::SpawnTimeout { ms, .. } => {
            format!("did not answer within {} s of its start", ms.div_ceil(1000))
        }
        ChildError::ExitedAtStart { exit, .. } => format!("{exit} when it was started"),
        ChildError::Exited { exit, .. } => exit.to_string(),
        ChildError::ClosedOutput { .. } | ChildError::ClosedInput { .. } => {
            "closed its connection".to_owned()
        }
        ChildError::Unusable { .. } => "does not speak MCP as expected".to_owned(),
        ChildError::Remote(RemoteError::Unreachable { .. }) => "cannot be reached".to_owned(),
        ChildError::Remote(RemoteError::Status { status, .. } | RemoteError::Forbidden { status, .. }) => {
            format!("answers with HTTP status {status}")
        }
        ChildError::Remote(_) => "does not answer as an MCP server does".to_owned(),
        _ => "does not answer".to_owned(),
    }
}
