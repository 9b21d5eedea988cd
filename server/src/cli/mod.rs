//! The command line, for people: each command is a file.

mod serve;

use clap::{Parser, Subcommand};

/// What a command fails with: text for the person who gave it.
pub type CliError = Box<dyn std::error::Error + Send + Sync>;

/// Tables for Azure Table storage clients, on this machine.
#[derive(Debug, Parser)]
#[command(name = "tablestone", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves tables to Azure Table storage clients.
    Serve(serve::Serve),
}

impl Cli {
    /// Does what the command line says.
    ///
    /// # Errors
    /// [`CliError`], to be shown as it is.
    pub fn run(self) -> Result<(), CliError> {
        match self.command {
            Command::Serve(serve) => serve.run(),
        }
    }
}
