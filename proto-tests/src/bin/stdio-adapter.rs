//! `stdio-adapter [--port N] COMMAND [ARGS…]` serves a stdio MCP server over Streamable HTTP on a loopback
//! port; `stdio-adapter --forward TARGET_PORT --token-file FILE [--port N]` forwards HTTP to another loopback
//! port and adds the bearer token of that file. Both print the port that they listen on, on one line.

#![expect(clippy::print_stdout, reason = "whoever starts this program reads the port from its stdout")]

use std::net::Ipv4Addr;
use std::process::ExitCode;

use proto_tests::{adapter, forwarder};
use tokio::net::TcpListener;

enum Mode {
    Adapt(Vec<String>),
    Forward { target: u16, token: String },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let (port, mode) = match parse(std::env::args().skip(1)) {
        Ok(parsed) => parsed,
        Err(complaint) => {
            eprintln!("stdio-adapter: {complaint}");
            return ExitCode::from(2);
        }
    };
    let listener = match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
        Ok(listener) => listener,
        Err(error) => {
            eprintln!("stdio-adapter: no port to listen on: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("{}", listener.local_addr().expect("a bound listener has an address").port());
    match mode {
        Mode::Adapt(command) => adapter::serve(listener, command).await,
        Mode::Forward { target, token } => forwarder::serve(listener, target, token).await,
    }
    ExitCode::SUCCESS
}

fn parse(args: impl Iterator<Item = String>) -> Result<(u16, Mode), String> {
    let mut args = args.peekable();
    let (mut port, mut target, mut token) = (0, None, None);
    while let Some(flag) = args.next_if(|arg| arg.starts_with("--")) {
        let value = args.next().ok_or_else(|| format!("`{flag}` needs a value"))?;
        let number = || value.parse::<u16>().map_err(|_| format!("`{value}` is no port"));
        match flag.as_str() {
            "--port" => port = number()?,
            "--forward" => target = Some(number()?),
            "--token-file" => {
                let text = std::fs::read_to_string(&value).map_err(|error| format!("{value}: {error}"))?;
                token = Some(text.trim().to_owned());
            }
            _ => return Err(format!("unknown flag `{flag}`")),
        }
    }
    let command: Vec<_> = args.collect();
    match (target, token, command.is_empty()) {
        (None, None, false) => Ok((port, Mode::Adapt(command))),
        (Some(target), Some(token), true) => Ok((port, Mode::Forward { target, token })),
        _ => Err("either a command, or `--forward` with `--token-file`".into()),
    }
}
