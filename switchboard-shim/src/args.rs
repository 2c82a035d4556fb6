//! The command line. Decides whether this process is the shim, launches the daemon or execs `switchboard-ctl`.
//! Parses the shim's own flags and knows none of the daemon's commands.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

pub(crate) const USAGE: &str = "usage: switchboard [--socket PATH] [--workspace DIR] [--child NAME] [--config FILE] [--no-start] | COMMAND …";

/// Hidden first argument of the process that starts the [`BECOME_DAEMON`] process.
pub(crate) const LAUNCH: &str = "--launch";

/// Hidden first argument of the process that execs the daemon.
pub(crate) const BECOME_DAEMON: &str = "--become-daemon";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Invocation {
    Shim(Flags),
    Version,
    /// A command, or a flag such as `--help`: `switchboard-ctl` gets all arguments unchanged.
    Command(Vec<OsString>),
    /// Start a process that becomes the daemon, with this program and its arguments.
    Launch(Vec<OsString>),
    /// Become the daemon: this program with its arguments.
    Become(Vec<OsString>),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) socket: Option<PathBuf>,
    pub(crate) workspace: Option<PathBuf>,
    pub(crate) child: Option<String>,
    pub(crate) config: Option<PathBuf>,
    pub(crate) no_start: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Misuse {
    UnknownFlag(String),
    NoValue(&'static str),
    UnexpectedValue(&'static str),
}

impl std::fmt::Display for Misuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownFlag(flag) => write!(f, "unknown flag `{flag}`"),
            Self::NoValue(flag) => write!(f, "`{flag}` needs a value"),
            Self::UnexpectedValue(flag) => write!(f, "`{flag}` takes no value"),
        }
    }
}

/// `is_terminal`: stdin is a terminal, so a user typed this and no host did.
pub(crate) fn parse(args: &[OsString], is_terminal: bool) -> Result<Invocation, Misuse> {
    match args.split_first() {
        Some((first, rest)) if first == LAUNCH => return Ok(Invocation::Launch(rest.to_vec())),
        Some((first, rest)) if first == BECOME_DAEMON => return Ok(Invocation::Become(rest.to_vec())),
        _ => {}
    }
    if let [only] = args
        && (only == "--version" || only == "-V")
    {
        return Ok(Invocation::Version);
    }
    let mut flags = Flags::default();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let (name, inline) = split(arg);
        let mut value = |flag| {
            let value = inline.map(OsStr::to_owned).or_else(|| rest.next().cloned());
            value.filter(|value| !value.is_empty()).map(PathBuf::from).ok_or(Misuse::NoValue(flag))
        };
        match name {
            b"--socket" => flags.socket = Some(value("--socket")?),
            b"--workspace" => flags.workspace = Some(value("--workspace")?),
            b"--child" => {
                let name = value("--child")?.into_os_string();
                flags.child = Some(name.into_string().map_err(|_| Misuse::NoValue("--child"))?);
            }
            b"--config" => flags.config = Some(value("--config")?),
            b"--no-start" if inline.is_some() => return Err(Misuse::UnexpectedValue("--no-start")),
            b"--no-start" => flags.no_start = true,
            b"--help" | b"-h" | b"--version" | b"-V" | b"--dry-run" | b"--json" => {
                return Ok(Invocation::Command(args.to_vec()));
            }
            name if name.starts_with(b"-") => {
                return Err(Misuse::UnknownFlag(String::from_utf8_lossy(name).into_owned()));
            }
            _ => return Ok(Invocation::Command(args.to_vec())),
        }
    }
    if is_terminal {
        return Ok(Invocation::Command(overview(flags)));
    }
    Ok(Invocation::Shim(flags))
}

/// The command for a user who types `switchboard` without a command.
fn overview(flags: Flags) -> Vec<OsString> {
    let mut args = vec!["overview".into()];
    if let Some(socket) = flags.socket {
        args.extend(["--socket".into(), socket.into()]);
    }
    args
}

/// Splits `--flag=value`.
fn split(arg: &OsStr) -> (&[u8], Option<&OsStr>) {
    let bytes = arg.as_bytes();
    match bytes.iter().position(|&byte| byte == b'=') {
        Some(at) if bytes.starts_with(b"--") => (&bytes[..at], Some(OsStr::from_bytes(&bytes[at + 1..]))),
        _ => (bytes, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str, is_terminal: bool) -> Result<Invocation, Misuse> {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        parse(&args, is_terminal)
    }

    fn command(line: &str) -> Result<Invocation, Misuse> {
        Ok(Invocation::Command(line.split_whitespace().map(OsString::from).collect()))
    }

    #[test]
    fn flags_take_their_value_either_way() {
        let flags = Flags {
            socket: Some("/s".into()),
            workspace: Some("w=1".into()),
            child: Some("files".into()),
            config: Some("c".into()),
            no_start: true,
        };
        assert_eq!(
            parsed("--socket /s --workspace=w=1 --child files --config c --no-start", false),
            Ok(Invocation::Shim(flags))
        );
        assert_eq!(parsed("", false), Ok(Invocation::Shim(Flags::default())));
    }

    #[test]
    fn commands_are_passed_on_unchanged() {
        for line in ["status", "--help", "--version --json", "--dry-run", "--socket /s status --json", "-h"] {
            assert_eq!(parsed(line, false), command(line));
            assert_eq!(parsed(line, true), command(line));
        }
    }

    #[test]
    fn the_version_needs_no_other_program() {
        for flag in ["--version", "-V"] {
            assert_eq!(parsed(flag, false), Ok(Invocation::Version));
            assert_eq!(parsed(flag, true), Ok(Invocation::Version));
        }
    }

    #[test]
    fn a_user_gets_the_overview() {
        assert_eq!(parsed("", true), command("overview"));
        assert_eq!(parsed("--no-start --socket /s", true), command("overview --socket /s"));
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(parsed("--sockt=/s", false), Err(Misuse::UnknownFlag("--sockt".into())));
        assert_eq!(parsed("-x", true), Err(Misuse::UnknownFlag("-x".into())));
        assert_eq!(parsed("--socket", false), Err(Misuse::NoValue("--socket")));
        assert_eq!(parsed("--socket=", false), Err(Misuse::NoValue("--socket")));
        assert_eq!(parsed("--no-start=1", false), Err(Misuse::UnexpectedValue("--no-start")));
    }

    #[test]
    fn launch_arguments_are_passed_on_unchanged() {
        let args = ["--launch", "/bin/d", "--socket", "/s"].map(OsString::from);
        assert_eq!(parse(&args, false), Ok(Invocation::Launch(args[1..].to_vec())));
        let args = ["--become-daemon", "/bin/d", "--socket", "/s"].map(OsString::from);
        assert_eq!(parse(&args, false), Ok(Invocation::Become(args[1..].to_vec())));
    }
}
