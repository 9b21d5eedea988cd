//! U-09 to U-11: what the PartitionKey is made of (§8.2, §8.3): prefixes, large, small and medium
//! partitions, and two schemes in one table.

use tablestone::{DateTime, Entity, EntityTable, Plan};

use crate::support::{Depth, TestDb};
use crate::world::{DAY, after, at, collect, filter, keys, newest_first, page, table};

/// U-09: a prefix of PartitionKeys is a range of them (W-140).
#[test]
fn u_09_a_prefix_of_partition_keys_is_a_range() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let conferences = table(&db, "Conferences");
        for partition in ["PDD", "PDC2009", "PDB", "PDC", "PDC2008"] {
            for row in ["zzz", "", "2008"] {
                conferences.insert(&Entity::new(partition, row)).wait().unwrap();
            }
        }
        for n in 0..500 {
            let partition = format!("{}{}", if n % 2 == 0 { "A" } else { "Z" }, n / 5);
            conferences.insert(&Entity::new(partition, n.to_string())).wait().unwrap();
        }
        depth.settle(&db);
        let query = filter("PartitionKey ge 'PDC' and PartitionKey lt 'PDD'");
        assert_eq!(query.explain().plan(), Plan::PartitionRange);
        let found = conferences.query().filter(query).page().unwrap();
        // W-064: all of "PDC", whatever its RowKeys, precedes "PDC2008".
        let expected: Vec<_> = ["PDC", "PDC2008", "PDC2009"]
            .iter()
            .flat_map(|pk| ["", "2008", "zzz"].map(|rk| format!("{pk}/{rk}")))
            .collect();
        assert_eq!(keys(&found), expected, "{depth:?}");
        assert!(found.examined() <= 10, "{depth:?}: {} examined", found.examined());

        // W-143: a range that ends before it begins is an empty answer, and costs nothing.
        let inverted = page(&conferences, "PartitionKey ge 'PDD' and PartitionKey lt 'PDC'");
        assert_eq!((inverted.len(), inverted.examined()), (0, 0));
    }
}

const CHANNELS: [&str; 3] = ["Baseball", "Football", "Tennis"];
const FIRST_DAY: &str = "2007-01-01";
const DAYS: u64 = 365 + 366 + 365;

/// Year, month and day of an instant.
fn date(instant: DateTime) -> (u32, u32, u32) {
    let text = instant.to_string();
    let number = |range: std::ops::Range<usize>| text[range].parse().unwrap();
    (number(0..4), number(5..7), text[8..10].parse().unwrap())
}

/// The three layouts of §8.3.1.
#[derive(Clone, Copy, Debug)]
enum Layout {
    /// A partition for each channel.
    Large,
    /// A partition for each blog.
    Small,
    /// A partition for each channel and month, the newest month of the newest year first.
    Medium,
}

impl Layout {
    const ALL: [Self; 3] = [Self::Large, Self::Small, Self::Medium];

    fn keys(self, channel: &str, created: DateTime) -> (String, String) {
        let time = newest_first(created);
        let (year, month, _) = date(created);
        match self {
            Self::Large => (channel.into(), time),
            Self::Small => (format!("{channel}_{time}"), String::new()),
            Self::Medium => (format!("{channel}_{}_{:02}", 9_999 - year, 13 - month), time),
        }
    }

    /// What finds a channel's blogs from one instant to before another, in this layout.
    fn between(self, channel: &str, from: DateTime, to: DateTime) -> String {
        let (newest, oldest) = (newest_first(to), newest_first(from));
        match self {
            Self::Large => format!(
                "PartitionKey eq '{channel}' and RowKey gt '{newest}' and RowKey le '{oldest}'"
            ),
            Self::Small => format!(
                "PartitionKey gt '{channel}_{newest}' and PartitionKey le '{channel}_{oldest}'"
            ),
            Self::Medium => {
                let (high, _) = self.keys(channel, from);
                let (low, _) = self.keys(channel, to);
                format!(
                    "PartitionKey ge '{low}' and PartitionKey le '{high}' \
                     and RowKey gt '{newest}' and RowKey le '{oldest}'"
                )
            }
        }
    }

