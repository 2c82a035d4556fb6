//! The first words with a legacy child: `initialize`, its answer, `notifications/initialized`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use switchboard_wire::envelope::{Message, Outcome};
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

use super::calls::Answer;
use super::{Child, ChildError, Limits, Tie, clip};
use crate::methods;

/// What a child is told of us, whoever calls: it may be shared or wait for its first session, so it
/// cannot depend on one host. Roots only where one session owns the child.
fn params(owned: bool) -> String {
    let roots = if owned { r#","roots":{"listChanged":true}"# } else { "" };
    format!(
        concat!(
            r#"{{"protocolVersion":"{}","capabilities":{{"elicitation":{{"form":{{}},"url":{{}}}},"sampling":{{}}{}}},"#,
            r#""clientInfo":{{"name":"switchboard","title":"Switchboard","version":"{}"}}}}"#
        ),
        methods::LATEST_LEGACY,
        roots,
        env!("CARGO_PKG_VERSION")
    )
}

/// What a child said of itself.
#[derive(Debug, Clone)]
pub struct Hello {
    pub revision: &'static str,
    pub capabilities: Box<RawValue>,
    pub server: Box<RawValue>,
    pub instructions: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said<'a> {
    protocol_version: String,
    #[serde(borrow)]
    capabilities: &'a RawValue,
    #[serde(borrow)]
    server_info: Option<&'a RawValue>,
    #[serde(borrow)]
    instructions: Option<&'a RawValue>,
}

/// Bounded by the caller, who knows how long a start may take.
pub(super) async fn shake(child: &Arc<Child>) -> Result<Hello, ChildError> {
    let patient = std::time::Duration::from_secs(24 * 60 * 60);
    let limits = Limits { spawn: patient, rpc: patient, max: patient };
    let call = child.call(None, methods::INITIALIZE, None, |_, out| {
        out.extend_from_slice(params(!matches!(child.tie(), Tie::Nobody)).as_bytes());
    });
    let answer = match call {
        Ok(call) => call.answer(limits).await,
        // It ended before it was spoken to; how, is known in a moment.
        Err(ChildError::Unsent) => Err(child.ending().await),
        Err(error) => Err(error),
    };
    let hello = read(&answer.map_err(stillborn)?)?;
    child.notify(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    Ok(hello)
}

/// An end during the handshake is told as such.
fn stillborn(error: ChildError) -> ChildError {
    match error {
        ChildError::Exited { exit, stderr } => ChildError::Stillborn { exit, stderr },
        other => other,
    }
}

fn read(answer: &Answer) -> Result<Hello, ChildError> {
    let unusable = |why: String| ChildError::Unusable { why };
    let result = match Message::parse(&answer.body) {
        Ok(Message::Response { outcome: Outcome::Result(result), .. }) => result,
        Ok(Message::Response { outcome: Outcome::Error(error), .. }) => {
            return Err(unusable(format!("refused `initialize`: {}", clip(error.get()))));
        }
        _ => return Err(unusable("answered `initialize` with something else".to_owned())),
    };
    Hello::read(result).map_err(unusable)
}

impl Hello {
    /// From the result of `initialize`, or a manifest; or what is wrong with it.
    pub fn read(result: Raw<'_>) -> Result<Self, String> {
        let said: Said<'_> = serde_json::from_str(result.get())
            .map_err(|error| format!("answered `initialize` wrongly: {error}"))?;
        let revision = methods::LEGACY_REVISIONS.iter().find(|known| **known == said.protocol_version);
        let Some(revision) = revision else {
            return Err(format!(
                "speaks protocol revision `{}`; known are {}",
                said.protocol_version,
                methods::LEGACY_REVISIONS.join(", ")
            ));
        };
        let unnamed = || RawValue::from_string(r#"{"name":"unnamed","version":"0"}"#.to_owned());
        Ok(Self {
            revision,
            capabilities: said.capabilities.to_owned(),
            server: said.server_info.map_or_else(|| unnamed().expect("BUG: valid JSON"), ToOwned::to_owned),
            instructions: said.instructions.map(ToOwned::to_owned),
        })
    }

    /// Whether this is among its capabilities.
    pub fn declares(&self, capability: &str) -> bool {
        Members::of(&*self.capabilities).is_some_and(|all| all.get(capability).is_some())
    }

    /// As the child said it, under the revision `revision`.
    pub fn written_for(&self, revision: &str) -> String {
        let instructions = self
            .instructions
            .as_ref()
            .map_or(String::new(), |text| format!(r#","instructions":{}"#, text.get()));
        format!(
            r#"{{"protocolVersion":"{revision}","capabilities":{},"serverInfo":{}{instructions}}}"#,
            self.capabilities.get(),
            self.server.get()
        )
    }

    pub fn written(&self) -> String {
        self.written_for(self.revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(result: &str) -> Result<Hello, ChildError> {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        read(&Answer { body: body.into(), id: 22..23 })
    }

    #[test]
    fn every_legacy_revision_is_welcome() {
        for revision in methods::LEGACY_REVISIONS {
            let hello = hello(&format!(
                r#"{{"protocolVersion":"{revision}","capabilities":{{}},"serverInfo":{{"name":"x","version":"1"}}}}"#
            ));
            assert_eq!(hello.unwrap().revision, revision);
        }
    }

    #[test]
    fn what_cannot_be_spoken_with_says_why() {
        let why = |result| hello(result).unwrap_err().to_string();
        assert!(why(r#"{"protocolVersion":"1999-01-01","capabilities":{}}"#).contains("`1999-01-01`"));
        assert!(why(r#"{"capabilities":{}}"#).contains("protocolVersion"));
    }
}
