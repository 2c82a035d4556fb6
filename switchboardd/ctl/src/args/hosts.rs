//! What is done to the files of hosts.

use std::path::PathBuf;

#[derive(Debug, Clone, clap::Args)]
pub struct Setup {
    #[command(flatten)]
    pub which: HostSelection,
    /// The shim that editors are to start, as an absolute path [default: the installed one]
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
    /// Also take what was imported out of the files of editors: shows each change and asks; `undo` puts it back
    #[arg(long)]
    pub remove: bool,
    /// These servers and no others, by the names that they have in your editors
    #[arg(long, value_name = "SERVER,…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Start none of them now. Without this, each is started once, and what it offers is known when a host asks
    #[arg(long)]
    pub no_start: bool,
}

/// Which hosts, and how sure somebody is.
#[derive(Debug, Clone, clap::Args)]
pub struct HostSelection {
    /// These and no others, by name or its beginning: claude-code, claude-desktop, cursor, vscode, copilot-cli, zed,
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
