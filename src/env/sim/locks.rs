//! [`Locks`]: which files of the simulated disk are locked.
//!
//! Invariant: a file has one holder that is alone, or any number of holders that share it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, Default)]
pub(super) struct Locks(BTreeMap<PathBuf, Held>);

#[derive(Clone, Copy, Debug)]
enum Held {
    Alone,
    /// By that many, one at least.
    Shared(usize),
}

impl Locks {
    pub(super) fn is_taken(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    pub(super) fn take(&mut self, path: &Path) -> io::Result<()> {
        if self.is_taken(path) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.0.insert(path.to_owned(), Held::Alone);
        Ok(())
    }

    pub(super) fn take_shared(&mut self, path: &Path) -> io::Result<()> {
        let holders = match self.0.get(path) {
            Some(Held::Alone) => return Err(io::ErrorKind::WouldBlock.into()),
            Some(Held::Shared(holders)) => holders + 1,
            None => 1,
        };
        self.0.insert(path.to_owned(), Held::Shared(holders));
        Ok(())
    }

    /// One holder lets go.
    pub(super) fn release(&mut self, path: &Path) {
        match self.0.get_mut(path) {
            Some(Held::Shared(holders)) if *holders > 1 => *holders -= 1,
            _ => drop(self.0.remove(path)),
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
