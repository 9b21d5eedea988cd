//! The binary: reads the command line and does what it says.

use std::process::ExitCode;

use clap::Parser;
use tablestone_server::cli::{Cli, CliError};

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error's text, and its causes' where it does not have them.
fn with_causes(error: &CliError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
