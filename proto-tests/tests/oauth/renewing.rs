//! Tokens that end: renewed once for all who need them, and never by two.

use proto_tests::authority::{Authority, Rules};

use crate::person::{CHILD, World};

/// Token requests of this kind.
fn asked(authority: &Authority, grant: &str) -> usize {
    authority.seen("/token").iter().filter(|seen| seen.fields["grant_type"] == grant).count()
}

#[test]
fn thirty_two_callers_renew_once() {
    let world = World::new(Rules::default());
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
    assert!(!world.authority.was_robbed());
    assert_eq!(world.authority.seen("/authorize").len(), 1);
    for seen in world.authority.seen("/token") {
        assert_eq!(seen.fields["resource"], world.guarded.url());
    }
}

#[test]
fn a_token_is_renewed_before_it_ends() {
    let world = World::new(Rules { lifetime: 2, ..Rules::default() });
    let _daemon = world.home.daemon();
    world.log_in();
    let mut shim = world.home.shim();
    let begin = std::time::Instant::now();
    while begin.elapsed() < std::time::Duration::from_secs(5) {
        assert!(shim.call(CHILD, "greet", "{}").contains("hello"));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(asked(&world.authority, "refresh_token") >= 2);
    assert!(!world.authority.was_robbed());
    // Not once was a token sent that the server had to refuse.
    let first = world.guarded.seen("tools/call");
    assert!(first.iter().all(Option::is_some));
}

#[test]
fn a_login_that_is_over_asks_for_another() {
    let world = World::new(Rules { gives_refresh: false, ..Rules::default() });
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
fn a_server_that_moves_needs_a_new_login_and_nothing_crosses() {
    let world = World::new(Rules::default());
    let other = Authority::start(Rules::default());
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
