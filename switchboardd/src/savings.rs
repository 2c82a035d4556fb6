//! What Switchboard saves, with what it costs taken off: tokens that models do not read, processes and memory
//! that sessions do not take, starts that nobody waits for.
//!
//! Everything is looked at and counted beside the one thread that works, by one at a time; the vocabulary is
//! loaded by a process of its own, and only for texts that were never counted (`tokens.rs`).

mod gather;
mod report;
mod word;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::board::Board;
use crate::thrift::Mark;
use crate::tokens;
use gather::Gathered;

/// What was last found, and when the look at it began.
#[derive(Debug, Default)]
pub struct Latest(Mutex<Option<(Instant, Arc<Value>)>>);

/// What is saved now. Those who ask while somebody looks get what the next look finds, all of them the same.
pub async fn now(board: &Arc<Board>) -> Arc<Value> {
    let asked = Instant::now();
    let mut latest = board.savings.0.lock().await;
    if let Some((begun, found)) = &*latest
        && *begun >= asked
    {
        return found.clone();
    }
    let begun = Instant::now();
    let found = Arc::new(look(board).await);
    *latest = Some((begun, found.clone()));
    found
}

async fn look(board: &Arc<Board>) -> Value {
    let gathering = board.clone();
    let (gathered, missing) = beside(move || {
        let gathered = Gathered::of(&gathering);
        let missing = gathering.nursery.thrift.change(|kept| {
            let unknown = |mark: &Mark| kept.tokens(*mark).is_none();
            let missing = gathered.texts.iter().filter(|(mark, _)| unknown(mark)).map(|(_, text)| &**text);
            let missing = missing.filter(|text| text.len() <= tokens::MAX_TEXT).chain(kept.waiting());
            // One text may stand in both.
            missing.map(|text| (Mark::of(text), text.to_owned())).collect::<HashMap<_, _>>()
        });
        (gathered, missing)
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
    let board = board.clone();
    beside(move || {
        board.nursery.thrift.change(|kept| {
            kept.learn(&learned);
            kept.trim(&gathered.texts.keys().copied().collect());
            report::report(&gathered, kept, board.nursery.thrift.peak(), problem.as_deref())
        })
    })
    .await
}

async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}
