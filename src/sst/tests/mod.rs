//! Whole files: what is written is what is read, and damage never is.

mod backward;
mod damage;
mod estimates;
mod helped;
mod lookups;
mod model;
mod rows;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::index::{BlockHandle, NEWEST};
use super::source::Caching;
use super::*;
use crate::cache::{BlockCache, Hint};
use crate::entry::{Cursor, Entry, Kind, Walker};
use crate::env::{Env, Fault, Operation, SimEnv};
use crate::error::Result;
use crate::key;
use crate::options::ReadMode;
use crate::version::Version;

pub(super) const MODES: [ReadMode; 2] = [ReadMode::Mmap, ReadMode::Pread];

/// An entry that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) key: Vec<u8>,
    pub(super) version: u64,
    pub(super) kind: Kind,
    pub(super) value: Vec<u8>,
}

impl Row {
    pub(super) fn put(key: Vec<u8>, version: u64, value: Vec<u8>) -> Self {
        Self { key, version, kind: Kind::Put, value }
    }

    pub(super) fn entry(&self) -> Entry<'_> {
        let version = Version::from_ticks(self.version);
        Entry { key: &self.key, version, kind: self.kind, value: &self.value }
    }

    pub(super) fn of(entry: Entry<'_>) -> Self {
        Self {
            key: entry.key.to_vec(),
            version: entry.version.ticks(),
            kind: entry.kind,
            value: entry.value.to_vec(),
        }
    }
}

/// A written file on a simulated machine.
pub(super) struct Fixture {
    pub(super) env: SimEnv,
    pub(super) path: PathBuf,
    pub(super) meta: FileMeta,
}

impl Fixture {
    pub(super) fn write(rows: &[Row], options: WriterOptions) -> Self {
        let env = SimEnv::new(1);
        env.disk().create_dir_all(Path::new("db")).unwrap();
        let id = FileId::new(42);
        let path = Path::new("db").join(file_name(id));
        let file = env.disk().create(&path).unwrap();
        let mut writer = Writer::new(file, path.clone(), id, options);
        for row in rows {
            writer.add(row.entry()).unwrap();
        }
        let estimated = writer.written_bytes();
        let meta = writer.finish().unwrap();
        assert_eq!(env.disk().open(&path).unwrap().len().unwrap(), meta.bytes);
        assert!(estimated < meta.bytes + 8192 && meta.bytes < estimated + 8192);
        Self { env, path, meta }
    }

    pub(super) fn open(&self, mode: ReadMode) -> Result<Reader> {
        let cache = Arc::new(BlockCache::new(1 << 20));
        Reader::open(&*self.env.disk(), &self.path, &self.meta, cache, mode)
    }
}

pub(super) fn get(reader: &Reader, key: &[u8], at: u64) -> Result<Option<Row>> {
    reader.get(&Lookup::new(key), None, Version::from_ticks(at), |found| Row {
        key: key.to_vec(),
        version: found.version.ticks(),
        kind: found.kind,
        value: found.value.to_vec(),
    })
}

pub(super) fn scan(mut cursor: SstCursor<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    cursor.seek_to_first()?;
    while let Some(entry) = cursor.entry() {
        rows.push(Row::of(entry));
        cursor.next()?;
    }
    Ok(rows)
}

/// Takes entries of a walk until it has as many as are wanted, and holds the cursor to what it says of
/// them.
struct Taken {
    wanted: usize,
    rows: Vec<Row>,
}

impl Walker for Taken {
    fn meet(&mut self, entry: Entry<'_>, kept: usize) -> bool {
        if self.rows.len() == self.wanted {
            return false;
        }
        if let Some(before) = self.rows.last() {
            assert!(kept <= key::common_prefix(&before.key, entry.key), "{before:?}, {entry:?}");
        }
        self.rows.push(Row::of(entry));
        true
    }
}

/// Newest entries of so many keys from the cursor's on.
pub(super) fn walk(cursor: &mut SstCursor<'_>, wanted: usize) -> Result<Vec<Row>> {
    let mut taken = Taken { wanted, rows: Vec::new() };
    cursor.walk(&mut taken)?;
    Ok(taken.rows)
}

/// Newest entries of all keys, from the last key to the first.
pub(super) fn scan_back(reader: &Reader) -> Result<Vec<Row>> {
    let mut cursor = reader.cursor();
    let mut rows = Vec::new();
    cursor.seek_to_last()?;
    while let Some(entry) = cursor.entry() {
        rows.push(Row::of(entry));
        cursor.previous_key()?;
    }
    Ok(rows)
}

