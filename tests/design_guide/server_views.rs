//! P-21, P-23: a user's part of a table, and views that are made from other entities. Who may see
//! which part is a server's matter; that nothing leaves the part, whatever a query says, is the
//! engine's.

use std::collections::BTreeMap;

use tablestone::{Continuation, Entity, EntityBatch, EntityQuery, EntityTable, Filter, Plan};

use crate::support::{Depth, TestDb};
use crate::{filter, matching, properties, table};

fn documents() -> (TestDb, EntityTable) {
    let db = TestDb::new();
    let t = table(&db, "Documents");
    let rows = (0..20).flat_map(|user| {
        (0..30).map(move |n| {
            let document = Entity::new(format!("user-{user:02}"), format!("doc-{n:02}"));
            document.with("Size", n).with("Shared", n % 2 == 0)
        })
    });
    t.import(rows).unwrap();
    (db, t)
}

fn keys(query: EntityQuery) -> Vec<(String, String)> {
    let entities = query.limit(7).entities().map(Result::unwrap);
    entities.map(|e| (e.partition_key().to_owned(), e.row_key().to_owned())).collect()
}

/// What users might ask for: everything, what is theirs, what is not, and ways around.
const QUERIES: [&str; 8] = [
    "",
    "Size ge 10",
    "PartitionKey eq 'user-07'",
    "PartitionKey eq 'user-09' and RowKey eq 'doc-01'",
    "PartitionKey ge 'user-00'",
    "PartitionKey eq 'user-07' or PartitionKey ne 'user-07'",
    "not (PartitionKey eq 'user-07')",
    "RowKey ge 'doc-05' or Shared",
];

/// A query confined to a range of partitions returns what it would have returned of that range, and
/// reads nothing else.
#[test]
fn p_21_a_query_cannot_leave_its_range_of_partitions() {
    let (db, t) = documents();
    for depth in Depth::ALL {
        depth.settle(&db);
        for text in QUERIES {
            let confined = || t.query().partitions("user-07"..="user-08").filter(filter(text));
            let all = keys(t.query().filter(filter(text)));
            let inside = all.into_iter().filter(|(pk, _)| ["user-07", "user-08"].contains(&&**pk));
            assert_eq!(keys(confined()), inside.collect::<Vec<_>>(), "{depth:?}: {text}");
            let examined = confined().page().unwrap().examined();
            assert!(examined <= 60, "{text}: {examined} examined of 60 in the range");
        }
        let outside = t.query().partitions("user-07"..="user-08").filter(filter(QUERIES[3]));
        assert_eq!(outside.explain().plan(), Plan::Nothing);
    }
}

/// A range from one (PartitionKey, RowKey) to another, as a condition that every query is joined
/// with: its first and last partition count only in part.
fn between(first: (&str, &str), last: (&str, &str)) -> Filter {
    let (pk, rk) = (Filter::partition_key, Filter::row_key);
    let from = pk().gt(first.0).or(pk().eq(first.0).and(rk().ge(first.1)));
    let to = pk().lt(last.0).or(pk().eq(last.0).and(rk().le(last.1)));
    from.and(to)
}

#[test]
fn p_21_a_query_cannot_leave_its_range_of_both_keys() {
    let (db, t) = documents();
    db.flush().unwrap();
    let ends = (("user-07", "doc-25"), ("user-09", "doc-03"));
    let is_inside = |(pk, rk): &(String, String)| {
        let key = (pk.as_str(), rk.as_str());
        ends.0 <= key && key <= ends.1
    };
    for text in QUERIES {
        let confined = || t.query().filter(between(ends.0, ends.1)).filter(filter(text));
        let all = keys(t.query().filter(filter(text)));
        let inside: Vec<_> = all.into_iter().filter(is_inside).collect();
        assert_eq!(keys(confined()), inside, "{text}");
        let examined = confined().page().unwrap().examined();
        assert!(examined <= 50, "{text}: {examined} examined of 39 in the range");
    }
}

