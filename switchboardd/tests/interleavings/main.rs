//! A whole daemon with virtual time, under random hosts, servers, crashes, cancels, reloads and stops. Each seed is one
//! run; after it every request was answered exactly once, by the right server to the right host, or its session is gone;
//! no question outlives its call, no server starts again without a pause, and no process outlives the daemon.
//!
//! `SWITCHBOARD_SEEDS` sets the number of seeds, `SWITCHBOARD_FIRST_SEED` the first, and `SWITCHBOARD_SEED` runs one of them. A seed decides all delays and
//! actions; the order in which tasks that are ready at the same instant run is not part of it.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod host;
mod law;
#[path = "../fuzz/random.rs"]
mod random;
mod server;
#[path = "../sim/simulation.rs"]
mod simulation;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use host::Way;
use law::Law;
use random::Random;
use serde_json::{Value, json};
use simulation::{Record, SimulatedDaemon};
use switchboard_wire::hop::Draining;
use switchboardd::daemon::Stop;
use tokio::task::JoinSet;
use tokio::time::sleep;

const SEEDS: u64 = 40;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn every_request_is_answered_once_whatever_happens() {
    let one = number("SWITCHBOARD_SEED");
    let first = number("SWITCHBOARD_FIRST_SEED").unwrap_or(0);
    let many = number("SWITCHBOARD_SEEDS").unwrap_or(SEEDS);
    let seeds = one.map_or(first..first + many, |seed| seed..seed + 1);
    let mut failed = Vec::new();
    for seed in seeds.clone() {
        if let Some(report) = run(seed) {
            let report =
                if failed.is_empty() { report } else { report.lines().next().unwrap_or_default().to_owned() };
            eprintln!("seed {seed}: {report}");
            failed.push(seed);
        }
        if failed.len() >= 5 {
            break;
        }
    }
    eprintln!("proof R11 total seeds = {}", seeds.end - seeds.start);
    assert!(failed.is_empty(), "run again with SWITCHBOARD_SEED= one of {failed:?}");
}

fn run(seed: u64) -> Option<String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(scenario(seed))
}

/// Settings of one server.
fn settings(random: &mut Random) -> Value {
    let scope = random.one_of(&["shared", "shared", "session", "call"]);
    let mut pool = json!({"scope": scope, "idleMs": random.one_of(&[300, 4_000, 600_000])});
    if random.below(3) == 0 {
        pool["max"] = (1 + random.below(3)).into();
    }
    if random.below(4) == 0 {
        pool["warm"] = 1.into();
    }
    json!({"pool": pool, "timeouts": {"rpcMs": random.one_of(&[1_500, 60_000])}})
}

async fn scenario(seed: u64) -> Option<String> {
    let mut random = Random::new(seed);
    let names: Vec<String> = (0..1 + random.below(3)).map(|at| format!("s{at}")).collect();
    let mut suites = json!({});
    let mut spares = 0;
    for name in &names {
        suites[name] = settings(&mut random);
        spares += suites[name]["pool"]["warm"].as_u64().unwrap_or(0);
    }
    let mut config = json!({"suites": suites});
    if random.below(4) == 0 {
        config["budget"] = json!({"children": 1 + random.below(3)});
    }
    let law = Law::new();
    law.note(format!("the config is {config}"));
    let programs = server::programs(law.clone(), seed);
    let borrowed: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut daemon = SimulatedDaemon::with_programs(&config, &borrowed, Record::new(), programs);
    let may_remove = random.below(4) == 0;
    let way = Way {
        connector: daemon.connector().clone(),
        peer: daemon.peer.clone(),
        law: law.clone(),
        is_stopping: Arc::new(AtomicBool::new(false)),
        may_remove,
        tokens: Arc::new(AtomicU64::new(1)),
    };
    let mut hosts = JoinSet::new();
    for number in 0..1 + random.below(5) {
        hosts.spawn(host::converse(way.clone(), number, random.next(), names.clone()));
    }
    // Reloads and restarts beside the calls.
    for change in 0..random.below(4) {
        sleep(Duration::from_millis(random.one_of(&[0, 10, 300, 4_000]))).await;
        let name = &names[random.below(names.len())];
        law.forget_crashes(name);
        match random.below(4) {
            0 if may_remove => daemon.remove(name),
            1 => {
                law.note(format!("restart {name}"));
                way.control("restart", &json!({"suite": name})).await;
                continue;
            }
            _ => daemon.define(name, &[&format!("v{}", random.below(2))]),
        }
        law.note(format!("change {change}: {name}"));
        if random.below(2) == 0 {
            way.control("reload", &json!({})).await;
        }
    }
    let stops_early = random.below(5) == 0;
    if stops_early {
        sleep(Duration::from_millis(random.one_of(&[0, 50, 900, 6_000]))).await;
    } else {
        finish(&law, &mut hosts).await;
        // Longer than every session without its host, and every idle child, is kept.
        sleep(Duration::from_secs(1_500)).await;
        law.at_rest(spares);
    }
    way.is_stopping.store(true, Ordering::Relaxed);
    law.note("the daemon is told to stop".to_owned());
    daemon.stop(if random.below(3) == 0 { Stop::AtOnce } else { Stop::Drain(Draining::Stop) });
    let gone = tokio::time::timeout(Duration::from_secs(120), daemon.gone()).await;
    if gone.is_err() {
        law.broken("the daemon does not end");
    }
    law.at_end();
    if stops_early {
        finish(&law, &mut hosts).await;
    }
    law.verdict()
}

async fn finish(law: &Law, hosts: &mut JoinSet<()>) {
    while let Some(host) = hosts.join_next().await {
        if let Err(error) = host {
            law.broken(&format!("a host panicked: {error}"));
        }
    }
}
