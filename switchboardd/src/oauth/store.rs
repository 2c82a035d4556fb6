//! Stores logins: in the system's keyring or, where there is none, in a private file. Works like the user's
//! secrets, but apart from them: no `${…}` of a definition can refer to a login.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use switchboard_definitions::expand::Template;
use switchboard_definitions::files::open_own;
use switchboard_wire::event_loop::{may_block, run_blocking};
use switchboard_wire::runtime_paths::private_folder;
use tokio::time::Instant;

use super::stored_login::StoredLogin;
use crate::child::value_resolver::ValueResolver;
use crate::system::environment::ShellEnvironment;
use crate::system::secrets::{SecretLocation, Secrets, SecretsError, StoreOutcome};

/// Longer than another process holds the lock for all its requests.
const LOCK_TIMEOUT: Duration = Duration::from_secs(45);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug, thiserror::Error)]
pub enum LoginStoreError {
    #[error("{0}")]
    Secrets(#[from] SecretsError),
    #[error("what is kept of the login is damaged; log in again")]
    Damaged,
    #[error("`{}` cannot be locked: {error}", file.display())]
    Unlocked { file: PathBuf, error: io::Error },
}

/// All logins of the user.
#[derive(Debug, Clone)]
pub struct LoginStore {
    folder: PathBuf,
    secrets: Secrets,
    resolver: Arc<ValueResolver>,
}

impl LoginStore {
    pub fn new(state: &Path, resolver: Arc<ValueResolver>) -> Self {
        let folder = state.join("logins");
        Self { secrets: Secrets::within(folder.clone()), folder, resolver }
    }

    /// The login stored under a name.
    pub async fn load(&self, name: &str) -> Result<Option<StoredLogin>, LoginStoreError> {
        // Most names have none; then the environment for the keyring is not needed.
        if !self.secrets.list_async().await?.contains_key(name) {
            return Ok(None);
        }
        let variables = &self.shell_environment().await.variables;
        let mut values = self.secrets.values(&[name.to_owned()], variables).await?;
        // The parser's error is dropped: it may quote a token.
        let read = |text: String| serde_json::from_str(&text).map_err(|_| LoginStoreError::Damaged);
        values.remove(name).map(read).transpose()
    }

    /// Where the login is stored.
    pub async fn location(&self, name: &str) -> Result<Option<SecretLocation>, LoginStoreError> {
        Ok(self.secrets.list_async().await?.remove(name))
    }

    pub async fn save(&self, name: &str, kept: &StoredLogin) -> Result<(), LoginStoreError> {
        let text = serde_json::to_string(kept).expect("BUG: text and names are JSON");
        let variables = &self.shell_environment().await.variables;
        if let StoreOutcome::InFile { stale: true, why } = self.secrets.set(name, &text, variables).await? {
            tracing::warn!(target: "oauth", login = name, "the keyring still holds an older login: {why}");
        }
        Ok(())
    }

    pub async fn remove(&self, name: &str) -> Result<(), LoginStoreError> {
        let variables = &self.shell_environment().await.variables;
        match self.secrets.remove(name, variables).await {
            Err(SecretsError::Absent(_)) => Ok(()),
            removed => Ok(removed?),
        }
    }

    /// The login shell's environment, for proxies and the keyring.
    pub async fn shell_environment(&self) -> Arc<ShellEnvironment> {
        self.resolver.shell_environment().await
    }

    /// Fills in the `${…}` in a text of the config.
    pub async fn fill(&self, template: &Template) -> Result<String, String> {
        self.resolver.text(template).await
    }

    /// Locks this login against other processes; fails after `LOCK_TIMEOUT`. Dropping the file unlocks it.
    pub async fn lock(&self, name: &str) -> Result<File, LoginStoreError> {
        let (file, folder) = (self.folder.join(format!("{name}.lock")), self.folder.clone());
        let path = file.clone();
        let opened = run_blocking(move || {
            may_block();
            private_folder(&folder)?;
            open_own(&path, true)
        });
        let locked = match opened.await {
            Ok(lock) => exclusive(lock).await,
            Err(error) => Err(error),
        };
        locked.map_err(|error| LoginStoreError::Unlocked { file, error })
    }
}

async fn exclusive(lock: File) -> io::Result<File> {
    let until = Instant::now() + LOCK_TIMEOUT;
    loop {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(lock),
            Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < until => {
                tokio::time::sleep(LOCK_RETRY_INTERVAL).await;
            }
            Err(Errno::WOULDBLOCK | Errno::INTR) => {
                return Err(io::Error::other("another process has held its lock for too long"));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The name a login is stored under: its child's, and a fingerprint of child and URL.
pub fn name(child: &str, url: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let plain: String = child.chars().map(fit).take(40).collect();
    let digest = switchboard_definitions::digest::hex(serde_json::json!([child, url]).to_string().as_bytes());
    format!("login.{plain}.{}", &digest[..32])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn two_processes_take_turns() {
        let state = tempfile::tempdir().unwrap();
        let resolver = Arc::new(ValueResolver::new(state.path(), state.path()));
        let (one, other) =
            (LoginStore::new(state.path(), resolver.clone()), LoginStore::new(state.path(), resolver));
        let held = one.lock("login.x").await.unwrap();
        let mut waiting = std::pin::pin!(other.lock("login.x"));
        let early = tokio::time::timeout(std::time::Duration::from_millis(50), &mut waiting).await;
        assert!(early.is_err());
        other.lock("login.y").await.unwrap();
        drop(held);
        waiting.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_a_lock_times_out() {
        let state = tempfile::tempdir().unwrap();
        let resolver = Arc::new(ValueResolver::new(state.path(), state.path()));
        let store = LoginStore::new(state.path(), resolver);
        let _held = store.lock("login.x").await.unwrap();
        let late = store.lock("login.x").await.unwrap_err();
        assert!(late.to_string().contains("for too long"), "{late}");
    }

    #[test]
    fn a_name_depends_on_child_and_url() {
        let one = name("github", "https://x/mcp");
        assert!(one.starts_with("login.github."));
        assert_ne!(one, name("github", "https://y/mcp"));
        assert_ne!(one, name("git/hub", "https://x/mcp"));
        for odd in ["", "ü/../x", &"long".repeat(50)] {
            assert!(crate::system::secrets::check_name(&name(odd, "https://x")).is_ok(), "{odd}");
        }
    }
}
