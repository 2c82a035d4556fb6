//! What takes Switchboard away again, and what fixes versions.

#[derive(Debug, Clone, clap::Args)]
pub struct Uninstall {
    /// Delete your servers, secrets, logs and settings as well
    #[arg(long)]
    pub purge: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do it without asking
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Debug, Clone, clap::Args)]
pub struct Pin {
    /// Servers or suites of your own [default: all]
    pub suite: Vec<String>,
    /// Show what would be changed, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Change it without asking
    #[arg(long, short)]
    pub yes: bool,
}