/// A continuation is no way out: one that a user made up begins inside or finds nothing.
#[test]
fn p_21_a_forged_continuation_stays_inside() {
    let (_db, t) = documents();
    let confined = || t.query().partition("user-07").rows("doc-10"..="doc-19");
    for (pk, rk, expected) in [
        ("", "", 10),
        ("user-06", "doc-15", 10),
        ("user-07", "doc-00", 10),
        ("user-07", "doc-15", 5),
        ("user-07", "doc-20", 0),
        ("user-08", "doc-15", 0),
        ("zzz", "", 0),
    ] {
        let page = confined().continue_from(Continuation::new(pk, rk)).page().unwrap();
        assert_eq!(page.len(), expected, "from {pk}/{rk}");
        assert!(page.iter().all(|e| e.partition_key() == "user-07"));
        assert!(page.iter().all(|e| ("doc-10"..="doc-19").contains(&e.row_key())));
    }
}

/// Orders by number, as they come in.
fn order(n: usize) -> Entity {
    Entity::new("2014-08", format!("{n:06}"))
        .with("Product", format!("product-{:02}", n * n % 23))
        .with("Amount", (n % 17) as i32)
}

/// What the view says: product to orders and amount.
type Totals = BTreeMap<String, (i32, i32)>;

fn totals(orders: impl Iterator<Item = Entity>) -> Totals {
    let mut totals = Totals::new();
    for order in orders {
        let product = order.get_as::<String>("Product").unwrap();
        let (count, amount) = totals.entry(product).or_default();
        *count += 1;
        *amount += order.get_as::<i32>("Amount").unwrap();
    }
    totals
}

/// Makes the view anew from the orders: one entity per product, overwritten by key, in one
/// transaction.
fn rebuild(orders: &EntityTable, view: &EntityTable) {
    let totals = totals(orders.query().partition("2014-08").entities().map(Result::unwrap));
    let mut batch = EntityBatch::new("2014-08");
    for (product, (count, amount)) in totals {
        let row = Entity::new("2014-08", product).with("Orders", count).with("Amount", amount);
        batch.insert_or_replace(&row);
    }
    view.commit(batch).wait().unwrap();
}

fn shown(view: &EntityTable) -> Totals {
    let page = view.query().partition("2014-08").page().unwrap();
    let number = |row: &Entity, name: &str| row.get_as::<i32>(name).unwrap();
    let rows = page.to_entities().unwrap();
    let row =
        |row: &Entity| (row.row_key().to_owned(), (number(row, "Orders"), number(row, "Amount")));
    rows.iter().map(row).collect()
}

/// A view that is overwritten again and again shows what the orders say, is whole whenever it is
/// read, and does not grow.
#[test]
fn p_23_a_materialised_view_is_overwritten_and_always_whole() {
    let db = TestDb::new();
    let (orders, view) = (table(&db, "Orders"), table(&db, "View"));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 0..300 {
                orders.insert(&order(n)).wait().unwrap();
                if n % 3 == 2 {
                    rebuild(&orders, &view);
                }
            }
        });
        let mut newest = 0;
        while !writer.is_finished() {
            let seen = shown(&view);
            let count: i32 = seen.values().map(|(count, _)| count).sum();
            assert!(count >= newest, "a view never goes back");
            let made_of = totals((0..count as usize).map(order));
            assert_eq!(seen, made_of, "the view is that of the first {count} orders");
            newest = count;
        }
    });
    let once = matching(&view, "");
    rebuild(&orders, &view);
    for (before, after) in once.iter().zip(matching(&view, "")) {
        assert_eq!(properties(before), properties(&after), "made again, it is the same");
    }
    for depth in Depth::ALL {
        depth.settle(&db);
        assert_eq!(shown(&view), totals((0..300).map(order)), "{depth:?}");
    }
    let page = view.query().page().unwrap();
    assert_eq!(page.examined() as usize, page.len(), "compacted, old versions are gone");
}
