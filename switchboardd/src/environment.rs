//! What children find in their environment: a short allow-list from the person's login shell, so
//! that `npx` is found whichever editor, or init system, happened to start the daemon.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use tokio::sync::OnceCell;

/// A login shell that takes longer than this does not answer any more.
const SHELL_PATIENCE: Duration = Duration::from_secs(5);

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

/// The login shell's environment, asked for once, when the first child starts.
#[derive(Debug, Default)]
pub struct LoginShell {
    captured: OnceCell<Variables>,
}

impl LoginShell {
    pub async fn variables(&self) -> &Variables {
        self.captured.get_or_init(capture).await
    }
}

async fn capture() -> Variables {
    let own = || {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
    };
    let shell = std::env::var("SHELL").ok().filter(|shell| shell.starts_with('/')).or_else(passwd_shell);
    let Some(shell) = shell else { return Variables::from_all(own()) };
    let asked = tokio::time::timeout(SHELL_PATIENCE, ask(&shell)).await;
    match asked.ok().flatten() {
        Some(answer) => Variables::from_all(answer),
        None => {
            tracing::warn!(target: "environment", shell, "the login shell gave no environment; children get the daemon's own");
            Variables::from_all(own())
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the login shell is no child; nothing else is started here")]
async fn ask(shell: &str) -> Option<Vec<(String, String)>> {
    let script = format!("printf '%s' {MARK}; env -0; printf '%s' {MARK}");
    let mut command = tokio::process::Command::from(std::process::Command::new(shell));
    command
        .args(["-l", "-i", "-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    let output = command.output().await.ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let inside = text.split(MARK).nth(1)?;
    let answer: Vec<_> = inside
        .split('\0')
        .filter_map(|entry| entry.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    (!answer.is_empty()).then_some(answer)
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
}
