//! What reads may cost, counted in keys examined.

use std::ops::Bound;
use std::rc::Rc;
use std::time::Duration;

use super::shelf::Shelf;
use super::world::{Step, TABLE, TickingClock, World, version};
use crate::key::{ALL_KEYS, KeyBounds};
use crate::read::scan::STEPS_BEFORE_SEEK;
use crate::read::{
    Direction, PageData, ScanHooks, ScanLimits, ScanRange, ScanRequest, StopReason, scan,
};

pub(super) const PARTITIONS: u64 = 50;
pub(super) const ROWS: u64 = 60;

pub(super) fn key(number: u64) -> Vec<u8> {
    format!("{number:04}").into_bytes()
}

fn grid() -> Vec<Step> {
    let pairs = (0..PARTITIONS).flat_map(|p| (0..ROWS).map(move |r| (key(p), key(r))));
    pairs.map(|pair| Step::Put(pair, 3)).collect()
}

/// The grid in a memtable, in a file, and in many.
pub(super) fn grids() -> impl Iterator<Item = Vec<Step>> {
    let places = [vec![Step::Freeze], vec![Step::Flush], vec![Step::Flush, Step::Sink(0)]];
    places.into_iter().map(|place| [grid(), place].concat())
}

fn page(
    world: &World,
    row: KeyBounds,
    direction: Direction,
    limits: &ScanLimits,
    start: Option<&(Vec<u8>, Vec<u8>)>,
) -> PageData {
    pages(world, &[ScanRange::new(ALL_KEYS, row)], direction, limits, start)
}

fn pages(
    world: &World,
    ranges: &[ScanRange],
    direction: Direction,
    limits: &ScanLimits,
    start: Option<&(Vec<u8>, Vec<u8>)>,
) -> PageData {
    page_at(world, world.newest(), ranges, direction, limits, start)
}

fn page_at(
    world: &World,
    at: u64,
    ranges: &[ScanRange],
    direction: Direction,
    limits: &ScanLimits,
    start: Option<&(Vec<u8>, Vec<u8>)>,
) -> PageData {
    let request = ScanRequest { table: TABLE, ranges, direction, start };
    let clock = TickingClock::default();
    scan(&world.view, request, limits, ScanHooks::default(), version(at), &clock).unwrap()
}

/// R-E15: a RowKey range in every partition costs a few keys a partition.
#[test]
fn a_row_range_over_partitions_examines_partitions_not_rows() {
    let ranges = [
        ((Bound::Included(key(20)), Bound::Included(key(20))), 1),
        ((Bound::Included(key(20)), Bound::Excluded(key(22))), 2),
        ((Bound::Unbounded, Bound::Excluded(key(1))), 1),
        ((Bound::Excluded(key(ROWS - 2)), Bound::Unbounded), 1),
        ((Bound::Excluded(key(ROWS)), Bound::Unbounded), 0),
    ];
    for (world, (rows, each)) in grids().flat_map(|grid| {
        let world = Rc::new(World::new(&grid));
        ranges.clone().map(|range| (Rc::clone(&world), range))
    }) {
        for direction in [Direction::Forward, Direction::Reverse] {
            let page = page(&world, rows.clone(), direction, &ScanLimits::default(), None);
            assert_eq!(page.len() as u64, PARTITIONS * each, "{rows:?}");
            // Each partition has a gap at either end, of a few steps and a seek.
            let gaps = 2 * (u64::from(STEPS_BEFORE_SEEK) + 1);
            assert!(page.examined <= PARTITIONS * (each + gaps), "{rows:?}: {}", page.examined);
        }
    }
}

