//! The command line of the daemon, read by hand: a library for command lines, with the help of every command,
//! would stay in the memory of a process that needs none of it. `switchboard-ctl` reads everything else.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::system::logging::LogFormat;

/// What a daemon is started with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServeArgs {
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// The Unix socket to serve on.
    pub socket: Option<PathBuf>,
    /// The TCP address to serve on as well, or `off`.
    pub listen: Option<String>,
    /// Directories whose servers are all allowed.
    pub trust_root: Vec<PathBuf>,
    /// The daemon ends after this many seconds without a session or a call.
    pub idle_exit: Option<u64>,
    pub log_format: LogFormat,
}

impl ServeArgs {
    /// `None` for anything but flags of the daemon, each with its value as a word of its own, and each once
    /// (`--trust-root` may be repeated).
    pub fn parse(mut given: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut args = Self::default();
        let (mut is_idle_set, mut is_format_set) = (false, false);
        while let Some(flag) = given.next() {
            let value =
                given.next().filter(|value| !value.is_empty() && !value.as_bytes().starts_with(b"-"))?;
            let is_first = match flag.to_str()? {
                "--config" => args.config.replace(value.into()).is_none(),
                "--socket" => args.socket.replace(value.into()).is_none(),
                "--listen" => args.listen.replace(value.into_string().ok()?).is_none(),
                "--trust-root" => {
                    args.trust_root.push(value.into());
                    true
                }
                "--idle-exit" => {
                    args.idle_exit = Some(value.to_str()?.parse().ok()?);
                    !std::mem::replace(&mut is_idle_set, true)
                }
                "--log-format" => {
                    args.log_format = LogFormat::parse(value.to_str()?)?;
                    !std::mem::replace(&mut is_format_set, true)
                }
                _ => false,
            };
            if !is_first {
                return None;
            }
        }
        if args.socket.is_none()
            && let Some(socket) = std::env::var_os("SWITCHBOARD_SOCKET")
        {
            args.socket = Some(socket).filter(|socket| !socket.is_empty()).map(PathBuf::from);
            args.socket.as_ref()?;
        }
        Some(args)
    }

    /// The words that [`parse`](Self::parse) reads as these arguments.
    pub fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        let mut add = |flag: &str, value: OsString| words.extend([flag.into(), value]);
        self.config.iter().for_each(|file| add("--config", file.into()));
        self.socket.iter().for_each(|socket| add("--socket", socket.into()));
        self.listen.iter().for_each(|address| add("--listen", address.into()));
        self.trust_root.iter().for_each(|folder| add("--trust-root", folder.into()));
        self.idle_exit.iter().for_each(|seconds| add("--idle-exit", seconds.to_string().into()));
        if self.log_format != LogFormat::default() {
            add("--log-format", self.log_format.name().into());
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Option<ServeArgs> {
        ServeArgs::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn words_are_read_back() {
        let line = "--config /c --socket /s --listen off --trust-root /a --trust-root /b --idle-exit 5 --log-format json";
        let args = parse(line).unwrap();
        assert_eq!(args.trust_root, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!((args.idle_exit, args.log_format), (Some(5), LogFormat::Json));
        assert_eq!(args.words().join(" ".as_ref()), OsString::from(line));
        assert_eq!(ServeArgs::parse(args.words().into_iter()), Some(args));
    }

    #[test]
    fn everything_else_is_for_the_commands() {
        for line in [
            "status",
            "--help",
            "--socket",
            "--socket=/s",
            "--socket /s --socket /t",
            "--listen -1",
            "--idle-exit soon",
            "--idle-exit 1 --idle-exit 1",
            "--log-format xml",
            "--socket /s status",
            "--dry-run",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
