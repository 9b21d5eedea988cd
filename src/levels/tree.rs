//! [`Tree`]: the owner of everything below the commit path.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::Guard;

use super::file::Janitor;
use super::pressure::{Admission, Debt, Tolerance, Turnstile, WaitList, toll};
use super::snapshots::Snapshots;
use super::state::Level;
use super::view::{View, Views};
use crate::cache::BlockCache;
use crate::env::{Clock, Disk, Jobs};
use crate::error::{Corruption, Result};
use crate::metrics::Metrics;
use crate::options::{Options, ReadMode, Sizing};
use crate::version::Version;
use crate::wal::SegmentId;

/// What a tree is opened with.
pub(crate) struct OpenContext<'a> {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) jobs: Arc<dyn Jobs>,
    pub(crate) dir: PathBuf,
    pub(crate) options: &'a Options,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) metrics: Arc<Metrics>,
}

/// A tree, open, and what had to be left out of it.
pub(crate) struct Opened {
    pub(crate) tree: Arc<Tree>,
    /// Only under [`Recovery::Salvage`](crate::Recovery::Salvage).
    pub(crate) set_aside: Vec<SetAside>,
}

/// A damaged or missing file that salvage left out.
#[derive(Debug)]
pub(crate) struct SetAside {
    pub(crate) corruption: Corruption,
    /// Its new name, if it was there at all.
    pub(crate) renamed: Option<PathBuf>,
    /// First and last key, for a table file.
    pub(crate) range: Option<(Box<[u8]>, Box<[u8]>)>,
    /// Entries that were in a table file.
    pub(crate) entries: u64,
}

/// How far the table files reach, after a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flushed {
    /// Commits up to this one are in table files.
    pub(crate) version: Version,
    /// Log segments before this one are no longer needed; this one and later ones are.
    pub(crate) log_start: SegmentId,
}

/// Called after each flush, on the thread that flushed, with no lock held.
pub(crate) type OnFlushed = Box<dyn Fn(Flushed) + Send + Sync>;

/// Memtables, table files, and the background work that moves entries from the ones to the others.
pub(crate) struct Tree {
    pub(super) this: Weak<Self>,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) jobs: Arc<dyn Jobs>,
    pub(super) dir: PathBuf,
    pub(super) cache: Arc<BlockCache>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) sizing: Sizing,
    pub(super) zstd: Option<i32>,
    pub(super) read_mode: ReadMode,
    pub(super) compaction_threads: usize,
    pub(super) views: Views,
    pub(super) snapshots: Snapshots,
    pub(super) janitor: Arc<Janitor>,
    pub(super) next_file: AtomicU64,
    pub(super) waiters: WaitList,
    pub(super) turnstile: Turnstile,
    pub(super) on_flushed: OnceLock<OnFlushed>,
}

impl Tree {
    /// Opens the files of a directory, or an empty tree for one that holds no database yet. Changes
    /// nothing there but, under salvage, the names of damaged files.
    pub(crate) fn open(_context: OpenContext<'_>) -> Result<Opened> {
        unimplemented!()
    }

    /// Begins background work, once the log was replayed: makes a new database exist, removes
    /// files that are not part of the tree.
    pub(crate) fn start(&self) -> Result<()> {
        unimplemented!()
    }

    /// Whether the directory held no database.
    pub(crate) fn is_new(&self) -> bool {
        unimplemented!()
    }

    /// The log segment that replay begins at. In a new database it need not exist.
    pub(crate) fn log_start(&self) -> SegmentId {
        self.views.load().levels.log_start
    }

    /// Commits up to this one are in table files: replay skips them.
    pub(crate) fn flushed(&self) -> Version {
        self.views.load().levels.flushed
    }

    /// To be called once, before [`start`](Tree::start).
    pub(crate) fn set_on_flushed(&self, hook: OnFlushed) {
        let _ = self.on_flushed.set(hook);
    }

    /// The newest view; good for reads at the version of a live snapshot, and at
    /// [`Version::MAX`] for what no reader may see yet.
    #[inline]
    pub(crate) fn view(&self) -> Guard<Arc<View>> {
        self.views.load()
    }

    /// A view and the newest version to read in it: every commit up to it is there.
    #[inline]
    pub(crate) fn read_point(&self) -> (Guard<Arc<View>>, Version) {
        self.views.read_point(&self.snapshots)
    }

    /// Commits up to this one are visible.
    #[inline]
    pub(crate) fn visible(&self) -> Version {
        self.snapshots.visible()
    }

    /// Makes commits up to `version` visible; all their entries are in memtables.
    #[inline]
    pub(crate) fn publish(&self, version: Version) {
        self.snapshots.publish(version);
    }

    /// To be called after [`publish`](Tree::publish), when convenient: starts a flush if a frozen
    /// memtable has become visible.
    pub(crate) fn on_published(&self) {
        unimplemented!()
    }

    /// Freezes the active memtable, whose newest commit is `last`. The caller holds the lock under
    /// which versions are assigned; later versions go to log segments from `log_start` on.
    pub(crate) fn freeze(&self, last: Version, log_start: SegmentId) {
        self.views.freeze(last, log_start);
    }

    /// Holds what is visible now until it is released.
    pub(crate) fn register_snapshot(&self) -> Version {
        self.snapshots.register()
    }

    /// Ends a registration.
    pub(crate) fn release_snapshot(&self, version: Version) {
        self.snapshots.release(version);
    }

    /// Flushes, on this thread, what is frozen and visible.
    pub(crate) fn flush_now(&self) -> Result<()> {
        unimplemented!()
    }

    /// Compacts everything that is flushed into one level, on this thread.
    pub(crate) fn compact_all(&self) -> Result<()> {
        unimplemented!()
    }

    /// Whether a write of that many bytes may go on. Reserves its turn if it must wait for one.
    pub(crate) fn admit(&self, bytes: usize) -> Admission {
        let debt = self.debt(&self.views.load());
        let tolerance = Tolerance {
            memtables_bytes: self.sizing.memtables_bytes,
            level_base_bytes: self.sizing.level_base_bytes,
        };
        let (share, reason) = debt.share(&tolerance);
        if share <= 0.0 {
            return Admission::Go;
        }
        self.metrics.stalls.add(1);
        let Some(toll) = toll(share, bytes) else {
            return Admission::Blocked(self.blocked_reason(reason));
        };
        let wait = self.turnstile.reserve(self.clock.monotonic(), toll);
        self.metrics.stall_nanos.add_time(wait);
        Admission::Wait(wait)
    }

    fn blocked_reason(&self, waits_for: &str) -> Arc<str> {
        match self.last_background_error() {
            Some(error) => format!("{waits_for}, which fails: {error}").into(),
            None => waits_for.into(),
        }
    }

    /// Who is woken when debt falls.
    pub(crate) fn waiters(&self) -> &WaitList {
        &self.waiters
    }

    pub(crate) fn last_background_error(&self) -> Option<Arc<str>> {
        unimplemented!()
    }

    pub(super) fn debt(&self, view: &View) -> Debt {
        Debt {
            memtable_bytes: view.memtable_bytes(),
            level_0_files: view.levels.level(Level::ZERO).len(),
            compaction_bytes: 0,
        }
    }
}
