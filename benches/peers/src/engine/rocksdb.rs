//! RocksDB: the settings that its wiki recommends for a start ("Setup Options and Basic Tuning").
//!
//! Those are leveled compaction with dynamic level sizes, six flushes and compactions at a time,
//! blocks of 16 KiB, LZ4 and at the bottom zstd, Bloom filters of 10 bits, indexes and filters within the block
//! cache, `bytes_per_sync` of 1 MiB. Logs are recycled ("WAL Performance"). `rocksdb-plain` compresses nothing.
//! Half of the budget is block cache, half is four memtables. Conditions are a get and a put
//! under a lock by key; a partition is deleted by `DeleteRange`. Checksums are verified on reads,
//! as by default. A load in key order writes table files, as many at once as there are processors,
//! and ingests them ("Creating and Ingesting SST files").

use std::path::{Path, PathBuf};
use std::thread;

use anyhow::Result;
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, IngestExternalFileOptions, Options,
    ReadOptions, SstFileWriter, WaitForCompactOptions, WriteBatch, WriteOptions,
};

use super::stripes::Stripes;
use super::{Durability, ETag, Engine, Setup, Show, key};
use crate::workload::Row;

const MEMTABLES: usize = 4;
/// Flushes and compactions at a time.
const BACKGROUND_JOBS: i32 = 6;

/// Most rows of a file that is ingested: about 64 MiB, which is the size that RocksDB has its files of.
const INGESTED_ROWS: usize = 300_000;

struct Rocks {
    db: DB,
    options: Options,
    write: WriteOptions,
    stripes: Stripes,
}

pub(super) fn open(dir: &Path, setup: Setup) -> Result<Box<dyn Engine>> {
    open_with([DBCompressionType::Lz4, DBCompressionType::Zstd], dir, setup)
}

pub(super) fn open_plain(dir: &Path, setup: Setup) -> Result<Box<dyn Engine>> {
    open_with([DBCompressionType::None; 2], dir, setup)
}

fn open_with(
    [compression, bottommost]: [DBCompressionType; 2],
    dir: &Path,
    setup: Setup,
) -> Result<Box<dyn Engine>> {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache(setup.budget / 2));
    table.set_block_size(16 << 10);
    table.set_bloom_filter(10.0, false);
    table.set_cache_index_and_filter_blocks(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.increase_parallelism(BACKGROUND_JOBS);
    options.set_max_subcompactions(2);
    options.set_recycle_log_file_num(MEMTABLES);
    options.set_write_buffer_size(setup.budget / 2 / MEMTABLES);
    options.set_max_write_buffer_number(MEMTABLES.try_into()?);
    options.set_level_compaction_dynamic_level_bytes(true);
    options.set_bytes_per_sync(1 << 20);
    options.set_compression_type(compression);
    options.set_bottommost_compression_type(bottommost);
    let db = DB::open(&options, dir)?;
    let mut write = WriteOptions::default();
    write.set_sync(setup.durability == Durability::Synced);
    Ok(Box::new(Rocks { db, options, write, stripes: Stripes::new() }))
}

impl Rocks {
    /// Writes a table file of rows in key order.
    fn write_file(&self, path: PathBuf, rows: &[Row]) -> Result<PathBuf> {
        let mut file = SstFileWriter::create(&self.options);
        file.open(&path)?;
        for row in rows {
            file.put(key::encode(&row.key.partition, &row.key.row), &row.value)?;
        }
        file.finish()?;
        Ok(path)
    }
}

impl Engine for Rocks {
    fn put(&self, partition: &[u8], row: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.db.put_opt(key::encode(partition, row), value, &self.write)?)
    }

    fn put_group(&self, rows: &[Row]) -> Result<()> {
        let mut batch = WriteBatch::default();
        for row in rows {
            batch.put(key::encode(&row.key.partition, &row.key.row), &row.value);
        }
        Ok(self.db.write_opt(batch, &self.write)?)
    }

    fn load(&self, rows: &[Row]) -> Result<()> {
        self.put_group(rows)
    }

    fn load_sorted(&mut self, rows: &[Row]) -> Result<()> {
        let writers = thread::available_parallelism()?.get();
        let pieces: Vec<_> =
            rows.chunks(rows.len().div_ceil(writers).clamp(1, INGESTED_ROWS)).collect();
        let dir = self.db.path().join("ingest");
        std::fs::create_dir(&dir)?;
        let (this, dir) = (&*self, &dir);
        let write = |from: usize| {
            let mine = (0..).zip(&pieces).skip(from).step_by(writers);
            let file = |number: usize| dir.join(format!("{number}.sst"));
            mine.map(|(number, rows)| this.write_file(file(number), rows)).collect()
        };
        let files: Vec<Result<Vec<PathBuf>>> = thread::scope(|scope| {
            let write = &write;
            let threads: Vec<_> =
                (0..writers).map(|from| scope.spawn(move || write(from))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let files = files.into_iter().collect::<Result<Vec<_>>>()?.concat();
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        self.db.ingest_external_file_opts(&options, files)?;
        Ok(std::fs::remove_dir(dir)?)
    }

    fn insert(&self, partition: &[u8], row: &[u8], value: &[u8]) -> Result<bool> {
        let key = key::encode(partition, row);
        let _locked = self.stripes.lock(&key);
        let absent = self.db.get_pinned(&key)?.is_none();
        if absent {
            self.db.put_opt(key, value, &self.write)?;
        }
        Ok(absent)
    }

    fn replace(&self, partition: &[u8], row: &[u8], etag: ETag, value: &[u8]) -> Result<bool> {
        let key = key::encode(partition, row);
        let _locked = self.stripes.lock(&key);
        let unchanged = self.db.get_pinned(&key)?.is_some_and(|found| ETag::of(&found) == etag);
        if unchanged {
            self.db.put_opt(key, value, &self.write)?;
        }
        Ok(unchanged)
    }

    fn show(&self, partition: &[u8], row: &[u8], show: Show<'_>) -> Result<Option<ETag>> {
        Ok(self.db.get_pinned(key::encode(partition, row))?.map(|found| {
            show(&found);
            ETag::of(&found)
        }))
    }

    fn page(
        &self,
        partition: &[u8],
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(&*key::partition_end(partition));
        let mut found = self.db.raw_iterator_opt(options);
        found.seek(key::encode(partition, from));
        for _ in 0..limit {
            let Some(value) = found.value() else { break };
            each(value);
            found.next();
        }
        Ok(found.status()?)
    }

    fn scan(&self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut found = self.db.raw_iterator();
        found.seek_to_first();
        while let Some(value) = found.value() {
            each(value);
            found.next();
        }
        Ok(found.status()?)
    }

    fn delete(&self, partition: &[u8], row: &[u8]) -> Result<()> {
        Ok(self.db.delete_opt(key::encode(partition, row), &self.write)?)
    }

    fn delete_partition(&self, partition: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::default();
        batch.delete_range(key::encode(partition, b""), key::partition_end(partition));
        Ok(self.db.write_opt(batch, &self.write)?)
    }

    fn settle(&self) -> Result<()> {
        let mut options = WaitForCompactOptions::default();
        options.set_flush(true);
        self.db.flush_wal(true)?;
        Ok(self.db.wait_for_compact(&options)?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}