/// R-E15, R-D10: so do several RowKey ranges in every partition, each; and in a single one.
#[test]
fn row_ranges_over_partitions_examine_partitions_times_ranges() {
    let point = |number: u64| (Bound::Included(key(number)), Bound::Included(key(number)));
    let lists = [
        (vec![point(3), point(30), point(50)], 3),
        (vec![(Bound::Unbounded, Bound::Excluded(key(2))), point(30)], 3),
        (vec![point(20), (Bound::Excluded(key(ROWS - 3)), Bound::Unbounded)], 3),
        (vec![point(ROWS + 1), point(ROWS + 9)], 0),
    ];
    let one = || (Bound::Included(key(7)), Bound::Included(key(7)));
    for grid in grids() {
        let world = World::new(&grid);
        for (rows, each) in lists.clone() {
            for (partition, partitions) in [(ALL_KEYS, PARTITIONS), (one(), 1)] {
                for direction in [Direction::Forward, Direction::Reverse] {
                    let ranges = [ScanRange::of_many(partition.clone(), rows.clone().into())];
                    let page = pages(&world, &ranges, direction, &ScanLimits::default(), None);
                    assert_eq!(page.len() as u64, partitions * each, "{rows:?}");
                    let gaps = (rows.len() as u64 + 1) * (u64::from(STEPS_BEFORE_SEEK) + 1);
                    let most = partitions * (each + gaps);
                    assert!(page.examined <= most, "{rows:?}: {} > {most}", page.examined);
                }
            }
        }
    }
}

/// R-D10: entities that are named cost one each, wherever they are; those that are not there too.
#[test]
fn named_entities_cost_one_each() {
    let point = |number: u64| (Bound::Included(key(number)), Bound::Included(key(number)));
    for grid in grids() {
        let world = World::new(&grid);
        let named = |p: u64| {
            let rows = [p, p + 1, ROWS - 1, ROWS + 5].map(point).into();
            ScanRange::of_many(point(p), rows)
        };
        let ranges: Vec<ScanRange> = (0..PARTITIONS).step_by(9).chain([70]).map(named).collect();
        for direction in [Direction::Forward, Direction::Reverse] {
            let page = pages(&world, &ranges, direction, &ScanLimits::default(), None);
            let there = ranges.len() as u64 - 1;
            assert_eq!((page.len() as u64, page.examined), (there * 3, (there + 1) * 4));
        }
    }
}

/// R-E12: a page over many ranges without keys keeps its limit of work and goes on behind it.
#[test]
fn ranges_without_keys_count_as_work() {
    let world = World::new(&grid());
    // "0000x..0000y" and so on: between the partitions there are none.
    let nowhere = |p: u64| {
        let bound = |end: u8| [key(p), vec![end]].concat();
        ScanRange::new((Bound::Included(bound(b'x')), Bound::Excluded(bound(b'y'))), ALL_KEYS)
    };
    let ranges: Vec<ScanRange> = (0..PARTITIONS).map(nowhere).collect();
    let limits = ScanLimits { examined: Some(10), ..ScanLimits::default() };
    for direction in [Direction::Forward, Direction::Reverse] {
        let (mut count, mut start) = (0, None);
        loop {
            let page = pages(&world, &ranges, direction, &limits, start.as_ref());
            assert!(page.examined <= 10 && page.len() == 0);
            count += 1;
            start = page.next;
            if start.is_none() {
                break;
            }
        }
        assert_eq!(count, PARTITIONS / 10);
    }
}

/// R-E19: what a range tombstone covers is passed in a seek where nothing newer is below it.
#[test]
fn a_deleted_range_is_passed_not_walked() {
    for mut steps in grids() {
        steps.push(Step::DeleteRange((key(1), key(0)), (key(PARTITIONS - 1), key(0))));
        let world = World::new(&steps);
        for direction in [Direction::Forward, Direction::Reverse] {
            let page = page(&world, ALL_KEYS, direction, &ScanLimits::default(), None);
            assert_eq!(page.len() as u64, 2 * ROWS);
            assert!(page.examined <= 2 * ROWS + 4, "{}", page.examined);
        }
    }
}

/// R-E19: where deleted keys must be walked, pages stay within their limit and make progress.
#[test]
fn pages_over_deleted_keys_keep_their_limit_and_go_on() {
    let mut steps = grid();
    let deleted: Vec<Step> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Put(pair, _) if pair.0 < key(PARTITIONS - 1) => Some(Step::Delete(pair.clone())),
            _ => None,
        })
        .collect();
    steps.extend(deleted);
    let world = World::new(&steps);
    let limits = ScanLimits { examined: Some(100), ..ScanLimits::default() };
    let (mut pages, mut rows, mut start) = (0, 0, None);
    loop {
        let page = page(&world, ALL_KEYS, Direction::Forward, &limits, start.as_ref());
        pages += 1;
        rows += page.len() as u64;
        assert!(page.examined <= 100);
        start = page.next;
        if start.is_none() {
            break;
        }
    }
    assert_eq!((pages, rows), ((PARTITIONS * ROWS).div_ceil(100), ROWS));
}

