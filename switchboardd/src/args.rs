//! What can be typed behind `switchboardd` and, through the shim, behind `switchboard`.

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

    /// End after this many seconds without a session or a call [default: never]
    #[arg(long, value_name = "SECONDS")]
    pub idle_exit: Option<u64>,

    /// How log lines are written
    #[arg(long, value_enum, default_value_t = LogFormat::Pretty, value_name = "FORMAT")]
    pub log_format: LogFormat,

    /// List suites and their subtools, starting each child once, without a daemon
    #[arg(long)]
    pub dry_run: bool,

    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Pretty,
    Json,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what the daemon is doing
    Status {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
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
    /// Print the path of the daemon's socket, for `curl --unix-socket`
    Socket,
    /// Show help and the state of things
    #[command(hide = true)]
    Overview,
}
