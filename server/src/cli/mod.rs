//! The command line, for people: each command is a file.
//!
//! | command | does | example |
//! | --- | --- | --- |
//! | `serve` | serves tables to Azure Table storage clients | `tablestone serve` |
//! | `import` | writes entities of a file into a table | `tablestone import cities.jsonl.zst --table cities` |
//! | `export` | writes a table's entities into a file, which `import` reads | `tablestone export --table cities -o cities.csv` |
//! | `query` | shows entities, or how they would be found | `tablestone query cities --filter "PartitionKey eq 'DE'" --top 5` |
//! | `tables` | lists tables, and about how much they hold | `tablestone tables --json` |
//! | `stat` | tells of a data directory's levels, sizes and debt | `tablestone stat --data /var/lib/tablestone` |
//! | `verify` | reads a data directory through, and tells of damage | `tablestone verify --json` |
//! | `salvage` | keeps what is whole of a damaged data directory | `tablestone salvage --data /var/lib/tablestone` |
//!
//! `stat`, `verify` and `salvage` work on a data directory that no server has open (`--data`); all
//! others but `serve` do, or on a server (`--url`, `--connection-string`). See
//! [`serve`'s defaults](crate::config) for where both are if nothing is said. What only reads a
//! directory changes nothing in it, and does so beside others that only read. What a command was asked for goes to
//! stdout, all else to stderr.
//! The exit code is 0, 1 if the command failed, or 2 if it was not given as `--help` has it. An export into a file that
//! SIGINT, SIGTERM or, on Linux, SIGHUP ends removes what there is of it, and ends with 130, 143 or 129, as a shell has
//! it of such signals; on Windows Ctrl-C and Ctrl-Break do, and it ends as a program that they end.
//!
//! # What `import` reads
//!
//! JSON lines, one object a line, as the protocol writes entities: `PartitionKey`, `RowKey`, and
//! properties, whose types are annotated (`"Born@odata.type":"Edm.DateTime"`) where JSON does not
//! show them; a whole number that is not annotated is an Int32, or a Double if it is too large for
//! one. Or CSV with a header, which has each name once. A cell's type is, in this order:
//!
//! 1. what the row has in the column `NAME@type`, as in the exports of Azure Storage Explorer;
//! 2. what `--types NAME=Edm.Int64` says of the column;
//! 3. what the cell looks like: `true` or `false` in any case is a Boolean; digits without leading
//!    zeros an Int32, or an Int64 if they do not fit; digits with a point between them a Double, if
//!    it holds all of them; a date with `T`, time, at most seven digits of a fraction, and `Z` a
//!    DateTime; 32 hexadecimal digits in the groups of a Guid a Guid; anything else a String.
//!
//! Cells are quoted as RFC 4180 has it: a quote that is not closed, as in a file that was cut, or is
//! followed by more text, is a fault. So is a record, as a line of JSON, of more than 16 MiB.
//!
//! An empty cell is no property, but for one that `NAME@type` calls String or Binary. A Timestamp is
//! passed over: the server sets it. Other columns or members can be made keys (`--partition-key
//! country`); they are then no properties. `export` writes either form so that `import` makes the
//! same entities of it; CSV gives all of them one order of properties. Both read and write files
//! that end with `.zst` compressed.
//!
//! An import stops at the first entity that cannot be read or written, and says which it is and how
//! many rows were written: of rows with the same keys each counts, though they make one entity. Those
//! before an entity that cannot be read are all written; if it is the first of all, nothing is made,
//! not even the table. Nor is one left that was made at a server which then takes nothing. With the
//! default `--mode replace` the same import can be run again.
//!
//! Entities and keys are held against the table service's limits, or against those of a server's
//! configuration file (`--config`). A server has its own in any case.
//!
//! A new table of a data directory is loaded straight into table files for as long as entities come
//! in key order, as `export` writes them. It is there from the first entity on that does not come
//! after the one before, or from the end; all that follows is written as into any table. So what is
//! left of an import that is interrupted (Ctrl-C, a full disk) while entities come in order is
//! nothing, not even the table, and it can be run again in any mode.

