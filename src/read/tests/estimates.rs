//! Estimates and split points are about right, wherever the data is (R-E23).

use super::costs::{PARTITIONS, ROWS, grids, key};
use super::world::{Step, TABLE, World};
use crate::key as encoded;
use crate::read::estimate::fences;
use crate::read::{estimate, split_points};

#[test]
fn an_estimate_is_about_right() {
    for steps in grids() {
        let view = World::new(&steps).view;
        let start = |partition| encoded::encode_partition(TABLE, &key(partition));
        let total = estimate(&view, &start(0), &start(PARTITIONS)).unwrap();
        let entries = PARTITIONS * ROWS;
        assert!(total.entries.abs_diff(entries) <= entries / 20, "{total:?}");
        let half = estimate(&view, &start(0), &start(PARTITIONS / 2)).unwrap();
        assert!(half.entries.abs_diff(entries / 2) <= entries / 10, "{half:?}");
        assert!(half.bytes.abs_diff(total.bytes / 2) <= total.bytes / 10, "{half:?} {total:?}");
        let none = estimate(&view, &start(PARTITIONS / 2), &start(0)).unwrap();
        assert_eq!((none.entries, none.bytes), (0, 0));
    }
}

#[test]
fn split_points_cut_a_table_into_equal_parts() {
    for steps in grids() {
        let view = World::new(&steps).view;
        let points = split_points(&view, TABLE, 5).unwrap();
        assert_eq!(points.len(), 4, "{points:?}");
        for (point, part) in points.iter().zip(1u64..) {
            // A point may be a PartitionKey cut short where that tells two blocks apart.
            let padded = format!("{:0<4}", std::str::from_utf8(point).unwrap());
            let partition: u64 = padded.parse().unwrap();
            let wanted = part * PARTITIONS / 5;
            assert!(partition.abs_diff(wanted) <= PARTITIONS / 10, "{partition} for {wanted}");
        }
        assert!(split_points(&view, TABLE, 1).unwrap().is_empty());
        let most = split_points(&view, TABLE, 10_000).unwrap();
        assert!(most.is_sorted_by(|a, b| a < b));
        assert!(most.len() as u64 <= 2 * PARTITIONS);
    }
}

/// R-E03: as many as parts need, not one for each block.
#[test]
fn split_points_hold_few_keys_of_a_large_file() {
    let put = |n: u64| Step::Put((key(n), Vec::new()), 4_000);
    let steps: Vec<_> = (0..600).map(put).chain([Step::Flush]).collect();
    let view = World::new(&steps).view;
    let (start, end) = encoded::table_range(TABLE);
    let held = |parts| fences(&view, &start, &end, parts).unwrap().len();
    assert!((16..=33).contains(&held(2)), "{}", held(2));
    assert!(held(usize::MAX) > 200, "{} blocks", held(usize::MAX));
}
