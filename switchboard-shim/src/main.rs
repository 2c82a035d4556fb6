//! `switchboard`: the stdio shim. Each host starts one; it relays the host's stdio to the daemon and survives
//! daemon restarts.
//!
//! Theory of operation. The relay reads the host's frames (`host`), parses each once (`methods`), sends it as
//! one POST on its own connection (`post`) and writes the answer back. Messages that the daemon sends without
//! a request arrive through a long poll (`mailbox`) and are written in order with the answers. One loop on
//! one thread owns all of this (`relay`), so there is nothing to lock. When the daemon goes away, the loop
//! opens a session with the next one (`link`), starts it if necessary (`start`, `launch`), and replays the
//! host's own handshake to it (`replay`). Every command is an exec of `switchboard-ctl` (`binary`), so that this
//! binary stays small.

#![warn(clippy::print_stderr)]

mod args;
mod binary;
mod fault;
mod first;
mod greeting;
mod host;
mod launch;
mod limits;
mod link;
mod mailbox;
mod methods;
mod notes;
mod post;
mod relay;
mod replay;
mod start;
mod waiting;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use switchboard_wire::runtime_paths::RuntimePaths;
use switchboard_wire::visible::Printable;

use crate::args::{Flags, Invocation};
use crate::link::SessionSpec;
use crate::notes::StderrNotes;
use crate::relay::Relay;
use crate::start::DaemonTarget;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    match args::parse(&args, io::stdin().is_terminal()) {
        Ok(Invocation::Shim(flags)) => match serve(flags) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error.to_string(), 1),
        },
        Ok(Invocation::Version) => {
            let _ = writeln!(io::stdout(), "switchboard {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Ok(Invocation::Command(args)) => failed(&binary::run_command(&args), 1),
        Ok(Invocation::Launch(args)) => match launch::detach(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                notes::to_starter(&Printable::text(why));
                ExitCode::from(127)
            }
        },
        Ok(Invocation::Become(args)) => {
            launch::become_daemon(&args);
            ExitCode::from(127)
        }
        Err(misuse) => failed(&format!("{misuse}\n{}", args::USAGE), 2),
    }
}

fn failed(why: &str, code: u8) -> ExitCode {
    notes::print_fatal(&Printable::text(format_args!("switchboard: {why}")));
    ExitCode::from(code)
}

/// Serves the host on stdin and stdout until one of them ends.
fn serve(flags: Flags) -> io::Result<()> {
    limits::raise_limit();
    let may_start = !flags.no_start;
    let about = SessionSpec { workspace: workspace(flags.workspace.as_deref()), child: flags.child.clone() };
    let target = daemon_target(flags)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let relay = Relay::new(target, may_start, about, StderrNotes::default());
        relay.run(host::Input::open()?).await
    });
    // The host is gone, so whatever is still in flight is dropped with the process.
    runtime.shutdown_background();
    served
}

fn daemon_target(flags: Flags) -> io::Result<DaemonTarget> {
    let variable =
        || std::env::var_os("SWITCHBOARD_SOCKET").filter(|path| !path.is_empty()).map(PathBuf::from);
    let socket = flags.socket.or_else(variable);
    let paths = match &socket {
        Some(socket) => RuntimePaths::beside(&std::path::absolute(socket)?),
        None => {
            let home = std::env::home_dir().filter(|home| home.is_absolute());
            let home = home.ok_or_else(|| io::Error::other("HOME is not set; give `--socket PATH`"))?;
            RuntimePaths::of_user(&home)
        }
    };
    let config = flags.config.map(std::path::absolute).transpose()?;
    let (socket_named, workspace) = (socket.is_some(), flags.workspace);
    Ok(DaemonTarget { paths, socket_named, config, workspace, since: SystemTime::now() })
}

/// The absolute path of the directory the host works in. `None` if it is not UTF-8, or relative to a current
/// directory that no longer exists.
fn workspace(named: Option<&Path>) -> Option<String> {
    std::path::absolute(named.unwrap_or(Path::new("."))).ok()?.into_os_string().into_string().ok()
}
