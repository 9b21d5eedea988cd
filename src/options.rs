//! [`Options`]: the few knobs of a database, each with its unit, default and reason.
//!
//! Sizes inside the engine (memtable, log segment, file, level) are derived from the memory
//! budget in [`Sizing`], so that a test reaches every level with a small budget.

use std::sync::Arc;
use std::time::Duration;

use crate::entity::EntityLimits;
use crate::env::{Env, RealEnv};
use crate::error::{Corruption, Error, Result};
use crate::reference::LARGE_VALUE_BYTES;

/// When a commit is acknowledged (R-E10), unless it asks for more: [`Commit::durable`](crate::Commit::durable).
///
/// ```
/// use std::time::Duration;
/// use tablestone::{Durability, Options};
///
/// // A power cut may take the last tenth of a second; a killed process loses nothing.
/// let options = Options::default().durability(Durability::Interval(Duration::from_millis(100)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// Once it is synced: it survives power loss. The default.
    #[default]
    Sync,
    /// Once it is written to the operating system, which is synced at least this often, more than zero: a power
    /// loss takes at most that long a tail of the commits, and what came while it was being synced (in the time
    /// of two syncs, where one takes longer than this); a killed process nothing.
    Interval(Duration),
    /// Once it is written to the operating system, which syncs when it likes; Linux, by default, what has been
    /// there for half a minute. A power loss takes a tail of the commits, at most what is not in table files
    /// yet (half of the memory budget); a killed process nothing.
    Os,
}

/// How data blocks are compressed.
///
/// ```
/// use tablestone::{Compression, Options};
///
/// let smallest = Options::default().compression(Compression::Zstd(9));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// The default, for speed: zstd at level 1 in the levels below the youngest two, but of each only
    /// once it and those above it have as many bytes of keys and values as the memory budget. Until then
    /// the space would be of little use, and reads are faster without. What was written by then, about a
    /// memory budget of it, is compressed when it is rewritten; and when nothing else is to be done, once there
    /// is four times the memory budget, or what the process may have beside it if that is known and less
    /// ([`Disk::memory_bytes`](crate::env::Disk::memory_bytes)): then the youngest two levels are too, after five
    /// seconds in which nothing was flushed or compacted. While compactions are far behind, the youngest of the
    /// levels that are compressed is written plain too, for speed, and compressed as they catch up.
    #[default]
    Automatic,
    /// Not at all.
    None,
    /// For space: zstd at this level (1 to 19) in all table files that are written from now on; those that
    /// are there uncompressed follow when nothing else is to be done. Of rows that compress to two fifths,
    /// a load in random order writes three fifths of the bytes that it writes by default and leaves two
    /// fifths of the space; it takes up to twice as long, gets and pages one and a half times, a scan of
    /// more than the memory budget holds four (DESIGN.md, 9.7).
    Zstd(i32),
}

/// How sealed table files are read, and whether a log that nobody syncs is written through a map.
///
/// ```
/// use tablestone::{Options, ReadMode};
///
/// let careful = Options::default().read_mode(ReadMode::Pread);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadMode {
    /// Mapped into memory: fastest while the data fits into memory. An I/O error on a mapped
    /// page ends the process, on Unix with SIGBUS. Unless commits are synced, the log's newest files are written through
    /// maps as well, on Linux where the file system is ext4 or XFS. Files for which the system has no map are read
    /// with positioned reads.
    #[default]
    Mmap,
    /// Read with positioned reads into the block cache: every I/O error is an [`Error`]. Files are written
    /// by system calls alone.
    Pread,
}

