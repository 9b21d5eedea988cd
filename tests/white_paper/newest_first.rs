//! U-06 to U-08: the order of keys serves the query (§8.1): newest first, two sort keys in one
//! RowKey, numbers and dates as text.

use tablestone::{DateTime, Entity, EntityTable, Error, Plan};

use crate::support::{Depth, TestDb};
use crate::world::{after, at, filter, newest_first, page, row_keys, table};

const MINUTE: u64 = 600_000_000;
const CHANNELS: [&str; 5] = ["Baseball", "Cricket", "Football", "Golf", "Tennis"];
const BLOGS: u64 = 300;

fn blog(channel: &str, created: DateTime) -> Entity {
    Entity::new(channel, newest_first(created)).with("Created", created).with("Text", "some text")
}

/// Blogs of all channels in turn, one a minute and channel, oldest first.
fn blogs(db: &TestDb) -> EntityTable {
    let blogs = table(db, "Blogs");
    for n in 0..BLOGS {
        for channel in CHANNELS {
            blogs.insert(&blog(channel, minute(n))).wait().unwrap();
        }
    }
    blogs
}

fn minute(n: u64) -> DateTime {
    after(at("2008-10-01"), n * MINUTE)
}

/// The keys that the paper prints.
#[test]
fn u_06_keys_are_those_of_the_paper() {
    assert_eq!(newest_first(at("2008-10-01T10:00:00Z")), "2521794455999999999");
    assert_eq!(newest_first(at("2008-10-02T10:00:00Z")), "2521793591999999999");
    assert_eq!(newest_first(at("6831-02-15T14:13:20Z")), "0999999999999999999");
    assert_eq!(newest_first(DateTime::MAX), "0000000000000000000");
}

/// U-06: every insert is the new first row of its channel, and is read as that at once.
#[test]
fn u_06_what_was_inserted_last_is_read_first() {
    let db = TestDb::new();
    let blogs = table(&db, "Blogs");
    for n in 0..BLOGS {
        for channel in CHANNELS {
            blogs.insert(&blog(channel, minute(n))).wait().unwrap();
            let newest = blogs.query().partition(channel).top(1).page().unwrap();
            assert_eq!(row_keys(&newest), [newest_first(minute(n))]);
            assert!(newest.examined() <= 2, "{} examined for one row", newest.examined());
        }
    }
}

/// U-06: "Get me the 10 most recent blogs for a channel", however many older ones there are.
#[test]
fn u_06_ten_most_recent_blogs_cost_ten() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let blogs = blogs(&db);
        depth.settle(&db);
        // The newest of all is in memory, above whatever depth the others are at.
        blogs.insert(&blog("Football", minute(BLOGS))).wait().unwrap();
        for (channel, newest) in [("Football", BLOGS), ("Baseball", BLOGS - 1)] {
            let query = filter(&format!("PartitionKey eq '{channel}'"));
            let ten = blogs.query().filter(query).top(10).page().unwrap();
            let expected: Vec<_> = (0..10).map(|n| newest_first(minute(newest - n))).collect();
            assert_eq!(row_keys(&ten), expected, "{depth:?}");
            assert_eq!(ten.continuation(), None);
            assert!(ten.examined() <= 11, "{depth:?}: {} examined", ten.examined());
        }
    }
}

/// U-06: what is newer than an instant has smaller keys than the instant's (C-30).
#[test]
fn u_06_blogs_newer_than_an_instant_are_a_range_of_rows() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let blogs = blogs(&db);
        depth.settle(&db);
        let instant = minute(BLOGS - 20);
        let newer = format!("PartitionKey eq 'Golf' and RowKey lt '{}'", newest_first(instant));
        let query = blogs.query().filter(filter(&newer));
        assert_eq!(query.explain().plan(), Plan::RowRange);
        let found = query.page().unwrap();
        // The one of that very instant is not newer.
        let expected: Vec<_> = (1..20).map(|n| newest_first(minute(BLOGS - n))).collect();
        assert_eq!(row_keys(&found), expected, "{depth:?}");
        assert!(found.examined() <= 20, "{depth:?}: {} examined", found.examined());
        for entity in &found {
            assert!(entity.get_as::<DateTime>("Created").unwrap().unwrap() > instant);
        }
    }
}

/// P-08: two claims of one tick have one key; the second is told so.
#[test]
fn u_06_a_second_blog_of_the_same_tick_is_refused() {
    let db = TestDb::new();
    let blogs = table(&db, "Blogs");
    blogs.insert(&blog("Golf", minute(1))).wait().unwrap();
    let second = blogs.insert(&blog("Golf", minute(1))).wait();
    assert!(matches!(second, Err(Error::EntityExists { index: 0, .. })), "{second:?}");
    blogs.insert(&blog("Tennis", minute(1))).wait().unwrap();
}

