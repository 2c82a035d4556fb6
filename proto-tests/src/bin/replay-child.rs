//! `replay-child ID`: plays the recorded server of `vectors/servers/ID.json` over stdio.

use std::process::ExitCode;

use proto_tests::finding::recorded::{RecordedServer, SERVERS};
use proto_tests::finding::replay;

fn main() -> ExitCode {
    let id = std::env::args().nth(1).unwrap_or_default();
    if !SERVERS.contains(&&*id) {
        eprintln!("usage: replay-child ID, where ID is one of {}", SERVERS.join(", "));
        return ExitCode::from(2);
    }
    // The daemon has closed the pipe.
    let _ = replay::serve(&RecordedServer::read(&id));
    ExitCode::SUCCESS
}
