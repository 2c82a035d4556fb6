//! Tokens that end: renewed once for all who need them, and never by two.

use std::process::{Child, Command, Stdio};

use proto_tests::authority::{Authority, Rules};
use proto_tests::shim::call_params;
use proto_tests::wait::until_true;
use proto_tests::{Door, PATIENCE, bins};

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

/// Another daemon of the same person; ends when dropped.
struct Second {
    process: Child,
    door: Door,
}

impl Second {
    fn start(world: &World) -> Self {
        let socket = world.home.workspace().join("other");
        let process = Command::new(&bins().switchboardd)
            .arg("--socket")
            .arg(&socket)
            .args(["--listen", "off"])
            .env_clear()
            .envs(world.home.environment())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let door = Door::unix(&socket);
        until_true("the other daemon", PATIENCE, || door.connect().is_ok());
        Self { process, door }
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.process),
            rustix::process::Signal::TERM,
        );
        let _ = self.process.wait();
    }
}

#[test]
fn two_daemons_renew_once() {
    let world = World::new(Rules::default());
    let first = world.home.daemon();
    world.log_in();
    let second = Second::start(&world);
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}}"#,
        call_params(CHILD, "greet", "{}")
    );
    let greet = |door: &Door| {
        let answer = door.post("/proxy", &call).text();
        assert!(answer.contains("hello"), "{answer}");
    };
    for round in 1..=3 {
        greet(&first.door());
        greet(&second.door);
        world.authority.expire_access();
        std::thread::scope(|scope| {
            for door in [first.door(), second.door.clone()] {
                scope.spawn(move || greet(&door));
            }
        });
        assert_eq!(asked(&world.authority, "refresh_token"), round);
    }
    assert!(!world.authority.was_robbed());
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
