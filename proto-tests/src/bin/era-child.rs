//! `era-child [--era legacy|modern|both] [--revision DATE] [--page N]`: a well-behaved MCP child over stdio
//! with every name that the official conformance suite asks for. All of it is in `proto_tests::era_child`.

use std::process::ExitCode;

use proto_tests::era_child::{self, Options};

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)) {
        Ok(options) => {
            era_child::run(options);
            ExitCode::SUCCESS
        }
        Err(complaint) => {
            eprintln!("era-child: {complaint}");
            eprintln!("usage: era-child [--era legacy|modern|both] [--revision DATE] [--page N]");
            ExitCode::from(2)
        }
    }
}
