//! R-D10: queries by keys read the keys they need and no others, and explain says which.

use tablestone::{Entity, EntityTable, Filter, Plan};

use super::support::{Depth, TestDb};
use super::{entities, page_keys};

/// 30 partitions of 40 entities.
fn grid(db: &TestDb) -> EntityTable {
    let t = entities(db);
    let rows = (0..30).flat_map(|p| {
        (0..40).map(move |r| Entity::new(format!("p{p:02}"), format!("r{r:02}")).with("N", p * r))
    });
    t.import(rows).unwrap();
    t
}

/// The filter's plan, how many entities it finds, and how many keys it may look at for that.
fn check(t: &EntityTable, filter: &str, plan: Plan, expected: usize, most: u64) {
    let query = || t.query().filter(filter.parse().unwrap());
    assert_eq!(query().explain().plan(), plan, "{filter}: {}", query().explain());
    for query in [query(), query().reverse()] {
        let page = query.page().unwrap();
        assert_eq!((page.len(), page.continuation()), (expected, None), "{filter}");
        assert!(page.examined() <= most, "{filter}: {} keys for {expected}", page.examined());
    }
}

#[test]
fn r_d10_a_query_by_keys_costs_what_it_finds() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = grid(&db);
        depth.settle(&db);
        let (p, r) = ("PartitionKey eq 'p07'", "RowKey");
        check(&t, &format!("{p} and {r} eq 'r11'"), Plan::PointRead, 1, 1);
        check(&t, &format!("{p} and {r} eq 'r99'"), Plan::PointRead, 0, 1);
        check(&t, &format!("{p} and {r} eq 'r11' and {r} eq 'r12'"), Plan::Nothing, 0, 0);
        let some = (0..10).map(|n| format!("{r} eq 'r{:02}'", n * 7)).collect::<Vec<_>>();
        let any = some.join(" or ");
        // r00, r07, .. r35 are there, r42 and more are not.
        check(&t, &format!("{p} and ({any})"), Plan::MultiGet { keys: 10 }, 6, 10);
        let of_two = format!("(PartitionKey eq 'p29' or {p}) and ({any})");
        check(&t, &of_two, Plan::MultiGet { keys: 20 }, 12, 20);
        check(&t, &format!("{p} and {r} ge 'r10' and {r} lt 'r15'"), Plan::RowRange, 5, 5);
        check(&t, p, Plan::Partition, 40, 40);
        check(&t, "PartitionKey gt 'p27'", Plan::PartitionRange, 80, 80);
        // A few keys beside each range in each partition.
        check(&t, &format!("{r} eq 'r20'"), Plan::SkipScan, 30, 30 * 9);
        check(&t, &format!("{r} eq 'r05' or {r} gt 'r37'"), Plan::SkipScan, 90, 90 + 30 * 12);
        let apart = format!("({p} and {r} le 'r02') or PartitionKey eq 'p20' or {r} eq 'r39'");
        assert_eq!(t.query().filter(apart.parse().unwrap()).entities().count(), 3 + 40 + 29);
        check(&t, "N eq 0", Plan::TableScan, 40 + 29, 1200);
        check(&t, &format!("{p} and N eq 35"), Plan::Partition, 1, 40);
        check(&t, "not (PartitionKey ne 'p07')", Plan::Partition, 40, 40);
    }
}

/// Empty keys are looked up as others are, alone and in lists.
#[test]
fn r_d10_empty_keys_are_looked_up() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = grid(&db);
        t.import(["", "p07"].map(|p| Entity::new(p, ""))).unwrap();
        depth.settle(&db);
        let cost = |filter: &str, plan, expected: usize, keys: u64| {
            check(&t, filter, plan, expected, keys);
            let page = t.query().filter(filter.parse().unwrap()).page().unwrap();
            assert_eq!(page.examined(), keys, "{filter}");
        };
        cost("PartitionKey eq '' and RowKey eq ''", Plan::PointRead, 1, 1);
        cost("PartitionKey eq '' and RowKey eq 'r11'", Plan::PointRead, 0, 1);
        cost("PartitionKey eq 'p08' and RowKey eq ''", Plan::PointRead, 0, 1);
        let list = "PartitionKey eq 'p07' and (RowKey eq '' or RowKey eq 'r11' or RowKey eq 'r22')";
        cost(list, Plan::MultiGet { keys: 3 }, 3, 3);
        let of_two = "(PartitionKey eq '' or PartitionKey eq 'p07') and RowKey eq ''";
        cost(of_two, Plan::MultiGet { keys: 2 }, 2, 2);
    }
}

/// What a query says besides its filter narrows the plan.
#[test]
fn r_d10_ranges_of_the_query_and_its_filter_are_one_plan() {
    let db = TestDb::new();
    let t = grid(&db);
    let query = || t.query().partitions("p03".."p06").filter(Filter::row_key().eq("r07"));
    assert_eq!(query().explain().plan(), Plan::SkipScan);
    assert_eq!(page_keys(&query().page().unwrap()), ["p03/r07", "p04/r07", "p05/r07"]);
    let point = || t.query().partition("p03").filter(Filter::row_key().eq("r07"));
    assert_eq!(point().explain().plan(), Plan::PointRead);
    assert_eq!(point().page().unwrap().examined(), 1);
    let nothing = t.query().partition("p03").filter(Filter::partition_key().eq("p04"));
    assert_eq!(nothing.explain().plan(), Plan::Nothing);
    assert_eq!(nothing.page().unwrap().examined(), 0);
    let prefix = || t.query().row_prefix("r1").filter(Filter::partition_key().lt("p01"));
    assert_eq!(prefix().page().unwrap().len(), 10);
    assert_eq!(
        prefix().explain().to_string(),
        "skip-scan of partitions: PartitionKey < \"p01\", RowKey >= \"r1\" and < \"r2\""
    );
}

/// Lists of keys times lists of keys, too many to be looked up one by one, are read a page at a time
/// and give what they name.
#[test]
fn r_d10_long_lists_of_both_keys_give_what_they_name() {
    let db = TestDb::new();
    let t = grid(&db);
    let list = |name: &str, letter: &str| {
        let keys = (0..3_000).map(|n| format!("{name} eq '{letter}{n:02}'"));
        keys.collect::<Vec<_>>().join(" or ")
    };
    let text = format!("({}) and ({})", list("PartitionKey", "p"), list("RowKey", "r"));
    let query = || t.query().filter(text.parse().unwrap());
    let page = query().limit(50).page().unwrap();
    assert_eq!(page.len(), 50);
    assert_eq!(page.continuation().unwrap().partition_key(), b"p01");
    let found = query().entities().collect::<Result<Vec<_>, _>>().unwrap().len();
    assert_eq!(found, t.query().entities().count());
}
