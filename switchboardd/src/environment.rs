//! What children find in their environment: a short allow-list from the person's login shell, so
//! that `npx` is found whichever editor, or init system, happened to start the daemon.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{ExitCode, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use switchboard_wire::backoff;
use tokio::io::AsyncReadExt;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::event_loop::{may_block, run_blocking};
use crate::inherited_variables::is_inherited;

/// The first argument that makes this binary the keeper of a login shell.
pub const SHELL_ENV: &str = "--shell-env";

/// How long a start waits for the login shell.
const SHELL_TIMEOUT: Duration = Duration::from_secs(5);

/// A login shell that takes longer than this does not answer any more. What it says after that start is for the next.
const SHELL_KILL_TIMEOUT: Duration = Duration::from_secs(60);

/// How soon a shell that did not answer is asked again, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(10 * 60);

/// How long it may take to end once it has answered.
const LAST_STEPS: Duration = Duration::from_millis(200);

/// No environment, with all that rc files print, is longer.
const MAX_ANSWER: u64 = 8 * 1024 * 1024;

/// All that a login shell is told; the rest is for its rc files to say.
const PASSED_ON: [&str; 3] = ["HOME", "USER", "LOGNAME"];

/// Stands around the shell's answer: rc files like to print things of their own.
const MARK: &str = "__switchboard_environment__";

/// Where commands are usually installed, for when there is no login shell to ask.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// An environment for children: allowed names only, no relative entry on the search path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    pub fn from_all(all: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut kept: BTreeMap<_, _> = all.into_iter().filter(|(name, _)| is_inherited(name)).collect();
        if let Some(path) = kept.get_mut("PATH") {
            *path = absolute_entries(path);
        }
        kept.entry("PATH".to_owned()).or_insert_with(|| USUAL_PATH.to_owned());
        Self(kept)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&String, &String)> {
        self.0.iter()
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub fn path(&self) -> &str {
        self.0.get("PATH").map_or(USUAL_PATH, String::as_str)
    }
}

fn absolute_entries(path: &str) -> String {
    let entries: Vec<&str> = path.split(':').filter(|entry| entry.starts_with('/')).collect();
    entries.join(":")
}

/// What the login shell said.
#[derive(Clone, Default)]
pub struct ShellEnvironment {
    /// What every child is given.
    pub variables: Variables,
    /// Everything, for definitions that ask for a variable by name.
    pub all: BTreeMap<String, String>,
}

/// How much, never what: anything in it may be a secret.
impl std::fmt::Debug for ShellEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShellEnvironment").field("variables", &self.all.len()).finish_non_exhaustive()
    }
}

/// The login shell's environment, asked for when the first child starts. A good answer is kept. Until there is one,
/// children get the usual PATH, and the shell is asked again when another starts.
#[derive(Debug, Default)]
pub struct LoginShell {
    shared: Arc<SharedShell>,
}

#[derive(Debug, Default)]
struct SharedShell {
    /// Of a daemon that asks no shell.
    fixed: OnceLock<Arc<ShellEnvironment>>,
    // A leaf lock: held to look at or replace what is known.
    known: Mutex<ShellState>,
    /// A shell answered, or did not.
    answered: Notify,
    /// A shell answered after somebody had stopped waiting for it.
    late: Notify,
}

#[derive(Debug, Default)]
struct ShellState {
    current: Option<Arc<ShellEnvironment>>,
    /// What it said before a person wanted it to be asked again: good until it answers.
    before: Option<Arc<ShellEnvironment>>,
    asking: Option<ShellQuery>,
    /// How many were asked in vain, and when the next may be asked.
    failures: u32,
    next: Option<Instant>,
    /// How often a person wanted it to be asked again: an answer to an earlier question is not taken in.
    round: u64,
}

#[derive(Debug, Clone, Copy)]
struct ShellQuery {
    since: Instant,
    round: u64,
}

impl LoginShell {
    /// From now on this is the answer, and no shell is asked.
    pub fn fix(&self, all: BTreeMap<String, String>) {
        let variables = Variables::from_all(all.clone());
        let _ = self.shared.fixed.set(Arc::new(ShellEnvironment { variables, all }));
    }

