//! Single reads and many reads of a partition agree with the model (R-E11, R-E16).

use proptest::prelude::*;

use super::world::{Live, Step, TABLE, World, component, pair, steps, version};
use crate::entry::{Found, Kind};
use crate::key;
use crate::read::{get, get_raw, multi_get, multi_get_raw};
use crate::sst::Lookup;
use crate::version::Version;

fn live(found: Found<'_>) -> Live {
    assert_eq!(found.kind, Kind::Put);
    Live { version: found.version.ticks(), value: found.value.to_vec() }
}

proptest! {
    #[test]
    fn a_point_shows_what_the_model_has(
        steps in steps(),
        points in proptest::collection::vec((pair(), any::<proptest::sample::Index>()), 1..20),
    ) {
        let world = World::new(&steps);
        for (pair, at) in points {
            let at = at.index(steps.len() + 1) as u64;
            let key = key::encode(TABLE, &pair.0, &pair.1);
            let lookup = Lookup::new(&key);
            let expected = world.rows_at(at).remove(&pair);
            let found = get(&world.view, &lookup, version(at), live).unwrap();
            prop_assert_eq!(&found, &expected, "{:?} at {}", pair, at);
            for lookup in [lookup, Lookup::likely_absent(&key)] {
                let raw = get_raw(&world.view, &lookup, version(at), |found| found.kind).unwrap();
                prop_assert_eq!(raw == Some(Kind::Put), expected.is_some());
            }
        }
    }

    #[test]
    fn many_points_are_what_each_is(
        steps in steps(),
        pk in component(),
        row_keys in proptest::collection::vec(component(), 0..40),
        at in any::<proptest::sample::Index>(),
    ) {
        let world = World::new(&steps);
        let at = at.index(steps.len() + 1) as u64;
        let rows = world.rows_at(at);
        let borrowed: Vec<&[u8]> = row_keys.iter().map(Vec::as_slice).collect();
        let mut found = vec![None; row_keys.len()];
        let partition = key::encode_partition(TABLE, &pk);
        multi_get(&world.view, &partition, &borrowed, version(at), |index, row| {
            assert_eq!(found[index].replace(live(row)), None, "each is shown once");
        })
        .unwrap();
        for (row_key, found) in row_keys.iter().zip(found) {
            prop_assert_eq!(found.as_ref(), rows.get(&(pk.clone(), row_key.clone())));
        }
        // What a commit looks up: deletions too, each with its version.
        let encoded = row_keys.iter().map(|row_key| {
            let mut encoded = Vec::new();
            key::push_component(&mut encoded, row_key);
            encoded
        });
        let encoded: Vec<Vec<u8>> = encoded.collect();
        let borrowed: Vec<&[u8]> = encoded.iter().map(Vec::as_slice).collect();
        let raw = |found: Found<'_>| (found.version, found.kind, found.value.to_vec());
        let mut found = vec![None; row_keys.len()];
        multi_get_raw(&world.view, &partition, &borrowed, version(at), |index, row| {
            assert_eq!(found[index].replace(raw(row)), None, "each is shown once");
            Ok(())
        })
        .unwrap();
        for (row_key, found) in row_keys.iter().zip(found) {
            let key = key::encode(TABLE, &pk, row_key);
            let alone = get_raw(&world.view, &Lookup::new(&key), version(at), raw).unwrap();
            prop_assert_eq!(found, alone);
        }
    }
}

/// Files are asked some at a time; the newest that has the key is right wherever it stands among them.
#[test]
fn a_point_is_found_among_any_number_of_files() {
    let around = |row: &[u8]| (b"p".to_vec(), row.to_vec());
    for files in 1..=20 {
        let mut steps = vec![Step::Put(around(b"sought"), 1)];
        for _ in 0..files {
            // Each file spans the key.
            steps.extend([Step::Put(around(b"a"), 1), Step::Put(around(b"z"), 1), Step::Flush]);
        }
        let world = World::new(&steps);
        for (row, found) in [(&b"sought"[..], Some(1)), (b"absent", None)] {
            let key = key::encode(TABLE, b"p", row);
            for lookup in [Lookup::new(&key), Lookup::likely_absent(&key)] {
                let shown = |found: Found<'_>| found.version.ticks();
                let raw = get_raw(&world.view, &lookup, Version::MAX, shown).unwrap();
                assert_eq!(raw, found, "{files} files");
            }
        }
    }
}

/// A commit that finds a key deleted answers only once the deletion is durable, so it must learn
/// the deletion's version, be the entry still there or not.
#[test]
fn a_raw_read_shows_which_range_tombstone_deleted_the_key() {
    let pair = || (b"a".to_vec(), b"b".to_vec());
    for place in [vec![], vec![Step::Freeze], vec![Step::Flush], vec![Step::Flush, Step::Sink(0)]] {
        for entry in [Some(Step::Put(pair(), 1)), None] {
            let mut steps: Vec<Step> = entry.into_iter().chain(place.clone()).collect();
            steps.push(Step::DeletePartition(b"a".to_vec()));
            let world = World::new(&steps);
            let key = key::encode(TABLE, b"a", b"b");
            let shown = |found: Found<'_>| (found.version.ticks(), found.kind);
            let raw = get_raw(&world.view, &Lookup::new(&key), Version::MAX, shown).unwrap();
            assert_eq!(raw, Some((world.newest(), Kind::Delete)), "{steps:?}");
        }
    }
}
