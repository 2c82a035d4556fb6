//! The record of calls: who called what, when, for how long, and what came of it. `switchboard calls` and the
//! status page show it.
//!
//! A request that ends leaves a small value in memory. Every moment a task hands what has gathered to another
//! thread, which makes lines of it and appends them to a file. A disk that is full or does not respond costs
//! the record, never a call: what does not fit in memory is counted.

mod files;
mod line;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::value::RawValue;
use switchboard_definitions::config::RecordMode;
use switchboard_mcp::methods;
use switchboard_wire::event_loop::{run_blocking, try_run_blocking};
use tokio::sync::Notify;
use tokio::time::Instant;

pub use files::RecordFiles;
pub use line::{CallRecord, RecordEntry};

use crate::caller::client_name;
use crate::observe::metrics::call_result::CallResult;
use crate::observe::metrics::{EndedOperation, Metrics, ToolLabel};
use crate::observe::status_changed::StatusChanged;
use crate::session::Session;

/// How long calls gather before they are written. If the daemon is killed, the calls of this time are lost.
const FLUSH_INTERVAL: Duration = Duration::from_millis(300);
/// So many calls are written at once, without waiting. Few enough that they take little memory.
const FLUSH_AT: usize = 512;
/// Calls that are kept in memory while they cannot be written: some seconds of the most that a daemon serves.
const MAX_UNWRITTEN: usize = 16 * 1024;
/// Limit for the arguments among them, in bytes. Above it, calls are recorded without arguments.
const MAX_ARGUMENT_BYTES: usize = 4 * 1024 * 1024;
/// How long to wait after a write that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// Calls that the status page shows.
const MAX_RECENT: usize = 50;
/// How much of a file is read for them.
const MAX_RECENT_BYTES: u64 = 256 * 1024;
/// Longer names are cut to this.
const MAX_NAME_CHARS: usize = 128;

#[derive(Debug)]
pub struct CallRecorder {
    mode: AtomicU8,
    files: RecordFiles,
    metrics: Arc<Metrics>,
    status_changed: Arc<StatusChanged>,
    // A leaf lock: held only to add a call, or to take all of them out.
    unwritten: Mutex<UnwrittenCalls>,
    arrived: Notify,
    many: Notify,
    /// Lines that could not be written.
    // Held while the file is written, by threads for blocking work only.
    writer: Mutex<Vec<u8>>,
    // A leaf lock: held to copy or replace it.
    problem: Mutex<Option<String>>,
    /// The last calls, oldest first; unset until somebody asks for them.
    // A leaf lock: held to copy or to add.
    recent: Mutex<Option<VecDeque<CallRecord<'static>>>>,
}

#[derive(Debug, Default)]
struct UnwrittenCalls {
    calls: Vec<EndedCall>,
    argument_bytes: usize,
    /// Calls for which there was no room.
    lost: u64,
}

/// A call that is over, as it is kept until it is written.
#[derive(Debug)]
struct EndedCall {
    /// Knows the host and the workspace.
    session: Arc<Session>,
    /// `clientInfo` of a modern request.
    client: Option<Box<str>>,
    operation: EndedOperation,
}

impl CallRecorder {
    pub fn new(state: &Path, metrics: &Arc<Metrics>, status_changed: &Arc<StatusChanged>) -> Arc<Self> {
        Arc::new(Self {
            mode: AtomicU8::new(RecordMode::default() as u8),
            files: RecordFiles::new(state),
            metrics: metrics.clone(),
            status_changed: status_changed.clone(),
            unwritten: Mutex::default(),
            arrived: Notify::new(),
            many: Notify::new(),
            writer: Mutex::default(),
            problem: Mutex::default(),
            recent: Mutex::default(),
        })
    }

