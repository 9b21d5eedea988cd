//! Which keys a filter leaves possible, and how that is said (R-D10, G-060 to G-067, W-136 to
//! W-143).

use std::ops::Bound;

use proptest::prelude::*;

use super::generate::{entity, expression, filter, key, key_condition, version};
use crate::entity::Entity;
use crate::entity::filter::boxes::MAX_INTERVALS;
use crate::entity::filter::naive::passes;
use crate::entity::filter::{Explain, Filter, Plan};
use crate::key::KeyBounds;
use crate::version::Version;

fn explain(text: &str) -> Explain {
    Filter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).explain()
}

#[track_caller]
fn plan(text: &str, plan: Plan, words: &str) {
    let explain = explain(text);
    assert_eq!(explain.to_string(), words, "{text}");
    assert_eq!(explain.plan(), plan, "{text}");
}

/// In how many places of the plan a key is.
fn places(explain: &Explain, partition_key: &str, row_key: &str) -> usize {
    explain.places(partition_key.as_bytes(), row_key.as_bytes())
}

/// G-060, G-061, W-136: both keys, however they are written.
#[test]
fn g_061_both_keys_are_a_point_read() {
    let words = "point read: PartitionKey = \"Sales\", RowKey = \"2\"";
    plan("(PartitionKey eq 'Sales') and (RowKey eq '2')", Plan::PointRead, words);
    plan("'2' eq RowKey and 'Sales' eq PartitionKey", Plan::PointRead, words);
    plan("not (PartitionKey ne 'Sales' or RowKey ne '2')", Plan::PointRead, words);
    plan(
        "PartitionKey ge 'Sales' and RowKey eq '2' and PartitionKey le 'Sales'",
        Plan::PointRead,
        words,
    );
    plan(
        "PartitionKey eq '' and RowKey eq '' and Age gt 5",
        Plan::PointRead,
        "point read: PartitionKey = \"\", RowKey = \"\"; then filter: Age gt 5",
    );
}

/// G-063, G-070, W-138, W-140: a range of RowKeys in one partition, with either kind of ends.
#[test]
fn g_063_a_range_of_rows() {
    let range = |condition: &str, words: &str| {
        let words = format!("row range in partition \"Sales\": RowKey {words}");
        plan(&format!("PartitionKey eq 'Sales' and {condition}"), Plan::RowRange, &words);
    };
    range("RowKey ge 'S' and RowKey lt 'T'", ">= \"S\" and < \"T\"");
    range("RowKey gt 'S' and RowKey le 'T'", "> \"S\" and <= \"T\"");
    range(
        "RowKey ge 'empid_000100' and RowKey le 'empid_000199'",
        ">= \"empid_000100\" and <= \"empid_000199\"",
    );
    range("RowKey ge 'S'", ">= \"S\"");
    range("not (RowKey ge 'S')", "< \"S\"");
    range("RowKey gt 'a' and RowKey gt 'b' and RowKey gt 'ab'", "> \"b\"");
    range("RowKey gt 'a' and (RowKey lt 'c' or RowKey lt 'd')", "> \"a\" and < \"d\"");
    range(
        "RowKey ge 'S' and RowKey lt 'T' and LastName eq 'Smith'",
        ">= \"S\" and < \"T\"; then filter: LastName eq 'Smith'",
    );
}

/// G-064, W-137: one partition; G-065, W-133: no key at all.
#[test]
fn g_064_partitions_and_tables() {
    plan("PartitionKey eq 'Sales'", Plan::Partition, "partition \"Sales\"");
    plan(
        "PartitionKey eq 'Sales' and LastName eq 'Smith'",
        Plan::Partition,
        "partition \"Sales\"; then filter: LastName eq 'Smith'",
    );
    plan("LastName eq 'Jones'", Plan::TableScan, "table scan; then filter: LastName eq 'Jones'");
    plan("", Plan::TableScan, "table scan");
    plan("PartitionKey ge ''", Plan::TableScan, "table scan");
    // `or` with a property leaves all keys possible.
    plan(
        "PartitionKey eq 'a' or X eq 1",
        Plan::TableScan,
        "table scan; then filter: PartitionKey eq 'a' or X eq 1",
    );
}

