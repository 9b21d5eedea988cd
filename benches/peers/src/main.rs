//! tablestone beside the engines that its users would pick instead: a table of ratios, and the
//! floor of the machine beside it. README.md says how each engine is set up and what this does not
//! show.

mod child;
mod engine;
mod floor;
mod growth;
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
    if options.list {
        PEERS.iter().for_each(|peer| println!("engine  {}", peer.name));
        WORKS.iter().for_each(|work| println!("work    {:24} {}", work.name, work.about));
        return Ok(());
    }
    if let Some(plots) = &options.grow {
        print!("{}", growth::measure(&options, plots)?);
        return Ok(());
    }
    if let Some(plots) = &options.tail {
        print!("{}", tail::measure(&options, plots)?);
        return Ok(());
    }
    let session = session::compare(&options)?;
    print!("{}", report::markdown(&options, &session));
    Ok(())
}
