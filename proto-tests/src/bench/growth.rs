//! How the cost of a call grows with the number of sessions and suites: ideally not at all.

use super::Effort;
use super::report::{Report, Row};
use super::samples::Samples;
use super::setup::{CpuCores, ECHO, PipedProcess, SwitchboardSetup, suite_call};

const CALLS: usize = 200;

pub fn measure(effort: Effort, report: &mut Report) {
    let one = SwitchboardSetup::new(1);
    let mut base = one.warm_shim();
    let sizes: &[(usize, usize)] =
        effort.pick(&[(64, 1000)], &[(8, 1), (64, 1), (1, 10), (1, 100), (1, 1000), (64, 1000)]);
    for &(sessions, suites) in sizes {
        let ours = SwitchboardSetup::new(suites);
        let mut shim = ours.warm_shim();
        let others: Vec<PipedProcess> = (1..sessions).map(|_| ours.warm_shim()).collect();
        let cores = CpuCores::new();
        let processes: Vec<i32> = [base.process.pid(), shim.process.pid()]
            .into_iter()
            .chain(one.pids())
            .chain(ours.pids())
            .collect();
        cores.pin(true, &processes);
        let call = suite_call("echo", ECHO);
        let (mut few, mut many) = (Samples::default(), Samples::default());
        for _ in 0..effort.pick(8, 20) {
            few.round(|out| base.wire.sequential(&call, CALLS, out));
            many.round(|out| shim.wire.sequential(&call, CALLS, out));
        }
        cores.pin(false, &[base.process.pid(), one.pid()]);
        let what = format!("call with {sessions} sessions and {suites} suites, beside 1 and 1, pinned");
        report.add(Row::new(what, "us", many.p50()).beside(None, Some(few.p50())).to_floor(many.over(&few)));
        drop((shim, others));
    }
    drop(base);
}
