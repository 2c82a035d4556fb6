//! The programs that the benchmark measures besides Switchboard: its child, and the floor's shim and daemon.

use std::path::Path;
use std::process::ExitCode;

use proto_tests::bench::{child, floor};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["child", ballast, era @ ..] => {
            child::run(ballast.parse().unwrap_or(0), era == ["modern"]);
            Ok(())
        }
        ["pong"] => {
            child::pong();
            Ok(())
        }
        ["floor-daemon", socket, ..] => floor::daemon(Path::new(socket), &args[2..]),
        ["floor-shim", socket, ..] => floor::shim(Path::new(socket), &args[2..]),
        _ => {
            eprintln!(
                "usage: bench-part child MIB [modern] | pong | floor-daemon SOCKET CHILD… | floor-shim SOCKET [DAEMON…]"
            );
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-part: {error}");
            ExitCode::FAILURE
        }
    }
}
