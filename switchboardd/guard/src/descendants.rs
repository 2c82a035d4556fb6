//! Which processes belong to a child on macOS, where no process can adopt the orphans of another: the guard looks
//! at the list of processes again and again, and remembers what it has seen.

use std::collections::{BTreeMap, BTreeSet};

use crate::process_tree::Process;

/// The processes of one child that were seen so far and have not ended.
#[derive(Debug)]
pub struct Descendants {
    guard: u32,
    child: u32,
    /// By pid. The start time tells a process from another that got its pid.
    known: BTreeMap<u32, Process>,
}

impl Descendants {
    /// The guard leads a session of its own, and the child a process group of its own.
    pub fn of(guard: u32, child: u32) -> Self {
        Self { guard, child, known: BTreeMap::new() }
    }

    /// Looks at all processes. A process belongs to the child if it is in the guard's session or the child's
    /// group, if its parent belongs to the child, if it did before, or if it carries the guard's mark.
    pub fn update(&mut self, everyone: &[Process], marked: &[u32]) {
        let was_known = |process: &Process| {
            self.known.get(&process.id).is_some_and(|known| known.start_time == process.start_time)
        };
        let mut ids: BTreeSet<u32> = everyone
            .iter()
            .filter(|process| {
                process.id == self.child
                    || process.group == self.child
                    || process.session == self.guard
                    || marked.contains(&process.id)
                    || was_known(process)
            })
            .map(|process| process.id)
            .collect();
        // Children may stand before their parents in the list.
        loop {
            let found = ids.len();
            ids.extend(
                everyone
                    .iter()
                    .filter(|process| ids.contains(&process.parent))
                    .map(|child| child.id)
                    .collect::<Vec<_>>(),
            );
            if ids.len() == found {
                break;
            }
        }
        ids.remove(&self.guard);
        self.known = everyone
            .iter()
            .filter(|process| ids.contains(&process.id) && !process.zombie)
            .map(|process| (process.id, process.clone()))
            .collect();
    }

    pub fn processes(&self) -> Vec<Process> {
        self.known.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUARD: u32 = 10;
    const CHILD: u32 = 11;

    fn process(id: u32, parent: u32, group: u32, session: u32) -> Process {
        let start_time = u64::from(id) * 100;
        Process { id, parent, start_time, group, session, zombie: false, stopped: false }
    }

    fn ids(descendants: &Descendants) -> Vec<u32> {
        descendants.processes().iter().map(|process| process.id).collect()
    }

    #[test]
    fn a_process_that_was_seen_once_stays_known() {
        let mut descendants = Descendants::of(GUARD, CHILD);
        let (launchd, guard, child) =
            (process(1, 0, 1, 1), process(GUARD, 5, GUARD, GUARD), process(CHILD, GUARD, CHILD, GUARD));
        let stranger = process(90, 1, 90, 90);
        // It has left session and group; its own child stands before it.
        let (left, below) = (process(12, CHILD, 12, 12), process(9, 12, 9, 9));
        descendants.update(
            &[launchd.clone(), below.clone(), guard.clone(), child.clone(), left.clone(), stranger.clone()],
            &[],
        );
        assert_eq!(ids(&descendants), [9, CHILD, 12]);
        // Its parent ends, and launchd becomes its parent.
        let orphan = Process { parent: 1, ..left.clone() };
        descendants
            .update(&[launchd.clone(), below.clone(), guard.clone(), orphan.clone(), stranger.clone()], &[]);
        assert_eq!(ids(&descendants), [9, 12]);
        // Another process has got its pid; the one below was seen itself.
        let other = Process { start_time: 7, ..orphan };
        descendants.update(
            &[
                launchd.clone(),
                Process { parent: 1, ..below },
                guard.clone(),
                other.clone(),
                stranger.clone(),
            ],
            &[],
        );
        assert_eq!(ids(&descendants), [9]);
        descendants.update(&[launchd, guard, other, stranger], &[]);
        assert!(descendants.processes().is_empty());
    }

    #[test]
    fn an_orphan_is_known_by_session_group_or_mark() {
        let everyone = [
            process(1, 0, 1, 1),
            process(GUARD, 5, GUARD, GUARD),
            process(20, 1, 20, GUARD),
            process(21, 1, CHILD, 77),
            process(22, 1, 22, 22),
            process(23, 22, 22, 22),
            process(24, 1, 24, 24),
        ];
        let mut descendants = Descendants::of(GUARD, CHILD);
        // The guard carries the mark, too.
        descendants.update(&everyone, &[GUARD, 22]);
        assert_eq!(ids(&descendants), [20, 21, 22, 23]);
    }

    #[test]
    fn a_zombie_is_no_process_to_end() {
        let mut descendants = Descendants::of(GUARD, CHILD);
        let child = process(CHILD, GUARD, CHILD, GUARD);
        descendants.update(&[Process { zombie: true, ..child }], &[]);
        assert!(descendants.processes().is_empty());
    }
}
