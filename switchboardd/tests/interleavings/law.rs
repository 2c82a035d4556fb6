//! What must be true of every run, whatever its seed. Servers and hosts note what they see; each note is judged at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

/// The pauses between a crash of a server and its next start, by the number of its latest crashes.
const PAUSES: [u64; 5] = [200, 400, 800, 1_600, 30_000];

/// Crashes within this time before the last one count for certain: the daemon learns of each a little later.
const CRASH_WINDOW: Duration = Duration::from_secs(55);

/// A call, known by a number that no other call of the run has.
pub(crate) type Token = u64;

#[derive(Debug, Clone)]
pub(crate) struct Law {
    begin: Instant,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Every event, for the report of a failure.
    events: Vec<(Duration, String)>,
    /// Calls that a server received.
    received: BTreeSet<Token>,
    answered: BTreeSet<Token>,
    /// When processes of this launch crashed.
    crashes: BTreeMap<String, Vec<Duration>>,
    /// Processes that run, by number.
    running: BTreeSet<u32>,
    /// Questions that a host has received and neither answered nor seen cancelled: host, id, call.
    open_questions: BTreeMap<(usize, String), Token>,
    broken: Vec<String>,
}

impl Law {
    pub(crate) fn new() -> Self {
        Self { begin: Instant::now(), seen: Arc::default() }
    }

    fn with<T>(&self, event: String, judge: impl FnOnce(&mut Seen, Duration) -> T) -> T {
        let mut seen = self.seen.lock().unwrap();
        let now = self.begin.elapsed();
        seen.events.push((now, event));
        judge(&mut seen, now)
    }

    pub(crate) fn note(&self, event: String) {
        self.with(event, |_, _| ());
    }

    pub(crate) fn broken(&self, what: &str) {
        self.with(format!("BROKEN: {what}"), |seen, _| seen.broken.push(what.to_owned()));
    }

    /// A process starts. `launch` is the server and its arguments. At the instant of a crash, the start may have
    /// been decided before it.
    pub(crate) fn started(&self, launch: &str, pid: u32) {
        self.with(format!("{launch} starts as {pid}"), |seen, now| {
            seen.running.insert(pid);
            let crashes = seen.crashes.get(launch).map_or(&[][..], Vec::as_slice);
            if let Some(last) = crashes.last().filter(|last| now > **last) {
                let recent = crashes.iter().filter(|crash| **crash + CRASH_WINDOW >= *last).count();
                let due = Duration::from_millis(PAUSES[recent.min(PAUSES.len()) - 1]);
                let pause = now - *last;
                if pause < due {
                    let broken = format!("{launch} was started again {pause:?} after {recent} crashes");
                    seen.broken.push(broken);
                }
            }
        });
    }

    pub(crate) fn ended(&self, pid: u32) {
        self.with(format!("{pid} has ended"), |seen, _| seen.running.remove(&pid));
    }

    pub(crate) fn crashed(&self, launch: &str, pid: u32) {
        self.with(format!("{launch} crashes as {pid}"), |seen, now| {
            seen.crashes.entry(launch.to_owned()).or_default().push(now);
        });
    }

    /// A server received a call.
    pub(crate) fn received(&self, token: Token, pid: u32) {
        self.with(format!("{pid} receives call {token}"), |seen, _| {
            if !seen.received.insert(token) {
                seen.broken.push(format!("call {token} was sent to a server twice"));
            }
        });
    }

    /// A host got the answer to its call.
    pub(crate) fn answered(&self, token: Token, how: &str) {
        self.with(format!("call {token} is answered: {how}"), |seen, _| {
            if !seen.answered.insert(token) {
                seen.broken.push(format!("call {token} was answered twice"));
            }
        });
    }

    pub(crate) fn asked(&self, host: usize, id: &str, token: Token) {
        self.with(format!("host {host} is asked {id} for call {token}"), |seen, _| {
            if seen.open_questions.insert((host, id.to_owned()), token).is_some() {
                seen.broken.push(format!("question {id} reached host {host} twice"));
            }
        });
    }

    /// The question was answered by the host, taken back by the daemon, or its session is gone.
    pub(crate) fn question_ended(&self, host: usize, id: &str, how: &str) {
        self.with(format!("question {id} of host {host} ends: {how}"), |seen, _| {
            seen.open_questions.remove(&(host, id.to_owned()));
        });
    }

    pub(crate) fn session_ended(&self, host: usize) {
        self.with(format!("the session of host {host} ends"), |seen, _| {
            seen.open_questions.retain(|(of, _), _| *of != host);
        });
    }

    /// Judged when all calls of the host have been over for a while.
    pub(crate) fn at_rest_of(&self, host: usize) {
        self.with(format!("host {host} is at rest"), |seen, _| {
            let Seen { open_questions, broken, .. } = seen;
            for ((of, id), token) in open_questions.iter().filter(|((of, _), _)| *of == host) {
                broken.push(format!("question {id} of host {of} outlives its call {token}"));
            }
        });
    }

    /// The user restarts a server: its next start needs no pause.
    pub(crate) fn forget_crashes(&self, server: &str) {
        let prefix = format!("{server} ");
        self.with(format!("crashes of {server} are forgotten"), |seen, _| {
            seen.crashes.retain(|launch, _| !launch.starts_with(&prefix));
        });
    }

    /// Judged long after the last host has left: nothing runs but spares.
    pub(crate) fn at_rest(&self, spares: u64) {
        self.with("no host is left".to_owned(), |seen, _| {
            let Seen { running, broken, open_questions, .. } = seen;
            if running.len() as u64 > spares {
                broken.push(format!("{running:?} run for nobody; {spares} spares may"));
            }
            for (host, id) in open_questions.keys() {
                broken.push(format!("question {id} of host {host} outlives its session"));
            }
        });
    }

    /// Judged after the daemon has ended.
    pub(crate) fn at_end(&self) {
        self.with("the daemon has ended".to_owned(), |seen, _| {
            let Seen { running, broken, .. } = seen;
            for pid in running.iter() {
                broken.push(format!("process {pid} outlives the daemon"));
            }
        });
    }

    /// What was broken, with everything that happened; `None` if nothing was.
    pub(crate) fn verdict(&self) -> Option<String> {
        let seen = self.seen.lock().unwrap();
        if seen.broken.is_empty() {
            return None;
        }
        let events: Vec<String> =
            seen.events.iter().map(|(at, event)| format!("{:>9} ms  {event}", at.as_millis())).collect();
        Some(format!("{}\n{}", seen.broken.join("\n"), events.join("\n")))
    }
}
