//! [`Arguments`]: the command line.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use tablestone_server::config::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};

use super::{Work, Workload};

/// Drives table endpoints and prints what they did as Markdown.
///
/// Without --url it starts the server that was built with it, in a directory of its own.
#[derive(Debug, Parser)]
#[command(name = "load")]
pub(crate) struct Arguments {
    /// Drive what listens there, e.g. http://127.0.0.1:10002/devstoreaccount1; may be repeated
    #[arg(long, value_name = "URL")]
    pub(crate) url: Vec<String>,
    /// What to call the endpoints of --url and --server, in their order
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Vec<String>,
    /// Start this server in place of the one that was built; may be repeated, to compare builds
    #[arg(long, value_name = "FILE")]
    pub(crate) server: Vec<PathBuf>,
    /// The durability of tablestone where it is started: sync, os, or an interval, e.g. 100ms
    #[arg(long, value_name = "WHEN", default_value = "sync")]
    pub(crate) durability: String,
    /// Compare with a bare hyper server that checks signatures and answers constants
    #[arg(long)]
    pub(crate) floor: bool,
    /// Compare with Azurite: its azurite-table, e.g. node_modules/.bin/azurite-table
    #[arg(long, value_name = "FILE")]
    pub(crate) azurite: Option<PathBuf>,
    /// The account of --url
    #[arg(long, default_value = DEVELOPMENT_ACCOUNT)]
    pub(crate) account: String,
    /// The account's key [default: the emulator's]
    #[arg(long, default_value = DEVELOPMENT_KEY, hide_default_value = true)]
    pub(crate) key: String,
    /// What to do: get, range (50 rows), scan (pages of 1,000), upsert, insert, batch (100 inserts)
    #[arg(long, value_name = "WORKS", value_delimiter = ',', default_values_t = Work::ALL)]
    works: Vec<Work>,
    /// Over how many connections
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [1, 8, 64])]
    connections: Vec<usize>,
    /// How many entities the table holds before; partitions have 1,000
    #[arg(long, value_name = "NUMBER", default_value_t = 20_000)]
    entities: u64,
    /// How long to store them at most, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0)]
    fill_seconds: f64,
    /// How long each work is done in each round
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    seconds: f64,
    /// How often each work is done; figures are medians
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    rounds: usize,
    /// Send so many requests a second, come what may (open loop); latencies count from when a
    /// request was to be sent. Else each connection sends when its answer came (closed loop)
    #[arg(long, value_name = "NUMBER")]
    rate: Option<f64>,
    /// What the entities and the order of reads are made of
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// One round of a second each
    #[arg(long)]
    quick: bool,
    /// Serve the answers of this directory, as --floor has it
    #[arg(long, value_name = "DIR", hide = true, requires = "listen")]
    serve_floor: Option<PathBuf>,
    #[arg(long, value_name = "ADDR:PORT", hide = true)]
    listen: Option<SocketAddr>,
    /// What `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Arguments {
    /// What the process is to serve if it is the floor.
    pub(crate) fn floor_to_serve(&self) -> Option<(&Path, SocketAddr)> {
        Some((self.serve_floor.as_deref()?, self.listen?))
    }

    pub(crate) fn works(&self) -> impl Iterator<Item = Work> + use<'_> {
        // Those that make the table grow come last, whatever order they were given in.
        Work::ALL.into_iter().filter(|work| self.works.contains(work))
    }

    pub(crate) fn connections(&self) -> impl Iterator<Item = usize> + use<'_> {
        self.connections.iter().copied().filter(|connections| *connections > 0)
    }

    pub(crate) fn rounds(&self) -> usize {
        if self.quick { 1 } else { self.rounds.max(1) }
    }

    pub(crate) fn time(&self) -> Duration {
        if self.quick { Duration::from_secs(1) } else { seconds(self.seconds) }
    }

    pub(crate) fn fill_time(&self) -> Duration {
        seconds(self.fill_seconds)
    }

    pub(crate) fn rate(&self) -> Option<f64> {
        self.rate.filter(|rate| *rate > 0.0)
    }

    pub(crate) fn workload(&self) -> Workload {
        let now = std::time::SystemTime::now();
        let since = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Workload {
            table: format!("load{}", since.as_secs()),
            entities: self.entities.next_multiple_of(Workload::PARTITION).max(Workload::PARTITION),
            seed: self.seed,
        }
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(1))
}
