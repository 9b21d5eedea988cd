//! What is known of damaged table files: no task reads one again in vain, and who asks is told while it is there.
//!
//! Invariant: a file is known to be damaged from when a task found it so. It does not heal, but a range tombstone that has
//! come since may have what is damaged passed over.

use std::collections::HashMap;
use std::sync::Arc;

use super::compaction::Inputs;
use super::file::TableFile;
use super::picker::Task;
use super::state::LevelState;
use crate::error::{Corruption, Error};
use crate::sst::FileId;
use crate::version::Version;

/// The files that tasks found damaged.
#[derive(Debug, Default)]
pub(super) struct Damaged(HashMap<FileId, Known>);

#[derive(Clone, Debug)]
struct Known {
    cause: Arc<str>,
    tried: Version,
}

impl Damaged {
    /// Notes what a task that applied range tombstones up to a version failed of, if it was damage of what it
    /// read; says whether.
    pub(super) fn note(&mut self, task: &Task, error: &Error, tried: Version) -> bool {
        let (Error::Corruption(corruption), Some(inputs)) = (error, task.read()) else {
            return false;
        };
        let known = Known { cause: error.chain(), tried };
        self.0.extend(found_in(inputs, corruption).into_iter().map(|id| (id, known.clone())));
        true
    }

    /// Up to which version range tombstones had been applied to a file when it was found damaged, if it was.
    pub(super) fn tried(&self, file: &TableFile) -> Option<Version> {
        self.0.get(&file.id()).map(|known| known.tried)
    }

    /// Damage of a file that is part of the tree.
    pub(super) fn cause(&self, state: &LevelState) -> Option<Arc<str>> {
        state.files().find_map(|(_, file)| Some(Arc::clone(&self.0.get(&file.id())?.cause)))
    }
}

/// The inputs that damage was found in: the file it names, or else any of them.
fn found_in(inputs: &Inputs, corruption: &Corruption) -> Vec<FileId> {
    match inputs.all().find(|file| file.path() == corruption.file) {
        Some(file) => vec![file.id()],
        None => inputs.ids(),
    }
}
