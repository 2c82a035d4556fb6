//! The system's keyring, accessed by a separate process: `switchboardd --keyring` reads one request, writes
//! one answer and exits. It also exits when its standard input closes.

#[cfg(target_os = "macos")]
mod keychain;
#[cfg(not(target_os = "macos"))]
mod secret_service;

#[cfg(target_os = "macos")]
use keychain as backend;
#[cfg(not(target_os = "macos"))]
use secret_service as backend;

use std::collections::BTreeMap;
use std::io::{BufRead, Read, Write};
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use switchboard_definitions::event_loop::run_blocking;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::SecretString;
use crate::system::environment::{ChildEnvironment, own_binary_command};

/// The first argument that makes this binary talk to the keyring.
pub const KEYRING: &str = "--keyring";

/// The service attribute of our items.
const SERVICE: &str = "switchboard";

/// Long enough for the user to unlock the keyring, short enough for a waiting call.
const KEYRING_TIMEOUT: Duration = Duration::from_secs(20);

/// Several hundred values of the maximum length.
const MAX_ANSWER: u64 = 64 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "lowercase")]
pub(super) enum KeyringRequest {
    Get { names: Vec<String> },
    Set { name: String, value: SecretString },
    Remove { name: String },
}

/// The requested values that were found.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct KeyringAnswer {
    pub(super) values: BTreeMap<String, SecretString>,
}

#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    #[error("no answer within {} s; it may wait to be unlocked", KEYRING_TIMEOUT.as_secs())]
    Late,
    #[error("`switchboardd --keyring` could not be run: {0}")]
    NotRun(std::io::Error),
    #[error("`switchboardd --keyring` ended without an answer")]
    Ended,
    #[error("{0}")]
    Refused(String),
}

/// Sends one request to the keyring of the session that `variables` describe.
pub(super) async fn ask(
    request: &KeyringRequest,
    variables: &ChildEnvironment,
) -> Result<KeyringAnswer, KeyringError> {
    let answer = tokio::time::timeout(KEYRING_TIMEOUT, ask_process(request, variables)).await;
    answer.unwrap_or(Err(KeyringError::Late))
}

async fn ask_process(
    request: &KeyringRequest,
    variables: &ChildEnvironment,
) -> Result<KeyringAnswer, KeyringError> {
    let mut command = tokio::process::Command::from(own_binary_command());
    command.arg(KEYRING).env_clear().envs(variables.iter());
    if let Some(folder) = runtime_folder(variables).await {
        command.env("XDG_RUNTIME_DIR", folder);
    }
    let (stdin, stdout) = (Stdio::piped(), Stdio::piped());
    let spawned = command.stdin(stdin).stdout(stdout).stderr(Stdio::null()).kill_on_drop(true).spawn();
    let mut process = spawned.map_err(KeyringError::NotRun)?;
    let (Some(mut stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
        return Err(KeyringError::Ended);
    };
    let mut line = serde_json::to_vec(request).expect("BUG: text and names are JSON");
    line.push(b'\n');
    stdin.write_all(&line).await.map_err(|_| KeyringError::Ended)?;
    let mut said = Vec::new();
    let heard = stdout.take(MAX_ANSWER).read_to_end(&mut said).await;
    drop(stdin);
    let _ = process.wait().await;
    heard.map_err(|_| KeyringError::Ended)?;
    let answer: Result<KeyringAnswer, String> =
        serde_json::from_slice(&said).map_err(|_| KeyringError::Ended)?;
    answer.map_err(KeyringError::Refused)
}

/// The runtime directory with the session's D-Bus, if `XDG_RUNTIME_DIR` is not set.
async fn runtime_folder(variables: &ChildEnvironment) -> Option<PathBuf> {
    if variables.iter().any(|(name, _)| name == "XDG_RUNTIME_DIR") {
        return None;
    }
    let folder = PathBuf::from(format!("/run/user/{}", rustix::process::getuid().as_raw()));
    run_blocking(move || folder.is_dir().then_some(folder)).await
}

/// The main function of `switchboardd --keyring`.
#[expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "JSON for the daemon that started it; constant words"
)]
pub fn run() -> ExitCode {
    crate::system::unreadable::protect_memory();
    let mut line = Vec::new();
    let read = std::io::stdin().lock().read_until(b'\n', &mut line);
    let Some(request) = read.ok().and_then(|_| serde_json::from_slice(&line).ok()) else {
        eprintln!("switchboardd: `{KEYRING}` is not for people; try `switchboard secret --help`");
        return ExitCode::from(2);
    };
    std::thread::spawn(|| {
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    let answer: Result<KeyringAnswer, String> = runtime.block_on(fulfil(request));
    let said = serde_json::to_vec(&answer).expect("BUG: text and names are JSON");
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(&said).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

async fn fulfil(request: KeyringRequest) -> Result<KeyringAnswer, String> {
    match request {
        KeyringRequest::Get { names } => {
            let found = backend::get(&names).await?;
            let mut values = BTreeMap::new();
            for (name, value) in found {
                let value =
                    String::from_utf8(value).map_err(|_| format!("the value of `{name}` is no text"))?;
                values.insert(name, SecretString(value));
            }
            Ok(KeyringAnswer { values })
        }
        KeyringRequest::Set { name, value } => {
            backend::set(&name, &value.0).await.map(|()| KeyringAnswer::default())
        }
        KeyringRequest::Remove { name } => backend::remove(&name).await.map(|()| KeyringAnswer::default()),
    }
}
