//! The `_meta` of a modern request: all that is known about its sender.

use std::borrow::Cow;

use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

use super::request_params::RequestParams;
use super::{CAPABILITIES_KEY, CLIENT_KEY, LEVEL_KEY, VERSION_KEY};
use crate::client_capabilities::ClientCapabilities;
use crate::era::InvalidRequest;
use crate::log_level::LogLevel;
use crate::methods;

#[derive(Debug, Clone)]
pub struct RequestMeta {
    pub client_capabilities: ClientCapabilities,
    /// As the host wrote them.
    pub capabilities: Box<str>,
    pub client: Option<Box<str>>,
    /// A request gets log messages only if it names a level.
    pub level: Option<LogLevel>,
}

/// The `_meta` of a message.
pub fn meta(params: Option<Raw<'_>>) -> Members<'_> {
    let meta = params.and_then(Members::of).and_then(|params| params.get("_meta"));
    meta.and_then(Members::of).unwrap_or_default()
}

/// The revision that a message claims. A message with one is modern; `None` means legacy.
pub fn claimed_revision<'a>(meta: &Members<'a>) -> Option<Result<Cow<'a, str>, InvalidRequest>> {
    let version = switchboard_wire::envelope::string(meta.get(VERSION_KEY)?);
    Some(version.ok_or_else(|| InvalidRequest::Params(format!("`{VERSION_KEY}` must be a string"))))
}

/// The capabilities that every modern request names.
pub fn capabilities<'a>(meta: &Members<'a>) -> Option<Raw<'a>> {
    meta.get(CAPABILITIES_KEY).filter(|capabilities| capabilities.get().starts_with('{'))
}

/// `None` for a legacy request.
pub fn parse(method: &str, params: &RequestParams<'_>) -> Result<Option<RequestMeta>, InvalidRequest> {
    let modern_only = matches!(method, methods::DISCOVER | methods::LISTEN);
    let meta = &params.meta;
    let version = match claimed_revision(meta) {
        Some(version) => version?,
        None if modern_only => return Err(missing_key(VERSION_KEY)),
        None => return Ok(None),
    };
    let capabilities = capabilities(meta).ok_or_else(|| missing_key(CAPABILITIES_KEY))?;
    if !methods::MODERN_REVISIONS.contains(&&*version) {
        return Err(InvalidRequest::UnsupportedVersion { requested: version.into_owned() });
    }
    let level = match meta.get(LEVEL_KEY) {
        None => None,
        Some(level) => Some(
            serde_json::from_str(level.get())
                .map_err(|_| InvalidRequest::Params(format!("`{LEVEL_KEY}` must be a log level")))?,
        ),
    };
    Ok(Some(RequestMeta {
        client_capabilities: ClientCapabilities::parse(capabilities),
        capabilities: capabilities.get().into(),
        client: meta.get(CLIENT_KEY).map(|client| client.get().into()),
        level,
    }))
}

fn missing_key(key: &str) -> InvalidRequest {
    InvalidRequest::Params(format!("`_meta` lacks `{key}`, which every request of this revision has"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(method: &str, params: &str) -> Result<Option<RequestMeta>, InvalidRequest> {
        parse(method, &RequestParams::read(Raw::parse(params.as_bytes())))
    }

    #[test]
    fn the_era_is_read_from_the_request() {
        assert!(claim("tools/list", "{}").unwrap().is_none());
        assert!(claim("initialize", r#"{"protocolVersion":"2025-11-25"}"#).unwrap().is_none());
        let modern = r#"{"_meta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"sampling":{}},"io.modelcontextprotocol/logLevel":"error"}}"#;
        let meta = claim("tools/list", modern).unwrap().unwrap();
        assert!(meta.client_capabilities.sampling && !meta.client_capabilities.roots);
        assert_eq!(meta.level, Some(LogLevel::Error));
    }

    #[test]
    fn the_error_names_missing_or_unknown_keys() {
        let only = |inner: &str| format!(r#"{{"_meta":{{{inner}}}}}"#);
        let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
        let failure = claim("tools/list", &only(version)).unwrap_err();
        assert!(failure.to_string().contains("clientCapabilities"), "{failure}");
        assert!(claim("server/discover", "{}").is_err());
        let unknown = version.replace("2026", "2099") + r#","io.modelcontextprotocol/clientCapabilities":{}"#;
        let failure = claim("tools/list", &only(&unknown)).unwrap_err();
        assert!(matches!(failure, InvalidRequest::UnsupportedVersion { .. }), "{failure}");
    }
}
