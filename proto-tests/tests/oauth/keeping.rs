//! Where a login is stored, who can read it, and what remains of it after a logout.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use proto_tests::authority::Rules;
use proto_tests::wait::until_true;
use proto_tests::{DaemonProcess, TEST_TIMEOUT};
use serde_json::json;

use crate::person::{CHILD, OauthSetup};

#[test]
fn a_restart_keeps_the_login() {
    let world = OauthSetup::new(Rules::default());
    let daemon = world.home.daemon();
    world.log_in();
    drop(daemon);
    let _daemon = world.home.daemon();
    let answer = world.home.shim().call(CHILD, "greet", "{}");
    assert!(answer.contains("hello"), "{answer}");
    assert_eq!(world.authority.seen("/authorize").len(), 1);
}

#[test]
fn without_a_keyring_the_login_is_in_a_private_file() {
    let world = OauthSetup::new(Rules::default());
    let _daemon = world.home.daemon();
    world.log_in();
    let folder = world.home.state_folder().join("logins");
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(folder.clone()), 0o700);
    let mut holds = 0;
    for entry in fs::read_dir(&folder).unwrap().flatten() {
        assert_eq!(mode(entry.path()), 0o600, "{entry:?}");
        holds += usize::from(fs::read_to_string(entry.path()).unwrap().contains("refresh-"));
    }
    assert_eq!(holds, 1);
    if !rustix::process::getuid().is_root() || Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("skipped: becoming another user needs root and setpriv");
        return;
    }
    let stranger = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "cat"])
        .arg(folder.join("secrets.json"))
        .output()
        .unwrap();
    assert!(!stranger.status.success() && stranger.stdout.is_empty());
}

#[test]
fn a_logout_revokes_and_deletes() {
    let world = OauthSetup::new(Rules::default());
    let _daemon = world.home.daemon();
    world.log_in();
    let mut shim = world.home.shim();
    assert!(shim.call(CHILD, "greet", "{}").contains("hello"));
    let output = world.home.command(&["logout", CHILD]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("revoked"), "{output:?}");
    let hints: Vec<_> =
        world.authority.seen("/revoke").iter().map(|seen| seen.fields["token_type_hint"].clone()).collect();
    assert_eq!(hints, ["refresh_token", "access_token"]);
    let answer = shim.call(CHILD, "greet", "{}");
    assert!(answer.contains("switchboard login far"), "{answer}");
    let kept = fs::read_to_string(world.home.state_folder().join("logins/secrets.json")).unwrap();
    assert!(!kept.contains("refresh-") && !kept.contains("access-"), "{kept}");
    let again = world.home.command(&["logout", CHILD]);
    assert!(String::from_utf8_lossy(&again.stdout).contains("was not logged in to"), "{again:?}");
}

#[test]
fn logout_reports_tokens_that_were_not_revoked() {
    let world = OauthSetup::new(Rules { revokes: false, ..Rules::default() });
    let _daemon = world.home.daemon();
    world.log_in();
    let output = world.home.command(&["logout", CHILD]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("not revoked"), "{output:?}");
}

#[test]
fn no_secret_is_logged() {
    let world = OauthSetup::new(Rules { methods: &["client_secret_basic"], ..Rules::default() });
    let daemon = DaemonProcess::start_with(&world.home, &["--listen", "off"], &[("RUST_LOG", "trace")]);
    let visit = world.log_in();
    let mut shim = world.home.shim();
    assert!(shim.call(CHILD, "greet", "{}").contains("hello"));
    world.authority.expire_access();
    assert!(shim.call(CHILD, "greet", "{}").contains("hello"));
    let code = visit.url.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
    let log = daemon.log();
    assert!(log.contains("logged in"), "{log}");
    for secret in ["access-", "refresh-", "secret/of", "code_verifier", &code] {
        assert!(!log.contains(secret), "`{secret}` is in the log");
    }
    let status = daemon.status().to_string();
    assert!(!status.contains("access-") && !status.contains("refresh-"));
}

/// A spare of a server that needs a login is not retried over and over: it waits for the login.
#[test]
fn a_spare_waits_for_the_login() {
    let world = OauthSetup::new(Rules { gives_refresh: false, ..Rules::default() });
    world.home.config(&json!({"suites": {CHILD: {"pool": {"warm": 1}}}}));
    let daemon = world.home.daemon();
    world.log_in();
    assert!(world.home.shim().call(CHILD, "greet", "{}").contains("hello"));
    drop(daemon);
    world.authority.expire_access();
    let daemon = world.home.daemon();
    let requests = || world.guarded.seen("initialize").len() + world.guarded.seen("server/discover").len();
    let before = requests();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(daemon.starts(CHILD) >= 1, "it was not tried at all");
    let (starts, asked, log) = (daemon.starts(CHILD), requests() - before, daemon.log().len());
    assert!(
        starts <= 3 && asked <= 12 && log < 20_000,
        "{starts} starts, {asked} requests, {log} bytes of log"
    );
    world.log_in();
    until_true("a connection that nobody called for", TEST_TIMEOUT, || {
        daemon.suite(CHILD)["state"] == "ready"
    });
}