    pub fn set_mode(&self, mode: RecordMode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    pub fn mode(&self) -> RecordMode {
        let mode = self.mode.load(Ordering::Relaxed);
        RecordMode::ALL.into_iter().find(|one| *one as u8 == mode).unwrap_or(RecordMode::Off)
    }

    pub fn wants_arguments(&self) -> bool {
        self.mode.load(Ordering::Relaxed) == RecordMode::Arguments as u8
    }

    /// Records a request that has ended, if it used a server. Every call passes here: nothing is formatted.
    pub fn record(&self, session: &Arc<Session>, client: Option<Box<str>>, operation: EndedOperation) {
        let is_recorded =
            matches!(operation.method, methods::TOOLS_CALL | methods::RESOURCES_READ | methods::PROMPTS_GET);
        if !is_recorded || self.mode.load(Ordering::Relaxed) == RecordMode::Off as u8 {
            return;
        }
        let mut call = EndedCall { session: session.clone(), client, operation };
        let mut unwritten = self.unwritten.lock().expect("BUG: a note panicked");
        if unwritten.calls.len() >= MAX_UNWRITTEN {
            unwritten.lost += 1;
            return;
        }
        if let Some(arguments) = call.arguments() {
            let length = arguments.as_ref().map_or(0, |text| text.len());
            if unwritten.argument_bytes + length > MAX_ARGUMENT_BYTES {
                *arguments = None;
            } else {
                unwritten.argument_bytes += length;
            }
        }
        unwritten.calls.push(call);
        let count = unwritten.calls.len();
        drop(unwritten);
        match count {
            1 => self.arrived.notify_one(),
            FLUSH_AT => self.many.notify_one(),
            _ => {}
        }
    }

    /// Writes calls as they come; never resolves.
    pub async fn run_flush_loop(self: &Arc<Self>) {
        loop {
            self.arrived.notified().await;
            let _ = tokio::time::timeout(FLUSH_INTERVAL, self.many.notified()).await;
            let recorder = self.clone();
            let written = try_run_blocking(move || recorder.flush()).await;
            if written != Some(true) {
                tokio::time::sleep(RETRY_INTERVAL).await;
                self.arrived.notify_one();
            }
        }
    }

    /// Writes everything recorded so far; false if that failed. Blocks on the disk.
    pub fn flush(&self) -> bool {
        let mut lines = self.writer.lock().expect("BUG: a write panicked");
        // While lines wait, later calls wait in memory, where their number is limited.
        if lines.is_empty() {
            let taken = std::mem::take(&mut *self.unwritten.lock().expect("BUG: a note panicked"));
            if taken.calls.is_empty() && taken.lost == 0 {
                return true;
            }
            self.format(&taken, &mut lines);
            self.status_changed.notify();
        }
        match self.files.append(&lines) {
            Ok(()) => {
                // A burst leaves no memory behind.
                *lines = Vec::new();
                self.set_problem(None);
                true
            }
            Err(error) => {
                self.set_problem(Some(format!(
                    "`{}` cannot be written: {error}",
                    self.files.newest().display()
                )));
                false
            }
        }
    }

    fn format(&self, taken: &UnwrittenCalls, lines: &mut Vec<u8>) {
        let clock = (SystemTime::now(), Instant::now());
        let mut recent = self.recent.lock().expect("BUG: a copy panicked");
        let shown = taken.calls.len().saturating_sub(MAX_RECENT);
        let mut last: Option<(&EndedCall, RecordedHost)> = None;
        for (at, call) in taken.calls.iter().enumerate() {
            // Most calls come from the host that called before.
            let host = match last.take() {
                Some((before, host)) if before.is_of_same_host(call) => host,
                _ => RecordedHost::of(call),
            };
            let entry = RecordEntry::Call(Box::new(call.record(&host, &self.metrics, clock)));
            entry.write(lines);
            if let (Some(recent), RecordEntry::Call(call)) = (recent.as_mut().filter(|_| at >= shown), entry)
            {
                recent.push_back(own(*call));
            }
            last = Some((call, host));
        }
        if let Some(recent) = &mut *recent {
            recent.drain(..recent.len().saturating_sub(MAX_RECENT));
        }
        if taken.lost > 0 {
            RecordEntry::Lost { at: unix_ms(clock.0), count: taken.lost }.write(lines);
        }
    }

    /// Keeps why the record cannot be written; logged when it changes.
    fn set_problem(&self, now: Option<String>) {
        let mut problem = self.problem.lock().expect("BUG: a copy panicked");
        if *problem == now {
            return;
        }
        match &now {
            Some(why) => tracing::warn!(target: "record", "calls are not recorded: {why}"),
            None => tracing::info!(target: "record", "calls are recorded again"),
        }
        *problem = now;
        self.status_changed.notify();
    }

    /// Why the record cannot be written; `None` if it can.
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().expect("BUG: a copy panicked").clone()
    }

    pub fn files(&self) -> &RecordFiles {
        &self.files
    }

