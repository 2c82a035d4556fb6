//! Many concurrent calls: how many are answered per second.

use std::thread;
use std::time::Duration;

use super::Effort;
use super::drive::Call;
use super::report::{Report, Row};
use super::samples::median;
use super::setup::{self, BaselineSetup, ECHO, PipedProcess, SwitchboardSetup, direct_call, suite_call};

/// The number of concurrent hosts, and of calls in flight per host.
const HOSTS: usize = 8;
const EACH: usize = 8;

pub fn measure(effort: Effort, report: &mut Report) {
    let time = Duration::from_millis(effort.pick(150, 400));
    let rounds = effort.pick(3, 9);
    let floor = BaselineSetup::new();
    let ours = SwitchboardSetup::new(1);
    let straight = direct_call("echo", ECHO);
    let suite = suite_call("echo", ECHO);
    {
        let (mut direct, mut floor_shim, mut our_shim) = (setup::direct(0), floor.shim(), ours.warm_shim());
        for window in [16, 64] {
            let figures = rounds_of(rounds, || {
                [
                    direct.wire.pipelined(&straight, window, time),
                    floor_shim.wire.pipelined(&straight, window, time),
                    our_shim.wire.pipelined(&suite, window, time),
                ]
            });
            row(report, format!("calls per second, {window} in flight, through the shim"), &figures);
        }
    }
    let mut direct: Vec<PipedProcess> = (0..HOSTS).map(|_| setup::direct(0)).collect();
    let mut floor_shims: Vec<PipedProcess> = (0..HOSTS).map(|_| floor.shim()).collect();
    let mut our_shims: Vec<PipedProcess> = (0..HOSTS).map(|_| ours.warm_shim()).collect();
    let figures = rounds_of(rounds, || {
        [
            together(&mut direct, &straight, time),
            together(&mut floor_shims, &straight, time),
            together(&mut our_shims, &suite, time),
        ]
    });
    let what = format!("calls per second, {HOSTS} shims with {EACH} in flight each");
    row(report, what, &figures);
}

fn rounds_of(rounds: usize, mut round: impl FnMut() -> [f64; 3]) -> Vec<[f64; 3]> {
    (0..=rounds).map(|_| round()).skip(1).collect()
}

fn together(hosts: &mut [PipedProcess], call: &Call, time: Duration) -> f64 {
    thread::scope(|scope| {
        let drivers: Vec<_> =
            hosts.iter_mut().map(|host| scope.spawn(move || host.wire.pipelined(call, EACH, time))).collect();
        drivers.into_iter().map(|driver| driver.join().unwrap()).sum()
    })
}

fn row(report: &mut Report, what: String, rounds: &[[f64; 3]]) {
    let of = |lane: usize| median(rounds.iter().map(|round| round[lane]).collect());
    let mut row = Row::new(what, "/s", of(2)).beside(Some(of(0)), Some(of(1)));
    row.to_direct = Some(median(rounds.iter().map(|round| round[2] / round[0]).collect()));
    row.to_floor = Some(median(rounds.iter().map(|round| round[2] / round[1]).collect()));
    report.add(row);
}