/// `count` keys in `partitions` partitions, one version each.
pub(super) fn entities(count: usize, partitions: usize, value: usize) -> Vec<Row> {
    let table = key::TableId::FIRST;
    let mut rows: Vec<Row> = (0..count)
        .map(|i| {
            let partition = format!("device-{:04}", i % partitions);
            let row = format!("2024-{i:08}");
            let key = key::encode(table, partition.as_bytes(), row.as_bytes());
            Row::put(key, 1000 + i as u64 * 7919 % 1_000_003, noise(i as u64, value))
        })
        .collect();
    rows.sort_by(|a, b| a.key.cmp(&b.key));
    rows
}

/// Bytes that do not compress.
pub(super) fn noise(seed: u64, len: usize) -> Vec<u8> {
    (0..len.div_ceil(8) as u64)
        .flat_map(|i| key::hash(&(seed << 20 | i).to_le_bytes()).to_le_bytes())
        .take(len)
        .collect()
}

#[test]
fn a_file_name_is_its_id() {
    for id in [0, 7, 9_999_999_999_999_999, NO_FILE_NUMBER - 1] {
        let name = file_name(FileId::new(id));
        assert_eq!(parse_file_name(&name), Some(FileId::new(id)));
    }
    for name in
        ["7.sst", "000000000000000x.sst", "0000000000000007.log", "+000000000000007.sst", ""]
    {
        assert_eq!(parse_file_name(name), None, "{name}");
    }
    assert_eq!(parse_file_name(&file_name(FileId::new(NO_FILE_NUMBER))), None);
}

/// R-E21: values from nothing to more than a block, in both read modes, with and without zstd.
#[test]
fn values_of_all_sizes_come_back() {
    let mut rows = Vec::new();
    for (i, len) in [0, 1, 100, 4000, 8 << 10, 70_000, 1 << 20, 3].into_iter().enumerate() {
        let plain = if i % 2 == 0 { noise(i as u64, len) } else { vec![7; len] };
        rows.push(Row::put(vec![1, i as u8], 5, plain));
    }
    for compression in [None, Some(1), Some(19)] {
        let options = WriterOptions { compression, ..WriterOptions::default() };
        let fixture = Fixture::write(&rows, options);
        for mode in MODES {
            let reader = fixture.open(mode).unwrap();
            reader.verify().unwrap();
            assert_eq!(scan(reader.cursor()).unwrap(), rows);
            for row in &rows {
                assert_eq!(get(&reader, &row.key, 5).unwrap().as_ref(), Some(row));
                assert_eq!(get(&reader, &row.key, 4).unwrap(), None);
            }
        }
    }
}

#[test]
fn a_file_on_a_real_disk_reads_the_same_both_ways() {
    let dir = tempfile::tempdir().unwrap();
    let disk = crate::env::RealEnv::new().disk();
    let path = dir.path().join(file_name(FileId::new(3)));
    let options = WriterOptions { compression: Some(1), ..WriterOptions::default() };
    let file = disk.create(&path).unwrap();
    let mut writer = Writer::new(file, path.clone(), FileId::new(3), options);
    let rows = entities(3_000, 7, 90);
    for row in &rows {
        writer.add(row.entry()).unwrap();
    }
    let meta = writer.finish().unwrap();
    for mode in MODES {
        let cache = Arc::new(BlockCache::new(64 << 10));
        let reader = Reader::open(&*disk, &path, &meta, Arc::clone(&cache), mode).unwrap();
        reader.verify().unwrap();
        assert_eq!(scan(reader.cursor()).unwrap(), rows);
        assert!(rows.iter().all(|row| get(&reader, &row.key, u64::MAX).unwrap().is_some()));
        // Noise is not compressed, so a mapping has all there is.
        let stats = cache.stats();
        assert!(stats.bytes <= 64 << 10 && (stats.misses > 0) == (mode == ReadMode::Pread));
    }
}

/// A file that the system has no map for is read by position.
#[test]
fn a_file_that_cannot_be_mapped_reads_the_same() {
    let rows = entities(3_000, 7, 90);
    let fixture = Fixture::write(&rows, WriterOptions::default());
    let refuse = |kind| {
        let fault = Fault { times: 1, ..Fault::new(Operation::Read, "", kind) };
        fixture.env.fail(fault);
        fixture.open(ReadMode::Mmap)
    };
    assert!(refuse(ErrorKind::Other).is_err());
    let reader = refuse(ErrorKind::OutOfMemory).unwrap();
    for _ in 0..3 {
        reader.verify().unwrap();
        assert_eq!(scan(reader.cursor()).unwrap(), rows);
        for row in &rows {
            assert_eq!(get(&reader, &row.key, row.version).unwrap().as_ref(), Some(row));
        }
    }
}

