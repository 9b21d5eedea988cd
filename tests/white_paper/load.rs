//! U-19: the load of one partition, and the same over many (§3.2.3). How fast it is, benches/engine.rs
//! measures; here, that peak load on one partition loses nothing and shares its syncs.

use std::thread;

use tablestone::{Durability, Entity, EntityTable, Error, Precondition};

use crate::support::{TestDb, options};
use crate::world::{collect, get, table};

const THREADS: usize = 4;
const ROUNDS: usize = 150;

fn partition(n: usize, partitions: usize) -> String {
    format!("Channel{:02}", n % partitions)
}

/// One client of the mix: inserts, a counter that all share, reads of what it wrote, deletes.
fn client(blogs: &EntityTable, id: usize, partitions: usize) {
    for n in 0..ROUNDS {
        let partition = partition(n, partitions);
        let row = format!("{id}-{n:04}");
        let blog = Entity::new(&partition, &row).with("Text", "some text").with("N", n as i32);
        let version = blogs.insert(&blog).wait().unwrap();
        let read = get(blogs, &partition, &row);
        assert_eq!((read.version(), read.get_as("N")), (Some(version), Some(n as i32)));
        loop {
            let counter = get(blogs, &partition, "counter");
            let more = counter.get_as::<i32>("Count").unwrap() + 1;
            let unchanged = Precondition::Version(counter.version().unwrap());
            match blogs.merge(&counter.with("Count", more), unchanged).wait() {
                Ok(_) => break,
                Err(Error::VersionMismatch { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        if n % 3 == 2 {
            blogs.delete(&partition, &row, Precondition::Version(version)).wait().unwrap();
        }
    }
}

#[test]
fn u_19_peak_load_on_one_partition_or_on_many_loses_nothing() {
    for partitions in [1, 10] {
        let db = TestDb::new();
        let blogs = table(&db, "Blogs");
        for n in 0..partitions {
            let counter = Entity::new(partition(n, partitions), "counter").with("Count", 0);
            blogs.insert(&counter).wait().unwrap();
        }
        thread::scope(|scope| {
            for id in 0..THREADS {
                let blogs = &blogs;
                scope.spawn(move || client(blogs, id, partitions));
            }
        });
        let all = collect(blogs.query());
        let counted: i32 = all.iter().filter_map(|entity| entity.get_as::<i32>("Count")).sum();
        assert_eq!(counted as usize, THREADS * ROUNDS, "{partitions} partitions");
        let kept = all.iter().filter(|entity| entity.get("N").is_some()).count();
        assert_eq!(kept, THREADS * ROUNDS * 2 / 3, "{partitions} partitions");
    }
}

/// Writers of one partition share syncs as those of many do: what is under way together becomes
/// durable together.
#[test]
fn u_19_writes_under_way_together_share_syncs_on_one_partition_too() {
    for partitions in [1, 10] {
        let db = TestDb::with(options().durability(Durability::Sync));
        let blogs = table(&db, "Blogs");
        let before = db.stats();
        let under_way: Vec<_> = (0..200)
            .map(|n| {
                blogs.insert(&Entity::new(partition(n, partitions), format!("{n:04}")).with("N", 1))
            })
            .collect();
        for write in under_way {
            write.wait().unwrap();
        }
        let after = db.stats();
        let (commits, syncs) = (after.commits - before.commits, after.syncs - before.syncs);
        assert_eq!(commits, 200);
        assert!(syncs < 50, "{syncs} syncs for {commits} commits, {partitions} partitions");
        assert_eq!(collect(blogs.query()).len(), 200);
    }
}
