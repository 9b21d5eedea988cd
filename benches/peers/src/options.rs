//! The command line, and what follows from it: which engines and works, how much, how long.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Parser;

use crate::engine::{ONLY_IF_NAMED, OURS, PEERS, Peer};
use crate::work::{WORKS, Work};

/// tablestone beside the engines that its users would pick instead.
#[derive(Parser, Debug)]
#[command(version, about)]
pub struct Options {
    /// A look of about 8 minutes instead of an hour: less data, two rounds.
    #[arg(long)]
    pub quick: bool,
    /// Only these engines; tablestone first if none is named. Repeatable.
    #[arg(long, value_name = "NAME")]
    pub engine: Vec<String>,
    /// Only works whose name begins so. Repeatable.
    #[arg(long, value_name = "PREFIX")]
    pub work: Vec<String>,
    /// Rounds, each with every engine in turn [default: 3, quick 2].
    #[arg(long)]
    pub rounds: Option<u32>,
    /// Entities that a database is loaded with [default: 1,000,000, quick 100,000].
    #[arg(long)]
    pub entities: Option<u64>,
    /// Seconds that a timed work is measured [default: 3, quick 0.5].
    #[arg(long)]
    pub seconds: Option<f64>,
    /// MiB for caches and write buffers of an engine.
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    pub budget: usize,
    /// Memory that each measured process has in all, page cache included, begun with nothing of its
    /// files there. Needs root, or a control group that was delegated.
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u64>,
    /// What all keys, values and choices follow from.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where databases are made and removed again; must not be in memory [default: the system's].
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Keeps the result of every single run in this file, a line of JSON each.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Measures how the cost of an entity changes with the number of entities, of tables (ours
    /// alone) and of threads, instead of comparing; leaves plots in this directory. Of all engines
    /// only tablestone, unless some are named.
    #[arg(long, value_name = "DIR")]
    pub grow: Option<PathBuf>,
    /// How many times the entities there are at the end: 1, 10 or 100.
    #[arg(long, value_name = "FACTOR", default_value_t = 10)]
    pub grow_to: u64,
    /// Plots latency over time into this directory, flushes and compactions marked, instead of
    /// comparing: a load and churn, or the works that are named. Of all engines only tablestone,
    /// unless some are named.
    #[arg(long, value_name = "DIR", conflicts_with = "grow")]
    pub tail: Option<PathBuf>,
    /// Lists engines and works.
    #[arg(long)]
    pub list: bool,
    /// Does one piece of work as a process of its own, and says how it went in a line of JSON.
    #[arg(long, hide = true, value_name = "JSON")]
    pub child: Option<String>,
}

impl Options {
    pub fn rounds(&self) -> u32 {
        let usual = match (&self.tail, self.quick) {
            // A plot of one run is what it was; there is no median of plots.
            (Some(_), _) => return 1,
            (None, true) => 2,
            (None, false) => 3,
        };
        self.rounds.unwrap_or(usual).max(1)
    }

    pub fn entities(&self) -> u64 {
        self.entities.unwrap_or(if self.quick { 100_000 } else { 1_000_000 }).max(1_000)
    }

    pub fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { 0.5 } else { 3.0 }).max(0.01)
    }

    pub fn peers(&self) -> Result<Vec<&'static Peer>> {
        for name in &self.engine {
            if !PEERS.iter().any(|peer| peer.name == name) {
                bail!("no engine {name:?} is built in; --list says which are");
            }
        }
        let chosen = |peer: &&Peer| match &*self.engine {
            [] => !ONLY_IF_NAMED.contains(&peer.name),
            named => named.iter().any(|name| name == peer.name),
        };
        Ok(PEERS.iter().filter(chosen).collect())
    }

    /// The engines that are named, or else our own.
    pub fn own_or_named(&self) -> Result<Vec<&'static Peer>> {
        let mut peers = self.peers()?;
        peers.retain(|peer| !self.engine.is_empty() || peer.name == OURS);
        Ok(peers)
    }

    pub fn works(&self) -> Result<Vec<&'static Work>> {
        for prefix in &self.work {
            if !WORKS.iter().any(|work| work.name.starts_with(prefix.as_str())) {
                bail!("no work begins with {prefix:?}; --list says which there are");
            }
        }
        let chosen = |work: &&Work| {
            self.work.is_empty() || self.work.iter().any(|p| work.name.starts_with(p.as_str()))
        };
        Ok(WORKS.iter().filter(chosen).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_select_and_unknown_names_are_refused() {
        let parse = |arguments: &[&str]| {
            Options::try_parse_from([&["peers"], arguments].concat()).expect("it parses")
        };
        let all = parse(&[]);
        let default = PEERS.iter().filter(|peer| !ONLY_IF_NAMED.contains(&peer.name));
        assert_eq!(all.peers().expect("engines").len(), default.count());
        assert_eq!(all.works().expect("works").len(), WORKS.len());
        let some = parse(&["--engine", "tablestone", "--work", "egt", "--quick"]);
        assert_eq!(some.peers().expect("engines").len(), 1);
        assert_eq!(some.works().expect("works").len(), 3);
        assert_eq!((some.rounds(), some.entities()), (2, 100_000));
        assert!(parse(&["--engine", "oracle"]).peers().is_err());
        assert!(parse(&["--work", "nothing"]).works().is_err());
    }
}
