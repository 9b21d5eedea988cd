//! `tablestone stat`: what a data directory is made of.

use std::io::Write;

use clap::Args;
use indicatif::HumanBytes;
use serde_json::{Value, json};
use tablestone::{LevelStats, Options, Stats};

use super::CliError;
use super::output::{Align, Output, TextTable};
use super::place::Place;
use super::store::open_database;

/// What to do instead of naming a server.
const ASK_THE_SERVER: &str = "a server tells much of it at /metrics of its admin address (tablestone serve --admin ADDR:PORT)";

/// What the help ends with.
const EXAMPLES: &str = "\
Examples:
  tablestone stat --data tablestone-data
  tablestone stat --json";

/// Tells of a data directory's levels, sizes and debt
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Stat {
    /// Show one object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Stat {
    pub(super) fn run(self) -> Result<(), CliError> {
        let data = self.place.directory("stat", ASK_THE_SERVER)?;
        let options = Options::default().read_only(true);
        let stats = open_database(&data, options, ASK_THE_SERVER)?.stats();
        let mut output = Output::stdout();
        if self.json {
            writeln!(output, "{}", object(&stats))?;
        } else {
            levels(&stats).print(&mut output)?;
            writeln!(output)?;
            for (what, bytes) in [
                ("table files", stats.file_bytes()),
                ("not yet in table files", stats.memtable_bytes),
                ("to rewrite (debt)", stats.compaction_debt_bytes),
                ("memory for open files", stats.index_bytes),
                ("memory for cached blocks", stats.cache_bytes),
            ] {
                writeln!(output, "{what:<26}{:>12}", HumanBytes(bytes).to_string())?;
            }
            writeln!(output, "{:<26}{:>12}", "range deletions", stats.range_tombstones)?;
        }
        output.finish()
    }
}

/// Levels that hold something, youngest first.
fn filled(stats: &Stats) -> impl Iterator<Item = (usize, &LevelStats)> {
    stats.levels.iter().enumerate().filter(|(_, level)| level.files > 0)
}

fn levels(stats: &Stats) -> TextTable {
    let mut shown = TextTable::new(["level", "files", "bytes", "entries", "deletions"]);
    for (number, level) in filled(stats) {
        let cells = [
            number.to_string(),
            level.files.to_string(),
            HumanBytes(level.bytes).to_string(),
            level.entries.to_string(),
            level.tombstones.to_string(),
        ];
        shown.push(cells.map(|cell| (cell, Align::Right)));
    }
    shown
}

fn object(stats: &Stats) -> Value {
    let levels = filled(stats).map(|(number, level)| {
        json!({
            "level": number,
            "files": level.files,
            "bytes": level.bytes,
            "entries": level.entries,
            "deletions": level.tombstones,
        })
    });
    json!({
        "levels": levels.collect::<Vec<_>>(),
        "fileBytes": stats.file_bytes(),
        "memtableBytes": stats.memtable_bytes,
        "debtBytes": stats.compaction_debt_bytes,
        "indexBytes": stats.index_bytes,
        "cacheBytes": stats.cache_bytes,
        "rangeDeletions": stats.range_tombstones,
    })
}
