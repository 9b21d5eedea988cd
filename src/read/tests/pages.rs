//! Pages put together are the model's rows, and every page keeps its word (R-E12 to R-E14).

use std::ops::Bound;

use proptest::prelude::*;

use super::world::{Live, Pair, TABLE, TickingClock, World, component, pair, steps, version};
use crate::read::{
    Direction, PageData, PartitionStop, RowRef, ScanHooks, ScanLimits, ScanRange, StopReason, scan,
};

type Row = (Pair, Live);

#[derive(Clone, Debug)]
struct Query {
    range: ScanRange,
    limits: ScanLimits,
    /// Keeps rows whose value has at least this many bytes.
    least_len: usize,
    start: Option<Pair>,
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        Just(Bound::Unbounded),
        component().prop_map(Bound::Included),
        component().prop_map(Bound::Excluded),
    ]
}

fn bounds() -> impl Strategy<Value = (Bound<Vec<u8>>, Bound<Vec<u8>>)> {
    prop_oneof![
        2 => Just((Bound::Unbounded, Bound::Unbounded)),
        3 => (bound(), bound()),
        2 => component().prop_map(|key| (Bound::Included(key.clone()), Bound::Included(key))),
    ]
}

fn limits() -> impl Strategy<Value = ScanLimits> {
    let entities = prop_oneof![1usize..6, Just(usize::MAX)];
    let bytes = prop_oneof![1usize..20, Just(usize::MAX)];
    let examined = proptest::option::of(0u64..8);
    let partition = prop_oneof![Just(PartitionStop::Continue), Just(PartitionStop::Stop)];
    (entities, bytes, examined, partition).prop_map(|(entities, bytes, examined, partition)| {
        ScanLimits { entities, bytes, examined, deadline: None, partition }
    })
}

fn query() -> impl Strategy<Value = Query> {
    let direction = prop_oneof![Just(Direction::Forward), Just(Direction::Reverse)];
    let start = proptest::option::weighted(0.2, pair());
    (bounds(), bounds(), direction, limits(), 0usize..4, start).prop_map(
        |(partition, row, direction, limits, least_len, start)| Query {
            range: ScanRange { table: TABLE, partition, row, direction },
            limits,
            least_len,
            start,
        },
    )
}

/// The bounds of the standard library panic for some inverted ranges; here they are just empty.
fn contains(bounds: &(Bound<Vec<u8>>, Bound<Vec<u8>>), key: &Vec<u8>) -> bool {
    let above = match &bounds.0 {
        Bound::Included(low) => key >= low,
        Bound::Excluded(low) => key > low,
        Bound::Unbounded => true,
    };
    above
        && match &bounds.1 {
            Bound::Included(high) => key <= high,
            Bound::Excluded(high) => key < high,
            Bound::Unbounded => true,
        }
}

impl Query {
    fn is_before(&self, a: &Pair, b: &Pair) -> bool {
        match self.range.direction {
            Direction::Forward => a < b,
            Direction::Reverse => a > b,
        }
    }

    fn page(&self, world: &World, at: u64, start: Option<Pair>) -> PageData {
        let mut wanted = |row: RowRef<'_>| row.value.len() >= self.least_len;
        let mut doubled = |value: &[u8], out: &mut Vec<u8>| out.extend([value, value].concat());
        let hooks = ScanHooks { predicate: Some(&mut wanted), projection: Some(&mut doubled) };
        let clock = TickingClock::default();
        let range = &self.range;
        scan(&world.view, range, start, &self.limits, hooks, version(at), &clock).unwrap()
    }

    /// The live rows of the range from the start on, whatever the predicate says.
    fn live_rows(&self, world: &World, at: u64) -> Vec<Row> {
        let rows = world.rows_at(at).into_iter();
        let mut rows: Vec<Row> = rows
            .filter(|((pk, rk), _)| {
                contains(&self.range.partition, pk) && contains(&self.range.row, rk)
            })
            .filter(|(pair, _)| self.start.as_ref().is_none_or(|s| !self.is_before(pair, s)))
            .collect();
        if self.range.direction == Direction::Reverse {
            rows.reverse();
        }
        rows
    }

    fn wants(&self, (_, live): &Row) -> bool {
        live.value.len() >= self.least_len
    }

    fn check_page(&self, live: &[Row], from: Option<&Pair>, page: &PageData) {
        let rows: Vec<Row> = page.rows().map(owned).collect();
        let size = |((pk, rk), live): &Row| pk.len() + rk.len() + live.value.len();
        let total: usize = rows.iter().map(size).sum();
        assert!(rows.len() <= self.limits.entities);
        assert!(rows.len() <= 1 || total <= self.limits.bytes);
        assert!(page.examined <= self.limits.examined.unwrap_or(u64::MAX).max(1));
        assert_eq!(page.next.is_none(), page.stop == StopReason::End);

        let Some(next) = &page.next else { return };
        assert!(from.is_none_or(|from| self.is_before(from, next)), "a page makes progress");
        assert!(rows.iter().all(|(pair, _)| self.is_before(pair, next)));
        let upcoming = live.iter().find(|(pair, _)| !self.is_before(pair, next));
        let at_live = upcoming.is_some_and(|(pair, _)| pair == next);
        match page.stop {
            StopReason::Entities => {
                assert_eq!(rows.len(), self.limits.entities);
                assert!(at_live || self.limits.examined.is_some_and(|e| page.examined >= e));
            }
            StopReason::Bytes => {
                assert!(at_live && upcoming.is_some_and(|row| self.wants(row)));
                assert!(total + upcoming.map_or(0, size) > self.limits.bytes);
                assert!(!rows.is_empty());
            }
            StopReason::Partition => {
                assert!(at_live && rows.iter().all(|((pk, _), _)| *pk != next.0));
                assert_eq!(self.limits.partition, PartitionStop::Stop);
            }
            StopReason::Examined => {
                assert_eq!(page.examined, self.limits.examined.unwrap().max(1));
            }
            StopReason::Deadline | StopReason::End => unreachable!("{:?}", page.stop),
        }
        if self.limits.partition == PartitionStop::Stop {
            assert!(rows.windows(2).all(|two| two[0].0.0 == two[1].0.0));
        }
    }
}

/// The row as it was before the projection doubled its value.
fn owned(row: RowRef<'_>) -> Row {
    let (value, again) = row.value.split_at(row.value.len() / 2);
    assert_eq!(value, again);
    let pair = (row.partition_key.to_vec(), row.row_key.to_vec());
    (pair, Live { version: row.version.ticks(), value: value.to_vec() })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn pages_together_are_the_rows_of_the_model(
        steps in steps(),
        queries in proptest::collection::vec((query(), any::<proptest::sample::Index>()), 1..8),
    ) {
        let world = World::new(&steps);
        for (query, at) in queries {
            let at = at.index(steps.len() + 1) as u64;
            let live = query.live_rows(&world, at);
            let mut found = Vec::new();
            let mut start = query.start.clone();
            for pages in 0.. {
                assert!(pages < 400, "a scan of a few dozen keys ends");
                let page = query.page(&world, at, start.clone());
                query.check_page(&live, start.as_ref(), &page);
                found.extend(page.rows().map(owned));
                match page.next {
                    Some(next) => start = Some(next),
                    None => break,
                }
            }
            let expected: Vec<Row> = live.into_iter().filter(|row| query.wants(row)).collect();
            prop_assert_eq!(found, expected, "{:?} at {}", query, at);
        }
    }
}