/// W-139: a range of partitions.
#[test]
fn w_139_a_range_of_partitions() {
    plan(
        "PartitionKey ge 'PDC' and PartitionKey lt 'PDD'",
        Plan::PartitionRange,
        "partition range: PartitionKey >= \"PDC\" and < \"PDD\"",
    );
    plan("PartitionKey gt 'a'", Plan::PartitionRange, "partition range: PartitionKey > \"a\"");
    plan(
        "PartitionKey ne 'b'",
        Plan::Ranges { ranges: 2 },
        "2 ranges: (PartitionKey < \"b\") or (PartitionKey > \"b\")",
    );
}

/// G-066, R-E15: RowKeys in all partitions.
#[test]
fn g_066_rows_of_all_partitions_are_skipped_to() {
    plan(
        "RowKey ge '15:04' and RowKey le '15:06' and Level eq 'error'",
        Plan::SkipScan,
        "skip-scan of all partitions: RowKey >= \"15:04\" and <= \"15:06\"; then filter: Level eq 'error'",
    );
    plan(
        "RowKey eq '2' or RowKey eq '1'",
        Plan::SkipScan,
        "skip-scan of all partitions: RowKey = \"1\" or = \"2\"",
    );
    plan(
        "PartitionKey gt 'a' and RowKey eq '1'",
        Plan::SkipScan,
        "skip-scan of partitions: PartitionKey > \"a\", RowKey = \"1\"",
    );
    plan("RowKey ne 'm'", Plan::SkipScan, "skip-scan of all partitions: RowKey < \"m\" or > \"m\"");
}

/// G-067, R-E16: `or` over RowKeys is a multi-get, in order and each key once.
#[test]
fn g_067_keys_joined_by_or_are_a_multi_get() {
    plan(
        "PartitionKey eq 'Sales' and (RowKey eq '322' or RowKey eq '121' or RowKey eq '322')",
        Plan::MultiGet { keys: 2 },
        "multi-get of 2 keys in partition \"Sales\": RowKey = \"121\" or = \"322\"",
    );
    plan(
        "PartitionKey eq 'b' and RowKey eq '1' or PartitionKey eq 'a' and RowKey eq '2'",
        Plan::MultiGet { keys: 2 },
        "multi-get of 2 keys in 2 partitions",
    );
    plan(
        "(PartitionKey eq 'a' or PartitionKey eq 'b') and (RowKey eq '1' or RowKey eq '2') and X",
        Plan::MultiGet { keys: 4 },
        "multi-get of 4 keys in 2 partitions; then filter: X eq true",
    );
    plan(
        "PartitionKey eq 'a' and (RowKey eq '1' or RowKey eq '2' or RowKey eq '3' or RowKey eq '4')",
        Plan::MultiGet { keys: 4 },
        "multi-get of 4 keys in partition \"a\": RowKey = \"1\" or = \"2\" or = \"3\" or 1 more",
    );
}

#[test]
fn several_ranges_are_scanned_in_order() {
    plan(
        "PartitionKey eq 'b' and RowKey gt 'x' or PartitionKey eq 'a' or PartitionKey ge 'c'",
        Plan::Ranges { ranges: 3 },
        "3 ranges: (PartitionKey = \"a\") or (PartitionKey = \"b\", RowKey > \"x\") or (PartitionKey >= \"c\")",
    );
    plan(
        "PartitionKey eq 'a' and (RowKey lt 'b' or RowKey eq 'm')",
        Plan::Ranges { ranges: 2 },
        "2 row ranges in partition \"a\": RowKey < \"b\" or = \"m\"",
    );
    // Conditions on properties that belong to one key each are asked again as they stand.
    plan(
        "PartitionKey eq 'a' and (RowKey eq '1' and X eq 1 or RowKey eq '2' and X eq 2)",
        Plan::MultiGet { keys: 2 },
        "multi-get of 2 keys in partition \"a\": RowKey = \"1\" or = \"2\"; \
         then filter: RowKey eq '1' and X eq 1 or RowKey eq '2' and X eq 2",
    );
}

