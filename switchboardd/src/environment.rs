//! What children find in their environment: a short allow-list from the person's login shell, so
//! that `npx` is found whichever editor, or init system, happened to start the daemon.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use tokio::io::AsyncReadExt;
use tokio::sync::OnceCell;

/// The first argument that makes this binary the keeper of a login shell.
pub const SHELL_ENV: &str = "--shell-env";

/// A login shell that takes longer than this does not answer any more.
const SHELL_PATIENCE: Duration = Duration::from_secs(5);

/// How long it may take to end once it has answered.
const LAST_STEPS: Duration = Duration::from_millis(200);

/// No environment, with all that rc files print, is longer.
const MAX_ANSWER: u64 = 8 * 1024 * 1024;

/// All that a login shell is told; the rest is for its rc files to say.
const PASSED_ON: [&str; 3] = ["HOME", "USER", "LOGNAME"];

/// Stands around the shell's answer: rc files like to print things of their own.
const MARK: &str = "__switchboard_environment__";

const ALLOWED: [&str; 24] = [
    "HOME",
    "USER",
    "LOGNAME",
    "PATH",
    "SHELL",
    "LANG",
    "TZ",
    "TERM",
    "TMPDIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "DBUS_SESSION_BUS_ADDRESS",
    "SSH_AUTH_SOCK",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];
const ALLOWED_MORE: [&str; 3] = ["NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"];
const ALLOWED_PREFIXES: [&str; 3] = ["LC_", "XDG_", "DOCKER_"];

/// Where commands are usually installed, for when there is no login shell to ask.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// An environment for children: allowed names only, no relative entry on the search path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    pub fn from_all(all: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut kept: BTreeMap<_, _> = all.into_iter().filter(|(name, _)| is_allowed(name)).collect();
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

fn is_allowed(name: &str) -> bool {
    ALLOWED.contains(&name)
        || ALLOWED_MORE.contains(&name)
        || ALLOWED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn absolute_entries(path: &str) -> String {
    let entries: Vec<&str> = path.split(':').filter(|entry| entry.starts_with('/')).collect();
    entries.join(":")
}

/// What the login shell said.
#[derive(Clone, Default)]
pub struct Captured {
    /// What every child is given.
    pub variables: Variables,
    /// Everything, for definitions that ask for a variable by name.
    pub all: BTreeMap<String, String>,
}

/// How much, never what: anything in it may be a secret.
impl std::fmt::Debug for Captured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Captured").field("variables", &self.all.len()).finish_non_exhaustive()
    }
}

/// The login shell's environment, asked for once, when the first child starts.
#[derive(Debug, Default)]
pub struct LoginShell {
    // A leaf lock: held to copy or replace the handle.
    captured: Mutex<Arc<OnceCell<Arc<Captured>>>>,
}

impl LoginShell {
    pub async fn captured(&self) -> Arc<Captured> {
        let captured = self.captured.lock().expect("BUG: a copy panicked").clone();
        captured.get_or_init(|| async { Arc::new(capture().await) }).await.clone()
    }

    /// A person may have changed their profile: the next child's start asks again.
    pub fn forget(&self) {
        *self.captured.lock().expect("BUG: a copy panicked") = Arc::default();
    }
}

async fn capture() -> Captured {
    let own = || {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| name != "PATH")
    };
    let shell = std::env::var("SHELL").ok().filter(|shell| shell.starts_with('/')).or_else(passwd_shell);
    // What the daemon itself was started with is nobody's to ask for by name.
    let own = || Captured { variables: Variables::from_all(own()), all: BTreeMap::new() };
    let Some(shell) = shell else { return own() };
    let asked = tokio::time::timeout(SHELL_PATIENCE, ask(&shell)).await;
    match asked.ok().flatten() {
        Some(answer) => {
            let all: BTreeMap<String, String> = answer.into_iter().collect();
            Captured { variables: Variables::from_all(all.clone()), all }
        }
        None => {
            tracing::warn!(target: "environment", shell, "the login shell gave no environment; children get the usual PATH");
            own()
        }
    }
}

/// Has a keeper run the shell. The keeper ends it when our end of its standard input closes, which
/// happens when this future is done or dropped, and when the daemon dies.
async fn ask(shell: &str) -> Option<Vec<(String, String)>> {
    let mut command = tokio::process::Command::from(keeper());
    command.arg(SHELL_ENV).arg(shell).env_clear();
    command.envs(PASSED_ON.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    // Not our own PATH: that is the one of the host which happened to start the daemon.
    command.env("PATH", USUAL_PATH).env("SHELL", shell).env("TERM", "dumb");
    let mut keeper =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
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
pub(crate) fn keeper() -> std::process::Command {
    let mut command = std::process::Command::new("/proc/self/exe");
    if cfg!(not(target_os = "linux")) {
        command = std::process::Command::new(std::env::current_exe().unwrap_or_default());
    }
    command.arg0("switchboardd");
    command
}

/// The whole life of a keeper, `switchboardd --shell-env SHELL`: runs the shell in a session without a
/// terminal, where no rc file can stop it by touching one, and leaves nothing of it when time is up.
#[expect(clippy::disallowed_methods, reason = "the one place where the login shell is executed")]
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
    let until = Instant::now() + SHELL_PATIENCE;
    while Instant::now() < until && !is_let_go() {
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
}
