//! The time from starting the shim to its first `tools/list`, as a host does it.

use std::time::Instant;

use super::Effort;
use super::drive::Call;
use super::report::{Bound, Report, Row};
use super::samples::median;
use super::setup::{self, BaselineSetup, PipedProcess, SwitchboardSetup};

pub fn measure(effort: Effort, report: &mut Report) {
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
    row(report, "daemon warm", [&direct, &floor, &ours], 3.0);

    let (mut floor, mut ours) = (Vec::new(), Vec::new());
    let us = SwitchboardSetup::without_daemon(1);
    for _ in 0..effort.pick(4, 12) {
        let the_floor = BaselineSetup::without_daemon();
        floor.push(timed(|| the_floor.starting_shim()));
        ours.push(timed(|| us.shim()));
        us.home.kill_daemons();
    }
    row(report, "no daemon running", [&direct, &floor, &ours], 12.0);
}

/// Milliseconds from the start to the list. Ending the process is not included.
fn timed(start: impl FnOnce() -> PipedProcess) -> f64 {
    let begin = Instant::now();
    let mut piped = start();
    piped.wire.initialize();
    piped.wire.ask(&Call::method("tools/list", "{}"));
    begin.elapsed().as_secs_f64() * 1e3
}

fn row(report: &mut Report, when: &str, [direct, floor, ours]: [&Vec<f64>; 3], most: f64) {
    let [direct, floor, ours] = [direct, floor, ours].map(|times| median(times.clone()));
    report.add(
        Row::new(
            format!("shim start to first `tools/list`, {when}"),
            "ms",
            ours,
            Bound::AtMost { value: most, exact: false },
        )
        .beside(Some(direct), Some(floor)),
    );
}
