//! P-17, P-20: one partition or as many as entities; work in many partitions at once.

use tablestone::{Durability, Entity, EntityTable};

use crate::support::task::join_all;
use crate::support::wait::Ended;
use crate::support::{Depth, TestDb, options};
use crate::{get, matching, page, row_keys, table};

const ENTITIES: usize = 4_000;

fn employee(partition_key: &str, id: usize) -> Entity {
    let entity = Entity::new(partition_key, format!("{id:06}"));
    entity.with("Id", id as i32).with("Name", format!("employee {id}"))
}

/// Both extremes hold the same entities: each is found, a query of all gives all in order, and a
/// partition of its own costs an entity no more than the bytes of its key.
#[test]
fn p_17_one_partition_for_all_and_one_for_each_both_work() {
    let ids = || (0..ENTITIES).map(|n| n * 7_919 % ENTITIES);
    let mut bytes = Vec::new();
    for alone in [false, true] {
        let db = TestDb::new();
        let employees = table(&db, "Employee");
        let partition = |id: usize| if alone { format!("{id:06}") } else { "000000".into() };
        employees.import(ids().map(|id| employee(&partition(id), id))).unwrap();
        for depth in Depth::ALL {
            depth.settle(&db);
            for id in (0..ENTITIES).step_by(97) {
                let found = get(&employees, &partition(id), &format!("{id:06}"));
                assert_eq!(found.get_as("Id"), Some(id as i32), "{depth:?}");
            }
            let all = employees.query().entities().map(|e| e.unwrap().get_as::<i32>("Id").unwrap());
            assert!(all.eq(0..ENTITIES as i32), "alone: {alone}, {depth:?}");
        }
        bytes.push(db.stats().file_bytes());
    }
    let extra = bytes[1].saturating_sub(bytes[0]) / ENTITIES as u64;
    assert!(extra <= 16, "a partition costs {extra} bytes of files");
}

/// A few rows for each user, who is a partition: a user's rows are one small query.
#[test]
fn p_17_a_user_is_a_partition_of_a_few_rows() {
    let db = TestDb::new();
    let users = table(&db, "Users");
    let rows = (0..1_000).flat_map(|user| {
        ["profile", "settings", "visit_2014"].map(|row| Entity::new(format!("user-{user:04}"), row))
    });
    users.import(rows).unwrap();
    for depth in Depth::ALL {
        depth.settle(&db);
        let user = page(&users, "PartitionKey eq 'user-0500'");
        assert_eq!((user.len(), user.examined()), (3, 3), "{depth:?}");
    }
}

fn scan(employees: &EntityTable, department: &str) -> Vec<String> {
    let pages = employees.query().partition(department).limit(10).pages();
    let entities = pages.flat_map(|page| page.unwrap().to_entities().unwrap());
    entities.map(|e| e.row_key().to_owned()).collect()
}

/// Threads that each read a department by pages, while others write to the same departments: all
/// that was there is read once and in order, nothing is lost.
#[test]
fn p_20_departments_are_scanned_at_once_while_they_are_written() {
    const DEPARTMENTS: usize = 4;
    let name = |department: usize| format!("dept-{department}");
    let db = TestDb::new();
    let employees = table(&db, "Employee");
    // Even ids at first; the odd ones come while the scans run.
    let even = (0..DEPARTMENTS).flat_map(|d| (0..300).map(move |n| employee(&name(d), 2 * n)));
    employees.import(even).unwrap();
    let written = Ended::default();
    std::thread::scope(|scope| {
        for department in 0..DEPARTMENTS {
            let (employees, written) = (&employees, &written);
            scope.spawn(move || {
                loop {
                    let last = written.get();
                    let found = scan(employees, &name(department));
                    assert!(found.is_sorted_by(|a, b| a < b), "each once, in order");
                    let even = found.iter().filter(|id| id.parse::<usize>().unwrap() % 2 == 0);
                    assert_eq!(even.count(), 300, "what was there all the time is always read");
                    if last {
                        assert_eq!(found.len(), 600);
                        return;
                    }
                }
            });
        }
        let ended = written.when_dropped();
        for n in 0..300 {
            for department in 0..DEPARTMENTS {
                let odd = employee(&name(department), 2 * n + 1);
                employees.insert_or_replace(&odd).wait().unwrap();
            }
        }
        drop(ended);
    });
}

/// Upserts of many partitions, all under way on one thread: all are done, and they share syncs.
#[test]
fn p_20_many_writes_under_way_share_syncs() {
    let db = TestDb::with(options().durability(Durability::Sync));
    let employees = table(&db, "Employee");
    let before = db.stats();
    let upserts = (0..64)
        .map(|id| employees.insert_or_replace(&employee(&format!("dept-{:02}", id % 16), id)));
    let versions: Vec<_> = join_all(upserts.collect()).into_iter().map(Result::unwrap).collect();
    assert!(versions.is_sorted_by(|a, b| a < b), "every write has a version of its own");
    let syncs = db.stats().syncs - before.syncs;
    assert!(syncs <= 8, "{syncs} syncs for 64 writes that were all under way");
    let department = matching(&employees, "PartitionKey eq 'dept-03'");
    assert_eq!(row_keys(&department), ["000003", "000019", "000035", "000051"]);
}
