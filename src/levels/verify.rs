//! Reading every table file through, and telling what is wrong with each.

use std::sync::Arc;

use super::tree::Tree;
use crate::env::ReadAround;
use crate::error::{Corruption, Error, IoError, Result};

impl Tree {
    /// Reads every table file through: all checksums, the order of all entries (R-E22).
    pub(crate) fn verify(&self) -> Result<()> {
        let levels = Arc::clone(&self.views.load().levels);
        levels.files().try_for_each(|(_, file)| file.verify(&levels.values))
    }

    /// As [`verify`](Self::verify), but goes on: the first damage of each file, or of a value it refers to, and
    /// all that the device fails to read.
    pub(crate) fn damage(&self) -> Result<Vec<Corruption>> {
        let levels = Arc::clone(&self.views.load().levels);
        let mut found = Vec::new();
        for (_, file) in levels.files() {
            match file.verify(&levels.values) {
                Err(Error::Corruption(damage)) => found.push(*damage),
                Err(Error::Io(io)) if io.action == "read" => {
                    // Many files may refer to the values of one.
                    if found.iter().all(|damage| damage.file != io.path) {
                        found.extend(self.unreadable(*io)?);
                    }
                }
                verified => verified?,
            }
        }
        Ok(found)
    }

    /// What the device fails to read of a file that could not be read; the error, if it now can.
    fn unreadable(&self, io: IoError) -> Result<Vec<Corruption>> {
        let around = ReadAround::new(Arc::clone(&self.disk));
        around.survey(&io.path).map_err(|e| Error::io("read", &io.path, e))?;
        let unreadable = around.take_unreadable();
        if unreadable.is_empty() {
            return Err(Error::Io(Box::new(io)));
        }
        Ok(unreadable.into_iter().map(Corruption::unreadable).collect())
    }
}
