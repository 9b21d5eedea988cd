//! Pages put together are the model's rows, and every page keeps its word (R-E12 to R-E14).

use std::ops::Bound;

use proptest::prelude::*;

use super::world::{
    KEYS, Live, Pair, Step, TABLE, TickingClock, World, component, pair, rewrites, steps, version,
};
use crate::error::Error;
use crate::key::KeyBounds;
use crate::read::{
    Direction, PageData, PartitionStop, RowRef, ScanHooks, ScanLimits, ScanRange, ScanRequest,
    StopReason, Take, WhenFull, scan,
};

type Row = (Pair, Live);

#[derive(Clone, Debug)]
struct Query {
    ranges: Vec<ScanRange>,
    direction: Direction,
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

fn bounds() -> impl Strategy<Value = KeyBounds> {
    prop_oneof![
        2 => Just((Bound::Unbounded, Bound::Unbounded)),
        3 => (bound(), bound()),
        2 => component().prop_map(|key| (Bound::Included(key.clone()), Bound::Included(key))),
    ]
}

/// Ascending disjoint intervals, some of which touch: between cuts before and after keys, some of
/// the pieces.
fn intervals() -> impl Strategy<Value = Vec<KeyBounds>> {
    let flags = || proptest::collection::vec(any::<bool>(), 2 * KEYS.len() + 2);
    (flags(), flags()).prop_map(|(is_cut, is_taken)| {
        let cuts = KEYS.iter().flat_map(|key| {
            let key = key.to_vec();
            let before = (Bound::Excluded(key.clone()), Bound::Included(key.clone()));
            [before, (Bound::Included(key.clone()), Bound::Excluded(key))]
        });
        let mut low = Bound::Unbounded;
        let mut intervals = Vec::new();
        for (((high, next_low), is_cut), is_taken) in cuts.zip(is_cut).zip(is_taken) {
            if is_cut {
                let piece = (std::mem::replace(&mut low, next_low), high);
                intervals.extend(is_taken.then_some(piece));
            }
        }
        intervals.push((low, Bound::Unbounded));
        intervals
    })
}

/// One range in the form of the public queries, or several of several RowKey intervals.
fn ranges() -> impl Strategy<Value = Vec<ScanRange>> {
    let rows = || {
        prop_oneof![
            1 => Just(vec![(Bound::Unbounded, Bound::Unbounded)]),
            3 => intervals(),
            1 => proptest::collection::btree_set(component(), 0..5).prop_map(|keys| {
                let point = |key: Vec<u8>| (Bound::Included(key.clone()), Bound::Included(key));
                keys.into_iter().map(point).collect()
            }),
        ]
    };
    prop_oneof![
        1 => (bounds(), bounds()).prop_map(|(partition, row)| vec![ScanRange::new(partition, row)]),
        1 => (bounds(), rows()).prop_map(|(partition, rows)| vec![ScanRange::of_many(partition, rows.into())]),
        2 => (intervals(), proptest::collection::vec(rows(), 2 * KEYS.len() + 1)).prop_map(
            |(partitions, rows)| {
                let ranges = partitions.into_iter().zip(rows);
                ranges.map(|(partition, rows)| ScanRange::of_many(partition, rows.into())).collect()
            }
        ),
    ]
}

fn limits() -> impl Strategy<Value = ScanLimits> {
    let entities = prop_oneof![1usize..6, Just(usize::MAX)];
    let bytes = prop_oneof![1usize..20, Just(usize::MAX)];
    let examined = proptest::option::of(0u64..8);
    let partition = prop_oneof![Just(PartitionStop::Continue), Just(PartitionStop::Stop)];
    (entities, bytes, examined, partition).prop_map(|(entities, bytes, examined, partition)| {
        ScanLimits { entities, bytes, examined, partition, ..ScanLimits::default() }
    })
}

fn query() -> impl Strategy<Value = Query> {
    let direction = prop_oneof![Just(Direction::Forward), Just(Direction::Reverse)];
    let start = proptest::option::weighted(0.2, pair());
    (ranges(), direction, limits(), 0usize..4, start).prop_map(
        |(ranges, direction, limits, least_len, start)| Query {
            ranges,
            direction,
            limits,
            least_len,
            start,
        },
    )
}

/// The bounds of the standard library panic for some inverted ranges; here they are just empty.
fn contains(bounds: &KeyBounds, key: &Vec<u8>) -> bool {
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
        match self.direction {
            Direction::Forward => a < b,
            Direction::Reverse => a > b,
        }
    }

