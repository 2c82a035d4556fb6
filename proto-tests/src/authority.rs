//! An authorization server and an MCP server that requires its tokens, for tests: real sockets, every request
//! recorded, and every fault that a test wants.
//!
//! The authorization server checks what a good one checks (PKCE, redirect URIs, resources, clients). It
//! treats a reused refresh token as stolen and revokes the whole token family.

mod browser;
mod grants;
mod guarded;
mod wire;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

pub use browser::{PageVisit, browse};
use grants::Grants;
pub use guarded::{Description, ProtectedServer, ProtectedServerRules};
use wire::{Answer, AuthorityRequest};

/// Which metadata document it serves, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Document {
    OAuth,
    OpenId,
    /// At `/tenant/.well-known/openid-configuration`, as OpenID Connect does it.
    OpenIdBehind,
    None,
}

/// The `iss` parameter of the authorization response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Iss {
    Right,
    Wrong,
    /// Announced in the metadata, but missing.
    Forgotten,
    /// Neither announced nor sent.
    Never,
    /// Not announced, but sent with a foreign issuer.
    WrongUnasked,
}

/// The server's behaviour. Tests change it while it runs.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The issuer's path after the origin: `""` or `/tenant`.
    pub path: &'static str,
    pub document: Document,
    /// The issuer in its metadata, if not its own.
    pub claims: Option<String>,
    pub pkce: Option<&'static [&'static str]>,
    pub iss: Iss,
    pub registers: bool,
    pub reads_documents: bool,
    pub methods: &'static [&'static str],
    pub scopes: Option<&'static [&'static str]>,
    /// Preregistered clients: id and secret.
    pub known: &'static [(&'static str, &'static str)],
    pub gives_refresh: bool,
    pub lifetime: u64,
    pub revokes: bool,
    /// The user denies access.
    pub denies: bool,
    /// The token endpoint answers with 1 MiB.
    pub is_endless: bool,
    /// The token endpoint redirects here.
    pub redirects_tokens: Option<String>,
    /// The token endpoint answers 503.
    pub is_broken: bool,
    /// How long the token endpoint delays its answer, after it has recorded the request and issued tokens.
    pub token_delay: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            path: "",
            document: Document::OAuth,
            claims: None,
            pkce: Some(&["S256"]),
            iss: Iss::Right,
            registers: true,
            reads_documents: false,
            methods: &["none"],
            scopes: None,
            known: &[],
            gives_refresh: true,
            lifetime: 3600,
            revokes: true,
            denies: false,
            is_endless: false,
            redirects_tokens: None,
            is_broken: false,
            token_delay: Duration::ZERO,
        }
    }
}

/// One recorded request.
#[derive(Debug, Clone)]
pub struct SeenRequest {
    pub path: String,
    pub fields: BTreeMap<String, String>,
    pub authorization: Option<String>,
    /// The JSON body, of a registration.
    pub body: Value,
}

pub struct AuthServer {
    port: u16,
    rules: Mutex<Rules>,
    seen: Mutex<Vec<SeenRequest>>,
    grants: Mutex<Grants>,
}

impl AuthServer {
    /// Serves until the process ends.
    pub fn start(rules: Rules) -> Arc<Self> {
        let (listener, port) = wire::listener();
        let authority = Arc::new(Self {
            port,
            rules: Mutex::new(rules),
            seen: Mutex::default(),
            grants: Mutex::new(Grants::new(port)),
        });
        let serving = authority.clone();
        wire::serve(listener, move |asked| serving.answer(&asked));
        authority
    }

    pub fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn issuer(&self) -> String {
        format!("{}{}", self.origin(), self.rules().path)
    }

    pub fn rules(&self) -> Rules {
        self.rules.lock().unwrap().clone()
    }

    pub fn change(&self, change: impl FnOnce(&mut Rules)) {
        change(&mut self.rules.lock().unwrap());
    }

    /// Requests to an endpoint, by the end of its path.
    pub fn seen(&self, end: &str) -> Vec<SeenRequest> {
        self.seen.lock().unwrap().iter().filter(|seen| seen.path.ends_with(end)).cloned().collect()
    }

    /// The scopes of an access token, if it is valid.
    pub fn scopes_of(&self, token: &str) -> Option<String> {
        self.grants.lock().unwrap().scopes_of(token)
    }

    /// Invalidates all access tokens, but no refresh tokens.
    pub fn expire_access(&self) {
        self.grants.lock().unwrap().access.clear();
    }

    /// Whether a refresh token was used twice.
    pub fn saw_token_reuse(&self) -> bool {
        self.grants.lock().unwrap().robbed
    }

    fn answer(&self, asked: &AuthorityRequest) -> Answer {
        let rules = self.rules();
        self.seen.lock().unwrap().push(SeenRequest {
            path: asked.path.clone(),
            fields: asked.fields(),
            authorization: asked.header("authorization"),
            body: serde_json::from_slice(&asked.body).unwrap_or(Value::Null),
        });
        let endpoint = asked.path.strip_prefix(rules.path).unwrap_or(&asked.path);
        match endpoint {
            "/authorize" => self.grants.lock().unwrap().authorize(asked, &rules, &self.issuer()),
            "/token" => match &rules.redirects_tokens {
                Some(elsewhere) => Answer::redirect(elsewhere),
                None if rules.is_endless => Answer::text(200, &"x".repeat(1024 * 1024)),
                None => {
                    let answer = match rules.is_broken {
                        true => Answer::text(503, "out of order"),
                        false => self.grants.lock().unwrap().token(asked, &rules),
                    };
                    thread::sleep(rules.token_delay);
                    answer
                }
            },
            "/register" if rules.registers => self.grants.lock().unwrap().register(asked),
            "/revoke" if rules.revokes => self.grants.lock().unwrap().revoke(asked),
            _ if asked.path == self.place(&rules) => Answer::json(200, &self.metadata(&rules)),
            _ => Answer::text(404, "nothing here"),
        }
    }

    fn place(&self, rules: &Rules) -> String {
        match rules.document {
            Document::OAuth => format!("/.well-known/oauth-authorization-server{}", rules.path),
            Document::OpenId => format!("/.well-known/openid-configuration{}", rules.path),
            Document::OpenIdBehind => format!("{}/.well-known/openid-configuration", rules.path),
            Document::None => String::new(),
        }
    }

    fn metadata(&self, rules: &Rules) -> Value {
        let at = |path: &str| format!("{}{path}", self.issuer());
        let mut document = json!({
            "issuer": rules.claims.clone().unwrap_or_else(|| self.issuer()),
            "authorization_endpoint": at("/authorize"),
            "token_endpoint": at("/token"),
            "response_types_supported": ["code"],
            "token_endpoint_auth_methods_supported": rules.methods,
            "client_id_metadata_document_supported": rules.reads_documents,
        });
        if let Some(methods) = rules.pkce {
            document["code_challenge_methods_supported"] = json!(methods);
        }
        if let Some(scopes) = rules.scopes {
            document["scopes_supported"] = json!(scopes);
        }
        if !matches!(rules.iss, Iss::Never | Iss::WrongUnasked) {
            document["authorization_response_iss_parameter_supported"] = true.into();
        }
        if rules.registers {
            document["registration_endpoint"] = at("/register").into();
        }
        if rules.revokes {
            document["revocation_endpoint"] = at("/revoke").into();
        }
        document
    }
}