/// What a walk looks for ahead counts as looked for once.
#[test]
fn a_walk_counts_every_block_once_as_missed_or_found() {
    let mut rows = entities(600, 1, 0);
    rows.iter_mut().for_each(|row| row.value = vec![3; 200]);
    let options = WriterOptions { compression: Some(1), block_bytes: 2 << 10 };
    let fixture = Fixture::write(&rows, options);
    let cache = Arc::new(BlockCache::new(1 << 20));
    let disk = fixture.env.disk();
    let mode = ReadMode::Mmap;
    let reader =
        Reader::open(&*disk, &fixture.path, &fixture.meta, Arc::clone(&cache), mode).unwrap();
    let counts = [(); 2].map(|()| {
        let mut cursor = reader.cursor();
        cursor.seek_to_first().unwrap();
        assert_eq!(walk(&mut cursor, rows.len()).unwrap(), rows);
        let stats = cache.stats();
        (stats.misses, stats.hits)
    });
    let blocks = counts[0].0;
    assert!(blocks > 30);
    assert_eq!(counts, [(blocks, 0), (blocks, blocks)]);
}

/// Thousands of versions of one key, over many blocks and index partitions.
#[test]
fn a_key_with_many_versions_crosses_blocks() {
    let mut rows = vec![Row::put(b"a".to_vec(), 3, vec![1])];
    rows.extend((1..=20_000u64).rev().map(|v| Row::put(b"hot".to_vec(), v * 2, noise(v, 60))));
    rows.push(Row::put(b"z".to_vec(), 3, vec![2]));
    let options = WriterOptions { block_bytes: 512, ..WriterOptions::default() };
    let fixture = Fixture::write(&rows, options);
    for mode in MODES {
        let reader = fixture.open(mode).unwrap();
        reader.verify().unwrap();
        assert!(reader.directory().top.len() > 1);
        for at in [2, 3, 999, 20_000, 20_001, 39_999, 40_000, u64::MAX] {
            let found = get(&reader, b"hot", at).unwrap().unwrap();
            assert_eq!(found.version, (at / 2 * 2).min(40_000));
            assert_eq!(found.value, noise(found.version / 2, 60));
        }
        assert_eq!(get(&reader, b"hot", 1).unwrap(), None);
        assert_eq!(scan(reader.passing_cursor()).unwrap(), rows);

        let mut cursor = reader.cursor();
        let mut newest = Vec::new();
        cursor.seek(b"").unwrap();
        while cursor.valid() {
            newest.push((cursor.key().to_vec(), cursor.version().ticks()));
            cursor.next_key().unwrap();
        }
        let keys = [(b"a".to_vec(), 3), (b"hot".to_vec(), 40_000), (b"z".to_vec(), 3)];
        assert_eq!(newest, keys);
        newest.reverse();
        let back = scan_back(&reader).unwrap();
        assert_eq!(back.into_iter().map(|r| (r.key, r.version)).collect::<Vec<_>>(), newest);

        for at in [1, 2, 3, 999, 39_999] {
            let mut cursor = reader.cursor();
            cursor.seek_before(b"z").unwrap();
            cursor.previous_at(Version::from_ticks(at)).unwrap();
            let of_hot = (&b"hot"[..], at / 2 * 2);
            let expected = if at == 1 { (&b"a"[..], 3) } else { of_hot };
            assert_eq!((cursor.key(), cursor.version().ticks()), expected);
            cursor.previous_key().unwrap();
            assert_eq!(cursor.key(), if at == 1 { &b""[..] } else { b"a" });

            cursor.seek(b"hot").unwrap();
            cursor.next_at(Version::from_ticks(at)).unwrap();
            let expected = if at == 1 { (&b"z"[..], 3) } else { of_hot };
            assert_eq!((cursor.key(), cursor.version().ticks()), expected);
            cursor.next_key().unwrap();
            assert_eq!(cursor.key(), if at == 1 { &b""[..] } else { b"z" });
        }
    }
}

#[test]
fn a_file_has_a_number_in_hints_as_long_as_it_is_open() {
    let fixture = Fixture::write(&entities(10, 2, 60), WriterOptions::default());
    let cache = Arc::new(BlockCache::new(1 << 20));
    let Fixture { env, path, meta } = &fixture;
    let reader = Reader::open(&*env.disk(), path, meta, Arc::clone(&cache), ReadMode::Mmap);
    assert_eq!(cache.hints().open_files(), 1);
    drop(reader.unwrap());
    assert_eq!(cache.hints().open_files(), 0);
}

