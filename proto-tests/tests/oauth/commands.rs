//! What the `login` and `logout` commands print.

use proto_tests::authority::Rules;
use serde_json::json;

use crate::person::{CHILD, OauthSetup};

#[track_caller]
fn told(world: &OauthSetup, args: &[&str], code: i32, words: &str) {
    let output = world.home.command(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    assert!(said.contains(words), "{said}");
}

#[test]
fn login_explains_why_a_server_has_no_login() {
    let world = OauthSetup::new(Rules::default());
    told(&world, &["login", CHILD], 3, "no switchboardd is running");
    told(&world, &["logout", CHILD], 3, "no switchboardd is running");
    world.home.child("near", &[]);
    let preset = json!({"mcpServers": {"keyed": {
        "url": world.guarded.url(), "headers": {"Authorization": "Bearer x"},
    }}});
    world.home.definition("keyed", &preset.to_string());
    let _daemon = world.home.daemon();
    told(&world, &["login", "nobody"], 1, "there is no suite or server `nobody`");
    told(&world, &["login", "near"], 1, "has no login");
    told(&world, &["login", "keyed"], 1, "has no login");
    world.guarded.change(|wants| {
        wants.is_open = true;
        wants.description = proto_tests::authority::Description::None;
    });
    told(&world, &["login", CHILD], 1, "it asks for no login");
}

#[test]
fn a_call_without_a_login_says_what_to_type() {
    let world = OauthSetup::new(Rules::default());
    let _daemon = world.home.daemon();
    let answer = world.home.shim().call(CHILD, "greet", "{}");
    assert!(answer.contains("needs a login: run `switchboard login far`"), "{answer}");
}

#[test]
fn a_second_login_takes_the_place_of_the_first() {
    let world = OauthSetup::new(Rules::default());
    let _daemon = world.home.daemon();
    let first = world.begin();
    first.page();
    world.log_in();
    let (code, said) = first.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("another attempt took its place"), "{said}");
}
