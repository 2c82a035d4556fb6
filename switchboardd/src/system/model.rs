//! Runs model-based tests: random steps on the real thing, and on a simple reference beside it.
//!
//! `SWITCHBOARD_MODEL_CASES` sets how many sequences of steps each test runs, `SWITCHBOARD_FIRST_SEED` the seed that
//! decides them.

use std::ops::Range;

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};

/// About a second for each test.
const CASES: u64 = 300;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

pub(crate) fn check<T: StateMachineTest>(steps: Range<usize>) {
    let (cases, seed) =
        (number("SWITCHBOARD_MODEL_CASES").unwrap_or(CASES), number("SWITCHBOARD_FIRST_SEED").unwrap_or(1));
    let config = Config {
        cases: u32::try_from(cases).expect("less than 2³²"),
        failure_persistence: None,
        max_shrink_iters: 50_000,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config.clone(), rng);
    let strategy = <T::Reference as ReferenceStateMachine>::sequential_strategy(steps);
    let outcome = runner.run(&strategy, |(reference, steps, seen)| {
        T::test_sequential(config.clone(), reference, steps, seen);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("with SWITCHBOARD_FIRST_SEED={seed}: {failure}");
    }
}
