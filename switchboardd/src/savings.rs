//! What Switchboard saves, net of what it costs: tokens that models do not read, processes and memory that
//! sessions do not need, cold starts that no session waits for.
//!
//! All gathering and counting runs off the event loop, one report at a time. A separate process loads the
//! tokenizer's vocabulary, and only for texts that were never counted (`tokens.rs`).

mod advice;
pub mod estimate;
mod headline;
pub mod recorder;
mod report;
pub mod snapshot;
pub mod tokens;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use switchboard_wire::event_loop::run_blocking;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::savings::recorder::{Fingerprint, SavingsRecorder};
use snapshot::SavingsSnapshot;

/// The last report, and when its computation began.
#[derive(Debug, Default)]
pub struct SavingsCache(Mutex<Option<(Instant, Arc<Value>)>>);

impl SavingsCache {
    /// The current report. Requests that arrive while a report is computed share the next one. `collect`
    /// reads files, so it runs off the event loop.
    pub async fn current(
        &self,
        recorder: &Arc<SavingsRecorder>,
        collect: impl FnOnce() -> SavingsSnapshot + Send + 'static,
    ) -> Arc<Value> {
        let asked = Instant::now();
        let mut latest = self.0.lock().await;
        if let Some((begun, found)) = &*latest
            && *begun >= asked
        {
            return found.clone();
        }
        let begun = Instant::now();
        let found = Arc::new(compute(recorder, collect).await);
        *latest = Some((begun, found.clone()));
        found
    }
}

async fn compute(
    recorder: &Arc<SavingsRecorder>,
    collect: impl FnOnce() -> SavingsSnapshot + Send + 'static,
) -> Value {
    let gathering = recorder.clone();
    let (snapshot, missing) = run_blocking(move || {
        let snapshot = collect();
        let missing = gathering.change(|kept| {
            let unknown = |mark: &Fingerprint| kept.tokens(*mark).is_none();
            let missing = snapshot.texts.iter().filter(|(mark, _)| unknown(mark)).map(|(_, text)| &**text);
            let missing = missing.filter(|text| text.len() <= tokens::MAX_TEXT).chain(kept.waiting());
            // A text may occur in both.
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
    let recorder = recorder.clone();
    run_blocking(move || {
        recorder.change(|kept| {
            kept.add_counts(&learned);
            kept.trim(&snapshot.texts.keys().copied().collect());
            report::report(&snapshot, kept, recorder.peak_saved_processes(), problem.as_deref())
        })
    })
    .await
}
