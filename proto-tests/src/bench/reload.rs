//! Many definitions change at once: how long until hosts see it, and how much CPU time that takes.

use std::time::{Duration, Instant};

use super::Effort;
use super::report::{Report, Row};
use super::setup::{self, SwitchboardSetup};
use crate::{TEST_TIMEOUT, wait};

pub fn measure(effort: Effort, report: &mut Report) {
    let count = effort.pick(200, 1000);
    let ours = SwitchboardSetup::new(count);
    let mut shim = ours.shim();
    shim.wire.initialize();
    let list = super::drive::Call::method("tools/list", "{}");
    let before = processor_time(ours.pid());
    let begin = Instant::now();
    for number in 0..count {
        setup::define(&ours.home, number, "the second edition", 0);
    }
    let written = Instant::now();
    wait::until_true("the new state", TEST_TIMEOUT, || {
        // The host is also notified that the list changed; only the list counts here.
        let answer = ours.daemon.as_ref().unwrap().endpoint().post("/proxy", &body(&list));
        let text = String::from_utf8_lossy(&answer.body);
        let done = text.matches("the second edition").count() == count;
        if !done {
            std::thread::sleep(Duration::from_millis(10));
        }
        done
    });
    let taken = written.elapsed();
    let work = processor_time(ours.pid()) - before;
    let row = |what: String, time: Duration| Row::new(what, "ms", time.as_secs_f64() * 1e3);
    report.add(row(format!("reload of {count} definitions, from the last write"), taken));
    report.add(row(format!("writing {count} definitions"), written - begin));
    report.add(row(format!("reload of {count} definitions, processor time of the daemon"), work));
    drop(shim);
}

fn body(call: &super::drive::Call) -> String {
    let mut out = Vec::new();
    call.push(1, &mut out);
    String::from_utf8(out).unwrap()
}

/// User and system time of a process.
fn processor_time(pid: i32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    let per_second = rustix::param::clock_ticks_per_second();
    Duration::from_secs_f64(ticks as f64 / per_second as f64)
}
