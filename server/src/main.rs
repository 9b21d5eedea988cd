//! The binary: reads the command line and does what it says.

use std::process::ExitCode;

use clap::Parser;
use tablestone_server::cli::{Cli, with_causes};

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", with_causes(&*error));
            ExitCode::FAILURE
        }
    }
}
