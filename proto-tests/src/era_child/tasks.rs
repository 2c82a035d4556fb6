//! The Tasks extension of the modern era: a call that continues after its answer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::calls::{CallState, Cancelled};
use super::modern::{lacking, requests};
use super::revision::Revision;
use super::step::{Question, Round, Step};
use super::tool_context::ToolContext;
use super::wire::{Answer, Fault, Request};
use super::{Child, tools};

pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const TTL_MS: u64 = 300_000;
const POLL_MS: u64 = 100;

/// How a tool uses tasks, for this client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskMode {
    /// It is a task from the start.
    Immediate,
    /// It asks questions first and becomes a task with its last answer.
    AfterQuestions,
    /// It is not a task, or the client does not support tasks.
    Never,
    /// It must be a task, but the client does not support tasks.
    Refused,
}

#[derive(Default)]
pub(crate) struct Tasks {
    table: Mutex<BTreeMap<String, Arc<Task>>>,
    count: AtomicU64,
}

struct Task {
    id: String,
    created: String,
    turn: CallState,
    state: Mutex<State>,
    answered: Condvar,
}

enum State {
    Working,
    Waiting { open: Vec<Question>, given: Map<String, Value> },
    Completed(Value),
    Failed(Fault),
    Cancelled,
}

pub(super) fn task_mode(tool: &str, client: &Value) -> TaskMode {
    let declared = declared(client);
    match tool {
        "failing_job" if !declared => TaskMode::Refused,
        _ if !declared => TaskMode::Never,
        "slow_compute" | "failing_job" | "protocol_error_job" | "confirm_delete" | "multi_input" => {
            TaskMode::Immediate
        }
        "test_tool_with_task" => TaskMode::AfterQuestions,
        _ => TaskMode::Never,
    }
}

fn declared(client: &Value) -> bool {
    client["extensions"][EXTENSION].is_object()
}

pub(super) fn required() -> Fault {
    lacking(&json!({"extensions": {EXTENSION: {}}}))
}

/// Creates the task, runs it in its own thread and returns its handle.
pub(super) fn start(child: &Arc<Child>, request: &Request, client: &Value) -> Value {
    let task = child.tasks.create(State::Working);
    let handle = task.handle();
    let (params, client) = (request.params.clone(), client.clone());
    let child = Arc::clone(child);
    thread::spawn(move || {
        // A cancelled task has already recorded that.
        let _ = play(&child, &task, &params, &client);
    });
    handle
}

/// A task that is already complete.
pub(super) fn done(child: &Child, result: Value) -> Value {
    child.tasks.create(State::Completed(result)).handle()
}

pub(super) fn answer(child: &Child, request: &Request, client: &Value) -> Answer {
    if !matches!(request.method.as_str(), "tasks/get" | "tasks/update" | "tasks/cancel") {
        return Err(Fault::no_method(&request.method));
    }
    if !declared(client) {
        return Err(required());
    }
    let id = request.params["taskId"].as_str().unwrap_or_default();
    let task = child.tasks.table.lock().unwrap().get(id).cloned();
    let task = task.ok_or_else(|| Fault::invalid(format!("unknown task `{id}`")))?;
    match request.method.as_str() {
        "tasks/get" => return Ok(task.details()),
        "tasks/cancel" => task.cancel(),
        _ => task.update(&request.params["inputResponses"]),
    }
    Ok(json!({}))
}

fn play(child: &Child, task: &Task, params: &Value, client: &Value) -> Result<(), Cancelled> {
    let context =
        ToolContext { child, turn: &task.turn, progress_token: None, floor: None, progress_speaks: true };
    let mut answers = Map::new();
    loop {
        let round =
            Round { child, context: &context, revision: Revision::MODERN, client, params, answers: &answers };
        match tools::call(&round)? {
            Step::Done(result) => return task.settle(State::Completed(result)),
            Step::Fail(fault) => return task.settle(State::Failed(fault)),
            Step::Ask(ask) => match ask.missing(client) {
                Some(missing) => return task.settle(State::Failed(lacking(&missing))),
                None => answers.extend(task.wait(ask.questions)?),
            },
        }
    }
}

