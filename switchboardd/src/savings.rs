//! What Switchboard saves, with what it costs taken off: tokens that models do not read, processes and memory
//! that sessions do not take, starts that nobody waits for.
//!
//! Everything is looked at and counted beside the one thread that works, by one at a time; the vocabulary is
//! loaded by a process of its own, and only for texts that were never counted (`tokens.rs`).

mod advice;
mod report;
mod snapshot;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::daemon_state::Daemon;
use crate::event_loop::run_blocking;
use crate::savings_recorder::Fingerprint;
use crate::tokens;
use snapshot::SavingsSnapshot;

/// What was last found, and when the look at it began.
#[derive(Debug, Default)]
pub struct SavingsCache(Mutex<Option<(Instant, Arc<Value>)>>);

/// What is saved now. Those who ask while somebody looks get what the next look finds, all of them the same.
pub async fn current(daemon: &Arc<Daemon>) -> Arc<Value> {
    let asked = Instant::now();
    let mut latest = daemon.savings.0.lock().await;
    if let Some((begun, found)) = &*latest
        && *begun >= asked
    {
        return found.clone();
    }
    let begun = Instant::now();
    let found = Arc::new(compute(daemon).await);
    *latest = Some((begun, found.clone()));
    found
}

async fn compute(daemon: &Arc<Daemon>) -> Value {
    let gathering = daemon.clone();
    let (snapshot, missing) = run_blocking(move || {
        let snapshot = SavingsSnapshot::of(&gathering);
        let missing = gathering.services.savings_recorder.change(|kept| {
            let unknown = |mark: &Fingerprint| kept.tokens(*mark).is_none();
            let missing = snapshot.texts.iter().filter(|(mark, _)| unknown(mark)).map(|(_, text)| &**text);
            let missing = missing.filter(|text| text.len() <= tokens::MAX_TEXT).chain(kept.waiting());
            // One text may stand in both.
            missing.map(|text| (Fingerprint::of(text), text.to_owned())).collect::<HashMap<_, _>>()
        });
        (snapshot, missing)
    })
    .await;
    let texts: Vec<&str> = missing.values().map(String::as_str).collect();
    let (counts, problem) = match texts.is_empty() {
        true => (Vec::new(), None),
        false => {
            let (counts, ended) = tokens::count(&texts).await;
            (counts, ended.err().map(|error| error.to_string()))
        }
    };
    if let Some(problem) = &problem {
        tracing::warn!(target: "savings", "{problem}");
    }
    let learned: Vec<(String, u64)> = texts.iter().map(|text| (*text).to_owned()).zip(counts).collect();
    let daemon = daemon.clone();
    run_blocking(move || {
        daemon.services.savings_recorder.change(|kept| {
            kept.add_counts(&learned);
            kept.trim(&snapshot.texts.keys().copied().collect());
            report::report(
                &snapshot,
                kept,
                daemon.services.savings_recorder.peak_saved_processes(),
                problem.as_deref(),
            )
        })
    })
    .await
}
