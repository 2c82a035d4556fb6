//! The last lines that a child wrote to stderr, which is always drained so that it never blocks the child;
//! and its lines on stdout that are no messages, which are meant for users as well.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::task::yield_now;

use switchboard_definitions::definition::Redactor;
use switchboard_wire::visible::clipped_lines;

/// Limits for the text of one child, and for one line.
const MAX_RING_BYTES: usize = 64 * 1024;
const MAX_LINE_BYTES: usize = 4 * 1024;

/// Lines that are stored before other tasks run: a child can write faster than anybody reads.
const LINES_IN_TURN: u32 = 64;

/// Limit of the first stdout line that is no message, in our messages.
const MAX_FIRST_BYTES: usize = 1024;

/// Lines shown in an error message.
const TAIL_LINES: usize = 5;
const TAIL_BYTES: usize = 1024;

/// Stands before the last lines in an error message.
pub const LAST_STDERR: &str = "last stderr: `";

/// Lines of all children are numbered in one sequence, from 1.
static LAST_LINE_NUMBER: AtomicU64 = AtomicU64::new(0);
static LINE_WRITTEN: Notify = Notify::const_new();

/// Resolves when any child has written a line since this call.
pub fn written() -> Notified<'static> {
    LINE_WRITTEN.notified()
}

#[derive(Debug, Clone)]
pub struct StderrLine {
    pub number: u64,
    pub at: SystemTime,
    pub text: Box<str>,
    /// It was written to stdout, where only messages belong.
    pub stdout: bool,
}

#[derive(Debug, Default)]
pub struct StderrRing {
    /// Values that are redacted in every line before it is stored.
    hidden: Redactor,
    // A leaf lock: held for a push or a copy, never across an await.
    buffer: Mutex<StderrBuffer>,
}

#[derive(Debug, Default)]
struct StderrBuffer {
    lines: VecDeque<StderrLine>,
    bytes: usize,
    /// Number of stdout lines that are no messages, and the first of them.
    stdout: u64,
    first: Option<Box<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputStream {
    Stdout,
    Stderr,
}

impl StderrRing {
    /// `hidden` are the values that the child was given.
    pub fn new(hidden: Redactor) -> Self {
        Self { hidden, ..Self::default() }
    }

    /// Hides the values that the child was given.
    pub fn hidden(&self) -> &Redactor {
        &self.hidden
    }

    /// Reads until the child and every process that shares its stderr is gone.
    pub(super) async fn drain(&self, mut stderr: impl AsyncRead + Unpin, name: &str) {
        let mut chunk = vec![0; 16 * 1024];
        let mut line = Vec::new();
        let mut is_cut = false;
        let mut lines = 0;
        loop {
            let count = match stderr.read(&mut chunk).await {
                Ok(0) | Err(_) => break,
                Ok(count) => count,
            };
            for part in chunk[..count].split_inclusive(|&byte| byte == b'\n') {
                let room = MAX_LINE_BYTES.saturating_sub(line.len());
                line.extend_from_slice(&part[..part.len().min(room)]);
                is_cut |= part.len() > room;
                if part.ends_with(b"\n") {
                    self.push(&line, is_cut, name, OutputStream::Stderr);
                    line.clear();
                    is_cut = false;
                    lines += 1;
                }
                if lines >= LINES_IN_TURN {
                    lines = 0;
                    yield_now().await;
                }
            }
            if count == chunk.len() {
                // There is more: other tasks run between two reads.
                yield_now().await;
            }
        }
        if !line.is_empty() {
            // The child may have been killed in the middle of the line.
            self.push(&line, true, name, OutputStream::Stderr);
        }
    }

    /// Stores a stdout line that is no message.
    pub(super) fn push_stdout(&self, line: &[u8], name: &str) {
        self.push(
            &line[..line.len().min(MAX_LINE_BYTES)],
            line.len() > MAX_LINE_BYTES,
            name,
            OutputStream::Stdout,
        );
    }

