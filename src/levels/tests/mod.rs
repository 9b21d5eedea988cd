//! The tree on a simulated machine, against a naive model of what it holds.

mod background;
mod compression;
mod crash;
mod damage;
mod faults;
mod join;
mod manifest;
mod manifest_end;
mod model;
mod pace;
mod picker;
mod ranges;
mod salvage;
mod threads;
mod wakers;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::cache::BlockCache;
use crate::entry::{Cursor, Kind};
use crate::env::{Env, Jobs, SimEnv};
use crate::error::Result;
use crate::merge::{CacheUse, Merge, Source};
use crate::options::{Compression, Options, Recovery};
use crate::tombstone::{RangeTombstone, RangeTombstones};
use crate::version::Version;
use crate::wal::SegmentId;

fn v(ticks: u64) -> Version {
    Version::from_ticks(ticks)
}

/// A commit, as the log would keep it.
#[derive(Clone, Debug)]
enum Op {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A tree with a stand-in for the commit path: a list of commits is its log.
struct World {
    env: SimEnv,
    options: Options,
    tree: Arc<Tree>,
    /// Every commit ever, the first at version 1.
    log: Vec<Op>,
}

impl Drop for World {
    /// What is queued has the tree, and the machine has what is queued.
    fn drop(&mut self) {
        self.tree.jobs.stop();
    }
}

const DIR: &str = "db";

impl World {
    /// All levels are compressed however little there is.
    fn new(seed: u64) -> Self {
        Self::with(seed, Compression::Zstd(1))
    }

    fn with(seed: u64, compression: Compression) -> Self {
        let env = SimEnv::new(seed);
        // The smallest there is: memtables and files of 8 KiB, level 1 of 32 KiB.
        let options = Options::default()
            .memory_budget(64 << 10)
            .compression(compression)
            .env(Arc::new(env.clone()));
        let tree = open(&env, &options).unwrap().tree;
        tree.start().unwrap();
        Self { env, options, tree, log: Vec::new() }
    }

    /// Commits, and lets the machine do nothing else.
    fn write(&mut self, op: Op) {
        if self.tree.view().active.bytes() >= self.options.sizing().memtable_bytes {
            self.freeze();
        }
        self.log.push(op);
        let version = v(self.log.len() as u64);
        apply(&self.tree, version, self.log.last().unwrap());
        self.tree.publish(version);
        self.tree.on_published();
    }

    fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.write(Op::Put(key.as_ref().to_vec(), value.as_ref().to_vec()));
    }

    fn put_rows(&mut self, rows: std::ops::Range<u64>) {
        rows.for_each(|row| self.put(key(row), [7; 60]));
    }

    fn freeze(&self) {
        self.tree.freeze(v(self.log.len() as u64), SegmentId::FIRST);
    }

    fn flush(&self) {
        self.freeze();
        self.tree.flush_now().unwrap();
    }

    /// Lets time pass in which nothing is written, and what is due then be done.
    fn rest(&self, seconds: u64) {
        self.env.advance(Duration::from_secs(seconds));
        self.env.run_all();
    }

    /// Opens the tree again, as the only one on the machine, and replays what is not flushed.
    fn reopen(&mut self) -> Result<()> {
        self.tree.jobs.stop();
        let Opened { tree, .. } = open(&self.env, &self.options)?;
        for (i, op) in self.log.iter().enumerate().skip(tree.flushed().ticks() as usize) {
            apply(&tree, v(i as u64 + 1), op);
        }
        tree.publish(v(self.log.len() as u64));
        tree.start()?;
        self.tree = tree;
        Ok(())
    }

    /// What the first `commits` commits leave.
    fn model(&self, commits: usize) -> Rows {
        let mut rows = Rows::new();
        for op in self.log.iter().take(commits) {
            match op {
                Op::Put(key, value) => drop(rows.insert(key.clone(), value.clone())),
                Op::Delete(key) => drop(rows.remove(key)),
                Op::DeleteRange(start, end) => rows.retain(|k, _| k < start || k >= end),
            }
        }
        rows
    }

    #[track_caller]
    fn check(&self) {
        self.check_at(self.log.len());
    }

    #[track_caller]
    fn check_at(&self, commits: usize) {
        let rows = read_all(&self.tree.view(), v(commits as u64)).unwrap();
        assert!(rows == self.model(commits), "another content after {commits} commits");
    }

    fn levels(&self) -> Arc<LevelState> {
        Arc::clone(&self.tree.view().levels)
    }

    fn table_files(&self) -> usize {
        let names = self.env.list(&PathBuf::from(DIR));
        names.iter().filter(|name| name.ends_with(".sst")).count()
    }
}

fn open(env: &SimEnv, options: &Options) -> Result<Opened> {
    open_with(env, options, env.start_jobs(options.background_threads).unwrap())
}

fn open_with(env: &SimEnv, options: &Options, jobs: Arc<dyn Jobs>) -> Result<Opened> {
    let disk = env.disk();
    let _ = disk.create_dir_all(&PathBuf::from(DIR));
    Tree::open(OpenContext {
        disk,
        clock: env.clock(),
        jobs,
        dir: DIR.into(),
        options,
        cache: Arc::new(BlockCache::new(1 << 20)),
        metrics: Arc::default(),
    })
}

fn apply(tree: &Tree, version: Version, op: &Op) {
    let memtable = tree.active_memtable();
    match op {
        Op::Put(key, value) => memtable.insert(key, &[], version, Kind::Put, value),
        Op::Delete(key) => memtable.insert(key, &[], version, Kind::Delete, &[]),
        Op::DeleteRange(start, end) => memtable.add_range_tombstones(&[RangeTombstone {
            start: start.as_slice().into(),
            end: end.as_slice().into(),
            version,
        }]),
    }
}

/// Everything a reader at `at` sees, by the plainest means.
fn read_all(view: &View, at: Version) -> Result<Rows> {
    let memtables: Vec<_> = view.memtables().map(Arc::clone).collect();
    let mut tombstones: Vec<_> = view.levels.range_tombstones.iter().cloned().collect();
    for memtable in &memtables {
        tombstones.extend(memtable.range_tombstones().iter().cloned());
    }
    let tombstones = RangeTombstones::new(tombstones);
    let in_memory = memtables.iter().map(|m| Source::memtable(m, Version::MAX));
    let in_files = view.levels.files().map(|(_, file)| Source::file(&**file, CacheUse::Keep));
    let mut merge: Merge<'_, TableFile> = Merge::new(in_memory.chain(in_files).collect(), &[]);
    let mut rows = Rows::new();
    let mut last: Option<Vec<u8>> = None;
    merge.seek_to_first()?;
    while merge.valid() {
        let seen = last.as_deref() == Some(merge.key());
        if merge.version() <= at && !seen {
            last = Some(merge.key().to_vec());
            let covered = tombstones.covering(merge.key(), at) > merge.version();
            if merge.kind() == Kind::Put && !covered {
                rows.insert(merge.key().to_vec(), merge.value().to_vec());
            }
        }
        merge.next()?;
    }
    Ok(rows)
}

fn key(n: u64) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}
