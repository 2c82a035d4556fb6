//! The environment of children: a short allow-list from the user's login shell, so that `npx` is found no
//! matter which editor or init system started the daemon.

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

use switchboard_definitions::inherited_variables::is_inherited;
use switchboard_wire::event_loop::{may_block, run_blocking};

/// The first argument that makes this binary run a login shell for the daemon (the keeper).
pub const SHELL_ENV: &str = "--shell-env";

/// How long a child's start waits for the login shell.
const SHELL_TIMEOUT: Duration = Duration::from_secs(5);

/// After this the login shell is killed. An answer between the two timeouts is for later starts.
const SHELL_KILL_TIMEOUT: Duration = Duration::from_secs(60);

/// Back-off before a shell that failed is asked again, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(10 * 60);

/// How long the keeper may take to exit after its answer.
const SHELL_EXIT_TIMEOUT: Duration = Duration::from_millis(200);

/// Longer than any environment, with all that rc files print.
const MAX_ANSWER: u64 = 8 * 1024 * 1024;

/// The only variables that the login shell is given; the rest comes from its rc files.
const SHELL_VARIABLES: [&str; 3] = ["HOME", "USER", "LOGNAME"];

/// The `SHELL` of the host whose shim started the daemon.
const HOSTS_SHELL: &str = "SWITCHBOARD_SHELL";

/// Encloses the environment in the shell's output, since rc files may print other text.
const OUTPUT_MARKER: &str = "__switchboard_environment__";

/// Prints every variable with a zero byte after it. `env` of macOS 12 cannot; there, values of several lines are cut.
const PRINT_VARIABLES: &str =
    if cfg!(target_os = "macos") { r"env -0 || env | tr '\n' '\0'" } else { "env -0" };

/// The `PATH` for when no login shell answers.
const USUAL_PATH: &str = if cfg!(target_os = "macos") {
    "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
} else {
    "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
};

/// An environment for children: allowed names only, and no relative entry in `PATH`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChildEnvironment(BTreeMap<String, String>);

impl ChildEnvironment {
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

/// The environment of the login shell.
#[derive(Clone, Default)]
pub struct ShellEnvironment {
    /// The variables that every child gets.
    pub variables: ChildEnvironment,
    /// All variables, for definitions that ask for one by name.
    pub all: BTreeMap<String, String>,
}

/// Prints only the number of variables, since any of them may be a secret.
impl std::fmt::Debug for ShellEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShellEnvironment").field("variables", &self.all.len()).finish_non_exhaustive()
    }
}

/// The login shell's environment, queried when the first child starts and then cached. While there is no
/// answer, children get the previous answer or the usual `PATH`, and later starts query the shell again.
#[derive(Debug, Default)]
pub struct LoginShell {
    shared: Arc<SharedShell>,
}

#[derive(Debug, Default)]
struct SharedShell {
    /// Set if the daemon does not ask a login shell.
    fixed: OnceLock<Arc<ShellEnvironment>>,
    // A leaf lock: held only to read or replace the state.
    known: Mutex<ShellState>,
    /// Notified when a shell answered or failed.
    answered: Notify,
    /// Notified when a shell answered after a start stopped waiting for it.
    late: Notify,
}

#[derive(Debug, Default)]
struct ShellState {
    current: Option<Arc<ShellEnvironment>>,
    /// The answer before the user asked for a new one; used until the shell answers again.
    before: Option<Arc<ShellEnvironment>>,
    asking: Option<ShellQuery>,
    /// Failed queries in a row, and when the next may start.
    failures: u32,
    next: Option<Instant>,
    /// Number of the current query round; an answer to an earlier round is ignored.
    round: u64,
}

#[derive(Debug, Clone, Copy)]
struct ShellQuery {
    since: Instant,
    round: u64,
}

impl LoginShell {
    /// Uses `all` as the environment from now on; no shell is asked.
    pub fn fix(&self, all: BTreeMap<String, String>) {
        let variables = ChildEnvironment::from_all(all.clone());
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
                match known.next_action(Instant::now()) {
                    ShellAction::Wait(until) => until,
                    ShellAction::Begin(asking) => {
                        tokio::spawn(self.shared.clone().ask(asking));
                        asking.since + SHELL_TIMEOUT
                    }
                    ShellAction::Later => return known.without_answer(),
                }
            };
            if tokio::time::timeout_at(until, answered).await.is_err() {
                let known = self.shared.lock();
                tracing::warn!(
                    target: "environment",
                    "the login shell takes longer than {} s; servers get {} until it answers",
                    SHELL_TIMEOUT.as_secs(),
                    known.fallback_note()
                );
                return known.without_answer();
            }
        }
    }

    /// Has the next child's start query the shell again, since the user may have changed their profile.
    pub fn forget(&self) {
        let mut known = self.shared.lock();
        known.forget();
        drop(known);
        self.shared.answered.notify_waiters();
    }

    /// Resolves when a shell answers after a start went on without it.
    pub async fn wait_late_answer(&self) {
        self.shared.late.notified().await;
    }

    /// Whether the shell has answered.
    pub fn is_known(&self) -> bool {
        self.shared.fixed.get().is_some() || self.shared.lock().current.is_some()
    }
}

