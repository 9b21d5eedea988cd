//! [`TreeStats`]: the tree in numbers, at one instant (R-E23).

use std::sync::Arc;
use std::time::Duration;

use super::Tree;
use super::state::Level;

/// One level of table files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelStats {
    /// Number of files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their entries, deletions and older versions included.
    pub entries: u64,
    /// Deletions among the entries.
    pub tombstones: u64,
}

/// The tree in numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct TreeStats {
    /// Youngest first.
    pub(crate) levels: Vec<LevelStats>,
    /// Memory of open table files.
    pub(crate) index_bytes: u64,
    /// Bytes of log segments that are kept for their values.
    pub(crate) value_bytes: u64,
    pub(crate) range_tombstones: u64,
    pub(crate) memtable_bytes: u64,
    pub(crate) frozen_memtables: u64,
    pub(crate) live_snapshots: u64,
    /// Bytes to rewrite before every level is within its target.
    pub(crate) compaction_debt_bytes: u64,
    /// Tasks that are queued or run.
    pub(crate) running_compactions: u64,
    pub(crate) flushes: u64,
    pub(crate) flush_bytes: u64,
    pub(crate) loads: u64,
    pub(crate) load_bytes: u64,
    pub(crate) compactions: u64,
    pub(crate) compaction_read_bytes: u64,
    pub(crate) compaction_written_bytes: u64,
    pub(crate) files_moved: u64,
    pub(crate) files_dropped_unread: u64,
    pub(crate) background_failures: u64,
    pub(crate) stalls: u64,
    pub(crate) stall_time: Duration,
    /// Why background work fails at present, if it does.
    pub(crate) last_background_error: Option<Arc<str>>,
}

impl Tree {
    pub(crate) fn stats(&self) -> TreeStats {
        let view = self.views.load();
        let m = &self.metrics;
        let levels = Level::all().map(|level| {
            view.levels.level(level).iter().fold(LevelStats::default(), |sum, file| LevelStats {
                files: sum.files + 1,
                bytes: sum.bytes + file.meta.bytes,
                entries: sum.entries + file.meta.entries,
                tombstones: sum.tombstones + file.meta.tombstones,
            })
        });
        TreeStats {
            levels: levels.collect(),
            index_bytes: view.levels.files().map(|(_, f)| f.reader.pinned_bytes() as u64).sum(),
            value_bytes: view.levels.values.bytes(),
            range_tombstones: view.levels.range_tombstones.iter().count() as u64,
            memtable_bytes: view.memtable_bytes() as u64,
            frozen_memtables: view.frozen.len() as u64,
            live_snapshots: self.snapshots.len() as u64,
            compaction_debt_bytes: self.debt(&view).compaction_bytes,
            running_compactions: self.running_compactions(),
            flushes: m.flushes.get(),
            flush_bytes: m.flush_bytes.get(),
            loads: m.loads.get(),
            load_bytes: m.load_bytes.get(),
            compactions: m.compactions.get(),
            compaction_read_bytes: m.compaction_read_bytes.get(),
            compaction_written_bytes: m.compaction_written_bytes.get(),
            files_moved: m.files_moved.get(),
            files_dropped_unread: m.files_dropped_unread.get(),
            background_failures: m.background_failures.get(),
            stalls: m.stalls.get(),
            stall_time: m.stall_nanos.time(),
            last_background_error: self.last_background_error(),
        }
    }
}
