//! The commands a person types. Each asks the daemon over its socket, except those that need none.

mod ask;
mod dry_run;
mod overview;
mod start;
mod status;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};
use crate::daemon;

/// What programs that call us can rely on.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub enum Exit {
    Ok = 0,
    Error = 1,
    NoDaemon = 3,
    ChildFailed = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The whole program, guard aside.
pub fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        // Files are written and the dead are looked after beside the one thread that works.
        .max_blocking_threads(4)
        .thread_keep_alive(std::time::Duration::from_secs(2))
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(run(args)),
        Err(error) => {
            eprintln!("switchboard: {error}");
            Exit::Error.into()
        }
    }
}

async fn run(args: Args) -> ExitCode {
    if args.dry_run {
        return dry_run::run(&args).await.into();
    }
    let Some(command) = &args.command else {
        return serve(&args).await.into();
    };
    let exit = match command {
        Command::Overview => overview::run(&args).await,
        Command::Socket => overview::socket(&args),
        Command::Status { json } => status::run(&args, *json).await,
        Command::Start => start::run(&args).await,
        Command::Stop => start::stop(&args).await,
        Command::Reload => ask::order(&args, "reload", None).await,
        Command::Restart { suite } => ask::order(&args, "restart", Some(suite)).await,
        Command::Logs { suite } => status::logs(&args, suite).await,
    };
    exit.into()
}

async fn serve(args: &Args) -> Exit {
    // Whatever our starter left open is not for children: a pipe kept open has somebody waiting for its end.
    close_fds::set_fds_cloexec(3, &[]);
    let state = daemon::home().map(|home| daemon::state_folder(&home)).unwrap_or_default();
    crate::logging::init(args.log_format, &state);
    let exit = match daemon::serve(args).await {
        Ok(()) => Exit::Ok,
        Err(fatal) => {
            tracing::error!(target: "daemon", "{fatal}");
            Exit::Error
        }
    };
    crate::logging::flush();
    exit
}
