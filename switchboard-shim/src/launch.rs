//! The two processes between the shim and the daemon. Each has the listening socket as stdin and a pipe to
//! the shim as stderr.
//!
//! The first, `switchboard --launch …`, starts the second, prints its pid on stdout and exits at once. So the
//! daemon is no descendant of the shim or the host: some hosts kill every descendant of a server when they
//! exit, and all hosts share the daemon. A host that adopts orphans (`PR_SET_CHILD_SUBREAPER`) still becomes
//! its parent; only a service manager can start the daemon out of such a host's reach
//! (`switchboard service install`).
//!
//! The second, `switchboard --become-daemon …`, leaves the host's terminal and directory and execs
//! `switchboardd`. It is a separate process because all of this has to happen between fork and exec, where
//! only `unsafe` code could do it. Its pid becomes the daemon's, so it sets `LISTEN_PID` to its own.

use std::env;
use std::ffi::OsString;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::args::BECOME_DAEMON;
use crate::{binary, limits};

/// The only variables that the daemon inherits from the host that happened to start it.
const PASSED_VARIABLES: [&str; 4] = ["HOME", "USER", "LOGNAME", "PATH"];

/// The host's `SHELL` gets this name. The daemon uses it only for a user whose login shell it does not find.
const HOSTS_SHELL: &str = "SWITCHBOARD_SHELL";

/// Where the socket activation protocol expects the first socket.
const LISTEN_FD: i32 = 3;

/// Moves stdin to descriptor 3 and runs the rest of the arguments.
const SHELL_SCRIPT: &str = r#"exec 3<&0 </dev/null; exec "$0" "$@""#;

/// Starts the process that becomes the daemon and prints its pid. Does not wait for it: when this process has
/// ended, a process that adopts orphans becomes its parent.
#[expect(clippy::disallowed_methods, reason = "ourselves again, to become the daemon")]
pub(crate) fn detach(args: &[OsString]) -> Result<(), String> {
    // Signals to the host's process group must not reach the daemon. `setsid` fails only for a group leader,
    // which a child of the shim is not.
    let _ = rustix::process::setsid();
    let started = binary::own_binary()
        .and_then(|path| Command::new(path).arg(BECOME_DAEMON).args(args).stdout(Stdio::null()).spawn());
    let pid = started.map_err(|error| format!("this program could not be started again: {error}"))?.id();
    // If the shim is gone, nothing waits for the pid.
    let _ = writeln!(std::io::stdout(), "{pid}");
    Ok(())
}

/// Becomes the daemon: the first argument is its program. Returns only on failure, after writing why to
/// stderr.
pub(crate) fn become_daemon(args: &[OsString]) {
    // `Command::exec` puts /dev/null over stderr before it can fail; this copy is close-on-exec.
    let stderr = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 10);
    let why = match args.split_first() {
        Some((program, args)) => exec(Path::new(program), args),
        None => "no program was named".to_owned(),
    };
    if let Ok(stderr) = stderr {
        let _ = std::fs::File::from(stderr).write_all(why.as_bytes());
    }
}

fn exec(program: &Path, args: &[OsString]) -> String {
    let _ = rustix::process::setsid();
    let _ = env::set_current_dir("/");
    limits::restore();
    // Hosts may leak descriptors into us. If the daemon kept them, readers of those pipes would never see
    // their end.
    close_fds::set_fds_cloexec(LISTEN_FD, &[]);
    // Without CLOEXEC, because the daemon inherits it. Held until the exec.
    let listener = match rustix::io::dup(rustix::stdio::stdin()) {
        Ok(listener) => listener,
        Err(error) => return format!("no socket to hand over: {error}"),
    };
    let mut command = command(program, args, listener.as_raw_fd() == LISTEN_FD);
    let _held = (listener.as_raw_fd() == LISTEN_FD).then_some(listener);
    command.env_clear().stdout(Stdio::null()).stderr(Stdio::null());
    command.envs(PASSED_VARIABLES.iter().filter_map(|name| Some((name, env::var_os(name)?))));
    command.envs(env::var_os("SHELL").map(|shell| (HOSTS_SHELL, shell)));
    command.env("LISTEN_FDS", "1").env("LISTEN_PID", std::process::id().to_string());
    let error = command.exec();
    binary::no_exec(Path::new(command.get_program()), &error)
}

#[expect(clippy::disallowed_methods, reason = "the exec that makes this process the daemon")]
fn command(program: &Path, args: &[OsString], in_place: bool) -> Command {
    let mut command;
    if in_place {
        command = Command::new(program);
        command.stdin(Stdio::null());
    } else {
        // A leaked descriptor holds number 3 until the exec. Without `unsafe`, only a shell can replace it.
        command = Command::new("/bin/sh");
        command.args(["-c", SHELL_SCRIPT]).arg(program).stdin(Stdio::inherit());
    }
    command.args(args);
    command
}
