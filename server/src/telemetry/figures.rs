//! What is shown of the engine: each figure with its name, and how it is read from [`Stats`].

use tablestone::{LevelStats, Stats};

/// What the engine counts: name, what it is, how it is read.
type EngineCounter = (&'static str, &'static str, fn(&Stats) -> u64);

pub(super) const ENGINE_COUNTERS: [EngineCounter; 17] = [
    ("tablestone_engine_reads_total", "Gets and pages", |s| s.activity.reads),
    ("tablestone_engine_rows_read_total", "Entities that they found", |s| s.activity.rows_read),
    ("tablestone_engine_read_bytes_total", "Stored bytes of these", |s| s.activity.bytes_read),
    ("tablestone_engine_examined_total", "Entries that pages looked at", |s| s.activity.examined),
    ("tablestone_engine_rows_written_total", "Entities stored and deleted", |s| {
        s.activity.rows_written
    }),
    ("tablestone_engine_written_bytes_total", "Stored bytes of these", |s| {
        s.activity.bytes_written
    }),
    ("tablestone_engine_failed_writes_total", "Writes that changed nothing", |s| {
        s.activity.failed_writes
    }),
    ("tablestone_engine_commits_total", "Commits", |s| s.commits),
    ("tablestone_engine_commit_groups_total", "Groups of commits", |s| s.commit_groups),
    ("tablestone_engine_syncs_total", "Syncs of the log", |s| s.syncs),
    ("tablestone_engine_log_bytes_total", "Bytes written to the log", |s| s.log_bytes),
    ("tablestone_engine_flush_bytes_total", "Bytes written by flushes", |s| s.flush_bytes),
    ("tablestone_engine_compaction_bytes_total", "Bytes written by compactions", |s| {
        s.compaction_written_bytes
    }),
    ("tablestone_engine_cache_hits_total", "Blocks found in the cache", |s| s.cache_hits),
    ("tablestone_engine_cache_misses_total", "Blocks not found there", |s| s.cache_misses),
    ("tablestone_engine_stalls_total", "Writes that had to wait", |s| s.stalls),
    ("tablestone_engine_background_failures_total", "Failed flushes and compactions", |s| {
        s.background_failures
    }),
];

/// What the engine has: name, what it is, how it is read.
type EngineGauge = (&'static str, &'static str, fn(&Stats) -> f64);

pub(super) const ENGINE_GAUGES: [EngineGauge; 12] = [
    ("tablestone_engine_file_bytes", "Bytes of table files", |s| s.file_bytes() as f64),
    ("tablestone_engine_files", "Table files", |s| {
        s.levels.iter().map(|level| level.files).sum::<u64>() as f64
    }),
    ("tablestone_engine_entries", "Entries in table files", |s| {
        s.levels.iter().map(|level| level.entries).sum::<u64>() as f64
    }),
    (
        "tablestone_engine_index_bytes",
        "Bytes of memory for what is kept of open table files",
        |s| s.index_bytes as f64,
    ),
    ("tablestone_engine_range_deletions", "Range deletions not applied everywhere yet", |s| {
        s.range_tombstones as f64
    }),
    ("tablestone_engine_memory_budget_bytes", "Bytes that memtables and the cache may take", |s| {
        s.memory_budget as f64
    }),
    ("tablestone_engine_memtable_bytes", "Bytes of memtables", |s| s.memtable_bytes as f64),
    ("tablestone_engine_compaction_debt_bytes", "Bytes to be rewritten", |s| {
        s.compaction_debt_bytes as f64
    }),
    ("tablestone_engine_running_compactions", "Compactions that run", |s| {
        s.running_compactions as f64
    }),
    ("tablestone_engine_cache_bytes", "Bytes of the cache", |s| s.cache_bytes as f64),
    (
        "tablestone_engine_commit_room_bytes",
        "How large a commit may be for which the disk has room",
        |s| s.commit_room_bytes.map_or(f64::INFINITY, |bytes| bytes as f64),
    ),
    ("tablestone_engine_read_only", "1 if the log failed, and only reads go on", |s| {
        f64::from(u8::from(s.poisoned.is_some()))
    }),
];

/// Figures of a level of table files, which is their label: name, what it is, how it is read.
type LevelFigure = (&'static str, &'static str, fn(&LevelStats) -> f64);

pub(super) const LEVEL: [LevelFigure; 4] = [
    ("tablestone_engine_level_files", "Table files of a level", |level| level.files as f64),
    ("tablestone_engine_level_bytes", "Bytes of these", |level| level.bytes as f64),
    ("tablestone_engine_level_entries", "Entries in them", |level| level.entries as f64),
    ("tablestone_engine_level_deletions", "Deletions among these", |level| level.tombstones as f64),
];