    /// A page, which has what is lent when entities are lent instead.
    fn page(&self, world: &World, at: u64, start: Option<&Pair>) -> PageData {
        let mut wanted = |row: RowRef<'_>| Ok(row.value.len() >= self.least_len);
        let mut doubled = |row: RowRef<'_>, out: &mut Vec<u8>| {
            out.extend([row.value, row.value].concat());
            Ok(())
        };
        let hooks = ScanHooks { predicate: Some(&mut wanted), take: Take::Project(&mut doubled) };
        let page = self.scan(world, at, start, hooks);
        let mut lent = Vec::new();
        let mut lend = |row: RowRef<'_>| {
            lent.push((row.partition_key.to_vec(), row.row_key.to_vec(), row.value.repeat(2)));
            Ok(())
        };
        let mut wanted = |row: RowRef<'_>| Ok(row.value.len() >= self.least_len);
        let hooks = ScanHooks { predicate: Some(&mut wanted), take: Take::Lend(&mut lend) };
        let end = self.scan(world, at, start, hooks);
        let parts = |row: RowRef<'_>| {
            (row.partition_key.to_vec(), row.row_key.to_vec(), row.value.to_vec())
        };
        assert_eq!(lent, page.rows().map(parts).collect::<Vec<_>>());
        assert_eq!((end.taken, end.stop, end.examined), (page.len(), page.stop, page.examined));
        assert_eq!(end.next, page.next);
        page
    }

    fn scan(&self, world: &World, at: u64, start: Option<&Pair>, hooks: ScanHooks<'_>) -> PageData {
        let clock = TickingClock::default();
        let Self { ranges, direction, .. } = self;
        let request = ScanRequest { table: TABLE, ranges, direction: *direction, start };
        scan(&world.view, request, &self.limits, hooks, version(at), &clock).unwrap()
    }

    /// The live rows of the ranges from the start on, whatever the predicate says.
    fn live_rows(&self, world: &World, at: u64) -> Vec<Row> {
        let rows = world.rows_at(at).into_iter();
        let mut rows: Vec<Row> = rows
            .filter(|((pk, rk), _)| {
                let mut ranges = self.ranges.iter().filter(|r| contains(&r.partition.bounds(), pk));
                ranges.any(|range| range.rows.iter().any(|row| contains(row, rk)))
            })
            .filter(|(pair, _)| self.start.as_ref().is_none_or(|s| !self.is_before(pair, s)))
            .collect();
        if self.direction == Direction::Reverse {
            rows.reverse();
        }
        rows
    }

    fn wants(&self, (_, live): &Row) -> bool {
        live.value.len() >= self.least_len
    }

    /// Goes through all pages, which together have to be the model's rows.
    fn check_pages(&self, world: &World, at: u64) {
        let live = self.live_rows(world, at);
        let mut found = Vec::new();
        let mut start = self.start.clone();
        for pages in 0.. {
            assert!(pages < 400, "a scan of a few dozen keys ends");
            let page = self.page(world, at, start.as_ref());
            self.check_page(&live, start.as_ref(), &page);
            found.extend(page.rows().map(owned));
            match page.next {
                Some(next) => start = Some(next),
                None => break,
            }
        }
        let expected: Vec<Row> = live.into_iter().filter(|row| self.wants(row)).collect();
        assert_eq!(found, expected, "{self:?} at {at}");
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
                assert!(at_live && upcoming.is_some_and(|row| self.wants(row)));
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
            StopReason::Deadline | StopReason::End | StopReason::Top => {
                unreachable!("{:?}", page.stop)
            }
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
            query.check_pages(&world, at.index(steps.len() + 1) as u64);
        }
    }

    /// Also where each key has many versions on both sides of the one that is read.
    #[test]
    fn reverse_pages_at_any_version_are_the_rows_of_the_model(
        steps in rewrites(),
        limits in limits(),
        start in proptest::option::weighted(0.2, pair()),
    ) {
        let world = World::new(&steps);
        let (ranges, direction) = (vec![ScanRange::all()], Direction::Reverse);
        let query = Query { ranges, direction, limits, least_len: 0, start };
        for at in (0..=world.newest()).step_by(3) {
            query.check_pages(&world, at);
        }
    }
}

