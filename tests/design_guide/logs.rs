//! P-08, P-13, P-14: entries in the order of time; the newest first, the latest partition hot, one
//! stretch of time in many partitions.

use tablestone::{Entity, EntityTable, Error, Plan};

use crate::support::{Depth, TestDb};
use crate::{filter, get, matching, page_row_keys, row_keys, table};

/// `DateTime.MaxValue.Ticks` of .NET, from which the log tail pattern counts down.
const LAST_TICK: u64 = 3_155_378_975_999_999_999;
/// 2014-08-22T00:50:30Z in .NET's ticks.
const START: u64 = 635_442_654_300_000_000;

fn tail_key(ticks: u64) -> String {
    format!("{:019}", LAST_TICK - ticks)
}

fn claim(employee: &str, ticks: u64, amount: i32) -> Entity {
    Entity::new(employee, tail_key(ticks)).with("Amount", amount).with("Purpose", "travel")
}

/// The newest ten claims are the first ten rows of the partition: reading them right after the
/// inserts, and when everything is in files, costs ten rows and not the tail.
#[test]
fn p_08_the_newest_ten_are_read_without_the_tail() {
    let db = TestDb::new();
    let claims = table(&db, "EmployeeExpense");
    let newest_ten = |n: usize| -> Vec<String> {
        (0..n).rev().take(10).map(|n| tail_key(START + 7 * n as u64)).collect()
    };
    let check = |written: usize, context: &str| {
        let query = claims.query().filter(filter("PartitionKey eq 'empid'")).top(10);
        let page = query.page().unwrap();
        assert_eq!(page_row_keys(&page), newest_ten(written), "{context}");
        assert_eq!(page.continuation(), None, "ten are wanted in all");
        assert!(page.examined() <= 11, "{context}: {} examined", page.examined());
    };
    for n in 0..2_000 {
        for employee in ["empia", "empid", "empie"] {
            let claim = claim(employee, START + 7 * n as u64, n as i32);
            claims.insert(&claim).wait().unwrap();
        }
        if n % 400 == 399 {
            check(n + 1, "right after the inserts");
        }
    }
    for depth in Depth::ALL {
        depth.settle(&db);
        check(2_000, &format!("{depth:?}"));
    }
    let newest = &matching(&claims, "PartitionKey eq 'empid'")[0];
    assert_eq!(LAST_TICK - newest.row_key().parse::<u64>().unwrap(), START + 7 * 1_999);
    assert_eq!(newest.get_as("Amount"), Some(1_999));
}

/// Two claims in one tick have one key: the second is refused, not taken for the first.
#[test]
fn p_08_a_second_entry_of_the_same_tick_is_refused() {
    let db = TestDb::new();
    let claims = table(&db, "EmployeeExpense");
    let first = claims.insert(&claim("empid", START, 1)).wait().unwrap();
    match claims.insert(&claim("empid", START, 2)).wait() {
        Err(Error::EntityExists { index: 0, version }) => assert_eq!(version, first),
        other => panic!("{other:?}"),
    }
    assert_eq!(get(&claims, "empid", &tail_key(START)).get_as("Amount"), Some(1));
    assert_eq!(tail_key(LAST_TICK), "0".repeat(19));
    assert_eq!(tail_key(0).len(), 19, "all keys have one length, so they sort as numbers");
}

/// All sign-ons of an hour at the end of one partition, by several threads: slow at worst, but none
/// is refused or lost, and what is written in order is hardly rewritten.
#[test]
fn p_13_a_hot_last_partition_takes_every_append() {
    const EACH: usize = 800;
    let db = TestDb::new();
    let log = table(&db, "Access");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let log = &log;
            scope.spawn(move || {
                for n in 0..EACH {
                    let event = Entity::new("2014082200", format!("{n:06}-{thread}"));
                    let event = event.with("User", thread).with("Page", "/index.html");
                    log.insert(&event).wait().unwrap();
                }
            });
        }
    });
    db.flush().unwrap();
    let events = matching(&log, "PartitionKey eq '2014082200'");
    let expected = (0..EACH).flat_map(|n| (0..4).map(move |t| format!("{n:06}-{t}")));
    assert!(row_keys(&events).into_iter().eq(expected), "{} events", events.len());
    let stats = db.stats();
    assert!(stats.files_moved > 0, "files that do not overlap go down without a rewrite");
    let rewritten = stats.compaction_written_bytes / stats.flush_bytes.max(1);
    assert!(rewritten <= 5, "every byte was rewritten {rewritten} times");
}

