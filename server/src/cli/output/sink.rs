//! [`Output`]: stdout, or a file.
//!
//! Invariant: a file has its name only once all of it is written and synced. Until then its name is one
//! that no other has, which ends with `.partial`, and whatever had the name is as it was, also after a crash; what is
//! given up is removed, also by what tells the process to stop.

use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind::{self, InvalidInput, PermissionDenied, Unsupported};
use std::io::{self, BufWriter, IntoInnerError, StdoutLock, Write};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::interrupt::Interrupts;
use super::{CliError, Closed};
use crate::cli::export::is_compressed;
use crate::cli::system;

/// What nearly all file systems let a name have.
const NAME_BYTES: usize = 255;

/// Where a command writes.
pub(in crate::cli) enum Output {
    Stdout(BufWriter<StdoutLock<'static>>),
    File { path: PathBuf, writer: FileWriter, partial: Option<Partial> },
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
        let wrong = |error| unwritten(path.display(), &error);
        // There is no moment at which a signal leaves it behind.
        let interrupts = Interrupts::new().map_err(wrong)?;
        let (file, partial) = match Partial::create(path).map_err(wrong)? {
            Some((file, partial)) => {
                interrupts.heed(Some(partial.path.clone())).map_err(wrong)?;
                (file, Some(partial))
            }
            None => {
                interrupts.heed(None).map_err(wrong)?;
                // Of a pipe, this waits for a reader.
                (File::create(path).map_err(wrong)?, None)
            }
        };
        let writer = if is_compressed(path) {
            FileWriter::Compressed(zstd::Encoder::new(file, 0).map_err(wrong)?)
        } else {
            FileWriter::Plain(BufWriter::new(file))
        };
        Ok(Self::File { path: path.to_owned(), writer, partial })
    }

    /// Writes what is still in memory, and gives a file its name.
    pub(in crate::cli) fn finish(mut self) -> Result<(), CliError> {
        self.flush()?;
        let Self::File { path, writer, partial } = self else { return Ok(()) };
        let file = match writer {
            FileWriter::Plain(writer) => writer.into_inner().map_err(IntoInnerError::into_error),
            FileWriter::Compressed(encoder) => encoder.finish(),
        };
        let file = file.map_err(|error| unwritten(path.display(), &error))?;
        partial.map_or(Ok(()), |partial| partial.finish(&file, File::sync_all))
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
            (Self::Stdout(_), _) => unwritten("stdout", &error),
            (Self::File { path, .. }, _) => unwritten(path.display(), &error),
        })
    }
}

/// The error of what cannot be written.
fn unwritten(what: impl Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write {what}: {error}"))
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
    /// A file beside the one of that name, with its mode; none for a device or a pipe, which is written to as it is.
    fn create(path: &Path) -> io::Result<Option<(File, Self)>> {
        // Of a link, what it leads to is replaced.
        let name = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let found = fs::metadata(&name).ok();
        if found.as_ref().is_some_and(|found| !found.is_file()) {
            return Ok(None);
        }
        let mark = format!(".{:08x}.partial", Uuid::new_v4().as_fields().0);
        let has_room = name.file_name().is_none_or(|name| name.len() + mark.len() <= NAME_BYTES);
        let mut path =
            if has_room { name.clone() } else { name.with_file_name("") }.into_os_string();
        path.push(mark);
        let path = PathBuf::from(path);
        let mut options = OpenOptions::new();
        if let Some(found) = &found {
            system::create_as(&mut options, found);
        }
        let file = options.write(true).create_new(true).open(&path)?;
        let partial = Self { path, name };
        // The process may have a mask, which takes some of it away.
        found.map_or(Ok(()), |found| file.set_permissions(found.permissions()))?;
        Ok(Some((file, partial)))
    }

    /// Gives it its name, once the file is where no crash takes it from.
    fn finish(
        self,
        file: &File,
        mut sync: impl FnMut(&File) -> io::Result<()>,
    ) -> Result<(), CliError> {
        let wrong = |error| unwritten(self.name.display(), &error);
        sync(file).map_err(wrong)?;
        fs::rename(&self.path, &self.name).map_err(wrong)?;
        let parent = self.name.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = system::open_dir(parent.unwrap_or(Path::new(".")));
        match directory.and_then(|directory| sync(&directory)) {
            Err(error)
                if !matches!(error.kind(), PermissionDenied | InvalidInput | Unsupported) =>
            {
                Err(wrong(error).into())
            }
            // A directory that may not be read, or a file system that does not sync them: the file is
            // whole by whichever name a crash leaves it.
            _ => Ok(()),
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After it has its name there is nothing to remove.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_replaces_another_once_it_is_synced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        fs::write(&path, "old").unwrap();
        let made = || {
            let (mut file, partial) = Partial::create(&path).unwrap().unwrap();
            file.write_all(b"new").unwrap();
            (partial, file)
        };
        let (partial, file) = made();
        let failed = partial.finish(&file, |_| Err(io::Error::other("a broken disk")));
        assert!(failed.unwrap_err().to_string().ends_with("/out: a broken disk"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        // Some file systems keep a removed file under another name for who has it open.
        drop(file);
        let (partial, file) = made();
        let mut synced = Vec::new();
        let finished = partial.finish(&file, |file| {
            synced.push((file.metadata()?.is_dir(), fs::read_to_string(&path)?));
            Ok(())
        });
        finished.unwrap();
        assert_eq!(synced, [(false, "old".to_owned()), (true, "new".to_owned())]);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else is left");
    }

    /// Nobody reads what is written who could not read what was there. Unix: others have no modes.
    #[cfg(unix)]
    #[test]
    fn a_file_has_the_mode_of_the_one_that_it_replaces() {
        use std::fs::Permissions;
        use std::os::unix::fs::PermissionsExt;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        fs::write(&path, "old").unwrap();
        for mode in [0o600, 0o640, 0o666, 0o400] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let (file, partial) = Partial::create(&path).unwrap().unwrap();
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, mode);
            partial.finish(&file, File::sync_all).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, mode);
        }
    }
}