    /// Reads the last calls of earlier daemons, the first time that somebody asks for calls.
    pub async fn load_recent(self: &Arc<Self>) {
        if self.recent.lock().expect("BUG: a copy panicked").is_some() {
            return;
        }
        let recorder = self.clone();
        run_blocking(move || {
            // With this lock, no call is formatted twice or between reading and keeping.
            let lines = recorder.writer.lock().expect("BUG: a write panicked");
            let mut known: VecDeque<_> = recorder
                .files
                .tail(MAX_RECENT, MAX_RECENT_BYTES)
                .iter()
                .filter_map(|line| read(line))
                .collect();
            known.extend(String::from_utf8_lossy(&lines).lines().filter_map(read));
            known.drain(..known.len().saturating_sub(MAX_RECENT));
            recorder.recent.lock().expect("BUG: a copy panicked").get_or_insert(known);
        })
        .await;
    }

    /// The last calls, the newest first, without arguments.
    pub fn recent(&self) -> Vec<CallRecord<'static>> {
        let recent = self.recent.lock().expect("BUG: a copy panicked");
        recent.iter().flatten().rev().cloned().collect()
    }
}

impl EndedCall {
    fn arguments(&mut self) -> Option<&mut Option<Box<str>>> {
        self.operation.details.as_mut().map(|details| &mut details.arguments)
    }

    fn is_of_same_host(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.session, &other.session) && self.client == other.client
    }

    /// `clock`: the same moment by both clocks.
    fn record<'a>(
        &'a self,
        host: &'a RecordedHost,
        metrics: &Metrics,
        clock: (SystemTime, Instant),
    ) -> CallRecord<'a> {
        let operation = &self.operation;
        let details = operation.details.as_deref();
        let was_asked = operation.is_retry || details.is_some_and(|details| details.asked);
        let (result, kind) = CallResult::of(operation.reply, operation.error, was_asked);
        let began = clock.0
            - (clock.1.saturating_duration_since(operation.at) + operation.took + operation.user_time);
        let what = match operation.method {
            methods::TOOLS_CALL if operation.introspects => "introspect",
            methods::TOOLS_CALL => "call",
            method => method,
        };
        let suite = operation.suite.as_ref();
        let unknown_suite = details.and_then(|details| details.unknown_suite.as_deref());
        let arguments = details.and_then(|details| details.arguments.as_deref());
        CallRecord {
            at: unix_ms(began),
            ms: rounded(operation.took),
            host: host.name.as_deref().map(Cow::Borrowed),
            workspace: host.workspace.as_deref().map(Cow::Borrowed),
            via: operation.via.as_str().into(),
            suite: suite.map(|suite| suite.text()).or(unknown_suite).map(Cow::Borrowed),
            server: suite.map(|suite| suite.server().into()),
            what: what.into(),
            tool: operation.tool.as_ref().map(|tool| match tool {
                ToolLabel::Known(name) => metrics.text(*name).to_string().into(),
                ToolLabel::New(name) => clip(name).into(),
            }),
            outcome: result.as_str().into(),
            kind: kind.map(Cow::Borrowed),
            asked: details.is_some_and(|details| details.asked),
            retry: operation.is_retry,
            arguments: arguments
                .and_then(|text| serde_json::from_str::<&RawValue>(text).ok())
                .map(Cow::Borrowed),
        }
    }
}

/// What the record says of a host.
struct RecordedHost {
    name: Option<String>,
    workspace: Option<String>,
}

impl RecordedHost {
    fn of(call: &EndedCall) -> Self {
        let of_request = call.client.as_deref().and_then(client_name);
        let name = of_request.or_else(|| call.session.caller.profile().client_name());
        let workspace = call.session.folder.clone().or_else(|| call.session.workspace().root.clone());
        Self {
            name: name.map(|name| clip(&name)),
            workspace: workspace.map(|folder| folder.to_string_lossy().into_owned()),
        }
    }
}

fn read(line: &str) -> Option<CallRecord<'static>> {
    let Some(RecordEntry::Call(call)) = RecordEntry::parse(line) else { return None };
    Some(own(*call))
}

/// A copy that borrows nothing, without the arguments.
fn own(call: CallRecord<'_>) -> CallRecord<'static> {
    let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
    CallRecord {
        at: call.at,
        ms: call.ms,
        host: call.host.map(own),
        workspace: call.workspace.map(own),
        via: own(call.via),
        suite: call.suite.map(own),
        server: call.server.map(own),
        what: own(call.what),
        tool: call.tool.map(own),
        outcome: own(call.outcome),
        kind: call.kind.map(own),
        asked: call.asked,
        retry: call.retry,
        arguments: None,
    }
}

fn clip(name: &str) -> String {
    name.chars().take(MAX_NAME_CHARS).collect()
}

/// In milliseconds, to a microsecond.
fn rounded(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e6).round() / 1e3
}

fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
