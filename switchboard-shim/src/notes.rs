//! Lines for a person, on stderr: few, at most one a second, and never waiting for a host that does
//! not read them.

use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use crate::host::is_ready;

const EVERY: Duration = Duration::from_secs(1);

/// A pipe with any room takes this much at once.
const MAX_LINE: usize = 512;

#[derive(Debug, Default)]
pub(crate) struct Notes {
    last: Option<Instant>,
    left_out: u32,
}

impl Notes {
    pub(crate) fn say(&mut self, text: &str) {
        let now = Instant::now();
        let stderr = rustix::stdio::stderr();
        if self.last.is_some_and(|last| now - last < EVERY) || !is_ready(stderr, PollFlags::OUT) {
            self.left_out += 1;
            return;
        }
        self.last = Some(now);
        // Nobody can be told that stderr is broken.
        let _ = rustix::io::write(stderr, line(text, std::mem::take(&mut self.left_out)).as_bytes());
    }
}

fn line(text: &str, left_out: u32) -> String {
    let mut line = String::from("switchboard: ");
    for letter in text.chars().take_while({
        let mut length = 0;
        move |letter| {
            length += letter.len_utf8();
            length <= MAX_LINE - 80
        }
    }) {
        line.push(if letter == '\n' { ' ' } else { letter });
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
        assert_eq!(line("a", 3), "switchboard: a (3 more left out)\n");
        assert!(line(&"ä".repeat(2000), u32::MAX).len() <= MAX_LINE);
    }
}
