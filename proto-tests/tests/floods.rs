//! A server that writes as fast as it is read, and a thousand clients that send or read slowly: other hosts do not
//! notice, and memory stays bounded.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use proto_tests::http::Connection;
use proto_tests::proof::{counted, measured, measured_ms};
use proto_tests::shim::structured;
use proto_tests::wait::until_true;
use proto_tests::{Home, Shim, TEST_TIMEOUT, procs};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a server may add to the daemon's memory.
const MOST_KIB: u64 = 32 << 10;

/// Far more than others wait on an idle machine (the promise is twice as long as without), far less than a daemon
/// needs that reads one server's output only.
const SOON: Duration = Duration::from_millis(250);

/// How long calls of another host take, sorted.
fn times(shim: &mut Shim, many: u32) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..many)
        .map(|_| {
            let asked = Instant::now();
            assert!(shim.call("well", "echo", "{}").contains("\"ok\":true"));
            asked.elapsed()
        })
        .collect();
    times.sort();
    times
}

/// How long a flood lasts; `.ci/long` sets more.
fn seconds() -> u64 {
    std::env::var("SWITCHBOARD_FLOOD_SECONDS").map_or(1, |text| text.parse().expect("a number"))
}

#[test]
fn a_flood_of_output_delays_no_other_host() {
    for (stream, line) in [("stderr", 100), ("stderr", 2), ("stderr", 100_000), ("noise", 100), ("logs", 0)] {
        let what = if line == 0 { stream.to_owned() } else { format!("{stream} in lines of {line} bytes") };
        let home = Home::new();
        home.child("loud", &["floods", stream, &line.to_string()]);
        home.child("well", &["echo"]);
        let daemon = home.daemon();
        let (mut shim, mut other) = (home.shim(), home.shim());
        shim.call("well", "echo", "{}");
        let before = times(&mut other, 100);
        let memory = procs::rss_kib(daemon.pid());
        let begin = Instant::now();
        shim.call("loud", "echo", "{}");
        let mut beside = Vec::new();
        let mut most = 0;
        while begin.elapsed() < Duration::from_secs(seconds()) || beside.len() < 100 {
            beside.extend(times(&mut other, 20));
            most = most.max(procs::rss_kib(daemon.pid()).saturating_sub(memory));
        }
        beside.sort();
        // The server that writes so much still answers, too.
        let bytes = structured(&shim.call("loud", "count", "{}"))["bytes"].as_f64().unwrap();
        let rate = bytes / begin.elapsed().as_secs_f64() / f64::from(1 << 20);
        let p99 = |times: &[Duration]| times[times.len() * 99 / 100];
        measured("R12", &format!("{what}, MiB/s"), rate);
        measured_ms("R12", "p99 of others before", p99(&before));
        measured_ms("R12", &format!("p99 of others beside {what}"), p99(&beside));
        measured("R12", "more memory, KiB", most as f64);
        assert!(p99(&beside) < SOON, "{what}: {:?} became {:?}", p99(&before), p99(&beside));
        assert!(most < MOST_KIB, "{what}: {most} KiB more");
    }
}

/// More descriptors for this process and the daemon that it starts.
fn raise_open_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.unwrap_or(8192).min(8192);
    if current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).unwrap();
    }
}

/// How many clients are slow in each of four ways.
const EACH: usize = 250;

#[test]
fn a_thousand_slow_clients_delay_nobody() {
    raise_open_files();
    let home = Home::new();
    home.child("well", &["echo"]);
    let daemon = home.daemon_on_tcp();
    let mut shim = home.shim();
    let before = times(&mut shim, 100);
    let (fds, memory) = (procs::fds(daemon.pid()), procs::rss_kib(daemon.pid()));
    let host = daemon.tcp().host();
    let greedy = b"GET /page/page.css HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
    let half = format!("POST /proxy HTTP/1.1\r\nHost: {host}\r\nX-Slow: ");
    let body = "POST /proxy HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{";
    let mut slow: Vec<Connection> = Vec::new();
    for _ in 0..EACH {
        // Over TCP, headers that never end and requests that never begin; over the socket, bodies that never end and
        // answers that nobody reads.
        let firsts: [(_, &[u8]); 4] = [
            (daemon.tcp(), half.as_bytes()),
            (daemon.tcp(), b""),
            (daemon.endpoint(), body.as_bytes()),
            (daemon.endpoint(), &greedy),
        ];
        for (endpoint, first) in firsts {
            let mut connection = endpoint.connect().unwrap();
            connection.write_some(first);
            slow.push(connection);
        }
    }
    let is_over = AtomicBool::new(false);
    let (mut beside, mut most) = (Vec::new(), 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                slow.iter_mut().for_each(|connection| connection.write_some(b"x"));
                thread::sleep(Duration::from_millis(200));
            }
        });
        // Longer than headers may take.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(6) {
            beside.extend(times(&mut shim, 20));
            most = most.max(procs::rss_kib(daemon.pid()).saturating_sub(memory));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    beside.sort();
    let p99 = |times: &[Duration]| times[times.len() * 99 / 100];
    counted("R13", "slow connections", 4 * EACH as u64);
    measured_ms("R13", "p99 of others before", p99(&before));
    measured_ms("R13", "p99 of others beside them", p99(&beside));
    measured("R13", "more memory, KiB for each", most as f64 / (4 * EACH) as f64);
    assert!(p99(&beside) < SOON, "{:?} became {:?}", p99(&before), p99(&beside));
    // Headers are 16 KiB at most, and so is what is kept of a page that nobody reads.
    assert!(most < 64 * 4 * EACH as u64, "{most} KiB more");
    drop(slow);
    until_true("the descriptors to come back", TEST_TIMEOUT, || procs::fds(daemon.pid()) <= fds + 4);
    assert!(home.shim().call("well", "echo", "{}").contains("\"ok\":true"));
}
