//! Opening: lock, manifest, log replay, and a pipeline over what was found.
//!
//! Invariant: every commit that was acknowledged under sync is in the tree when this returns, in
//! order, whole; nothing after a gap in the log is. A strict opening that fails has changed no
//! file.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use super::pipeline::Pipeline;
use super::replay::{Target, replaying};
use super::reserve::{self, RESERVE_FILE, Reserve};
use crate::cache::BlockCache;
use crate::env::{Disk, Env, Jobs, LockGuard, ReadOnly, SimEnv};
use crate::error::{Corruption, Error, Result};
use crate::levels::{self, OpenContext, Opened as OpenedTree, Tree};
use crate::options::{Durability, Options, ReadMode};
use crate::version::Version;
use crate::wal::{self, Reach, SegmentId};

/// The file whose lock says that the directory is open.
pub(super) const LOCK_FILE: &str = "LOCK";

/// What opening a database found and did.
///
/// ```
/// use tablestone::{Database, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let report = database.recovery_report();
/// println!("{} commits were read back from the log", report.replayed_commits);
/// if let Some(tail) = &report.torn_tail {
///     println!("{tail:?} was cut off: nothing in it was acknowledged under `Durability::Sync`");
/// }
/// assert!(report.lost.is_empty(), "only `Recovery::Salvage` opens what is damaged");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Commits that were read back from the log.
    pub replayed_commits: u64,
    /// Bytes of log they took.
    pub replayed_bytes: u64,
    /// The torn tail that was trimmed from the log, if there was one; which stays there if the database was
    /// opened to be [read only](crate::Options::read_only).
    pub torn_tail: Option<TornTail>,
    /// With [`Recovery::Salvage`](crate::Recovery::Salvage): the damage whose data is lost.
    pub lost: Vec<Corruption>,
    /// With [`Recovery::Salvage`](crate::Recovery::Salvage): tables whose names were lost, under the
    /// names that they were given instead: `recovered-` and a number, and another one where that is taken. After a
    /// salvage that was cut off, those that it or an earlier one had given are among them.
    pub renamed_tables: Vec<String>,
}

/// A torn tail: bytes of writes that were under way, and not synced, when the machine stopped: of no commit
/// that was acknowledged under [`Durability::Sync`]. It goes from a place in one log segment to the end of the log.
///
/// See [`RecoveryReport`] for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The log segment that it begins in; what was in later ones is gone with it.
    pub file: std::path::PathBuf,
    /// Where the tail began, in bytes from the file's start.
    pub offset: u64,
    /// Its length in bytes, over all segments; at most, where a segment was used before.
    pub bytes: u64,
}

/// An opened database, before its front door.
pub(crate) struct Opened {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) jobs: Arc<dyn Jobs>,
    pub(crate) lock: Box<dyn LockGuard>,
    pub(crate) report: RecoveryReport,
}

/// Opens the database in `dir`, creating it if the directory is empty or missing, unless that is not wanted.
pub(crate) fn open(dir: &Path, mut options: Options) -> Result<Opened> {
    options.check()?;
    let mut disk = options.env.disk();
    options.fit(disk.memory_bytes());
    if options.read_only {
        disk = Arc::new(ReadOnly::new(disk));
    }
    if options.read_only || !options.create_if_missing {
        refuse_missing(&*disk, dir)?;
    }
    let lock = lock(&*disk, dir)?;
    let compaction_threads = if options.read_only { 0 } else { options.background_threads };
    let jobs = options.env.start_jobs(compaction_threads);
    let jobs = jobs.map_err(|e| Error::io("start the background threads of", dir, e))?;
    let opened = match open_locked(dir, options.clone(), &disk, &jobs) {
        Err(error) if error.is_full() && reserve::give_up(&*disk, dir) => {
            open_locked(dir, options, &disk, &jobs)
        }
        opened => opened,
    };
    match opened {
        Ok((pipeline, report)) => Ok(Opened { pipeline, jobs, lock, report }),
        Err(error) => {
            jobs.stop();
            Err(error)
        }
    }
}

/// Nothing is made where no database was ever made: a lock alone is of who tried.
fn refuse_missing(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let reason = match disk.list(dir) {
        Ok(names) if names.iter().any(|name| name != LOCK_FILE) => return Ok(()),
        Ok(_) => "it has no files, and none is to be created",
        Err(error) if error.kind() == ErrorKind::NotFound => {
            "there is no such directory, and none is to be created"
        }
        Err(error) => return Err(Error::io("list", dir, error)),
    };
    Err(Error::NotADatabase { dir: dir.into(), reason: reason.into() })
}

fn lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn LockGuard>> {
    disk.create_dir_all(dir).map_err(|e| Error::io("create directory", dir, e))?;
    let names = disk.list(dir).map_err(|e| Error::io("list", dir, e))?;
    if !names.iter().any(|name| name == levels::CURRENT) {
        refuse_foreign(dir, &names)?;
        sync_name(disk, dir)?;
    }
    take_lock(disk, dir)
}

pub(super) fn take_lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn LockGuard>> {
    let path = dir.join(LOCK_FILE);
    disk.lock(&path).map_err(|e| match e.kind() {
        ErrorKind::WouldBlock => Error::Locked(dir.into()),
        _ => Error::io("lock", &path, e),
    })
}

/// A directory that holds something else must not be written into.
fn refuse_foreign(dir: &Path, names: &[String]) -> Result<()> {
    let is_ours = |name: &str| {
        name == LOCK_FILE || name == RESERVE_FILE || levels::is_ours(name) || wal::is_ours(name)
    };
    match names.iter().find(|name| !is_ours(name)) {
        Some(name) => Err(Error::NotADatabase {
            dir: dir.into(),
            reason: format!("it holds {name:?} and no {}", levels::CURRENT).into(),
        }),
        None => Ok(()),
    }
}

