//! Log lines: to standard error, or to a rotating file if standard error is the null device.

mod filter;

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, SyncSender, TrySendError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use switchboard_wire::visible::{is_hidden, visible, visible_json};
use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use filter::parse_filter;

/// Five files of ten mebibytes.
const MAX_BYTES: u64 = 10 * 1024 * 1024;
const MAX_LOG_FILES: usize = 5;

/// Lines queued for the thread that writes: more than a burst of ours.
const QUEUE: usize = 1024;

/// How long flushing may take if the reader is slow.
const LAST_LINES: Duration = Duration::from_millis(500);

static QUEUED: OnceLock<Queue> = OnceLock::new();
static DESTINATION: OnceLock<Destination> = OnceLock::new();

/// Where the lines of this process go.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Destination {
    File(PathBuf),
    Journal,
    /// The standard error of the process that started us.
    Stderr,
}

pub fn destination() -> Option<&'static Destination> {
    DESTINATION.get()
}

/// The log file of a daemon without a standard error.
pub fn file(state: &Path) -> PathBuf {
    state.join("logs/switchboardd.log")
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    #[default]
    Pretty,
    Json,
}

impl LogFormat {
    pub const ALL: [Self; 2] = [Self::Pretty, Self::Json];

    /// What users write for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pretty => "pretty",
            Self::Json => "json",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == text)
    }
}

#[expect(clippy::disallowed_methods, reason = "a log is written to standard error, each line made visible")]
pub fn init(format: LogFormat, state: &Path) {
    let wanted = ["RUST_LOG", "LOG_LEVEL"].iter().find_map(|name| std::env::var(name).ok());
    let (filter, unknown) = match wanted.as_deref().map(parse_filter) {
        Some(Ok(filter)) => (filter, None),
        other => (parse_filter("info").expect("BUG: `info` is a level"), other.and_then(Result::err)),
    };
    let mut file = is_null(&io::stderr()).then(|| Rotating::open(&self::file(state))).flatten();
    let _ = DESTINATION.set(match &file {
        Some(file) => Destination::File(file.path.clone()),
        None if is_journal(&io::stderr()) => Destination::Journal,
        None => Destination::Stderr,
    });
    let colour = file.is_none() && io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    // A log that cannot be written (a closed pipe, a full disk) must not fail anything.
    let queue = Queue::start(format, move |line| match &mut file {
        Some(file) => file.write(&shown(line, format)),
        None => drop(io::stderr().write_all(&shown(line, format))),
    });
    let Ok(queue) = queue else { return };
    let queue = QUEUED.get_or_init(|| queue);
    let lines = tracing_subscriber::fmt::layer().with_ansi(colour).with_writer(|| LogWriter(queue));
    let subscriber = tracing_subscriber::registry();
    // A second initialisation (in tests) changes nothing.
    let _ = match format {
        LogFormat::Pretty => subscriber.with(lines.with_filter(filter)).try_init(),
        LogFormat::Json => subscriber.with(lines.json().with_filter(filter)).try_init(),
    };
    if let Some(unknown) = unknown {
        tracing::warn!(target: "log", "{unknown}; this is `info`");
    }
    // Panics go to the same log as everything else.
    std::panic::set_hook(Box::new(|panic| {
        if !switchboard_wire::event_loop::is_asking_for_a_thread() {
            tracing::error!(target: "panic", "{panic}");
        }
    }));
}

/// Escapes characters that hide or reorder text. Escape sequences stay: they are our own colours, `tracing`
/// removes all others.
fn shown(line: &[u8], format: LogFormat) -> Cow<'_, [u8]> {
    let hides = |c: char| is_hidden(c) && !matches!(c, '\n' | '\t' | '\x1b');
    let text = String::from_utf8_lossy(line);
    if !text.contains(hides) {
        return Cow::Borrowed(line);
    }
    let text = match format {
        LogFormat::Json => visible_json(&text).into_owned(),
        LogFormat::Pretty => text
            .chars()
            .map(|c| if hides(c) { visible(c.encode_utf8(&mut [0; 4])).into_owned() } else { c.into() })
            .collect(),
    };
    Cow::Owned(text.into_bytes())
}

