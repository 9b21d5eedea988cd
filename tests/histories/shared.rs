//! What the threads of a history share: the database, the order of what they do, and the machine that crashes.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, RwLock};

use tablestone::env::SimEnv;
use tablestone::{Commit, Database, Options, Result, Table};

use super::event::{Handle, Span, Stamps};
use super::machine::Jitter;
use super::program::TABLES;

pub(crate) struct Shared {
    pub(crate) database: Database,
    pub(crate) options: Options,
    pub(crate) stamps: Stamps,
    pub(crate) jitter: Arc<Jitter>,
    pub(crate) checkpoints: PathBuf,
    pub(crate) checkpoints_made: AtomicU64,
    pub(crate) crashing: Option<Crashing>,
    /// Each table is made by some at the same time, or dropped: so it is known which of several was when, and they may
    /// be loaded. Without, they are made and dropped at the same time.
    pub(crate) phases: Option<[RwLock<()>; TABLES]>,
}

/// A machine whose power goes. Every write tells by a marker what came of it.
pub(crate) struct Crashing {
    pub(crate) machine: SimEnv,
    /// How often it went before.
    pub(crate) lives: u32,
    /// What all threads have that do not make tables themselves.
    pub(crate) tables: Mutex<[Option<(Table, Handle)>; TABLES]>,
}

impl Shared {
    pub(crate) fn new(
        database: Database,
        options: Options,
        checkpoints: PathBuf,
        has_phases: bool,
        crashing: Option<Crashing>,
    ) -> Self {
        Self {
            database,
            options,
            stamps: Stamps::new(),
            jitter: Arc::default(),
            checkpoints,
            checkpoints_made: AtomicU64::new(0),
            phases: (crashing.is_some() || has_phases).then(Default::default),
            crashing,
        }
    }

    pub(crate) fn timed<T>(&self, call: impl FnOnce() -> T) -> (Span, T) {
        let begun = self.stamps.next();
        let result = call();
        (Span { begun, ended: self.stamps.next() }, result)
    }

    /// Waits until tables are as a commit has them: durably where the power goes, as no marker tells of that.
    pub(crate) fn wait<T>(&self, commit: Commit<T>) -> Result<T> {
        if self.crashing.is_some() { commit.durable().wait() } else { commit.wait() }
    }
}