    pub async fn environment(&self) -> Arc<ShellEnvironment> {
        if let Some(fixed) = self.shared.fixed.get() {
            return fixed.clone();
        }
        loop {
            let answered = self.shared.answered.notified();
            tokio::pin!(answered);
            answered.as_mut().enable();
            let until = {
                let mut known = self.shared.lock();
                if let Some(shell_environment) = &known.current {
                    return shell_environment.clone();
                }
                match known.asking(Instant::now()) {
                    Ask::Wait(until) => until,
                    Ask::Begin(asking) => {
                        tokio::spawn(self.shared.clone().ask(asking));
                        asking.since + SHELL_TIMEOUT
                    }
                    Ask::Later => return known.without_answer(),
                }
            };
            if tokio::time::timeout_at(until, answered).await.is_err() {
                let known = self.shared.lock();
                tracing::warn!(
                    target: "environment",
                    "the login shell takes longer than {} s; children get {} until it answers",
                    SHELL_TIMEOUT.as_secs(),
                    known.instead()
                );
                return known.without_answer();
            }
        }
    }

    /// A person may have changed their profile: the next child's start asks again.
    pub fn forget(&self) {
        let mut known = self.shared.lock();
        known.forget();
        drop(known);
        self.shared.answered.notify_waiters();
    }

    /// Resolves when a shell has answered that nobody waited for any more.
    pub async fn answered_late(&self) {
        self.shared.late.notified().await;
    }

    /// Whether a shell has answered.
    pub fn is_known(&self) -> bool {
        self.shared.fixed.get().is_some() || self.shared.lock().current.is_some()
    }
}

/// What a start does that needs the environment.
enum Ask {
    /// Somebody has asked already: wait with them.
    Wait(Instant),
    Begin(ShellQuery),
    /// It did not answer just now, or takes too long: do without.
    Later,
}

impl ShellState {
    fn forget(&mut self) {
        let before = self.current.take().or(self.before.take());
        *self = Self { round: self.round + 1, before, ..Self::default() };
    }

    /// What holds as long as the shell has not answered.
    fn without_answer(&self) -> Arc<ShellEnvironment> {
        self.before.clone().unwrap_or_else(|| Arc::new(ShellEnvironment::without_shell()))
    }

    fn instead(&self) -> &'static str {
        if self.before.is_some() { "what it said before" } else { "the usual PATH" }
    }

    fn asking(&mut self, now: Instant) -> Ask {
        if let Some(asking) = self.asking {
            let until = asking.since + SHELL_TIMEOUT;
            return if until > now { Ask::Wait(until) } else { Ask::Later };
        }
        if self.next.is_some_and(|next| next > now) {
            return Ask::Later;
        }
        let asking = ShellQuery { since: now, round: self.round };
        self.asking = Some(asking);
        Ask::Begin(asking)
    }

    /// What came of it. True if somebody stopped waiting before it came.
    fn note(&mut self, asking: ShellQuery, answer: Option<ShellEnvironment>, now: Instant) -> bool {
        if asking.round != self.round {
            return false;
        }
        self.asking = None;
        let Some(shell_environment) = answer else {
            self.failures = self.failures.saturating_add(1);
            self.next = Some(now + backoff::pause_after(self.failures, FIRST_PAUSE, LONGEST_PAUSE));
            return false;
        };
        let is_late = self.failures > 0 || now >= asking.since + SHELL_TIMEOUT;
        self.current = Some(Arc::new(shell_environment));
        self.before = None;
        is_late
    }
}

