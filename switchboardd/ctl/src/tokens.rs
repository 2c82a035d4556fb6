//! Counts tokens for the daemon: the loaded vocabulary takes tens of MiB, so a process that ends does it.

use std::io::{BufRead, Write};
use std::process::ExitCode;

use switchboardd::{COUNT_TOKENS, TOKENIZER};

/// The main function of `switchboard-ctl --count-tokens`.
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
        eprintln!(
            "switchboard-ctl: `{COUNT_TOKENS}` is for Switchboard's own use; try `switchboard savings`"
        );
        return ExitCode::from(2);
    };
    let Some(tokenizer) = tiktoken::get_encoding(TOKENIZER) else { return ExitCode::FAILURE };
    let mut stdout = std::io::stdout().lock();
    for text in texts {
        // Flushed one by one, so that earlier counts are kept if a later text takes too long.
        let told = writeln!(stdout, "{}", tokenizer.count(&text)).and_then(|()| stdout.flush());
        if told.is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