/// Makes the name of a new database's directory durable: whoever made the directory, perhaps somebody who was
/// cut off, may not have. Where the directory that has the name cannot be read, that is its owner's to see to.
pub(super) fn sync_name(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let Some(parent) = dir.parent() else { return Ok(()) };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let is_others = |error: &io::Error| {
        matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::NotFound)
    };
    match disk.sync_dir(parent) {
        Err(error) if !is_others(&error) => Err(Error::io("sync directory", parent, error)),
        _ => Ok(()),
    }
}

/// How far the log has to go that is replayed; what is flushed may be gone from it. Files have what is not flushed, as
/// those of a load, only once the log tells of it, durably. Of a new database nothing was committed.
fn reach(tree: &Tree, log_end: Version) -> Reach {
    match tree.newest() {
        _ if tree.is_new() => Reach::Nothing,
        newest if log_end > newest => Reach::AtLeast(log_end),
        newest if newest > tree.flushed() && !tree.is_unordered() => Reach::AtLeast(newest),
        _ => Reach::AtLeast(Version::ZERO),
    }
}

fn open_locked(
    dir: &Path,
    options: Options,
    disk: &Arc<dyn Disk>,
    jobs: &Arc<dyn Jobs>,
) -> Result<(Arc<Pipeline>, RecoveryReport)> {
    let sizing = options.sizing();
    let OpenedTree { tree, log_end, lost } = Tree::open(OpenContext {
        disk: Arc::clone(disk),
        clock: options.env.clock(),
        jobs: Arc::clone(jobs),
        dir: dir.to_owned(),
        options: &options,
        cache: Arc::new(BlockCache::new(sizing.cache_bytes(0))),
        metrics: Arc::default(),
    })?;
    // The log holds no more than all memtables may: one memtable takes it.
    let (flushed, memtable) = (tree.flushed(), tree.active_memtable());
    let target =
        Target { memtable: &memtable, flushed, large_value_bytes: options.large_value_bytes };
    // No manifest names the place yet, or the one that does is damaged.
    let is_unknown = tree.is_new() || tree.is_unordered();
    let first = if is_unknown { SegmentId::NONE } else { tree.log_start() };
    let kept = tree.kept_segments();
    let extent = wal::Extent { first, reach: reach(&tree, log_end), kept: &kept };
    let purpose = if options.read_only { wal::Purpose::Read } else { wal::Purpose::Write };
    let replayed = replaying(target, |visit| {
        wal::replay(disk, dir, extent, options.recovery, purpose, visit)
    })?;
    if !replayed.lost.is_empty() {
        memtable.forget_places();
    }
    // Salvage may find less of the log than the manifest says that there was.
    let last = replayed.last_version.max(tree.newest()).max(log_end);
    tree.publish(last);
    let report = report(&replayed, lost);
    let log = wal::Writer::create(
        log_disk(dir, &options, disk)?,
        dir,
        replayed.next_segment_id.max(tree.first_free_segment()?),
        last,
        wal::SegmentPlan {
            bytes: sizing.segment_bytes,
            ahead: match (options.durability, options.read_mode) {
                (Durability::Sync, _) => wal::Ahead::Zeros,
                (_, ReadMode::Mmap) => wal::Ahead::Room,
                (_, ReadMode::Pread) => wal::Ahead::Nothing,
            },
            left_to_system: options.durability == Durability::Os,
        },
        replayed.segments,
    )?;
    let reserve = Reserve::new(Arc::clone(disk), dir, options.budget());
    let pipeline = Pipeline::new(tree, options, Arc::clone(jobs), log, reserve, last);
    let started = if pipeline.options().read_only { Ok(()) } else { start(&pipeline) };
    if started.is_err() {
        pipeline.tree().clean_up();
    }
    started.map(|()| (pipeline, report))
}

/// The disk that the log goes to. Of a database that is only read nothing does, and the file is made in memory.
fn log_disk(dir: &Path, options: &Options, disk: &Arc<dyn Disk>) -> Result<Arc<dyn Disk>> {
    if !options.read_only {
        return Ok(Arc::clone(disk));
    }
    let memory = SimEnv::new(0).disk();
    memory.create_dir_all(dir).map_err(|e| Error::io("create directory", dir, e))?;
    Ok(memory)
}

fn start(pipeline: &Pipeline) -> Result<()> {
    if pipeline.tree().is_unordered() {
        pipeline.put_in_order()?;
    }
    pipeline.freeze_if_full();
    pipeline.note_deletion(); // There may be some in what was replayed.
    pipeline.tree().start()?;
    pipeline.restore_reserve();
    Ok(())
}

fn report(replayed: &wal::Replayed, lost: Vec<Corruption>) -> RecoveryReport {
    let mut report = RecoveryReport {
        replayed_commits: replayed.records,
        replayed_bytes: replayed.bytes,
        torn_tail: replayed.torn.as_ref().map(|torn| TornTail {
            file: torn.file.clone(),
            offset: torn.offset,
            bytes: torn.bytes,
        }),
        lost,
        renamed_tables: Vec::new(),
    };
    report.lost.extend(replayed.lost.iter().cloned());
    tracing::info!(
        commits = report.replayed_commits,
        bytes = report.replayed_bytes,
        torn = report.torn_tail.is_some(),
        lost = report.lost.len(),
        "recovered"
    );
    report
}
