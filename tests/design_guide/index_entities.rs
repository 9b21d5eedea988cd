//! P-05: index entities, lists of ids that are kept by ETag.

use tablestone::{
    Entity, EntityBatch, EntityError, EntityTable, EntityView, Error, Precondition, Result,
};

use crate::support::{Depth, TestDb, options};
use crate::{get, table};

const DEPARTMENT: &str = "Sales";

fn employee(id: u32, last: &str) -> Entity {
    Entity::new(DEPARTMENT, format!("{id:06}")).with("LastName", last).with("Age", 40)
}

/// The ids that an index row lists; none if there is no row.
fn listed(index: Option<&Entity>) -> Vec<String> {
    let ids = index.and_then(|index| index.get_as::<&str>("EmployeeIDs")).unwrap_or_default();
    ids.split_terminator(',').map(str::to_owned).collect()
}

fn index_row(last: &str, ids: &[String]) -> Entity {
    Entity::new(DEPARTMENT, last).with("EmployeeIDs", ids.join(","))
}

/// What an index row that was read, or was not there, must be when it is written.
fn unchanged(index: Option<&Entity>) -> Precondition {
    match index.and_then(Entity::version) {
        Some(version) => Precondition::Version(version),
        None => Precondition::Absent,
    }
}

/// One attempt to add an employee: both rows, if nobody else wrote the index in between.
fn try_add(employees: &EntityTable, employee: &Entity) -> Result<()> {
    let last = employee.get_as::<&str>("LastName").unwrap();
    let index = employees.get(DEPARTMENT, last)?;
    let mut ids = listed(index.as_ref());
    ids.push(employee.row_key().to_owned());
    let mut batch = EntityBatch::new(DEPARTMENT);
    batch.insert(employee).put(&index_row(last, &ids), unchanged(index.as_ref()));
    employees.commit(batch).wait().map(|_| ())
}

