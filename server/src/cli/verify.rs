//! `tablestone verify`: reads every table file of a data directory through.
//!
//! Invariant: as with all that only reads, nothing in the directory changes.

use std::fmt;
use std::io::Write;

use clap::Args;
use indicatif::HumanBytes;
use serde_json::{Value, json};
use tablestone::{Database, Options, TornTail};

use super::CliError;
use super::damage::Damaged;
use super::output::Output;
use super::place::{Place, STOP_THE_SERVER};
use super::store::open_database;

/// What the help ends with.
const EXAMPLES: &str = "\
Examples:
  tablestone verify
  tablestone verify --data tablestone-data --json

The exit code is 1 if anything is damaged: what, and where, is then on stderr.";

/// Reads a data directory through, and tells of damage
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Verify {
    /// Show one object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Verify {
    pub(super) fn run(self) -> Result<(), CliError> {
        let data = self.place.directory("verify", STOP_THE_SERVER)?;
        let options = Options::default().read_only(true);
        let database = open_database(&data, options, "verify works once that has ended")?;
        let damage = database.damage()?;
        if !damage.is_empty() {
            return Err(Damaged(damage).into());
        }
        let whole = Whole::of(&database);
        let mut output = Output::stdout();
        if self.json {
            writeln!(output, "{}", whole.object())?;
        } else {
            write!(output, "{whole}")?;
        }
        output.finish()
    }
}

/// What was read, all of which is as it was written.
struct Whole<'a> {
    files: u64,
    bytes: u64,
    commits: u64,
    torn_tail: Option<&'a TornTail>,
}

impl<'a> Whole<'a> {
    fn of(database: &'a Database) -> Self {
        let (stats, report) = (database.stats(), database.recovery_report());
        Self {
            files: stats.levels.iter().map(|level| level.files).sum(),
            bytes: stats.file_bytes(),
            commits: report.replayed_commits,
            torn_tail: report.torn_tail.as_ref(),
        }
    }

    fn object(&self) -> Value {
        let torn_tail = self.torn_tail.map(|tail| {
            json!({
                "file": tail.file.display().to_string(),
                "offset": tail.offset,
                "bytes": tail.bytes,
            })
        });
        json!({
            "files": self.files,
            "fileBytes": self.bytes,
            "logCommits": self.commits,
            "tornTail": torn_tail,
        })
    }
}

impl fmt::Display for Whole<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<26}{:>12}", "whole table files", self.files)?;
        writeln!(f, "{:<26}{:>12}", "bytes in them", HumanBytes(self.bytes).to_string())?;
        writeln!(f, "{:<26}{:>12}", "commits in the log", self.commits)?;
        if let Some(TornTail { file, offset, bytes }) = self.torn_tail {
            let file = file.display();
            writeln!(
                f,
                "the log has a torn tail of at most {bytes} bytes, at offset {offset} of {file}, which an \
                 opening to write trims: no write that was acknowledged under sync durability was in it"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_tail_is_told() {
        let tail = TornTail { file: "data/000001.log".into(), offset: 70, bytes: 9 };
        let whole = Whole { files: 2, bytes: 2048, commits: 3, torn_tail: Some(&tail) };
        let expected = "\
whole table files                    2
bytes in them                 2.00 KiB
commits in the log                   3
the log has a torn tail of at most 9 bytes, at offset 70 of data/000001.log, which an opening to write \
trims: no write that was acknowledged under sync durability was in it
";
        assert_eq!(whole.to_string(), expected);
        let tail = json!({"file": "data/000001.log", "offset": 70, "bytes": 9});
        assert_eq!(whole.object()["tornTail"], tail);
    }
}
