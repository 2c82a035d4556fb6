//! Asks `libproc` of macOS for one process.

use proc_pidinfo::{Pid, ProcBSDInfo, proc_pidinfo};

use super::{BsdInfo, Stat};

pub(super) fn stat_of(pid: u32) -> Option<Stat> {
    let info: ProcBSDInfo = proc_pidinfo(Pid(pid)).ok().flatten()?;
    #[expect(
        clippy::disallowed_methods,
        reason = "macOS has no processes whose leader is outside, and no /proc"
    )]
    let session = rustix::process::getsid(rustix::process::Pid::from_raw(pid.cast_signed())).ok()?;
    Some(Stat::of_bsd_info(&BsdInfo {
        status: info.pbi_status,
        parent: info.pbi_ppid.0,
        group: info.pbi_pgid,
        session: session.as_raw_nonzero().get().cast_unsigned(),
        seconds: info.pbi_start_tvsec,
        microseconds: info.pbi_start_tvusec,
        name: &info.pbi_comm.map(i8::cast_unsigned),
    }))
}