/// Hints of every restart of the first blocks, and of some beyond them, as of either kind.
fn hints(reader: &Reader) -> Vec<Hint> {
    let mut place = reader.partition(0, Caching::Keep).unwrap();
    let blocks = std::iter::from_fn(|| {
        let here = place.take()?;
        let handle = here.handle().unwrap();
        place = here.next().unwrap();
        Some(handle)
    });
    let of_block = |handle: BlockHandle| {
        let (offset, len) = (handle.offset.0, handle.len);
        (0..24).flat_map(move |restart| {
            let walked = restart * 2_700..usize::MAX;
            let hint = Hint { offset, len, is_cached: false, restart, walked };
            [Hint { is_cached: true, ..hint.clone() }, hint]
        })
    };
    blocks.take(48).flat_map(of_block).collect()
}

/// A hint may be of any key and of any block: no answer depends on it.
#[test]
fn no_answer_depends_on_a_hint() {
    let mut rows = entities(1_500, 7, 60);
    let table = key::TableId::FIRST;
    let hot = key::encode(table, b"device-0003", b"2024-00000700, often written");
    rows.extend((1..300).map(|version| Row::put(hot.clone(), version, noise(version, 60))));
    rows.sort_by(|a, b| a.key.cmp(&b.key).then(b.version.cmp(&a.version)));
    let absent = key::encode(table, b"device-0003", b"2024-00000700, never written");
    let single = &rows[rows.len() / 3].key;
    let asked = [(&hot, 400), (&hot, 150), (&hot, 1), (&hot, 0), (single, 2_000_000), (&absent, 9)];
    for (compression, mode) in
        [(None, ReadMode::Mmap), (Some(1), ReadMode::Mmap), (None, ReadMode::Pread)]
    {
        let fixture =
            Fixture::write(&rows, WriterOptions { compression, ..WriterOptions::default() });
        let reader = fixture.open(mode).unwrap();
        for (key, at) in asked {
            let right = rows.iter().find(|row| row.key == *key && row.version <= at);
            assert_eq!(get(&reader, key, at).unwrap().as_ref(), right, "without a hint");
            for hint in &hints(&reader) {
                reader.source().note(key::hash(key), hint);
                assert_eq!(get(&reader, key, at).unwrap().as_ref(), right, "{hint:?}");
            }
        }
    }
}

#[test]
fn filters_keep_most_absent_keys_and_partitions_away() {
    let rows = entities(20_000, 500, 10);
    let reader = Fixture::write(&rows, WriterOptions::default()).open(ReadMode::Mmap).unwrap();
    let table = key::TableId::FIRST;
    for row in &rows {
        let partition = &row.key[..key::partition_len(&row.key)];
        assert!(reader.may_contain(key::hash(&row.key)).unwrap());
        assert!(reader.may_contain_partition(key::hash(partition)).unwrap());
    }
    let passed = |hash: &dyn Fn(u32) -> u64| {
        (0..10_000).filter(|&i| reader.may_contain(hash(i)).unwrap()).count()
    };
    let rows_passed =
        passed(&|i| key::hash(&key::encode(table, b"device-0001", format!("x{i}").as_bytes())));
    let partitions_passed =
        passed(&|i| key::hash(&key::encode_partition(table, format!("d-{i}").as_bytes())));
    assert!(rows_passed < 150 && partitions_passed < 150, "{rows_passed} {partitions_passed}");
}

#[test]
fn an_empty_file_is_refused() {
    let env = SimEnv::new(1);
    env.disk().create_dir_all(Path::new("db")).unwrap();
    let path = PathBuf::from("db/x.sst");
    let file = env.disk().create(&path).unwrap();
    let writer = Writer::new(file, path, FileId::new(1), WriterOptions::default());
    assert!(writer.finish().is_err());
}

/// Keys ascend, and versions descend within a key; a debug build panics.
#[test]
fn entries_out_of_order_are_refused() {
    let row = |(key, version): (&str, u64)| Row::put(key.into(), version, vec![]);
    for (first, second) in [
        (("b", 1), ("a", 1)),
        (("ab", 1), ("a", 1)),
        (("a", 1), ("a", 1)),
        (("a", 1), ("a", 2)),
        (("a", 1), ("b", NEWEST.ticks() + 1)),
    ] {
        let rows = [row(first), row(second)];
        let write = || Fixture::write(&rows, WriterOptions::default());
        assert!(std::panic::catch_unwind(write).is_err(), "{rows:?}");
    }
}
