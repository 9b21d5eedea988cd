//! What a reader looks at: the active memtable, the frozen ones, and the table files.
//!
//! Invariant: a [`View`] never changes. A new one is put in place under the `swap` lock, which is
//! held for no I/O, so freezing a memtable never waits for a disk; readers take no lock at all.
//!
//! Who may see what: a commit's entries go into the memtable that is active when its version is
//! assigned, a freeze happens under the lock that assigns versions, and the commit is published
//! after its entries are in. So a reader that loads the view first and the visible version second
//! may miss entries only if a freeze came between the two; [`Views::read_point`] then starts over.
//! The other order would be wrong: a flush may drop what is older than the visible version it
//! saw, and a reader must not look at the flushed files with an earlier one. A model in `commit/model.rs` has
//! commits, a freeze, a flush and a reader at once.

use std::sync::Arc;

use arc_swap::Guard;

use super::separate::is_mostly_large;
use super::snapshots::Snapshots;
use super::state::LevelState;
use crate::memtable::{ChunkPool, Memtable};
use crate::sync::{ArcSwap, AtomicU64, Mutex, Ordering};
use crate::version::Version;
use crate::wal::SegmentId;

/// A memtable is full when it has this many times as much as is stored already,
const FULL_AT_TIMES_STORED: usize = 2;
/// but not before it has this part of the most that one may have: of little data one is flushed while the next
/// fills, and a flush that is at most so much smaller is not much for compaction to do again.
const FULL_FROM_PART: usize = 4;

/// A memtable that takes no more commits and waits for its flush.
#[derive(Clone)]
pub(crate) struct Frozen {
    pub(crate) memtable: Arc<Memtable>,
    /// Its newest commit; all commits up to this one are here or in what is older.
    pub(crate) last: Version,
    /// No commit after `last` is in an older log segment.
    pub(crate) log_start: SegmentId,
}

/// All the places an entity may be, newest first.
pub(crate) struct View {
    /// Grows with every view put in place.
    pub(crate) generation: u64,
    /// Takes the commits.
    pub(crate) active: Arc<Memtable>,
    /// Newest first.
    pub(crate) frozen: Vec<Frozen>,
    pub(crate) levels: Arc<LevelState>,
    /// The active memtable is to be frozen when it has so many bytes,
    full_at: usize,
    /// or so many, if they are mostly large values, which a flush leaves in the log.
    most: usize,
}

impl View {
    /// A view whose active memtable may have `most` bytes.
    pub(crate) fn new(
        generation: u64,
        active: Arc<Memtable>,
        frozen: Vec<Frozen>,
        levels: Arc<LevelState>,
        most: usize,
    ) -> Self {
        let frozen_bytes: usize = frozen.iter().map(|f| f.memtable.room()).sum();
        let stored = usize::try_from(levels.raw_bytes()).unwrap_or(usize::MAX);
        let stored = stored.saturating_add(frozen_bytes);
        let full_at = stored.saturating_mul(FULL_AT_TIMES_STORED);
        let full_at = full_at.clamp(most / FULL_FROM_PART, most);
        Self { generation, active, frozen, levels, full_at, most }
    }

    /// All memtables, newest first.
    #[inline]
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(self.frozen.iter().map(|frozen| &frozen.memtable))
    }

    /// Whether the active memtable is to be frozen.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        let is_mostly_large = is_mostly_large(&self.active);
        self.active.has_reached(if is_mostly_large { self.most } else { self.full_at })
    }

    /// Bytes of all memtables.
    pub(crate) fn memtable_bytes(&self) -> usize {
        self.memtables().map(|memtable| memtable.bytes()).sum()
    }

    /// Memory that was taken for all memtables, in bytes: never less than is in use, and counted
    /// sooner.
    pub(super) fn memtable_room(&self) -> usize {
        self.memtables().map(|memtable| memtable.room()).sum()
    }
}

/// The current view.
pub(crate) struct Views {
    current: ArcSwap<View>,
    /// That of a view put in place, or one less while it is being put there.
    generation: AtomicU64,
    swap: Mutex<()>,
    /// The most that a memtable may have.
    memtable_bytes: usize,
    /// What memtables leave to each other.
    chunks: Arc<ChunkPool>,
}

impl Views {
    pub(crate) fn new(levels: Arc<LevelState>, memtable_bytes: usize) -> Self {
        let chunks = Arc::new(ChunkPool::for_memtables(memtable_bytes));
        let active = Arc::new(Memtable::after_others(memtable_bytes, &chunks));
        let view = View::new(0, active, Vec::new(), levels, memtable_bytes);
        Self {
            current: ArcSwap::from_pointee(view),
            generation: AtomicU64::new(0),
            swap: Mutex::new(()),
            memtable_bytes,
            chunks,
        }
    }

    #[inline]
    pub(crate) fn load(&self) -> Guard<Arc<View>> {
        self.current.load()
    }

    /// A view and a version at which it is complete.
    #[inline]
    pub(crate) fn read_point(&self, snapshots: &Snapshots) -> (Guard<Arc<View>>, Version) {
        loop {
            let view = self.current.load();
            let visible = snapshots.visible();
            // A view newer than the counter is one that is being put in place: no commit can be
            // in a later one yet.
            if self.generation.load(Ordering::Acquire) <= view.generation {
                return (view, visible);
            }
        }
    }

    /// Replaces the active memtable and queues the old one for its flush. The caller holds the
    /// lock under which versions are assigned. Says whether there was anything to freeze.
    pub(crate) fn freeze(&self, last: Version, log_start: SegmentId) -> bool {
        let fresh = Arc::new(Memtable::after_others(self.memtable_bytes, &self.chunks));
        self.replace(|view| {
            if view.active.is_empty() {
                return None;
            }
            let frozen = Frozen { memtable: Arc::clone(&view.active), last, log_start };
            let frozen = std::iter::once(frozen).chain(view.frozen.iter().cloned()).collect();
            Some((fresh, frozen, Arc::clone(&view.levels)))
        })
    }

    /// Puts a new state of the table files in place, and lets go of the memtables up to `flushed`
    /// that are in them.
    pub(crate) fn install(&self, levels: Arc<LevelState>) {
        self.replace(|view| {
            let flushed = levels.flushed;
            let frozen = view.frozen.iter().filter(|f| f.last > flushed).cloned().collect();
            Some((Arc::clone(&view.active), frozen, levels))
        });
    }

    fn replace(
        &self,
        next: impl FnOnce(&View) -> Option<(Arc<Memtable>, Vec<Frozen>, Arc<LevelState>)>,
    ) -> bool {
        let guard = self.swap.lock();
        let old = self.current.load_full();
        let Some((active, frozen, levels)) = next(&old) else { return false };
        let generation = old.generation + 1;
        let view = View::new(generation, active, frozen, levels, self.memtable_bytes);
        self.current.store(Arc::new(view));
        self.generation.store(generation, Ordering::Release);
        drop(guard);
        // The old view goes after the lock: freeing a memtable takes its time.
        drop(old);
        true
    }
}
