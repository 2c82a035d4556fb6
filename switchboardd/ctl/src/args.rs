//! What can be typed behind `switchboardd` and, through the shim, behind `switchboard`.

mod help;
mod hosts;
mod own;
#[cfg(test)]
mod reference;
mod remove;
mod since;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand};
use switchboardd::daemon::ServeArgs;
use switchboardd::logging::LogFormat;

pub use help::{command, daemon_command, parse};
pub use hosts::{HostSelection, Import, Setup, Undo};
pub use own::{Add, CallsQuery, Secret};
pub use remove::{Pin, Uninstall};

const AS_SHIM: &str = "As the shim";
const AS_DAEMON: &str = "As the daemon";

/// Run your MCP servers once, and share them between all your editors
#[derive(Debug, Clone, Parser)]
#[command(name = "switchboard", bin_name = "switchboard", version, max_term_width = 100)]
pub struct Args {
    /// Configuration file; `discoverGlobs` are relative to its folder
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Unix socket to serve on, or to find the daemon at
    #[arg(long, global = true, value_name = "PATH", env = "SWITCHBOARD_SOCKET")]
    pub socket: Option<PathBuf>,

    /// Loopback TCP address to serve on as well, or `off`
    #[arg(long, value_name = "ADDR:PORT|off", help_heading = AS_DAEMON)]
    pub listen: Option<String>,

    /// The project that a session or a command is about [default: the folder it is started in]
    #[arg(long, global = true, value_name = "DIR")]
    pub workspace: Option<PathBuf>,

    /// Allow every server that is found in this folder: for tests and containers. May be repeated
    #[arg(long, value_name = "DIR", help_heading = AS_DAEMON)]
    pub trust_root: Vec<PathBuf>,

    /// End after this many seconds without a session or a call [default: never]
    #[arg(long, value_name = "SECONDS", help_heading = AS_DAEMON)]
    pub idle_exit: Option<u64>,

    /// How log lines are written
    #[arg(long, value_parser = log_formats(), default_value = LogFormat::default().name(), value_name = "FORMAT", help_heading = AS_DAEMON)]
    pub log_format: LogFormat,

    /// Answer in JSON, for programs
    #[arg(long, global = true)]
    pub json: bool,

    /// Start every server once, without a daemon, and list what editors would see
    #[arg(long)]
    pub dry_run: bool,

    /// Show the editor one server with its own tools and names, instead of all servers as suites
    #[arg(long, value_name = "NAME", help_heading = AS_SHIM)]
    pub child: Option<String>,

    /// Use a daemon that runs, and don't start one
    #[arg(long, help_heading = AS_SHIM)]
    pub no_start: bool,

    #[command(subcommand)]
    pub command: Option<Command>,
}

impl Args {
    /// A command line without a word.
    pub fn of_nothing() -> Self {
        Self::parse_from(["switchboard"])
    }

    /// What the daemon at the user's own socket would be started with, whatever the environment says.
    pub fn of_user(&self) -> ServeArgs {
        ServeArgs { socket: None, config: None, ..self.of_daemon() }
    }

    /// What a daemon would be started with.
    pub fn of_daemon(&self) -> ServeArgs {
        ServeArgs {
            config: self.config.clone(),
            socket: self.socket.clone(),
            listen: self.listen.clone(),
            trust_root: self.trust_root.clone(),
            idle_exit: self.idle_exit,
            log_format: self.log_format,
        }
    }
}

/// The values of `--log-format`.
fn log_formats() -> impl TypedValueParser<Value = LogFormat> {
    PossibleValuesParser::new(LogFormat::ALL.map(LogFormat::name))
        .map(|name| LogFormat::parse(&name).unwrap_or_default())
}