/// W-143: an empty or inverted range is an empty result; so is what contradicts itself.
#[test]
fn w_143_contradictions_read_nothing() {
    for text in [
        "false",
        "not true and X eq 1",
        "RowKey ge 'b' and RowKey lt 'b'",
        "PartitionKey eq 'a' and RowKey gt 'c' and RowKey lt 'b' and X eq 1",
        "PartitionKey eq 'a' and PartitionKey eq 'b' and X eq 1",
        "PartitionKey lt ''",
        "RowKey gt 'a' and RowKey lt 'a\0'",
        "PartitionKey eq 5",
        "X eq 1 and RowKey gt 5",
        "not (RowKey le true)",
    ] {
        plan(text, Plan::Nothing, "nothing: no key can match");
    }
}

/// R-D06: a key compared with another type is true or false for all entities.
#[test]
fn r_d06_keys_and_other_types() {
    plan("PartitionKey ne 5", Plan::TableScan, "table scan");
    plan("PartitionKey lt 5 and RowKey le 5L", Plan::TableScan, "table scan");
    plan("RowKey eq 5 or X eq 1", Plan::TableScan, "table scan; then filter: X eq 1");
    plan("Timestamp ne 'x' and X eq 1", Plan::TableScan, "table scan; then filter: X eq 1");
}

/// What is simple is not asked of each entity.
#[test]
fn what_the_boxes_say_is_not_asked_again() {
    plan(
        "(X eq 1 or Y) and PartitionKey eq 'a' and not (Z lt 2) and true",
        Plan::Partition,
        "partition \"a\"; then filter: (X eq 1 or Y eq true) and not (Z lt 2)",
    );
    plan("not (X eq 1 or true)", Plan::Nothing, "nothing: no key can match");
    assert_eq!(explain("true or X eq 1").residual(), None);
}

/// A query that is restricted to keys besides its filter.
#[test]
fn bounds_of_the_query_narrow_the_boxes() {
    let one = |key: &str| (Bound::Included(key.into()), Bound::Included(key.into()));
    let all = (Bound::Unbounded, Bound::Unbounded);
    let filter = Filter::parse("RowKey gt 'm' and X").unwrap();
    let explain = filter.explain_within(&one("a"), &all);
    assert_eq!(
        explain.to_string(),
        "row range in partition \"a\": RowKey > \"m\"; then filter: X eq true"
    );
    let explain = filter.explain_within(&all, &one("a"));
    assert_eq!(explain.to_string(), "nothing: no key can match");
    let empty = (Bound::Included(b"b".to_vec()), Bound::Excluded(b"a".to_vec()));
    assert_eq!(filter.explain_within(&empty, &all).plan(), Plan::Nothing);
    assert_eq!(Filter::everything().explain_within(&all, &all).plan(), Plan::TableScan);
}

/// Clients build lists of 10,000: all of them are looked up.
#[test]
fn ten_thousand_keys_are_planned_one_by_one() {
    let point = |i: u32| {
        Filter::partition_key().eq(format!("{}", i % 100)).and(Filter::row_key().eq(format!("{i}")))
    };
    let keys = (0..10_000).map(point).reduce(Filter::or).unwrap();
    let explain = keys.and(Filter::property("X").eq(1)).explain();
    assert_eq!(explain.plan(), Plan::MultiGet { keys: 10_000 });
    assert_eq!(explain.residual(), Some(&Filter::property("X").eq(1)));
}

