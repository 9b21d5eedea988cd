//! U-17: tables that come and go (§9.1, §9.8).

use std::thread;

use tablestone::{Entity, Error};

use crate::support::TestDb;
use crate::support::sim::CRASH_STYLES;
use crate::world::{everything, machine, open, table};

fn blog(n: u32, text: &str) -> Entity {
    Entity::new(format!("Channel{}", n % 4), format!("{n:04}")).with("Text", text)
}

/// W-283, W-284: a name can be used again at once, and nothing of the earlier table shows.
#[test]
fn u_17_a_dropped_name_can_be_used_again_at_once_and_is_empty() {
    let mut db = TestDb::new();
    let mut old_handle = None;
    for round in 0..20u32 {
        let text = format!("round {round}");
        let blogs = db.create_table("Blogs").wait().unwrap().entities();
        let again = db.create_table("Blogs").wait();
        assert!(matches!(again, Err(Error::TableExists(_))), "{again:?}");
        assert_eq!(everything(&blogs), [], "round {round}");
        // Another number of rows each time, so that some of the old keys are not written again.
        for n in 0..100 - round * 4 {
            blogs.insert(&blog(n, &text)).wait().unwrap();
        }
        if round % 5 == 4 {
            drop((blogs, old_handle.take()));
            db.reopen();
        } else {
            old_handle = Some(blogs);
        }
        let blogs = db.table("Blogs").unwrap().entities();
        let found = everything(&blogs);
        assert_eq!(found.len() as u32, 100 - round * 4);
        assert!(found.iter().all(|entity| entity.get_as("Text") == Some(text.as_str())));
        db.drop_table("Blogs").wait().unwrap();
        for gone in old_handle.iter().chain([&blogs]) {
            let insert = gone.insert(&blog(0, "")).wait();
            assert!(matches!(insert, Err(Error::TableNotFound(_))), "{insert:?}");
            let read = gone.get("Channel0", "0000");
            assert!(matches!(read, Err(Error::TableNotFound(_))), "{read:?}");
        }
        let twice = db.drop_table("Blogs").wait();
        assert!(matches!(twice, Err(Error::TableNotFound(_))), "{twice:?}");
    }
}

/// W-286: names with a suffix, one table after the other, leave no residue.
#[test]
fn u_17_short_lived_tables_leave_nothing_behind() {
    let db = TestDb::new();
    for n in 0..100 {
        let blogs = table(&db, &format!("Blogs{n}"));
        blogs.import((0..200).map(|row| blog(row, &"text ".repeat(20)))).unwrap();
        if n >= 2 {
            db.drop_table(&format!("Blogs{}", n - 2)).wait().unwrap();
        }
    }
    assert_eq!(db.tables(None, 1_000).unwrap().names, ["Blogs98", "Blogs99"]);
    db.compact().unwrap();
    let entries: u64 = db.stats().levels.iter().map(|level| level.entries).sum();
    assert!(entries < 2 * 200 + 20, "{entries} entries for 400 rows and the catalog");
    // Written were 2 MB; the log keeps what a memtable or two hold.
    assert!(db.disk_bytes() < 1 << 20, "{} bytes in the directory", db.disk_bytes());
}

/// W-285: whoever creates the table before each insert gets the same table.
#[test]
fn u_17_creating_if_absent_before_each_insert_is_harmless() {
    let db = TestDb::new();
    thread::scope(|scope| {
        for part in 0..4u32 {
            let db = &db;
            scope.spawn(move || {
                for n in (part..400).step_by(4) {
                    table(db, "Blogs").insert(&blog(n, "text")).wait().unwrap();
                }
            });
        }
    });
    assert_eq!(everything(&table(&db, "Blogs")).len(), 400);
    assert_eq!(db.tables(None, 10).unwrap().names, ["Blogs"]);
}

/// W-280: of many concurrent creations one succeeds.
#[test]
fn u_17_one_of_many_concurrent_creations_succeeds() {
    let db = TestDb::new();
    for round in 0..30 {
        let name = format!("Blogs{round}");
        let won: usize = thread::scope(|scope| {
            let creators: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| match db.create_table(&name).wait() {
                        Ok(_) => 1,
                        Err(Error::TableExists(_)) => 0,
                        Err(error) => panic!("{error}"),
                    })
                })
                .collect();
            creators.into_iter().map(|creator| creator.join().unwrap()).sum()
        });
        assert_eq!(won, 1, "{name}");
    }
}

/// W-284: nor does anything of the earlier table show after a crash at any point of dropping it,
/// creating it again, and writing to it.
#[test]
fn u_17_a_crash_never_brings_back_rows_of_the_earlier_table() {
    for style in CRASH_STYLES {
        for operations in 0.. {
            let (env, options) = machine(operations);
            let database = open(&options).unwrap();
            let blogs = table(&database, "Blogs");
            blogs.import((0..50).map(|n| blog(n, "old"))).unwrap();
            database.flush().unwrap();
            blogs.import((50..100).map(|n| blog(n, "old"))).unwrap();
            env.crash_after(operations);
            let churn = || {
                database.drop_table("Blogs").wait()?;
                let blogs = database.create_table("Blogs").wait()?.entities();
                blogs.insert(&blog(3, "new")).wait()?;
                blogs.insert(&blog(60, "new")).wait()
            };
            let outcome = churn();
            drop((database, blogs));
            env.crash(style);

            let database = open(&options).unwrap();
            let context = format!("{style:?} after {operations}: {outcome:?}");
            let texts: Vec<_> = match database.table("Blogs") {
                Ok(blogs) => everything(&blogs.entities())
                    .iter()
                    .map(|entity| entity.get_as::<&str>("Text").unwrap().to_owned())
                    .collect(),
                Err(Error::TableNotFound(_)) => Vec::new(),
                Err(error) => panic!("{context}: {error}"),
            };
            let is_old = texts.len() == 100 && texts.iter().all(|text| text == "old");
            let is_new = texts.len() <= 2 && texts.iter().all(|text| text == "new");
            assert!(is_old || is_new, "{context}: {texts:?}");
            if outcome.is_ok() {
                assert_eq!(texts, ["new", "new"], "{context}");
                assert!(operations > 0);
                break;
            }
        }
    }
}
