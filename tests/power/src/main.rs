//! Pulls the plug of real file systems: what the simulated machine of the tests assumes of a disk and a
//! file system, Linux itself does here. Takes root, FUSE and loop devices.
//!
//! A story has rounds. In each a process writes to a database, on a file system, on a disk that keeps what
//! is not flushed in a cache of its own; it is killed and begun again. Then power goes, at many moments of
//! the round, and of what the cache had some sectors are left. What is left is mounted and checked. With
//! one of these the next round begins, so that power goes in recoveries, too.

mod check;
mod disk;
mod machine;
mod notes;
mod served;
mod story;
mod tell;
mod worker;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Power cuts on real file systems.
#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    stories: tell::Stories,
}

/// What a process of its own does.
#[derive(Debug, Subcommand)]
enum Part {
    #[command(hide = true)]
    Work(worker::Work),
    #[command(hide = true)]
    Check(check::Check),
}

fn main() -> Result<ExitCode> {
    let Options { part, stories } = Options::parse();
    match part {
        Some(Part::Work(work)) => worker::run(&work)?,
        Some(Part::Check(check)) => check::run(&check)?,
        None => return tell::all(&stories),
    }
    Ok(ExitCode::SUCCESS)
}