impl Tasks {
    fn create(&self, state: State) -> Arc<Task> {
        let id = format!("task-{}-{}", std::process::id(), self.count.fetch_add(1, Ordering::Relaxed));
        let task = Arc::new(Task {
            id: id.clone(),
            created: timestamp(SystemTime::now()),
            turn: CallState::default(),
            state: Mutex::new(state),
            answered: Condvar::new(),
        });
        self.table.lock().unwrap().insert(id, Arc::clone(&task));
        task
    }
}

impl Task {
    /// The result of the call that created the task.
    fn handle(&self) -> Value {
        let mut handle = self.envelope("working");
        handle["resultType"] = "task".into();
        handle
    }

    fn envelope(&self, status: &str) -> Value {
        json!({"taskId": self.id, "status": status, "createdAt": self.created,
            "lastUpdatedAt": timestamp(SystemTime::now()), "ttlMs": TTL_MS, "pollIntervalMs": POLL_MS})
    }

    fn details(&self) -> Value {
        match &*self.state.lock().unwrap() {
            State::Working => self.envelope("working"),
            State::Cancelled => self.envelope("cancelled"),
            State::Waiting { open, .. } => {
                let mut details = self.envelope("input_required");
                details["inputRequests"] = Value::Object(requests(open));
                details
            }
            State::Completed(result) => {
                let mut details = self.envelope("completed");
                details["result"] = result.clone();
                details["result"]["resultType"] = "complete".into();
                details
            }
            State::Failed(fault) => {
                let mut details = self.envelope("failed");
                details["error"] = fault.to_json();
                details
            }
        }
    }

    fn settle(&self, end: State) -> Result<(), Cancelled> {
        let mut state = self.state.lock().unwrap();
        if matches!(*state, State::Cancelled) {
            return Err(Cancelled);
        }
        *state = end;
        Ok(())
    }

    fn cancel(&self) {
        let mut state = self.state.lock().unwrap();
        if matches!(*state, State::Working | State::Waiting { .. }) {
            *state = State::Cancelled;
        }
        self.turn.cancel();
        self.answered.notify_all();
    }

    fn update(&self, responses: &Value) {
        let mut state = self.state.lock().unwrap();
        if let (State::Waiting { open, given }, Some(responses)) = (&mut *state, responses.as_object()) {
            for (key, response) in responses {
                if let Some(at) =
                    open.iter().position(|question| question.key == key && question.fits(response))
                {
                    open.remove(at);
                    given.insert(key.clone(), response.clone());
                }
            }
        }
        self.answered.notify_all();
    }

    /// Suspends the task until every question is answered.
    fn wait(&self, questions: Vec<Question>) -> Result<Map<String, Value>, Cancelled> {
        let mut state = self.state.lock().unwrap();
        if matches!(*state, State::Cancelled) {
            return Err(Cancelled);
        }
        *state = State::Waiting { open: questions, given: Map::new() };
        loop {
            match &mut *state {
                State::Waiting { open, given } if open.is_empty() => {
                    let given = std::mem::take(given);
                    *state = State::Working;
                    return Ok(given);
                }
                State::Waiting { .. } => state = self.answered.wait(state).unwrap(),
                _ => return Err(Cancelled),
            }
        }
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// ISO 8601, in UTC.
fn timestamp(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (day, rest) = (seconds / 86_400, seconds % 86_400);
    let (mut year, mut left) = (1970, day);
    let length = |year: u64| if is_leap(year) { 366 } else { 365 };
    while left >= length(year) {
        left -= length(year);
        year += 1;
    }
    let february = length(year) - 337;
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while left >= months[month] {
        left -= months[month];
        month += 1;
    }
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", month + 1, left + 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_right() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_785_196_799, "2026-07-27T23:59:59Z"),
            (1_798_761_600, "2027-01-01T00:00:00Z"),
        ] {
            assert_eq!(timestamp(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn a_client_without_the_extension_gets_no_task() {
        let with = json!({"extensions": {EXTENSION: {}}});
        assert_eq!(task_mode("slow_compute", &with), TaskMode::Immediate);
        assert_eq!(task_mode("slow_compute", &json!({})), TaskMode::Never);
        assert_eq!(task_mode("failing_job", &json!({})), TaskMode::Refused);
        assert_eq!(task_mode("greet", &with), TaskMode::Never);
    }
}