/// The better keys: a partition per employee, time and event in the RowKey. An hour of one employee
/// is a range that costs what it returns.
#[test]
fn p_13_an_hour_of_one_employee_is_a_range_of_one_partition() {
    let db = TestDb::new();
    let log = table(&db, "Access");
    let events = (0..40).flat_map(|employee| {
        (0..48).flat_map(move |hour| {
            (0..3).map(move |event| {
                let row_key = format!("201408{:02}{:02}_{event:04}", 20 + hour / 24, hour % 24);
                Entity::new(format!("Sales_{employee:05}"), row_key).with("Page", event)
            })
        })
    });
    log.import(events).unwrap();
    for depth in Depth::ALL {
        depth.settle(&db);
        let text = "PartitionKey eq 'Sales_00023' and RowKey ge '2014082114' and \
                    RowKey lt '2014082115'";
        let query = log.query().filter(filter(text));
        assert_eq!(query.explain().plan(), Plan::RowRange);
        let page = query.page().unwrap();
        let expected = (0..3).map(|event| format!("2014082114_{event:04}"));
        assert!(page_row_keys(&page).into_iter().eq(expected));
        assert_eq!(page.examined(), 3, "{depth:?}");
    }
}

const SOURCES: usize = 30;
const LEVELS: [&str; 4] = ["info", "warning", "error", "critical"];

/// An hour of messages of 30 sources, one every ten seconds of each, under both of the guide's
/// schemas.
fn write_messages(by_hour: &EntityTable, by_source: &EntityTable) {
    let mut rows = (Vec::new(), Vec::new());
    for second in (0..3_600).step_by(10) {
        for source in 0..SOURCES {
            let time = format!("2014-07-31T15:{:02}:{:02}", second / 60, second % 60);
            let row_key = format!("{time}_{source:03}");
            let level = LEVELS[(second / 10 + source) % 4];
            let message = |partition: String| {
                Entity::new(partition, row_key.as_str()).with("Level", level).with("Text", "...")
            };
            rows.0.push(message("2014-07-31T15".into()));
            rows.1.push(message(format!("source-{source:03}")));
        }
    }
    by_hour.import(rows.0).unwrap();
    by_source.import(rows.1).unwrap();
}

/// "All the error and critical messages between 15:04 and 15:06": one range where the hour is the
/// partition, and where the source is, a range in every partition, which costs partitions and not
/// all their rows. Both give the same messages.
#[test]
fn p_14_a_stretch_of_time_is_found_in_one_partition_or_in_all() {
    let db = TestDb::new();
    let (by_hour, by_source) = (table(&db, "ByHour"), table(&db, "BySource"));
    write_messages(&by_hour, &by_source);
    let time = "RowKey ge '2014-07-31T15:04' and RowKey lt '2014-07-31T15:06'";
    let bad = "(Level eq 'error' or Level eq 'critical')";
    // Twelve of each source are in the two minutes; half of them are bad.
    let (in_range, found) = (12 * SOURCES, 6 * SOURCES);
    for depth in Depth::ALL {
        depth.settle(&db);
        let text = format!("PartitionKey eq '2014-07-31T15' and {time} and {bad}");
        let query = by_hour.query().filter(filter(&text));
        assert_eq!(query.explain().plan(), Plan::RowRange);
        assert_eq!(query.explain().residual(), Some(&filter(bad)));
        let hour = query.page().unwrap();
        assert_eq!(hour.examined() as usize, in_range, "{depth:?}");

        let query = by_source.query().filter(filter(&format!("{time} and {bad}")));
        assert_eq!(query.explain().plan(), Plan::SkipScan);
        let source = query.page().unwrap();
        let beside = source.examined() as usize - in_range;
        assert!(beside <= 10 * SOURCES, "{depth:?}: {beside} keys beside the range examined");

        let mut messages = [page_row_keys(&hour), page_row_keys(&source)];
        assert!(messages[0].is_sorted(), "by time");
        messages[1].sort_unstable();
        assert_eq!(messages[0], messages[1]);
        assert_eq!(messages[0].len(), found);
        let level = |e: tablestone::EntityRef<'_>| e.get_as::<String>("Level").unwrap().unwrap();
        assert!(
            hour.iter().chain(source.iter()).all(|e| ["error", "critical"].contains(&&*level(e)))
        );
    }
}