#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Show what the daemon is doing: sessions, servers, and what went wrong
    #[command(
        after_help = "Examples:\n  switchboard status\n  switchboard status --watch\n  switchboard status --json | jq '.suites[].state'"
    )]
    Status {
        /// Show it again every 2 s until Ctrl-C; with --json, one line each time
        #[arg(long, short)]
        watch: bool,
    },
    /// List the servers that an editor sees in this folder
    #[command(after_help = "Examples:\n  switchboard ls\n  switchboard ls --json | jq -r '.suites[].name'")]
    Ls,
    /// Show what a suite can do: its tools, or one of them with its arguments
    #[command(
        after_help = "Examples:\n  switchboard introspect github\n  switchboard introspect github 'open issues'\n  switchboard introspect github create_issue"
    )]
    Introspect {
        /// The suite, or its server
        suite: String,
        /// Words to look for, or the name of one tool
        query: Option<String>,
        /// The whole definition of each tool, as JSON
        #[arg(long)]
        full: bool,
    },
    /// Run a tool and print its answer
    ///
    /// `key=value` gives a value the type that the tool asks for (`switchboard introspect SUITE TOOL` shows it), `key:=JSON`
    /// sends JSON as it is, `key=@FILE` the text of a file, `a.b=value` sets `b` in `a`; a list takes its key several times.
    /// Texts are printed as they are, the rest as JSON; `--json` prints the whole result. What the server asks meanwhile is
    /// asked here if this is a terminal, and declined otherwise. Ctrl-C cancels the call.
    #[command(
        after_help = "Examples:\n  switchboard call time convert_time time=12:00 source_timezone=UTC target_timezone=Asia/Tokyo\n  switchboard call github create_issue title='It fails' body=@report.md labels=bug labels=ui\n  switchboard call github create_issue '{\"title\": \"It fails\"}'\n  jq -n '{query: \"x\"}' | switchboard call github search -"
    )]
    Call {
        /// The suite, or its server
        suite: String,
        /// The tool; `switchboard introspect SUITE` lists them
        #[arg(value_name = "TOOL")]
        subtool: String,
        /// `key=value` each; or one JSON object, @FILE that holds one, or - for standard input
        #[arg(value_name = "KEY=VALUE")]
        arguments: Vec<String>,
    },
    /// Show what editors called: when, how long it took, and the outcome
    ///
    /// Newest last, in the order in which the calls ended. The arguments of calls are recorded only if `record` in your
    /// config says so. Works without a daemon, too.
    #[command(
        after_help = "Examples:\n  switchboard calls -f\n  switchboard calls --since 1h --suite github\n  switchboard calls --host cursor --json | jq -r '.calls[].tool'"
    )]
    Calls(CallsQuery),
    /// Show the daemon's log, or what a server wrote to its standard error
    #[command(
        after_help = "Examples:\n  switchboard logs -f\n  switchboard logs github -n 20\n  switchboard logs --since 10m"
    )]
    Logs {
        /// The suite, or its server [default: the daemon itself]
        suite: Option<String>,
        /// Keep showing new lines until Ctrl-C, also when the server or the daemon restarts
        #[arg(short, long)]
        follow: bool,
        /// How many of the last lines [default: 100, or all with --since]
        #[arg(short = 'n', long, value_name = "N")]
        lines: Option<usize>,
        /// Only lines that were written within this time, such as 90s, 10m, 1h or 2d
        #[arg(long, value_name = "TIME", value_parser = since::parse_since)]
        since: Option<std::time::Duration>,
    },
    /// Show where a server comes from, what it runs, and how it is doing
    #[command(after_help = "Example:\n  switchboard explain github")]
    Explain {
        /// The suite, or its server
        suite: String,
    },
    /// Find what doesn't work, and say how to fix it
    #[command(
        after_help = "Examples:\n  switchboard doctor\n  switchboard doctor --fix\n  switchboard doctor --json | jq -r '.findings[] | select(.severity == \"error\") | .mend'"
    )]
    Doctor {
        /// Fix what is safe to fix, and list it: permissions of Switchboard's own files, and files that a killed daemon
        /// left behind
        #[arg(long)]
        fix: bool,
    },
    /// Start the daemon in the background if none runs
    #[command(after_help = "Example:\n  switchboard start")]
    Start,
    /// Stop the daemon; open editors don't start it again
    #[command(after_help = "Example:\n  switchboard stop && switchboard start")]
    Stop,
    /// Read configuration and definitions again, and try failed servers again
    #[command(after_help = "Example:\n  switchboard reload")]
    Reload,
    /// Restart a server on its next call; without a name, restart the daemon
    ///
    /// Nothing is lost: running calls finish on the old one, and editors keep their connection.
    #[command(after_help = "Examples:\n  switchboard restart github\n  switchboard restart")]
    Restart {
        /// The suite, or its server [default: the daemon itself]
        suite: Option<String>,
    },
    /// Show what the servers of a project would run, and allow them: asks for each, the default is no
    #[command(
        after_help = "Examples:\n  switchboard allow\n  switchboard allow github\n  switchboard allow --all\n  switchboard allow --list"
    )]
    Allow {
        /// A server or suite, a `.mcp.json`, or a project's folder [default: all that wait in this project]
        what: Option<String>,
        /// Go through everything that is held, one project at a time, with one question for each
        #[arg(long, conflicts_with_all = ["what", "list"])]
        all: bool,
        /// List what was allowed and denied, and what waits here
        #[arg(long)]
        list: bool,
    },
    /// Never run a server of a project, whatever its file says; `allow` reverses it
    #[command(after_help = "Example:\n  switchboard deny github")]
    Deny {
        /// A server or suite, or a `.mcp.json`
        what: String,
    },
    /// Withdraw approval: the servers are held again, and those that run are stopped
    ///
    /// Running calls finish. Needs no terminal.
    #[command(
        after_help = "Examples:\n  switchboard revoke github\n  switchboard revoke ~/work/shop\n  switchboard revoke --all"
    )]
    Revoke {
        /// Servers or suites of this project, `.mcp.json` files, or folders of projects
        #[arg(required_unless_present = "all")]
        what: Vec<String>,
        /// Everything that was allowed, in every project
        #[arg(long, conflicts_with = "what")]
        all: bool,
    },
    /// Define a server of your own
    #[command(
        after_help = "Examples:\n  switchboard add time -- uvx mcp-server-time@2026.10.19\n  switchboard add github --env 'GITHUB_TOKEN=${GITHUB_TOKEN}' -- npx -y @modelcontextprotocol/server-github\n  switchboard add docs --url https://example.com/mcp --header 'Authorization: Bearer ${DOCS_TOKEN}'"
    )]
    Add(Add),
    /// Remove a server of your own
    #[command(after_help = "Example:\n  switchboard remove time")]
    Remove {
        /// The server
        name: String,
    },
    /// Write the versions that run now into your definitions, so that every start runs the same
    ///
    /// For servers of your own that `npx`, `uvx` and the like start without a version. The version is the one of the
    /// package on disk, and only if the server that ran last reports the same. Shows each change and asks.
    #[command(after_help = "Examples:\n  switchboard pin --dry-run\n  switchboard pin time github")]
    Pin(Pin),
    /// Check definition or configuration files, without a daemon
    #[command(after_help = "Example:\n  switchboard check .mcp.json")]
    Check {
        /// `.mcp.json` or `switchboard.config.json` files
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Add Switchboard to the editors on this machine: shows each change and asks
    #[command(after_help = "Examples:\n  switchboard setup --dry-run\n  switchboard setup\n  \
                            switchboard setup --host claude-code,cursor --yes")]
    Setup(Setup),
    /// Copy the servers that your editors start now to Switchboard
    ///
    /// Each becomes a definition like those of `switchboard add`. Secrets in an editor's file are stored in the keyring, or
    /// a private file, and the definition names them. On a terminal it asks before it writes anything. Editors' files are
    /// not changed, unless you add `--remove`.
    #[command(
        after_help = "Examples:\n  switchboard import --dry-run\n  switchboard import --host cursor --only time,github\n  \
                            switchboard import --remove"
    )]
    Import(Import),
    /// Undo what `setup` and `import --remove` changed in your editors' files
    #[command(after_help = "Examples:\n  switchboard undo --dry-run\n  switchboard undo --host zed")]
    Undo(Undo),
    /// Take Switchboard out of your editors, remove the service and stop the daemon
    ///
    /// Shows what it will do and asks. Your servers, secrets and logs stay, unless `--purge` deletes them.
    #[command(
        after_help = "Examples:\n  switchboard uninstall --dry-run\n  switchboard uninstall\n  switchboard uninstall --purge"
    )]
    Uninstall(Uninstall),
    /// Store the values of `${NAME}` in definitions, in the keyring or a private file
    #[command(subcommand, after_help = "Example:\n  switchboard secret set GITHUB_TOKEN")]
    Secret(Secret),
    /// Log in to a remote server, in your browser
    #[command(after_help = "Example:\n  switchboard login github")]
    Login {
        /// The server or suite
        #[arg(value_name = "SERVER")]
        child: String,
        /// Print the address instead of opening a browser, and wait
        #[arg(long)]
        no_browser: bool,
    },
    /// Delete the login to a remote server, and revoke its tokens if the server can
    #[command(after_help = "Example:\n  switchboard logout github")]
    Logout {
        /// The server or suite
        #[arg(value_name = "SERVER")]
        child: String,
    },
    /// Open the status page in your browser
    ///
    /// The address holds a code that works once, for 30 s. The page only reads; it can't change anything.
    #[command(
        after_help = "Example: `switchboard open --no-browser` prints the address, for a browser of your choice."
    )]
    Open {
        /// Print the address instead
        #[arg(long)]
        no_browser: bool,
    },
    /// Run the daemon as a service of systemd or launchd: from login on, and again after a crash
    #[command(subcommand, after_help = "Example:\n  switchboard service install")]
    Service(Service),
    /// Show what Switchboard saves in tokens, processes, memory and starts, and where it costs more
    #[command(after_help = "Example: `switchboard savings --json`")]
    Savings,
    /// Print the path of the daemon's socket, for `curl --unix-socket`
    #[command(
        after_help = "Example:\n  curl --unix-socket \"$(switchboard socket)\" http://localhost/health"
    )]
    Socket,
    /// Print the completion script for your shell
    #[command(
        after_help = "Examples:\n  switchboard completions bash > ~/.local/share/bash-completion/completions/switchboard\n  switchboard completions zsh > ~/.zfunc/_switchboard\n  switchboard completions fish > ~/.config/fish/completions/switchboard.fish"
    )]
    Completions { shell: clap_complete::Shell },
    /// Show a manual page, or write all of them into a folder
    ///
    /// On a terminal `man` shows the page; a pipe gets it in roff.
    #[command(
        after_help = "Examples:\n  switchboard man\n  switchboard man call\n  switchboard man --out ~/.local/share/man/man1"
    )]
    Man {
        /// The command that it is about [default: switchboard itself]
        page: Option<String>,
        /// Write a page for every command into this folder
        #[arg(long, value_name = "DIR", conflicts_with = "page")]
        out: Option<PathBuf>,
    },
    /// Show help and the state of things
    #[command(hide = true, after_help = "Example:\n  switchboard")]
    Overview,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub enum Service {
    /// Install the service for your user, which takes over from a running daemon
    ///
    /// No call is lost: the old daemon finishes its calls, and the shims move to the service's socket. Running it again
    /// changes nothing. Units that a package installed are only enabled.
    #[command(
        after_help = "Examples:\n  switchboard service install --dry-run\n  switchboard service install"
    )]
    Install {
        /// Show what would be done, and do nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Stop and disable the service and delete what `install` wrote
    #[command(after_help = "Example: `switchboard service remove`")]
    Remove {
        /// Show what would be done, and do nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Show whether it is installed, enabled and active, and which version runs
    #[command(after_help = "Example: `switchboard service status --json`")]
    Status,
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    /// The daemon reads its flags by hand; a line that only clap understands comes back to it as plain words.
    #[test]
    fn the_daemon_reads_what_clap_reads() {
        for line in [
            "",
            "--config /c --socket /s --listen off",
            "--socket=/s",
            "--idle-exit 5 --socket /s",
            "--trust-root /a --log-format=json --trust-root /b",
        ] {
            let words = line.split_whitespace().map(OsString::from);
            let clap = Args::try_parse_from(std::iter::once("switchboardd".into()).chain(words.clone()));
            let clap = clap.unwrap().of_daemon();
            assert_eq!(ServeArgs::parse(clap.words().into_iter()).as_ref(), Some(&clap), "{line}");
            if let Some(by_hand) = ServeArgs::parse(words) {
                assert_eq!(by_hand, clap, "{line}");
            } else {
                assert!(line.contains('='), "{line}");
            }
        }
    }
}