/// What opening does about damage.
///
/// ```
/// use tablestone::{Database, Options, Recovery};
///
/// # fn main() -> Result<(), tablestone::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// let database = Database::open(dir.path(), Options::default().recovery(Recovery::Salvage))?;
/// for damage in &database.recovery_report().lost {
///     println!("{damage}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovery {
    /// Trims a torn tail of the log, and reports it: no commit that was acknowledged under
    /// [`Durability::Sync`] can be in it. Any other damage is an error that leaves all files as they are. The
    /// default.
    #[default]
    Strict,
    /// Keeps what is provably whole, sets damaged files aside under the name extension
    /// `damaged`, and reports what is lost in [`RecoveryReport`](crate::RecoveryReport). Of a damaged table file
    /// the blocks that are whole become a new one. Opening reads on behind what the device fails to read, which is
    /// damage then; no file that is there is mapped. Where the manifest
    /// is damaged, all table files are merged into new ones, which takes their space twice for that time. What
    /// is whole is there then. What was overwritten or deleted may show again, where that is among what is lost;
    /// so may what was deleted by a range (a partition, a table), as only
    /// the manifest has some of that, or in files that had been replaced and were not removed yet. If it is cut
    /// off, by power or an error, it has to be done again: until then any other opening is refused.
    Salvage,
}

impl Recovery {
    /// The damage that an opening goes on without: any under [`Salvage`](Self::Salvage).
    ///
    /// # Errors
    /// The error itself, if it is no damage, or the opening is strict.
    pub(crate) fn tolerate(self, error: Error) -> Result<Corruption> {
        match error {
            Error::Corruption(damage) if self == Self::Salvage => Ok(*damage),
            error => Err(error),
        }
    }
}

/// How to open a database. The defaults suit a server; tests mostly set `memory_budget` and `env`.
///
/// ```
/// use tablestone::{Durability, Options};
/// let options = Options::default().memory_budget(64 << 20).durability(Durability::Os);
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    memory_budget: Option<usize>,
    pub(crate) durability: Durability,
    pub(crate) compression: Compression,
    pub(crate) read_mode: ReadMode,
    pub(crate) recovery: Recovery,
    pub(crate) create_if_missing: bool,
    pub(crate) read_only: bool,
    pub(crate) background_threads: usize,
    pub(crate) busy_timeout: Duration,
    pub(crate) page_entities: usize,
    pub(crate) page_bytes: usize,
    pub(crate) batch_operations: usize,
    pub(crate) batch_bytes: usize,
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    pub(crate) entity_limits: EntityLimits,
    pub(crate) large_value_bytes: usize,
    pub(crate) env: Arc<dyn Env>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory_budget: None,
            durability: Durability::default(),
            compression: Compression::default(),
            read_mode: ReadMode::default(),
            recovery: Recovery::default(),
            create_if_missing: true,
            read_only: false,
            background_threads: 2,
            busy_timeout: Duration::from_secs(10),
            page_entities: 1_000,
            page_bytes: 4 << 20,
            batch_operations: 100,
            batch_bytes: 4 << 20,
            key_bytes: 2 << 10,
            value_bytes: 2 << 20,
            entity_limits: EntityLimits::default(),
            large_value_bytes: LARGE_VALUE_BYTES,
            env: Arc::new(RealEnv::new()),
        }
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {
        impl Options {
            $($(#[$doc])* #[must_use] pub fn $name(mut self, $name: $type) -> Self {
                self.$name = $name;
                self
            })*
        }
    };
}

