//! The daemon as a service: sockets bound by a service manager, notifications to that manager, and restarts
//! and upgrades behind a socket that stays open.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests start processes; one that panics fails"
)]

use std::collections::HashSet;
use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use proto_tests::activator::{Activator, Manager, install, installed, start_with_sockets, tcp};
use proto_tests::proof::counted;
use proto_tests::shim::{kind_of, structured};
use proto_tests::streamable::{ModernHost, with_meta};
use proto_tests::wait::until_true;
use proto_tests::{DaemonProcess, Endpoint, Home, Shim, TEST_TIMEOUT, bins};
use rustix::process::Signal;
use serde_json::{Value, json};

fn boot(daemon: &DaemonProcess) -> String {
    daemon.status()["boot"].as_str().unwrap().to_owned()
}

/// Waits until the next run of the daemon serves. Connections that are open during the takeover are cut.
#[track_caller]
fn await_next(endpoint: &Endpoint, before: &str) {
    until_true("the next one", TEST_TIMEOUT, || {
        endpoint.try_get("/status").is_some_and(|told| told.status == 200 && told.json()["boot"] != before)
    });
}

#[test]
fn the_daemon_notifies_the_service_manager_of_its_state() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let path = home.path().join("notify");
    let names = [path.to_str().unwrap().to_owned(), format!("@switchboard-test-{}", std::process::id())];
    // Only Linux has abstract names.
    for name in names.into_iter().take(if cfg!(target_os = "linux") { 2 } else { 1 }) {
        let manager = Manager::named(&name);
        let env = [("NOTIFY_SOCKET", name.as_str())];
        let mut daemon = DaemonProcess::spawn_with_env(&home, &env);
        let ready = manager.until("READY=1").pop().unwrap();
        assert!(ready.contains("STATUS=1 suite, 0 sessions"), "{ready}");
        // Once it reports READY, it serves.
        assert_eq!(daemon.endpoint().get("/ready").status, 200);
        let shim = home.shim();
        manager.until("STATUS=1 suite, 1 session");
        drop(shim);
        home.child("other", &["echo"]);
        manager.until("STATUS=2 suites, 0 sessions");
        daemon.signal(Signal::TERM);
        manager.until("STOPPING=1");
        assert!(daemon.ended(TEST_TIMEOUT).success());
        fs::remove_dir_all(home.config_folder().join("mcps/other")).unwrap();
    }
}

#[test]
fn watchdog_messages_stop_while_the_daemon_is_stopped() {
    let home = Home::new();
    let path = home.path().join("notify");
    let manager = Manager::at(&path);
    let env = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "200000")];
    let mut daemon = DaemonProcess::spawn_with_env(&home, &env);
    manager.until("READY=1");
    for _ in 0..5 {
        manager.until("WATCHDOG=1");
    }
    daemon.signal(Signal::STOP);
    until_true("it to stand still", TEST_TIMEOUT, || {
        fs::read_to_string(format!("/proc/{}/stat", daemon.pid())).unwrap().contains(") T ")
    });
    while manager.next_message(Duration::from_millis(1)).is_some() {}
    assert_eq!(
        manager.next_message(Duration::from_secs(2)),
        None,
        "a thread that stands still sent something"
    );
    daemon.signal(Signal::CONT);
    manager.until("WATCHDOG=1");
    daemon.signal(Signal::TERM);
    manager.until("STOPPING=1");
    assert!(daemon.ended(TEST_TIMEOUT).success());
    // It ignores a watchdog that is meant for another process.
    let mut daemon = DaemonProcess::spawn_with_env(&home, &[env[0], env[1], ("WATCHDOG_PID", "1")]);
    manager.until("READY=1");
    daemon.signal(Signal::TERM);
    let heard = manager.until("STOPPING=1");
    assert!(!heard.iter().any(|said| said.contains("WATCHDOG")), "{heard:?}");
    assert!(daemon.ended(TEST_TIMEOUT).success());
}

#[test]
fn an_absent_or_unread_notify_socket_does_not_block_the_daemon() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let path = home.path().join("notify");
    let silent = Manager::at(&path);
    for name in [path.to_str().unwrap(), "/no/such/socket", "nonsense", "@nobody-listens-here"] {
        let env = [("NOTIFY_SOCKET", name), ("WATCHDOG_USEC", "2000")];
        let daemon = DaemonProcess::spawn_with_env(&home, &env).serving();
        let mut shim = home.shim();
        for _ in 0..50 {
            assert!(shim.call("k", "echo", "{}").contains("\"ok\":true"));
        }
        drop(daemon);
    }
    drop(silent);
}

