//! Runs one target of `switchboardd/tests/fuzz`, which the variable `FUZZ_TARGET` names, guided by coverage. With
//! `FUZZ_PREPARE=FOLDER` it writes the dictionaries and the first inputs of all targets there and exits.
#![no_main]

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

#[path = "../../switchboardd/tests/sim/simulation.rs"]
mod simulation;
#[expect(dead_code, reason = "the other driver uses the rest")]
#[path = "../../switchboardd/tests/fuzz/targets/targets.rs"]
mod targets;

static TARGET: LazyLock<&'static targets::Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = targets::ALL.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| {
        let all: Vec<&str> = targets::ALL.iter().map(|target| target.name).collect();
        panic!("FUZZ_TARGET must be one of {}", all.join(", "))
    })
});

fuzz_target!(init: prepare(), |input: &[u8]| {
    (TARGET.run)(input);
});

fn prepare() {
    let Some(folder) = std::env::var_os("FUZZ_PREPARE") else { return };
    let folder = Path::new(&folder);
    for target in targets::ALL {
        let seeds = folder.join("seeds").join(target.name);
        fs::create_dir_all(&seeds).expect("a folder for the seeds");
        for (number, seed) in (target.seeds)().iter().enumerate() {
            fs::write(seeds.join(format!("seed-{number}")), seed).expect("room for a seed");
        }
        let words: String = target.parts.iter().map(|part| word(part)).collect();
        fs::write(folder.join(format!("{}.dict", target.name)), words).expect("room for a dictionary");
        println!("{}", target.name);
    }
    std::process::exit(0);
}

/// A line of a dictionary.
fn word(part: &str) -> String {
    let bytes: String = part
        .bytes()
        .map(|byte| match byte {
            b'"' | b'\\' => format!("\\{}", char::from(byte)),
            b' '..=b'~' => char::from(byte).to_string(),
            _ => format!("\\x{byte:02x}"),
        })
        .collect();
    format!("\"{bytes}\"\n")
}
