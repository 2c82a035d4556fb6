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

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use std::collections::BTreeMap;
    use switchboardd::estimated_tokens;

    use super::*;

    /// `show: "auto"` compares estimates; the daemon has no tokenizer.
    #[test]
    fn estimates_are_near_the_tokenizer_for_the_lists_of_real_servers() {
        let tokenizer = tiktoken::get_encoding(TOKENIZER).unwrap();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto-tests/vectors/servers");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let mut count = 0;
        for file in files.filter(|file| file.extension().is_some_and(|end| end == "json")) {
            let text = std::fs::read_to_string(&file).unwrap();
            let recorded: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&text).unwrap();
            let tools: Vec<Box<RawValue>> = serde_json::from_str(recorded["tools"].get()).unwrap();
            let list = tools.iter().map(|tool| tool.get()).collect::<Vec<_>>().join(",");
            let (estimated, counted) = (estimated_tokens(list.len()), tokenizer.count(&list));
            let percent = estimated * 100 / counted;
            assert!((90..=110).contains(&percent), "{}: {estimated}, counted {counted}", file.display());
            count += 1;
        }
        assert_eq!(count, 16);
    }
}