setters! {
    /// When a commit is acknowledged. Default [`Durability::Sync`].
    durability: Durability;
    /// Compression of data blocks. Default [`Compression::Automatic`].
    compression: Compression;
    /// How table files are read. Default [`ReadMode::Mmap`].
    read_mode: ReadMode;
    /// What opening does about damage. Default [`Recovery::Strict`].
    recovery: Recovery;
    /// Whether opening makes a database, and its directory, where there is none. Default `true`; without,
    /// it is [`Error::NotADatabase`].
    create_if_missing: bool;
    /// Whether what is there is only read, and nothing in the directory changes, which may so be on a medium that
    /// cannot be written to. Any number of such openings may be there at once, but none beside one that writes:
    /// whichever comes later is [`Error::Locked`]. What writes, flushes or syncs is [`Error::ReadOnly`]. The log
    /// is read into memory, which takes as much as the memtables did of whoever wrote it: up to half of its memory
    /// budget. What is read may not be durable yet, if nobody opened the database to write since it was killed.
    /// Nothing is created ([`Error::NotADatabase`]), and nothing salvaged ([`Error::InvalidArgument`]). Default
    /// `false`.
    read_only: bool;
    /// Threads that compact. Default 2. As many more help with loads, where there are processors for
    /// them. With 0 nothing is compacted except by
    /// [`Database::compact`](crate::Database::compact); what is written piles up until writes are
    /// [`Error::Busy`].
    background_threads: usize;
    /// How long a write waits under overload before [`Error::Busy`], from the call that made its handle on,
    /// whenever that is waited for. Default 10 s (R-E24).
    busy_timeout: Duration;
    /// Entities in a page, unless the query says less. Default 1,000, as the service (R-E12).
    page_entities: usize;
    /// Stored bytes in a page, unless the query says less. Default 4 MiB, as the service; more than
    /// 1 GiB is taken as that.
    page_bytes: usize;
    /// Operations in a batch. Default 100, as the service (R-E07).
    batch_operations: usize;
    /// Bytes of keys and values in a batch, and of what its merges make of it unless it says more
    /// ([`Batch::merged_bytes`](crate::Batch::merged_bytes)). Default 4 MiB, as the service; at most 1 GiB.
    batch_bytes: usize;
    /// Bytes of a PartitionKey, and of a RowKey. Default 2 KiB (R-E02); at most 16 KiB.
    key_bytes: usize;
    /// Bytes of a stored value. Default 2 MiB: an entity of 1 MiB as the service counts, in UTF-16,
    /// may be 1.5 MiB of UTF-8 (R-D04). At most 64 MiB.
    value_bytes: usize;
    /// How large an entity may be that is written. Default the service's limits, see [`EntityLimits`]
    /// (R-D01, R-D02, R-D04, W-091).
    entity_limits: EntityLimits;
    /// The machine to run on. Default [`RealEnv`].
    env: Arc<dyn Env>;
}

impl Options {
    /// Bytes for memtables and block cache together: a memtable is an eighth, but at most 64 MiB, two of
    /// them have their room always, and the cache has what they leave, of which a 96th at most is taken at
    /// once. Default 256 MiB, or, where that is less, a quarter of what the process may have
    /// ([`Disk::memory_bytes`](crate::env::Disk::memory_bytes)), though at least 8 MiB. It may be 64 KiB to
    /// 16 TiB, to 1 GiB where addresses have 32 bits; of what is more than that memory no more than it counts.
    #[must_use]
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.memory_budget = Some(bytes);
        self
    }

    /// The memory budget: the default is known once the options were [made to fit](Self::fit).
    pub(crate) fn budget(&self) -> usize {
        self.memory_budget.unwrap_or(DEFAULT_MEMORY)
    }

    /// Settles the memory budget for a process that may have `memory` bytes.
    pub(crate) fn fit(&mut self, memory: Option<u64>) {
        let most = memory.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX);
        let fitting = (most / DEFAULT_PART).clamp(LEAST_DEFAULT_MEMORY, DEFAULT_MEMORY);
        let most = most.max(LEAST_DEFAULT_MEMORY);
        self.memory_budget = Some(self.memory_budget.map_or(fitting, |said| said.min(most)));
    }

    /// From which length on values stay where the log wrote them. For tests, which would take long
    /// with large values.
    #[doc(hidden)]
    #[must_use]
    pub fn large_value_bytes(mut self, large_value_bytes: usize) -> Self {
        self.large_value_bytes = large_value_bytes.max(1);
        self
    }

    /// Says which option is out of its range.
    pub(crate) fn check(&self) -> Result<()> {
        let zstd = match self.compression {
            Compression::Automatic | Compression::None => 1,
            Compression::Zstd(level) => level,
        };
        let checks = [
            (
                (64 << 10..=MOST_MEMORY).contains(&(self.budget() as u64)),
                "memory_budget must be 64 KiB to 16 TiB, to 1 GiB on 32 bits",
            ),
            ((1..=19).contains(&zstd), "the zstd level must be 1 to 19"),
            (
                self.durability != Durability::Interval(Duration::ZERO),
                "a sync interval must be positive",
            ),
            (
                !(self.read_only && self.recovery == Recovery::Salvage),
                "what is opened to be read only cannot be salvaged",
            ),
            (self.page_entities >= 1, "page_entities must be at least 1"),
            (self.page_bytes >= 1, "page_bytes must be at least 1"),
            (self.batch_operations >= 1, "batch_operations must be at least 1"),
            (self.batch_bytes <= MOST_BATCH_BYTES, "batch_bytes must be at most 1 GiB"),
            ((1..=MOST_KEY_BYTES).contains(&self.key_bytes), "key_bytes must be 1 to 16 KiB"),
            ((1..=64 << 20).contains(&self.value_bytes), "value_bytes must be 1 to 64 MiB"),
        ];
        check_rules(checks.into_iter().chain(self.entity_limits.rules()))
    }

    pub(crate) fn sizing(&self) -> Sizing {
        let budget_bytes = self.budget();
        let memtable_bytes = (budget_bytes / 8).clamp(8 << 10, 64 << 20);
        Sizing {
            memtable_bytes,
            memtables_bytes: (budget_bytes / 2).max(2 * memtable_bytes),
            budget_bytes,
            segment_bytes: memtable_bytes.max(64 << 10) as u64,
            file_bytes: memtable_bytes as u64,
            level_base_bytes: 4 * memtable_bytes as u64,
        }
    }
}