/// U-07: best rating first, of equal ratings the newest first: `5 - rating`, then the time (C-31).
#[test]
fn u_07_rating_and_time_sort_together_in_one_key() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let blogs = table(&db, "Blogs");
        let mut expected = Vec::new();
        for n in 0..200u64 {
            // An order that is neither that of ratings nor that of times.
            let (rating, created) = (1 + n * 7 % 5, minute(n * 37 % 200));
            let key = format!("{}{}", 5 - rating, newest_first(created));
            let entity = Entity::new("Football", &key)
                .with("Rating", rating as i32)
                .with("Created", created);
            blogs.insert(&entity).wait().unwrap();
            expected.push((std::cmp::Reverse(rating as i32), std::cmp::Reverse(created)));
        }
        expected.sort_unstable();
        depth.settle(&db);
        let read = page(&blogs, "PartitionKey eq 'Football'");
        let found: Vec<_> = read
            .iter()
            .map(|entity| {
                let rating = entity.get_as("Rating").unwrap().unwrap();
                let created = entity.get_as("Created").unwrap().unwrap();
                (std::cmp::Reverse(rating), std::cmp::Reverse(created))
            })
            .collect();
        assert_eq!(found, expected, "{depth:?}");
        // Those of one rating are a prefix.
        let best = blogs.query().partition("Football").row_prefix("0").page().unwrap();
        assert_eq!(best.len(), 40);
        assert!(best.iter().all(|entity| entity.get_as("Rating") == Ok(Some(5))));
        assert!(best.examined() <= 41, "{depth:?}: {}", best.examined());
    }
}

/// U-07 with the paper's two blogs; without the subtraction the worse one would lead.
#[test]
fn u_07_the_better_blog_precedes_the_newer_one() {
    let db = TestDb::new();
    let blogs = table(&db, "Blogs");
    let (b1, b2) =
        (newest_first(at("2008-10-01T10:00:00Z")), newest_first(at("2008-10-02T10:00:00Z")));
    for (partition, key1, key2) in [("right", 0, 4), ("wrong", 5, 1)] {
        for (name, key) in [("b2", format!("{key2}{b2}")), ("b1", format!("{key1}{b1}"))] {
            blogs.insert(&Entity::new(partition, key).with("Name", name)).wait().unwrap();
        }
    }
    let names = |partition| {
        let page = blogs.query().partition(partition).page().unwrap();
        page.iter().map(|e| e.get_as::<&str>("Name").unwrap().unwrap().to_owned()).collect()
    };
    let (right, wrong): (Vec<String>, Vec<String>) = (names("right"), names("wrong"));
    assert_eq!((right, wrong), (vec!["b1".into(), "b2".into()], vec!["b2".into(), "b1".into()]));
}

/// U-08: numbers padded with zeros sort as numbers; without, as text (`92` after `10000`).
#[test]
fn u_08_padded_numbers_sort_as_numbers_and_unpadded_as_text() {
    let mut numbers: Vec<i32> =
        (0..300).map(|n: i32| n * n * 31 % 100_000).chain([92, 10_000]).collect();
    numbers.sort_unstable();
    numbers.dedup();
    for depth in Depth::ALL {
        let db = TestDb::new();
        let table = table(&db, "Numbers");
        for number in numbers.iter().rev() {
            for (partition, key) in
                [("padded", format!("{number:05}")), ("unpadded", number.to_string())]
            {
                table.insert(&Entity::new(partition, key).with("N", *number)).wait().unwrap();
            }
        }
        depth.settle(&db);
        let read = |partition: &str, rows: &str| -> Vec<i32> {
            let page = page(&table, &format!("PartitionKey eq '{partition}' and {rows}"));
            page.iter().map(|entity| entity.get_as("N").unwrap().unwrap()).collect()
        };
        assert_eq!(read("padded", "true"), numbers, "{depth:?}");
        let range = "RowKey ge '00092' and RowKey lt '10000'";
        let in_range: Vec<_> =
            numbers.iter().copied().filter(|n| (92..10_000).contains(n)).collect();
        assert_eq!(read("padded", range), in_range, "{depth:?}");

        let text = read("unpadded", "true");
        let place = |n| text.iter().position(|other| *other == n).unwrap();
        assert!(place(92) > place(10_000), "{depth:?}");
        let mut as_text = numbers.clone();
        as_text.sort_unstable_by_key(ToString::to_string);
        assert_eq!(text, as_text, "{depth:?}");
    }
}

/// U-08: dates from the year down, with minutes (C-44), sort as dates; months and days are
/// prefixes.
#[test]
fn u_08_dates_written_from_the_year_down_sort_as_dates() {
    let db = TestDb::new();
    let table = table(&db, "Dates");
    let start = at("2007-12-20");
    for n in (0..500).rev() {
        let instant = after(start, n * 37 * 60 * MINUTE);
        let text = instant.to_string();
        let key = format!("{}-{}", &text[..10], text[11..16].replace(':', "-"));
        table.insert(&Entity::new("p", key).with("At", instant)).wait().unwrap();
    }
    db.flush().unwrap();
    let instants = |text: &str| -> Vec<DateTime> {
        page(&table, text).iter().map(|e| e.get_as("At").unwrap().unwrap()).collect()
    };
    let all = instants("PartitionKey eq 'p'");
    assert_eq!(all.len(), 500);
    assert!(all.is_sorted());
    let february: Vec<_> = all
        .iter()
        .copied()
        .filter(|instant| (at("2008-02-01")..at("2008-03-01")).contains(instant))
        .collect();
    assert!(!february.is_empty());
    let range = "PartitionKey eq 'p' and RowKey ge '2008-02' and RowKey lt '2008-03'";
    assert_eq!(instants(range), february);
}
