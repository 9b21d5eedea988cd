//! What the examples share: input read line by line, progress bars, timed steps, errors in full.

use std::error::Error;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tablestone::{Database, Table};
use tempfile::TempDir;

/// What a step of an example returns.
pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// How a zstd frame begins.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// Why the input cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error("cannot open the input {path:?}")]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot read line {line} of {path:?}")]
    Read { path: PathBuf, line: u64, source: io::Error },
    #[error("line {line} of {path:?}: expected {expected}, found {found}")]
    Line { path: PathBuf, line: u64, expected: String, found: String },
}

/// What is wrong with one line; [`Input`] adds where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadLine {
    pub(crate) expected: String,
    pub(crate) found: String,
}

impl BadLine {
    pub(crate) fn new(expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self { expected: expected.into(), found: found.into() }
    }
}

/// The lines of a file, plain or compressed with zstd, with a progress bar over its bytes.
pub(crate) struct Input {
    path: PathBuf,
    reader: Box<dyn BufRead>,
    line: u64,
    text: String,
    progress: ProgressBar,
}

impl Input {
    pub(crate) fn open(path: &Path) -> Result<Self, InputError> {
        let failed = |source| InputError::Open { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(failed)?;
        let mut start = Vec::new();
        (&mut file).take(ZSTD_MAGIC.len() as u64).read_to_end(&mut start).map_err(failed)?;
        file.rewind().map_err(failed)?;
        let progress = progress_bar(file.metadata().map_err(failed)?.len());
        let file = progress.wrap_read(file);
        let reader: Box<dyn BufRead> = if start == ZSTD_MAGIC {
            Box::new(BufReader::new(zstd::Decoder::new(file).map_err(failed)?))
        } else {
            Box::new(BufReader::new(file))
        };
        Ok(Self { path: path.to_owned(), reader, line: 0, text: String::new(), progress })
    }

    pub(crate) fn path(&self) -> std::path::Display<'_> {
        self.path.display()
    }

    /// What `parse` makes of the next line; `None` at the end of the file.
    pub(crate) fn next<T>(
        &mut self,
        parse: impl FnOnce(&str) -> Result<T, BadLine>,
    ) -> Result<Option<T>, InputError> {
        self.text.clear();
        self.line += 1;
        let (path, line) = (&self.path, self.line);
        let read = self.reader.read_line(&mut self.text);
        if read.map_err(|source| InputError::Read { path: path.clone(), line, source })? == 0 {
            return Ok(None);
        }
        parse(self.text.trim_end_matches(['\r', '\n'])).map(Some).map_err(
            |BadLine { expected, found }| InputError::Line {
                path: path.clone(),
                line,
                expected,
                found,
            },
        )
    }

    /// Takes the bar off the screen.
    pub(crate) fn finish(self) {
        self.progress.finish_and_clear();
    }
}

fn progress_bar(bytes: u64) -> ProgressBar {
    let bar = ProgressBar::new(bytes);
    let template = "  {bar:40} {percent:>3} % of {total_bytes}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// Where the database is: a directory that stays, or one that goes when the example ends.
pub(crate) enum Home {
    Kept(PathBuf),
    Temporary(TempDir),
}

impl Home {
    pub(crate) fn new(dir: Option<PathBuf>) -> Outcome<Self> {
        Ok(match dir {
            Some(dir) => Self::Kept(dir),
            None => Self::Temporary(TempDir::with_prefix("tablestone-")?),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Kept(dir) => dir,
            Self::Temporary(dir) => dir.path(),
        }
    }

    /// How long the directory lives, for people.
    pub(crate) fn fate(&self) -> &'static str {
        match self {
            Self::Kept(_) => "kept",
            Self::Temporary(_) => "temporary; --dir DIR keeps it",
        }
    }
}

/// Creates a table in a database that should be new.
pub(crate) fn create_table(database: &Database, name: &str) -> Outcome<Table> {
    match database.create_table(name).wait() {
        Err(error @ tablestone::Error::TableExists(_)) => {
            let dir = database.dir().display();
            Err(format!("{error} in {dir}: remove that database, or choose another --dir").into())
        }
        created => Ok(created?),
    }
}

/// Prints a heading and begins to measure.
pub(crate) fn step(title: impl Display) -> Instant {
    print(format_args!("\n{title}"));
    Instant::now()
}

/// Prints one indented line of a step.
pub(crate) fn say(line: impl Display) {
    print(format_args!("  {line}"));
}

/// Prints a line; that nobody reads it (as with `| head`) is no reason to stop.
pub(crate) fn print(line: impl Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// A duration in the unit that suits it.
pub(crate) fn time(duration: Duration) -> String {
    let nanos = duration.as_nanos() as f64;
    match nanos {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.1} µs", n / 1e3),
        n if n < 1e9 => format!("{:.1} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}

/// `duration` divided among `count` things.
pub(crate) fn each(duration: Duration, count: u64) -> String {
    time(Duration::from_nanos((duration.as_nanos() as f64 / count.max(1) as f64) as u64))
}

/// How many things a second, with thousands apart.
pub(crate) fn rate(count: u64, duration: Duration) -> String {
    grouped((count as f64 / duration.as_secs_f64().max(1e-9)) as u64)
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Bytes as people read them.
pub(crate) fn bytes(count: u64) -> String {
    indicatif::HumanBytes(count).to_string()
}

/// Fails with a sentence if what the database holds is not what it was given.
pub(crate) fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(otherwise().into()) }
}

/// Prints an error with everything that led to it.
pub(crate) fn report(outcome: Outcome) -> ExitCode {
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  because: {error}");
        cause = error.source();
    }
    ExitCode::FAILURE
}
