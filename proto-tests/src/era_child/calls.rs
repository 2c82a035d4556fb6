//! Requests in flight, and the questions that they asked.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::wire::Answer;

/// Ids are stored as JSON text: `1` and `"1"` are different ids.
#[derive(Default)]
pub(crate) struct Calls {
    /// Leaf lock: held for lookups and while an answer is written, so that a cancel comes either before or
    /// after it.
    table: Mutex<Table>,
    idle: Condvar,
}

#[derive(Default)]
struct Table {
    open: HashMap<String, Arc<CallState>>,
    questions: HashMap<String, Question>,
    /// Ids of questions are never reused.
    asked: HashSet<String>,
    cancelled: u64,
}

struct Question {
    call: String,
    answer: SyncSender<Answer>,
}

/// A request in flight, until it is answered or cancelled.
#[derive(Default)]
pub(crate) struct CallState {
    over: Mutex<bool>,
    changed: Condvar,
}

/// The request was cancelled; its result is not wanted.
#[derive(Debug)]
pub(crate) struct Cancelled;

impl CallState {
    pub(super) fn sleep(&self, time: Duration) -> Result<(), Cancelled> {
        let over = self.over.lock().unwrap();
        let (over, _) = self.changed.wait_timeout_while(over, time, |over| !*over).unwrap();
        if *over { Err(Cancelled) } else { Ok(()) }
    }

    pub(super) fn cancel(&self) {
        *self.over.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

impl Calls {
    /// None if the id is in flight already.
    pub(super) fn begin(&self, id: &Value) -> Option<Arc<CallState>> {
        let mut table = self.table.lock().unwrap();
        if table.open.contains_key(&id.to_string()) {
            return None;
        }
        let turn = Arc::new(CallState::default());
        table.open.insert(id.to_string(), Arc::clone(&turn));
        Some(turn)
    }

    /// Ends a request; runs `answer` unless it was cancelled.
    pub(super) fn end(&self, id: &Value, answer: impl FnOnce()) {
        let mut table = self.table.lock().unwrap();
        if table.open.remove(&id.to_string()).is_some() {
            answer();
        }
        self.idle.notify_all();
    }

    /// Cancels a request; returns the ids of its open questions.
    pub(super) fn cancel(&self, id: &Value) -> Vec<String> {
        let call = id.to_string();
        let mut table = self.table.lock().unwrap();
        let Some(turn) = table.open.remove(&call) else { return Vec::new() };
        turn.cancel();
        table.cancelled += 1;
        self.idle.notify_all();
        // Dropping the sender wakes the thread that waits for the answer.
        table.questions.extract_if(|_, question| question.call == call).map(|(id, _)| id).collect()
    }

    /// How many requests were cancelled so far.
    pub(super) fn cancelled(&self) -> u64 {
        self.table.lock().unwrap().cancelled
    }

    /// Opens a question of `call`. Its id is the question's name the first time, and has a number appended
    /// after that: a bridge to the modern era can use it as the key of the input request.
    pub(super) fn ask(&self, call: &Value, name: &str) -> Result<(String, Receiver<Answer>), Cancelled> {
        let mut table = self.table.lock().unwrap();
        if !table.open.contains_key(&call.to_string()) {
            return Err(Cancelled);
        }
        let mut id = name.to_owned();
        let mut number = 1;
        while table.asked.contains(&id) {
            number += 1;
            id = format!("{name}.{number}");
        }
        table.asked.insert(id.clone());
        // Buffers the one answer, so that the thread that reads stdin does not block.
        let (answer, answered) = sync_channel(1);
        table.questions.insert(id.clone(), Question { call: call.to_string(), answer });
        Ok((id, answered))
    }

    pub(super) fn answered(&self, id: &Value, answer: Answer) {
        let question = id.as_str().and_then(|id| self.table.lock().unwrap().questions.remove(id));
        if let Some(question) = question {
            let _ = question.answer.send(answer);
        }
    }

    pub(super) fn wait_until_idle(&self, bound: Duration) {
        let end = Instant::now() + bound;
        let mut table = self.table.lock().unwrap();
        while !table.open.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            table = self.idle.wait_timeout(table, left).unwrap().0;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_of_different_types_differ() {
        let calls = Calls::default();
        assert!(calls.begin(&json!(1)).is_some());
        assert!(calls.begin(&json!("1")).is_some());
        assert!(calls.begin(&json!(1)).is_none());
    }

    #[test]
    fn a_question_is_named_once_and_numbered_after_that() {
        let calls = Calls::default();
        calls.begin(&json!(1)).unwrap();
        assert_eq!(calls.ask(&json!(1), "name").unwrap().0, "name");
        assert_eq!(calls.ask(&json!(1), "name").unwrap().0, "name.2");
        assert!(calls.ask(&json!(2), "name").is_err(), "no such call");
    }

    #[test]
    fn a_cancel_ends_the_wait_and_suppresses_the_answer() {
        let calls = Calls::default();
        let turn = calls.begin(&json!(1)).unwrap();
        let (id, answered) = calls.ask(&json!(1), "name").unwrap();
        assert_eq!(calls.cancel(&json!(1)), [id]);
        assert!(answered.recv().is_err());
        assert!(turn.sleep(Duration::from_secs(60)).is_err());
        calls.end(&json!(1), || panic!("answered all the same"));
        assert_eq!(calls.cancelled(), 1);
    }
}
