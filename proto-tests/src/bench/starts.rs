//! The time from starting the shim to its first `tools/list`, as a host does it.

use std::time::Instant;

use super::Effort;
use super::drive::Call;
use super::report::{Report, Row};
use super::samples::median;
use super::setup::{self, BaselineSetup, CpuCores, PipedProcess, SwitchboardSetup};

pub fn measure(effort: Effort, report: &mut Report) {
    let cores = CpuCores::new();
    for (place, pinned) in [("pinned", true), ("free", false)] {
        // What is started from here on inherits the place.
        cores.pin(pinned, &[]);
        starts(effort, report, place);
    }
    cores.pin(false, &[]);
}

fn starts(effort: Effort, report: &mut Report, place: &str) {
    let (mut direct, mut floor, mut ours) = (Vec::new(), Vec::new(), Vec::new());
    {
        let the_floor = BaselineSetup::new();
        let us = SwitchboardSetup::new(1);
        for _ in 0..effort.pick(8, 30) {
            direct.push(timed(|| setup::direct(0)));
            floor.push(timed(|| the_floor.shim()));
            ours.push(timed(|| us.shim()));
        }
    }
    row(report, &format!("daemon warm, {place}"), [&direct, &floor, &ours]);

    let (mut floor, mut ours) = (Vec::new(), Vec::new());
    let us = SwitchboardSetup::without_daemon(1);
    for _ in 0..effort.pick(4, 12) {
        let the_floor = BaselineSetup::without_daemon();
        floor.push(timed(|| the_floor.starting_shim()));
        ours.push(timed(|| us.shim()));
        us.home.kill_daemons();
    }
    row(report, &format!("no daemon running, {place}"), [&direct, &floor, &ours]);
}

/// Milliseconds from the start to the list. Ending the process is not included.
fn timed(start: impl FnOnce() -> PipedProcess) -> f64 {
    let begin = Instant::now();
    let mut piped = start();
    piped.wire.initialize();
    piped.wire.ask(&Call::method("tools/list", "{}"));
    begin.elapsed().as_secs_f64() * 1e3
}

fn row(report: &mut Report, when: &str, [direct, floor, ours]: [&Vec<f64>; 3]) {
    let [direct, floor, ours] = [direct, floor, ours].map(|times| median(times.clone()));
    let what = format!("shim start to first `tools/list`, {when}");
    report.add(Row::new(what, "ms", ours).beside(Some(direct), Some(floor)));
}
