//! What a person sees who types `switchboard` and nothing else, and a shim that nobody used for a while.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use proto_tests::{Home, bins, shim::structured};

/// Runs `switchboard` on a terminal of its own and gives what it showed there.
fn on_a_terminal(home: &Home) -> String {
    let line = format!("{} --socket {}", bins().switchboard.display(), home.socket().display());
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env_clear()
        .envs(home.environment())
        .stdin(Stdio::null())
        .output()
        .expect("script(1), which is part of every Linux");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn alone_on_a_terminal_it_shows_help_and_the_state_of_things() {
    let home = Home::new();
    home.child("a", &["echo"]);
    let shown = on_a_terminal(&home);
    assert!(shown.contains("Usage:") && shown.contains("status"), "{shown}");
    assert!(shown.contains("no switchboardd is running"), "{shown}");
    let _daemon = home.daemon();
    let shown = on_a_terminal(&home);
    assert!(shown.contains("a_suite") && shown.contains("cold"), "{shown}");
}

/// Longer than any time-out for idle connections on the way. `SWITCHBOARD_IDLE_SECONDS` makes it longer.
#[test]
fn the_next_call_of_an_idle_shim_works_at_once() {
    let idle = std::env::var("SWITCHBOARD_IDLE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    let home = Home::new();
    home.child("a", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("a", "echo", "{}");
    std::thread::sleep(Duration::from_secs(idle));
    let start = Instant::now();
    let answer = shim.call("a", "echo", r#"{"after":"idle"}"#);
    assert_eq!(structured(&answer)["args"]["after"], "idle");
    assert!(start.elapsed() < Duration::from_secs(1), "it took {:?}", start.elapsed());
}
