//! An MCP server of revision 2025-11-25 that requires a token.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::AuthServer;
use super::wire::{self, Answer, AuthorityRequest};

/// Where it serves its protected resource metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Description {
    /// At a path that its challenge names.
    Named(&'static str),
    /// At the well-known path with its own path appended, which clients have to try.
    ByPath,
    AtRoot,
    /// Nowhere: it predates this metadata.
    None,
}

/// What the server requires. Tests change it while it runs.
#[derive(Clone)]
pub struct ProtectedServerRules {
    pub description: Description,
    /// The authorization server that issues its tokens.
    pub authority: Arc<AuthServer>,
    /// The resource in its metadata, if not its own URL.
    pub claims: Option<String>,
    /// The scope in its challenge.
    pub scope: Option<&'static str>,
    /// The scopes in its metadata.
    pub listed: Option<&'static [&'static str]>,
    /// The scope that a token needs for `tools/call`.
    pub to_call: Option<&'static str>,
    /// It requires no token.
    pub is_open: bool,
}

pub struct ProtectedServer {
    port: u16,
    wants: Mutex<ProtectedServerRules>,
    /// Token and method of each request.
    seen: Mutex<Vec<(Option<String>, String)>>,
}

impl ProtectedServer {
    pub fn start(authority: &Arc<AuthServer>) -> Arc<Self> {
        let (listener, port) = wire::listener();
        let wants = ProtectedServerRules {
            description: Description::ByPath,
            authority: authority.clone(),
            claims: None,
            scope: None,
            listed: None,
            to_call: None,
            is_open: false,
        };
        let guarded = Arc::new(Self { port, wants: Mutex::new(wants), seen: Mutex::default() });
        let serving = guarded.clone();
        wire::serve(listener, move |asked| serving.answer(&asked));
        guarded
    }

    pub fn url(&self) -> String {
        format!("{}/mcp", self.origin())
    }

    pub fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn change(&self, change: impl FnOnce(&mut ProtectedServerRules)) {
        change(&mut self.wants.lock().unwrap());
    }

    /// The tokens of all requests with this method.
    pub fn seen(&self, method: &str) -> Vec<Option<String>> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|(_, called)| called == method).map(|(token, _)| token.clone()).collect()
    }

    fn answer(&self, asked: &AuthorityRequest) -> Answer {
        let wants = self.wants.lock().unwrap().clone();
        let place = match &wants.description {
            Description::Named(place) => *place,
            Description::ByPath => "/.well-known/oauth-protected-resource/mcp",
            Description::AtRoot => "/.well-known/oauth-protected-resource",
            Description::None => "",
        };
        match asked.path.as_str() {
            "/mcp" if asked.method == "POST" => self.called(asked, &wants),
            "/mcp" => Answer::text(405, ""),
            path if path == place => Answer::json(200, &self.document(&wants)),
            // A server that predates the metadata is its own authorization server.
            _ if wants.description == Description::None => wants.authority.answer(asked),
            _ => Answer::text(404, "nothing here"),
        }
    }

    fn document(&self, wants: &ProtectedServerRules) -> Value {
        let mut document = json!({
            "resource": wants.claims.clone().unwrap_or_else(|| self.url()),
            "authorization_servers": [wants.authority.issuer()],
        });
        if let Some(listed) = wants.listed {
            document["scopes_supported"] = json!(listed);
        }
        document
    }

    fn called(&self, asked: &AuthorityRequest, wants: &ProtectedServerRules) -> Answer {
        let message: Value = serde_json::from_slice(&asked.body).unwrap_or(Value::Null);
        let method = message["method"].as_str().unwrap_or_default();
        let token =
            asked.header("authorization").and_then(|header| Some(header.strip_prefix("Bearer ")?.to_owned()));
        self.seen.lock().unwrap().push((token.clone(), method.to_owned()));
        if !wants.is_open {
            let Some(held) = token.and_then(|token| wants.authority.scopes_of(&token)) else {
                return Answer::text(401, "")
                    .with("www-authenticate", self.challenge(wants, wants.scope, None));
            };
            let needed = wants.to_call.filter(|_| method == "tools/call");
            if let Some(needed) = needed.filter(|needed| !held.split(' ').any(|scope| scope == *needed)) {
                let challenge = self.challenge(wants, Some(needed), Some("insufficient_scope"));
                return Answer::text(403, "").with("www-authenticate", challenge);
            }
        }
        serve(&message, method)
    }

    fn challenge(&self, wants: &ProtectedServerRules, scope: Option<&str>, error: Option<&str>) -> String {
        let mut parts = Vec::new();
        if let Description::Named(place) = &wants.description {
            parts.push(format!(r#"resource_metadata="{}{place}""#, self.origin()));
        }
        parts.extend(scope.map(|scope| format!(r#"scope="{scope}""#)));
        parts.extend(error.map(|error| format!(r#"error="{error}""#)));
        format!("Bearer {}", parts.join(", "))
    }
}

fn serve(message: &Value, method: &str) -> Answer {
    let result = match method {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "guarded", "version": "1" },
        }),
        "ping" => json!({}),
        "tools/list" => json!({ "tools": [{ "name": "greet", "inputSchema": { "type": "object" } }] }),
        "tools/call" => json!({ "content": [{ "type": "text", "text": "hello" }] }),
        _ if message.get("id").is_none() => return Answer::text(202, ""),
        _ => {
            let error = json!({ "code": -32601, "message": "Method not found" });
            return Answer::json(200, &json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }));
        }
    };
    Answer::json(200, &json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
}
