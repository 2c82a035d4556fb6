//! The host's two pipes: `host/input.rs` reads frames from stdin, `host/output.rs` writes to stdout.
//!
//! The host shares these descriptors, so they are used as they are: never reopened (several hosts pass
//! sockets), never made non-blocking. Parses no JSON.

mod input;
mod output;

use std::io;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

pub(crate) use input::Input;
pub(crate) use output::Output;

/// The stack of the threads here: their calls are shallow.
const STACK: usize = 128 * 1024;

/// Whether `fd` is ready right now.
pub(crate) fn is_ready(fd: BorrowedFd<'_>, events: PollFlags) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, events)];
    matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1))
        && fds[0].revents().intersects(events | PollFlags::HUP | PollFlags::ERR)
}

fn wait_for(fd: BorrowedFd<'_>, events: PollFlags) {
    let mut fds = [PollFd::from_borrowed_fd(fd, events)];
    while let Err(Errno::INTR | Errno::AGAIN) = poll(&mut fds, None) {}
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(body).map(drop)
}
