//! Table files in levels, filled without dropping any version.

use std::path::Path;
use std::sync::Arc;

use crate::cache::BlockCache;
use crate::entry::Cursor;
use crate::env::{Disk, Env, SimEnv};
use crate::levels::{Frozen, Janitor, Level, LevelState, TableFile, assemble};
use crate::merge::{CacheUse, Merge, Source};
use crate::options::ReadMode;
use crate::sst::{self, FileId, Reader, Writer, WriterOptions};
use crate::tombstone::{RangeTombstone, RangeTombstones};
use crate::version::Version;
use crate::wal::SegmentId;

const DIR: &str = "database";

pub(super) struct Shelf {
    disk: Arc<dyn Disk>,
    janitor: Arc<Janitor>,
    cache: Arc<BlockCache>,
    files: Vec<(Level, Arc<TableFile>)>,
    tombstones: Vec<RangeTombstone>,
    flushed: Version,
    next: FileId,
    block_bytes: usize,
    /// In a file of a deeper level.
    keys_per_file: usize,
}

impl Shelf {
    pub(super) fn new() -> Self {
        let env = SimEnv::new(0);
        let disk = env.disk();
        disk.create_dir_all(Path::new(DIR)).unwrap();
        Self {
            janitor: Arc::new(Janitor::new(
                disk.clone(),
                env.start_jobs(1).unwrap(),
                Arc::default(),
            )),
            disk,
            cache: Arc::new(BlockCache::new(1 << 20)),
            files: Vec::new(),
            tombstones: Vec::new(),
            flushed: Version::ZERO,
            next: FileId::new(1),
            // Small blocks, so that keys and versions cross them.
            block_bytes: 64,
            keys_per_file: 5,
        }
    }

    /// With blocks and files in which there are more keys than cross their ends.
    pub(super) fn of_large_blocks() -> Self {
        Self { block_bytes: 1 << 10, keys_per_file: 1_000, ..Self::new() }
    }

    /// How often a block was looked for in the cache.
    pub(super) fn lookups(&self) -> u64 {
        let stats = self.cache.stats();
        stats.hits + stats.misses
    }

    pub(super) fn flush(&mut self, frozen: &[Frozen], last: Version) -> Arc<LevelState> {
        for memtable in frozen.iter().map(|frozen| &frozen.memtable) {
            self.tombstones.extend(memtable.range_tombstones().iter().cloned());
        }
        let sources = frozen.iter().map(|f| Source::memtable(&f.memtable, f.last)).collect();
        let file = self.write(sources, usize::MAX);
        self.files.extend(file.into_iter().map(|file| (Level::ZERO, file)));
        self.flushed = last;
        self.state()
    }

    /// Merges a level into the next.
    pub(super) fn sink(&mut self, level: usize) -> Arc<LevelState> {
        let from = Level::new(level as u64).unwrap();
        let state = self.state();
        let young = state.level(from);
        let mut sources: Vec<_> = match from {
            Level::ZERO => young.iter().map(|f| Source::file(&**f, CacheUse::Pass)).collect(),
            _ => vec![Source::level(young, CacheUse::Pass)],
        };
        sources.push(Source::level(state.level(from.below()), CacheUse::Pass));
        let written = self.write(sources, self.keys_per_file);
        self.files.retain(|(level, _)| ![from, from.below()].contains(level));
        self.files.extend(written.into_iter().map(|file| (from.below(), file)));
        self.state()
    }

    fn state(&self) -> Arc<LevelState> {
        let tombstones = RangeTombstones::new(self.tombstones.clone());
        let state =
            assemble(self.files.clone(), Vec::new(), tombstones, self.flushed, SegmentId::FIRST);
        Arc::new(state)
    }

    fn write(&mut self, sources: Vec<Source<'_, TableFile>>, keys: usize) -> Vec<Arc<TableFile>> {
        let mut merge = Merge::new(sources, &[]);
        merge.seek_to_first().unwrap();
        let mut files = Vec::new();
        while merge.valid() {
            let id = self.next;
            self.next = id.next();
            let path = Path::new(DIR).join(sst::file_name(id));
            let file = self.disk.create(&path).unwrap();
            let options = WriterOptions { compression: None, block_bytes: self.block_bytes };
            let mut writer = Writer::new(file, path.clone(), id, options);
            for _ in 0..keys {
                let key = merge.key().to_vec();
                while merge.valid() && merge.key() == key {
                    writer.add(merge.entry().unwrap()).unwrap();
                    merge.next().unwrap();
                }
                if !merge.valid() {
                    break;
                }
            }
            let meta = writer.finish().unwrap();
            let mode = if id.get().is_multiple_of(2) { ReadMode::Mmap } else { ReadMode::Pread };
            let cache = Arc::clone(&self.cache);
            let reader = Reader::open(&*self.disk, &path, &meta, cache, mode).unwrap();
            let janitor = Arc::clone(&self.janitor);
            files.push(Arc::new(TableFile::new(meta, reader, Version::ZERO, path, janitor)));
        }
        files
    }
}
