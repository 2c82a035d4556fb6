//! The process between the shim and the daemon: started by the shim as `switchboard --launch …` with the
//! listening socket as stdin, it leaves the host's terminal and folder and becomes `switchboardd`.
//!
//! A process of its own because all of this has to happen between fork and exec, where only `unsafe`
//! code could do it. Its pid stays the daemon's, so `LISTEN_PID` can be its own.

use std::env;
use std::ffi::OsString;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{binary, limits};

/// All that a daemon may know of the environment of the host that happened to start it.
const KEPT: [&str; 4] = ["HOME", "USER", "LOGNAME", "PATH"];

/// Where the socket activation protocol expects the first socket.
const LISTEN_FD: i32 = 3;

/// Moves stdin to descriptor 3 and runs the rest of the arguments.
const BY_SHELL: &str = r#"exec 3<&0 </dev/null; exec "$0" "$@""#;

/// Becomes the daemon. Returns only if that fails, after saying why on stderr.
pub(crate) fn become_daemon(args: &[OsString]) {
    // The exec moves /dev/null over stderr before it can fail; this one is closed by the exec itself.
    let stderr = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 10);
    let why = exec(args);
    if let Ok(stderr) = stderr {
        let _ = std::fs::File::from(stderr).write_all(why.as_bytes());
    }
}

fn exec(args: &[OsString]) -> String {
    // It fails only for a group leader, which a child of the shim is not.
    let _ = rustix::process::setsid();
    let _ = env::set_current_dir("/");
    limits::restore();
    let program = binary::daemon();
    // A careless host leaves descriptors open in us. A daemon that kept them would keep pipes open that
    // somebody waits for the end of.
    close_fds::set_fds_cloexec(LISTEN_FD, &[]);
    // No CLOEXEC: the daemon is to have it. Held until the exec.
    let listener = match rustix::io::dup(rustix::stdio::stdin()) {
        Ok(listener) => listener,
        Err(error) => return format!("no socket to hand over: {error}"),
    };
    let mut command = command(&program, args, listener.as_raw_fd() == LISTEN_FD);
    let _held = (listener.as_raw_fd() == LISTEN_FD).then_some(listener);
    command.env_clear().stdout(Stdio::null()).stderr(Stdio::null());
    command.envs(KEPT.iter().filter_map(|name| Some((name, env::var_os(name)?))));
    command.env("LISTEN_FDS", "1").env("LISTEN_PID", std::process::id().to_string());
    let error = command.exec();
    binary::no_exec(&program, &error)
}

#[expect(clippy::disallowed_methods, reason = "the exec that makes this process the daemon")]
fn command(program: &Path, args: &[OsString], in_place: bool) -> Command {
    let mut command;
    if in_place {
        command = Command::new(program);
        command.stdin(Stdio::null());
    } else {
        // One of those descriptors sits on 3 until the exec. Without `unsafe` only a shell can take its place.
        command = Command::new("/bin/sh");
        command.args(["-c", BY_SHELL]).arg(program).stdin(Stdio::inherit());
    }
    command.args(args);
    command
}
