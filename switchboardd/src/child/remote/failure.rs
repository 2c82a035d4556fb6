//! Errors between the daemon and a remote child.

use switchboard_definitions::definition::DisplayUrl;
use switchboard_wire::visible::clipped;

use super::auth::AuthError;
use crate::observe::metrics::failure_kind::FailureKind;

/// More than a clipped text of a server takes, hidden characters escaped.
const MAX_TEXT_BYTES: usize = 8 * 1024;

/// Why a remote child gave no answer. The texts continue the words "child `name` …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// No byte of the request reached it.
    #[error("could not be reached: {why}")]
    Unreachable { why: String },
    #[error("{why} before it answered; the call may or may not have run")]
    Cut { why: String },
    #[error("answered with HTTP status {status}{}", quoted(.said))]
    Status { status: u16, said: String },
    #[error("refused the credentials that its file sets (HTTP status {status}{})", quoted(.said))]
    Forbidden { status: u16, said: String },
    #[error("{0}")]
    Auth(#[from] AuthError),
    #[error(
        "redirects to `{to}`, which is another origin; nothing was sent there. If that is right, its file has to name that URL"
    )]
    CrossOriginRedirect { to: String },
    #[error("redirects without an end, or to nowhere; is the URL right?")]
    BadRedirect,
    #[error("answered with `{content_type}`, which is neither JSON nor an event stream; is the URL right?")]
    WrongContentType { content_type: String },
    #[error("answered in the encoding `{encoding}`, which nobody asked for")]
    Encoded { encoding: String },
    #[error("accepted the request and sent no answer")]
    Unanswered,
    #[error("is not the server that it was: it now speaks revision `{now}`; the call was not made")]
    Changed { now: String },
}

impl RemoteError {
    /// Redacts the values that were filled into the URL or the headers, because servers repeat
    /// what they were sent.
    pub(super) fn without_values(mut self, shown: &DisplayUrl) -> Self {
        let text = match &mut self {
            Self::Unreachable { why } | Self::Cut { why } | Self::Auth(AuthError::Failed { why }) => why,
            Self::Status { said, .. } | Self::Forbidden { said, .. } => said,
            Self::CrossOriginRedirect { to } => to,
            Self::WrongContentType { content_type } => content_type,
            Self::Encoded { encoding } => encoding,
            Self::Changed { now } => now,
            Self::Auth(AuthError::Login { .. }) | Self::BadRedirect | Self::Unanswered => return self,
        };
        // Redacts first: an escaped value would not be recognized.
        *text = clipped(&shown.redactor.redact_cut(text), MAX_TEXT_BYTES);
        self
    }

    /// Whether the request certainly did not run.
    pub fn is_unsent(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Changed { .. })
    }

    /// Whether the error shows that the server does not speak the protocol that was tried. Refused
    /// credentials, server failures and network failures do not show that.
    pub(super) fn is_about_protocol(&self) -> bool {
        match self {
            Self::Status { status, .. } => {
                matches!(status, 400..=499) && !matches!(status, 401 | 403 | 407 | 408 | 425 | 429)
            }
            Self::WrongContentType { .. } | Self::Unanswered => true,
            _ => false,
        }
    }

    /// A stable identifier for programs.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Unreachable { .. } => FailureKind::ChildUnreachable,
            Self::Cut { .. } => FailureKind::ConnectionLost,
            Self::Auth(_) => FailureKind::NeedsLogin,
            Self::Forbidden { .. } => FailureKind::CredentialsRefused,
            Self::CrossOriginRedirect { .. } | Self::BadRedirect => FailureKind::Redirected,
            Self::Status { .. } | Self::WrongContentType { .. } | Self::Encoded { .. } | Self::Unanswered => {
                FailureKind::BadAnswer
            }
            Self::Changed { .. } => FailureKind::ChildChanged,
        }
    }
}

fn quoted(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": `{said}`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_credentials_nor_failures_are_evidence_of_an_era() {
        let status = |status| RemoteError::Status { status, said: String::new() }.is_about_protocol();
        for evidence in [400, 404, 405, 406, 415, 422] {
            assert!(status(evidence), "{evidence}");
        }
        for none in [401, 403, 407, 408, 429, 500, 502, 503, 504, 302] {
            assert!(!status(none), "{none}");
        }
        assert!(!RemoteError::Unreachable { why: String::new() }.is_about_protocol());
        assert!(!RemoteError::Cut { why: String::new() }.is_about_protocol());
    }
}
