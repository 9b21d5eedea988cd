//! Single reads and many reads of a partition agree with the model (R-E11, R-E16).

use proptest::prelude::*;

use super::world::{Live, TABLE, World, component, pair, steps, version};
use crate::entry::{Found, Kind};
use crate::key;
use crate::read::{get, get_raw, multi_get};
use crate::sst::Lookup;

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
            let raw = get_raw(&world.view, &lookup, version(at), |found| found.kind).unwrap();
            prop_assert_eq!(raw == Some(Kind::Put), expected.is_some());
        }
    }

    #[test]
    fn many_points_are_what_each_is(
        steps in steps(),
        pk in component(),
        row_keys in proptest::collection::vec(component(), 0..12),
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
    }
}
