//! Tells a guard on macOS that a process has forked or ended, by a kqueue.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd};

use nix::libc::timespec;
use nix::sys::event::{EvFlags, EventFilter, FilterFlag, KEvent, Kqueue};

/// How many events are taken at once.
const EVENTS: usize = 32;

pub(crate) struct ProcessEvents {
    queue: Kqueue,
    watched: HashSet<u32>,
}

impl ProcessEvents {
    /// No process that the guard starts inherits the queue.
    pub(crate) fn new() -> Option<Self> {
        Some(Self { queue: Kqueue::new().ok()?, watched: HashSet::new() })
    }

    /// Watches for the end of a process.
    pub(crate) fn watch_end(&mut self, id: u32) {
        self.add(id, FilterFlag::NOTE_EXIT);
    }

    /// Watches these processes, too. One that is gone is noticed when processes are listed.
    pub(crate) fn watch(&mut self, ids: impl Iterator<Item = u32>) {
        ids.for_each(|id| self.add(id, FilterFlag::NOTE_FORK | FilterFlag::NOTE_EXIT));
    }

    fn add(&mut self, id: u32, what: FilterFlag) {
        if !self.watched.contains(&id) {
            let event = KEvent::new(
                id as usize,
                EventFilter::EVFILT_PROC,
                EvFlags::EV_ADD | EvFlags::EV_CLEAR,
                what,
                0,
                0,
            );
            if self.queue.kevent(&[event], &mut [], Some(NOW)).is_ok() {
                self.watched.insert(id);
            }
        }
    }

    /// Takes all events. True if there was one.
    pub(crate) fn take(&mut self) -> bool {
        let mut is_any = false;
        loop {
            let mut events =
                [KEvent::new(0, EventFilter::EVFILT_PROC, EvFlags::empty(), FilterFlag::empty(), 0, 0);
                    EVENTS];
            let count = self.queue.kevent(&[], &mut events, Some(NOW)).unwrap_or(0);
            for event in &events[..count] {
                if event.fflags().contains(FilterFlag::NOTE_EXIT) {
                    // The kernel has removed it, and its pid may be given to another process.
                    self.watched.retain(|id| *id as usize != event.ident());
                }
            }
            is_any |= count > 0;
            if count < EVENTS {
                return is_any;
            }
        }
    }
}

const NOW: timespec = timespec { tv_sec: 0, tv_nsec: 0 };

impl AsFd for ProcessEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}
