//! Fuzzes everything that parses untrusted input: no panic, no hang, no unbounded memory.
//! `SWITCHBOARD_FUZZ_CASES` sets the number of cases per target.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod random;
#[path = "../sim/simulation.rs"]
mod simulation;
#[path = "targets/targets.rs"]
mod targets;

use random::{Random, run};
use targets::Target;

/// One test for each target, so that they run at the same time.
macro_rules! tests {
    ($($name:ident: $target:path,)*) => {
        $(
            #[test]
            fn $name() {
                check(&$target);
            }
        )*

        #[test]
        fn every_target_has_a_test() {
            let tested = [$($target.name),*];
            let all: Vec<&str> = targets::ALL.iter().map(|target| target.name).collect();
            assert_eq!(all, tested);
        }
    };
}

tests! {
    framing: targets::wire::FRAMING,
    the_envelope: targets::wire::ENVELOPE,
    values: targets::wire::VALUES,
    documents: targets::definitions::DOCUMENTS,
    project_files: targets::definitions::PROJECT_FILES,
    toml: targets::toml::TOML,
    expansion: targets::definitions::EXPANSION,
    env_files: targets::definitions::ENV_FILES,
    globs: targets::definitions::GLOBS,
    config: targets::definitions::CONFIG,
    trust: targets::stored::TRUST,
    manifests: targets::stored::MANIFESTS,
    host_files: targets::hosts::FILES,
    schemas: targets::schemas::SCHEMAS,
    headers: targets::schemas::HEADERS,
    events: targets::remote::EVENTS,
    challenges: targets::remote::CHALLENGES,
    metadata: targets::remote::METADATA,
    callbacks: targets::remote::CALLBACKS,
    http: targets::http::REQUESTS,
}

/// Random inputs, and those that once failed (`fuzz/found/TARGET`).
fn check(target: &Target) {
    let found = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/found/");
    let found = std::fs::read_dir(format!("{found}{}", target.name)).into_iter().flatten().flatten();
    found.for_each(|file| (target.run)(&std::fs::read(file.path()).unwrap()));
    let seeds = (target.seeds)();
    seeds.iter().for_each(|seed| (target.run)(seed.as_bytes()));
    run(target.name, |random| (target.run)(&input(random, target, &seeds)));
}

/// A text of parts, or a proper one that is changed a little; now and then with random bytes.
fn input(random: &mut Random, target: &Target, seeds: &[String]) -> Vec<u8> {
    let text = match random.below(4) {
        0..=2 if !seeds.is_empty() => {
            let seed = random.below(seeds.len());
            random.mutated(&seeds[seed], target.parts)
        }
        _ => random.text(target.parts, target.most),
    };
    let mut bytes = text.into_bytes();
    match random.below(8) {
        0 => bytes.extend(random.bytes(300)),
        1 if !bytes.is_empty() => {
            let at = random.below(bytes.len());
            bytes[at] = random.next().to_le_bytes()[0];
        }
        _ => {}
    }
    bytes
}
