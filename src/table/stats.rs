//! [`Stats`]: a reading of every counter and size (R-E23).

use std::sync::Arc;
use std::time::Duration;

use crate::activity::Activity;
use crate::commit::Pipeline;
use crate::levels::LevelStats;

/// What a database holds and has done since it was opened. Counters are read one after the other:
/// sums over them may be off by the operations under way.
///
/// ```
/// use tablestone::{Database, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let table = database.create_table("people").wait()?;
/// table.insert("de", "karl", "born 1854").wait()?;
/// let stats = database.stats();
/// println!("{} bytes in files, {} stalls", stats.file_bytes(), stats.stalls);
/// assert!(stats.poisoned.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// What was read and written through all tables.
    pub activity: Activity,
    /// Commits, each a single write, a batch or a part of an import.
    pub commits: u64,
    /// Groups of commits written to the log together.
    pub commit_groups: u64,
    /// Commits in the largest group.
    pub largest_group: u64,
    /// Syncs of the log for commits.
    pub syncs: u64,
    /// Bytes of commits written to the log.
    pub log_bytes: u64,
    /// Levels of table files, youngest first.
    pub levels: Vec<LevelStats>,
    /// Bytes of log segments that are kept for the large values in them.
    pub value_bytes: u64,
    /// Bytes of memory for what is kept of open table files, beside the memory budget: less than a
    /// thousandth of their size where neighbouring keys differ within 50 bytes; more where they have more
    /// in common, about 1 % of what is not compressed at 1,000 bytes, and 5 % at 4,000.
    pub index_bytes: u64,
    /// Bytes that memtables and the block cache may take together: the
    /// [memory budget](crate::Options::memory_budget).
    pub memory_budget: u64,
    /// Range deletions that compaction has not applied everywhere yet.
    pub range_tombstones: u64,
    /// Bytes of memtables; each range deletion counts as up to 32 KiB of it.
    pub memtable_bytes: u64,
    /// Memtables that wait for their flush.
    pub frozen_memtables: u64,
    /// Distinct versions that live snapshots hold.
    pub live_snapshots: u64,
    /// Bytes to rewrite before every level is within its target.
    pub compaction_debt_bytes: u64,
    /// Compactions that run or are about to. Some are for space alone, and no debt.
    pub running_compactions: u64,
    /// Flushes of memtables.
    pub flushes: u64,
    /// Bytes of table files that flushes wrote.
    pub flush_bytes: u64,
    /// Tables loaded from rows in key order.
    pub loads: u64,
    /// Bytes of table files that loads wrote.
    pub load_bytes: u64,
    /// Compactions that rewrote files.
    pub compactions: u64,
    /// Bytes that compactions read.
    pub compaction_read_bytes: u64,
    /// Bytes that compactions wrote.
    pub compaction_written_bytes: u64,
    /// Files that went a level down without being rewritten.
    pub files_moved: u64,
    /// Files that a range deletion or a dropped table covered whole, removed unread.
    pub files_dropped_unread: u64,
    /// Look-ups that found their block, or their row, in the cache.
    pub cache_hits: u64,
    /// Look-ups that did not.
    pub cache_misses: u64,
    /// Bytes in the cache.
    pub cache_bytes: u64,
    /// Writes that were made to wait for flushes and compactions.
    pub stalls: u64,
    /// How long they were made to wait, all together.
    pub stall_time: Duration,
    /// Flushes and compactions that failed. They are tried again, but for compactions that found a file damaged:
    /// others leave it out.
    pub background_failures: u64,
    /// Why background work fails at present, if it does: until it was done after all or is no longer to be done, or
    /// the file that it found damaged is gone. Also that the disk is full, as long as the log has no room.
    pub background_error: Option<Arc<str>>,
    /// Why writes wait, if all do: for how long is [`Options::busy_timeout`](crate::Options::busy_timeout). It ends
    /// as flushes and compactions catch up, if there is no `background_error`.
    pub writes_stopped: Option<Arc<str>>,
    /// How large a commit may be for which the disk has room: a larger one waits, and is
    /// [`Error::Busy`](crate::Error::Busy), while others go on. Never less than half of what is in reserve for a full
    /// disk, as that goes in unasked; `None` where the file system does not say how much is free.
    pub commit_room_bytes: Option<u64>,
    /// Why the database is read-only, if it is: the log failed.
    pub poisoned: Option<Arc<str>>,
}

impl Stats {
    pub(super) fn read(pipeline: &Pipeline, activity: Activity) -> Self {
        let commit = pipeline.stats();
        let tree = pipeline.tree().stats();
        let cache = pipeline.tree().cache().stats();
        Self {
            activity,
            commits: commit.commits,
            commit_groups: commit.groups,
            largest_group: commit.largest_group,
            syncs: commit.syncs,
            log_bytes: commit.log_bytes,
            levels: tree.levels,
            value_bytes: tree.value_bytes,
            index_bytes: tree.index_bytes,
            memory_budget: pipeline.options().budget() as u64,
            range_tombstones: tree.range_tombstones,
            memtable_bytes: tree.memtable_bytes,
            frozen_memtables: tree.frozen_memtables,
            live_snapshots: tree.live_snapshots,
            compaction_debt_bytes: tree.compaction_debt_bytes,
            running_compactions: tree.running_compactions,
            flushes: tree.flushes,
            flush_bytes: tree.flush_bytes,
            loads: tree.loads,
            load_bytes: tree.load_bytes,
            compactions: tree.compactions,
            compaction_read_bytes: tree.compaction_read_bytes,
            compaction_written_bytes: tree.compaction_written_bytes,
            files_moved: tree.files_moved,
            files_dropped_unread: tree.files_dropped_unread,
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            cache_bytes: cache.bytes,
            stalls: tree.stalls,
            stall_time: tree.stall_time,
            background_failures: tree.background_failures,
            background_error: tree.last_background_error,
            writes_stopped: pipeline.tree().stopped_by(),
            commit_room_bytes: pipeline.commit_room_bytes(),
            poisoned: pipeline.poisoned(),
        }
    }

    /// Bytes of all table files, and of the log segments kept for the values they refer to.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.bytes).sum::<u64>() + self.value_bytes
    }
}
