//! Logins that are refused, with a message that says why.

use proto_tests::authority::{Iss, Rules, browse};
use serde_json::json;

use crate::person::{CHILD, OauthSetup};

#[track_caller]
fn refused(world: &OauthSetup, why: &str) {
    let _daemon = world.home.daemon();
    let said = world.fail_to_log_in();
    assert!(said.contains(why), "{said}");
    assert!(world.authority.seen("/token").is_empty(), "{said}");
}

#[test]
fn answers_of_another_issuer_are_not_exchanged() {
    for (iss, why) in [
        (Iss::Wrong, "the answer came from `https://evil.example`"),
        (Iss::WrongUnasked, "the answer came from `https://evil.example`"),
        (Iss::Forgotten, "does not say that it is from"),
    ] {
        refused(&OauthSetup::new(Rules { iss, ..Rules::default() }), why);
    }
    let world = OauthSetup::new(Rules { iss: Iss::Never, ..Rules::default() });
    let _daemon = world.home.daemon();
    world.log_in();
}

#[test]
fn a_login_without_pkce_is_refused() {
    for pkce in [None, Some(&["plain"][..])] {
        let world = OauthSetup::new(Rules { pkce, ..Rules::default() });
        refused(&world, "does not support PKCE");
        assert!(
            world.authority.seen("/register").is_empty() && world.authority.seen("/authorize").is_empty()
        );
    }
}

#[test]
fn metadata_of_another_issuer_or_resource_is_refused() {
    let world = OauthSetup::new(Rules { claims: Some("https://evil.example".into()), ..Rules::default() });
    refused(&world, "is that of `https://evil.example`");
    let world = OauthSetup::new(Rules::default());
    world.guarded.change(|wants| wants.claims = Some("https://evil.example/mcp".into()));
    refused(&world, "its metadata is about `https://evil.example/mcp`");
}

#[test]
fn a_denied_authorization_is_reported() {
    refused(&OauthSetup::new(Rules { denies: true, ..Rules::default() }), "access_denied");
}

#[test]
fn a_wrong_state_changes_nothing() {
    let world = OauthSetup::new(Rules::default());
    let _daemon = world.home.daemon();
    let typed = world.begin();
    let page = url::Url::parse(typed.page()).unwrap();
    let redirect = page.query_pairs().find(|(name, _)| name == "redirect_uri").unwrap().1.into_owned();
    for query in ["", "?code=x", "?code=x&state=guessed", "?error=access_denied&state="] {
        assert_eq!(browse(&format!("{redirect}{query}")).status, 400, "{query}");
    }
    assert!(world.authority.seen("/token").is_empty());
    let visit = browse(typed.page());
    let header =
        |name: &str| visit.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.clone());
    assert_eq!(visit.status, 200);
    assert!(header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    assert_eq!(header("cache-control").as_deref(), Some("no-store"));
    assert!(!visit.body.contains("src=") && !visit.body.contains("href="), "{}", visit.body);
    assert_eq!(typed.end().0, Some(0));
}

#[test]
fn a_redirect_of_the_token_endpoint_is_not_followed() {
    let elsewhere = OauthSetup::new(Rules::default());
    let rules = Rules {
        redirects_tokens: Some(format!("{}/token", elsewhere.authority.origin())),
        ..Rules::default()
    };
    let world = OauthSetup::new(rules);
    let _daemon = world.home.daemon();
    world.fail_to_log_in();
    assert!(elsewhere.authority.seen("/token").is_empty());
}

#[test]
fn an_endless_answer_is_cut_off() {
    let world = OauthSetup::new(Rules { is_endless: true, ..Rules::default() });
    let _daemon = world.home.daemon();
    let said = world.fail_to_log_in();
    assert!(said.contains("longer than 256 KiB"), "{said}");
}

#[test]
fn a_server_without_registration_gets_advice() {
    let world = OauthSetup::new(Rules { registers: false, ..Rules::default() });
    refused(&world, "set it in the config under `oauth.clients`");
}

#[test]
fn a_configured_client_is_used_with_its_own_issuer_only() {
    let world = OauthSetup::new(Rules { known: &[("mine", "")], ..Rules::default() });
    let client = json!({"clientId": "mine", "issuer": "https://as.example"});
    world.home.config(&json!({"oauth": {"clients": {CHILD: client}}}));
    refused(&world, "the client in the config is for `https://as.example`");
    assert!(world.authority.seen("/authorize").is_empty());
}