#[test]
fn children_do_not_inherit_the_service_managers_variables() {
    let home = Home::new();
    home.child("env", &["echo"]);
    let activator = Activator::new(&home);
    let path = home.path().join("notify");
    let _manager = Manager::at(&path);
    let env = [
        ("NOTIFY_SOCKET", path.to_str().unwrap()),
        ("WATCHDOG_USEC", "30000000"),
        ("INVOCATION_ID", "0123"),
        ("JOURNAL_STREAM", "1:2"),
    ];
    let daemon = activator.start(&home, &bins().switchboardd, &env).serving();
    let told = structured(&home.shim().call("env", "env", "{}"));
    let below = proto_tests::procs::descendants(daemon.pid());
    assert!(below.len() >= 2, "a guard and its child: {below:?}");
    for name in ["NOTIFY_SOCKET", "WATCHDOG_", "LISTEN_", "INVOCATION_ID", "JOURNAL_STREAM"] {
        let has = told.as_object().unwrap().keys().any(|key| key.starts_with(name));
        assert!(!has, "{name} reached the child: {told}");
        for process in &below {
            let environ = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&environ).contains(name), "{name} reached {process:?}");
        }
    }
}

#[test]
fn every_socket_that_is_handed_over_is_served() {
    for tcp_first in [false, true] {
        let home = Home::new();
        let activator = Activator::new(&home);
        let mut sockets = vec![activator.socket.as_fd().try_clone_to_owned().unwrap(), tcp("127.0.0.1:0")];
        if tcp_first {
            sockets.reverse();
        }
        let daemon = start_with_sockets(&home, &bins().switchboardd, &sockets, &[]).serving();
        let address = daemon.tcp_address();
        assert_eq!(address.ip(), Ipv4Addr::LOCALHOST);
        assert_eq!(Endpoint::Tcp(address).get("/health").status, 200);
        // The TCP door still needs the token.
        assert_eq!(Endpoint::Tcp(address).get("/hop/session").status / 100, 4);
    }
    // It refuses sockets that other machines could reach, and descriptors that are not sockets.
    let home = Home::new();
    let activator = Activator::new(&home);
    let ours = activator.socket.as_fd().try_clone_to_owned().unwrap();
    let null = fs::File::open("/dev/null").unwrap().into();
    for (other, why) in [(tcp("0.0.0.0:0"), "not a loopback address"), (null, "neither a unix stream socket")]
    {
        let mut daemon =
            start_with_sockets(&home, &bins().switchboardd, &[ours.try_clone().unwrap(), other], &[]);
        assert_eq!(daemon.ended(TEST_TIMEOUT).code(), Some(1), "{}", daemon.log());
        assert!(daemon.log().contains(why) && daemon.log().contains("descriptor 4"), "{}", daemon.log());
    }
}

#[test]
fn sockets_handed_to_another_process_are_not_used() {
    let home = Home::new();
    let activator = Activator::new(&home);
    // An activated program may leak these variables to what it starts; `LISTEN_PID` says they are not for us.
    let daemon = DaemonProcess::spawn_with_env(&home, &[("LISTEN_FDS", "1"), ("LISTEN_PID", "1")]);
    let mut daemon = daemon;
    assert_eq!(daemon.ended(TEST_TIMEOUT).code(), Some(1), "{}", daemon.log());
    assert!(daemon.log().contains("already serves"), "{}", daemon.log());
    drop(activator);
}