proptest! {
    /// A page that nobody wants more than is complete with its last row, and examines no further.
    #[test]
    fn a_page_that_is_the_last_ends_where_it_is_full(
        steps in steps(), query in query(), entities in 1usize..6,
    ) {
        let world = World::new(&steps);
        let at = world.newest();
        let unlimited = ScanLimits { entities, ..ScanLimits::default() };
        let look_on = Query { limits: unlimited, ..query };
        let end = ScanLimits { when_full: WhenFull::End, ..unlimited };
        let (page, last) = (
            look_on.page(&world, at, look_on.start.as_ref()),
            Query { limits: end, ..look_on.clone() }.page(&world, at, look_on.start.as_ref()),
        );
        prop_assert!(page.rows().eq(last.rows()));
        prop_assert_eq!(&last.next, &None);
        let expected = if last.len() == entities { StopReason::Top } else { StopReason::End };
        prop_assert_eq!(last.stop, expected);
        prop_assert!(last.examined <= page.examined);
    }
}

/// What a hook cannot read ends the page with its error.
#[test]
fn an_error_of_a_hook_is_the_pages() {
    let world = World::new(&[Step::Put((b"a".to_vec(), b"b".to_vec()), 3)]);
    let (clock, limits) = (TickingClock::default(), ScanLimits::default());
    let ranges = &[ScanRange::all()];
    let request = ScanRequest { table: TABLE, ranges, direction: Direction::Forward, start: None };
    let refused = || Box::new(Error::InvalidArgument("refused".into()));
    let mut predicate = |_: RowRef<'_>| Err(refused());
    let mut projection = |_: RowRef<'_>, _: &mut Vec<u8>| Err(refused());
    let hooks = [
        ScanHooks { predicate: Some(&mut predicate), take: Take::Copy },
        ScanHooks { predicate: None, take: Take::Project(&mut projection) },
    ];
    for hooks in hooks {
        let page = scan(&world.view, request, &limits, hooks, version(1), &clock);
        assert!(matches!(page, Err(Error::InvalidArgument(_))), "{page:?}");
    }
}

/// Where no key separates two ranges, or none fits into one, a page out of work goes on to a key
/// that is stored, and loses none.
#[test]
fn pages_of_one_key_over_ranges_that_touch_lose_none() {
    use Bound::{Excluded, Included, Unbounded};
    let key = |bytes: &[u8]| bytes.to_vec();
    let pairs = [(&b"a"[..], &b"b"[..]), (b"a\x00", b""), (b"a\x00", b"b"), (b"b", b"")];
    let puts: Vec<Step> =
        pairs.iter().map(|(pk, rk)| Step::Put((pk.to_vec(), rk.to_vec()), 1)).collect();
    let world = World::new(&puts);
    let rows = |low: &[u8]| [(Excluded(low.to_vec()), Unbounded)].into();
    let ranges = vec![
        ScanRange::of_many((Unbounded, Included(key(b"a"))), rows(b"a")),
        // Nothing is between these two PartitionKeys.
        ScanRange::of_many((Excluded(key(b"a")), Excluded(key(b"a\x00"))), rows(b"z")),
        ScanRange::new((Included(key(b"a\x00")), Included(key(b"a\x00"))), (Unbounded, Unbounded)),
        ScanRange::new((Excluded(key(b"a\x00")), Unbounded), (Unbounded, Included(key(b"")))),
    ];
    for direction in [Direction::Forward, Direction::Reverse] {
        let limits = ScanLimits { examined: Some(1), ..ScanLimits::default() };
        let query = Query { ranges: ranges.clone(), direction, limits, least_len: 0, start: None };
        let (mut found, mut start) = (Vec::new(), None);
        for pages in 0.. {
            assert!(pages < 40, "a scan of four keys ends");
            let page = query.page(&world, 4, start.as_ref());
            found.extend(page.rows().map(|row| owned(row).0));
            start = page.next;
            if start.is_none() {
                break;
            }
        }
        let mut expected: Vec<Pair> =
            pairs.iter().map(|(pk, rk)| (pk.to_vec(), rk.to_vec())).collect();
        if direction == Direction::Reverse {
            expected.reverse();
        }
        assert_eq!(found, expected, "{direction:?}");
    }
}