/// R-E12: a deadline ends a page soon after it is over, at a key that was not examined.
#[test]
fn a_deadline_ends_a_page_which_made_progress() {
    let world = World::new(&grid());
    let limits = ScanLimits { deadline: Some(Duration::ZERO), ..ScanLimits::default() };
    let page = page(&world, ALL_KEYS, Direction::Forward, &limits, None);
    assert_eq!(page.stop, StopReason::Deadline);
    assert!((1..=100).contains(&page.len()));
    let last = page.rows().next_back().unwrap();
    let next = page.next.as_ref().unwrap();
    assert!((last.partition_key, last.row_key) < (&next.0, &next.1));
}

/// R-E12: a page that is late between ranges, where there is no key to go on from, ends at the next key.
#[test]
fn a_deadline_between_touching_ranges_ends_a_page_at_the_next_key() {
    let world = World::new(&grid());
    let one = |p: u64| (Bound::Included(key(p)), Bound::Included(key(p)));
    let ranges = [
        ScanRange::new((Bound::Unbounded, Bound::Excluded(key(PARTITIONS - 2))), ALL_KEYS),
        ScanRange::new(one(PARTITIONS - 2), (Bound::Unbounded, Bound::Excluded(key(64 - ROWS)))),
        ScanRange::new(one(PARTITIONS - 1), ALL_KEYS),
    ];
    let limits = ScanLimits { deadline: Some(Duration::ZERO), ..ScanLimits::default() };
    let page = pages(&world, &ranges, Direction::Reverse, &limits, None);
    // The clock is looked at after 64 keys, which are all of two ranges.
    assert_eq!((page.stop, page.examined), (StopReason::Deadline, 64));
    assert_eq!(page.next, Some((key(PARTITIONS - 3), key(ROWS - 1))));
}

/// In reverse, keys whose newest version is too new are walked over as others are, whether there is an
/// older version of them or not.
#[test]
fn a_reverse_page_does_not_seek_for_older_versions() {
    let limits = ScanLimits::default();
    for before in grids().skip(1) {
        let overwritten = before.len() as u64;
        for place in [vec![], vec![Step::Flush], vec![Step::Flush, Step::Sink(0)]] {
            let steps = [before.clone(), grid(), place].concat();
            let world = World::with_shelf(&steps, Shelf::of_large_blocks());
            let cost = |at: u64, rows: u64| {
                let before = world.lookups();
                let page = page_at(
                    &world,
                    at,
                    &[ScanRange::new(ALL_KEYS, ALL_KEYS)],
                    Direction::Reverse,
                    &limits,
                    None,
                );
                assert_eq!((page.len() as u64, page.examined), (rows, PARTITIONS * ROWS));
                world.lookups() - before
            };
            let newest = cost(world.newest(), PARTITIONS * ROWS);
            for (at, rows) in [(1, 1), (overwritten, PARTITIONS * ROWS)] {
                let cost = cost(at, rows);
                assert!(cost <= 2 * newest, "{cost} instead of {newest} at {at}");
            }
        }
    }
}

/// R-E12: a page whose one row is over the limit takes nothing more, not even a row of no bytes.
#[test]
fn an_oversized_entity_is_a_page_of_its_own() {
    let nothing = Step::Put((Vec::new(), Vec::new()), 0);
    let world = World::new(&[nothing, Step::Put((Vec::new(), b"a".to_vec()), 9)]);
    let limits = ScanLimits { bytes: 4, ..ScanLimits::default() };
    let first = page(&world, ALL_KEYS, Direction::Reverse, &limits, None);
    assert_eq!((first.len(), first.stop), (1, StopReason::Bytes));
    let second = page(&world, ALL_KEYS, Direction::Reverse, &limits, first.next.as_ref());
    assert_eq!((second.len(), second.stop, second.next), (1, StopReason::End, None));
}
