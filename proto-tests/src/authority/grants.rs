//! The clients, codes and tokens of the authorization server.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::wire::{Answer, AuthorityRequest};
use super::{Iss, Rules};

#[derive(Debug, Default)]
pub(super) struct Grants {
    /// Distinguishes the tokens of different servers.
    mark: u16,
    issued: u64,
    clients: BTreeMap<String, Client>,
    codes: BTreeMap<String, Code>,
    /// Token ⇒ family and scopes.
    pub(super) access: BTreeMap<String, (u64, String)>,
    refresh: BTreeMap<String, Refresh>,
    void: BTreeSet<u64>,
    pub(super) robbed: bool,
}

#[derive(Debug, Clone)]
struct Client {
    secret: Option<String>,
    redirects: Vec<String>,
}

#[derive(Debug)]
struct Code {
    client: String,
    redirect: String,
    challenge: String,
    resource: Option<String>,
    scope: String,
}

#[derive(Debug, Clone)]
struct Refresh {
    client: String,
    family: u64,
    scope: String,
    resource: Option<String>,
    is_used: bool,
}

impl Grants {
    pub(super) fn new(mark: u16) -> Self {
        Self { mark, ..Self::default() }
    }

    fn next(&mut self) -> u64 {
        self.issued += 1;
        self.issued
    }

    fn named(&mut self, what: &str) -> String {
        let number = self.next();
        format!("{what}-{}-{number}", self.mark)
    }

    pub(super) fn scopes_of(&self, token: &str) -> Option<String> {
        let (family, scopes) = self.access.get(token)?;
        (!self.void.contains(family)).then(|| scopes.clone())
    }

    pub(super) fn register(&mut self, asked: &AuthorityRequest) -> Answer {
        let wanted: Value = serde_json::from_slice(&asked.body).unwrap_or(Value::Null);
        let redirects: Vec<String> = wanted["redirect_uris"]
            .as_array()
            .map(|all| all.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect())
            .unwrap_or_default();
        if redirects.is_empty() || wanted["application_type"] != "native" {
            return refusal(400, "invalid_client_metadata");
        }
        let id = self.named("client");
        let method = wanted["token_endpoint_auth_method"].as_str().unwrap_or("client_secret_basic");
        let secret = (method != "none").then(|| format!("secret/of {id}"));
        let mut given = json!({
            "client_id": id, "redirect_uris": redirects, "token_endpoint_auth_method": method,
        });
        if let Some(secret) = &secret {
            given["client_secret"] = secret.clone().into();
        }
        self.clients.insert(id, Client { secret, redirects });
        Answer::json(201, &given)
    }

    pub(super) fn authorize(&mut self, asked: &AuthorityRequest, rules: &Rules, issuer: &str) -> Answer {
        let fields = asked.fields();
        let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
        let (client, redirect) = (field("client_id"), field("redirect_uri"));
        let is_local = redirect.starts_with("http://127.0.0.1:");
        let knows = match self.clients.get(&client) {
            Some(registered) => registered.redirects.contains(&redirect),
            None => is_local && (rules.reads_documents || rules.known.iter().any(|(id, _)| *id == client)),
        };
        if !knows || field("response_type") != "code" || field("code_challenge_method") != "S256" {
            return Answer::text(400, "no such client, redirect or method");
        }
        let mut back = url::Url::parse(&redirect).unwrap();
        back.query_pairs_mut().append_pair("state", &field("state"));
        match rules.iss {
            Iss::Right => drop(back.query_pairs_mut().append_pair("iss", issuer)),
            Iss::Wrong | Iss::WrongUnasked => {
                back.query_pairs_mut().append_pair("iss", "https://evil.example");
            }
            Iss::Forgotten | Iss::Never => {}
        }
        if rules.denies {
            back.query_pairs_mut().append_pair("error", "access_denied");
            return Answer::redirect(back.as_str());
        }
        let code = format!("code-{}", self.next());
        back.query_pairs_mut().append_pair("code", &code);
        self.codes.insert(
            code,
            Code {
                client,
                redirect,
                challenge: field("code_challenge"),
                resource: fields.get("resource").cloned(),
                scope: field("scope"),
            },
        );
        Answer::redirect(back.as_str())
    }

    pub(super) fn token(&mut self, asked: &AuthorityRequest, rules: &Rules) -> Answer {
        let fields = asked.fields();
        let Some(client) = self.client(asked, rules) else { return refusal(401, "invalid_client") };
        match fields.get("grant_type").map(String::as_str) {
            Some("authorization_code") => self.exchange(&fields, &client, rules),
            Some("refresh_token") => self.refresh(&fields, &client, rules),
            _ => refusal(400, "unsupported_grant_type"),
        }
    }

