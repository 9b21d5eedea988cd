//! Rows that the cache holds apart from their blocks.

use super::*;

/// A file of compressed blocks, with many versions of each key, and a cache that has what it holds.
struct Cached {
    rows: Vec<Row>,
    reader: Reader,
    cache: Arc<BlockCache>,
}

const KEYS: u64 = 3_000;
const VERSIONS: u64 = 3;

fn cached(mode: ReadMode) -> Cached {
    let table = key::TableId::FIRST;
    let key = |n: u64| key::encode(table, b"partition", format!("{n:08}").as_bytes());
    let versions = |n| (1..=VERSIONS).rev().map(move |v| (n, v));
    let value = |n, v| noise(n * 10 + v, 50).repeat(3);
    let of = |(n, v): (u64, u64)| Row::put(key(n), 10 * v, value(n, v));
    let rows: Vec<Row> = (0..KEYS).flat_map(versions).map(of).collect();
    let fixture =
        Fixture::write(&rows, WriterOptions { compression: Some(1), ..WriterOptions::default() });
    let cache = Arc::new(BlockCache::new(200 << 10));
    let Fixture { env, path, meta } = &fixture;
    let reader = Reader::open(&*env.disk(), path, meta, Arc::clone(&cache), mode).unwrap();
    // Rows of another file, so that there is nothing to spare.
    (0..3_000).for_each(|n| cache.insert_row(FileId::new(43), n, noise(n, 150).into()));
    Cached { rows, reader, cache }
}

impl Cached {
    fn key(&self, n: u64) -> &[u8] {
        &self.rows[(n * VERSIONS) as usize].key
    }

    fn check(&self, n: u64, at: u64) {
        let right = self.rows.iter().find(|row| row.key == self.key(n) && row.version <= at);
        assert_eq!(get(&self.reader, self.key(n), at).unwrap().as_ref(), right, "{n} at {at}");
    }

    /// How many blocks were missing while `read` went on.
    fn misses(&self, read: impl FnOnce()) -> u64 {
        let before = self.cache.stats().misses;
        read();
        self.cache.stats().misses - before
    }

    fn has_row(&self, n: u64) -> bool {
        self.cache.row(self.reader.meta().id, key::hash(self.key(n))).is_some()
    }
}

#[test]
fn a_row_is_read_again_without_its_block() {
    for mode in MODES {
        let cached = cached(mode);
        for n in (0..KEYS).step_by(100) {
            assert_ne!(cached.misses(|| cached.check(n, u64::MAX)), 0, "{n}, {mode:?}");
            assert!(cached.has_row(n), "{n}, {mode:?}");
            assert_eq!(cached.misses(|| cached.check(n, u64::MAX)), 0, "{n}, {mode:?}");
        }
    }
}

/// R-E11
#[test]
fn an_earlier_version_is_not_taken_from_the_row_of_a_newer_one_nor_kept_as_the_newest() {
    for mode in MODES {
        let cached = cached(mode);
        let order = [[10, 9, 30, 20], [30, 10, 29, 9], [25, 30, 15, u64::MAX]];
        for (n, versions) in (0..KEYS).step_by(97).zip(order.iter().cycle()) {
            for _ in 0..2 {
                versions.iter().for_each(|&at| cached.check(n, at));
            }
        }
    }
}

#[test]
fn a_block_of_which_keys_are_asked_for_in_order_is_read_twice() {
    for mode in MODES {
        let cached = cached(mode);
        let blocks = cached.reader.directory().data_blocks as u64;
        let misses = cached.misses(|| (0..KEYS).for_each(|n| cached.check(n, u64::MAX)));
        assert!((2 * blocks..3 * blocks).contains(&misses), "{misses} of {blocks}, {mode:?}");
    }
}
