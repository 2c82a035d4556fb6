//! What defines servers of a person's own, and the values they need.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;

#[derive(Debug, Clone, clap::Args)]
pub struct Add {
    /// The name of the server
    pub name: String,
    /// What the model reads about the server
    #[arg(long)]
    pub description: Option<String>,
    /// A variable for it, as NAME=VALUE; `${NAME}` in the value is filled in when it starts
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// A file of such variables
    #[arg(long, value_name = "FILE")]
    pub env_file: Option<PathBuf>,
    /// The folder it runs in [default: that of its definition]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// The URL of a remote server, instead of a command
    #[arg(long, conflicts_with_all = ["command", "env", "env_file", "cwd"])]
    pub url: Option<String>,
    /// A header for the URL, as NAME: VALUE
    #[arg(long, value_name = "NAME: VALUE", requires = "url")]
    pub header: Vec<String>,
    /// Don't start it now. Otherwise it is started once, so that its tools are known
    #[arg(long)]
    pub no_start: bool,
    /// Replace a server of this name
    #[arg(long)]
    pub force: bool,
    /// What to run
    #[arg(last = true, required_unless_present = "url", value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Which calls are wanted.
#[derive(Debug, Clone, clap::Args)]
pub struct CallsQuery {
    /// Keep showing new calls until Ctrl-C, also when the daemon restarts
    #[arg(short, long)]
    pub follow: bool,
    /// Only calls that ended within this time, such as 90s, 15m, 1h or 2d
    #[arg(long, value_name = "TIME", value_parser = super::since::parse_since)]
    pub since: Option<Duration>,
    /// Only calls of this suite, or its server
    #[arg(long, value_name = "SUITE")]
    pub suite: Option<String>,
    /// Only calls of this editor: its name, or a part of it
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// How many of the last calls [default: 50, or all with --since]
    #[arg(short = 'n', long, value_name = "N")]
    pub lines: Option<usize>,
}

#[derive(Debug, Clone, Subcommand)]
pub enum Secret {
    /// Store a value, typed at a prompt or read from standard input
    ///
    /// It is stored in the system's keyring (Secret Service on Linux, Keychain on macOS) or, if there is none, in a file
    /// that only you can read. `${NAME}` in a server's definition stands for it.
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
    Rm {
        /// The secret
        name: String,
    },
}
