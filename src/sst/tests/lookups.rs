//! Several keys looked up in their order.

use super::*;
use crate::cache::CacheStats;
use crate::entry::Found;

/// One after the other, as by [`get`].
fn get_many(reader: &Reader, keys: &[&[u8]], at: u64) -> Vec<Option<Row>> {
    let mut lookups = Lookups::default();
    let at = Version::from_ticks(at);
    let look_up = |&key: &&[u8]| {
        let lookup = Lookup::new(key);
        let mut asked = Asked::Nothing;
        if !lookups.is_near() {
            let (hash, probes) = (lookup.key_hash, Probes::of(lookup.key_hash));
            let question = reader.question(hash, probes).unwrap();
            if !reader.passes(hash, &question).unwrap() {
                return None;
            }
            asked = Asked::FirstProbes;
        }
        let row = |found: Found<'_>| Row {
            key: key.to_vec(),
            version: found.version.ticks(),
            kind: found.kind,
            value: found.value.to_vec(),
        };
        lookups.get(reader, &lookup, at, asked, row).unwrap()
    };
    keys.iter().map(look_up).collect()
}

/// Rows of many versions among others, so that one key fills blocks.
fn rows() -> Vec<Row> {
    let mut rows = entities(1_500, 7, 60);
    let hot = rows[700].key.clone();
    rows.extend((1..300).map(|version| Row::put(hot.clone(), version, noise(version, 60))));
    rows.sort_by(|a, b| a.key.cmp(&b.key).then(b.version.cmp(&a.version)));
    rows
}

fn opened(rows: &[Row], compression: Option<i32>, mode: ReadMode) -> (Reader, Arc<BlockCache>) {
    let fixture = Fixture::write(rows, WriterOptions { compression, ..WriterOptions::default() });
    let cache = Arc::new(BlockCache::new(16 << 20));
    let Fixture { env, path, meta } = &fixture;
    let reader = Reader::open(&*env.disk(), path, meta, Arc::clone(&cache), mode).unwrap();
    (reader, cache)
}

const PLACES: [(Option<i32>, ReadMode); 4] = [
    (None, ReadMode::Mmap),
    (Some(1), ReadMode::Mmap),
    (None, ReadMode::Pread),
    (Some(1), ReadMode::Pread),
];

/// R-E16: whether keys lie close together or far apart, were found before or not, or are not there.
#[test]
fn each_of_many_is_what_it_is_alone() {
    let rows = rows();
    let mut keys: Vec<Vec<u8>> = rows.iter().map(|row| row.key.clone()).collect();
    keys.dedup();
    keys.extend(keys.clone().iter().step_by(3).map(|key| [&key[..key.len() - 1], b"x\0"].concat()));
    keys.sort();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    for (compression, mode) in PLACES {
        let (reader, _) = opened(&rows, compression, mode);
        for step in [97, 1, 3, 31, 1] {
            let some: Vec<&[u8]> = keys.iter().copied().step_by(step).collect();
            for at in [1, 150, u64::MAX] {
                let right: Vec<_> = some.iter().map(|key| newest(&rows, key, at)).collect();
                assert_eq!(get_many(&reader, &some, at), right, "{mode:?}, every {step} at {at}");
            }
        }
    }
}

fn newest(rows: &[Row], key: &[u8], at: u64) -> Option<Row> {
    rows.iter().find(|row| row.key == key && row.version <= at).cloned()
}

/// R-E16: a key that is looked up among others is found at once the next time, alone or not.
#[test]
fn lookups_of_many_leave_hints_for_keys_that_lie_far_apart() {
    let rows = entities(3_000, 7, 60);
    let keys: Vec<&[u8]> = rows.iter().step_by(300).map(|row| &*row.key).collect();
    let (reader, _) = opened(&rows, None, ReadMode::Mmap);
    let hinted = || keys.iter().filter(|key| reader.source().recall(key::hash(key)).is_some());
    assert_eq!(hinted().count(), 0);
    get_many(&reader, &keys, u64::MAX);
    assert_eq!(hinted().count(), keys.len());
}

/// R-E16: a block is looked for once, and its keys need neither filter nor index.
#[test]
fn keys_that_lie_close_together_cost_a_look_for_each_block() {
    let rows = entities(3_000, 7, 60);
    let keys: Vec<&[u8]> = rows.iter().map(|row| &*row.key).collect();
    for (compression, mode) in PLACES {
        let (reader, cache) = opened(&rows, compression, mode);
        assert!(get_many(&reader, &keys, u64::MAX).iter().all(Option::is_some));
        let CacheStats { hits, misses, .. } = cache.stats();
        let blocks = hints(&reader).len() as u64 / 48;
        // Besides blocks there are an index partition and two filters to be read, and all of them are looked
        // for where a block ends.
        assert!(misses <= blocks + 3, "{misses} misses, {blocks} blocks, {mode:?}");
        assert!(hits + misses <= blocks * 6, "{hits} hits, {blocks} blocks, {mode:?}");
    }
}
