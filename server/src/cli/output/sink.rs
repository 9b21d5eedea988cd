//! [`Output`]: stdout, or a file.
//!
//! Invariant: a file has its name only once all of it is written. Until then its name ends with
//! `.partial`, and whatever had the name is as it was; what is given up is removed.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};
use std::path::{Path, PathBuf};

use super::{CliError, Closed};

/// Where a command writes.
pub(in crate::cli) enum Output {
    Stdout(BufWriter<StdoutLock<'static>>),
    File { writer: FileWriter, partial: Option<Partial> },
}

/// A file, compressed if its name asks for that.
pub(in crate::cli) enum FileWriter {
    Plain(BufWriter<File>),
    Compressed(zstd::Encoder<'static, File>),
}

/// A file in the making, removed when dropped.
pub(in crate::cli) struct Partial {
    path: PathBuf,
    /// The name it gets.
    name: PathBuf,
}

impl Output {
    pub(in crate::cli) fn stdout() -> Self {
        Self::Stdout(BufWriter::new(io::stdout().lock()))
    }

    /// A new file, compressed if its name ends with `.zst`.
    pub(in crate::cli) fn file(path: &Path) -> Result<Self, CliError> {
        let wrong = |error| format!("cannot write {}: {error}", path.display());
        let partial = Partial::of(path);
        let file = File::create(partial.as_ref().map_or(path, |partial| &partial.path));
        let file = file.map_err(wrong)?;
        let writer = match path.extension() {
            Some(extension) if extension == "zst" => {
                FileWriter::Compressed(zstd::Encoder::new(file, 0).map_err(wrong)?)
            }
            _ => FileWriter::Plain(BufWriter::new(file)),
        };
        Ok(Self::File { writer, partial })
    }

    /// Writes what is still in memory, and gives a file its name.
    pub(in crate::cli) fn finish(mut self) -> Result<(), CliError> {
        self.flush()?;
        let Self::File { writer, partial } = self else { return Ok(()) };
        if let FileWriter::Compressed(encoder) = writer {
            encoder.finish()?;
        }
        partial.map_or(Ok(()), Partial::finish)
    }

    fn inner(&mut self) -> &mut dyn Write {
        match self {
            Self::Stdout(stdout) => stdout,
            Self::File { writer: FileWriter::Plain(file), .. } => file,
            Self::File { writer: FileWriter::Compressed(encoder), .. } => encoder,
        }
    }

    fn told_apart<T>(&self, outcome: io::Result<T>) -> io::Result<T> {
        outcome.map_err(|error| match (self, error.kind()) {
            (Self::Stdout(_), ErrorKind::BrokenPipe) => io::Error::other(Closed),
            _ => error,
        })
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let outcome = self.inner().write(bytes);
        self.told_apart(outcome)
    }

    fn flush(&mut self) -> io::Result<()> {
        let outcome = self.inner().flush();
        self.told_apart(outcome)
    }
}

impl Partial {
    /// Beside the file of that name; none for a device or a pipe, which is written to as it is.
    fn of(path: &Path) -> Option<Self> {
        // Of a link, what it leads to is replaced.
        let name = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if fs::metadata(&name).is_ok_and(|found| !found.is_file()) {
            return None;
        }
        let mut path = name.clone().into_os_string();
        path.push(".partial");
        Some(Self { path: path.into(), name })
    }

    fn finish(self) -> Result<(), CliError> {
        let named = fs::rename(&self.path, &self.name);
        Ok(named.map_err(|error| format!("cannot write {}: {error}", self.name.display()))?)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After it has its name there is nothing to remove.
        let _ = fs::remove_file(&self.path);
    }
}
