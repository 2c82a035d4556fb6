//! Finding the authorization server, and identifying ourselves to it as a client.

use proto_tests::authority::{Description, Document, Iss, Rules};
use serde_json::json;

use crate::person::{CHILD, OauthSetup};

/// Logs in and makes a call.
#[track_caller]
fn works(world: &OauthSetup) {
    let _daemon = world.home.daemon();
    world.log_in();
    let answer = world.home.shim().call(CHILD, "greet", "{}");
    assert!(answer.contains("hello"), "{answer}");
}

#[test]
fn an_authorization_server_is_found_at_every_well_known_place() {
    let ways = [
        (Description::Named("/custom/place.json"), Document::OAuth, ""),
        (Description::ByPath, Document::OpenId, ""),
        (Description::AtRoot, Document::OAuth, "/tenant"),
        (Description::ByPath, Document::OpenId, "/tenant"),
        (Description::ByPath, Document::OpenIdBehind, "/tenant"),
    ];
    for (description, document, path) in ways {
        let world = OauthSetup::new(Rules { document, path, ..Rules::default() });
        world.guarded.change(|wants| wants.description = description);
        works(&world);
        let asked = &world.authority.seen("/authorize")[0];
        assert_eq!(asked.fields["resource"], world.guarded.url(), "{path} {document:?}");
        assert_eq!(world.authority.seen("/token")[0].fields["resource"], world.guarded.url());
        assert!(!asked.fields.contains_key("scope"));
    }
}

#[test]
fn an_old_server_is_its_own_authorization_server() {
    for document in [Document::OAuth, Document::None] {
        let world = OauthSetup::new(Rules { document, iss: Iss::Never, ..Rules::default() });
        world.guarded.change(|wants| wants.description = Description::None);
        let own = world.guarded.origin();
        world.authority.change(|rules| rules.claims = Some(own.clone()));
        works(&world);
        let page = &world.authority.seen("/authorize")[0];
        assert_eq!(page.fields["resource"], world.guarded.url());
    }
}

#[test]
fn the_daemon_registers_as_a_native_application() {
    let world = OauthSetup::new(Rules::default());
    works(&world);
    let wanted = world.authority.seen("/register").remove(0).body;
    assert_eq!(wanted["application_type"], "native");
    assert_eq!(wanted["grant_types"], json!(["authorization_code", "refresh_token"]));
    assert_eq!(wanted["token_endpoint_auth_method"], "none");
    let redirect = wanted["redirect_uris"][0].as_str().unwrap();
    assert!(redirect.starts_with("http://127.0.0.1:") && redirect.ends_with("/callback"), "{redirect}");
}

#[test]
fn a_registration_is_reused() {
    let world = OauthSetup::new(Rules::default());
    let _daemon = world.home.daemon();
    world.log_in();
    world.log_in();
    assert_eq!(world.authority.seen("/register").len(), 1);
    assert_eq!(world.authority.seen("/authorize").len(), 2);
}

#[test]
fn every_client_authentication_method_works() {
    for (method, in_header) in [("client_secret_basic", true), ("client_secret_post", false)] {
        let methods: &[&str] = if in_header { &["client_secret_basic"] } else { &["client_secret_post"] };
        let world = OauthSetup::new(Rules { methods, ..Rules::default() });
        works(&world);
        let asked = world.authority.seen("/token").remove(0);
        assert_eq!(asked.authorization.is_some(), in_header, "{method}");
        assert_eq!(asked.fields.contains_key("client_secret"), !in_header, "{method}");
    }
}

#[test]
fn a_client_id_url_replaces_registration_where_supported() {
    let world = OauthSetup::new(Rules { reads_documents: true, ..Rules::default() });
    let document = "https://me.example/switchboard.json";
    world.home.config(&json!({"oauth": {"clientIdUrl": document}}));
    works(&world);
    assert_eq!(world.authority.seen("/authorize")[0].fields["client_id"], document);
    assert!(world.authority.seen("/register").is_empty());
}

#[test]
fn a_client_from_the_config_takes_precedence() {
    let rules = Rules {
        registers: false,
        methods: &["client_secret_basic"],
        known: &[("mine", "s3cr et/+")],
        ..Rules::default()
    };
    let world = OauthSetup::new(rules);
    let client = json!({
        "clientId": "mine", "clientSecret": "${CLIENT}", "issuer": world.authority.issuer(), "scopes": ["a"]
    });
    world.home.config(&json!({"oauth": {"clients": {CHILD: client}}}));
    world.home.write(".config/switchboard/env", "CLIENT='s3cr et/+'\n");
    std::fs::set_permissions(
        world.home.config_folder().join("env"),
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .unwrap();
    works(&world);
    assert_eq!(world.authority.seen("/authorize")[0].fields["scope"], "a");
}

#[test]
fn scopes_are_taken_from_the_server() {
    let world = OauthSetup::new(Rules { scopes: Some(&["x", "offline_access"]), ..Rules::default() });
    world.guarded.change(|wants| wants.listed = Some(&["list", "read"]));
    works(&world);
    assert_eq!(world.authority.seen("/authorize")[0].fields["scope"], "list read offline_access");
    let world = OauthSetup::new(Rules::default());
    world.guarded.change(|wants| (wants.scope, wants.listed) = (Some("only"), Some(&["list"][..])));
    works(&world);
    assert_eq!(world.authority.seen("/authorize")[0].fields["scope"], "only");
}
