//! U-14: a channel is deleted with all its blogs, over two tables, by a worker that takes its task
//! from a queue (§7.2). No transaction spans the tables: the task stays in the queue until every
//! step is done, and every step can be done again.

use tablestone::{Database, Entity, EntityBatch, Error, Precondition, Result};

use crate::support::TestDb;
use crate::support::sim::CRASH_STYLES;
use crate::world::{everything, get, machine, open, page, table};

const CHANNELS: [&str; 3] = ["Baseball", "Football", "Tennis"];

fn fill(database: &Database, blogs: u32) {
    let (channel_table, blog_table) = (table(database, "Channels"), table(database, "Blogs"));
    for channel in CHANNELS {
        let entity = Entity::new(channel, "").with("Owner", "Jim").with("IsValid", true);
        channel_table.insert(&entity).wait().unwrap();
        let blogs = (0..blogs).map(|n| {
            Entity::new(channel, format!("{n:05}")).with("Title", "A day").with("UserId", "Jim")
        });
        blog_table.import(blogs).unwrap();
    }
}

/// What the worker does for one task. What an earlier attempt did is not there to be done.
fn delete_channel(database: &Database, channel: &str) -> Result<()> {
    let channels = database.table("Channels")?.entities();
    let blogs = database.table("Blogs")?.entities();
    let or_done = |outcome| match outcome {
        Err(Error::EntityNotFound { .. }) => Ok(()),
        other => other.map(|_| ()),
    };
    let invalid = Entity::new(channel, "").with("IsValid", false);
    or_done(channels.merge(&invalid, Precondition::Exists).wait())?;
    let keys_only: [&str; 0] = [];
    for page in blogs.query().partition(channel).select(keys_only).limit(100).pages() {
        let mut batch = EntityBatch::new(channel);
        for blog in &page? {
            batch.delete(blog.row_key(), Precondition::None);
        }
        if !batch.is_empty() {
            blogs.commit(batch).wait()?;
        }
    }
    or_done(channels.delete(channel, "", Precondition::Exists).wait())
}

fn blogs_of(database: &Database, channel: &str) -> usize {
    page(&table(database, "Blogs"), &format!("PartitionKey eq '{channel}'")).len()
}

#[test]
fn u_14_a_crash_at_any_point_is_made_good_by_doing_the_task_again() {
    const BLOGS: usize = 250;
    for style in CRASH_STYLES {
        for operations in 0.. {
            let (env, options) = machine(operations);
            let mut database = open(&options).unwrap();
            fill(&database, BLOGS as u32);
            let mut attempts = 0;
            loop {
                attempts += 1;
                // Later attempts get further, to be cut somewhere else.
                env.crash_after(operations * attempts);
                let outcome = delete_channel(&database, "Football");
                drop(database);
                env.crash(style);
                database = open(&options).unwrap();

                let context = format!("{style:?}, {operations} operations, attempt {attempts}");
                let left = blogs_of(&database, "Football");
                let channel = table(&database, "Channels").get("Football", "").unwrap();
                match channel.as_ref().map(|channel| channel.get_as("IsValid").unwrap()) {
                    Some(true) => assert_eq!(left, BLOGS, "{context}: not marked"),
                    // Marked: some of the blogs are left, all, or none.
                    Some(false) => {}
                    None => assert_eq!(left, 0, "{context}: blogs without a channel"),
                }
                if outcome.is_ok() {
                    assert_eq!((channel, left), (None, 0), "{context}: done, and undone");
                    break;
                }
                if operations == 0 {
                    break;
                }
            }
            for other in ["Baseball", "Tennis"] {
                assert_eq!(blogs_of(&database, other), BLOGS, "{style:?} {operations}");
                let channel = get(&table(&database, "Channels"), other, "");
                assert_eq!(channel.get_as("IsValid"), Some(true));
            }
            if attempts == 1 && operations > 0 {
                break;
            }
        }
    }
}

/// U-14: the task is in the queue twice, or its deletion was lost: doing it again changes nothing.
#[test]
fn u_14_a_task_that_was_done_can_be_done_again() {
    let db = TestDb::new();
    fill(&db, 130);
    delete_channel(&db, "Football").unwrap();
    let after = (everything(&table(&db, "Channels")), everything(&table(&db, "Blogs")));
    assert_eq!((after.0.len(), after.1.len()), (2, 260));
    delete_channel(&db, "Football").unwrap();
    assert_eq!((everything(&table(&db, "Channels")), everything(&table(&db, "Blogs"))), after);
}

/// U-14: where a partition was deleted row by row, a scan finds its neighbours; once compacted, at
/// no more than their cost, and before in pages of bounded work.
#[test]
fn u_14_a_scan_over_the_hole_finds_the_neighbours() {
    const BLOGS: u32 = 2_000;
    let db = TestDb::new();
    fill(&db, BLOGS);
    db.compact().unwrap();
    delete_channel(&db, "Football").unwrap();
    let blogs = table(&db, "Blogs");

    // The last rows before the hole, and the first ones behind it.
    let around = || blogs.query().partitions("Baseball".."U").rows("01999"..).limit(10);
    assert_eq!(around().pages().map(|page| page.unwrap().len()).sum::<usize>(), 2);
    let mut found = 0;
    for page in blogs.query().partitions("F"..).limit(100).examine_at_most(150).pages() {
        let page = page.unwrap();
        found += page.len() as u32;
        assert!(page.examined() <= 150, "{} examined", page.examined());
    }
    assert_eq!(found, BLOGS);

    db.compact().unwrap();
    let first = blogs.query().partitions("F"..).limit(10).page().unwrap();
    assert_eq!(first.iter().next().unwrap().partition_key(), "Tennis");
    assert!(first.examined() <= 11, "{} examined", first.examined());
    assert_eq!(everything(&blogs).len() as u32, 2 * BLOGS);
}
