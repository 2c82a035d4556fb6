//! What a modern request says of whoever sent it: nothing is known of them but this.

use super::request_params::RequestParams;
use super::{CAPABILITIES_KEY, CLIENT_KEY, LEVEL_KEY, VERSION_KEY};
use crate::caller::{ClientCapabilities, LogLevel};
use crate::error::Failure;
use crate::methods;

#[derive(Debug, Clone)]
pub struct RequestMeta {
    pub client_capabilities: ClientCapabilities,
    /// As the host wrote them.
    pub capabilities: Box<str>,
    pub client: Option<Box<str>>,
    /// Logs are wanted only by requests that say so.
    pub level: Option<LogLevel>,
}

/// `None` for a request of a legacy host.
pub fn parse(method: &str, params: &RequestParams<'_>) -> Result<Option<RequestMeta>, Failure> {
    let modern_only = matches!(method, methods::DISCOVER | methods::LISTEN);
    let meta = &params.meta;
    let version = match meta.get(VERSION_KEY) {
        Some(version) => version,
        None if modern_only => return Err(missing_key(VERSION_KEY)),
        None => return Ok(None),
    };
    let version = switchboard_wire::envelope::string(version)
        .ok_or_else(|| Failure::InvalidParams(format!("`{VERSION_KEY}` must be a string")))?;
    let capabilities = meta
        .get(CAPABILITIES_KEY)
        .filter(|capabilities| capabilities.get().starts_with('{'))
        .ok_or_else(|| missing_key(CAPABILITIES_KEY))?;
    if !methods::MODERN_REVISIONS.contains(&&*version) {
        return Err(Failure::UnsupportedVersion { requested: version.into_owned() });
    }
    let level = match meta.get(LEVEL_KEY) {
        None => None,
        Some(level) => Some(
            serde_json::from_str(level.get())
                .map_err(|_| Failure::InvalidParams(format!("`{LEVEL_KEY}` must be a log level")))?,
        ),
    };
    Ok(Some(RequestMeta {
        client_capabilities: ClientCapabilities::parse(capabilities),
        capabilities: capabilities.get().into(),
        client: meta.get(CLIENT_KEY).map(|client| client.get().into()),
        level,
    }))
}

fn missing_key(key: &str) -> Failure {
    Failure::InvalidParams(format!("`_meta` lacks `{key}`, which every request of this revision has"))
}

#[cfg(test)]
mod tests {
    use switchboard_wire::raw::Raw;

    use super::*;

    fn claim(method: &str, params: &str) -> Result<Option<RequestMeta>, Failure> {
        parse(method, &RequestParams::read(Raw::parse(params.as_bytes())))
    }

    #[test]
    fn a_request_says_which_era_it_is_of() {
        assert!(claim("tools/list", "{}").unwrap().is_none());
        assert!(claim("initialize", r#"{"protocolVersion":"2025-11-25"}"#).unwrap().is_none());
        let modern = r#"{"_meta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"sampling":{}},"io.modelcontextprotocol/logLevel":"error"}}"#;
        let meta = claim("tools/list", modern).unwrap().unwrap();
        assert!(meta.client_capabilities.sampling && !meta.client_capabilities.roots);
        assert_eq!(meta.level, Some(LogLevel::Error));
    }

    #[test]
    fn what_is_missing_or_unknown_is_named() {
        let only = |inner: &str| format!(r#"{{"_meta":{{{inner}}}}}"#);
        let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
        let failure = claim("tools/list", &only(version)).unwrap_err();
        assert!(failure.to_string().contains("clientCapabilities"), "{failure}");
        assert!(claim("server/discover", "{}").is_err());
        let unknown = version.replace("2026", "2099") + r#","io.modelcontextprotocol/clientCapabilities":{}"#;
        let failure = claim("tools/list", &only(&unknown)).unwrap_err();
        assert!(matches!(failure, Failure::UnsupportedVersion { .. }), "{failure}");
    }
}