mod ask;
mod damage;
mod export;
mod import;
mod input;
mod output;
mod place;
mod query;
mod running;
mod salvage;
mod serve;
mod stat;
mod store;
#[cfg(unix)]
#[path = "unix.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;
mod tables;
mod verify;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};

use self::running::Notices;

/// What a command fails with: text for the person who gave it.
type CliError = Box<dyn std::error::Error + Send + Sync>;

/// The error where the system has no thread to give.
fn no_thread(why: impl std::fmt::Display) -> CliError {
    format!("cannot start a thread: {why}").into()
}

/// An error's text, and its causes' where it does not have them.
fn with_causes(error: &dyn std::error::Error) -> String {
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

/// Tables for Azure Table storage clients, on this machine.
#[derive(Debug, Parser)]
#[command(name = "tablestone", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves tables to Azure Table storage clients
    Serve(serve::Serve),
    Import(import::Import),
    Export(export::Export),
    Query(query::Query),
    Tables(tables::Tables),
    Stat(stat::Stat),
    Verify(verify::Verify),
    Salvage(salvage::Salvage),
}

impl Command {
    /// How it is told what it fails with.
    fn notices(&self) -> Notices {
        match self {
            Self::Serve(serve) => serve.notices(),
            _ => Notices::Plain,
        }
    }

    fn run(self) -> Result<(), CliError> {
        match self {
            Self::Serve(serve) => serve.run(),
            Self::Import(import) => import.run(),
            Self::Export(export) => export.run(),
            Self::Query(query) => query.run(),
            Self::Tables(tables) => tables.run(),
            Self::Stat(stat) => stat.run(),
            Self::Verify(verify) => verify.run(),
            Self::Salvage(salvage) => salvage.run(),
        }
    }

    /// What can be done where it finds damage.
    fn advice(&self) -> &'static str {
        match self {
            Self::Verify(_) => "`tablestone salvage` keeps what is whole",
            Self::Salvage(_) => {
                "salvage cannot keep this: what is left is a backup of the directory"
            }
            _ => "`tablestone verify` tells more, and `tablestone salvage` keeps what is whole",
        }
    }
}

/// An option without its variable, if that is blank.
fn without_blank(option: Arg) -> Arg {
    let value = option.get_env().and_then(std::env::var_os);
    let is_blank = value.is_some_and(|value| value.as_encoded_bytes().trim_ascii().is_empty());
    if is_blank { option.env(None::<&str>) } else { option }
}

/// The error, with the variable that a wrong value comes from: it names only the option, which nobody may have given.
fn with_variable(mut error: clap::Error, grammar: &mut clap::Command) -> clap::Error {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    // Options of other commands than the one that was read have no text before.
    grammar.build();
    let mut options = grammar.get_subcommands().flat_map(clap::Command::get_arguments);
    let Some(option) = options.find(|option| option.to_string() == *wrong) else { return error };
    let flag = format!("--{}", option.get_long().unwrap_or_default());
    let is_flag = |said: OsString| {
        let rest = said.to_str().and_then(|said| said.strip_prefix(&flag));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    if let (Some(variable), false) = (option.get_env(), std::env::args_os().any(is_flag)) {
        let tip = StyledStr::from(format!("the value is that of {}", variable.display()));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

impl Cli {
    /// Reads the command line and the environment, of which a blank variable says nothing: compose files and
    /// images can set a variable to nothing where they cannot take it away. Ends the process if there is
    /// nothing to be done.
    #[must_use]
    pub fn read() -> Self {
        let mut grammar =
            Self::command().mut_subcommands(|command| command.mut_args(without_blank));
        let read = grammar.try_get_matches_from_mut(std::env::args_os());
        let read = read.and_then(|said| Self::from_arg_matches(&said));
        read.unwrap_or_else(|error| with_variable(error, &mut grammar).exit())
    }

    /// Does what the command line says, and tells of what it fails with.
    #[must_use]
    pub fn run(self) -> ExitCode {
        let (advice, notices) = (self.command.advice(), self.command.notices());
        match self.command.run() {
            // Who reads the output has seen enough.
            Err(error) if !output::is_closed(&*error) => {
                notices.fail(&*damage::advised(error, advice));
                ExitCode::FAILURE
            }
            _ => ExitCode::SUCCESS,
        }
    }
}
