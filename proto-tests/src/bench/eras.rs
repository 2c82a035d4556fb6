//! Calls that cross the eras: a modern host on a legacy child, and a legacy host on a modern child. The bytes of
//! a call are rewritten on the way.

use serde_json::{Value, json};

use super::Effort;
use super::drive::Call;
use super::report::{Report, Row};
use super::samples::Samples;
use super::setup::{self, BaselineSetup, CHILD, CpuCores, ECHO, SwitchboardSetup, direct_call, suite_call};
use crate::streamable::with_meta;

/// Calls per round.
const CALLS: usize = 300;

pub fn measure(effort: Effort, report: &mut Report) {
    let floor = BaselineSetup::new();
    let mut floor_shim = floor.shim();
    let legacy = SwitchboardSetup::new(1);
    let modern = SwitchboardSetup::modern();
    // A modern host says in each request who it is, and makes no handshake.
    let mut modern_host = legacy.shim();
    let call = modern_call();
    modern_host.wire.ask(&call);
    let mut legacy_host = modern.warm_shim();
    assert_eq!(modern.daemon.as_ref().unwrap().suite(CHILD)["children"][0]["era"], "modern");

    let processes: Vec<i32> = [&floor_shim, &modern_host, &legacy_host]
        .iter()
        .map(|piped| piped.process.pid())
        .chain(floor.pids())
        .chain(legacy.pids())
        .chain(modern.pids())
        .collect();
    let cores = CpuCores::new();
    cores.pin(true, &processes);
    let [mut of_floor, mut to_legacy, mut to_modern]: [Samples; 3] = Default::default();
    let (straight, suite) = (direct_call("echo", ECHO), suite_call("echo", ECHO));
    for round in 0..=effort.pick(8, 40) {
        let mut unused: [Samples; 3] = Default::default();
        let [one, two, three] = &mut unused;
        // The first round warms up caches and clocks, and does not count.
        let lanes =
            if round == 0 { [one, two, three] } else { [&mut of_floor, &mut to_legacy, &mut to_modern] };
        let [of_floor, to_legacy, to_modern] = lanes;
        of_floor.round(|out| floor_shim.wire.sequential(&straight, CALLS, out));
        to_legacy.round(|out| modern_host.wire.sequential(&call, CALLS, out));
        to_modern.round(|out| legacy_host.wire.sequential(&suite, CALLS, out));
    }
    cores.pin(false, &[]);
    for (what, ours) in
        [("a modern host on a legacy child", &to_legacy), ("a legacy host on a modern child", &to_modern)]
    {
        report.add(
            Row::new(format!("call of {what}, p50, pinned"), "us", ours.p50())
                .beside(None, Some(of_floor.p50()))
                .to_floor(ours.over(&of_floor)),
        );
    }
    drop((modern_host, legacy_host));
}

/// A modern host's call, with its `_meta`.
fn modern_call() -> Call {
    let params = json!({
        "name": format!("{}_suite", setup::CHILD),
        "arguments": {"action": "call", "subtool": "echo", "args": serde_json::from_str::<Value>(ECHO).unwrap()},
    });
    Call::method("tools/call", &with_meta(&params).to_string())
}