/// What a start that needs the environment has to do.
enum ShellAction {
    /// A query is running: wait for it until then.
    Wait(Instant),
    Begin(ShellQuery),
    /// The last query failed just now, or the running one takes too long: go on without it.
    Later,
}

impl ShellState {
    fn forget(&mut self) {
        let before = self.current.take().or(self.before.take());
        *self = Self { round: self.round + 1, before, ..Self::default() };
    }

    /// The environment to use until the shell answers.
    fn without_answer(&self) -> Arc<ShellEnvironment> {
        self.before.clone().unwrap_or_else(|| Arc::new(ShellEnvironment::without_shell()))
    }

    fn fallback_note(&self) -> &'static str {
        if self.before.is_some() { "what it said before" } else { "the usual PATH" }
    }

    fn next_action(&mut self, now: Instant) -> ShellAction {
        if let Some(asking) = self.asking {
            let until = asking.since + SHELL_TIMEOUT;
            return if until > now { ShellAction::Wait(until) } else { ShellAction::Later };
        }
        if self.next.is_some_and(|next| next > now) {
            return ShellAction::Later;
        }
        let asking = ShellQuery { since: now, round: self.round };
        self.asking = Some(asking);
        ShellAction::Begin(asking)
    }

    /// Records the result of a query. True if a start went on without it.
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
            let instead = self.lock().fallback_note();
            tracing::warn!(target: "environment", "the login shell gave no environment; servers get {instead}");
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
    /// The daemon's own environment without its `PATH`. No variable in it can be requested by name.
    fn without_shell() -> Self {
        let own = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| name != "PATH");
        Self { variables: ChildEnvironment::from_all(own), all: BTreeMap::new() }
    }
}

/// `None` if the shell does not answer. Without a login shell, the daemon's own environment is the answer.
async fn capture() -> Option<ShellEnvironment> {
    let named = |variable: &str| std::env::var(variable).ok().filter(|shell| shell.starts_with('/'));
    let shell = match named("SHELL") {
        Some(named) => Some(named),
        None => run_blocking(passwd_shell).await,
    };
    // `/etc/passwd` has no user of a directory service, and none of a container that runs with any uid.
    let Some(shell) = shell.or_else(|| named(HOSTS_SHELL)) else {
        return Some(ShellEnvironment::without_shell());
    };
    let all: BTreeMap<String, String> = ask(&shell).await?.into_iter().collect();
    Some(ShellEnvironment { variables: ChildEnvironment::from_all(all.clone()), all })
}

