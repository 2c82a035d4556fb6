//! The system's keyring, accessed by a separate process: `switchboard-ctl --keyring` reads one request, writes
//! one answer and exits. It also exits when its standard input closes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use switchboard_wire::event_loop::run_blocking;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::SecretString;
use crate::system::environment::ChildEnvironment;
use crate::system::programs::COMMANDS;

/// The first argument that makes `switchboard-ctl` talk to the keyring.
pub const KEYRING: &str = "--keyring";

/// Long enough for the user to unlock the keyring, short enough for a waiting call.
const KEYRING_TIMEOUT: Duration = Duration::from_secs(20);

/// Several hundred values of the maximum length.
const MAX_ANSWER: u64 = 64 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "lowercase")]
pub enum KeyringRequest {
    Get { names: Vec<String> },
    Set { name: String, value: SecretString },
    Remove { name: String },
}

/// The requested values that were found.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct KeyringAnswer {
    pub values: BTreeMap<String, SecretString>,
}

#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    #[error("no answer within {} s; it may wait to be unlocked", KEYRING_TIMEOUT.as_secs())]
    Late,
    #[error("the keyring could not be asked: {0}")]
    NotRun(String),
    #[error("`switchboard-ctl --keyring` ended without an answer")]
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
    let mut command = tokio::process::Command::from(COMMANDS.command().await.map_err(KeyringError::NotRun)?);
    command.arg(KEYRING).env_clear().envs(variables.iter());
    if let Some(folder) = runtime_folder(variables).await {
        command.env("XDG_RUNTIME_DIR", folder);
    }
    let (stdin, stdout) = (Stdio::piped(), Stdio::piped());
    let spawned = command.stdin(stdin).stdout(stdout).stderr(Stdio::null()).kill_on_drop(true).spawn();
    let mut process = spawned.map_err(|error| KeyringError::NotRun(COMMANDS.explain(&error)))?;
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