    /// `is_cut`: the line was truncated, or may have been.
    fn push(&self, line: &[u8], is_cut: bool, name: &str, stream: OutputStream) {
        let stdout = stream == OutputStream::Stdout;
        let text = String::from_utf8_lossy(line);
        let text = printable(text.trim_end());
        let text: Box<str> =
            if is_cut { self.hidden.redact_cut(&text) } else { self.hidden.redact(&text) }.into();
        if text.is_empty() {
            return;
        }
        // Nothing is logged while the lock is held.
        let is_first = stdout && self.stdout_lines() == 0;
        let first = is_first.then(|| clipped_lines(&text, MAX_FIRST_BYTES));
        match &first {
            Some(text) => {
                tracing::warn!(target: "server", server = name, "wrote a line to stdout that is not JSON-RPC: {text}");
            }
            None => tracing::debug!(target: "server", server = name, "{text}"),
        }
        let mut kept = self.buffer.lock().expect("BUG: a push panicked");
        if let Some(first) = first {
            kept.first = Some(first.into());
        }
        kept.stdout += u64::from(stdout);
        kept.bytes += text.len();
        let number = LAST_LINE_NUMBER.fetch_add(1, Ordering::Relaxed) + 1;
        kept.lines.push_back(StderrLine { number, at: SystemTime::now(), text, stdout });
        while kept.bytes > MAX_RING_BYTES {
            match kept.lines.pop_front() {
                Some(oldest) => kept.bytes -= oldest.text.len(),
                None => break,
            }
        }
        drop(kept);
        LINE_WRITTEN.notify_waiters();
    }

    /// Adds a line of the daemon's own, for a child that has no stderr here.
    pub fn note(&self, text: &str, name: &str) {
        self.push(text.as_bytes(), false, name, OutputStream::Stderr);
    }

    /// The lines after line `number`.
    pub fn after(&self, number: u64) -> Vec<StderrLine> {
        let kept = self.buffer.lock().expect("BUG: a push panicked");
        kept.lines.iter().filter(|line| line.number > number).cloned().collect()
    }

    /// Number of stdout lines that are no messages.
    pub fn stdout_lines(&self) -> u64 {
        self.buffer.lock().expect("BUG: a push panicked").stdout
    }

    /// Its last output for an error message; empty if there is none.
    pub fn last_lines(&self) -> String {
        let stdout = {
            let kept = self.buffer.lock().expect("BUG: a push panicked");
            kept.first.as_ref().map(|first| match kept.stdout {
                1 => format!("wrote 1 line to stdout that is not JSON-RPC: `{first}`"),
                lines => format!("wrote {lines} lines to stdout that are not JSON-RPC, the first: `{first}`"),
            })
        };
        let stderr = Some(self.tail()).filter(|tail| !tail.is_empty());
        let stderr = stderr.map(|tail| format!("{LAST_STDERR}{tail}`"));
        stdout.into_iter().chain(stderr).collect::<Vec<_>>().join("; ")
    }

    /// The last lines of stderr.
    fn tail(&self) -> String {
        let kept = self.buffer.lock().expect("BUG: a push panicked");
        let mut tail: Vec<String> = Vec::new();
        let mut bytes = 0;
        let last = || kept.lines.iter().rev().filter(|line| !line.stdout);
        // Below a long trace of calls, the line that says what happened is further up.
        let telling = last().position(|line| !is_detail(&line.text)).filter(|at| *at >= TAIL_LINES);
        let shown = telling.map_or(TAIL_LINES, |_| TAIL_LINES - 1);
        for line in last().take(shown).chain(telling.and_then(|at| last().nth(at))) {
            bytes += line.text.len();
            if bytes > TAIL_BYTES && !tail.is_empty() {
                break;
            }
            tail.push(clipped_lines(&line.text, TAIL_BYTES - '…'.len_utf8()));
        }
        tail.reverse();
        tail.join("\n")
    }
}

/// Whether a line of a crash only says where: a frame of a trace, marks below a place, the version of Node.js.
pub fn is_detail(line: &str) -> bool {
    line.starts_with([' ', '\t'])
        || line.starts_with("Node.js v")
        || !line.chars().any(|char| char.is_alphanumeric())
}

/// Removes control characters: child output ends up in terminals and in models' contexts.
fn printable(text: &str) -> Box<str> {
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        if char == '\u{1b}' && chars.peek() == Some(&'[') {
            chars.next();
            // A control sequence ends with its first letter (or other byte from `@` up).
            for char in chars.by_ref() {
                if matches!(char, '@'..='~') {
                    break;
                }
            }
        } else if !char.is_control() || char == '\t' {
            clean.push(char);
        }
    }
    clean.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_lines_are_kept() {
        let ring = StderrRing::default();
        for number in 0..10_000 {
            ring.push(
                format!("line {number} {}", "x".repeat(100)).as_bytes(),
                false,
                "t",
                OutputStream::Stderr,
            );
        }
        let lines = ring.after(0);
        assert!(lines.iter().map(|line| line.text.len()).sum::<usize>() <= MAX_RING_BYTES);
        let last = lines.last().unwrap();
        assert!(last.text.starts_with("line 9999 "));
        assert_eq!(ring.after(last.number - 1).len(), 1);
        assert_eq!(ring.tail().lines().count(), 5);
    }

