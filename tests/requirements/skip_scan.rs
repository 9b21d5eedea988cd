//! R-E15: one RowKey range in every partition costs partitions, not rows.

use crate::support::{Depth, TestDb, keys};

#[test]
fn r_e15_a_row_range_in_every_partition_costs_partitions_not_rows() {
    const PARTITIONS: usize = 40;
    const ROWS: usize = 250;
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = db.t();
        let rows = (0..PARTITIONS).flat_map(|pk| {
            (0..ROWS).map(move |rk| (format!("{pk:03}"), format!("{rk:04}"), "value"))
        });
        t.import(rows).unwrap();
        depth.settle(&db);
        for reverse in [false, true] {
            let query = t.query().rows("0100"..="0101");
            let page = if reverse { query.reverse() } else { query }.page().unwrap();
            assert_eq!(page.len(), 2 * PARTITIONS, "{depth:?}");
            assert_eq!(page.continuation(), None);
            // Two rows, and a few steps and a seek in the gaps before and behind them.
            let per_partition = page.examined() as usize / PARTITIONS;
            assert!(per_partition <= 10, "{depth:?}: {per_partition} keys examined per partition");
        }
    }
}

#[test]
fn r_e15_partitions_without_the_range_are_passed_over() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = db.t();
        for pk in 0..30u8 {
            for rk in 0..20u8 {
                // Only every tenth partition has rows of the range; some end before, some begin
                // after it.
                let low = if pk % 10 == 0 {
                    40
                } else if pk % 2 == 0 {
                    10
                } else {
                    80
                };
                t.upsert([pk], [low + rk], [pk]).wait().unwrap();
            }
        }
        depth.settle(&db);
        let query = || t.query().rows([45]..=[46]);
        let page = query().page().unwrap();
        let found: Vec<_> = page.iter().map(|row| (row.partition_key[0], row.row_key[0])).collect();
        let expected: Vec<_> =
            [0, 10, 20].into_iter().flat_map(|pk| [(pk, 45), (pk, 46)]).collect();
        assert_eq!(found, expected, "{depth:?}");
        assert!(page.examined() <= 6 * 30, "{depth:?}: {}", page.examined());
        let pages: Vec<_> = query().limit(1).pages().flat_map(|p| keys(&p.unwrap())).collect();
        assert_eq!(pages.len(), 6);
    }
}

#[test]
fn r_e15_a_work_limit_stops_between_partitions_and_goes_on() {
    let db = TestDb::new();
    let t = db.t();
    let rows = (0..50u8).flat_map(|pk| (0..50u8).map(move |rk| ([pk], [rk], [pk])));
    t.import(rows).unwrap();
    db.flush().unwrap();
    let mut found = 0;
    let mut pages = 0;
    for page in t.query().rows([49]..).examine_at_most(7).pages() {
        found += page.unwrap().len();
        pages += 1;
    }
    assert_eq!(found, 50);
    assert!(pages <= 50, "{pages} pages");
}