/// Says which of these rules does not hold.
pub(crate) fn check_rules(rules: impl IntoIterator<Item = (bool, &'static str)>) -> Result<()> {
    match rules.into_iter().find(|(holds, _)| !holds) {
        Some((_, rule)) => Err(Error::InvalidArgument(rule.into())),
        None => Ok(()),
    }
}

/// The memory budget unless it was said, where the process may have so much that this is
/// [this part](DEFAULT_PART) of it.
const DEFAULT_MEMORY: usize = 256 << 20;
/// More leaves pages of files little: with 256 MiB for the process a server has 0.9 of the rate with half of them, and
/// with all 0.6 to 0.9 of the gets and a tenth of the ranges (DESIGN.md, 10.1).
const DEFAULT_PART: usize = 4;
/// The budget is not less by itself.
const LEAST_DEFAULT_MEMORY: usize = 8 << 20;
/// No memory budget is larger.
const MOST_MEMORY: u64 = if usize::BITS < 64 { 1 << 30 } else { 16 << 40 };
/// No batch is larger, whatever it may be: it is one record of the log.
pub(crate) const MOST_BATCH_BYTES: usize = 1 << 30;
/// No PartitionKey or RowKey is longer, whatever the options are or were.
pub(crate) const MOST_KEY_BYTES: usize = 16 << 10;

/// Sizes derived from the memory budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizing {
    /// A memtable is frozen when it reaches this, of little data sooner.
    pub(crate) memtable_bytes: usize,
    /// Writers wait when all memtables together reach this.
    pub(crate) memtables_bytes: usize,
    /// What memtables and the block cache may take together.
    budget_bytes: usize,
    /// A log segment is sealed when it reaches this.
    pub(crate) segment_bytes: u64,
    /// Compaction ends an output file at about this size.
    pub(crate) file_bytes: u64,
    /// Target size of level 1; each level below is ten times larger.
    pub(crate) level_base_bytes: u64,
}

impl Sizing {
    /// What the block cache may hold beside memtables that take so many bytes. Two of them have their
    /// room always, the one that fills and one that is flushed, so that it changes only for more.
    pub(crate) fn cache_bytes(&self, memtables: usize) -> usize {
        let two = 2 * self.memtable_bytes;
        self.budget_bytes.saturating_sub(memtables.clamp(two, self.memtables_bytes))
    }
}