#[test]
fn a_shim_never_binds_over_an_activated_socket() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let activator = Activator::new(&home);
    let inode = activator.inode();
    // Nobody accepts: the daemon behind the socket is down, or slow.
    let mut shims: Vec<Shim> = (0..4).map(|_| home.raw_shim()).collect();
    for shim in &mut shims {
        shim.start_request("initialize", proto_tests::shim::INITIALIZE);
    }
    assert!(activator.is_wanted(TEST_TIMEOUT));
    // Longer than a shim waits before it would try something else.
    thread::sleep(Duration::from_secs(3));
    assert!(home.daemons().is_empty(), "{:#?}", home.daemons());
    assert_eq!(activator.inode(), inode);
    let mut daemon = activator.start(&home, &bins().switchboardd, &[]).serving();
    for shim in &mut shims {
        assert!(shim.answer_to("1").contains("\"result\""));
        assert!(shim.call("k", "echo", "{}").contains("\"ok\":true"));
    }
    // After a crash the socket stays, the shims wait at it, and no shim starts a daemon.
    daemon.kill();
    for shim in &mut shims {
        shim.start_call("k", "echo", "{}");
    }
    assert!(activator.is_wanted(TEST_TIMEOUT));
    assert!(home.daemons().is_empty(), "{:#?}", home.daemons());
    let _daemon = activator.start(&home, &bins().switchboardd, &[]).serving();
    for shim in &mut shims {
        assert!(shim.answer_to("3").contains("\"ok\":true"));
    }
    assert_eq!(activator.inode(), inode);
}

/// Starts the daemon whenever none runs and somebody connects, until `end` is set.
fn keep(activator: &Activator, home: &Home, program: &Path, end: &AtomicBool, pid: &AtomicU64) -> u64 {
    let mut starts = 0;
    let mut daemon: Option<DaemonProcess> = None;
    while !end.load(Ordering::Relaxed) {
        if daemon.as_mut().is_some_and(|daemon| !daemon.has_ended()) {
            thread::sleep(Duration::from_millis(2));
        } else if activator.is_wanted(Duration::from_millis(20)) {
            let started = activator.start(home, program, &[]);
            pid.store(u64::try_from(started.pid()).unwrap(), Ordering::Relaxed);
            starts += 1;
            daemon = Some(started);
        }
    }
    starts
}

/// As between two steps of an installation.
#[test]
fn a_missing_guard_is_named_and_found_when_it_is_installed() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let bin = installed(&home);
    let guard = bin.join("switchboard-guard");
    fs::remove_file(&guard).unwrap();
    let said = Command::new(bin.join("switchboard"))
        .args(["doctor", "--socket"])
        .arg(home.socket())
        .env_clear()
        .envs(home.environment())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("switchboard-guard` is missing"), "{said}");
    let mut shim = Shim::start_program(&home, &bin.join("switchboard"));
    shim.initialize();
    let answer = shim.call("k", "echo", "{}");
    assert!(answer.contains("switchboard-guard` is missing; install all programs"), "{answer}");
    install(&bins().switchboard_guard, &guard, "");
    until_true("the guard to be used", TEST_TIMEOUT, || shim.call("k", "echo", "{}").contains("\"ok\":true"));
    home.order_with(&bin.join("switchboard"), &["stop"]);
}

