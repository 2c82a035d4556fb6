//! Reproducible cases: the case number is the seed.

#![allow(dead_code, reason = "several tests share this file, and each uses a part of it")]

use std::ops::Range;
use std::time::{Duration, Instant};

/// The default that `cargo test` has time for; `SWITCHBOARD_FUZZ_CASES` raises it.
const CASES: u64 = 10_000;
/// Time limit for one case, generous for a busy machine.
const BOUND: Duration = Duration::from_secs(5);
/// Far above what all targets need together, far below what one runaway case would use.
const MEMORY_KIB: u64 = 512 * 1024;

/// SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// A random sequence of these parts, with an odd character now and then.
    pub(crate) fn text(&mut self, parts: &[&str], most: usize) -> String {
        let mut text = String::new();
        for _ in 0..self.below(most + 1) {
            if self.below(8) == 0 {
                text.extend(char::from_u32(u32::try_from(self.next() & 0x1_ffff).unwrap()));
            } else {
                text.push_str(self.one_of(parts));
            }
        }
        text
    }

    pub(crate) fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.next().to_le_bytes()[0]).collect()
    }

    /// A text in which parts are deleted, duplicated, replaced or inserted a few times.
    pub(crate) fn mutated(&mut self, seed: &str, parts: &[&str]) -> String {
        let mut text = seed.to_owned();
        for _ in 0..=self.below(4) {
            let range = self.range(&text);
            match self.below(4) {
                0 => text.replace_range(range, ""),
                1 => {
                    let copy = text[range.clone()].to_owned();
                    text.insert_str(range.end, &copy);
                }
                2 => text.replace_range(range, self.one_of(parts)),
                _ => text.insert_str(range.start, self.one_of(parts)),
            }
        }
        text
    }

    fn range(&mut self, text: &str) -> Range<usize> {
        let (start, length) = (self.below(text.len() + 1), self.below(24));
        let whole = |mut at: usize| {
            at = at.min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        whole(start)..whole(start + length)
    }
}

/// Runs a target with the configured number of cases. A failing case prints its number.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "how long it really takes")]
pub(crate) fn run(target: &str, mut case: impl FnMut(&mut Random)) {
    struct Number<'a>(&'a str, u64);
    impl Drop for Number<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("{} failed with case {}", self.0, self.1);
            }
        }
    }
    let cases = std::env::var("SWITCHBOARD_FUZZ_CASES").ok().and_then(|text| text.parse().ok());
    let (start, mut slowest) = (Instant::now(), Duration::ZERO);
    let first = std::env::var("SWITCHBOARD_FIRST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    for number in first..first + cases.unwrap_or(CASES) {
        let _number = Number(target, number);
        let begun = Instant::now();
        case(&mut Random(number));
        slowest = slowest.max(begun.elapsed());
        assert!(slowest < BOUND, "it took {slowest:?}");
    }
    let peak = peak_memory();
    eprintln!(
        "{target}: {:.1?}, the slowest case {slowest:.1?}, at most {} MiB",
        start.elapsed(),
        peak / 1024
    );
    assert!(peak < MEMORY_KIB, "{target}: {peak} KiB");
}

/// Peak memory of this process in KiB; 0 where `/proc` does not exist.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}