/// Adds an employee; starts again from the read whenever somebody else was faster.
fn add(employees: &EntityTable, employee: &Entity) {
    loop {
        match try_add(employees, employee) {
            Ok(()) => return,
            Err(Error::VersionMismatch { index: 1, .. } | Error::EntityExists { index: 1, .. }) => {
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// One read of the index row, then all employees it lists.
fn by_last_name(employees: &EntityView, last: &str) -> Vec<Option<Entity>> {
    let ids = listed(employees.get(DEPARTMENT, last).unwrap().as_ref());
    employees.get_many(DEPARTMENT, &ids).unwrap()
}

/// Threads that add employees of one last name: the list has every id once, although all of them
/// rewrite one entity.
#[test]
fn p_05_threads_that_add_to_one_list_lose_no_id() {
    const THREADS: u32 = 4;
    const EACH: u32 = 60;
    let db = TestDb::new();
    let employees = table(&db, "Employee");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let employees = &employees;
            scope.spawn(move || {
                for n in 0..EACH {
                    add(employees, &employee(thread * EACH + n, "Jones"));
                }
            });
        }
    });
    for depth in Depth::ALL {
        depth.settle(&db);
        let mut ids = listed(Some(&get(&employees, DEPARTMENT, "Jones")));
        ids.sort();
        let expected: Vec<_> = (0..THREADS * EACH).map(|id| format!("{id:06}")).collect();
        assert_eq!(ids, expected, "{depth:?}");
        let found = by_last_name(&employees, "Jones");
        assert!(found.iter().all(|e| e.as_ref().unwrap().get_as("LastName") == Some("Jones")));
        assert_eq!(found.len(), expected.len());
    }
}

/// An index row that somebody wrote after it was read fails the whole transaction, and the error
/// says which operation it was (G-127, G-128).
#[test]
fn p_05_a_stale_list_fails_the_whole_transaction() {
    let db = TestDb::new();
    let employees = table(&db, "Employee");
    add(&employees, &employee(1, "Jones"));
    let read = get(&employees, DEPARTMENT, "Jones");
    add(&employees, &employee(2, "Jones"));

    let mut batch = EntityBatch::new(DEPARTMENT);
    let ids = [listed(Some(&read)), vec!["000003".into()]].concat();
    batch.insert(&employee(3, "Jones")).put(&index_row("Jones", &ids), unchanged(Some(&read)));
    let late = employees.commit(batch).wait();
    match late {
        Err(Error::VersionMismatch { index: 1, expected, found }) => {
            assert_eq!(Some(expected), read.version());
            assert_eq!(Some(found), get(&employees, DEPARTMENT, "Jones").version());
        }
        other => panic!("{other:?}"),
    }
    assert!(!employees.exists(DEPARTMENT, "000003").unwrap(), "nothing was applied");
    assert_eq!(listed(Some(&get(&employees, DEPARTMENT, "Jones"))), ["000001", "000002"]);
}

/// A new last name touches three rows in one transaction, each with its own condition.
#[test]
fn p_05_a_rename_moves_the_id_between_two_lists_at_once() {
    let db = TestDb::new();
    let employees = table(&db, "Employee");
    for id in 1..=3 {
        add(&employees, &employee(id, "Jones"));
    }
    let old = get(&employees, DEPARTMENT, "Jones");
    let employee = get(&employees, DEPARTMENT, "000002");
    let left: Vec<_> = listed(Some(&old)).into_iter().filter(|id| id != "000002").collect();
    let mut batch = EntityBatch::new(DEPARTMENT);
    let renamed = Entity::new(DEPARTMENT, "000002").with("LastName", "Smith");
    batch
        .merge(&renamed, unchanged(Some(&employee)))
        .put(&index_row("Jones", &left), unchanged(Some(&old)))
        .put(&index_row("Smith", &["000002".into()]), unchanged(None));
    employees.commit(batch).wait().unwrap();

    let names = |last: &str| -> Vec<_> {
        let found = by_last_name(&employees, last).into_iter().map(Option::unwrap);
        found.map(|e| (e.row_key().to_owned(), e.get_as("LastName"))).collect()
    };
    let named = |id: &str, last: &str| (id.to_owned(), Some(last.to_owned()));
    assert_eq!(names("Jones"), [named("000001", "Jones"), named("000003", "Jones")]);
    assert_eq!(names("Smith"), [named("000002", "Smith")]);
    assert_eq!(get(&employees, DEPARTMENT, "000002").get_as("Age"), Some(40));
}

/// Option 3: the lists in a partition of their own name the department too; the look-ups then go
/// to several partitions.
#[test]
fn p_05_a_list_in_a_partition_of_its_own_names_both_keys() {
    let db = TestDb::new();
    let (employees, index) = (table(&db, "Employee"), table(&db, "ByLastName"));
    let places = [("Marketing", "000007"), ("Sales", "000003"), ("Sales", "000152")];
    for (department, id) in places {
        let employee = Entity::new(department, id).with("LastName", "Jones");
        employees.insert(&employee).wait().unwrap();
    }
    let pairs: Vec<_> = places.iter().map(|(pk, rk)| format!("{pk}/{rk}")).collect();
    let list = Entity::new("Jones", "Jones").with("EmployeeDetails", pairs.join(","));
    index.insert(&list).wait().unwrap();

    let list = get(&index, "Jones", "Jones");
    let details = list.get_as::<&str>("EmployeeDetails").unwrap();
    let found: Vec<_> = details.split(',').filter_map(|pair| pair.split_once('/')).collect();
    assert_eq!(found, places);
    for (department, id) in found {
        assert_eq!(get(&employees, department, id).get_as("LastName"), Some("Jones"));
    }
}

/// A list of almost a mebibyte: one String takes 64 KiB of UTF-16, so it is spread over several
/// properties; every rewrite is whole, and what goes beyond is refused and changes nothing.
#[test]
fn p_05_a_list_may_have_almost_a_mebibyte() {
    let db = TestDb::with(options().memory_budget(4 << 20));
    let index = table(&db, "ByLastName");
    let ids: Vec<_> = (0..70_000).map(|id| format!("{id:06}")).collect();
    // 7 characters with its comma, 4,681 to a property.
    let list = |ids: &[String]| {
        let parts = ids.chunks(4_681).enumerate();
        parts.fold(Entity::new(DEPARTMENT, "Jones"), |list, (part, ids)| {
            list.with(format!("EmployeeIDs{part}"), ids.join(","))
        })
    };
    let mut version = index.insert(&list(&ids[..69_995])).wait().unwrap();
    for end in 69_996..=70_000 {
        let precondition = Precondition::Version(version);
        version = index.replace(&list(&ids[..end]), precondition).wait().unwrap();
    }
    for depth in Depth::ALL {
        depth.settle(&db);
        let stored = get(&index, DEPARTMENT, "Jones");
        assert!(stored.size() > 950_000, "{}", stored.size());
        let parts = stored.properties().flat_map(|(_, part)| match part {
            tablestone::Value::String(ids) => ids.split(','),
            other => panic!("{other:?}"),
        });
        assert!(parts.eq(ids.iter()), "{depth:?}");
    }
    let beyond: Vec<_> = (0..76_000).map(|id| format!("{id:06}")).collect();
    match index.replace(&list(&beyond), Precondition::Version(version)).wait() {
        Err(Error::Entity { index: 0, source }) => {
            assert!(matches!(*source, EntityError::TooLarge { limit: 1_048_576, .. }), "{source}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(get(&index, DEPARTMENT, "Jones").version(), Some(version));
    let one_string = Entity::new(DEPARTMENT, "Jones").with("EmployeeIDs", ids.join(","));
    assert!(matches!(one_string.validate(), Err(EntityError::StringTooLong { .. })));
}
