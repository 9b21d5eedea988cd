//! A load driver: what a table endpoint does a second, and how long its answers take.
//!
//! `cargo bench -p tablestone-server --bench load -- --help`. It starts the server that was built
//! with it and whatever is to be compared, gives each the same entities, and then each work in turn,
//! round by round (A B A B), so that what else the machine does falls on all alike. Every answer is
//! checked. It runs on one thread and takes processor time that a server on the same machine does not
//! have; the tables say how much.

mod connection;
mod drive;
mod endpoint;
mod floor;
mod options;
mod report;
mod target;
mod workload;

use std::process::ExitCode;
use std::rc::Rc;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use self::drive::{Drive, Until};
use self::options::Arguments;
use self::report::Report;
use self::workload::{Work, Workload};

/// As the server's, so that the floor has it too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What went wrong, for the person who reads it.
type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some((answers, listen)) = arguments.floor_to_serve() {
        return floor::serve(answers, listen);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = tokio::task::LocalSet::new();
    runtime.block_on(tasks.run_until(async {
        // Whatever ends this ends the servers too: dropping them does.
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            compared = compare(arguments) => compared,
            _ = terminate.recv() => Err("terminated".into()),
            _ = interrupt.recv() => Err("interrupted".into()),
        }
    }))
}

/// Starts the targets, fills them, and gives them each work.
async fn compare(arguments: &Arguments) -> Result<(), Failure> {
    let targets = target::all(arguments).await?;
    let workload = Rc::new(arguments.workload());
    let mut report = Report::new(arguments, &targets);
    for target in &targets {
        eprintln!("{}: storing {} entities", target.name, workload.entities);
        target.create_table(&workload.table).await?;
        let until = Until::Filled { at_most: arguments.fill_time() };
        let fill = Drive { work: Work::Batch, connections: 8, rate: None, until };
        let filled = fill.run(target, &workload).await?;
        report.filled(target, &filled);
    }
    for work in arguments.works() {
        for connections in arguments.connections() {
            for _ in 0..arguments.rounds() {
                for target in &targets {
                    let until = Until::Time(arguments.time());
                    let drive = Drive { work, connections, rate: arguments.rate(), until };
                    let outcome = drive.run(target, &workload).await?;
                    report.add(target, work, connections, outcome);
                }
            }
            report.print_progress(work, connections);
        }
    }
    for target in &targets {
        target.delete_table(&workload.table).await?;
    }
    println!("{report}");
    if report.errors() > 0 {
        return Err(format!("{} answers were not as they must be", report.errors()).into());
    }
    Ok(())
}
