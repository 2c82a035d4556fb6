//! Log lines: to standard error, or to a rotating file when there is none to read them.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::args::LogFormat;

/// Five files of ten mebibytes.
const MAX_BYTES: u64 = 10 * 1024 * 1024;
const KEEP: usize = 5;

pub fn init(format: LogFormat, state: &Path) {
    let wanted = ["RUST_LOG", "LOG_LEVEL"].iter().find_map(|name| std::env::var(name).ok());
    let filter = wanted.as_deref().and_then(|wanted| wanted.parse::<EnvFilter>().ok());
    let filter = filter.unwrap_or_else(|| EnvFilter::new("info"));
    let file = is_null(&io::stderr()).then(|| Rotating::open(&state.join("logs/switchboardd.log"))).flatten();
    let writer = Output { file: file.map(Mutex::new) };
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(
            writer.file.is_none() && io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        )
        .with_writer(writer);
    // A second initialisation (in tests) changes nothing.
    let _ = match format {
        LogFormat::Pretty => lines.try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
    // Where a panic happened belongs into the same log as everything else.
    std::panic::set_hook(Box::new(|panic| tracing::error!(target: "panic", "{panic}")));
}

/// A shim starts the daemon with its standard error on the null device: nobody reads it there.
fn is_null(stderr: &io::Stderr) -> bool {
    use std::os::fd::AsFd;
    let null = std::fs::metadata("/dev/null").ok().filter(|meta| meta.file_type().is_char_device());
    let ours = stderr.as_fd().try_clone_to_owned().ok().and_then(|fd| File::from(fd).metadata().ok());
    matches!((null, ours), (Some(null), Some(ours)) if null.rdev() == ours.rdev() && ours.file_type().is_char_device())
}

struct Output {
    file: Option<Mutex<Rotating>>,
}

impl<'a> MakeWriter<'a> for Output {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { file: self.file.as_ref() }
    }
}

struct Line<'a> {
    file: Option<&'a Mutex<Rotating>>,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A log that cannot be written (a closed pipe, a full disk) is no reason to fail anything.
        match self.file {
            Some(file) => file.lock().map_or((), |mut file| file.write(bytes)),
            None => drop(io::stderr().write_all(bytes)),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Rotating {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Rotating {
    fn open(path: &Path) -> Option<Self> {
        switchboard_wire::place::private_folder(path.parent()?).ok()?;
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
        for number in (1..KEEP - 1).rev() {
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
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_lines_go_and_five_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/x.log");
        let mut log = Rotating::open(&path).unwrap();
        let line = vec![b'x'; 1024 * 1024];
        for _ in 0..100 {
            log.write(&line);
        }
        let files: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().flatten().collect();
        assert_eq!(files.len(), KEEP);
        assert!(files.iter().all(|file| file.metadata().unwrap().len() <= MAX_BYTES));
    }
}
