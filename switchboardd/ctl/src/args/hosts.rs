//! What is done to the files of hosts.

use std::path::PathBuf;

#[derive(Debug, Clone, clap::Args)]
pub struct Setup {
    #[command(flatten)]
    pub which: HostSelection,
    /// The absolute path of the shim that editors start [default: the installed one]
    #[arg(long, value_name = "PATH")]
    pub shim: Option<PathBuf>,
}

#[derive(Debug, Clone, clap::Args)]
pub struct Undo {
    #[command(flatten)]
    pub which: HostSelection,
}

#[derive(Debug, Clone, clap::Args)]
pub struct Import {
    #[command(flatten)]
    pub which: HostSelection,
    /// Also remove from your editors' files what was imported and answers: shows each change and asks; `undo` puts it
    /// back. Only from files in which `setup` has added Switchboard
    #[arg(long)]
    pub remove: bool,
    /// Only these servers, by the names that they have in your editors
    #[arg(long, value_name = "SERVER,…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Don't start them now. Otherwise each is started once, so that its tools are known. With `--remove`: remove
    /// them without a test
    #[arg(long)]
    pub no_start: bool,
}

/// Which hosts, and how sure somebody is.
#[derive(Debug, Clone, clap::Args)]
pub struct HostSelection {
    /// Only these editors, by name or its beginning: claude-code, claude-desktop, cursor, vscode, copilot-cli, zed,
    /// windsurf, codex, gemini, qwen, cline, roo, continue, opencode, junie, visual-studio, jetbrains [default: all that
    /// are found]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub host: Vec<String>,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do it without asking
    #[arg(long, short)]
    pub yes: bool,
}