/// The daemon reads its flags by hand and gives others to the commands, which start the daemon again.
#[test]
fn daemon_flags_without_a_value_are_refused() {
    let home = Home::new();
    for arguments in [["--listen", ""], ["--listen", "-"], ["--config", "-"]] {
        let mut process = Command::new(&bins().switchboardd)
            .args(arguments)
            .env_clear()
            .envs(home.environment())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut code = None;
        until_true("it to end", TEST_TIMEOUT, || {
            code = process.try_wait().unwrap();
            code.is_some()
        });
        assert_eq!(code.unwrap().code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn restarts_and_upgrades_under_load_lose_nothing_and_run_nothing_twice() {
    const SHIMS: u64 = 20;
    const CALLS: u64 = 50;
    let home = Home::new();
    let journal = home.path().join("journal");
    home.child_with("k", &["echo"], &[("EVIL_JOURNAL", journal.to_str().unwrap())]);
    let bin = installed(&home);
    let program = bin.join("switchboardd");
    let activator = Activator::new(&home);
    let inode = activator.inode();
    let (end, pid, done) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let starts = thread::scope(|scope| {
        let keeper = scope.spawn(|| keep(&activator, &home, &program, &end, &pid));
        let load: Vec<_> = (0..SHIMS)
            .map(|session| {
                let (done, home) = (&done, &home);
                scope.spawn(move || {
                    let mut shim = home.shim();
                    for n in 0..CALLS {
                        let args = format!(r#"{{"session":{session},"n":{n},"ms":20}}"#);
                        let answer = shim.call("k", "slow", &args);
                        assert!(answer.contains("\"result\""), "session {session}, call {n}: {answer}");
                        assert_eq!(structured(&answer)["args"]["n"], n, "{answer}");
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        // Every second restart also installs a new binary.
        for restart in 1..=5_u64 {
            let mark = restart * SHIMS * CALLS / 7;
            until_true("load", TEST_TIMEOUT * 4, || done.load(Ordering::Relaxed) >= mark);
            if restart % 2 == 0 {
                install(&bins().switchboardd, &program, &format!("version {restart}"));
            }
            let old = pid.load(Ordering::Relaxed);
            let daemon = rustix::process::Pid::from_raw(i32::try_from(old).unwrap()).unwrap();
            rustix::process::kill_process(daemon, Signal::TERM).unwrap();
            until_true("another daemon", TEST_TIMEOUT * 4, || pid.load(Ordering::Relaxed) != old);
        }
        let failed = load.into_iter().filter_map(|load| load.join().err()).count();
        end.store(true, Ordering::Relaxed);
        let starts = keeper.join().unwrap();
        assert_eq!(failed, 0, "shims whose calls failed");
        starts
    });
    assert!(starts >= 6, "{starts} starts");
    assert_eq!(done.load(Ordering::Relaxed), SHIMS * CALLS);
    assert_eq!(activator.inode(), inode);
    let mut seen = HashSet::new();
    for line in fs::read_to_string(&journal).unwrap().lines() {
        let Some(line) = line.split_once(' ').and_then(|(_, line)| serde_json::from_str::<Value>(line).ok())
        else {
            continue;
        };
        let args = &line["params"]["arguments"];
        if let (Some(session), Some(n)) = (args["session"].as_u64(), args["n"].as_u64()) {
            assert!(seen.insert((session, n)), "call {n} of session {session} ran twice");
        }
    }
    assert_eq!(seen.len() as u64, SHIMS * CALLS);
    counted("R5", "calls through restarts and upgrades", SHIMS * CALLS);
    counted("R5", "restarts", starts);
}

#[test]
fn a_new_binary_takes_over_once_no_call_is_in_flight() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let program = installed(&home).join("switchboardd");
    let activator = Activator::new(&home);
    let sockets = [activator.socket.as_fd().try_clone_to_owned().unwrap(), tcp("127.0.0.1:0")];
    let notify = home.path().join("notify");
    let manager = Manager::at(&notify);
    let env = [("NOTIFY_SOCKET", notify.to_str().unwrap())];
    let daemon = start_with_sockets(&home, &program, &sockets, &env).serving();
    manager.until("READY=1");
    let (pid, before, address) = (daemon.pid(), boot(&daemon), daemon.tcp_address());
    let mut shim = home.shim();
    let slow = shim.start_call("k", "slow", r#"{"ms":9000}"#);
    until_true("the call", TEST_TIMEOUT, || shim.call("k", "received", "{}").contains("9000"));
    install(&bins().switchboardd, &program, "another version");
    // While busy, the daemon keeps running and reports the pending restart.
    until_true("the new version to be noticed", TEST_TIMEOUT, || {
        !daemon.status()["restartPending"].is_null()
    });
    let status = daemon.status();
    assert_eq!(status["restartPending"]["version"], env!("CARGO_PKG_VERSION"), "{status}");
    assert!(status["restartPending"]["problem"].is_null(), "{status}");
    assert_eq!(boot(&daemon), before);
    assert!(shim.answer_to(&slow.to_string()).contains("\"ok\":true"));
    // Once idle, it executes the new program, with the same process id and sockets.
    let heard = manager.until("READY=1");
    assert!(!heard.iter().any(|said| said.contains("STOPPING")), "{heard:?}");
    await_next(&daemon.endpoint(), &before);
    assert_eq!(daemon.status()["pid"], pid);
    match fs::metadata(format!("/proc/{pid}/exe")) {
        Ok(running) => assert_eq!(running.ino(), fs::metadata(&program).unwrap().ino()),
        // Only root can read the link.
        Err(_) => assert_eq!(daemon.status()["replaced"], false),
    }
    assert!(daemon.status()["restartPending"].is_null());
    assert_eq!(daemon.tcp_address(), address);
    assert_eq!(Endpoint::Tcp(address).get("/health").status, 200);
    assert!(shim.call("k", "echo", "{}").contains("\"ok\":true"));
    assert!(structured(&shim.call("k", "env", "{}")).get("LISTEN_FDS_FIRST_FD").is_none());
}

#[test]
fn a_daemon_started_by_a_shim_is_replaced_too() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let bin = installed(&home);
    let mut shim = Shim::start_program(&home, &bin.join("switchboard"));
    shim.initialize();
    assert!(shim.call("k", "echo", "{}").contains("\"ok\":true"));
    let endpoint = Endpoint::unix(&home.socket());
    let told = || endpoint.get("/status").json();
    let before = told();
    install(&bins().switchboardd, &bin.join("switchboardd"), "another version");
    await_next(&endpoint, before["boot"].as_str().unwrap());
    assert_eq!(told()["pid"], before["pid"]);
    assert!(shim.call("k", "echo", "{}").contains("\"ok\":true"));
    // A stopped daemon stays stopped, even if a new binary is installed.
    assert!(home.command(&["stop"]).status.success());
    assert_eq!(kind_of(&shim.call("k", "echo", "{}")).as_deref(), Some("stopped"));
}

#[test]
fn the_successor_listens_at_the_address_of_the_current_config() {
    let home = Home::new();
    let listen = |listen: &str| home.config(&json!({ "http": { "listen": listen } }));
    listen("127.0.0.1:0");
    let bin = installed(&home);
    let mut shim = Shim::start_program(&home, &bin.join("switchboard"));
    shim.initialize();
    let told = || Endpoint::unix(&home.socket()).get("/status").json();
    let before = told();
    let address = before["whereabouts"]["tcp"].as_str().unwrap();
    assert!(TcpStream::connect(address).is_ok(), "{before}");
    listen("off");
    install(&bins().switchboardd, &bin.join("switchboardd"), "another version");
    until_true("the port to be free", TEST_TIMEOUT, || TcpStream::connect(address).is_err());
    await_next(&Endpoint::unix(&home.socket()), before["boot"].as_str().unwrap());
    let after = told();
    assert!(after["whereabouts"]["tcp"].is_null() && after["boot"] != before["boot"], "{after}");
    assert!(home.command(&["stop"]).status.success());
}

#[test]
fn a_broken_binary_does_not_take_over() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let program = installed(&home).join("switchboardd");
    let activator = Activator::new(&home);
    let daemon = activator.start(&home, &program, &[]).serving();
    let before = boot(&daemon);
    let script = home.write("broken", "#!/bin/sh\nexit 7\n");
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    install(&script, &program, "");
    until_true("the problem", TEST_TIMEOUT, || daemon.status()["restartPending"]["problem"].is_string());
    let status = daemon.status();
    assert!(status["restartPending"]["problem"].as_str().unwrap().contains("exit status: 7"), "{status}");
    assert_eq!(boot(&daemon), before);
    assert!(home.shim().call("k", "echo", "{}").contains("\"ok\":true"));
    // The commands say why the new binary does not take over.
    for command in ["status", "doctor"] {
        let output = home.command(&[command]);
        let said = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            said.contains("cannot take over: `--version` ended with exit status: 7"),
            "{command}: {said}"
        );
    }
    // A working binary takes over again.
    install(&bins().switchboardd, &program, "fixed");
    await_next(&daemon.endpoint(), &before);
}

/// A request that stays open as long as its host does (from a shim or over HTTP) does not delay the takeover.
#[test]
fn listen_requests_do_not_delay_a_new_binary() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let bin = installed(&home);
    let mut shim = Shim::start_program(&home, &bin.join("switchboard"));
    let listen = json!({"notifications": {"toolsListChanged": true}});
    shim.start_request("subscriptions/listen", &with_meta(&listen).to_string());
    shim.notification("notifications/subscriptions/acknowledged");
    let endpoint = Endpoint::unix(&home.socket());
    let mut heard =
        ModernHost::new(endpoint.clone(), "/mcp").post(&json!("l"), "subscriptions/listen", &listen);
    assert_eq!(heard.message()["method"], "notifications/subscriptions/acknowledged");
    let before = endpoint.get("/status").json();
    install(&bins().switchboardd, &bin.join("switchboardd"), "another version");
    await_next(&endpoint, before["boot"].as_str().unwrap());
    // The host over HTTP gets the result of its listen request; the shim has repeated its own, and is
    // notified.
    assert_eq!(heard.last()["result"]["resultType"], "complete");
    shim.notification("notifications/subscriptions/acknowledged");
    home.child("another", &["echo"]);
    shim.notification("notifications/tools/list_changed");
    assert!(home.command(&["stop"]).status.success());
}
