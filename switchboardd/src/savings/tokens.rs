//! Counts tokens. The loaded vocabulary takes tens of MiB, so a separate process does it:
//! `switchboardd --count-tokens` reads texts until end of input, prints a number for each, and exits.

use std::io::{BufRead, Write};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::system::environment::own_binary_command;

/// The first argument that makes this binary count tokens.
pub const COUNT_TOKENS: &str = "--count-tokens";

/// OpenAI's vocabulary of 2024. Claude's own is not public.
pub const TOKENIZER: &str = "o200k_base";

/// Loading takes a second on an idle machine, and a text of a few MiB little more.
const TOKENIZER_TIMEOUT: Duration = Duration::from_secs(60);

/// No definition that a host could use is longer.
pub const MAX_TEXT: usize = 4 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum TokenCountError {
    #[error("`switchboardd --count-tokens` could not be run: {0}")]
    NotRun(std::io::Error),
    #[error("`switchboardd --count-tokens` ended after {0} of {1} texts")]
    Ended(usize, usize),
    #[error("`switchboardd --count-tokens` took longer than {} s", TOKENIZER_TIMEOUT.as_secs())]
    Late,
}

/// The token count of each text. If counting fails, the counts before the failure are returned.
pub async fn count(texts: &[&str]) -> (Vec<u64>, Result<(), TokenCountError>) {
    let mut counts = Vec::with_capacity(texts.len());
    let ended = tokio::time::timeout(TOKENIZER_TIMEOUT, ask(texts, &mut counts)).await;
    (counts, ended.unwrap_or(Err(TokenCountError::Late)))
}

async fn ask(texts: &[&str], counts: &mut Vec<u64>) -> Result<(), TokenCountError> {
    let mut command = tokio::process::Command::from(own_binary_command());
    command.arg(COUNT_TOKENS).env_clear().current_dir("/");
    let (stdin, stdout) = (Stdio::piped(), Stdio::piped());
    let spawned = command.stdin(stdin).stdout(stdout).stderr(Stdio::null()).kill_on_drop(true).spawn();
    let mut process = spawned.map_err(TokenCountError::NotRun)?;
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

/// The main function of `switchboardd --count-tokens`.
#[expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "numbers for the daemon that started it; constant words"
)]
pub fn run() -> ExitCode {
    let lines: Result<Vec<String>, _> = std::io::stdin().lock().lines().collect();
    let texts: Option<Vec<String>> =
        lines.ok().and_then(|lines| lines.iter().map(|line| serde_json::from_str(line).ok()).collect());
    let Some(texts) = texts else {
        eprintln!("switchboardd: `{COUNT_TOKENS}` is not for people; try `switchboard savings`");
        return ExitCode::from(2);
    };
    let Ok(tokenizer) = tiktoken_rs::o200k_base() else { return ExitCode::FAILURE };
    let mut stdout = std::io::stdout().lock();
    for text in texts {
        // Flushed one by one, so that earlier counts are kept if a later text takes too long.
        let told = writeln!(stdout, "{}", tokenizer.count_ordinary(&text)).and_then(|()| stdout.flush());
        if told.is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
