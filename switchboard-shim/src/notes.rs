//! Messages to the user on stderr: at most one line a second, and never waiting for a host that does not
//! read.

use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use switchboard_wire::printable;
use switchboard_wire::visible::Printable;

use crate::host::is_ready;

const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// A pipe that polls writable takes this much at once.
const MAX_LINE: usize = 512;

#[derive(Debug, Default)]
pub(crate) struct StderrNotes {
    last: Option<Instant>,
    left_out: u32,
}

impl StderrNotes {
    pub(crate) fn say(&mut self, text: &str) {
        let now = Instant::now();
        let stderr = rustix::stdio::stderr();
        if self.last.is_some_and(|last| now - last < MIN_INTERVAL) || !is_ready(stderr, PollFlags::OUT) {
            self.left_out += 1;
            return;
        }
        self.last = Some(now);
        // There is nowhere to report a broken stderr.
        let _ = rustix::io::write(stderr, line(text, std::mem::take(&mut self.left_out)).as_bytes());
    }
}

/// The last message before exit: may block until it is read.
#[expect(clippy::print_stderr, reason = "text that a terminal shows as it stands")]
pub(crate) fn print_fatal(text: &Printable) {
    eprintln!("{}", text.as_str());
}

/// Why a launch failed, for the shim that started it.
#[expect(clippy::print_stderr, reason = "text that a terminal shows as it stands")]
pub(crate) fn to_starter(why: &Printable) {
    eprint!("{}", why.as_str());
}

fn line(text: &str, left_out: u32) -> String {
    // The daemon's text may contain text from servers.
    let text = printable!("switchboard: {}", text.replace('\n', " "));
    let mut line = String::new();
    for letter in text.as_str().chars() {
        if line.len() + letter.len_utf8() > MAX_LINE - 60 {
            break;
        }
        line.push(letter);
    }
    if left_out > 0 {
        line.push_str(&format!(" ({left_out} more left out)"));
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_and_short() {
        assert_eq!(line("a\nb", 0), "switchboard: a b\n");
        assert_eq!(line("a\r\x1b[2J\u{202e}", 0), "switchboard: a\\u{d}\\u{1b}[2J\\u{202e}\n");
        assert_eq!(line("a", 3), "switchboard: a (3 more left out)\n");
        assert!(line(&"ä".repeat(2000), u32::MAX).len() <= MAX_LINE);
    }
}