/// Waits until everything logged so far is written, for `LAST_LINES` at most.
#[expect(clippy::disallowed_methods, reason = "it waits for a thread, not for the runtime")]
pub fn flush() {
    let until = Instant::now() + LAST_LINES;
    let (written, done) = std::sync::mpsc::channel();
    let Some(queue) = QUEUED.get() else { return };
    let mut mark = LogEntry::Mark(written);
    while let Err(TrySendError::Full(back)) = queue.entries.try_send(mark) {
        if Instant::now() >= until {
            return;
        }
        mark = back;
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = done.recv_timeout(until.saturating_duration_since(Instant::now()));
}

/// The queue to the thread that writes. The event loop never waits for a slow reader of the log: lines that
/// do not fit are dropped and counted.
struct Queue {
    entries: SyncSender<LogEntry>,
    dropped: Arc<AtomicU64>,
}

enum LogEntry {
    Line(Vec<u8>),
    /// Reports that everything before it is written.
    Mark(Sender<()>),
}

impl Queue {
    fn start(format: LogFormat, mut write: impl FnMut(&[u8]) + Send + 'static) -> io::Result<Self> {
        let (entries, queued) = std::sync::mpsc::sync_channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let missing = dropped.clone();
        let thread = std::thread::Builder::new().name("log".to_owned()).stack_size(128 * 1024);
        thread.spawn(move || {
            while let Ok(entry) = queued.recv() {
                match entry {
                    LogEntry::Line(line) => write(&line),
                    LogEntry::Mark(written) => drop(written.send(())),
                }
                match missing.swap(0, Ordering::Relaxed) {
                    0 => {}
                    count => write(gap(format, count).as_bytes()),
                }
            }
        })?;
        Ok(Self { entries, dropped })
    }

    fn push(&self, line: &[u8]) {
        if self.entries.try_send(LogEntry::Line(line.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn gap(format: LogFormat, count: u64) -> String {
    match format {
        LogFormat::Pretty => format!("{count} log lines dropped: they came faster than they were read\n"),
        LogFormat::Json => {
            format!(r#"{{"level":"WARN","target":"log","fields":{{"message":"{count} log lines dropped"}}}}"#)
                + "\n"
        }
    }
}

struct LogWriter<'a>(&'a Queue);

impl Write for LogWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A shim starts the daemon with standard error on the null device, where nobody reads it.
fn is_null(stderr: &io::Stderr) -> bool {
    use std::os::fd::AsFd;
    let null = std::fs::metadata("/dev/null").ok().filter(|meta| meta.file_type().is_char_device());
    let ours = stderr.as_fd().try_clone_to_owned().ok().and_then(|fd| File::from(fd).metadata().ok());
    matches!((null, ours), (Some(null), Some(ours)) if null.rdev() == ours.rdev() && ours.file_type().is_char_device())
}

/// systemd identifies its journal's stream in `JOURNAL_STREAM`.
fn is_journal(stderr: &io::Stderr) -> bool {
    use std::os::fd::AsFd;
    let ours = stderr.as_fd().try_clone_to_owned().ok().and_then(|fd| File::from(fd).metadata().ok());
    let named = std::env::var("JOURNAL_STREAM").ok();
    matches!((ours, named), (Some(ours), Some(named)) if named == format!("{}:{}", ours.dev(), ours.ino()))
}

struct Rotating {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Rotating {
    fn open(path: &Path) -> Option<Self> {
        switchboard_wire::runtime_paths::private_folder(path.parent()?).ok()?;
        let file = append(path).ok()?;
        let bytes = file.metadata().ok()?.len();
        Some(Self { path: path.to_owned(), file, bytes })
    }

    fn write(&mut self, line: &[u8]) {
        if self.bytes + line.len() as u64 > MAX_BYTES {
            self.rotate();
        }
        if self.file.write_all(line).is_ok() {
            self.bytes += line.len() as u64;
        }
    }

    fn rotate(&mut self) {
        let numbered = |number: usize| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..MAX_LOG_FILES - 1).rev() {
            let _ = std::fs::rename(numbered(number), numbered(number + 1));
        }
        let _ = std::fs::rename(&self.path, numbered(1));
        if let Ok(file) = append(&self.path) {
            self.file = file;
            self.bytes = 0;
        }
    }
}

fn append(path: &Path) -> io::Result<File> {
    switchboard_definitions::files::open_own(path, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unread_log_blocks_nobody() {
        let (read, reading) = std::sync::mpsc::sync_channel::<()>(0);
        let (wrote, written) = std::sync::mpsc::channel();
        let queue = Queue::start(LogFormat::Pretty, move |line| {
            let _ = reading.recv();
            let _ = wrote.send(String::from_utf8_lossy(line).into_owned());
        })
        .unwrap();
        // `push` returns although no line is written.
        for number in 0..3 * QUEUE {
            queue.push(format!("{number}\n").as_bytes());
        }
        drop(read);
        assert_eq!(written.recv().unwrap(), "0\n");
        let gap = written.recv().unwrap();
        let count: usize = gap.split(' ').next().unwrap().parse().unwrap();
        // The writer may hold one line, so that the queue accepted one more.
        assert!((2 * QUEUE - 1..=2 * QUEUE).contains(&count), "{gap}");
        assert!(gap.contains("log lines dropped"), "{gap}");
        drop(queue);
        assert_eq!(written.iter().count(), 3 * QUEUE - count - 1);
    }

    #[test]
    fn rotation_keeps_five_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/x.log");
        let mut log = Rotating::open(&path).unwrap();
        let line = vec![b'x'; 1024 * 1024];
        for _ in 0..100 {
            log.write(&line);
        }
        let files: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().flatten().collect();
        assert_eq!(files.len(), MAX_LOG_FILES);
        assert!(files.iter().all(|file| file.metadata().unwrap().len() <= MAX_BYTES));
    }
}