    #[tokio::test]
    async fn a_value_is_hidden_however_it_arrives() {
        use tokio::io::AsyncWriteExt;
        use tokio::net::unix::pipe;

        use switchboard_definitions::definition::LaunchCommand;
        use switchboard_definitions::expand::{ExpansionContext, Template};

        let template = Template::parse("${KEY}", &ExpansionContext::default()).unwrap();
        let launch = LaunchCommand { args: vec![template], ..LaunchCommand::default() };
        let filled = launch.fill(&[("KEY".to_owned(), "hunter2hunter".to_owned())].into()).unwrap();
        let ring = StderrRing::new(filled.redactor);
        let (mut sender, receiver) = pipe::pipe().unwrap();
        let long = format!("{}hunter2hunter\n", "x".repeat(MAX_LINE_BYTES - 8));
        let parts = ["it is hunt", "er2hunter\nin \u{1b}[31mhunter2hunter\u{1b}[0m\n", &long, "and hunter2"];
        let written = async {
            for part in parts {
                sender.write_all(part.as_bytes()).await.unwrap();
                tokio::task::yield_now().await;
            }
            drop(sender);
        };
        tokio::join!(ring.drain(receiver, "t"), written);
        let lines: Vec<_> = ring.after(0).into_iter().map(|line| line.text).collect();
        assert_eq!((&*lines[0], &*lines[1], &*lines[3]), ("it is ${KEY}", "in ${KEY}", "and ${KEY}"));
        assert_eq!(*lines[2], *format!("{}${{KEY}}", "x".repeat(MAX_LINE_BYTES - 8)));
        ring.push_stdout(b"hunter2hunter", "t");
        assert!(ring.last_lines().starts_with("wrote 1 line to stdout that is not JSON-RPC: `${KEY}`;"));
    }

    #[test]
    fn a_tail_is_short_whatever_the_lines() {
        let ring = StderrRing::default();
        ring.push("é".repeat(4000).as_bytes(), false, "t", OutputStream::Stderr);
        assert!(ring.tail().len() <= TAIL_BYTES);
    }

    #[test]
    fn a_tail_has_the_line_that_says_what_happened() {
        let tail = |lines: &[&str]| {
            let ring = StderrRing::default();
            lines.iter().for_each(|line| ring.push(line.as_bytes(), false, "t", OutputStream::Stderr));
            ring.tail()
        };
        let node = [
            "x.js:1",
            "throw e",
            "^",
            "Error: boom",
            "    at a",
            "    at b",
            "    at c",
            "    at d",
            "",
            "Node.js v20",
        ];
        assert_eq!(tail(&node), "Error: boom\n    at b\n    at c\n    at d\nNode.js v20");
        let python = ["Traceback:", "  File a", "    b()", "    ^^^", "  File c", "    d()", "KeyError: 1"];
        assert_eq!(tail(&python), "    b()\n    ^^^\n  File c\n    d()\nKeyError: 1");
        assert_eq!(tail(&["  a", "  b", "  c", "  d", "  e", "  f"]), "  b\n  c\n  d\n  e\n  f");
    }

    #[test]
    fn last_lines_name_both_streams() {
        let ring = StderrRing::default();
        assert_eq!(ring.last_lines(), "");
        ring.push(b"oh no", false, "t", OutputStream::Stderr);
        assert_eq!(ring.last_lines(), "last stderr: `oh no`");
        ring.push_stdout("hello \u{202e}there".as_bytes(), "t");
        let expect =
            r"wrote 1 line to stdout that is not JSON-RPC: `hello \u{202e}there`; last stderr: `oh no`";
        assert_eq!(ring.last_lines(), expect);
        ring.push_stdout(b"again", "t");
        let expect = r"wrote 2 lines to stdout that are not JSON-RPC, the first: `hello \u{202e}there`; last stderr: `oh no`";
        assert_eq!(ring.last_lines(), expect);
        assert_eq!((ring.stdout_lines(), ring.after(0).len()), (2, 3));
    }

    #[test]
    fn colours_and_control_characters_are_left_out() {
        assert_eq!(&*printable("\u{1b}[31;1mred\u{1b}[0m \u{7}bell\r"), "red bell");
    }
}