/// Has a keeper run the shell. The keeper kills it when our end of its standard input closes, which happens
/// when this future is done or dropped, or the daemon dies.
async fn ask(shell: &str) -> Option<Vec<(String, String)>> {
    let mut command = tokio::process::Command::from(super::programs::own_binary_command());
    command.arg(SHELL_ENV).arg(shell).env_clear();
    command.envs(SHELL_VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    // Not our own `PATH`, which is that of the host that started the daemon.
    command.env("PATH", USUAL_PATH).env("SHELL", shell).env("TERM", "dumb");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let (mut keeper, _ours) = crate::system::processes::start(&mut command).ok()?;
    let _leash = keeper.stdin.take();
    let mut stdout = keeper.stdout.take()?.take(MAX_ANSWER);
    let mut said = Vec::new();
    // Not to the end of output: a background process of an rc file may hold the pipe open.
    let answer = loop {
        if let Some(answer) = between_marks(&said) {
            break answer;
        }
        if stdout.read_buf(&mut said).await.ok()? == 0 {
            return None;
        }
    };
    let _ = tokio::time::timeout(SHELL_EXIT_TIMEOUT, keeper.wait()).await;
    let answer: Vec<_> = answer
        .split('\0')
        .filter_map(|entry| entry.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    (!answer.is_empty()).then_some(answer)
}

fn between_marks(said: &[u8]) -> Option<String> {
    let find = |from: usize| {
        let at = said[from..]
            .windows(OUTPUT_MARKER.len())
            .position(|window| window == OUTPUT_MARKER.as_bytes())?;
        Some(from + at)
    };
    let begin = find(0)? + OUTPUT_MARKER.len();
    let end = find(begin)?;
    Some(String::from_utf8_lossy(&said[begin..end]).into_owned())
}

/// The main function of a keeper, `switchboardd --shell-env SHELL`. Runs the shell in a session without a
/// terminal, so that no rc file can block it by using one. Kills its process group on timeout, and when the
/// daemon closes our standard input.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the login shell is executed, in a process without a runtime"
)]
pub fn run_shell(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(shell) = args.next() else { return ExitCode::from(2) };
    let _ = rustix::process::setsid();
    let script = format!("printf '%s' {OUTPUT_MARKER}; {PRINT_VARIABLES}; printf '%s' {OUTPUT_MARKER}");
    let spawned = std::process::Command::new(shell)
        .args(["-l", "-i", "-c", &script])
        .stdin(Stdio::null())
        .process_group(0)
        .spawn();
    let Ok(mut shell) = spawned else { return ExitCode::from(127) };
    let until = std::time::Instant::now() + SHELL_KILL_TIMEOUT;
    while std::time::Instant::now() < until && !wait_stdin_closed() {
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

/// Waits 2 ms for the daemon to close our standard input.
fn wait_stdin_closed() -> bool {
    let stdin = std::io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let moment = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
    matches!(poll(&mut fds, Some(&moment)), Ok(1))
}

/// The login shell of the user. macOS has its users in no file.
#[cfg(target_os = "macos")]
fn passwd_shell() -> Option<String> {
    may_block();
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten()?;
    user.shell.to_str().filter(|shell| shell.starts_with('/')).map(ToOwned::to_owned)
}

/// The login shell in `/etc/passwd`; other user databases are not consulted.
#[cfg(not(target_os = "macos"))]
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
        let kept = ChildEnvironment::from_all(all.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let kept: Vec<_> = kept.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(kept, [("LC_ALL", "C"), ("PATH", "/a:/c")]);
    }

    #[test]
    fn only_what_is_between_the_marks_is_the_answer() {
        let answer = |text: String| between_marks(text.as_bytes());
        assert_eq!(answer(format!("noise{OUTPUT_MARKER}A=1\0{OUTPUT_MARKER}more")), Some("A=1\0".to_owned()));
        assert_eq!(answer(format!("noise{OUTPUT_MARKER}A=1\0")), None);
        assert_eq!(answer(String::new()), None);
    }

    #[test]
    fn a_slow_or_failed_shell_is_queried_again() {
        let mut known = ShellState::default();
        let begin = Instant::now();
        let ShellAction::Begin(first) = known.next_action(begin) else { panic!("nobody has asked") };
        let (soon, late) = (begin + Duration::from_secs(1), begin + SHELL_TIMEOUT);
        assert!(
            matches!(known.next_action(soon), ShellAction::Wait(until) if until == begin + SHELL_TIMEOUT)
        );
        assert!(
            matches!(known.next_action(late), ShellAction::Later),
            "one shell at a time, and nobody waits twice"
        );
        // The query failed: it is repeated, but not at once.
        assert!(!known.note(first, None, late));
        assert!(matches!(known.next_action(late), ShellAction::Later));
        let ShellAction::Begin(second) = known.next_action(late + FIRST_PAUSE) else {
            panic!("not asked again")
        };
        known.note(second, None, late + FIRST_PAUSE);
        assert!(matches!(known.next_action(late + FIRST_PAUSE * 2), ShellAction::Later), "the pause doubles");
        let ShellAction::Begin(third) = known.next_action(late + FIRST_PAUSE * 3) else {
            panic!("not asked again")
        };
        assert!(
            known.note(third, Some(ShellEnvironment::default()), late + SHELL_KILL_TIMEOUT),
            "those who did without hear of it"
        );
        assert!(known.current.is_some());
    }

    #[test]
    fn an_answer_to_an_earlier_query_is_ignored() {
        let mut known = ShellState::default();
        let ShellAction::Begin(before) = known.next_action(Instant::now()) else {
            panic!("nobody has asked")
        };
        known.forget();
        assert!(!known.note(before, Some(ShellEnvironment::default()), Instant::now()));
        assert!(known.current.is_none());
    }

    #[test]
    fn the_previous_answer_is_used_until_the_shell_answers_again() {
        let mut known = ShellState::default();
        let now = Instant::now();
        let shell_environment = |value: &str| {
            Some(ShellEnvironment {
                all: [("X".to_owned(), value.to_owned())].into(),
                ..ShellEnvironment::default()
            })
        };
        let ShellAction::Begin(first) = known.next_action(now) else { panic!("nobody has asked") };
        known.note(first, shell_environment("old"), now);
        // However often the query is repeated, and even if it fails.
        known.forget();
        known.forget();
        let ShellAction::Begin(second) = known.next_action(now) else { panic!("not asked again") };
        assert!(known.current.is_none());
        assert_eq!(known.without_answer().all["X"], "old");
        known.note(second, None, now);
        assert_eq!(known.without_answer().all["X"], "old");
        let ShellAction::Begin(third) = known.next_action(now + FIRST_PAUSE) else {
            panic!("not asked again")
        };
        assert!(
            known.note(third, shell_environment("new"), now + FIRST_PAUSE),
            "those who had the old one hear of it"
        );
        assert_eq!(known.current.as_ref().unwrap().all["X"], "new");
        assert!(known.before.is_none());
    }
}
