//! What can be typed behind `switchboardd` and, through the shim, behind `switchboard`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

/// One warm set of MCP servers for every editor, one suite tool per server.
///
/// Without a command `switchboardd` serves in the foreground; `switchboard` is the stdio shim that
/// goes into an editor's config. Both take the commands below.
#[derive(Debug, Parser)]
#[command(name = "switchboard", bin_name = "switchboard", version, max_term_width = 100)]
pub struct Args {
    /// Configuration file; its folder is where the globs start
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Unix socket to serve on, or to find the daemon at
    #[arg(long, global = true, value_name = "PATH", env = "SWITCHBOARD_SOCKET")]
    pub socket: Option<PathBuf>,

    /// Loopback TCP address to serve on as well, or `off`
    #[arg(long, value_name = "ADDR:PORT|off")]
    pub listen: Option<String>,

    /// The workspace that a command is about [default: where it is typed]
    #[arg(long, global = true, value_name = "DIR")]
    pub workspace: Option<PathBuf>,

    /// Allow every server that is found in this directory: for tests and containers. May be repeated
    #[arg(long, value_name = "DIR")]
    pub trust_root: Vec<PathBuf>,

    /// End after this many seconds without a session or a call [default: never]
    #[arg(long, value_name = "SECONDS")]
    pub idle_exit: Option<u64>,

    /// How log lines are written
    #[arg(long, value_enum, default_value_t = LogFormat::Pretty, value_name = "FORMAT")]
    pub log_format: LogFormat,

    /// Answer in JSON, for programs
    #[arg(long, global = true)]
    pub json: bool,

    /// List suites and their subtools, starting each child once, without a daemon
    #[arg(long)]
    pub dry_run: bool,

    #[command(subcommand)]
    pub command: Option<Command>,
}

impl Args {
    /// What a shim starts the daemon with, read by hand: all the commands that could be there, and their help, would
    /// otherwise stay in the memory of a daemon that has no use for them. `None` for anything else.
    pub fn of_daemon(mut given: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut args = Self {
            config: None,
            socket: None,
            listen: None,
            workspace: None,
            trust_root: Vec::new(),
            idle_exit: None,
            log_format: LogFormat::Pretty,
            json: false,
            dry_run: false,
            command: None,
        };
        while let Some(flag) = given.next() {
            let value =
                given.next().filter(|value| !value.is_empty() && !value.as_bytes().starts_with(b"-"))?;
            let fresh = match flag.to_str()? {
                "--config" => args.config.replace(value.into()).is_none(),
                "--socket" => args.socket.replace(value.into()).is_none(),
                "--listen" => args.listen.replace(value.into_string().ok()?).is_none(),
                _ => false,
            };
            if !fresh {
                return None;
            }
        }
        (args.socket.is_some() || std::env::var_os("SWITCHBOARD_SOCKET").is_none()).then_some(args)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Pretty,
    Json,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what the daemon is doing
    Status,
    /// Start the daemon in the background if none runs
    Start,
    /// Stop the daemon; running shims do not bring it back
    Stop,
    /// Read config and definitions again
    Reload,
    /// Have the next call to a suite start its child anew
    Restart { suite: String },
    /// Show what a suite's child last wrote to its standard error
    Logs { suite: String },
    /// Show what servers of a workspace would run, and allow them; asks for each, the default is no
    #[command(after_help = "Example: `switchboard allow github` after a change that you have looked at.")]
    Allow {
        /// A server or suite, a `.mcp.json`, or a workspace [default: all that wait in this workspace]
        what: Option<String>,
        /// List what was allowed and denied, and what waits here
        #[arg(long)]
        list: bool,
    },
    /// Never run a server of a workspace, whatever its file says; `allow` takes it back
    #[command(after_help = "Example: `switchboard deny github`")]
    Deny {
        /// A server or suite, or a `.mcp.json`
        what: String,
    },
    /// Define a server of your own
    #[command(
        after_help = "Examples:\n  switchboard add time -- uvx mcp-server-time@2026.10.19\n  switchboard add github --env 'GITHUB_TOKEN=${GITHUB_TOKEN}' -- npx -y @modelcontextprotocol/server-github\n  switchboard add docs --url https://example.com/mcp --header 'Authorization: Bearer ${DOCS_TOKEN}'"
    )]
    Add(Add),
    /// Remove a server of your own
    Remove { name: String },
    /// Look at definition or config files without a daemon, and say what is wrong with them
    #[command(after_help = "Example: `switchboard check .mcp.json`")]
    Check {
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Have the editors on this machine start Switchboard: shows each change and asks
    #[command(after_help = "Examples:\n  switchboard setup --dry-run\n  switchboard setup\n  \
                            switchboard setup --host claude-code,cursor --yes")]
    Setup(Setup),
    /// Take the servers that your editors start themselves over into your own config
    ///
    /// Each becomes a definition like those of `switchboard add`. Secrets that stand in a file of an editor go into the
    /// keyring, or a private file, and are named in the definition. Nothing is changed in the files of editors, unless
    /// `--remove` says so.
    #[command(
        after_help = "Examples:\n  switchboard import --dry-run\n  switchboard import --host cursor\n  \
                            switchboard import --remove"
    )]
    Import(Import),
    /// Take back what `setup` and `import --remove` did to the files of editors
    #[command(after_help = "Examples:\n  switchboard undo --dry-run\n  switchboard undo --host zed")]
    Undo(Undo),
    /// Keep the values of `${NAME}` in definitions, in the keyring or a private file
    #[command(subcommand)]
    Secret(Secret),
    /// Log in to a remote server that asks for it, in your browser
    #[command(after_help = "Example: `switchboard login github`")]
    Login {
        /// The server or suite
        child: String,
        /// Print the page to open, and wait
        #[arg(long)]
        no_browser: bool,
    },
    /// Forget the login to a remote server, and have its tokens revoked where that can be
    #[command(after_help = "Example: `switchboard logout github`")]
    Logout {
        /// The server or suite
        child: String,
    },
    /// Open the status page in your browser
    ///
    /// The address holds a code that works once and for 30 s; the page that it opens can read and change nothing.
    #[command(
        after_help = "Example: `switchboard open --no-browser` prints the address, for a browser of your choice."
    )]
    Open {
        /// Print the address instead
        #[arg(long)]
        no_browser: bool,
    },
    /// Have the daemon kept by systemd or launchd: there from login on, back after a crash
    #[command(subcommand)]
    Service(Service),
    /// Show what Switchboard saves: tokens, processes, memory, starts; and where it costs more than it saves
    #[command(after_help = "Example: `switchboard savings --json`")]
    Savings,
    /// Print the path of the daemon's socket, for `curl --unix-socket`
    Socket,
    /// Show help and the state of things
    #[command(hide = true)]
    Overview,
}