    /// Three years of blogs, one a day and channel at noon.
    fn fill(self, db: &TestDb) -> EntityTable {
        let blogs = table(db, "Blogs");
        let noon = after(at(FIRST_DAY), DAY / 2);
        let all = (0..DAYS).flat_map(|n| CHANNELS.map(|channel| (channel, after(noon, n * DAY))));
        let report = blogs.import(all.map(|(channel, created)| {
            let (partition, row) = self.keys(channel, created);
            Entity::new(partition, row).with("Channel", channel).with("Created", created)
        }));
        report.unwrap();
        blogs
    }
}

fn created(entities: &[Entity]) -> Vec<DateTime> {
    entities.iter().map(|entity| entity.get_as("Created").unwrap()).collect()
}

/// Noon of the days from one to before another, newest first.
fn noons(from: &str, to: &str) -> Vec<DateTime> {
    let (from, to) = (at(from), at(to));
    let days = (to.ticks() - from.ticks()) / DAY;
    (0..days).rev().map(|n| after(from, n * DAY + DAY / 2)).collect()
}

/// U-10: the same questions have the same answers in every layout, and cost what they return.
#[test]
fn u_10_partitions_of_any_size_answer_alike_at_the_cost_of_the_answer() {
    for layout in Layout::ALL {
        for depth in [Depth::Flushed, Depth::Compacted] {
            let db = TestDb::new();
            let blogs = layout.fill(&db);
            depth.settle(&db);
            let context = format!("{layout:?} {depth:?}");
            for (from, to) in [
                ("2008-02-29", "2008-03-01"),
                ("2009-12-25", "2010-01-01"),
                ("2008-09-20", "2008-11-10"),
                ("2008-01-01", "2009-01-01"),
            ] {
                let text = layout.between("Football", at(from), at(to));
                let page = page(&blogs, &text);
                let found = page.to_entities().unwrap();
                assert_eq!(created(&found), noons(from, to), "{context}: {text}");
                assert!(found.iter().all(|e| e.get_as("Channel") == Some("Football")));
                // A few more at the ends, and for each partition that is skipped through.
                let months = noons(from, to).len() as u64 / 28 + 2;
                let most = found.len() as u64 + 8 * months;
                assert!(page.examined() <= most, "{context}: {} for {text}", page.examined());
            }
            let channel = "PartitionKey ge 'Football' and PartitionKey lt 'Footbalm'";
            let ten = blogs.query().filter(filter(channel)).top(10).page().unwrap();
            let newest = noons("2009-12-22", "2010-01-01");
            assert_eq!(created(&ten.to_entities().unwrap()), newest, "{context}");
            assert!(ten.examined() <= 11, "{context}: {} examined", ten.examined());
        }
    }
}

/// U-10 c: a month is a partition, a year a range of them, in pages (C-33: with the right bounds).
#[test]
fn u_10_a_month_is_one_partition_and_a_year_is_a_range_of_them() {
    let db = TestDb::new();
    let blogs = Layout::Medium.fill(&db);
    db.flush().unwrap();
    let october = page(&blogs, "PartitionKey eq 'Football_7991_03'");
    assert_eq!(created(&october.to_entities().unwrap()), noons("2008-10-01", "2008-11-01"));

    let year = "PartitionKey ge 'Football_7991' and PartitionKey lt 'Football_7992'";
    let query = || blogs.query().filter(filter(year)).limit(100);
    assert_eq!(query().explain().plan(), Plan::PartitionRange);
    let pages: Vec<_> = query().pages().map(|page| page.unwrap().len()).collect();
    assert_eq!(pages, [100, 100, 100, 66]);
    assert_eq!(created(&collect(query())), noons("2008-01-01", "2009-01-01"));

    let of_the_paper = "PartitionKey le 'Football_7991' and PartitionKey gt 'Football_7990'";
    let other_year = created(&page(&blogs, of_the_paper).to_entities().unwrap());
    assert_eq!(other_year, noons("2009-01-01", "2010-01-01"));
}

