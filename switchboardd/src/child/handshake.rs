//! The handshake with a child. A modern child describes itself in the answer to `server/discover`; a legacy
//! one needs `initialize` and `notifications/initialized`. The era is remembered or probed.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use switchboard_definitions::definition::Redactor;
use switchboard_mcp::era::envelope::{Envelope, with_envelope};
use switchboard_mcp::era::{ProtocolEra, SERVER_KEY};
use switchboard_mcp::error_codes::UNSUPPORTED_VERSION;
use switchboard_mcp::methods;
use switchboard_wire::envelope::{Message, Outcome};
use switchboard_wire::members::{Members, remove_members};
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;

use super::calls::ChildResponse;
use super::{Child, ChildError, Limits, Ownership, clip, millis};

/// The `initialize` params. They cannot depend on a host, because the child may be shared or be a spare.
/// Roots are announced only if one session owns the child, or will.
pub(super) fn params(owned: bool) -> String {
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

/// What a child reports about itself in the handshake.
#[derive(Debug, Clone)]
pub struct ServerInfo {
    pub revision: &'static str,
    pub capabilities: Box<RawValue>,
    pub server: Box<RawValue>,
    pub instructions: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawServerInfo<'a> {
    protocol_version: String,
    #[serde(borrow)]
    capabilities: &'a RawValue,
    #[serde(borrow)]
    server_info: Option<&'a RawValue>,
    #[serde(borrow)]
    instructions: Option<&'a RawValue>,
}

/// Timeout of the probe, within the start timeout. Servers that do not know the probe answer with an error at
/// once; those that ignore it cost this much once, because their era is remembered.
pub(super) const PROBE: Duration = Duration::from_secs(2);

/// Why a child could not be started.
#[derive(Debug)]
pub struct StartError {
    pub error: ChildError,
    /// The child read the era probe and exited: it may work without the probe. A child that exits without
    /// reading it has another reason, and would exit again.
    pub of_probe: bool,
}

impl StartError {
    pub(super) fn without_values(self, hidden: &Redactor) -> Self {
        Self { error: self.error.without_values(hidden), ..self }
    }

    /// For a start timeout, reports `whole`: the timeout including what ran before this start.
    pub fn within(self, whole: Duration) -> Self {
        let error = match self.error {
            ChildError::SpawnTimeout { stderr, .. } => ChildError::SpawnTimeout { ms: millis(whole), stderr },
            other => other,
        };
        Self { error, ..self }
    }
}

impl From<ChildError> for StartError {
    fn from(error: ChildError) -> Self {
        Self { error, of_probe: false }
    }
}

/// Has no timeout of its own: the caller bounds the whole start.
pub(super) async fn run(
    child: &Arc<Child>,
    is_legacy: bool,
    probing: Duration,
) -> Result<ServerInfo, StartError> {
    if !is_legacy && let Some(server_info) = probe(child, probing).await? {
        return Ok(server_info);
    }
    match initialize(child).await? {
        InitOutcome::Initialized(server_info) => Ok(server_info),
        // It was slow to answer the probe, or has changed its era since that was remembered.
        InitOutcome::Modern(refusal) => {
            let probed = probe(child, NO_TIMEOUT).await.map_err(|failed| failed.error)?;
            Ok(probed.ok_or(refusal)?)
        }
    }
}

/// Longer than any start may take.
pub(super) const NO_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// `None` if the child speaks no modern revision that we know.
async fn probe(child: &Arc<Child>, within: Duration) -> Result<Option<ServerInfo>, StartError> {
    for _ in 0..2 {
        let limits = Limits { spawn: within, rpc: within, max: within };
        let mut params = Vec::new();
        with_envelope(None, &Envelope::ours(), &mut params);
        let call = child.request(methods::DISCOVER, &params);
        let answer = match call {
            Ok(call) => call.answer(limits).await,
            // It ended before the probe was sent.
            Err(ChildError::Unsent) => return Err(as_start_failure(child.wait_end_reason().await).into()),
            Err(error) => Err(error),
        };
        let answer = match answer {
            Ok(answer) => answer,
            // Its answer may still arrive and is then dropped; or it arrived and was malformed.
            Err(
                ChildError::Silent { .. }
                | ChildError::Endless { .. }
                | ChildError::TooLong { .. }
                | ChildError::Unusable { .. },
            ) => break,
            Err(error) => {
                return Err(StartError {
                    error: as_start_failure(error),
                    of_probe: child.transport.unread() == 0,
                });
            }
        };
        match Message::parse(&answer.body) {
            Ok(Message::Response { outcome: Outcome::Result(result), .. }) => {
                return Ok(ServerInfo::from_discover(result));
            }
            Ok(Message::Response { outcome: Outcome::Error(error), .. }) if names_modern(error) => {}
            _ => break,
        }
    }
    Ok(None)
}

/// Whether an error names a modern revision that we support.
pub(super) fn names_modern(error: Raw<'_>) -> bool {
    let Some(error) = Members::of(error) else { return false };
    let supported = error.get("data").and_then(Members::of).and_then(|data| data.get("supported"));
    let supported: Vec<String> =
        supported.and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default();
    error.get("code").is_some_and(|code| code.get() == UNSUPPORTED_VERSION.to_string())
        && supported.iter().any(|version| methods::MODERN_REVISIONS.contains(&version.as_str()))
}

enum InitOutcome {
    Initialized(ServerInfo),
    /// The child is modern and refused `initialize` with this error.
    Modern(ChildError),
}

async fn initialize(child: &Arc<Child>) -> Result<InitOutcome, ChildError> {
    let limits = Limits { spawn: NO_TIMEOUT, rpc: NO_TIMEOUT, max: NO_TIMEOUT };
    let params = params(!matches!(child.ownership(), Ownership::Shared));
    let call = child.request(methods::INITIALIZE, params.as_bytes());
    let answer = match call {
        Ok(call) => call.answer(limits).await,
        // It ended before `initialize` was sent; the reason is known in a moment.
        Err(ChildError::Unsent) => Err(child.wait_end_reason().await),
        Err(error) => Err(error),
    };
    let answer = answer.map_err(as_start_failure)?;
    match read(&answer) {
        Ok(server_info) => {
            child.notify(&rpc::notification(methods::INITIALIZED, None));
            Ok(InitOutcome::Initialized(server_info))
        }
        Err(refusal) => match Message::parse(&answer.body) {
            Ok(Message::Response { outcome: Outcome::Error(error), .. }) if names_modern(error) => {
                Ok(InitOutcome::Modern(refusal))
            }
            _ => Err(refusal),
        },
    }
}

/// Reports an exit during the handshake as a failed start.
fn as_start_failure(error: ChildError) -> ChildError {
    match error {
        ChildError::Exited { exit, stderr } => ChildError::ExitedAtStart { exit, stderr },
        other => other,
    }
}

pub(super) fn read(answer: &ChildResponse) -> Result<ServerInfo, ChildError> {
    let unusable = |why: String| ChildError::Unusable { why };
    let result = match Message::parse(&answer.body) {
        Ok(Message::Response { outcome: Outcome::Result(result), .. }) => result,
        Ok(Message::Response { outcome: Outcome::Error(error), .. }) => {
            return Err(unusable(format!("refused `initialize`: {}", clip(error.get()))));
        }
        _ => return Err(unusable("answered `initialize` with something else".to_owned())),
    };
    ServerInfo::read(result).map_err(unusable)
}

impl ServerInfo {
    /// Reads the result of `initialize` or a manifest; the error says what is wrong.
    pub fn read(result: Raw<'_>) -> Result<Self, String> {
        let said: RawServerInfo<'_> = serde_json::from_str(result.get())
            .map_err(|error| format!("answered `initialize` wrongly: {error}"))?;
        let known = methods::LEGACY_REVISIONS.iter().chain(&methods::MODERN_REVISIONS);
        let revision = known.into_iter().find(|known| **known == said.protocol_version);
        let Some(revision) = revision else {
            return Err(format!(
                "speaks protocol revision `{}`; known are {}",
                said.protocol_version,
                methods::LEGACY_REVISIONS.join(", ")
            ));
        };
        Ok(Self {
            revision,
            capabilities: said.capabilities.to_owned(),
            server: said.server_info.map(ToOwned::to_owned).or_else(unnamed).expect("BUG: valid JSON"),
            instructions: said.instructions.map(ToOwned::to_owned),
        })
    }

    /// From the result of `server/discover`; `None` if we speak none of its revisions.
    pub fn from_discover(result: Raw<'_>) -> Option<Self> {
        let members = Members::of(result)?;
        let versions: Vec<String> = serde_json::from_str(members.get("supportedVersions")?.get()).ok()?;
        let revision =
            methods::MODERN_REVISIONS.into_iter().find(|known| versions.iter().any(|v| v == known))?;
        let owned = |raw: Raw<'_>| RawValue::from_string(raw.get().to_owned()).ok();
        let server = members.get("_meta").and_then(Members::of).and_then(|meta| meta.get(SERVER_KEY));
        Some(Self {
            revision,
            capabilities: owned(members.get("capabilities")?)?,
            server: server.and_then(owned).or_else(unnamed)?,
            instructions: members.get("instructions").and_then(owned),
        })
    }

    /// The same without any text of the server's own.
    pub fn without_words(&self, name: &str) -> Self {
        let server = serde_json::json!({ "name": name, "version": "" }).to_string();
        let capabilities =
            remove_members((&*self.capabilities).into(), |key| matches!(key, "experimental" | "extensions"));
        Self {
            revision: self.revision,
            capabilities: RawValue::from_string(capabilities).expect("BUG: members were removed"),
            server: RawValue::from_string(server).expect("BUG: valid JSON"),
            instructions: None,
        }
    }

    pub fn era(&self) -> ProtocolEra {
        if methods::MODERN_REVISIONS.contains(&self.revision) {
            ProtocolEra::Modern
        } else {
            ProtocolEra::Legacy
        }
    }

    /// Its capabilities for a host of this era: without extensions or tasks, which exist in only one era.
    pub fn capabilities_in(&self, era: ProtocolEra) -> String {
        let other = match (self.era(), era) {
            (ProtocolEra::Modern, ProtocolEra::Legacy) => "extensions",
            (ProtocolEra::Legacy, ProtocolEra::Modern) => "tasks",
            _ => return self.capabilities.get().to_owned(),
        };
        remove_members((&*self.capabilities).into(), |key| key == other)
    }

    /// The result of `server/discover`, without the members that every modern result has.
    pub fn for_discover(&self) -> String {
        let instructions = self.instructions_member();
        let (versions, capabilities) = (methods::MODERN_REVISIONS, self.capabilities_in(ProtocolEra::Modern));
        let versions = serde_json::json!(versions);
        format!(r#"{{"supportedVersions":{versions},"capabilities":{capabilities}{instructions}}}"#)
    }

    fn instructions_member(&self) -> String {
        let text = self.instructions.as_ref();
        text.map_or(String::new(), |text| format!(r#","instructions":{}"#, text.get()))
    }

    /// Whether the feature `of` of a capability is true.
    pub fn has_feature(&self, capability: &str, of: &str) -> bool {
        let member =
            Members::of(&*self.capabilities).and_then(|all| all.get(capability)).and_then(Members::of);
        member.and_then(|member| member.get(of)).is_some_and(|says| says.get() == "true")
    }

    pub fn has_capability(&self, capability: &str) -> bool {
        Members::of(&*self.capabilities).is_some_and(|all| all.get(capability).is_some())
    }

    /// As an `initialize` result of the legacy revision `revision`.
    pub fn to_json_for(&self, revision: &str) -> String {
        self.to_json_as(revision, &self.capabilities_in(ProtocolEra::Legacy))
    }

    fn to_json_as(&self, revision: &str, capabilities: &str) -> String {
        let (server, instructions) = (self.server.get(), self.instructions_member());
        format!(
            r#"{{"protocolVersion":"{revision}","capabilities":{capabilities},"serverInfo":{server}{instructions}}}"#
        )
    }

    /// As it is stored in a manifest.
    pub fn to_json(&self) -> String {
        self.to_json_as(self.revision, self.capabilities.get())
    }
}

fn unnamed() -> Option<Box<RawValue>> {
    RawValue::from_string(r#"{"name":"unnamed","version":"0"}"#.to_owned()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server_info(result: &str) -> Result<ServerInfo, ChildError> {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        read(&ChildResponse {
            body: body.into(),
            id: 22..23,
            era: ProtocolEra::Legacy,
            error: None,
            asked: Duration::ZERO,
        })
    }

    #[test]
    fn every_legacy_revision_is_accepted() {
        for revision in methods::LEGACY_REVISIONS {
            let server_info = server_info(&format!(
                r#"{{"protocolVersion":"{revision}","capabilities":{{}},"serverInfo":{{"name":"x","version":"1"}}}}"#
            ));
            assert_eq!(server_info.unwrap().revision, revision);
        }
    }

    #[test]
    fn a_modern_child_is_known_by_its_versions() {
        let discovered = |text: &str| ServerInfo::from_discover(Raw::parse(text.as_bytes()).unwrap());
        let said = r#"{"resultType":"complete","supportedVersions":["2099-01-01","2026-07-28"],"capabilities":{"tools":{},"extensions":{"x":1.0}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m"}}}"#;
        let server_info = discovered(said).unwrap();
        assert_eq!((server_info.era(), server_info.server.get()), (ProtocolEra::Modern, r#"{"name":"m"}"#));
        assert_eq!(server_info.capabilities_in(ProtocolEra::Legacy), r#"{"tools":{}}"#);
        let kept = server_info.to_json();
        let back = ServerInfo::read(Raw::parse(kept.as_bytes()).unwrap()).unwrap();
        assert_eq!(
            (back.era(), back.capabilities.get()),
            (ProtocolEra::Modern, server_info.capabilities.get())
        );
        assert!(discovered(&said.replace("2026", "2027")).is_none());
        assert!(discovered(r#"{"ok":true}"#).is_none() && discovered("null").is_none());
    }

    #[test]
    fn only_a_usable_list_of_versions_names_the_modern_era() {
        let names = |text: &str| names_modern(Raw::parse(text.as_bytes()).unwrap());
        assert!(names(r#"{"code":-32022,"data":{"supported":["2026-07-28"]}}"#));
        assert!(!names(r#"{"code":-32022,"data":{"supported":["2031-01-01"]}}"#));
        assert!(
            !names(r#"{"code":-32022}"#) && !names(r#"{"code":-32601,"data":{"supported":["2026-07-28"]}}"#)
        );
    }

    #[test]
    fn an_unusable_answer_says_why() {
        let why = |result| server_info(result).unwrap_err().to_string();
        assert!(why(r#"{"protocolVersion":"1999-01-01","capabilities":{}}"#).contains("`1999-01-01`"));
        assert!(why(r#"{"capabilities":{}}"#).contains("protocolVersion"));
    }
}
