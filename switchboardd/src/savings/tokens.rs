//! Counts tokens. The loaded vocabulary takes tens of MiB, so a separate process does it:
//! `switchboard-ctl --count-tokens` reads texts until end of input, prints a number for each, and exits.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::system::programs::COMMANDS;

/// The first argument that makes `switchboard-ctl` count tokens.
pub const COUNT_TOKENS: &str = "--count-tokens";

/// OpenAI's vocabulary of 2024. Claude's own is not public.
pub const TOKENIZER: &str = "o200k_base";

/// Loading takes a second on an idle machine, and a text of a few MiB little more.
const TOKENIZER_TIMEOUT: Duration = Duration::from_secs(60);

/// No definition that a host could use is longer.
pub const MAX_TEXT: usize = 4 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum TokenCountError {
    #[error("tokens could not be counted: {0}")]
    NotRun(String),
    #[error("`switchboard-ctl --count-tokens` ended after {0} of {1} texts")]
    Ended(usize, usize),
    #[error("`switchboard-ctl --count-tokens` took longer than {} s", TOKENIZER_TIMEOUT.as_secs())]
    Late,
}

/// The token count of each text. If counting fails, the counts before the failure are returned.
pub async fn count(texts: &[&str]) -> (Vec<u64>, Result<(), TokenCountError>) {
    let mut counts = Vec::with_capacity(texts.len());
    let ended = tokio::time::timeout(TOKENIZER_TIMEOUT, ask(texts, &mut counts)).await;
    (counts, ended.unwrap_or(Err(TokenCountError::Late)))
}

async fn ask(texts: &[&str], counts: &mut Vec<u64>) -> Result<(), TokenCountError> {
    let mut command =
        tokio::process::Command::from(COMMANDS.command().await.map_err(TokenCountError::NotRun)?);
    command.arg(COUNT_TOKENS).env_clear().current_dir("/");
    let (stdin, stdout) = (Stdio::piped(), Stdio::piped());
    let spawned = command.stdin(stdin).stdout(stdout).stderr(Stdio::null()).kill_on_drop(true).spawn();
    let mut process = spawned.map_err(|error| TokenCountError::NotRun(COMMANDS.explain(&error)))?;
    let ended = |counted: usize| TokenCountError::Ended(counted, texts.len());
    let (Some(mut stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
        return Err(ended(0));
    };
    for text in texts {
        let mut line = serde_json::to_vec(text).expect("BUG: text is JSON");
        line.push(b'\n');
        stdin.write_all(&line).await.map_err(|_| ended(0))?;
    }
    drop(stdin);
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        counts.push(line.parse().map_err(|_| ended(counts.len()))?);
    }
    let _ = process.wait().await;
    if counts.len() == texts.len() { Ok(()) } else { Err(ended(counts.len())) }
}
