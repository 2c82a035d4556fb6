//! Expiring tokens: renewed once for all callers, and never twice with the same refresh token.

use std::time::Duration;

use proto_tests::authority::{AuthServer, Rules};
use proto_tests::wait::{TEST_TIMEOUT, until_true};

use crate::person::{CHILD, OauthSetup};

/// Token requests of this kind.
fn asked(authority: &AuthServer, grant: &str) -> usize {
    authority.seen("/token").iter().filter(|seen| seen.fields["grant_type"] == grant).count()
}

#[test]
fn thirty_two_callers_renew_once() {
    let world = OauthSetup::new(Rules::default());
    let _daemon = world.home.daemon();
    world.log_in();
    let mut shims: Vec<_> = (0..4).map(|_| world.home.shim()).collect();
    assert!(shims[0].call(CHILD, "greet", "{}").contains("hello"));
    for round in 1..=3 {
        world.authority.expire_access();
        let calls: Vec<Vec<u64>> = shims
            .iter_mut()
            .map(|shim| (0..8).map(|_| shim.start_call(CHILD, "greet", "{}")).collect())
            .collect();
        for (shim, calls) in shims.iter_mut().zip(calls) {
            for call in calls {
                let answer = shim.answer_to(&call.to_string());
                assert!(answer.contains("hello"), "{answer}");
            }
        }
        assert_eq!(asked(&world.authority, "refresh_token"), round, "round {round}");
    }
    assert!(!world.authority.saw_token_reuse());
    assert_eq!(world.authority.seen("/authorize").len(), 1);
    for seen in world.authority.seen("/token") {
        assert_eq!(seen.fields["resource"], world.guarded.url());
    }
}

#[test]
fn a_token_is_renewed_before_it_expires() {
    let world = OauthSetup::new(Rules { lifetime: 2, ..Rules::default() });
    let _daemon = world.home.daemon();
    world.log_in();
    let mut shim = world.home.shim();
    let begin = std::time::Instant::now();
    while begin.elapsed() < std::time::Duration::from_secs(5) {
        assert!(shim.call(CHILD, "greet", "{}").contains("hello"));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(asked(&world.authority, "refresh_token") >= 2);
    assert!(!world.authority.saw_token_reuse());
    // No request was ever sent with a token that the server had to refuse.
    let first = world.guarded.seen("tools/call");
    assert!(first.iter().all(Option::is_some));
}

#[test]
fn an_expired_login_asks_for_a_new_one() {
    let world = OauthSetup::new(Rules { gives_refresh: false, ..Rules::default() });
    let _daemon = world.home.daemon();
    world.log_in();
    let mut shim = world.home.shim();
    assert!(shim.call(CHILD, "greet", "{}").contains("hello"));
    world.authority.expire_access();
    let answer = shim.call(CHILD, "greet", "{}");
    assert!(answer.contains("switchboard login far"), "{answer}");
    world.log_in();
    assert!(shim.call(CHILD, "greet", "{}").contains("hello"));
}

#[test]
fn a_change_of_authorization_server_needs_a_new_login_and_leaks_nothing() {
    let world = OauthSetup::new(Rules::default());
    let other = AuthServer::start(Rules::default());
    let _daemon = world.home.daemon();
    world.log_in();
    let mut shim = world.home.shim();
    assert!(shim.call(CHILD, "greet", "{}").contains("hello"));
    let renewed = asked(&world.authority, "refresh_token");
    world.guarded.change(|wants| wants.authority = other.clone());
    let answer = shim.call(CHILD, "greet", "{}");
    assert!(answer.contains("switchboard login far"), "{answer}");
    assert_eq!(asked(&world.authority, "refresh_token"), renewed);
    world.log_in();
    assert!(shim.call(CHILD, "greet", "{}").contains("hello"));
    let first = world.authority.seen("/authorize")[0].fields["client_id"].clone();
    let second = other.seen("/authorize")[0].fields["client_id"].clone();
    assert_ne!(first, second);
    for seen in [other.seen("/token"), other.seen("/authorize")].concat() {
        assert!(!format!("{seen:?}").contains(&first), "{seen:?}");
    }
}

/// Otherwise each of them would wait for its own failure, one after the other.
#[test]
fn one_failed_renewal_answers_all_waiting_calls() {
    let world = OauthSetup::new(Rules::default());
    let _daemon = world.home.daemon();
    world.log_in();
    let mut shim = world.home.shim();
    assert!(shim.call(CHILD, "greet", "{}").contains("hello"));
    world.authority.change(|rules| (rules.is_broken, rules.token_delay) = (true, Duration::from_millis(500)));
    world.authority.expire_access();
    let calls: Vec<u64> = (0..16).map(|_| shim.start_call(CHILD, "greet", "{}")).collect();
    for call in calls {
        let answer = shim.answer_to(&call.to_string());
        assert!(answer.contains("could not be logged in to"), "{answer}");
    }
    assert_eq!(asked(&world.authority, "refresh_token"), 1);
    // Once the authorization server works again, the failure is forgotten.
    world.authority.change(|rules| (rules.is_broken, rules.token_delay) = (false, Duration::ZERO));
    until_true("another try", TEST_TIMEOUT, || shim.call(CHILD, "greet", "{}").contains("hello"));
}

/// By the time the daemon exits, the authorization server has issued the next refresh token and revoked the
/// last.
#[test]
fn a_daemon_that_exits_stores_the_tokens_of_a_pending_renewal() {
    let world = OauthSetup::new(Rules::default());
    let daemon = world.home.daemon();
    world.log_in();
    let mut shim = world.home.shim();
    assert!(shim.call(CHILD, "greet", "{}").contains("hello"));
    world.authority.change(|rules| rules.token_delay = Duration::from_millis(1500));
    world.authority.expire_access();
    shim.start_call(CHILD, "greet", "{}");
    until_true("a renewal", TEST_TIMEOUT, || asked(&world.authority, "refresh_token") == 1);
    // Nobody waits for the call any more, so nothing but the renewal delays the daemon's exit.
    drop(shim);
    drop(daemon);
    world.authority.change(|rules| rules.token_delay = Duration::ZERO);
    let _daemon = world.home.daemon();
    let answer = world.home.shim().call(CHILD, "greet", "{}");
    assert!(answer.contains("hello"), "{answer}");
    assert!(!world.authority.saw_token_reuse());
    assert_eq!(world.authority.seen("/authorize").len(), 1);
}

#[test]
fn a_logout_by_another_process_is_not_undone() {
    let world = OauthSetup::new(Rules::default());
    let _daemon = world.home.daemon();
    world.log_in();
    let mut shim = world.home.shim();
    assert!(shim.call(CHILD, "greet", "{}").contains("hello"));
    // As another process does: the stored login is deleted without telling the daemon.
    std::fs::remove_file(world.home.state_folder().join("logins/secrets.json")).unwrap();
    world.authority.expire_access();
    let answer = shim.call(CHILD, "greet", "{}");
    assert!(answer.contains("switchboard login far"), "{answer}");
    assert_eq!(asked(&world.authority, "refresh_token"), 0);
}