/// U-10 a: a large partition with lively traffic at its head is read there at the cost of the
/// head, while the rest of it lies in files.
#[test]
fn u_10_the_head_of_a_large_partition_is_read_and_written_without_its_tail() {
    const TAIL: u64 = 10_000;
    const HEAD: u64 = 1_000;
    let db = TestDb::new();
    let blogs = table(&db, "Blogs");
    let at_minute = |n: u64| after(at("2008-01-01"), n * 600_000_000);
    let blog = |n| Entity::new("Football", newest_first(at_minute(n))).with("N", n as i64);
    blogs.import((0..TAIL).map(blog)).unwrap();
    db.compact().unwrap();
    for n in TAIL..TAIL + HEAD {
        blogs.insert(&blog(n)).wait().unwrap();
        let ten = blogs.query().partition("Football").top(10).page().unwrap();
        let numbers: Vec<_> = ten.iter().map(|e| e.get_as::<i64>("N").unwrap().unwrap()).collect();
        let expected: Vec<_> = (0..10).map(|back| (n - back) as i64).collect();
        assert_eq!(numbers, expected);
        assert!(ten.examined() <= 11, "{} examined", ten.examined());
    }
}

/// U-11: in the dead season a partition is a month, else a week of a month.
fn seasonal(channel: &str, created: DateTime) -> (String, String) {
    let (year, month, day) = date(created);
    let month_key = format!("{channel}_{}_{:02}", 9_999 - year, 13 - month);
    let partition = match month {
        3..=7 => month_key,
        _ => format!("{month_key}_{:02}", 5 - ((day - 1) / 7 + 1)),
    };
    (partition, newest_first(created))
}

fn seasonal_blogs(db: &TestDb) -> EntityTable {
    let blogs = table(db, "Blogs");
    // Every eight hours, at midnight too.
    let all = (0..366 * 3).map(|n| after(at("2008-01-01"), n * DAY / 3));
    let entities = all.flat_map(|created| {
        CHANNELS.map(|channel| {
            let (partition, row) = seasonal(channel, created);
            Entity::new(partition, row).with("Channel", channel).with("Created", created)
        })
    });
    blogs.import(entities).unwrap();
    blogs
}

fn every_eight_hours(from: &str, to: &str) -> Vec<DateTime> {
    let (from, to) = (at(from), at(to));
    let count = (to.ticks() - from.ticks()) * 3 / DAY;
    (0..count).rev().map(|n| after(from, n * DAY / 3)).collect()
}

/// U-11: both schemes live in one table; a day is a range of rows of one partition (C-32: from the
/// newer end, exclusive, to the older), a month is a range of PartitionKeys in either scheme.
#[test]
fn u_11_two_schemes_of_partition_keys_live_in_one_table() {
    assert_eq!(seasonal("Football", at("2008-10-03")).0, "Football_7991_03_04");
    assert_eq!(seasonal("Football", at("2008-07-03")).0, "Football_7991_06");
    for depth in Depth::ALL {
        let db = TestDb::new();
        let blogs = seasonal_blogs(&db);
        depth.settle(&db);
        for (partition, day, next_day, newest, oldest) in [
            (
                "Football_7991_06",
                "2008-07-03",
                "2008-07-04",
                "2521871711999999999",
                "2521872575999999999",
            ),
            (
                "Football_7991_03_04",
                "2008-10-03",
                "2008-10-04",
                "2521792223999999999",
                "2521793087999999999",
            ),
        ] {
            assert_eq!(newest_first(at(next_day)), newest);
            assert_eq!(newest_first(at(day)), oldest);
            let in_partition = format!("PartitionKey eq '{partition}'");
            let text = format!("{in_partition} and RowKey gt '{newest}' and RowKey le '{oldest}'");
            let of_day = page(&blogs, &text);
            let found = created(&of_day.to_entities().unwrap());
            // Midnight belongs to the day that it begins.
            assert_eq!(found, every_eight_hours(day, next_day), "{depth:?}");
            assert!(of_day.examined() <= 4, "{depth:?}: {}", of_day.examined());

            let swapped =
                format!("{in_partition} and RowKey ge '{oldest}' and RowKey lt '{newest}'");
            assert!(page(&blogs, &swapped).is_empty());
        }
        for (low, high, from, to) in [
            ("Football_7991_03", "Football_7991_04", "2008-10-01", "2008-11-01"),
            ("Football_7991_06", "Football_7991_07", "2008-07-01", "2008-08-01"),
            // The whole year, over both schemes.
            ("Football_7991", "Football_7992", "2008-01-01", "2009-01-01"),
        ] {
            let text = format!("PartitionKey ge '{low}' and PartitionKey lt '{high}'");
            let found = created(&collect(blogs.query().filter(filter(&text))));
            assert_eq!(found, every_eight_hours(from, to), "{depth:?} {low}");
        }
    }
}
