//! P-10, P-11: a series of numbers in the properties of one entity, or of a few.

use tablestone::{
    Entity, EntityBatch, EntityError, EntityTable, EntityView, Error, Precondition, Result,
};

use crate::support::{Depth, TestDb};
use crate::{get, page, table};

const DAY: &str = "2014-08-22";

fn hour(hour: usize) -> String {
    format!("Hour{hour:02}")
}

/// Counts one message of an hour: reads the series, and merges one property if nobody was faster.
fn count(series: &EntityTable, employee: &str, at: usize) {
    loop {
        let found = series.get(employee, DAY).unwrap();
        let count = found.as_ref().and_then(|row| row.get_as::<i32>(&hour(at))).unwrap_or_default();
        let precondition = match found.as_ref().and_then(Entity::version) {
            Some(version) => Precondition::Version(version),
            None => Precondition::Absent,
        };
        let merged = Entity::new(employee, DAY).with(hour(at), count + 1);
        match series.merge(&merged, precondition).wait() {
            Ok(_) => return,
            Err(Error::VersionMismatch { .. } | Error::EntityExists { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn hours(series: &EntityView, employee: &str) -> Vec<i32> {
    let row = get(series, employee, DAY);
    (0..24).map(|at| row.get_as(&hour(at)).unwrap_or_default()).collect()
}

/// A day's chart is one look-up where the hours are properties, and 24 rows where each is a row.
#[test]
fn p_10_a_chart_is_one_look_up_instead_of_24_rows() {
    let db = TestDb::new();
    let (rows, series) = (table(&db, "Rows"), table(&db, "Series"));
    for employee in 0..50 {
        let employee = format!("{employee:06}");
        for at in 0..24 {
            let point = Entity::new(&*employee, format!("{DAY}T{at:02}"));
            rows.insert(&point.with("Messages", at as i32)).wait().unwrap();
            let merged = Entity::new(&*employee, DAY).with(hour(at), at as i32);
            series.insert_or_merge(&merged).wait().unwrap();
        }
    }
    for depth in Depth::ALL {
        depth.settle(&db);
        let text = format!("PartitionKey eq '000023' and RowKey ge '{DAY}' and RowKey lt '{DAY}U'");
        let day = page(&rows, &text);
        assert_eq!((day.len(), day.examined()), (24, 24));
        let text = format!("PartitionKey eq '000023' and RowKey eq '{DAY}'");
        let chart = page(&series, &text);
        assert_eq!((chart.len(), chart.examined()), (1, 1), "{depth:?}");
        assert_eq!(hours(&series, "000023"), (0..24).collect::<Vec<_>>());
    }
}

/// Several writers of one series: by ETag no message is lost, and no hour disturbs another.
#[test]
fn p_10_writers_of_one_series_count_every_message() {
    const THREADS: usize = 4;
    const EACH: usize = 120;
    let db = TestDb::new();
    let series = table(&db, "Series");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let series = &series;
            scope.spawn(move || (0..EACH).for_each(|n| count(series, "000456", (n + thread) % 24)));
        }
    });
    let expected = vec![(THREADS * EACH / 24) as i32; 24];
    for depth in Depth::ALL {
        depth.settle(&db);
        assert_eq!(hours(&series, "000456"), expected, "{depth:?}");
    }
}

/// Merges without a condition that set different hours do not undo each other either.
#[test]
fn p_10_merges_of_different_hours_do_not_undo_each_other() {
    let db = TestDb::new();
    let series = table(&db, "Series");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let series = &series;
            scope.spawn(move || {
                for n in 1..=50 {
                    for at in (thread * 6)..(thread * 6 + 6) {
                        let merged = Entity::new("000456", DAY).with(hour(at), n);
                        series.insert_or_merge(&merged).wait().unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(hours(&series, "000456"), [50; 24]);
}

/// A series has up to 252 points: a merge that adds one more is refused and changes nothing, one
/// that replaces a point is not.
#[test]
fn p_10_a_series_has_252_points_at_most() {
    let db = TestDb::new();
    let series = table(&db, "Series");
    for point in 0..252 {
        let merged = Entity::new("000456", DAY).with(format!("P{point:03}"), point);
        series.insert_or_merge(&merged).wait().unwrap();
    }
    let full = get(&series, "000456", DAY);
    let one_more = Entity::new("000456", DAY).with("P000", -1).with("P252", 252);
    match series.merge(&one_more, Precondition::Exists).wait() {
        Err(Error::Entity { index: 0, source }) => {
            assert_eq!(*source, EntityError::TooManyProperties { found: 253, limit: 252 });
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(get(&series, "000456", DAY), full, "nothing of the refused merge is there");
    let replaced = Entity::new("000456", DAY).with("P000", -1);
    series.merge(&replaced, Precondition::Exists).wait().unwrap();
    let row = get(&series, "000456", DAY);
    assert_eq!((row.len(), row.get_as("P000")), (252, Some(-1)));
}

const HALVES: [&str; 2] = ["000456_01", "000456_02"];

fn day_of_year(day: usize) -> String {
    format!("Day{day:03}")
}

/// The year's counters: days 1 to 183 in one entity, the rest in another.
fn half_of(day: usize) -> &'static str {
    HALVES[usize::from(day > 183)]
}

fn year(counts: impl Fn(usize) -> i32) -> [Entity; 2] {
    let mut halves = HALVES.map(|row_key| Entity::new("Sales", row_key));
    for day in 1..=365 {
        halves[usize::from(day > 183)].set(day_of_year(day), counts(day));
    }
    halves
}

fn read_year(counters: &EntityTable) -> Result<Vec<i32>> {
    let halves = counters.get_many("Sales", &HALVES)?;
    let value = |day: usize| {
        let half = halves[usize::from(day > 183)].as_ref();
        half.and_then(|half| half.get_as(&day_of_year(day))).unwrap()
    };
    Ok((1..=365).map(value).collect())
}

/// 365 properties do not fit into one entity; in two they are written as one transaction, read
/// with one call at one version, and a day is one merge.
#[test]
fn p_11_a_year_of_days_is_kept_in_two_entities() {
    let db = TestDb::new();
    let counters = table(&db, "Counters");
    let days = (1..=365).fold(Entity::new("Sales", "000456"), |e, day| e.with(day_of_year(day), 0));
    match counters.insert(&days).wait() {
        Err(Error::Entity { index: 0, source }) => {
            assert_eq!(*source, EntityError::TooManyProperties { found: 365, limit: 252 });
        }
        other => panic!("{other:?}"),
    }

    let mut batch = EntityBatch::new("Sales");
    for half in &year(|day| day as i32) {
        batch.insert(half);
    }
    counters.commit(batch).wait().unwrap();
    let merged = Entity::new("Sales", half_of(300)).with(day_of_year(300), -1);
    counters.merge(&merged, Precondition::Exists).wait().unwrap();
    for depth in Depth::ALL {
        depth.settle(&db);
        let expected: Vec<_> = (1..=365).map(|day| if day == 300 { -1 } else { day }).collect();
        assert_eq!(read_year(&counters).unwrap(), expected, "{depth:?}");
    }
}

/// While both halves are rewritten, a reader of both finds them of one rewrite.
#[test]
fn p_11_both_entities_are_always_of_one_transaction() {
    let db = TestDb::new();
    let counters = table(&db, "Counters");
    let write = |round: i32| {
        let mut batch = EntityBatch::new("Sales");
        for half in &year(|_| round) {
            batch.insert_or_replace(half);
        }
        counters.commit(batch).wait().unwrap();
    };
    write(0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (1..150).for_each(write));
        while !writer.is_finished() {
            let days = read_year(&counters).unwrap();
            assert!(days.iter().all(|count| *count == days[0]), "{days:?}");
        }
    });
    assert_eq!(read_year(&counters).unwrap(), [149; 365]);
}