/// Beyond the limits the boxes grow, and the filter is asked in full.
#[test]
fn a_set_that_is_too_large_is_replaced_by_one_around_it() {
    let row = |i: usize| Filter::row_key().eq(format!("{i:05}"));
    let partition = |i: usize| Filter::partition_key().eq(format!("{i:05}"));
    let any = |filters: &mut dyn Iterator<Item = Filter>| filters.reduce(Filter::or).unwrap();
    let rows = any(&mut (0..2 * MAX_INTERVALS).map(row));
    let points = any(&mut (0..MAX_INTERVALS).map(|i| partition(i).and(row(i))));
    let product = any(&mut (0..10_001).map(row)).and(any(&mut (0..10_001).map(partition)));
    // Each partition has a list of its own.
    let lists =
        any(&mut (0..10_001).map(|i| partition(i).and(Filter::row_key().ge(format!("{i:05}")))));
    let united = lists.clone().or(any(&mut (0..10_001).map(row)));
    let lists = lists.and(any(&mut (0..10_001).map(row)));
    for filter in [partition(10_000).and(rows), points, product, lists, united] {
        let explain = filter.explain();
        let intervals = explain.ranges().iter().map(|range| 1 + range.rows.len()).sum::<usize>();
        assert!(intervals <= MAX_INTERVALS);
        assert!(explain.residual() == Some(&filter));
        assert_eq!(places(&explain, "10000", "10000"), 1);
    }
}

/// R-S12: a filter that is made to be hard to plan is planned coarsely instead.
#[test]
fn planning_is_bounded() {
    let mut hard = Filter::nothing();
    for i in 0..5_000 {
        let point =
            Filter::partition_key().eq(format!("{i}")).and(Filter::row_key().eq(format!("{i}")));
        hard = hard.or(point).and(Filter::row_key().ne(format!("-{i}")));
    }
    let explain = hard.explain();
    assert_eq!(explain.plan(), Plan::TableScan);
    assert!(explain.residual().is_some());
}

proptest! {
    /// R-D10: results are those of a full scan: whatever passes is in the boxes, once, and what is
    /// left of the filter there says the same as the filter.
    #[test]
    fn r_d10_every_match_is_in_the_boxes(
        filter in filter(), entity in entity(), version in version(),
    ) {
        let explain = filter.explain();
        let places = places(&explain, entity.partition_key(), entity.row_key());
        prop_assert!(places <= 1, "{}: disjoint", explain);
        let left = explain.residual().is_none_or(|residual| passes(residual, &entity, version));
        let expected = passes(&filter, &entity, version);
        prop_assert_eq!(places == 1 && left, expected, "{}", explain);
    }

    /// R-D10: of conditions on keys alone, nothing is left to ask.
    #[test]
    fn r_d10_conditions_on_keys_give_exact_boxes(
        filter in expression(key_condition()), partition_key in key(), row_key in key(),
    ) {
        let explain = filter.explain();
        let entity = Entity::new(partition_key, row_key);
        prop_assert_eq!(explain.residual(), None);
        let expected = usize::from(passes(&filter, &entity, Version::ZERO));
        prop_assert_eq!(places(&explain, partition_key, row_key), expected, "{}", explain);
    }

    /// The boxes ascend, in PartitionKeys and in the RowKeys of each.
    #[test]
    fn boxes_ascend(filter in expression(key_condition())) {
        let explain = filter.explain();
        let ascend = |ranges: &[KeyBounds]| ranges.windows(2).all(|pair| {
            let (Bound::Included(high) | Bound::Excluded(high)) = &pair[0].1 else { return false };
            let (Bound::Included(low) | Bound::Excluded(low)) = &pair[1].0 else { return false };
            high <= low
        });
        let partitions: Vec<_> = explain.ranges().iter().map(|range| range.partition.clone()).collect();
        prop_assert!(ascend(&partitions), "{:?}", partitions);
        for range in explain.ranges() {
            prop_assert!(!range.rows.is_empty() && ascend(&range.rows), "{:?}", range.rows);
        }
    }
}
