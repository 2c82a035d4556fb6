//! Memory use, as proportional set size (PSS).

use std::collections::BTreeMap;
use std::time::Duration;

use super::Effort;
use super::drive::Call;
use super::report::{Report, Row};
use super::setup::{self, BaselineSetup, ECHO, PipedProcess, SwitchboardSetup, direct_call, suite_call};
use crate::procs::{pss_kib, wake_ups};

const SUITES: usize = 20;
const MANY_SUITES: usize = 1000;
/// Long enough for the work that follows a start, and for the threads that did it to end.
const START_UP: Duration = Duration::from_secs(8);
/// Additional shims; the report shows their mean.
const MORE: usize = 4;
/// Number of servers and hosts and MiB per server, to show what sharing saves.
const SERVERS: usize = 10;
const HOSTS: usize = 3;
const MIB: usize = 16;

fn mib(pids: impl IntoIterator<Item = i32>) -> f64 {
    pids.into_iter().map(pss_kib).sum::<u64>() as f64 / 1024.0
}

pub fn measure(effort: Effort, report: &mut Report) {
    let floor = BaselineSetup::new();
    let mut floor_shim = floor.shim();
    floor_shim.wire.initialize();
    let ours = SwitchboardSetup::new(SUITES);
    let mut shim = ours.shim();
    shim.wire.initialize();
    shim.wire.ask(&Call::method("tools/list", "{}"));
    std::thread::sleep(START_UP);
    let of_floor = |shim: &PipedProcess| mib([floor.daemon_pid(), shim.process.pid()]);
    let of_ours = |shim: &PipedProcess| mib([ours.pid(), shim.process.pid()]);
    let row = |what: &str, ours, floor| Row::new(what, "MiB", ours).beside(None, Some(floor));
    let (daemon, both) = (mib([ours.pid()]), of_ours(&shim));
    report.add(row("daemon and one shim, idle, 20 suites", both, of_floor(&floor_shim)));
    report.add(Row::new("daemon of that", "MiB", daemon));
    report.add(Row::new(
        "wake-ups of daemon and shim, idle",
        "/s",
        wake_ups_per_second(&[ours.pid(), shim.process.pid()], Duration::from_secs(effort.pick(5, 20))),
    ));

    let more: Vec<PipedProcess> = (0..MORE)
        .map(|_| {
            let mut shim = ours.shim();
            shim.wire.initialize();
            shim.wire.ask(&Call::method("tools/list", "{}"));
            shim
        })
        .collect();
    let all = mib([ours.pid(), shim.process.pid()].into_iter().chain(more.iter().map(|s| s.process.pid())));
    report.add(Row::new("each further shim", "MiB", (all - both) / MORE as f64));
    drop(more);

    let time = Duration::from_millis(effort.pick(300, 1500));
    shim.wire.ask(&suite_call("echo", ECHO));
    shim.wire.pipelined(&suite_call("echo", ECHO), 64, time);
    shim.wire.ask(&suite_call("big", r#"{"bytes":1048576}"#));
    floor_shim.wire.pipelined(&direct_call("echo", ECHO), 64, time);
    floor_shim.wire.ask(&direct_call("big", r#"{"bytes":1048576}"#));
    report.add(row("daemon and one shim, after load", of_ours(&shim), of_floor(&floor_shim)));
    drop((shim, ours));
    many_suites(report);
    if effort == Effort::Full {
        shared(report);
    }
}

fn wake_ups_per_second(pids: &[i32], time: Duration) -> f64 {
    let count = || pids.iter().flat_map(|pid| wake_ups(*pid)).collect::<BTreeMap<_, _>>();
    let before = count();
    std::thread::sleep(time);
    // A thread that began meanwhile has no count before.
    let since = |(thread, count): (_, u64)| count - before.get(&thread).copied().unwrap_or(0);
    count().into_iter().map(since).sum::<u64>() as f64 / time.as_secs_f64()
}

/// A user with a thousand definitions.
fn many_suites(report: &mut Report) {
    let ours = SwitchboardSetup::new(MANY_SUITES);
    let mut shim = ours.shim();
    shim.wire.initialize();
    shim.wire.ask(&Call::method("tools/list", "{}"));
    std::thread::sleep(START_UP);
    let what = format!("daemon and one shim, idle, {MANY_SUITES} suites");
    report.add(Row::new(what, "MiB", mib([ours.pid(), shim.process.pid()])));
    drop(shim);
}

/// Ten servers for three hosts: a copy per host, or shared.
fn shared(report: &mut Report) {
    let copies: Vec<PipedProcess> = (0..SERVERS * HOSTS)
        .map(|_| {
            let mut child = setup::direct(MIB);
            child.wire.initialize();
            child
        })
        .collect();
    let direct = mib(copies.iter().map(|copy| copy.process.pid()));
    drop(copies);
    let home = crate::Home::new();
    (0..SERVERS).for_each(|number| setup::define(&home, number, "things", MIB));
    let ours = SwitchboardSetup { daemon: Some(home.daemon()), home };
    let mut hosts: Vec<PipedProcess> = (0..HOSTS).map(|_| ours.warm_shim()).collect();
    for host in &mut hosts {
        for number in 0..SERVERS {
            host.wire.ask(&Call::suite(&setup::name(number), "echo", ECHO));
        }
    }
    let everything = ours.pids().into_iter().chain(hosts.iter().map(|host| host.process.pid()));
    let what = format!("{SERVERS} servers of {MIB} MiB for {HOSTS} hosts, everything");
    report.add(Row::new(what, "MiB", mib(everything)).beside(Some(direct), None));
}