impl SharedShell {
    async fn ask(self: Arc<Self>, asking: ShellQuery) {
        let answer = tokio::time::timeout(SHELL_KILL_TIMEOUT, capture()).await.ok().flatten();
        if answer.is_none() {
            let instead = self.lock().instead();
            tracing::warn!(target: "environment", "the login shell gave no environment; children get {instead}");
        }
        let is_late = self.lock().note(asking, answer, Instant::now());
        self.answered.notify_waiters();
        if is_late {
            tracing::info!(target: "environment", "the login shell gave its environment");
            self.late.notify_one();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ShellState> {
        self.known.lock().expect("BUG: a note panicked")
    }
}

impl ShellEnvironment {
    /// What the daemon itself was started with, but for the PATH. None of it can be asked for by name.
    fn without_shell() -> Self {
        let own = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| name != "PATH");
        Self { variables: Variables::from_all(own), all: BTreeMap::new() }
    }
}

/// `None` if the shell says nothing. Where there is no shell, that is the answer.
async fn capture() -> Option<ShellEnvironment> {
    let named = std::env::var("SHELL").ok().filter(|shell| shell.starts_with('/'));
    let shell = match named {
        Some(named) => Some(named),
        None => run_blocking(passwd_shell).await,
    };
    let Some(shell) = shell else { return Some(ShellEnvironment::without_shell()) };
    let all: BTreeMap<String, String> = ask(&shell).await?.into_iter().collect();
    Some(ShellEnvironment { variables: Variables::from_all(all.clone()), all })
}

/// Has a keeper run the shell. The keeper ends it when our end of its standard input closes, which
/// happens when this future is done or dropped, and when the daemon dies.
async fn ask(shell: &str) -> Option<Vec<(String, String)>> {
    let mut command = tokio::process::Command::from(shell_helper());
    command.arg(SHELL_ENV).arg(shell).env_clear();
    command.envs(PASSED_ON.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    // Not our own PATH: that is the one of the host which happened to start the daemon.
    command.env("PATH", USUAL_PATH).env("SHELL", shell).env("TERM", "dumb");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let (mut keeper, _ours) = crate::processes::start(&mut command).ok()?;
    let _leash = keeper.stdin.take();
    let mut stdout = keeper.stdout.take()?.take(MAX_ANSWER);
    let mut said = Vec::new();
    // Not to its end: something that an rc file left in the background may hold it open.
    let answer = loop {
        if let Some(answer) = between_marks(&said) {
            break answer;
        }
        if stdout.read_buf(&mut said).await.ok()? == 0 {
            return None;
        }
    };
    let _ = tokio::time::timeout(LAST_STEPS, keeper.wait()).await;
    let answer: Vec<_> = answer
        .split('\0')
        .filter_map(|entry| entry.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    (!answer.is_empty()).then_some(answer)
}

fn between_marks(said: &[u8]) -> Option<String> {
    let find = |from: usize| {
        let at = said[from..].windows(MARK.len()).position(|window| window == MARK.as_bytes())?;
        Some(from + at)
    };
    let begin = find(0)? + MARK.len();
    let end = find(begin)?;
    Some(String::from_utf8_lossy(&said[begin..end]).into_owned())
}

/// This very binary. Not by its path: that may be another version by now, or gone.
#[expect(clippy::disallowed_methods, reason = "processes of our own, which are no children")]
pub(crate) fn shell_helper() -> std::process::Command {
    let mut command = std::process::Command::new("/proc/self/exe");
    if cfg!(not(target_os = "linux")) {
        command = std::process::Command::new(std::env::current_exe().unwrap_or_default());
    }
    command.arg0("switchboardd");
    command
}

/// The whole life of a keeper, `switchboardd --shell-env SHELL`: runs the shell in a session without a
/// terminal, where no rc file can stop it by touching one, and leaves nothing of it when time is up.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the login shell is executed, in a process without a runtime"
)]
pub fn run_shell(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(shell) = args.next() else { return ExitCode::from(2) };
    let _ = rustix::process::setsid();
    let script = format!("printf '%s' {MARK}; env -0; printf '%s' {MARK}");
    let spawned = std::process::Command::new(shell)
        .args(["-l", "-i", "-c", &script])
        .stdin(Stdio::null())
        .process_group(0)
        .spawn();
    let Ok(mut shell) = spawned else { return ExitCode::from(127) };
    let until = std::time::Instant::now() + SHELL_KILL_TIMEOUT;
    while std::time::Instant::now() < until && !is_let_go() {
        if let Ok(Some(_)) = shell.try_wait() {
            return ExitCode::SUCCESS;
        }
    }
    if let Some(group) = rustix::process::Pid::from_raw(shell.id().cast_signed()) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = shell.wait();
    ExitCode::FAILURE
}

/// Waits a moment for the daemon to let go of our standard input.
fn is_let_go() -> bool {
    let stdin = std::io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let moment = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
    matches!(poll(&mut fds, Some(&moment)), Ok(1))
}

/// The shell that the user database names; only local accounts are looked at.
fn passwd_shell() -> Option<String> {
    may_block();
    let uid = rustix::process::getuid().as_raw().to_string();
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let user = users.lines().find(|line| line.split(':').nth(2) == Some(&uid))?;
    user.rsplit(':').next().filter(|shell| shell.starts_with('/')).map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_allowed_names_pass_and_relative_path_entries_go() {
        let all = [("PATH", "/a:b:.:/c:"), ("ANTHROPIC_API_KEY", "x"), ("LC_ALL", "C"), ("LD_PRELOAD", "y")];
        let kept = Variables::from_all(all.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let kept: Vec<_> = kept.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(kept, [("LC_ALL", "C"), ("PATH", "/a:/c")]);
    }

    #[test]
    fn only_what_is_between_the_marks_is_the_answer() {
        let answer = |text: String| between_marks(text.as_bytes());
        assert_eq!(answer(format!("noise{MARK}A=1\0{MARK}more")), Some("A=1\0".to_owned()));
        assert_eq!(answer(format!("noise{MARK}A=1\0")), None);
        assert_eq!(answer(String::new()), None);
    }

    #[test]
    fn a_shell_that_was_slow_or_failed_is_asked_again_and_taken_in_late() {
        let mut known = ShellState::default();
        let begin = Instant::now();
        let Ask::Begin(first) = known.asking(begin) else { panic!("nobody has asked") };
        let (soon, late) = (begin + Duration::from_secs(1), begin + SHELL_TIMEOUT);
        assert!(matches!(known.asking(soon), Ask::Wait(until) if until == begin + SHELL_TIMEOUT));
        assert!(matches!(known.asking(late), Ask::Later), "one shell at a time, and nobody waits twice");
        // It failed: asked again, but not at once.
        assert!(!known.note(first, None, late));
        assert!(matches!(known.asking(late), Ask::Later));
        let Ask::Begin(second) = known.asking(late + FIRST_PAUSE) else { panic!("not asked again") };
        known.note(second, None, late + FIRST_PAUSE);
        assert!(matches!(known.asking(late + FIRST_PAUSE * 2), Ask::Later), "the pause doubles");
        let Ask::Begin(third) = known.asking(late + FIRST_PAUSE * 3) else { panic!("not asked again") };
        assert!(
            known.note(third, Some(ShellEnvironment::default()), late + SHELL_KILL_TIMEOUT),
            "those who did without hear of it"
        );
        assert!(known.current.is_some());
    }

    #[test]
    fn an_answer_to_an_earlier_question_is_not_taken_in() {
        let mut known = ShellState::default();
        let Ask::Begin(before) = known.asking(Instant::now()) else { panic!("nobody has asked") };
        known.forget();
        assert!(!known.note(before, Some(ShellEnvironment::default()), Instant::now()));
        assert!(known.current.is_none());
    }

    #[test]
    fn what_a_shell_said_holds_until_it_answers_again() {
        let mut known = ShellState::default();
        let now = Instant::now();
        let shell_environment = |value: &str| {
            Some(ShellEnvironment {
                all: [("X".to_owned(), value.to_owned())].into(),
                ..ShellEnvironment::default()
            })
        };
        let Ask::Begin(first) = known.asking(now) else { panic!("nobody has asked") };
        known.note(first, shell_environment("old"), now);
        // However often it is asked again, and also if it fails.
        known.forget();
        known.forget();
        let Ask::Begin(second) = known.asking(now) else { panic!("not asked again") };
        assert!(known.current.is_none());
        assert_eq!(known.without_answer().all["X"], "old");
        known.note(second, None, now);
        assert_eq!(known.without_answer().all["X"], "old");
        let Ask::Begin(third) = known.asking(now + FIRST_PAUSE) else { panic!("not asked again") };
        assert!(
            known.note(third, shell_environment("new"), now + FIRST_PAUSE),
            "those who had the old one hear of it"
        );
        assert_eq!(known.current.as_ref().unwrap().all["X"], "new");
        assert!(known.before.is_none());
    }
}