#[derive(Debug, clap::Args)]
pub struct Add {
    pub name: String,
    /// What the model is told that it is for
    #[arg(long)]
    pub description: Option<String>,
    /// A variable for it, as NAME=VALUE; `${NAME}` in the value is filled in when it starts
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// A file of such variables
    #[arg(long, value_name = "FILE")]
    pub env_file: Option<PathBuf>,
    /// The directory it runs in [default: that of its definition]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Reach it by this URL instead of starting it
    #[arg(long, conflicts_with_all = ["command", "env", "env_file", "cwd"])]
    pub url: Option<String>,
    /// A header for the URL, as NAME: VALUE
    #[arg(long, value_name = "NAME: VALUE", requires = "url")]
    pub header: Vec<String>,
    /// Take the place of a server with this name
    #[arg(long)]
    pub force: bool,
    /// What to run
    #[arg(last = true, required_unless_present = "url", value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub struct Setup {
    #[command(flatten)]
    pub which: Which,
    /// The shim that editors are to start, as an absolute path [default: the installed one]
    #[arg(long, value_name = "PATH")]
    pub shim: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub struct Undo {
    #[command(flatten)]
    pub which: Which,
}

#[derive(Debug, clap::Args)]
pub struct Import {
    #[command(flatten)]
    pub which: Which,
    /// Also take what was imported out of the files of editors: shows each change and asks; `undo` puts it back
    #[arg(long)]
    pub remove: bool,
}

/// Which hosts, and how sure somebody is.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// These and no others, by name: claude-code, claude-desktop, cursor, vscode, copilot-cli, zed, windsurf, codex,
    /// gemini, cline, roo, continue, opencode, junie, visual-studio, jetbrains [default: all that are found]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub host: Vec<String>,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do it without asking
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Debug, Subcommand)]
pub enum Secret {
    /// Store a value, typed at a prompt or read from standard input
    ///
    /// It goes into the keyring of the system (Secret Service on Linux, Keychain on macOS) or, where none
    /// answers, into a file that only you can read. `${NAME}` in a server's definition stands for it.
    #[command(after_help = "Examples:\n  switchboard secret set GITHUB_TOKEN\n  \
                            pass show github | switchboard secret set GITHUB_TOKEN")]
    Set {
        /// Letters, digits, `_`, `.` and `-`; not a digit first
        name: String,
    },
    /// List the names and where their values are, never the values
    #[command(after_help = "Example:\n  switchboard secret ls --json")]
    Ls,
    /// Forget a secret and delete its value
    #[command(after_help = "Example:\n  switchboard secret rm GITHUB_TOKEN")]
    Rm { name: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub enum Service {
    /// Install the user units (or the launch agent) and hand over from a daemon that runs
    ///
    /// Nobody loses a call: the old daemon finishes what is under way, and the shims come over to the socket that the
    /// service manager holds. Doing it again changes nothing. Units that a package brought are only enabled.
    #[command(
        after_help = "Examples:\n  switchboard service install --dry-run\n  switchboard service install"
    )]
    Install {
        /// Say what would be done, and do nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Stop and disable the service and delete what `install` wrote
    #[command(after_help = "Example: `switchboard service remove`")]
    Remove {
        /// Say what would be done, and do nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Say whether it is installed, enabled and active, and which version runs
    #[command(after_help = "Example: `switchboard service status --json`")]
    Status,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_by_hand_is_what_clap_reads() {
        for line in [
            "",
            "--config /c --socket /s --listen off",
            "--socket /s",
            "--socket=/s",
            "--socket /s --socket /t",
            "--socket",
            "--listen -1",
            "--idle-exit 5 --socket /s",
            "status --socket /s",
            "--dry-run --socket /s",
        ] {
            let words = || line.split_whitespace().map(OsString::from);
            let whole = Args::try_parse_from(std::iter::once("switchboardd".into()).chain(words()));
            if let Some(by_hand) = Args::of_daemon(words()) {
                assert_eq!(format!("{by_hand:?}"), format!("{:?}", whole.unwrap()), "{line}");
            } else {
                assert!(!line.starts_with("--config") && line != "--socket /s", "{line}");
            }
        }
    }
}
