//! tablestone beside the engines that its users would pick instead: a table of ratios, and the
//! floor of the machine beside it. README.md says how each engine is set up and what this does not
//! show.

mod child;
mod engine;
mod floor;
mod growth;
mod limit;
mod meter;
mod options;
mod plot;
mod report;
mod scale;
mod session;
mod tail;
mod timeline;
mod work;
mod workload;

use std::io::{self, ErrorKind, Write};

use anyhow::Result;
use clap::Parser;

use engine::PEERS;
use options::Options;
use work::WORKS;

fn main() -> Result<()> {
    let options = Options::parse();
    if let Some(json) = &options.child {
        return child::run(json);
    }
    let text = if options.list {
        list()
    } else if let Some(plots) = &options.grow {
        growth::measure(&options, plots)?
    } else if let Some(plots) = &options.tail {
        tail::measure(&options, plots)?
    } else {
        report::markdown(&options, &session::compare(&options)?)
    };
    match io::stdout().write_all(text.as_bytes()) {
        // Whoever read it has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// The engines and works there are, a line each.
fn list() -> String {
    let engines = PEERS.iter().map(|peer| format!("engine  {}\n", peer.name));
    let works = WORKS.iter().map(|work| format!("work    {:24} {}\n", work.name, work.about));
    engines.chain(works).collect()
}