    fn exchange(&mut self, fields: &BTreeMap<String, String>, client: &str, rules: &Rules) -> Answer {
        let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
        let Some(code) = self.codes.remove(field("code")) else { return refusal(400, "invalid_grant") };
        let right = code.client == client
            && code.redirect == field("redirect_uri")
            && code.challenge == challenge(field("code_verifier"))
            && code.resource.as_deref() == fields.get("resource").map(String::as_str);
        if !right {
            return refusal(400, "invalid_grant");
        }
        let family = self.next();
        self.issue(client, family, &code.scope, code.resource, rules)
    }

    fn refresh(&mut self, fields: &BTreeMap<String, String>, client: &str, rules: &Rules) -> Answer {
        let token = fields.get("refresh_token").cloned().unwrap_or_default();
        let Some(held) = self.refresh.get(&token).cloned() else { return refusal(400, "invalid_grant") };
        if held.is_used {
            self.robbed = true;
            self.void.insert(held.family);
        }
        let right =
            held.client == client && held.resource.as_deref() == fields.get("resource").map(String::as_str);
        if !right || self.void.contains(&held.family) {
            return refusal(400, "invalid_grant");
        }
        if let Some(held) = self.refresh.get_mut(&token) {
            held.is_used = true;
        }
        self.issue(client, held.family, &held.scope, held.resource, rules)
    }

    fn issue(
        &mut self,
        client: &str,
        family: u64,
        scope: &str,
        resource: Option<String>,
        rules: &Rules,
    ) -> Answer {
        let access = self.named("access");
        self.access.insert(access.clone(), (family, scope.to_owned()));
        let mut given =
            json!({ "access_token": access, "token_type": "Bearer", "expires_in": rules.lifetime });
        if !scope.is_empty() {
            given["scope"] = scope.into();
        }
        if rules.gives_refresh {
            let refresh = self.named("refresh");
            given["refresh_token"] = refresh.clone().into();
            let (client, scope) = (client.to_owned(), scope.to_owned());
            self.refresh.insert(refresh, Refresh { client, family, scope, resource, is_used: false });
        }
        Answer::json(200, &given)
    }

    pub(super) fn revoke(&mut self, asked: &AuthorityRequest) -> Answer {
        let token = asked.fields().remove("token").unwrap_or_default();
        let family = match (self.refresh.get(&token), self.access.get(&token)) {
            (Some(held), _) => Some(held.family),
            (None, Some((family, _))) => Some(*family),
            (None, None) => None,
        };
        self.void.extend(family);
        Answer::text(200, "")
    }

    /// The client id, if the client authenticated with an allowed method.
    fn client(&self, asked: &AuthorityRequest, rules: &Rules) -> Option<String> {
        let fields = asked.fields();
        let (method, id, secret) = match asked.header("authorization") {
            Some(header) => {
                let (id, secret) = basic(&header)?;
                ("client_secret_basic", id, Some(secret))
            }
            None => {
                let (id, secret) = (fields.get("client_id")?.clone(), fields.get("client_secret").cloned());
                (if secret.is_some() { "client_secret_post" } else { "none" }, id, secret)
            }
        };
        let expected = match self.clients.get(&id) {
            Some(client) => client.secret.clone(),
            None => match rules.known.iter().find(|(known, _)| *known == id) {
                Some((_, secret)) => Some((*secret).to_owned()).filter(|secret| !secret.is_empty()),
                None if rules.reads_documents && id.starts_with("https://") => None,
                None => return None,
            },
        };
        (rules.methods.contains(&method) && secret == expected).then_some(id)
    }
}

fn refusal(status: u16, error: &str) -> Answer {
    Answer::json(status, &json!({ "error": error }))
}

fn basic(header: &str) -> Option<(String, String)> {
    let text = String::from_utf8(decode(header.strip_prefix("Basic ")?)?).ok()?;
    let (id, secret) = text.split_once(':')?;
    let plain = |text: &str| {
        let pair = format!("x={text}");
        let mut fields = url::form_urlencoded::parse(pair.as_bytes());
        fields.next().map(|(_, value)| value.into_owned())
    };
    Some((plain(id)?, plain(secret)?))
}

/// Decodes standard base64.
fn decode(text: &str) -> Option<Vec<u8>> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bits = 0_u32;
    let (mut count, mut bytes) = (0, Vec::new());
    for digit in text.trim_end_matches('=').bytes() {
        let value = DIGITS.iter().position(|known| *known == digit)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    Some(bytes)
}

/// The S256 code challenge of a verifier.
fn challenge(verifier: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(verifier.as_bytes());
    let mut text = String::new();
    for chunk in digest.chunks(3) {
        let bits =
            chunk.iter().enumerate().fold(0_u32, |bits, (at, byte)| bits | u32::from(*byte) << (16 - 8 * at));
        for at in 0..=chunk.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * at) & 63) as usize]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_of_the_specification_matches() {
        assert_eq!(
            challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
        assert_eq!(basic("Basic YTolMkZi"), Some(("a".to_owned(), "/b".to_owned())));
    }
}
