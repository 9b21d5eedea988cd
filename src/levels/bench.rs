//! The choice of what to compact, and a change of the state, as a benchmark of this package sees
//! them.

use std::path::Path;
use std::sync::Arc;

use super::compression::CompressionRule;
use super::failures::Unread;
use super::file::{Janitor, TableFile};
use super::picker::{Picker, Task};
use super::snapshots::Horizon;
use super::state::{Change, Level, LevelState, assemble};
use crate::cache::{BlockCache, FileId};
use crate::entry::{Entry, Kind};
use crate::env::{Env, RealEnv};
use crate::error::{Error, Result};
use crate::metrics::Metrics;
use crate::options::{Options, ReadMode, Sizing};
use crate::sst::{FileMeta, Reader, Writer, WriterOptions, file_name};
use crate::tombstone::RangeTombstones;
use crate::version::Version;
use crate::wal::SegmentId;

const FILE_BYTES: u64 = 64 << 20;
/// The level that gives files to the one below.
const UPPER: Level = Level::ONE;

/// A tree of files that are all the same small one, but are said to be large and to lie side by
/// side.
pub struct BenchLevels {
    state: LevelState,
    sizing: Sizing,
    horizon: Horizon,
}

impl BenchLevels {
    /// A tree with so many files, a ninth of them in level 1, the others in level 2: level 1 is
    /// over its target if they are many.
    ///
    /// # Errors
    /// What the file system refuses.
    pub fn new(dir: &Path, files: u64) -> Result<Self> {
        let env = RealEnv::new();
        let disk = env.disk();
        let jobs = env.start_jobs(1).map_err(|error| Error::io("start jobs in", dir, error))?;
        let janitor = Arc::new(Janitor::new(Arc::clone(&disk), jobs, Arc::<Metrics>::default()));
        let path = dir.join(file_name(FileId::new(1)));
        let file = disk.create(&path).map_err(|error| Error::io("create", &path, error))?;
        let options = WriterOptions { compression: None, block_bytes: 4 << 10 };
        let mut writer = Writer::new(file, path.clone(), FileId::new(1), options);
        writer.add(Entry { key: b"key", version: version(1), kind: Kind::Put, value: b"" })?;
        let written = writer.finish()?;
        let cache = Arc::new(BlockCache::new(1 << 20));
        let table = |number: u64| -> Result<(Level, Arc<TableFile>)> {
            let cache = Arc::clone(&cache);
            let reader = Reader::open(&*disk, &path, &written, cache, ReadMode::Mmap)?;
            let level = if number.is_multiple_of(9) { UPPER } else { UPPER.below() };
            let meta = FileMeta {
                id: FileId::new(number + 2),
                bytes: FILE_BYTES,
                entries: 300_000,
                keys: 300_000,
                smallest: format!("{number:06}-first").into_bytes().into(),
                largest: format!("{number:06}-last").into_bytes().into(),
                min_version: version(1),
                max_version: version(2),
                ..written.clone()
            };
            let janitor = Arc::clone(&janitor);
            let file = TableFile::new(meta, reader, Version::ZERO, path.clone(), janitor);
            Ok((level, Arc::new(file)))
        };
        let files = (0..files).map(table).collect::<Result<_>>()?;
        let state =
            assemble(files, Vec::new(), RangeTombstones::default(), version(3), SegmentId::FIRST);
        let horizon = Horizon { snapshots: Vec::new(), visible: version(3) };
        Ok(Self { state, sizing: Options::default().sizing(), horizon })
    }

    /// Whether there is something to compact.
    #[must_use]
    pub fn pick(&self) -> bool {
        self.task().is_some()
    }

    /// Makes the state that a move of one file leads to; how many files the deeper level then has.
    #[must_use]
    pub fn install(&self) -> usize {
        let (from, to) = (UPPER, UPPER.below());
        let file = self.state.level(from).first();
        let added = file.map(|file| (to, Arc::clone(file))).into_iter().collect();
        let removed = file.map(|file| file.id()).into_iter().collect();
        let mut change = Change { added, removed, ..Change::default() };
        self.state.with(&mut change).level(to).len()
    }

    fn task(&self) -> Option<Task> {
        Picker {
            is_full: false,
            sheds_level_0: false,
            state: &self.state,
            horizon: &self.horizon,
            sizing: &self.sizing,
            compression: CompressionRule::always(1),
            running: Vec::new(),
            reserved: &[],
            awaited: Vec::new(),
            is_quiet: false,
            unread: &Unread::default(),
        }
        .pick()
    }
}

fn version(ticks: u64) -> Version {
    Version::from_ticks(ticks)
}
